"""The kinds of sources, and handles that other processes open again."""

from __future__ import annotations

import io
import os
import pathlib
import pickle

import numpy as np
import pytest
import tifffile

from swath.read import source as source_module
from swath.read.source import Handle, SourceChangedError, is_remote, local_path, open_source


@pytest.fixture
def pixels():
    return np.arange(40 * 30, dtype=np.uint16).reshape(40, 30)


@pytest.fixture
def path(tmp_path, pixels):
    path = tmp_path / "a b%20c.tif"
    tifffile.imwrite(path, pixels, tile=(16, 16))
    return path


def read(file):
    out = np.empty((file.height, file.width), file.dtype)
    file.read_into(out)
    return out


def in_memory(path):
    return io.BytesIO(path.read_bytes())


class Trickle(io.RawIOBase):
    """Returns a few bytes at a time, like sockets and pipes."""

    def __init__(self, data):
        self._inner = io.BytesIO(data)

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, *position):
        return self._inner.seek(*position)

    def tell(self):
        return self._inner.tell()

    def read(self, count=-1):
        return self._inner.read(min(count, 7))


@pytest.mark.parametrize(
    "source",
    [
        str,
        pathlib.Path,
        lambda p: pathlib.Path(os.path.relpath(p)),
        lambda p: f"file://{p}",
        lambda p: f"FILE://localhost{p}",
        lambda p: f"file://{p}".replace(" ", "%20").replace("%20c", "%2520c"),
        lambda p: p.read_bytes(),
        lambda p: bytearray(p.read_bytes()),
        lambda p: memoryview(p.read_bytes()),
        in_memory,
        lambda p: p.open("rb"),
        lambda p: p.open("rb", buffering=0),
        lambda p: Trickle(p.read_bytes()),
    ],
)
def test_every_kind_of_source_gives_the_same_pixels(path, pixels, source):
    assert (read(open_source(source(path))) == pixels).all()


def test_position_of_a_file_object_is_left_alone(path, pixels):
    with path.open("rb") as file:
        file.seek(5)
        assert (read(open_source(file)) == pixels).all()
        assert file.tell() == 5


def test_position_of_the_object_does_not_choose_where_the_image_begins(path, pixels):
    data = in_memory(path)
    data.seek(100)
    assert (read(open_source(data)) == pixels).all()


def test_text_file_object_is_a_type_error(path):
    with path.open("r", encoding="latin-1") as file, pytest.raises(TypeError, match="binary mode"):
        open_source(file)


@pytest.mark.parametrize("source", [3, None, 1.5, object()])
def test_invalid_source_is_a_type_error(source):
    with pytest.raises(TypeError):
        open_source(source)


def test_missing_file_is_named_with_its_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=str(tmp_path / "none.tif")):
        open_source("none.tif")


def test_directory_is_not_a_file(tmp_path):
    with pytest.raises(OSError):
        open_source(tmp_path)


def test_remote_and_local_names_are_distinguished():
    assert is_remote("http://a/b.tif") and is_remote("s3://a/b.tif") and is_remote("memory://x")
    assert not is_remote("/a/b.tif") and not is_remote("file:///a.tif") and not is_remote(b"http://")
    assert local_path("https://a/b.tif") is None
    assert local_path("file:///a/b.tif") == "/a/b.tif"


def test_handle_pickles_small_and_reads_the_same(path, pixels):
    frozen = pickle.dumps(Handle(path))
    assert len(frozen) < 500
    assert (read(pickle.loads(frozen).file()) == pixels).all()


def test_handle_from_elsewhere_opens_the_file_once(path):
    frozen = pickle.dumps(Handle(path))
    first, second = pickle.loads(frozen), pickle.loads(frozen)
    assert first.file() is second.file()
    assert first.file() is first.file()


def test_handle_of_bytes_pickles_with_its_bytes(path, pixels):
    assert (read(pickle.loads(pickle.dumps(Handle(path.read_bytes()))).file()) == pixels).all()


def test_handle_of_a_file_object_reads_here_and_refuses_to_travel(path, pixels):
    with path.open("rb") as file:
        handle = Handle(file)
        assert (read(handle.file()) == pixels).all()
        with pytest.raises(TypeError, match="open it by path"):
            pickle.dumps(handle)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_replaced_file_is_an_error_not_other_pixels(path, pixels, elsewhere):
    handle = Handle(path)
    if elsewhere:
        handle = pickle.loads(pickle.dumps(handle))
        handle.file()
    new = path.with_suffix(".new")
    tifffile.imwrite(new, pixels[::-1].copy(), tile=(16, 16))
    os.replace(new, path)
    with pytest.raises(SourceChangedError, match=r"a b%20c\.tif has changed since it was opened"):
        handle.file()


def test_file_rewritten_in_place_is_an_error(path, pixels):
    handle = Handle(path)
    inode = path.stat().st_ino
    before = path.stat().st_mtime_ns
    tifffile.imwrite(path, pixels + 1, tile=(16, 16))
    os.utime(path, ns=(before + 1, before + 1))
    assert path.stat().st_ino == inode
    with pytest.raises(SourceChangedError):
        handle.file()


def test_removed_file_is_an_error_that_travels(path):
    handle = Handle(path)
    path.unlink()
    with pytest.raises(OSError, match="was removed since it was opened") as caught:
        handle.file()
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is SourceChangedError and str(again) == str(caught.value)


def test_new_content_is_opened_anew_every_time(path, pixels):
    for step in range(3):
        tifffile.imwrite(path, pixels + step, tile=(16, 16))
        assert (read(open_source(path)) == pixels + step).all()


def test_sidecar_that_appears_is_seen_by_the_next_open(path, pixels):
    assert len(open_source(path).levels) == 1
    tifffile.imwrite(f"{path}.ovr", pixels[::2, ::2].copy(), tile=(16, 16), subfiletype=1)
    assert len(open_source(path).levels) == 2


@pytest.mark.parametrize("elsewhere", [False, True])
def test_replaced_overviews_are_an_error_for_those_who_read_them(path, pixels, elsewhere):
    tifffile.imwrite(f"{path}.ovr", pixels[::2, ::2].copy(), tile=(16, 16), subfiletype=1)
    plain, both = Handle(path), Handle(path).with_sidecar(".ovr")
    assert plain.with_sidecar(".none") is plain
    if elsewhere:
        plain, both = pickle.loads(pickle.dumps((plain, both)))
    assert len(both.file().levels) == 2
    tifffile.imwrite(f"{path}.ovr", pixels[::4, ::4].copy(), tile=(16, 16), subfiletype=1)
    assert (read(plain.file()) == pixels).all()
    with pytest.raises(SourceChangedError, match=r"\.ovr has changed"):
        both.file()


def test_files_kept_open_are_bounded(tmp_path, pixels, monkeypatch):
    monkeypatch.setattr(source_module, "KEPT_OPEN", 3)
    monkeypatch.setattr(source_module, "_opened", source_module._Opened())
    handles = []
    for number in range(6):
        tifffile.imwrite(tmp_path / f"{number}.tif", pixels + number)
        handles.append(pickle.loads(pickle.dumps(Handle(tmp_path / f"{number}.tif"))))
    for number, handle in enumerate(handles):
        assert (read(handle.file()) == pixels + number).all()
    assert len(source_module._opened._files) == 3
    assert (read(handles[0].file()) == pixels).all()


def test_nothing_is_kept_open_after_an_eager_read(path):
    before = set(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    if before is None:
        pytest.skip("no /proc here: open descriptors cannot be counted")
    file = open_source(path)
    read(file)
    del file
    assert set(os.listdir("/proc/self/fd")) == before


def test_token_follows_the_content(path, pixels):
    from dask.base import tokenize

    first = tokenize(Handle(path))
    assert first == tokenize(Handle(str(path))) == tokenize(pickle.loads(pickle.dumps(Handle(path))))
    tifffile.imwrite(path, np.zeros((50, 50), np.uint8))
    assert first != tokenize(Handle(path))
