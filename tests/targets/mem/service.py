# SPDX-License-Identifier: Apache-2.0
"""A web service that forgets no session, but all else: GET /PATH answers with how many it has."""

import http.server
import itertools
import json
import signal
import threading

sessions = {}
recent = []
numbers = itertools.count()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        basket = self.open_session()
        basket.append(self.path)
        recent.append({"path": self.path, "agent": self.headers["User-Agent"]})
        del recent[:-20]
        made = [{"number": number, "name": f"thing {number}"} for number in range(50)]
        body = json.dumps({"sessions": len(sessions), "things": made}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def open_session(self):
        session = sessions[next(numbers)] = {"basket": [], "seen": [], "wishes": []}  # leaks
        return session["basket"]


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
print(server.server_port, flush=True)
server.serve_forever()
print("sessions", len(sessions), flush=True)
