# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Clients of a web server: client.py ADDRESS PORT CONNECTIONS PAUSE. Each connection asks, waits PAUSE s, asks again."""

import http.client
import sys
import threading
import time

ADDRESS, PORT, CONNECTIONS, PAUSE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])


def ask():
    connection = http.client.HTTPConnection(ADDRESS, PORT, timeout=30)
    while True:
        connection.request("GET", "/", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            sys.exit(f"{answer.status}")
        time.sleep(PAUSE)


threads = [threading.Thread(target=ask, daemon=True) for _ in range(CONNECTIONS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
