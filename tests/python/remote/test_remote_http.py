"""Ranges over http: wrong replies must not become pixels, and requests must be few and small."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from range_server import Handler, RangeServer, range_server
from swath.errors import UnsafeURLError
from swath.remote import connection as connection_module
from swath.remote import http
from swath.remote.http import HttpFile
from swath.remote.open import open_store

DATA = bytes(i * 7 % 251 for i in range(100_000))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeServer]:
    monkeypatch.setenv("SWATH_ALLOW_PRIVATE_HOSTS", "1")
    monkeypatch.setattr(http, "BACKOFF", 0.001)
    with range_server() as server:
        server.files["/a.tif"] = DATA
        yield server


def after_head(answer: Any) -> Any:
    """A reply for all requests except the first."""
    return lambda handler: handler.span[0] > 0 and answer(handler)


def test_opening_sends_one_request_for_size_and_head(server: RangeServer) -> None:
    file = HttpFile(server.url())
    assert (file.size, file.head) == (len(DATA), DATA[:16384])
    assert server.spans() == [(0, 16384)]


def test_a_file_shorter_than_the_head_is_complete_after_one_request(server: RangeServer) -> None:
    server.files["/a.tif"] = DATA[:1000]
    file = HttpFile(server.url())
    assert file.read_many([(0, 10), (990, 1000)]) == [DATA[:10], DATA[990:1000]]
    assert len(server.requests) == 1


def test_an_empty_file_has_no_bytes(server: RangeServer) -> None:
    server.files["/a.tif"] = b""
    file = HttpFile(server.url())
    assert (file.size, file.head) == (0, b"")


def test_ranges_are_returned_in_the_order_of_the_request(server: RangeServer) -> None:
    ranges = [(start, start + 100) for start in range(90_000, 17_000, -1_000)]
    assert HttpFile(server.url()).read_many(ranges) == [DATA[start:stop] for start, stop in ranges]


def test_connections_are_used_again_by_files_that_are_opened_later(server: RangeServer) -> None:
    for _ in range(3):
        file = HttpFile(server.url())
        for start in range(20_000, 30_000, 1_000):
            file.read_many([(start, start + 10)])
    assert len(server.requests) == 33
    assert server.connections == 1


def test_all_ranges_of_a_batch_are_requested_before_the_first_reply(server: RangeServer) -> None:
    file = HttpFile(server.url())
    meeting = threading.Barrier(8, timeout=30)
    # Each request waits for the seven others: a request that is sent after another reply would break the barrier.
    server.answers["/a.tif"] = after_head(lambda handler: meeting.wait() < 0)
    ranges = [(start, start + 100) for start in range(20_000, 28_000, 1_000)]
    assert file.read_many(ranges) == [DATA[start:stop] for start, stop in ranges]


def test_no_more_requests_are_under_way_than_workers(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWATH_HTTP_WORKERS", "3")
    file = HttpFile(server.url())
    under_way, most = 0, 0

    def answer(handler: Handler) -> bool:
        nonlocal under_way, most
        with server.lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.01)
        with server.lock:
            under_way -= 1
        return False

    server.answers["/a.tif"] = after_head(answer)
    file.read_many([(start, start + 10) for start in range(20_000, 40_000, 1_000)])
    assert 1 < most <= 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda h: h.reply(206, DATA[1:101], Content_Range="bytes 20001-20100/100000"), "starts at byte 20001"),
        (lambda h: h.reply(206, DATA[:100]), "missing Content-Range"),
        (lambda h: h.reply(206, DATA[:100], Content_Range="pages 20000-20099/100000"), "cannot be parsed"),
        (lambda h: h.reply(206, DATA[:100], Content_Range="bytes */100000"), "cannot be parsed"),
        (
            lambda h: h.reply(206, DATA[:95], Content_Range="bytes 20000-20099/100000"),
            "length 95 does not match the 100",
        ),
        (lambda h: h.reply(206, DATA[:50], Content_Range="bytes 20000-20049/100000"), "20000-20049, but 20000-20099"),
        (lambda h: h.reply(206, DATA[:200], Content_Range="bytes 20000-20199/100000"), "not the requested range"),
        (lambda h: h.reply(206, DATA[:200], Content_Range="bytes 20000-20099/100000"), "exceeds the byte budget"),
        (lambda h: h.reply(206, DATA[:100], Content_Range="bytes 20000-20099/999"), "has changed"),
        (lambda h: h.reply(200, DATA), "exceeds the byte budget"),
        (lambda h: h.reply(200, DATA[:100]), "sent the whole file"),
        (lambda h: h.serve(DATA, Content_Encoding="gzip") or True, "encoding 'gzip'"),
        (lambda h: h.reply(204), "status 204"),
        (lambda h: h.reply(416), "status 416"),
        (lambda h: h.reply(302), "without a Location"),
    ],
)
def test_a_reply_with_another_range_is_an_error(server: RangeServer, answer: Any, words: str) -> None:
    file = HttpFile(server.url())
    server.answers["/a.tif"] = after_head(answer)
    with pytest.raises(OSError, match=words):
        file.read_many([(20_000, 20_100)])
    assert len(server.requests) == 2, "lies are not worth a retry"
    del server.answers["/a.tif"]
    assert file.read_many([(20_000, 20_100)]) == [DATA[20_000:20_100]], (
        "the next reply is not mixed up with the bad one"
    )


def test_a_body_in_chunks_without_a_length_is_read_and_bounded(server: RangeServer) -> None:
    file = HttpFile(server.url())

    def chunked(extra: bytes) -> Any:
        def answer(handler: Handler) -> bool:
            body = DATA[20_000:20_100] + extra
            pieces = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:33], body[33:]))
            stated = {"Content_Range": "bytes 20000-20099/100000", "Content_Length": "", "Transfer_Encoding": "chunked"}
            handler.reply(206, b"", **stated)
            handler.wfile.write(pieces + b"0\r\n\r\n")
            return True

        return after_head(answer)

    server.answers["/a.tif"] = chunked(b"")
    assert file.read_many([(20_000, 20_100)]) == [DATA[20_000:20_100]]
    server.answers["/a.tif"] = chunked(b"more")
    with pytest.raises(OSError, match="exceeds the byte budget of 100 bytes"):
        file.read_many([(20_000, 20_100)])


def test_a_request_is_repeated_after_a_broken_connection(server: RangeServer) -> None:
    file = HttpFile(server.url())
    broken = []

    def answer(handler: Handler) -> bool:
        if len(broken) == 2:
            return False
        broken.append(handler.reply(206, DATA[:10], Content_Range="bytes 20000-20099/100000", Content_Length="100"))
        handler.close_connection = True
        return True

    server.answers["/a.tif"] = after_head(answer)
    assert file.read_many([(20_000, 20_100)]) == [DATA[20_000:20_100]]
    assert len(server.requests) == 4


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_error_is_retried_twice(server: RangeServer, status: int) -> None:
    server.answers["/a.tif"] = lambda handler: len(server.requests) <= 2 and handler.reply(status)
    assert HttpFile(server.url()).size == len(DATA)
    assert len(server.requests) == 3
    server.answers["/a.tif"] = lambda handler: handler.reply(status)
    with pytest.raises(OSError, match=f"status {status}"):
        HttpFile(server.url())
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("status", "kind"), [(404, FileNotFoundError), (410, FileNotFoundError), (403, PermissionError), (400, OSError)]
)
def test_a_refusal_is_not_worth_a_retry_and_has_its_class(server: RangeServer, status: int, kind: type) -> None:
    server.answers["/a.tif"] = lambda handler: handler.reply(status, b"no")
    with pytest.raises(OSError, match=f"status {status}") as caught:
        HttpFile(server.url())
    assert type(caught.value) is kind
    assert len(server.requests) == 1


def test_idle_connections_that_the_server_closed_are_replaced(server: RangeServer) -> None:
    file = HttpFile(server.url())
    file.read_many([(start, start + 10) for start in range(20_000, 60_000, 5_000)])
    for connection in connection_module.pool()._idle:
        connection.sock.shutdown(socket.SHUT_RDWR)
    count = len(server.requests)
    assert file.read_many([(20_000, 20_010)]) == [DATA[20_000:20_010]]
    assert len(server.requests) == count + 1


def test_a_stopped_server_is_a_connection_error(server: RangeServer) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(ConnectionError, match="after 3 attempts"):
        HttpFile(f"http://127.0.0.1:{port}/a.tif")


def test_a_silent_server_times_out(server: RangeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWATH_HTTP_READ_TIMEOUT", "0.05")
    server.answers["/a.tif"] = lambda handler: time.sleep(0.3) or False
    start = time.monotonic()
    with pytest.raises(TimeoutError, match="after 3 attempts"):
        HttpFile(server.url())
    assert time.monotonic() - start < 10, "far less than the 30 s of the default"


def test_a_server_without_ranges_is_read_whole_if_the_file_is_small(server: RangeServer) -> None:
    server.answers["/a.tif"] = lambda handler: handler.reply(200, DATA)
    file = HttpFile(server.url())
    assert file.size == len(DATA)
    assert file.read_many([(50_000, 50_100), (99_990, 100_000)]) == [DATA[50_000:50_100], DATA[99_990:]]
    assert len(server.requests) == 1


@pytest.mark.parametrize("stated", ["", str((16 << 20) + 1)])
def test_a_server_without_ranges_must_not_send_more_than_16_mib(server: RangeServer, stated: str) -> None:
    def answer(handler: Handler) -> bool:
        handler.close_connection = True
        return handler.reply(200, bytes((16 << 20) + 1), Content_Length=stated)

    server.answers["/a.tif"] = answer
    with pytest.raises(OSError, match="exceeds the byte budget of 16,777,216 bytes"):
        HttpFile(server.url())


def test_a_server_that_hides_the_size_is_asked_for_it(server: RangeServer) -> None:
    server.answers["/a.tif"] = lambda h: (
        h.span is not None and not h.serve(DATA, Content_Range=f"bytes {h.span[0]}-{h.span[1] - 1}/*")
    )
    file = HttpFile(server.url())
    assert file.size == len(DATA)
    assert [request.method for request in server.requests] == ["GET", "HEAD"]
    assert file.read_many([(20_000, 20_100)]) == [DATA[20_000:20_100]]
    server.answers["/a.tif"] = lambda h: (
        h.reply(206, DATA[:16384], Content_Range="bytes 0-16383/*") if h.span else h.reply(405)
    )
    with pytest.raises(OSError, match="does not report the size"):
        HttpFile(server.url())


def test_content_that_changes_between_requests_is_an_error(server: RangeServer) -> None:
    tag = '"one"'
    server.answers["/a.tif"] = lambda handler: not handler.serve(DATA, ETag=tag, Last_Modified=time_of_change)
    time_of_change = "Thu, 01 Jan 2026 00:00:00 GMT"
    file = HttpFile(server.url())
    assert file.identity == (len(DATA), '"one"', time_of_change)
    tag = 'W/"one"'
    assert file.read_many([(20_000, 20_001)]), "a proxy may weaken an ETag"
    tag = '"two"'
    with pytest.raises(OSError, match="has changed"):
        file.read_many([(20_000, 20_001)])
    tag, time_of_change = '"one"', "Thu, 01 Jan 2026 00:00:01 GMT"
    with pytest.raises(OSError, match="has changed"):
        file.read_many([(20_000, 20_001)])


def test_spaces_and_letters_in_names_are_quoted_once(server: RangeServer) -> None:
    server.files["/a%20b/%C3%BC.tif"] = DATA
    assert HttpFile(server.url("/a b/ü.tif")).size == len(DATA)
    assert HttpFile(server.url("/a%20b/%C3%BC.tif?q=a b&c=%2F#part")).size == len(DATA)
    assert server.requests[-1].path == "/a%20b/%C3%BC.tif?q=a%20b&c=%2F"


def test_a_line_break_in_a_url_does_not_become_a_header(server: RangeServer) -> None:
    with pytest.raises(FileNotFoundError):
        HttpFile(server.url("/b.tif\r\nX-Injected: 1"))
    assert "X-Injected" not in server.requests[0].headers


def test_headers_of_the_user_reach_the_server_but_not_those_that_make_a_request(server: RangeServer) -> None:
    open_store(server.url(), storage_options={"headers": {"Authorization": "Bearer key"}})
    assert server.requests[0].headers["Authorization"] == "Bearer key"
    with pytest.raises(ValueError, match="headers range are set"):
        open_store(server.url(), storage_options={"headers": {"Range": "bytes=0-1"}})
    with pytest.raises(ValueError, match="support only headers, not 'anon'"):
        open_store(server.url(), storage_options={"anon": True})


class TestRedirects:
    def redirect(self, server: RangeServer, path: str, location: str, status: int = 302) -> str:
        server.answers[path] = lambda handler: handler.reply(status, Location=location)
        return server.url(path)

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_are_followed_once_and_remembered(self, server: RangeServer, status: int) -> None:
        file = HttpFile(self.redirect(server, "/old.tif", "a.tif", status))
        assert file.read_many([(20_000, 20_100)]) == [DATA[20_000:20_100]]
        assert [request.path for request in server.requests] == ["/old.tif", "/a.tif", "/a.tif"]

    def test_are_requested_again_when_their_target_expires(self, server: RangeServer) -> None:
        file = HttpFile(self.redirect(server, "/old.tif", "/a.tif"))
        server.files["/new.tif"] = server.files.pop("/a.tif")
        self.redirect(server, "/old.tif", "/new.tif")
        assert file.read_many([(20_000, 20_100)]) == [DATA[20_000:20_100]]
        assert [request.path for request in server.requests[2:]] == ["/a.tif", "/old.tif", "/new.tif"]

    def test_in_a_circle_end_after_five(self, server: RangeServer) -> None:
        url = self.redirect(server, "/loop.tif", "/loop.tif")
        with pytest.raises(UnsafeURLError, match="More than 5 HTTP redirects") as caught:
            HttpFile(url)
        assert caught.value.url == url
        assert len(server.requests) == 6

    @pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://host/a.tif", "gopher://host/"])
    def test_to_other_schemes_are_refused(self, server: RangeServer, location: str) -> None:
        url = self.redirect(server, "/evil.tif", location)
        with pytest.raises(UnsafeURLError, match="scheme") as caught:
            HttpFile(url)
        assert caught.value.url == location

    def test_to_private_hosts_are_refused_before_any_request(
        self, server: RangeServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first host has a public address; the connections really go to the test server."""
        monkeypatch.delenv("SWATH_ALLOW_PRIVATE_HOSTS")
        resolve_to(monkeypatch, {"public.example": ["93.184.216.34"], "inside.example": ["10.0.0.7"]})
        connect_to(monkeypatch, server)
        url = self.redirect(server, "/evil.tif", "http://inside.example/a.tif").replace("127.0.0.1", "public.example")
        with pytest.raises(UnsafeURLError, match="'inside.example' resolves to '10.0.0.7'") as caught:
            HttpFile(url)
        assert caught.value.url == "http://inside.example/a.tif"
        assert len(server.requests) == 1

    def test_do_not_take_a_password_to_another_server(self, server: RangeServer) -> None:
        with range_server() as other:
            other.files["/a.tif"] = DATA
            url = self.redirect(server, "/old.tif", other.url()).replace("//", "//user:secret@")
            file = HttpFile(url, {"X-Token": "key"})
            assert "secret" not in file.name
            assert server.requests[0].headers["Authorization"] == "Basic dXNlcjpzZWNyZXQ="
            assert server.requests[0].headers["X-Token"] == "key"
            assert not {"Authorization", "X-Token"} & set(other.requests[0].headers)


def resolve_to(monkeypatch: pytest.MonkeyPatch, names: dict[str, list[str]]) -> list[str]:
    """Makes names resolve to these addresses; returns the list of lookups."""
    hosts: list[str] = []

    def getaddrinfo(host: str, port: int, *args: object, **kwargs: object) -> list[Any]:
        hosts.append(host)
        family = {True: socket.AF_INET6, False: socket.AF_INET}
        found = names.get(host, [host])
        return [
            (family[":" in ip], socket.SOCK_STREAM, 6, "", (ip, port, 0, 0)[: 4 if ":" in ip else 2]) for ip in found
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return hosts


def connect_to(monkeypatch: pytest.MonkeyPatch, server: RangeServer) -> list[Any]:
    """Sends all connections to the test server; returns the list of intended addresses."""
    real, addresses = socket.socket.connect, []

    def connect(sock: socket.socket, address: Any) -> None:
        addresses.append(address)
        real(sock, ("127.0.0.1", server.server_port))

    monkeypatch.setattr(socket.socket, "connect", connect)
    return addresses


class TestUnsafeAddresses:
    @pytest.fixture(autouse=True)
    def _strict(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SWATH_ALLOW_PRIVATE_HOSTS", raising=False)

    @pytest.mark.parametrize(
        "host",
        [
            "127.0.0.1", "127.8.9.1", "localhost", "2130706433", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1",
            "169.254.169.254", "224.0.0.1", "240.0.0.1", "255.255.255.255", "100.64.0.1", "100.100.100.200",
            "[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[fec0::1]", "[ff02::1]", "[::ffff:127.0.0.1]",
            "[::ffff:169.254.169.254]", "[2002:7f00:1::]", "[64:ff9b::a00:1]", "[2001::1]",
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("scheme", ["http", "HTTPS"])
    def test_are_refused(self, host: str, scheme: str) -> None:
        url = f"{scheme}://{host}:1/a.tif"
        with pytest.raises(UnsafeURLError, match="SWATH_ALLOW_PRIVATE_HOSTS=1") as caught:
            HttpFile(url)
        assert caught.value.url == url

    @pytest.mark.parametrize("url", ["http:///a.tif", "http:/a/b.tif", "https://:80/a.tif"])
    def test_include_none_at_all(self, url: str) -> None:
        with pytest.raises(UnsafeURLError, match="has no hostname"):
            HttpFile(url)

    def test_unknown_names_in_include_are_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def getaddrinfo(*args: object, **kwargs: object) -> None:
            raise socket.gaierror(-2, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        with pytest.raises(UnsafeURLError, match="could not resolve host 'no.such.invalid'"):
            HttpFile("http://no.such.invalid/a.tif")

    def test_one_among_public_ones_is_enough(self, monkeypatch: pytest.MonkeyPatch) -> None:
        resolve_to(monkeypatch, {"mixed.example": ["93.184.216.34", "10.0.0.1"]})
        with pytest.raises(UnsafeURLError, match=r"'10\.0\.0\.1'"):
            HttpFile("http://mixed.example/a.tif")

    @pytest.mark.parametrize("value", ["0", "false", "", "no", "2"])
    def test_stay_refused_by_values_that_are_no_yes(self, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
        monkeypatch.setenv("SWATH_ALLOW_PRIVATE_HOSTS", value)
        with pytest.raises(UnsafeURLError):
            HttpFile("http://127.0.0.1:1/a.tif")

    def test_are_refused_although_a_connection_is_open(
        self, server: RangeServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SWATH_ALLOW_PRIVATE_HOSTS", "1")
        HttpFile(server.url())
        monkeypatch.delenv("SWATH_ALLOW_PRIVATE_HOSTS")
        with pytest.raises(UnsafeURLError):
            HttpFile(server.url())

    def test_a_name_is_resolved_once_and_the_connection_uses_that_address(
        self, server: RangeServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SWATH_ALLOW_PRIVATE_HOSTS")
        hosts = resolve_to(monkeypatch, {"public.example": ["93.184.216.34"], "v6.example": ["2606:2800:220:1::1"]})
        addresses = connect_to(monkeypatch, server)
        file = HttpFile("http://public.example/a.tif")
        # From now on the name resolves to a private address: a second lookup would go there.
        resolve_to(monkeypatch, {"public.example": ["127.0.0.1"]})
        file.read_many([(start, start + 10) for start in range(20_000, 60_000, 5_000)])
        assert hosts == ["public.example"]
        assert set(addresses) == {("93.184.216.34", 80)}
        assert server.requests[0].headers["Host"] == "public.example"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A self-signed certificate for the name localhost, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("TLS IS NOT TESTED: there is no openssl program to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    made, key = str(folder / "made.pem"), str(folder / "key.pem")
    arguments = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", made]
    subprocess.run([openssl, *arguments, *names], check=True, capture_output=True)
    return made, key


class TestCertificates:
    @pytest.fixture
    def secure(self, server: RangeServer, certificate: tuple[str, str]) -> Iterator[RangeServer]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        connection_module._tls.cache_clear()
        yield server
        connection_module._tls.cache_clear()

    def test_that_are_not_trusted_end_the_connection(self, secure: RangeServer) -> None:
        with pytest.raises(OSError, match="certificate of the server is not valid"):
            HttpFile(f"https://localhost:{secure.server_port}/a.tif")
        assert secure.requests == []

    def test_are_checked_against_the_name_though_the_connection_goes_to_an_address(
        self, secure: RangeServer, certificate: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", certificate[0])
        file = HttpFile(f"https://localhost:{secure.server_port}/a.tif")
        assert file.read_many([(20_000, 20_010)]) == [DATA[20_000:20_010]]
        assert secure.requests[0].headers["Host"] == f"localhost:{secure.server_port}"
        with pytest.raises(OSError, match="certificate of the server is not valid"):
            HttpFile(f"https://127.0.0.1:{secure.server_port}/a.tif")


def test_a_child_process_does_not_use_the_connections_of_its_parent(server: RangeServer) -> None:
    file = HttpFile(server.url())
    file.read_many([(start, start + 10) for start in range(20_000, 60_000, 5_000)])
    before = server.connections
    with warnings.catch_warnings():
        # The server of this test has threads, but the child does not need them.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        right = file.read_many([(20_000, 20_010), (50_000, 50_010)]) == [DATA[20_000:20_010], DATA[50_000:50_010]]
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert server.connections > before
    assert file.read_many([(30_000, 30_010)]) == [DATA[30_000:30_010]]
