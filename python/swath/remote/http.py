"""Reads byte ranges of a file behind an http(s) URL, with the standard library only."""

from __future__ import annotations

import base64
import http.client
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from email.message import Message
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from ..errors import SourceChangedError, UnsafeURLError
from .address import Origin, check_url
from .connection import Connection, GivenUpError, Pace, pool
from .ranges import HEAD_BYTES

MAX_REDIRECTS = 5
RETRIES = 2
BACKOFF = 0.1
"""Seconds before the first retry; twice that before the second."""
MAX_WAIT = 5.0
"""The longest wait, in seconds, that a server may request before a retry."""
MAX_WHOLE = 16 << 20
"""The largest file accepted as a whole from a server that does not support ranges."""

_OURS = {"range", "host", "connection", "accept-encoding", "content-length", "transfer-encoding"}
_REDIRECTS = {301, 302, 303, 307, 308}
_WORTH_A_RETRY = {429, 500, 502, 503, 504}
_CONTENT_RANGE = re.compile(r"\s*bytes\s+(?:(\d+)\s*-\s*(\d+)|\*)\s*/\s*(\d+|\*)\s*\Z", re.IGNORECASE)


@dataclass(frozen=True)
class _Place:
    """The target of requests: a checked URL."""

    url: str
    origin: Origin
    target: str
    authorization: str | None


@dataclass(frozen=True)
class _Reply:
    status: int
    headers: Message
    body: bytes


def _place(url: str) -> _Place:
    parts, origin = check_url(url)
    # Quotes spaces and letters that are not allowed in a request line; parts that are already quoted stay.
    target = quote(parts.path or "/", safe="/%:=&~+!$,;'@()*") + (
        "?" + quote(parts.query, safe="/%:=&~+!$,;'@()*?") if parts.query else ""
    )
    authorization = None
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(user.encode()).decode()
    return _Place(url, origin, target, authorization)


def _is_of_the_network(error: Exception) -> bool:
    """Whether an error comes from the network. Errors raised for invalid replies have no errno."""
    if isinstance(error, OSError):
        return error.errno is not None or isinstance(error, ConnectionError | TimeoutError | ssl.SSLError)
    return True


def _opaque(etag: str | None) -> str | None:
    """Returns an ETag without the mark of a weak one. Servers on the way may turn a strong ETag into a weak one."""
    return None if etag is None else etag.strip().removeprefix("W/")


def _differ(found: str | None, first: str | None) -> bool:
    """Whether two validators contradict each other. A server may leave one out."""
    return found is not None and first is not None and found != first


def shown(url: str) -> str:
    """Returns a URL for messages, without a password."""
    parts = urlsplit(url)
    if parts.username is None:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class HttpFile:
    """A file behind a URL.

    The constructor requests its first bytes, which also gives its size. All threads may send requests.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, *, companion: str | None = None) -> None:
        self.url = url
        self._headers = dict(headers or {})
        if taken := {name.lower() for name in self._headers} & _OURS:
            raise ValueError(f"storage_options: the headers {', '.join(sorted(taken))} are set by each request itself")
        self.name = shown(url)
        self._first = self._last = _place(url)
        # A sidecar is requested while the first bytes are on their way, so opening takes one round trip, not two.
        self._companion = None if companion is None else pool().threads().submit(self._open_beside, companion)
        self._etag: str | None = None
        self._modified: str | None = None
        self.whole = False
        """Whether `head` is the complete file."""
        self.head = b""
        self.size = 0
        self._open()

    @property
    def identity(self) -> tuple[str | int | None, ...]:
        """Values that change with the content."""
        return self.size, self._etag, self._modified

    def read_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Returns the complete bytes from start to stop of each range.

        It sends all requests before it waits for the first reply.
        """
        if len(ranges) == 1:
            return [self._read(*ranges[0])]
        threads = pool().threads()
        replies: list[Future[bytes]] = [threads.submit(self._read, start, stop) for start, stop in ranges]
        try:
            return [reply.result() for reply in replies]
        finally:
            for reply in replies:
                reply.cancel()

    def beside(self, suffix: str) -> HttpFile | None:
        """Returns the file whose name is this one plus a suffix, or None if it cannot be read."""
        waiting, self._companion = self._companion, None
        return self._open_beside(suffix) if waiting is None else waiting.result()

    def _open_beside(self, suffix: str) -> HttpFile | None:
        parts = urlsplit(self.url)
        try:
            return HttpFile(urlunsplit(parts._replace(path=parts.path + suffix, fragment="")), self._headers)
        except (OSError, UnsafeURLError):
            return None

    def _open(self) -> None:
        reply = self._ask(0, HEAD_BYTES)
        self._etag = reply.headers.get("ETag")
        self._modified = reply.headers.get("Last-Modified")
        self.head = reply.body
        self.whole = reply.status != 206
        total = None if self.whole else self._span_of(reply)[2]
        self.size = len(self.head) if self.whole else total if total is not None else self._ask_size()
        self.whole = len(self.head) == self.size

    def _ask_size(self) -> int:
        reply = self._send("HEAD", None)
        if self._is_another(reply.headers):
            raise SourceChangedError(self.name)
        length = reply.headers.get("Content-Length", "")
        if reply.status != 200 or not length.isdecimal():
            raise OSError(f"{self.name}: the server does not report the size of the file")
        return int(length)

    def _read(self, start: int, stop: int) -> bytes:
        if self.whole:
            return self.head[start:stop]
        reply = self._ask(start, stop)
        if self._is_another(reply.headers):
            raise SourceChangedError(self.name)
        if reply.status != 206:
            raise OSError(f"{self.name}: the server sent the whole file, but bytes {start}-{stop - 1} were requested")
        first, last, total = self._span_of(reply)
        if total is not None and total != self.size:
            raise SourceChangedError(self.name)
        if last + 1 < stop:
            raise OSError(f"{self.name}: the server sent bytes {first}-{last}, but {start}-{stop - 1} were requested")
        return reply.body

    def _is_another(self, headers: Message) -> bool:
        """Whether the headers belong to other content: a validator differs from that of the first reply."""
        etag, modified = headers.get("ETag"), headers.get("Last-Modified")
        return _differ(_opaque(etag), _opaque(self._etag)) or _differ(modified, self._modified)

    def _span_of(self, reply: _Reply) -> tuple[int, int, int | None]:
        """Returns the first byte, the last byte and the size of the file from a 206 reply."""
        stated = reply.headers.get("Content-Range")
        if stated is None:
            raise OSError(f"{self.name}: HTTP 206 response missing Content-Range header")
        match = _CONTENT_RANGE.match(stated)
        if match is None or match[1] is None:
            raise OSError(f"{self.name}: HTTP Content-Range {stated!r} cannot be parsed")
        return int(match[1]), int(match[2]), None if match[3] == "*" else int(match[3])

    def _ask(self, start: int, stop: int) -> _Reply:
        """Returns the reply to a range request: status 206, or 200 if that is acceptable."""
        reply = self._send("GET", (start, stop))
        if reply.status == 416 and start == 0 and reply.headers.get("Content-Range", "").strip().endswith("*/0"):
            return _Reply(200, reply.headers, b"")
        if reply.status not in (200, 206):
            phrase = http.client.responses.get(reply.status, "unknown")
            kind = {401: PermissionError, 403: PermissionError, 404: FileNotFoundError, 410: FileNotFoundError}
            raise kind.get(reply.status, OSError)(
                f"{self.name}: HTTP range request returned status {reply.status} ({phrase}); expected 206 Partial "
                "Content (or 200 with full body)"
            )
        return reply

    def _send(self, method: str, span: tuple[int, int] | None) -> _Reply:
        """Sends a request and retries if the connection fails or the server reports a temporary problem."""
        pace = Pace()
        for attempt in range(RETRIES + 1):
            wait = BACKOFF * 2**attempt
            try:
                reply = self._follow(method, span, pace)
            except GivenUpError as error:
                raise TimeoutError(f"{self.name}: {error}") from error
            except ssl.SSLCertVerificationError as error:
                raise OSError(f"{self.name}: the certificate of the server is not valid: {error}") from error
            except (OSError, http.client.HTTPException) as error:
                if not _is_of_the_network(error):
                    raise
                if attempt == RETRIES:
                    kind = TimeoutError if isinstance(error, TimeoutError) else ConnectionError
                    text = str(error) or type(error).__name__
                    raise kind(f"{self.name}: no reply after {attempt + 1} attempts: {text}") from error
                # The host name may resolve to another address now.
                self._last = self._first = _place(self.url)
            else:
                if reply.status not in _WORTH_A_RETRY or attempt == RETRIES:
                    return reply
                asked = reply.headers.get("Retry-After", "")
                wait = max(wait, min(int(asked), MAX_WAIT) if asked.isdecimal() else 0)
            time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _follow(self, method: str, span: tuple[int, int] | None, pace: Pace) -> _Reply:
        """Sends a request to the place of the last reply and follows redirects. Each place is checked first."""
        place = self._last
        reply = self._exchange(place, method, span, pace)
        if place is not self._first and reply.status in (401, 403, 404, 410):
            # The target of a redirect may be valid only for minutes, so a retry starts at the original URL.
            place = self._first
            reply = self._exchange(place, method, span, pace)
        redirects = 0
        while reply.status in _REDIRECTS:
            redirects += 1
            if redirects > MAX_REDIRECTS:
                raise UnsafeURLError(f"More than {MAX_REDIRECTS} HTTP redirects starting from {self.name!r}", self.url)
            location = reply.headers.get("Location")
            if not location:
                raise OSError(f"{self.name}: HTTP redirect (status {reply.status}) without a Location header")
            place = _place(urljoin(place.url, location))
            reply = self._exchange(place, method, span, pace)
        self._last = place
        return reply

    def _exchange(self, place: _Place, method: str, span: tuple[int, int] | None, pace: Pace) -> _Reply:
        """Sends one request and returns its reply, on an idle connection if there is one."""
        headers = {"User-Agent": "swath", "Accept-Encoding": "identity", "Connection": "keep-alive"}
        if span is not None:
            headers["Range"] = f"bytes={span[0]}-{span[1] - 1}"
        # Credentials go only to the server for which they were given, not to targets of redirects.
        if place.origin.key == self._first.origin.key:
            if self._first.authorization is not None:
                headers["Authorization"] = self._first.authorization
            headers |= self._headers
        while True:
            connection = pool().take(place.origin)
            try:
                response = connection.exchange(method, place.target, headers, pace)
            except BaseException as error:
                connection.close()
                hung_up = isinstance(error, (ConnectionError, http.client.BadStatusLine))
                if connection.used and hung_up:
                    pool().forget(place.origin)
                    continue
                raise
            break
        return self._receive(connection, response, span)

    def _receive(
        self, connection: Connection, response: http.client.HTTPResponse, span: tuple[int, int] | None
    ) -> _Reply:
        """Reads the body of a reply if it is needed, and never more bytes than were requested."""
        try:
            if span is not None and response.status in (200, 206):
                body = self._body(response, *span)
            else:
                # The body is not needed; a short one is read so that the connection can be reused.
                response.read(1 << 16)
                body = b""
        finally:
            if response.isclosed() and not response.will_close:
                pool().give(connection)
            else:
                connection.close()
        return _Reply(response.status, response.headers, body)

    def _body(self, response: http.client.HTTPResponse, start: int, stop: int) -> bytes:
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise OSError(
                f"{self.name}: the server sent its reply in the encoding {encoding!r}, which was not requested"
            )
        if response.status == 206:
            first, last, _ = self._span_of(_Reply(206, response.headers, b""))
            stated = f"{self.name}: HTTP Content-Range {response.headers['Content-Range']!r}"
            if first != start:
                raise OSError(f"{stated} starts at byte {first}, but the request started at byte {start}")
            if not first <= last < stop:
                raise OSError(f"{stated} is not the requested range, bytes {start}-{stop - 1}")
            budget = last + 1 - first
        else:
            budget = max(MAX_WHOLE, stop) if start == 0 else stop - start
        length = response.length
        if length is not None and length > budget:
            raise OSError(
                f"{self.name}: HTTP range response declares Content-Length={length:,} bytes, which exceeds the "
                f"byte budget of {budget:,} bytes for this request. The server likely ignored the Range header."
            )
        body = response.read(budget) if length is None else response.read()
        if length is None and response.read(1):
            raise OSError(
                f"{self.name}: HTTP range response exceeds the byte budget of {budget:,} bytes for this request"
            )
        if response.status == 206 and len(body) != budget:
            raise OSError(
                f"{self.name}: HTTP range body length {len(body):,} does not match the {budget:,} bytes advertised by "
                f"Content-Range {response.headers['Content-Range']!r}"
            )
        return body
