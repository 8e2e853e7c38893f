"""Objects of fsspec filesystems: read by range, limited in size, written atomically."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import fsspec
import pytest
from fsspec.implementations import memory

from swath.errors import CloudSizeLimitError
from swath.remote.fsspec import ObjectFile, write_object
from swath.remote.open import DEFAULT_LIMIT, cloud_limit, open_store, write_remote

DATA = bytes(i * 13 % 249 for i in range(100_000))


@pytest.fixture
def folder() -> Iterator[str]:
    """A folder of the memory filesystem, which is shared by the whole process."""
    name = f"/{uuid.uuid4().hex}"
    filesystem = fsspec.filesystem("memory")
    filesystem.pipe_file(f"{name}/a.tif", DATA)
    yield f"memory:/{name}"
    filesystem.rm(name, recursive=True)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Records the calls of the memory filesystem."""
    made: list[Any] = []
    cat_file, cat_ranges = memory.MemoryFileSystem.cat_file, memory.MemoryFileSystem.cat_ranges

    def noted_cat_file(self: Any, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        made.append((start, end))
        return cat_file(self, path, start, end, **kwargs)

    def noted_cat_ranges(self: Any, paths: list[str], starts: list[int], ends: list[int], **kwargs: Any) -> list[bytes]:
        made.append(list(zip(starts, ends, strict=True)))
        monkeypatch.setattr(memory.MemoryFileSystem, "cat_file", cat_file)
        try:
            return cat_ranges(self, paths, starts, ends, **kwargs)
        finally:
            monkeypatch.setattr(memory.MemoryFileSystem, "cat_file", noted_cat_file)

    monkeypatch.setattr(memory.MemoryFileSystem, "cat_file", noted_cat_file)
    monkeypatch.setattr(memory.MemoryFileSystem, "cat_ranges", noted_cat_ranges)
    return made


def test_objects_are_read_by_range_and_never_whole(folder: str, calls: list[Any]) -> None:
    file = ObjectFile(f"{folder}/a.tif", None)
    assert (file.size, file.head) == (len(DATA), DATA[:16384])
    assert file.read_many([(50_000, 50_100), (20_000, 20_010)]) == [DATA[50_000:50_100], DATA[20_000:20_010]]
    assert calls == [(0, 16384), [(50_000, 50_100), (20_000, 20_010)]], "the head, and one call for all ranges"


def test_a_missing_object_is_file_not_found(folder: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"b\.tif"):
        ObjectFile(f"{folder}/b.tif", None)
    with pytest.raises(FileNotFoundError, match="directory"):
        ObjectFile(folder, None)


def test_an_unknown_protocol_is_named() -> None:
    with pytest.raises(ValueError, match="nosuch"):
        ObjectFile("nosuch://a.tif", None)


def test_an_object_above_the_limit_is_refused_before_a_byte_is_read(folder: str, calls: list[Any]) -> None:
    with pytest.raises(CloudSizeLimitError, match=r"100,000 bytes, which exceeds max_cloud_bytes=99999\b"):
        open_store(f"{folder}/a.tif", max_cloud_bytes=99_999)
    assert calls == []
    assert open_store(f"{folder}/a.tif", max_cloud_bytes=100_000).size == 100_000
    assert open_store(f"{folder}/a.tif", max_cloud_bytes=None).size == 100_000


@pytest.mark.parametrize(
    ("value", "limit"), [("100", 100), ("", 256 << 20), ("x", 256 << 20), ("0", 256 << 20), ("-5", 256 << 20)]
)
def test_the_environment_sets_the_default_limit(
    folder: str, monkeypatch: pytest.MonkeyPatch, value: str, limit: int
) -> None:
    monkeypatch.setenv("SWATH_MAX_CLOUD_BYTES", value)
    assert cloud_limit(DEFAULT_LIMIT) == limit
    assert cloud_limit(7) == 7
    assert cloud_limit(None) is None
    if limit == 100:
        with pytest.raises(CloudSizeLimitError, match="SWATH_MAX_CLOUD_BYTES"):
            open_store(f"{folder}/a.tif")
    else:
        assert open_store(f"{folder}/a.tif").size == 100_000


def test_an_object_of_unknown_size_is_refused_unless_any_size_will_do(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = memory.MemoryFileSystem.info
    monkeypatch.setattr(memory.MemoryFileSystem, "info", lambda self, path: info(self, path) | {"size": None})
    with pytest.raises(CloudSizeLimitError, match="unknown size"):
        open_store(f"{folder}/a.tif", max_cloud_bytes=1 << 60)
    file = open_store(f"{folder}/a.tif", max_cloud_bytes=None)
    assert file.size == len(DATA)
    assert file.read_many([(50_000, 50_100)]) == [DATA[50_000:50_100]]


def test_a_range_that_comes_short_is_an_error(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ObjectFile(f"{folder}/a.tif", None)
    monkeypatch.setattr(memory.MemoryFileSystem, "cat_file", lambda self, path, start, end: DATA[start : end - 1])
    with pytest.raises(OSError, match="99 bytes were received for the range 50000-50099"):
        file.read_many([(50_000, 50_100)])


def test_a_range_that_fails_raises_what_the_filesystem_raised(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ObjectFile(f"{folder}/a.tif", None)
    failed = [PermissionError("expired token")]
    monkeypatch.setattr(memory.MemoryFileSystem, "cat_ranges", lambda self, *args, **kwargs: failed)
    with pytest.raises(PermissionError, match="expired token"):
        file.read_many([(50_000, 50_100)])


def test_the_identity_changes_with_the_content_though_not_the_size(folder: str) -> None:
    before = ObjectFile(f"{folder}/a.tif", None).identity
    assert ObjectFile(f"{folder}/a.tif", None).identity == before
    fsspec.filesystem("memory").pipe_file(f"{folder}/a.tif", DATA[::-1])
    assert ObjectFile(f"{folder}/a.tif", None).identity != before


def test_objects_beside_are_found(folder: str) -> None:
    file = ObjectFile(f"{folder}/a.tif", None)
    assert file.beside(".ovr") is None
    fsspec.filesystem("memory").pipe_file(f"{folder}/a.tif.ovr", b"II*\0overviews")
    beside = file.beside(".ovr")
    assert beside is not None and beside.head == b"II*\0overviews"


def test_storage_options_reach_the_filesystem(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWATH_ALLOW_SCHEMES", "local")
    target = tmp_path / "new" / "a.tif"
    with pytest.raises(FileNotFoundError):
        write_remote(f"local://{target}", lambda file: file.write(DATA))
    write_remote(f"local://{target}", lambda file: file.write(DATA), {"auto_mkdir": True})
    assert target.read_bytes() == DATA
    assert open_store(f"local://{target}", storage_options={"auto_mkdir": True}).size == len(DATA)


def test_without_fsspec_the_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsspec", "fsspec.core"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'swath\[cloud\]'"):
        open_store("s3://bucket/a.tif")


@pytest.mark.parametrize("url", ["http://host/a.tif", "HTTPS://host/a.tif"])
def test_nothing_is_written_over_http(url: str) -> None:
    with pytest.raises(NotImplementedError, match=r"not supported over HTTP\(S\)"):
        write_remote(url, lambda file: file.write(b"x"))


class Parts(fsspec.spec.AbstractBufferedFile):
    """A file of a store whose objects appear when their upload is complete."""

    DEFAULT_BLOCK_SIZE = 1 << 16

    def _initiate_upload(self) -> None:
        self.fs.uploads[self.path] = []

    def _upload_chunk(self, final: bool = False) -> bool:
        self.fs.uploads[self.path].append(self.buffer.getvalue())
        if final:
            if self.fs.fail_at_the_end:
                raise OSError("the store is on fire")
            self.fs.objects[self.path] = b"".join(self.fs.uploads.pop(self.path))
        return True

    def discard(self) -> None:
        self.fs.uploads.pop(self.path, None)
        self.buffer = None


class Bucket(fsspec.AbstractFileSystem):
    """The part of an object store that a write needs."""

    protocol = ("s3", "s3a")
    cachable = False
    objects: dict[str, bytes] = {}
    uploads: dict[str, list[bytes]] = {}
    fail_at_the_end = False

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Parts:
        kwargs.pop("cache_options", None)
        kwargs["block_size"] = 1 << 16
        return Parts(self, path, mode, **kwargs)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> type[Bucket]:
    for name, value in {"objects": {"bucket/a.tif": b"old"}, "uploads": {}, "fail_at_the_end": False}.items():
        monkeypatch.setattr(Bucket, name, value)
    # `fsspec.registry` is a view of this dict, not the module.
    monkeypatch.setitem(import_module("fsspec.registry")._registry, "s3", Bucket)
    return Bucket


def write_half(file: Any) -> None:
    file.write(DATA)
    raise KeyboardInterrupt


class TestWriting:
    def test_a_cloud_object_is_streamed_in_parts(self, bucket: type[Bucket]) -> None:
        def write(file: Any) -> str:
            file.write(DATA)
            assert bucket.uploads["bucket/a.tif"], "parts are on their way before the end"
            assert bucket.objects["bucket/a.tif"] == b"old"
            file.write(DATA)
            return "done"

        assert write_object("s3://bucket/a.tif", write) == "done"
        assert bucket.objects == {"bucket/a.tif": DATA + DATA}
        assert bucket.uploads == {}

    def test_a_cloud_object_is_unchanged_when_the_writer_fails(self, bucket: type[Bucket]) -> None:
        with pytest.raises(KeyboardInterrupt):
            write_object("s3://bucket/a.tif", write_half)
        assert (bucket.objects, bucket.uploads) == ({"bucket/a.tif": b"old"}, {})

    def test_a_cloud_object_is_unchanged_when_the_store_fails(
        self, bucket: type[Bucket], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bucket, "fail_at_the_end", True)
        with pytest.raises(OSError, match="on fire"):
            write_object("s3://bucket/a.tif", lambda file: file.write(DATA))
        assert (bucket.objects, bucket.uploads) == ({"bucket/a.tif": b"old"}, {})

    @pytest.mark.parametrize("kind", ["memory", "local"])
    def test_a_file_that_others_see_being_written_is_written_aside(
        self, kind: str, folder: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SWATH_ALLOW_SCHEMES", "local")
        url = f"{folder}/w.tif" if kind == "memory" else f"local://{tmp_path}/w.tif"
        filesystem, path = fsspec.core.url_to_fs(url)
        assert write_object(url, lambda file: file.write(b"old")) == 3
        with pytest.raises(KeyboardInterrupt):
            write_object(url, write_half)
        assert filesystem.cat_file(path) == b"old"
        write_object(url, lambda file: file.write(DATA) and None)
        assert filesystem.cat_file(path) == DATA
        names = {name.rpartition("/")[2] for name in filesystem.ls(path.rpartition("/")[0], detail=False)}
        assert names <= {"w.tif", "a.tif"}, "nothing else is left behind"

    def test_written_object_can_be_read_immediately(self, folder: str) -> None:
        write_remote(f"{folder}/w.tif", lambda file: file.write(DATA))
        assert open_store(f"{folder}/w.tif").read_many([(99_000, 100_000)]) == [DATA[99_000:]]
