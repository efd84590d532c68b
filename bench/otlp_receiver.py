"""A receiver of OTLP over HTTP that answers every export and counts it. Runs as a process of its own.

python -m bench.otlp_receiver
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


class Counting(BaseHTTPRequestHandler):
    """POST takes an export, GET tells how many there were."""

    protocol_version = "HTTP/1.1"
    exports = 0

    def do_POST(self) -> None:
        """Read and forget."""
        self.rfile.read(int(self.headers.get("content-length", 0)))
        type(self).exports += 1
        self._answer(b"")

    def do_GET(self) -> None:
        """The count so far."""
        self._answer(str(self.exports).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def receiver() -> Iterator[str]:
    """The receiver in a process of its own; its address."""
    command = [sys.executable, "-m", "bench.otlp_receiver"]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait(10)


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    print(server.server_port, flush=True)
    server.serve_forever()
