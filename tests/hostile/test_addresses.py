"""Addresses from strangers: schemes that reach inside, servers that never end, objects that change during a read."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import fsspec
import numpy as np
import pytest
import tifffile

import swath
from swath.errors import SourceChangedError, UnsafeURLError
from swath.remote.ranges import HEAD_BYTES

Answer = Callable[[socket.socket, str], None]
"""Answers a request, whose head is the text."""


@contextmanager
def server(answer: Answer) -> Iterator[str]:
    """A server of one function, in a thread for each connection. Yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.settimeout(60)
            try:
                while not stop.is_set():
                    head = b""
                    while b"\r\n\r\n" not in head:
                        part = connection.recv(4096)
                        if not part:
                            return
                        head += part
                    answer(connection, head.decode())
            except OSError:
                # The client has closed the connection.
                return

    def accept() -> None:
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        listener.close()


def span_of(head: str) -> tuple[int, int]:
    for line in head.splitlines():
        if line.lower().startswith("range:"):
            start, end = line.partition("=")[2].split("-")
            return int(start), int(end) + 1
    return 0, 1 << 62


def reply(connection: socket.socket, head: str, data: bytes, **headers: str) -> None:
    """Sends the requested part of the data."""
    if ".ovr" in head.split("\r\n", 1)[0]:
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        return
    start, stop = span_of(head)
    part = data[start:stop]
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(part)}", f"Content-Range: bytes {start}-{start + len(part) - 1}/{len(data)}"]
    connection.sendall(("HTTP/1.1 206 Partial Content\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode() + part)


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets URLs reach the servers of the tests, and shortens the patience."""
    monkeypatch.setenv("SWATH_ALLOW_PRIVATE_HOSTS", "1")
    monkeypatch.setenv("SWATH_HTTP_READ_TIMEOUT", "1")


@pytest.fixture
def image(tmp_path: Path) -> bytes:
    path = tmp_path / "image.tif"
    array = np.random.default_rng(1).integers(0, 255, (256, 512), "uint8")
    tifffile.imwrite(path, array, tile=(64, 64))
    return path.read_bytes()


CHAINS = [
    "simplecache::http://127.0.0.1:1/a.tif",
    "filecache::http://127.0.0.1:1/a.tif",
    "blockcache::http://127.0.0.1:1/a.tif",
    "dir::file:///etc/passwd",
    "simplecache::file:///etc/passwd",
    "SimpleCache::FILE:///etc/passwd",
    "zip://a.tif::http://127.0.0.1:1/a.zip",
    "zip://a.tif::/etc/a.zip",
    "tar://a.tif::file:///etc/a.tar",
    "reference::http://127.0.0.1:1/a.json",
    "memory://a::http://127.0.0.1:1/a.tif",
    "s3://bucket/a.tif::http://127.0.0.1:1/a.tif",
]
SCHEMES = [
    "ftp://127.0.0.1/a.tif",
    "FTP://127.0.0.1/a.tif",
    "sftp://127.0.0.1/a.tif",
    "ssh://127.0.0.1/a.tif",
    "smb://127.0.0.1/share/a.tif",
    "webhdfs://127.0.0.1/a.tif",
    "hdfs://127.0.0.1/a.tif",
    "dask://127.0.0.1/a.tif",
    "jupyter://127.0.0.1/a.tif",
    "zip://a.tif",
    "local:///etc/passwd",
    "git://path:a.tif",
    "github://org:repo@main/a.tif",
    "dbfs://127.0.0.1/a.tif",
    "libarchive://a.tif",
    "data://text/plain;base64,AAAA",
    "generic://a.tif",
    "nosuch://a.tif",
]


@pytest.mark.parametrize("url", CHAINS + SCHEMES)
def test_scheme_that_reaches_inside_is_refused_in_one_sentence(url: str, tmp_path: Path) -> None:
    with pytest.raises(UnsafeURLError, match="not allowed") as caught:
        swath.open_geotiff(url)
    assert "\n" not in str(caught.value) and "SWATH_ALLOW_SCHEMES" in str(caught.value)
    array = swath.open_geotiff(_small(tmp_path))
    with pytest.raises(UnsafeURLError, match="not allowed"):
        swath.to_geotiff(array, url)


def _small(folder: Path) -> str:
    tifffile.imwrite(folder / "small.tif", np.zeros((16, 16), "uint8"))
    return str(folder / "small.tif")


def test_scheme_can_be_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _small(tmp_path)
    monkeypatch.setenv("SWATH_ALLOW_SCHEMES", "local, simplecache")
    assert swath.open_geotiff(f"local://{path}").shape == (16, 16)
    assert swath.open_geotiff(f"simplecache::local://{path}").shape == (16, 16)
    with pytest.raises(UnsafeURLError, match="chained URL"):
        swath.open_geotiff("simplecache::http://127.0.0.1:1/a.tif")


def assert_given_up(url: str, within: float) -> str:
    start = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        swath.open_geotiff(url)
    assert time.monotonic() - start < within
    return str(caught.value)


def drip(connection: socket.socket, data: bytes) -> None:
    for byte in data:
        connection.sendall(bytes([byte]))
        time.sleep(0.2)


def test_server_that_drips_a_body_is_given_up(local: None, image: bytes) -> None:
    def answer(connection: socket.socket, head: str) -> None:
        size = min(span_of(head)[1], len(image))
        connection.sendall(
            b"HTTP/1.1 206 Partial Content\r\n"
            + f"Content-Length: {size}\r\nContent-Range: bytes 0-{size - 1}/{len(image)}\r\n\r\n".encode()
        )
        drip(connection, image[:size])

    with server(answer) as address:
        assert "SWATH_HTTP_MIN_RATE" in assert_given_up(f"{address}/a.tif", 10)


def test_server_that_drips_a_header_is_given_up(local: None) -> None:
    def answer(connection: socket.socket, head: str) -> None:
        drip(connection, b"HTTP/1.1 206 Partial Content\r\nX-Long: " + b"a" * 60_000)

    with server(answer) as address:
        assert "SWATH_HTTP_MIN_RATE" in assert_given_up(f"{address}/a.tif", 10)


@pytest.mark.parametrize("status", ["100 Continue", "102 Processing", "103 Early Hints"])
@pytest.mark.parametrize("pause", [0, 0.05])
def test_server_that_sends_interim_replies_for_ever_is_given_up(local: None, status: str, pause: float) -> None:
    def answer(connection: socket.socket, head: str) -> None:
        while True:
            connection.sendall(f"HTTP/1.1 {status}\r\nX-Padding: {'a' * 500}\r\n\r\n".encode())
            time.sleep(pause)

    with server(answer) as address:
        assert "interim replies" in assert_given_up(f"{address}/a.tif", 10)


def test_few_interim_replies_are_skipped(local: None, image: bytes) -> None:
    def answer(connection: socket.socket, head: str) -> None:
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
        reply(connection, head, image)

    with server(answer) as address:
        assert swath.open_geotiff(f"{address}/a.tif").shape == (256, 512)


def test_request_has_a_total_deadline(local: None, image: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is fast enough for the minimum rate, but does not come to an end."""
    monkeypatch.setenv("SWATH_HTTP_TOTAL_TIMEOUT", "2")

    def answer(connection: socket.socket, head: str) -> None:
        size = 1 << 40
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(size):
            connection.sendall(b"200\r\n" + bytes(512) + b"\r\n")
            time.sleep(0.05)

    with server(answer) as address:
        assert "SWATH_HTTP_TOTAL_TIMEOUT" in assert_given_up(f"{address}/a.tif", 10)


def test_redirects_and_retries_share_the_deadline(local: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWATH_HTTP_TOTAL_TIMEOUT", "1")

    def answer(connection: socket.socket, head: str) -> None:
        time.sleep(0.6)
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /again.tif\r\nContent-Length: 0\r\n\r\n")

    with server(answer) as address:
        assert "SWATH_HTTP_TOTAL_TIMEOUT" in assert_given_up(f"{address}/a.tif", 5)


OLD, NEW = formatdate(0, usegmt=True), formatdate(1, usegmt=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"ETag": '"a"'}, {"ETag": '"b"'}),
        ({"ETag": 'W/"a"'}, {"ETag": 'W/"b"'}),
        ({"Last_Modified": OLD}, {"Last_Modified": NEW}),
        ({"ETag": '"a"', "Last_Modified": OLD}, {"ETag": '"b"', "Last_Modified": OLD}),
        ({"ETag": '"a"', "Last_Modified": OLD}, {"ETag": '"a"', "Last_Modified": NEW}),
        ({"ETag": 'W/"a"'}, {"ETag": '"b"'}),
    ],
)
def test_change_that_one_validator_shows_is_an_error(
    local: None, image: bytes, before: dict[str, str], after: dict[str, str]
) -> None:
    changed = threading.Event()

    def answer(connection: socket.socket, head: str) -> None:
        reply(connection, head, image, **(after if changed.is_set() else before))

    with server(answer) as address:
        lazy = swath.open_geotiff(f"{address}/a.tif", chunks=128)
        changed.set()
        with pytest.raises(SourceChangedError):
            lazy.compute()


def test_change_of_the_size_is_an_error(local: None, image: bytes) -> None:
    changed = threading.Event()

    def answer(connection: socket.socket, head: str) -> None:
        reply(connection, head, image + b"more" if changed.is_set() else image)

    with server(answer) as address:
        lazy = swath.open_geotiff(f"{address}/a.tif", chunks=128)
        changed.set()
        with pytest.raises(SourceChangedError):
            lazy.compute()


def test_validator_that_a_proxy_weakens_or_drops_is_no_change(local: None, image: bytes) -> None:
    later = threading.Event()

    def answer(connection: socket.socket, head: str) -> None:
        headers = {"ETag": 'W/"a"'} if later.is_set() else {"ETag": '"a"', "Last_Modified": OLD}
        reply(connection, head, image, **headers)

    with server(answer) as address:
        lazy = swath.open_geotiff(f"{address}/a.tif", chunks=128)
        later.set()
        assert lazy.compute().shape == (256, 512)


@pytest.mark.parametrize("change", ["replaced", "removed", "same"])
def test_object_that_changes_between_requests_is_an_error(change: str, image: bytes) -> None:
    """A store without requests of its own to compare: the object gets other bytes of the same size."""
    store = fsspec.filesystem("memory")
    assert len(image) > 2 * HEAD_BYTES, "the pixels are not in the first request"
    store.pipe_file("/changing.tif", image)
    lazy = swath.open_geotiff("memory://changing.tif", chunks=64)
    if change == "removed":
        store.rm("/changing.tif")
    elif change == "replaced":
        store.pipe_file("/changing.tif", image[:-1] + b"x")
    if change == "same":
        assert lazy.compute().shape == lazy.shape
        return
    with pytest.raises((swath.SourceChangedError, FileNotFoundError)):
        lazy.compute()


FLOOD = bytes(1 << 20)


def _for_ever(start: bytes, part: bytes) -> Answer:
    """Sends the part again and again."""

    def answer(connection: socket.socket, _: str) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + start)
        while True:
            connection.sendall(part)

    return answer


def _redirect(to: str) -> Answer:
    return lambda connection, _: connection.sendall(
        f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()
    )


def _once(text: str) -> Answer:
    return lambda connection, _: connection.sendall(text.encode() + FLOOD)


ATTACKS: dict[str, Answer] = {
    "a body without an end": _for_ever(b"\r\n", FLOOD),
    "a header without an end": _for_ever(b"X: ", FLOOD),
    "headers without an end": _for_ever(b"", b"A: b\r\n" * 10_000),
    "chunks without an end": _for_ever(b"Transfer-Encoding: chunked\r\n\r\n", b"100000\r\n" + FLOOD + b"\r\n"),
    "a size of a chunk without an end": _for_ever(b"Transfer-Encoding: chunked\r\n\r\n", b"f" * (1 << 20)),
    "a redirect to a file": _redirect("file:///etc/passwd"),
    "a redirect to FTP": _redirect("ftp://127.0.0.1/a.tif"),
    "redirects in a circle": _redirect("/again"),
    "a length of terabytes": _once(
        "HTTP/1.1 206 P\r\nContent-Range: bytes 0-9/9999\r\nContent-Length: 99999999999999\r\n\r\n"
    ),
    "another range": _once("HTTP/1.1 206 P\r\nContent-Range: bytes 8-17/9999\r\nContent-Length: 10\r\n\r\n"),
    "a compressed body": _once("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1048576\r\n\r\n"),
    "no status": _once(""),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_reply_is_an_error_in_bounded_time_and_memory(local: None, attack: str) -> None:
    program = """
import resource, sys, swath
try:
    swath.open_geotiff(sys.argv[1])
except (OSError, ValueError):
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
    with server(ATTACKS[attack]) as address:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, f"{address}/a.tif"],
            capture_output=True,
            text=True,
            timeout=40,
        )
    assert int(done.stdout or 0) > 0, done.stderr
    assert int(done.stdout) < 400_000_000
