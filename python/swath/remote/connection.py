"""Kept-alive connections to checked servers, shared by all files of a process."""

from __future__ import annotations

import atexit
import http.client
import io
import os
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any

from .._settings import number, seconds, workers
from .address import DEFAULT_PORTS, Origin

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 30.0
TOTAL_TIMEOUT = 600.0
MIN_RATE = 1024
"""The rate in bytes per second below which a server is given up."""
MAX_INTERIM = 16
"""The number of interim replies (status 1xx) that may come before the reply."""
KEPT_IDLE = 32
"""The number of idle connections that are kept open, for all servers together."""


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    # Loading the certificates of the system takes 10 to 50 ms.
    return ssl.create_default_context()


class GivenUpError(TimeoutError):
    """The server is too slow. Another attempt would not be faster."""


class Pace:
    """The time that one request may take, with its redirects and repetitions, and the rate at which bytes must arrive.

    A timeout of the socket is not enough: it starts again with each byte.
    """

    def __init__(self) -> None:
        self._patience = seconds("HTTP_READ_TIMEOUT", READ_TIMEOUT)
        self._total = seconds("HTTP_TOTAL_TIMEOUT", TOTAL_TIMEOUT)
        self._rate = number("HTTP_MIN_RATE", MIN_RATE, least=0)
        self._end = time.monotonic() + self._total
        self._since: float | None = None
        self._received = 0

    def remaining(self, most: float | None = None) -> float:
        """Returns the seconds until the deadline, or `most` if that is less. Raises GivenUpError after the deadline."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise GivenUpError(f"the request took longer than {self._total:g} s (SWATH_HTTP_TOTAL_TIMEOUT)")
        return min(left, self._patience if most is None else most)

    def start(self) -> None:
        """Starts to measure the rate with the next byte."""
        self._since = None

    def note(self, count: int) -> None:
        """Counts bytes that have arrived. Raises GivenUpError if they arrive too slowly."""
        now = time.monotonic()
        if self._since is None:
            self._since, self._received = now, 0
        self._received += count
        elapsed = now - self._since
        if count and elapsed >= self._patience:
            if self._received < self._rate * elapsed:
                raise GivenUpError(f"the server sends less than {self._rate} bytes per second (SWATH_HTTP_MIN_RATE)")
            self._since, self._received = now, 0


class _PacedReader(io.RawIOBase):
    """The bytes that arrive on a socket, at a pace that is checked."""

    def __init__(self, sock: socket.socket, pace: Pace) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._pace = pace
        pace.start()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._pace.remaining())
        try:
            count: int | None = self._raw.readinto(buffer)
        except TimeoutError:
            self._pace.remaining()
            raise
        self._pace.note(count or 0)
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Reply(http.client.HTTPResponse):
    """A reply that must arrive at a minimum rate, after a limited number of interim replies."""

    def __init__(self, sock: socket.socket, *args: Any, pace: Pace, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self.fp = io.BufferedReader(_PacedReader(sock, pace))

    def _read_status(self) -> tuple[str, int, str]:
        for _ in range(MAX_INTERIM + 1):
            found: tuple[str, int, str] = super()._read_status()  # type: ignore[misc]
            if not 100 <= found[1] < 200 or found[1] == http.HTTPStatus.SWITCHING_PROTOCOLS:
                return found
            http.client.parse_headers(self.fp)
        raise GivenUpError(f"the server sent more than {MAX_INTERIM} interim replies")


class Connection(http.client.HTTPConnection):
    """A connection to one of the checked addresses of a server.

    The host name is used only in the Host header and to verify the certificate.
    """

    def __init__(self, origin: Origin) -> None:
        super().__init__(origin.host, origin.port)
        self.default_port = DEFAULT_PORTS[origin.scheme]
        self.origin = origin
        self.used = False
        self._pace = Pace()

    def exchange(self, method: str, target: str, headers: dict[str, str], pace: Pace) -> http.client.HTTPResponse:
        """Sends a request and returns its reply, whose body arrives later, within the time that `pace` allows."""
        self._pace = pace
        self.response_class = partial(_Reply, pace=pace)  # type: ignore[assignment]
        if self.sock is not None:
            self.sock.settimeout(pace.remaining())
        self.request(method, target, headers=headers)
        return self.getresponse()

    def connect(self) -> None:
        """Connects to the first address that answers."""
        last: OSError | None = None
        for family, address in self.origin.addresses:
            try:
                self.sock = self._open(family, address)
            except OSError as error:
                last = error
            else:
                return
        raise last if last is not None else ConnectionError(f"{self.host} has no addresses")

    def _open(self, family: socket.AddressFamily, address: tuple[object, ...]) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(self._pace.remaining(seconds("HTTP_CONNECT_TIMEOUT", CONNECT_TIMEOUT)))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.origin.scheme == "https":
                sock = _tls().wrap_socket(sock, server_hostname=self.host)
            sock.settimeout(self._pace.remaining())
        except BaseException:
            sock.close()
            raise
        return sock


class Pool:
    """Idle connections, least recently used first, and the threads that wait for replies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._threads: dict[int, ThreadPoolExecutor] = {}

    def take(self, origin: Origin) -> Connection:
        """Returns an idle connection or a new one."""
        with self._lock:
            for i in reversed(range(len(self._idle))):
                if self._idle[i].origin == origin:
                    return self._idle.pop(i)
        return Connection(origin)

    def give(self, connection: Connection) -> None:
        """Stores a connection whose last reply was read completely."""
        connection.used = True
        with self._lock:
            self._idle.append(connection)
            surplus = self._idle.pop(0) if len(self._idle) > KEPT_IDLE else None
        if surplus is not None:
            surplus.close()

    def forget(self, origin: Origin) -> None:
        """Closes the idle connections to a server: it has closed one of them, so it has probably closed the others."""
        with self._lock:
            stale = [connection for connection in self._idle if connection.origin == origin]
            self._idle = [connection for connection in self._idle if connection.origin != origin]
        for connection in stale:
            connection.close()

    def close(self) -> None:
        """Closes all idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def threads(self) -> ThreadPoolExecutor:
        """The threads in which requests wait for their replies."""
        count = workers()
        with self._lock:
            if count not in self._threads:
                self._threads[count] = ThreadPoolExecutor(count, thread_name_prefix="swath-http")
            return self._threads[count]


_pool = Pool()
_inherited: list[Pool] = []


def pool() -> Pool:
    """Returns the connections of this process."""
    return _pool


def _after_fork() -> None:
    # A forked child must not use the connections of its parent: two processes on one stream would read each other's
    # replies. The child does not close them either, because for TLS a close sends a message that would end the stream
    # of the parent.
    global _pool
    _inherited.append(_pool)
    _pool = Pool()


atexit.register(lambda: _pool.close())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
