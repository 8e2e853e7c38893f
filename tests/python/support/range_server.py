"""A web server for tests: it serves byte ranges, counts requests, and misbehaves on request."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    span: tuple[int, int] | None
    """Start and stop of the range."""
    headers: dict[str, str] = field(compare=False)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RangeServer
    # Without this, small replies wait for 40 ms.
    disable_nagle_algorithm = True

    def setup(self) -> None:
        with self.server.lock:
            self.server.connections += 1
        super().setup()

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        stated = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        self.span = (int(stated[1]), int(stated[2]) + 1) if stated else None
        with self.server.lock:
            self.server.requests.append(Request(self.command, self.path, self.span, dict(self.headers)))
        path = self.path.partition("?")[0]
        answer = self.server.answers.get(path)
        if answer is None or not answer(self):
            self.serve(self.server.files.get(path))

    def serve(self, data: bytes | None, **headers: str) -> None:
        """Answers like a correct server."""
        if data is None:
            self.reply(404)
        elif self.span is None:
            self.reply(200, data, **headers)
        elif self.span[0] >= len(data):
            self.reply(416, Content_Range=f"bytes */{len(data)}")
        else:
            start, stop = self.span[0], min(self.span[1], len(data))
            stated = {"Content_Range": f"bytes {start}-{stop - 1}/{len(data)}"} | headers
            self.reply(206, data[start:stop], **stated)

    def reply(self, status: int, body: bytes = b"", **headers: str) -> bool:
        """Sends any reply; underscores in header names become dashes, and an empty header is omitted."""
        self.send_response(status)
        for name, value in ({"Content_Length": str(len(body))} | headers).items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        return True

    def log_message(self, format: str, *args: object) -> None:
        pass


class RangeServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.files: dict[str, bytes] = {}
        self.requests: list[Request] = []
        self.connections = 0
        self.answers: dict[str, Callable[[Handler], bool]] = {}
        """The reply that a test defines, by path; False to reply like a good server."""

    def url(self, path: str = "/a.tif") -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def spans(self, path: str = "/a.tif") -> list[tuple[int, int] | None]:
        return [request.span for request in self.requests if request.path == path]

    def handle_error(self, request: object, client_address: object) -> None:
        # Clients close the connection when they refuse a reply.
        pass


@contextmanager
def range_server() -> Iterator[RangeServer]:
    server = RangeServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
