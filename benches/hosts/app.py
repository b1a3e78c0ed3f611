# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A web application: app.py ADDRESS PORT DATABASE FAULT SQL BYTES. A thread and a database session a connection; FAULT
is what it does before it asks the database."""

import fcntl
import http.server
import os
import socket
import struct
import sys
import tempfile
import threading
import time

ADDRESS, PORT, DATABASE, FAULT, SQL, BYTES = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5], int(sys.argv[6])
LOCK = threading.Lock()
BODY = os.urandom(BYTES // 2).hex().encode()
FILE = os.open(tempfile.mktemp(dir=os.getcwd()), os.O_CREAT | os.O_WRONLY)


class Session:
    """PostgreSQL's protocol, version 3: as much of it as a simple query needs."""

    def __init__(self):
        self.s = socket.create_connection((DATABASE, 5432))
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        words = b"".join(w + b"\0" for w in (b"user", b"postgres", b"database", b"postgres")) + b"\0"
        self.s.sendall(struct.pack("!ii", len(words) + 8, 196608) + words)
        self.ready()

    def ready(self):
        """Reads until the server is ready for a query."""
        data = b""
        while True:
            while len(data) >= 5 and len(data) >= 1 + (length := struct.unpack("!i", data[1:5])[0]):
                kind, data = data[:1], data[1 + length:]
                if kind == b"Z":
                    return
            more = self.s.recv(65536)
            if not more:
                raise EOFError("the database closed the connection")
            data += more

    def ask(self, sql):
        words = sql.encode() + b"\0"
        self.s.sendall(b"Q" + struct.pack("!i", len(words) + 4) + words)
        self.ready()


def fault():
    if FAULT == "lock":
        with LOCK:
            time.sleep(0.01)
    elif FAULT == "compute":
        until = time.thread_time() + 0.005
        while time.thread_time() < until:
            pass
    elif FAULT == "sync":
        os.pwrite(FILE, b"x" * 4096, 0)
        os.fsync(FILE)
    elif FAULT == "flock":
        with open(f"/proc/self/fd/{FILE}", "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(0.01)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    session = None

    def setup(self):
        super().setup()
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self):
        fault()
        if SQL:
            self.session = self.session or Session()
            self.session.ask(SQL)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(BODY)))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64


Server((ADDRESS, PORT), Handler).serve_forever()
