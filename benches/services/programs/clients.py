# SPDX-License-Identifier: Apache-2.0 OR MIT
"""HTTP clients, each with a connection that stays: PORT CLIENTS THINK PATH COUNTS. Writes mean and longest answer."""

import http.client
import sys
import threading
import time

port, clients, think, path, counts = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5]
times, lock = [], threading.Lock()


def ask():
    server = http.client.HTTPConnection("127.0.0.1", port)
    while True:
        begin = time.monotonic()
        server.request("GET", path)
        server.getresponse().read()
        with lock:
            times.append(time.monotonic() - begin)
        time.sleep(think)


for _ in range(clients):
    threading.Thread(target=ask, daemon=True).start()
while True:
    time.sleep(0.5)
    with lock:
        text = f"{len(times)} answers to clients, {sum(times) / max(len(times), 1) * 1e3:.1f} ms mean"
    with open(counts, "w") as f:
        f.write(text)
