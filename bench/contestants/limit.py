"""What the machine and the codec libraries allow: no contestant, but run like one and between them.

full_read, windows   uncompressed: read() of each tile and one copy into a new array; else the codec library alone
                     (libdeflate, zstd, LZW, LERC, ... of imagecodecs) on tiles that are in memory
write                uncompressed: write() of the pixels to a new file, no fsync; else the encoder of the codec library
                     alone, on tiles whose predictor has been applied
cog, stream_cog      4/3 of the same, for the overviews
"""

import functools
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import tifffile

CHUNK = 1 << 20
DECODERS = {
    "ADOBE_DEFLATE": imagecodecs.deflate_decode,
    "DEFLATE": imagecodecs.deflate_decode,
    "ZSTD": imagecodecs.zstd_decode,
    "LZW": imagecodecs.lzw_decode,
    "LERC": imagecodecs.lerc_decode,
    "JPEG2000": imagecodecs.jpeg2k_decode,
    "JPEGXL": imagecodecs.jpegxl_decode,
}
ENCODERS = {
    "deflate": imagecodecs.deflate_encode,
    "zstd": imagecodecs.zstd_encode,
    "lzw": lambda data, _level: imagecodecs.lzw_encode(data),
}


def version() -> str:
    return f"imagecodecs {imagecodecs.__version__}"


class Blocks:
    """The blocks of a file, held in memory unless they are not compressed."""

    def __init__(self, path: str) -> None:
        with tifffile.TiffFile(path) as file:
            page = file.pages[0]
            self.path, self.codec, self.tables = path, page.compression.name, page.jpegtables
            self.offsets, self.sizes = page.dataoffsets, page.databytecounts
            self.height, self.width = page.imagelength, page.imagewidth
            strip = (page.rowsperstrip, self.width)
            self.rows, self.cols = (page.tilelength, page.tilewidth) if page.is_tiled else strip
            self.dtype, self.bands, self.planar = page.dtype, page.samplesperpixel, page.planarconfig == 2
        self.across = -(-self.width // self.cols)
        self.data = []
        if self.codec != "NONE":
            content = Path(path).read_bytes()
            self.data = [content[at : at + size] for at, size in zip(self.offsets, self.sizes, strict=True)]

    def decoder(self) -> Callable[..., Any]:
        if self.codec == "JPEG":
            colours = {"colorspace": "YCBCR", "outcolorspace": "RGB"}
            return functools.partial(imagecodecs.jpeg8_decode, tables=self.tables, **colours)
        return DECODERS[self.codec]

    def decode(self, indices: Iterable[int]) -> None:
        decode = self.decoder()
        # The byte codecs write into one buffer that stays in the cache; the image codecs make their own.
        is_bytes = self.codec in ("ADOBE_DEFLATE", "DEFLATE", "ZSTD", "LZW")
        bands = 1 if self.planar else self.bands
        out = bytearray(self.rows * self.cols * bands * self.dtype.itemsize)
        for index in indices:
            decode(self.data[index], out=out) if is_bytes else decode(self.data[index])

    def copy(self, indices: Iterable[int], out: np.ndarray) -> None:
        """Reads blocks and puts each at its place in `out`."""
        buffer = np.empty((self.rows, self.cols, self.bands), self.dtype)
        with Path(self.path).open("rb", buffering=0) as file:
            for index in indices:
                row, col = (index // self.across) * self.rows, (index % self.across) * self.cols
                os.preadv(file.fileno(), [memoryview(buffer).cast("B")[: self.sizes[index]]], self.offsets[index])
                place = out[row : row + self.rows, col : col + self.cols]
                place[...] = buffer[: place.shape[0], : place.shape[1]]

    def under(self, window: list[int]) -> list[int]:
        row, col, row_stop, col_stop = window
        rows = range(row // self.rows, -(-row_stop // self.rows))
        cols = range(col // self.cols, -(-col_stop // self.cols))
        return [r * self.across + c for r in rows for c in cols]


blocks = functools.lru_cache(maxsize=1)(Blocks)


def spread(work: Callable[[Any], object], items: list[Any], threads: int) -> None:
    """Calls `work` with a share of the items in each thread."""
    if threads == 1:
        work(items)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, [items[i::threads] for i in range(threads)]))


def prepare_full_read(job: Any) -> None:
    blocks(job.path)


def full_read(job: Any) -> None:
    source = blocks(job.path)
    indices = list(range(len(source.offsets)))
    if source.data:
        spread(source.decode, indices, job.threads)
    elif source.planar:
        raise NotImplementedError("planar")
    else:
        out = np.empty((source.height, source.width, source.bands), source.dtype)
        spread(lambda share: source.copy(share, out), indices, job.threads)


prepare_windows = prepare_full_read


def windows(job: Any) -> None:
    """Decodes every tile under each window, whole."""
    source = blocks(job.path)
    if not source.data:
        raise NotImplementedError("uncompressed")
    touched = [index for window in job.windows for index in source.under(window)]
    spread(source.decode, touched, job.threads)


@functools.lru_cache(maxsize=1)
def predicted(path: str) -> list[bytes]:
    """The bytes that the encoder gets: the tiles of a file of the same codec and predictor, decompressed."""
    source = Blocks(path)
    decode = source.decoder()
    return [decode(data) for data in source.data]


def prepare_write(job: Any) -> None:
    job.array if job.codec == "none" else predicted(job.path)


def write(job: Any) -> None:
    if job.codec == "none":
        write_out(job.target, job.array.reshape(-1).view("u1"))
        return
    encode = ENCODERS[job.codec]
    spread(lambda share: [encode(tile, job.level) for tile in share], predicted(job.path), job.threads)


prepare_cog = prepare_stream_cog = prepare_write


def cog(job: Any) -> dict:
    start, cpu = time.perf_counter(), time.process_time()
    write(job)
    return {"seconds": (time.perf_counter() - start) * 4 / 3, "cpu": (time.process_time() - cpu) * 4 / 3}


stream_cog = cog


def write_out(path: str, content: Any, sync: bool = False) -> None:
    with Path(path).open("wb", buffering=0) as file:
        view = memoryview(content)
        for at in range(0, len(view), 64 * CHUNK):
            file.write(view[at : at + 64 * CHUNK])
        if sync:
            os.fsync(file.fileno())


def parts(array: np.ndarray) -> list[slice]:
    flat = array.size
    return [slice(at, min(at + CHUNK, flat)) for at in range(0, flat, CHUNK)]


def prepare_memcpy_warm(job: Any) -> None:
    job.bytes = job.array.reshape(-1).view("u1")
    job.other = np.zeros_like(job.bytes)


def memcpy_warm(job: Any) -> None:
    def copy(share: list[slice]) -> None:
        for part in share:
            job.other[part] = job.bytes[part]

    spread(copy, parts(job.bytes), job.threads)


def prepare_memcpy_fresh(job: Any) -> None:
    job.bytes = job.array.reshape(-1).view("u1")


def memcpy_fresh(job: Any) -> None:
    job.other = np.empty_like(job.bytes)
    memcpy_warm(job)


def read_fresh(job: Any) -> None:
    """read() of the whole file into a new buffer."""
    size = Path(job.path).stat().st_size
    out = np.empty(size, "u1")

    def read(share: list[slice]) -> None:
        with Path(job.path).open("rb", buffering=0) as file:
            for part in share:
                os.preadv(file.fileno(), [memoryview(out[part])], part.start)

    spread(read, parts(out), job.threads)


prepare_write_cached = prepare_write_synced = prepare_memcpy_fresh


def write_cached(job: Any) -> None:
    write_out(job.target, job.bytes)


def write_synced(job: Any) -> None:
    write_out(job.target, job.bytes, sync=True)
