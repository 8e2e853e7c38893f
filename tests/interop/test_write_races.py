"""Several writers of one file, concurrent readers, and sources that change during the read."""

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rasterio
import tifffile

from conversion import (
    LAYOUTS,
    TEMPORARY,
    Conversion,
    assert_one_sentence,
    convert,
    digest,
    names,
    write_source,
)

WRITERS, ROUNDS, ATTEMPTS = 8, 4, 10
FLAGS = ["--compression", "none", "--tile", 256]


class Writers:
    """Sources with different pixels, and the files that they convert to."""

    def __init__(self, folder: Path, layout: str) -> None:
        self.flags = [*FLAGS, *LAYOUTS[layout]]
        self.sources = [folder / f"in{number}.tif" for number in range(WRITERS)]
        self.arrays = [write_source(path, seed, (768, 512)) for seed, path in enumerate(self.sources)]
        self.target = folder / "out" / "out.tif"
        self.target.parent.mkdir()
        self.digests = []
        for source in self.sources:
            assert convert(source, self.target, *self.flags, "--overwrite").code == 0
            self.digests.append(digest(self.target))
        assert len(set(self.digests)) == WRITERS

    def start(self, *flags: object) -> list[Conversion]:
        return [Conversion(source, self.target, *self.flags, *flags) for source in self.sources]


@pytest.fixture(params=LAYOUTS)
def writers(request: pytest.FixtureRequest, tmp_path: Path) -> Writers:
    return Writers(tmp_path, request.param)


def read_all(path: Path) -> tuple[str, np.ndarray, np.ndarray]:
    """The bytes of a path, and its pixels as read by two libraries; each opens the path itself."""
    with rasterio.open(path, sharing=False) as dataset:
        return hashlib.sha256(path.read_bytes()).hexdigest(), tifffile.imread(path), dataset.read(1)


def test_reader_always_sees_a_complete_file(writers: Writers) -> None:
    stop, wrong, reads = threading.Event(), [], []

    def read() -> None:
        while not stop.is_set():
            try:
                bytes_seen, *images = read_all(writers.target)
            except Exception as error:
                wrong.append(repr(error))
                return
            if bytes_seen not in writers.digests:
                wrong.append("bytes of no writer")
            for image in images:
                if not any(np.array_equal(image, array) for array in writers.arrays):
                    wrong.append("pixels of no writer")
            reads.append(bytes_seen)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(ROUNDS):
            ended = [conversion.end() for conversion in writers.start("--overwrite")]
            assert all(end.code == 0 for end in ended), [end.stderr for end in ended]
            assert digest(writers.target) in writers.digests
    finally:
        stop.set()
        reader.join()
    assert not wrong, wrong[:3]
    assert len(reads) >= ROUNDS and len(set(reads)) > 1, f"only {len(reads)} reads of {len(set(reads))} files"
    assert names(writers.target.parent) == {"out.tif"}


def test_one_of_many_writers_creates_the_file_and_the_others_report_that_it_exists(writers: Writers) -> None:
    for _ in range(ROUNDS):
        writers.target.unlink()
        ended = [conversion.end() for conversion in writers.start()]
        first = [number for number, end in enumerate(ended) if end.code == 0]
        assert len(first) == 1, f"{len(first)} writers have created the file"
        for end in ended:
            if end.code != 0:
                assert_one_sentence(end, "out.tif", "exists")
        assert digest(writers.target) == writers.digests[first[0]]
        assert names(writers.target.parent) == {"out.tif"}


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 10)


def clear(path: Path) -> None:
    """Overwrites the blocks with zeros; the directory precedes them and stays."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 10)
        file.write(bytes(path.stat().st_size - file.tell()))


CODECS = {
    "decoded": ["--compression", "zstd", "--compression-level", 3],
    "taken over": ["--compression", "deflate", "--predictor", 1, "--tile", 128],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("change", [truncate, clear], ids=["truncated", "cleared"])
def test_source_that_changes_is_an_error_and_no_file(
    change: Callable[[Path], None], kind: str, layout: str, tmp_path: Path
) -> None:
    source, target = tmp_path / "in.tif", tmp_path / "out" / "out.tif"
    target.parent.mkdir()
    write_source(source, shape=(8192, 2048), compression="zlib")
    flags = [*CODECS[kind], *LAYOUTS[layout]]
    assert convert(source, target, *flags).code == 0
    before, whole, whole_size = source.read_bytes(), digest(target), target.stat().st_size
    for _ in range(ATTEMPTS):
        source.write_bytes(before)
        target.unlink(missing_ok=True)
        conversion = Conversion(source, target, *flags)
        conversion.wait_for_output()
        change(source)
        ended = conversion.end()
        if change is clear and kind == "taken over" and layout == "plain":
            # Copied blocks are not decoded, so their bytes are whatever the source holds at that time.
            assert ended.code == 0 and target.stat().st_size == whole_size
            return
        if ended.code != 0:
            assert_one_sentence(ended, "in.tif")
            assert names(target.parent) == set()
            return
        # The process had read everything before the change.
        assert digest(target) == whole
    raise AssertionError("the source could not be changed in time")


def test_source_that_is_replaced_is_read_to_its_end(tmp_path: Path) -> None:
    """An open file keeps its content when another file takes over its name."""
    source, other, target = tmp_path / "in.tif", tmp_path / "other.tif", tmp_path / "out" / "out.tif"
    target.parent.mkdir()
    array = write_source(source)
    write_source(other, seed=1)
    conversion = Conversion(source, target, *FLAGS)
    conversion.wait_for_output()
    other.rename(source)
    assert conversion.end().code == 0
    assert np.array_equal(tifffile.imread(target), array)


def test_file_is_converted_onto_itself(tmp_path: Path) -> None:
    path = tmp_path / "in.tif"
    array = write_source(path)
    assert_one_sentence(convert(path, path, *FLAGS), "in.tif", "exists")
    assert convert(path, path, *FLAGS, "--cog", "--overwrite").code == 0
    assert np.array_equal(tifffile.imread(path), array)
    assert not any(TEMPORARY.fullmatch(name) for name in names(tmp_path))
