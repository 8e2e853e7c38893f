"""Files that claim more memory than they are worth, and honest files under a limit of address space (`ulimit -v`)."""

from __future__ import annotations

import os
import pickle
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile
from conftest import BINARY, Command, Result

import swath

SHORT, LONG = 3, 4
ZSTD, DEFLATE, LERC, JPEG2000, WEBP, JPEG_XL = 50000, 8, 34887, 34712, 50001, 50002
MB = 1_000_000


def limited(megabytes: int, *arguments: object, seconds: float = 60) -> Result:
    """Runs the command with so much address space. A backtrace of an abort would show, or hang."""
    done = subprocess.run(
        [str(BINARY), *map(str, arguments)],
        capture_output=True,
        timeout=seconds,
        env={**os.environ, "RUST_BACKTRACE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes * MB, megabytes * MB)),
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def is_one_sentence(result: Result) -> bool:
    return result.code == 1 and result.stderr.startswith("swath: ") and result.stderr.count("\n") == 1


def tiff(path: Path, entries: dict[int, tuple[int, int, int]], tail: bytes = b"") -> None:
    """Writes a directory of tag: (type, count, value or offset). The tail lies behind a header of 8 bytes."""
    body = bytearray(b"II*\0" + struct.pack("<I", 8 + len(tail)) + tail)
    body += struct.pack("<H", len(entries))
    for tag, (kind, count, value) in sorted(entries.items()):
        body += struct.pack("<HHII", tag, kind, count, value)
    path.write_bytes(body + bytes(4))


def one_tile(path: Path, side: int, bits: int, sample_format: int, codec: int, stream: bytes, samples: int = 1) -> None:
    """Writes an image of one tile."""
    tail = stream + bytes(-len(stream) % 4)
    entries = {
        256: (LONG, 1, side),
        257: (LONG, 1, side),
        258: (SHORT, 1, bits),
        259: (SHORT, 1, codec),
        262: (SHORT, 1, 1),
        277: (SHORT, 1, samples),
        322: (LONG, 1, side),
        323: (LONG, 1, side),
        324: (LONG, 1, 8),
        325: (LONG, 1, len(stream)),
        339: (SHORT, 1, sample_format),
    }
    if codec == LERC:
        entries[50674] = (LONG, 2, 8 + len(tail))
        tail += struct.pack("<II", 4, 0)
    tiff(path, entries, tail)


def test_pixel_of_a_huge_lerc_tile_is_refused_by_its_bytes(command: Command, tmp_path: Path) -> None:
    """31,616 x 31,616 doubles are 8 GB in a tile of 70 bytes. The number of samples is within its limit."""
    path = tmp_path / "huge.tif"
    blob = imagecodecs.lerc_encode(np.zeros((16, 16), "float64"))
    one_tile(path, 31_616, 64, 3, LERC, blob)
    assert path.stat().st_size < 1024
    result = command.run("read", path, tmp_path / "out.npy", "--window", "0,0,1,1", seconds=10)
    assert is_one_sentence(result)
    assert "--limit max_block_memory=" in result.stderr
    raised = limited(
        1000, "read", path, tmp_path / "out.npy", "--window", "0,0,1,1", "--limit", "max_block_memory=9000000000"
    )
    assert is_one_sentence(raised) and "memory" in raised.stderr


@pytest.mark.parametrize("megabytes", [100, 400, 800])
def test_pixel_of_a_large_lerc_tile_does_not_abort_under_a_limit(tmp_path: Path, megabytes: int) -> None:
    """The tile is within the limits: 16,384 x 16,384 bytes, stored in 70."""
    path = tmp_path / "large.tif"
    one_tile(path, 16_384, 8, 1, LERC, imagecodecs.lerc_encode(np.zeros((16_384, 16_384), "uint8")))
    result = limited(megabytes, "read", path, tmp_path / "out.npy", "--window", "0,0,1,1")
    assert is_one_sentence(result) and "LERC needs for one block" in result.stderr


@pytest.mark.parametrize("codec", [ZSTD, DEFLATE])
@pytest.mark.parametrize("megabytes", [60, 200])
def test_large_tile_of_other_codecs_does_not_abort_under_a_limit(tmp_path: Path, codec: int, megabytes: int) -> None:
    path, plain = tmp_path / "large.tif", bytes(16_384 * 16_384)
    encode = imagecodecs.zstd_encode if codec == ZSTD else imagecodecs.zlib_encode
    one_tile(path, 16_384, 8, 1, codec, encode(plain))
    result = limited(megabytes, "read", path, tmp_path / "out.npy")
    assert is_one_sentence(result) and "memory" in result.stderr
    corner = limited(megabytes, "read", path, tmp_path / "out.npy", "--window", "0,0,1,1")
    assert corner.code == 0, corner.stderr


@pytest.mark.parametrize("codec", [JPEG2000, WEBP, JPEG_XL])
@pytest.mark.parametrize("megabytes", [100, 250])
def test_picture_does_not_abort_under_a_limit(tmp_path: Path, codec: int, megabytes: int) -> None:
    path, pixels = tmp_path / "picture.tif", np.zeros((4096, 4096, 3), "uint8")
    kind = {JPEG2000: "jpeg2000", WEBP: "webp", JPEG_XL: "jpegxl"}[codec]
    tifffile.imwrite(path, pixels, tile=(4096, 4096), compression=kind, photometric="rgb")
    result = limited(megabytes, "read", path, tmp_path / "out.npy", "--window", "0,0,1,1")
    assert result.code == 0 or is_one_sentence(result), result.stderr


def test_read_of_an_image_larger_than_the_memory_is_one_sentence(tmp_path: Path) -> None:
    path, width, height = tmp_path / "gigabyte.tif", 32_000, 31_250
    entries = {256: (LONG, 1, width), 257: (LONG, 1, height), 258: (SHORT, 1, 8), 259: (SHORT, 1, 1)}
    entries |= {262: (SHORT, 1, 1), 273: (LONG, 1, 4096), 277: (SHORT, 1, 1), 278: (LONG, 1, height)}
    tiff(path, entries | {279: (LONG, 1, width * height)})
    os.truncate(path, 4096 + width * height)
    result = limited(200, "read", path, tmp_path / "out.npy", seconds=20)
    assert is_one_sentence(result) and "1000000000 bytes" in result.stderr
    assert not (tmp_path / "out.npy").exists()
    assert limited(200, "read", path, tmp_path / "out.npy", "--window", "9,9,999,999").code == 0


@pytest.fixture(scope="module", params=["tiles", "strips"])
def megabytes_32(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image of 32 MB that does not compress well."""
    path = tmp_path_factory.mktemp("honest") / "32.tif"
    pixels = np.random.default_rng(1).integers(0, 60_000, (4000, 4000), dtype="uint16")
    how = {"tile": (256, 256), "compression": "zlib"} if request.param == "tiles" else {}
    tifffile.imwrite(path, pixels, **how)
    return path


@pytest.mark.parametrize("megabytes", [100, 150, 200, 300])
def test_write_adapts_to_little_memory_and_makes_the_same_file(
    command: Command, megabytes_32: Path, tmp_path: Path, megabytes: int
) -> None:
    result = limited(megabytes, "convert", megabytes_32, tmp_path / "out.tif", "--cog", "--threads", "8")
    assert result.code == 0, result.stderr
    command.succeed("convert", megabytes_32, tmp_path / "ample.tif", "--cog")
    assert (tmp_path / "out.tif").read_bytes() == (tmp_path / "ample.tif").read_bytes()


@pytest.mark.parametrize("megabytes", [40, 50, 60, 70])
def test_write_without_enough_memory_is_one_sentence(megabytes_32: Path, tmp_path: Path, megabytes: int) -> None:
    result = limited(megabytes, "convert", megabytes_32, tmp_path / "out.tif", "--cog")
    assert result.code == 0 or is_one_sentence(result), (result.code, result.stderr)
    assert result.code == 0 or not list(tmp_path.iterdir()), "no file or temporary file is left"


@pytest.mark.parametrize("strips", [1, 16])
def test_conversion_of_a_tiny_file_with_billions_of_pixels_is_refused_at_once(
    command: Command, tmp_path: Path, strips: int
) -> None:
    """16 x 10^9 pixels that are not stored, in a few hundred bytes."""
    path, side = tmp_path / "billions.tif", 126_480
    tail = bytes(strips * 8)
    place = {1: (LONG, 1, 0)}.get(strips, (LONG, strips, 8))
    entries = {256: (LONG, 1, side), 257: (LONG, 1, side), 258: (SHORT, 1, 8), 259: (SHORT, 1, DEFLATE)}
    entries |= {262: (SHORT, 1, 1), 273: place, 277: (SHORT, 1, 1), 278: (LONG, 1, side // strips), 279: place}
    tiff(path, entries, tail)
    assert path.stat().st_size < 500
    result = command.run("convert", path, tmp_path / "out.tif", seconds=10)
    assert is_one_sentence(result)
    assert "--limit max_pixels=" in result.stderr
    part = command.run("convert", path, tmp_path / "part.tif", "--window", "0,0,100,100", seconds=20)
    assert part.code == 0 or "max_block_" in part.stderr


def test_limits_have_one_set_of_names(command: Command, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npy"
    assert "max_pixels" in command.run("read", source, out, "--limit", "max_pixels=9").stderr
    assert "max_pixels" in command.run("read", source, out, env={"SWATH_MAX_PIXELS": "9"}).stderr
    command.succeed("read", source, out, "--limit", "max_pixels=1024", env={"SWATH_MAX_PIXELS": "9"})
    for name, arguments in [("info", []), ("validate", []), ("bench", []), ("convert", [tmp_path / "out.tif"])]:
        result = command.run(name, source, *arguments, "--limit", "max_ifd_entries=2", "--limit", "max_ifds=9")
        assert result.code == 1 and "max_ifd_entries" in result.stderr, name
        help_text = command.succeed(name, "--help").stdout
        assert "SWATH_MAX_BLOCK_MEMORY" in help_text
    unknown = command.run("info", source, "--limit", "max_pixel=9")
    assert unknown.code == 2 and "max_pixels" in unknown.stderr and "max_block_memory" in unknown.stderr
    assert command.run("info", source, "--limit", "max_pixels=none").code == 2


PYTHON = """
import resource, sys
import swath
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + 150_000_000
resource.setrlimit(resource.RLIMIT_AS, (size, size))
try:
    swath.open_geotiff(sys.argv[1], window=(0, 0, 1, 1))
except MemoryError as error:
    print(type(error).__name__)
"""


def test_python_raises_a_memory_error(tmp_path: Path) -> None:
    path = tmp_path / "large.tif"
    one_tile(path, 16_384, 8, 1, LERC, imagecodecs.lerc_encode(np.zeros((16_384, 16_384), "uint8")))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PYTHON, str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "OutOfMemoryError\n", done.stderr


def sparse(path: Path, side: int, tile: int, padding: int) -> None:
    """Writes a file of tiles that are not stored, with this many bytes of padding."""
    count = (-(-side // tile)) ** 2
    tail = bytes(count * 8 + padding)
    place = (LONG, count, 8)
    entries = {256: (LONG, 1, side), 257: (LONG, 1, side), 258: (SHORT, 1, 8), 259: (SHORT, 1, DEFLATE)}
    entries |= {262: (SHORT, 1, 1), 277: (SHORT, 1, 1), 322: (LONG, 1, tile), 323: (LONG, 1, tile)}
    tiff(path, entries | {324: place, 325: place}, tail)


def test_padding_does_not_make_a_tiny_file_worth_converting(command: Command, tmp_path: Path) -> None:
    """16 x 10^9 pixels in 64 tiles that are not stored, and 244 KB that no tile uses."""
    path = tmp_path / "padded.tif"
    sparse(path, 126_464, 15_808, 244_000)
    result = command.run("convert", path, tmp_path / "out.tif", seconds=10)
    assert is_one_sentence(result) and "--limit max_pixels=" in result.stderr


@pytest.mark.parametrize(("side", "tile"), [(32_768, 256), (61_440, 512)])
def test_honest_sparse_file_is_converted(command: Command, tmp_path: Path, side: int, tile: int) -> None:
    """More pixels than a read may have, in as many tiles as GDAL would write."""
    path = tmp_path / "sparse.tif"
    sparse(path, side, tile, 0)
    result = command.run("convert", path, tmp_path / "out.tif", "--compression", "keep", "--tile", tile, seconds=120)
    assert result.code == 0, result.stderr


def test_limits_of_python_have_the_same_names(source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = str(source)
    assert set(swath.get_limits()) >= {"max_pixels", "max_block_memory", "max_xml_nodes"}
    for limits in ({"max_pixels": 9}, {"max_ifd_entries": 2}):
        with pytest.raises(ValueError, match=next(iter(limits))):
            swath.open_geotiff(path, limits=limits)
        with swath.limits(**limits), pytest.raises(ValueError, match=next(iter(limits))):
            swath.open_geotiff(path)
        with swath.limits(**limits):
            assert swath.open_geotiff(path, limits={next(iter(limits)): 5000}).shape == (32, 32)
        assert swath.open_geotiff(path).shape == (32, 32)
    lazy = swath.open_geotiff(path, chunks=16, limits={"max_pixels": 9})
    with pytest.raises(ValueError, match="max_pixels"):
        pickle.loads(pickle.dumps(lazy)).compute()
    mistakes = (({"max_pixel": 9}, ValueError), ({"max_pixels": 0}, ValueError), ({"max_pixels": "9"}, TypeError))
    for wrong, error in mistakes:
        with pytest.raises(error, match="max_pixels"):
            swath.open_geotiff(path, limits=wrong)
        with pytest.raises(error, match="max_pixels"):
            swath.set_limits(wrong)
    assert swath.set_limits(None) == {}
    monkeypatch.setenv("SWATH_LIMITS", "max_ifd_entries=2, max_ifds=9")
    with pytest.raises(ValueError, match="max_ifd_entries"):
        swath.open_geotiff(str(_copy(source, tmp_path)))
    monkeypatch.setenv("SWATH_LIMITS", "max_entries=2")
    with pytest.raises(ValueError, match="'max_entries' is not a limit"):
        swath.open_geotiff(str(_copy(source, tmp_path)))


MOSAIC = """<VRTDataset rasterXSize="32" rasterYSize="32"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>
<SourceFilename relativeToVRT="1">in.tif</SourceFilename><SourceBand>1</SourceBand></SimpleSource></VRTRasterBand>
</VRTDataset>"""


def test_limits_of_a_call_apply_to_a_mosaic_and_its_sources(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = source.parent / "mosaic.vrt"
    path.write_text(MOSAIC)
    tifffile.imwrite(source, np.full((32, 32), 7, "uint8"), compression="zlib")
    os.utime(path, (0, 0))
    os.utime(source, (0, 0))
    assert swath.open_geotiff(str(path)).shape == (32, 32), "both are in caches now"
    for limits in ({"max_pixels": 9}, {"max_ifd_entries": 2}, {"max_xml_nodes": 3}, {"max_xml_bytes": 20}):
        with pytest.raises(ValueError, match="(?i)" + next(iter(limits)) + "|exceed"):
            swath.open_geotiff(str(path), limits=limits)
        with swath.limits(**limits), pytest.raises(ValueError, match="(?i)" + next(iter(limits)) + "|exceed"):
            swath.open_geotiff(str(path))
        monkeypatch.setenv("SWATH_LIMITS", "{}={}".format(*next(iter(limits.items()))))
        with pytest.raises(ValueError, match="(?i)" + next(iter(limits)) + "|exceed"):
            swath.open_geotiff(str(path))
        assert swath.open_geotiff(str(path), limits={next(iter(limits)): 5000}).shape == (32, 32)
        monkeypatch.delenv("SWATH_LIMITS")
    lazy = swath.open_geotiff(str(path), chunks=16, limits={"max_block_memory": 9})
    with pytest.raises(ValueError, match="max_block_memory"):
        pickle.loads(pickle.dumps(lazy)).compute()
    assert swath.open_geotiff(str(path)).shape == (32, 32)


def test_picture_without_memory_is_one_sentence(tmp_path: Path) -> None:
    path, side = tmp_path / "large.tif", 9000
    tifffile.imwrite(path, np.zeros((side, side), "uint8"), compression="zlib", tile=(256, 256))
    for megabytes in (150, 250, 400):
        result = limited(megabytes, "read", path, tmp_path / "out.png", "--threads", "1")
        assert is_one_sentence(result) and "memory" in result.stderr, (megabytes, result)
        assert not (tmp_path / "out.png").exists()


def _copy(source: Path, folder: Path) -> Path:
    """A file whose header is not kept."""
    path = folder / f"{len(list(folder.iterdir()))}.tif"
    path.write_bytes(source.read_bytes())
    return path


def test_limits_variable_applies_to_the_command(command: Command, source: Path) -> None:
    result = command.run("info", source, env={"SWATH_LIMITS": "max_ifds=9,max_ifd_entries=2"})
    assert result.code == 1 and "max_ifd_entries" in result.stderr
    command.succeed("info", source, "--limit", "max_ifd_entries=99", env={"SWATH_LIMITS": "max_ifd_entries=2"})
    for wrong in ("max_entries=2", "max_ifds", "max_ifds=0"):
        result = command.run("info", source, env={"SWATH_LIMITS": wrong})
        assert result.code == 2 and "SWATH_LIMITS" in result.stderr


def bomb(codec: str) -> tuple[int, bytes]:
    """The number of a codec, and a stream that decodes to much more than a tile of 64 x 64 bytes."""
    zeros, picture = bytes(256 << 20), np.zeros((8192, 8192), "uint8")
    encode = {
        "deflate": (DEFLATE, lambda: imagecodecs.zlib_encode(zeros)),
        "zstd": (ZSTD, lambda: imagecodecs.zstd_encode(zeros)),
        "lzma": (34925, lambda: imagecodecs.lzma_encode(zeros[: 64 << 20])),
        "lzw": (5, lambda: imagecodecs.lzw_encode(zeros[: 64 << 20])),
        "packbits": (32773, lambda: b"\x81\x00" * 1_000_000),
        "lerc": (LERC, lambda: imagecodecs.lerc_encode(picture)),
        "jpeg": (7, lambda: imagecodecs.jpeg_encode(picture)),
        "jpeg2000": (JPEG2000, lambda: imagecodecs.jpeg2k_encode(picture)),
        "webp": (WEBP, lambda: imagecodecs.webp_encode(np.zeros((8192, 8192, 3), "uint8"))),
        "jpegxl": (JPEG_XL, lambda: imagecodecs.jpegxl_encode(picture, effort=1)),
    }
    number, made = encode[codec]
    return number, made()


@pytest.mark.parametrize(
    "codec", ["deflate", "zstd", "lzma", "lzw", "packbits", "lerc", "jpeg", "jpeg2000", "webp", "jpegxl"]
)
def test_stream_that_decodes_to_more_than_its_tile_costs_little(tmp_path: Path, codec: str) -> None:
    number, stream = bomb(codec)
    path = tmp_path / "bomb.tif"
    one_tile(path, 64, 8, 1, number, stream, samples=3 if codec == "webp" else 1)
    started = time.monotonic()
    result = limited(200, "read", path, tmp_path / "out.npy", seconds=20)
    assert result.code == 0 or is_one_sentence(result), result.stderr
    assert time.monotonic() - started < 10
