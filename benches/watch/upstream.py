# SPDX-License-Identifier: Apache-2.0 OR MIT
"""An HTTP server, PORT FILE: answers at once, but for one request that takes 0.7 s after FILE appears."""

import http.server
import os
import sys
import time

port, file = int(sys.argv[1]), sys.argv[2]


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        try:
            os.unlink(file)
            time.sleep(0.7)
        except FileNotFoundError:
            pass
        # In one piece: between two there would be a delayed acknowledgement.
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer).serve_forever()
