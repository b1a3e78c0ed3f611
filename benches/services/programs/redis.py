# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends one command to a Redis server over and over, and every hundredth time another: PORT WORD... [-- WORD...]"""

import socket
import sys

server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
answers = server.makefile("rb")
often, _, rarely = " ".join(sys.argv[2:]).partition(" -- ")
for n in range(1 << 62):
    command = sys.argv[2:] if not rarely else rarely.split() if n % 100 == 99 else often.split()
    words = [w.replace("{n}", str(n % 1000)).encode() for w in command]
    server.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
    head = answers.readline()
    if head.startswith(b"$") and not head.startswith(b"$-1"):
        answers.read(int(head[1:]) + 2)
