"""Fuzzes what only the Python package reads: mosaics (VRT) and the replies of HTTP servers.

    python tests/hostile/mutation.py mosaic --seconds 600
    python tests/hostile/mutation.py reply --seconds 600

Inputs are damaged copies of good ones: bytes, numbers and elements are changed, repeated or removed. Each must give an
array or an error of a class that users expect, within a few seconds. The tests run a few hundred of them.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import socket
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import tifffile

import swath

EXPECTED = (ValueError, OSError, MemoryError, IndexError, EOFError)
"""Swath's errors are subclasses of these. TypeError, KeyError and the like would be mistakes of the program."""
SECONDS = 10.0

NUMBERS = (
    b"-1",
    b"0",
    b"1",
    b"3",
    b"255",
    b"65536",
    b"2147483647",
    b"4294967296",
    b"1e308",
    b"nan",
    b"inf",
    b"9" * 30,
    b"",
)
WORDS = (
    *(
        b"<",
        b">",
        b"/>",
        b"</VRTDataset>",
        b"<!DOCTYPE a>",
        b"&amp;",
        b"&a;",
        b"<![CDATA[",
        b"<!--",
        b"\xff\xfe",
        b"\0",
    ),
    *(
        b"relativeToVRT",
        b"ComplexSource",
        b"NODATA",
        b"ScaleRatio",
        b"OverviewList",
        b"PixelFunctionType",
        b"../",
        b"in.tif",
    ),
    *(
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"\r\n\r\n",
        b"Content-Encoding: gzip\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ),
    *(b"HTTP/1.1 304 Not Modified\r\n", b"bytes */0", b"Location: http://127.0.0.1:1/\r\n", b'ETag: W/"2"\r\n'),
)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Returns a copy with one to four changes."""
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(data) + 1)
        kind = chance.choice((0, 0, 0, 0, 0, 1, 2, 3, 4, 5))
        if kind == 0 and (numbers := list(re.finditer(rb"\d+", data[:4096]))):
            found = chance.choice(numbers)
            data = data[: found.start()] + chance.choice(NUMBERS) + data[found.end() :]
        elif kind == 1:
            data = data[:at] + chance.choice(WORDS) + data[at:]
        elif kind == 2:
            data = data[:at] + data[at + chance.randrange(1, 40) :]
        elif kind == 3:
            part = data[at : at + chance.randrange(1, 200)]
            data = data[:at] + part * chance.choice((1, 2, 50)) + data[at:]
        elif kind == 4 and at < len(data):
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        else:
            data = data[:at]
    return data


def mosaics(folder: Path) -> Callable[[bytes], object]:
    """Returns a function that reads a document as a mosaic of two files in a folder."""
    for name in ("in.tif", "in2.tif"):
        tifffile.imwrite(folder / name, np.arange(400, dtype="uint8").reshape(20, 20))
    path = folder / "mosaic.vrt"

    def read(document: bytes) -> object:
        path.write_bytes(document)
        return swath.open_geotiff(str(path), max_pixels=1_000_000)

    return read


def source(name: str, column: int, kind: str = "SimpleSource", more: str = "") -> str:
    rect = '{}Rect xOff="{}" yOff="0" xSize="20" ySize="20"/>'
    return (
        f'<{kind}><SourceFilename relativeToVRT="1">{name}</SourceFilename><SourceBand>1</SourceBand>'
        f"<{rect.format('Src', 0)}<{rect.format('Dst', column)}{more}</{kind}>"
    )


MOSAIC_SEEDS = [
    (
        '<VRTDataset rasterXSize="40" rasterYSize="20"><SRS>EPSG:32631</SRS>'
        "<GeoTransform>500000, 10, 0, 4649776, 0, -10</GeoTransform>"
        '<VRTRasterBand dataType="Byte" band="1"><NoDataValue>0</NoDataValue><ColorInterp>Gray</ColorInterp>'
        f"{source('in.tif', 0)}{body}</VRTRasterBand></VRTDataset>"
    ).encode()
    for body in (
        source("in2.tif", 20),
        source(
            "in2.tif", 20, "ComplexSource", "<NODATA>3</NODATA><ScaleRatio>2</ScaleRatio>"
        ),
    )
]


def replies() -> list[bytes]:
    """The start of replies that are damaged; the body of the image follows."""
    ok = b"HTTP/1.1 206 Partial Content\r\nContent-Length: {length}\r\nContent-Range: bytes {first}-{last}/{size}\r\n"
    return [
        ok + b'ETag: "1"\r\n\r\n',
        ok + b"Last-Modified: Wed, 18 Nov 2026 10:00:00 GMT\r\nConnection: close\r\n\r\n",
    ]


@contextmanager
def server(image: bytes) -> Iterator[tuple[str, Callable[[bytes], None]]]:
    """Serves an image with a head that can be set. The head holds names of numbers in braces."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    head = [b""]

    def answer(connection: socket.socket) -> None:
        connection.settimeout(SECONDS)
        with connection:
            try:
                request = b""
                while b"\r\n\r\n" not in request:
                    if not (more := connection.recv(4096)):
                        return
                    request += more
                wanted = re.search(rb"bytes=(\d+)-(\d+)", request)
                if wanted is None or b"GET /a.tif HTTP" not in request:
                    connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    return
                first, last = int(wanted[1]), min(int(wanted[2]), len(image) - 1)
                values = {"length": last - first + 1, "first": first, "last": last, "size": len(image)}
                text = head[0]
                for name, value in values.items():
                    text = text.replace(b"{%s}" % name.encode(), str(value).encode())
                connection.sendall(text + image[first : last + 1])
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/a.tif", lambda text: head.__setitem__(0, text)
    finally:
        listener.close()


def run(target: str, folder: Path, seed: int, count: int | None, seconds: float) -> tuple[int, Counter[str], list[str]]:
    """Tries damaged inputs. Returns their number, how they ended, and descriptions of those that ended badly."""
    chance = random.Random(seed)
    if target == "mosaic":
        read = mosaics(folder)
        return _try(read, MOSAIC_SEEDS, chance, count, seconds, folder)
    path = folder / "a.tif"
    pixels = np.random.default_rng(1).integers(0, 255, (256, 256), "uint8")
    tifffile.imwrite(path, pixels, tile=(64, 64))
    variables = {"SWATH_ALLOW_PRIVATE_HOSTS": "1", "SWATH_HTTP_READ_TIMEOUT": "0.3", "SWATH_HTTP_TOTAL_TIMEOUT": "2"}
    os.environ.update(variables)
    try:
        with server(path.read_bytes()) as (url, set_head):

            def read_reply(head: bytes) -> object:
                set_head(head)
                array = swath.open_geotiff(url)
                if array.shape == pixels.shape and not np.array_equal(array.values, pixels):
                    raise AssertionError("the pixels are wrong")
                return array

            return _try(read_reply, replies(), chance, count, seconds, folder)
    finally:
        for name in variables:
            os.environ.pop(name, None)


def _try(
    read: Callable[[bytes], object],
    seeds: list[bytes],
    chance: random.Random,
    count: int | None,
    seconds: float,
    folder: Path,
) -> tuple[int, Counter[str], list[str]]:
    outcomes: Counter[str] = Counter()
    bad: list[str] = []
    number, end = 0, time.monotonic() + seconds
    for seed in seeds:
        read(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while (count is None or number < count) and time.monotonic() < end:
            number += 1
            data = mutated(chance.choice(seeds), chance)
            start = time.monotonic()
            try:
                read(data)
                outcomes["array"] += 1
            except EXPECTED as error:
                outcomes[type(error).__name__] += 1
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                outcomes[type(error).__name__] += 1
                bad.append(f"{data!r}: {traceback.format_exc()[-1500:]}")
            if time.monotonic() - start > SECONDS:
                bad.append(f"{data!r} took {time.monotonic() - start:.1f} s")
    return number, outcomes, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=("mosaic", "reply"))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        number, outcomes, bad = run(arguments.target, Path(folder), arguments.seed, None, arguments.seconds)
    for problem in bad[:10]:
        print(problem)
    print(f"{arguments.target}: {number} inputs in {time.monotonic() - start:.0f} s, {len(bad)} bad; {dict(outcomes)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
