"""Kept-alive connections to checked servers, shared by all files of a process."""

from __future__ import annotations

import atexit
import http.client
import os
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from .._settings import seconds, workers
from .address import DEFAULT_PORTS, Origin

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 30.0
KEPT_IDLE = 32
"""The number of idle connections that are kept open, for all servers together."""


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    # Loading the certificates of the system takes 10 to 50 ms.
    return ssl.create_default_context()


class Connection(http.client.HTTPConnection):
    """A connection to one of the checked addresses of a server.

    The host name is used only in the Host header and to verify the certificate.
    """

    def __init__(self, origin: Origin) -> None:
        super().__init__(origin.host, origin.port, timeout=seconds("HTTP_CONNECT_TIMEOUT", CONNECT_TIMEOUT))
        self.default_port = DEFAULT_PORTS[origin.scheme]
        self.origin = origin
        self.used = False

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
            sock.settimeout(self.timeout)
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.origin.scheme == "https":
                sock = _tls().wrap_socket(sock, server_hostname=self.host)
            sock.settimeout(seconds("HTTP_READ_TIMEOUT", READ_TIMEOUT))
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
