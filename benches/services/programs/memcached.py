# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Asks a memcached for one value over and over, at most a thousand times a second: PORT"""

import socket
import sys
import time

server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
server.sendall(b"set a 0 0 5\r\nvalue\r\n")
server.recv(100)
while True:
    server.sendall(b"get a\r\n")
    server.recv(100)
    time.sleep(0.001)
