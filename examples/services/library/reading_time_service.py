"""An HTTP service that a node sells as a tool: `python3 reading_time_service.py 9000`; takes {"text": …}."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS_PER_MINUTE = 220
MAX_BODY_BYTES = 262_144


class Handler(BaseHTTPRequestHandler):
    """Answers POST with the seconds that reading takes."""

    def do_POST(self) -> None:
        """Read the arguments, answer with JSON; 400 for anything else."""
        length = int(self.headers.get("Content-Length", "0"))
        try:
            text = json.loads(self.rfile.read(min(length, MAX_BODY_BYTES)))["text"]
            words = len(text.split())
        except (ValueError, KeyError, TypeError, AttributeError):
            self.send_error(400)
            return
        seconds = round(words * 60 / WORDS_PER_MINUTE)
        body = json.dumps({"seconds": seconds, "words": words}, separators=(",", ":")).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing about requests: they are what clients asked."""


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9_000
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
