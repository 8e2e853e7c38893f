"""Remote TIFFs through the engine: pixels, number of requests, errors, handles in other processes."""

from __future__ import annotations

import io
import os
import pickle
import struct
import threading
import uuid
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fsspec
import numpy as np
import numpy.typing as npt
import pytest

from range_server import RangeServer, range_server
from swath import _swath
from swath.errors import CloudSizeLimitError, SourceChangedError, UnsafeURLError
from swath.read import source as source_module
from swath.read.source import Handle
from swath.remote import http
from swath.remote.open import open_remote, write_remote

Pixels = npt.NDArray[np.uint16]


@pytest.fixture(scope="module")
def pixels() -> Pixels:
    # Noise in the low bits does not compress, so the file has a few MB.
    rows, columns = np.mgrid[:1500, :1500]
    noise = np.random.default_rng(6).integers(0, 4096, rows.shape)
    return (rows * 8 + columns + noise).astype("u2")


def encoded(array: npt.NDArray[Any], **options: Any) -> bytes:
    target = io.BytesIO()
    height, width = array.shape
    chosen = {"tile": 256, "compression": "deflate"} | options
    _swath.write(target, array, shape=(1, height, width), dtype=array.dtype.name, options=chosen)
    return target.getvalue()


@pytest.fixture(scope="module")
def cog(pixels: Pixels) -> bytes:
    return encoded(pixels, cog=True, overviews="auto")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, cog: bytes) -> Iterator[RangeServer]:
    monkeypatch.setenv("SWATH_ALLOW_PRIVATE_HOSTS", "1")
    monkeypatch.setattr(http, "BACKOFF", 0.001)
    with range_server() as server:
        server.files["/a.tif"] = cog
        yield server


@pytest.fixture
def folder() -> Iterator[str]:
    name = f"/{uuid.uuid4().hex}"
    yield f"memory:/{name}"
    filesystem = fsspec.filesystem("memory")
    if filesystem.exists(name):
        filesystem.rm(name, recursive=True)


def window_of(file: _swath.File, window: tuple[int, int, int, int], level: int = 0) -> npt.NDArray[Any]:
    out = np.empty((window[2] - window[0], window[3] - window[1]), file.dtype)
    file.read_into(out, window=window, level=level)
    return out


def test_a_window_of_a_cog_takes_header_overview_probe_and_data(
    server: RangeServer, cog: bytes, pixels: Pixels
) -> None:
    assert len(cog) > 3_000_000
    file = open_remote(server.url())
    file.describe()
    assert np.array_equal(window_of(file, (600, 600, 1100, 1100)), pixels[600:1100, 600:1100])
    first = {(request.path, request.span) for request in server.requests[:2]}
    assert first == {("/a.tif", (0, 16384)), ("/a.tif.ovr", (0, 16384))}
    assert len(server.requests) == 3, "all tiles of the window lie within a MiB of each other"
    assert sum(span[1] - span[0] for span in server.spans() if span) < len(cog) * 0.6


def test_opening_takes_one_round_trip(server: RangeServer) -> None:
    meeting = threading.Barrier(2, timeout=30)
    # Each of the two requests waits for the other.
    for path in ("/a.tif", "/a.tif.ovr"):
        server.answers[path] = lambda handler: meeting.wait() < 0
    assert open_remote(server.url()).width == 1500


def test_the_whole_image_comes_in_few_requests(server: RangeServer, pixels: Pixels) -> None:
    file = open_remote(server.url())
    assert np.array_equal(window_of(file, (0, 0, 1500, 1500)), pixels)
    assert len(server.requests) <= 4


def test_overviews_in_the_file_are_levels(server: RangeServer) -> None:
    file = open_remote(server.url())
    assert [level[:2] for level in file.levels] == [(1500, 1500), (750, 750), (375, 375), (188, 188)]
    assert window_of(file, (0, 0, 188, 188), level=3).mean() > 0


@pytest.mark.parametrize("place", ["http", "fsspec"])
def test_overviews_beside_the_file_are_levels(server: RangeServer, folder: str, pixels: Pixels, place: str) -> None:
    full, half = encoded(pixels), encoded(np.ascontiguousarray(pixels[::2, ::2]))
    # An overview file marks its images with NewSubfileType 1.
    with_type = encoded(np.ascontiguousarray(pixels[::2, ::2]), extra_tags=[(254, 4, 1, 1)])
    assert len(with_type) > len(half)
    if place == "http":
        server.files |= {"/b.tif": full, "/b.tif.ovr": with_type}
        url = server.url("/b.tif")
    else:
        url = f"{folder}/b.tif"
        for name, data in ((url, full), (url + ".ovr", with_type)):
            write_remote(name, lambda file, data=data: file.write(data))  # type: ignore[misc]
    file = open_remote(url)
    assert [level[:2] for level in file.levels] == [(1500, 1500), (750, 750)]
    assert np.array_equal(window_of(file, (100, 100, 400, 400), level=1), pixels[200:800:2, 200:800:2])


def ifd_at_the_end(array: npt.NDArray[np.uint8]) -> bytes:
    """A TIFF as streaming writers produce it: the directory follows the pixels."""
    height, width = array.shape
    fields = [
        (256, width),
        (257, height),
        (258, 8),
        (259, 1),
        (262, 1),
        (273, 8),
        (277, 1),
        (278, height),
        (279, array.size),
    ]
    at = 8 + array.size
    directory = struct.pack("<H", len(fields))
    directory += b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields)
    return struct.pack("<2sHI", b"II", 42, at) + array.tobytes() + directory + bytes(4)


def test_a_directory_behind_the_first_4_mib_is_found(server: RangeServer, folder: str) -> None:
    array = np.random.default_rng(1).integers(0, 256, (2500, 2000)).astype("u1")
    data = ifd_at_the_end(array)
    server.files["/end.tif"] = data
    write_remote(f"{folder}/end.tif", lambda file: file.write(data))
    for url in (server.url("/end.tif"), f"{folder}/end.tif"):
        file = open_remote(url)
        assert np.array_equal(window_of(file, (2000, 100, 2400, 900)), array[2000:2400, 100:900])
    assert len(server.spans("/end.tif")) <= 3, "head, directory, rows"


def test_threads_share_a_file(server: RangeServer, pixels: Pixels) -> None:
    file = open_remote(server.url())
    corners = [(row, column) for row in range(0, 1400, 350) for column in range(0, 1400, 350)]

    def read(corner: tuple[int, int]) -> bool:
        row, column = corner
        found = window_of(file, (row, column, row + 100, column + 100))
        return np.array_equal(found, pixels[row : row + 100, column : column + 100])

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(read, corners))


class TestErrorsComeOutAsTheyAre:
    def test_a_missing_file(self, server: RangeServer, folder: str) -> None:
        for url in (server.url("/no.tif"), f"{folder}/no.tif"):
            with pytest.raises(FileNotFoundError, match=r"no\.tif"):
                open_remote(url)

    def test_an_unsafe_url(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SWATH_ALLOW_PRIVATE_HOSTS", raising=False)
        with pytest.raises(UnsafeURLError) as caught:
            open_remote("http://169.254.169.254/latest.tif")
        assert caught.value.url == "http://169.254.169.254/latest.tif"

    def test_an_object_above_the_limit(self, folder: str, cog: bytes) -> None:
        write_remote(f"{folder}/a.tif", lambda file: file.write(cog))
        with pytest.raises(CloudSizeLimitError):
            open_remote(f"{folder}/a.tif", max_cloud_bytes=1000)

    @pytest.mark.parametrize(("status", "kind"), [(403, PermissionError), (404, FileNotFoundError), (500, OSError)])
    def test_a_server_that_fails_during_a_read(self, server: RangeServer, status: int, kind: type) -> None:
        file = open_remote(server.url())
        server.answers["/a.tif"] = lambda handler: handler.reply(status)
        with pytest.raises(kind, match=f"status {status}"):
            window_of(file, (600, 600, 1100, 1100))

    def test_a_wrong_reply_during_a_read_is_an_error(self, server: RangeServer, cog: bytes) -> None:
        file = open_remote(server.url())
        server.answers["/a.tif"] = lambda handler: handler.reply(206, cog[:9], Content_Range="bytes 0-8/9")
        with pytest.raises(OSError, match="Content-Range"):
            window_of(file, (600, 600, 1100, 1100))

    def test_a_file_that_is_not_a_tiff(self, server: RangeServer) -> None:
        server.files["/page.tif"] = b"<html>" * 10_000
        server.files["/empty.tif"] = b""
        for path in ("/page.tif", "/empty.tif"):
            with pytest.raises(ValueError, match=path):
                open_remote(server.url(path))

    def test_a_file_that_ends_early(self, server: RangeServer, cog: bytes) -> None:
        server.files["/short.tif"] = cog[: len(cog) // 2]
        file = open_remote(server.url("/short.tif"))
        with pytest.raises(ValueError):
            window_of(file, (0, 0, 1500, 1500))


class TestHandles:
    def test_are_small_and_read_the_same_in_another_process(self, server: RangeServer, pixels: Pixels) -> None:
        handle = Handle(server.url())
        data = pickle.dumps(handle)
        assert len(data) < 1000
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            found = window_of(pickle.loads(data).file(), (100, 200, 300, 400))
            again = window_of(handle.file(), (100, 200, 300, 400))
            right = np.array_equal(found, pixels[100:300, 200:400]) and np.array_equal(again, found)
            os._exit(0 if right else 1)
        assert os.waitpid(child, 0)[1] == 0

    def test_open_a_file_once_in_a_process(self, server: RangeServer) -> None:
        data = pickle.dumps(Handle(server.url()))
        count = len(server.requests)
        with ThreadPoolExecutor(8) as threads:
            files = list(threads.map(lambda _: pickle.loads(data).file(), range(16)))
        assert len(server.requests) == count + 2
        assert all(file is files[0] for file in files)

    def test_notice_other_content_of_the_same_size(self, server: RangeServer, folder: str, cog: bytes) -> None:
        other = cog[:-1] + bytes([cog[-1] ^ 1])
        tag = '"one"'
        server.answers["/a.tif"] = lambda handler: not handler.serve(cog, ETag=tag)
        write_remote(f"{folder}/a.tif", lambda file: file.write(cog))
        handles = [pickle.dumps(Handle(url)) for url in (f"{folder}/a.tif", server.url())]
        assert all(pickle.loads(handle).file().width == 1500 for handle in handles)
        tag = '"two"'
        write_remote(f"{folder}/a.tif", lambda file: file.write(other))
        source_module._opened = source_module._Opened()
        for handle in handles:
            with pytest.raises(SourceChangedError, match="has changed"):
                pickle.loads(handle).file()


def test_a_file_that_is_written_to_memory_reads_back(folder: str, pixels: Pixels) -> None:
    url = f"{folder}/w.tif"

    def write(file: Any) -> _swath.Report:
        return _swath.write(
            file, pixels, shape=(1, 1500, 1500), dtype="uint16", options={"cog": True, "overviews": "auto"}
        )

    assert write_remote(url, write)["blocks"] > 0
    assert np.array_equal(window_of(open_remote(url), (0, 0, 1500, 1500)), pixels)


def test_a_write_that_fails_leaves_the_old_file(folder: str, pixels: Pixels, cog: bytes) -> None:
    url = f"{folder}/w.tif"
    write_remote(url, lambda file: file.write(cog))

    def rows(start: int, stop: int) -> Pixels:
        if stop > 1000:
            raise RuntimeError("a task failed")
        return np.ascontiguousarray(pixels[start:stop, :, None])

    def write(file: Any) -> _swath.Report:
        streamed: Any = {"options": {"tile": 256}, "chunk_rows": [250] * 6, "buffer_bytes": 1 << 20}
        return _swath.write(file, rows, shape=(1, 1500, 1500), dtype="uint16", **streamed)

    with pytest.raises(RuntimeError, match="a task failed"):
        write_remote(url, write)
    filesystem = fsspec.filesystem("memory")
    assert filesystem.cat_file(url) == cog
    assert len(filesystem.ls(folder, detail=False)) == 1
