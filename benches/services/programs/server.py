# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An HTTP server with a thread for each connection whose requests have one cause: MODE PORT DIRECTORY."""

import http.server
import os
import queue
import socket
import socketserver
import sys
import threading
import time

mode, port, directory = sys.argv[1], int(sys.argv[2]), sys.argv[3]
lock, tasks = threading.Lock(), queue.Queue()


def compute(n):
    x = 0
    for i in range(n):
        x += i * i
    return x


def worker():
    while True:
        done = tasks.get()
        time.sleep(0.02)
        done.set()


def syncs():
    with lock, open(os.path.join(directory, "journal.log"), "ab") as f:
        f.write(b"x" * 200)
        f.flush()
        os.fsync(f.fileno())


def holds_lock():
    with lock:
        time.sleep(0.01)


def asks_worker():
    done = threading.Event()
    tasks.put(done)
    done.wait()


def asks_upstream():
    with socket.create_connection(("127.0.0.1", upstream)) as s:
        s.sendall(b"x")
        s.recv(1)


def slow_upstream(listening):
    while True:
        c, _ = listening.accept()
        c.recv(1)
        time.sleep(0.02)
        c.sendall(b"x")
        c.close()


def serve_upstream():
    listening = socket.create_server(("127.0.0.1", 0))
    # A process of its own, no child of the server.
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    elif os.fork():
        os._exit(0)
    else:
        for _ in range(3):
            threading.Thread(target=slow_upstream, args=(listening,), daemon=True).start()
        slow_upstream(listening)
    return listening.getsockname()[1]


MODES = {
    "gil": lambda: compute(200_000),
    "compute": lambda: compute(200_000),
    "sleep": lambda: time.sleep(0.05),
    "lock": holds_lock,
    "worker": asks_worker,
    "upstream": asks_upstream,
    "sync": syncs,
    "hello": lambda: compute(100),
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        MODES[mode]()
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


upstream = serve_upstream() if mode == "upstream" else 0
threading.Thread(target=worker, daemon=True).start()
Server(("127.0.0.1", port), Handler).serve_forever()
