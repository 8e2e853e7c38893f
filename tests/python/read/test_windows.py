"""`read_windows`: many windows, one array."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import tifffile

from swath.read.source import Handle, open_source
from swath.read.windows import read_windows


@pytest.fixture
def files(tmp_path):
    """Paths and pixels (band, y, x) of files of several layouts."""
    rng = np.random.default_rng(6)
    made = {}
    for name, bands, dtype, keywords in [
        ("tiled", 1, np.int16, {"tile": (32, 32), "compression": "zlib"}),
        ("strips", 1, np.int16, {"rowsperstrip": 7}),
        ("planar", 3, np.int16, {"tile": (16, 16), "planarconfig": "separate", "photometric": "minisblack"}),
        ("chunky", 3, np.int16, {"tile": (32, 32), "planarconfig": "contig", "photometric": "minisblack"}),
    ]:
        pixels = rng.integers(-9000, 9000, (bands, 100, 120)).astype(dtype)
        stored = pixels[0] if bands == 1 else pixels if name == "planar" else np.moveaxis(pixels, 0, -1)
        tifffile.imwrite(tmp_path / f"{name}.tif", np.ascontiguousarray(stored), **keywords)
        made[tmp_path / f"{name}.tif"] = pixels
    return made


def random_jobs(files, count, shape=(20, 24)):
    rng = np.random.default_rng(count)
    jobs, expected = [], []
    for _ in range(count):
        path = list(files)[rng.integers(len(files))]
        pixels = files[path]
        top, left = (int(rng.integers(0, size - part + 1)) for size, part in zip(pixels.shape[1:], shape, strict=True))
        band = int(rng.integers(len(pixels)))
        jobs.append((path, (top, left, top + shape[0], left + shape[1]), band))
        expected.append(pixels[band, top : top + shape[0], left : left + shape[1]])
    return jobs, np.array(expected)


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_windows_of_many_files_are_those_pixels(files, threads):
    jobs, expected = random_jobs(files, 200)
    got = read_windows(jobs, threads=threads)
    assert got.dtype == np.int16 and got.shape == expected.shape
    assert (got == expected).all()


def test_paths_strings_handles_and_opened_files_mix(files):
    jobs, expected = random_jobs(files, 40)
    kinds = [str, lambda p: p, Handle, open_source, lambda p: p.read_bytes()]
    mixed = [(kinds[n % len(kinds)](path), window, band) for n, (path, window, band) in enumerate(jobs)]
    assert (read_windows(mixed) == expected).all()


def test_band_of_the_call_is_that_of_jobs_that_name_none(files):
    path = next(p for p in files if p.stem == "planar")
    got = read_windows([(path, (0, 0, 5, 6)), (path, (0, 0, 5, 6), 0)], band=2)
    assert (got[0] == files[path][2, :5, :6]).all() and (got[1] == files[path][0, :5, :6]).all()


def test_bands_of_one_window_in_any_order_are_one_read_with_the_right_pixels(files):
    rng = np.random.default_rng(3)
    jobs, expected = [], []
    for path, pixels in files.items():
        for top, left in ((0, 0), (0, 0), (31, 40), (80, 96)):
            for band in rng.integers(0, len(pixels), 4).tolist():
                jobs.append((path, (top, left, top + 20, left + 24), band))
                expected.append(pixels[band, top : top + 20, left : left + 24])
    for threads in (1, 3):
        assert (read_windows(jobs, threads=threads) == np.array(expected)).all()


def test_out_is_filled_and_returned(files):
    jobs, expected = random_jobs(files, 10)
    out = np.zeros(expected.shape, np.int16)
    assert read_windows(jobs, out) is out
    assert (out == expected).all()


@pytest.mark.parametrize("kind", ["float32", "int64", ">i2", "strided", "float16"])
def test_out_decides_type_and_layout(files, kind):
    jobs, expected = random_jobs(files, 12)
    if kind == "strided":
        out = np.zeros((len(jobs), 24, 40), np.int16)[:, ::-1, ::2][:, :20, :][:, :, :20]
        jobs = [(path, (w[0], w[1], w[0] + 20, w[1] + 20), band) for path, w, band in jobs]
        expected = expected[:, :, :20]
    else:
        out = np.zeros(expected.shape, kind)
    assert read_windows(jobs, out) is out
    assert (out == expected.astype(out.dtype)).all()


def test_files_of_two_types_need_out(files, tmp_path):
    tifffile.imwrite(tmp_path / "f.tif", np.full((30, 30), 1.5, np.float32))
    path = next(iter(files))
    jobs = [(path, (0, 0, 8, 8)), (tmp_path / "f.tif", (0, 0, 8, 8))]
    with pytest.raises(ValueError, match="job 1 is of type float32"):
        read_windows(jobs)
    got = read_windows(jobs, np.empty((2, 8, 8), np.float64))
    assert (got[0] == files[path][0, :8, :8]).all() and (got[1] == 1.5).all()
    with pytest.raises(ValueError, match="job 1 .*without loss"):
        read_windows(jobs, np.empty((2, 8, 8), np.int16))


@pytest.mark.parametrize(
    "window", [(90, 0, 110, 20), (0, 110, 20, 130), (-1, 0, 19, 20), (0, -5, 20, 15), (5, 5, 5, 25), (20, 20, 0, 40)]
)
def test_window_outside_names_its_job(files, window):
    path = next(iter(files))
    with pytest.raises(ValueError, match="job 2: window=.*outside the source extent"):
        read_windows([(path, (0, 0, 20, 20))] * 2 + [(path, window)])


def test_windows_of_two_shapes_are_an_error(files):
    path = next(iter(files))
    with pytest.raises(ValueError, match="job 1: .*one shape"):
        read_windows([(path, (0, 0, 20, 20)), (path, (0, 0, 20, 21))])


@pytest.mark.parametrize("band", [1, -1, 99])
def test_missing_band_names_its_job(files, band):
    path = next(p for p in files if p.stem == "tiled")
    with pytest.raises(IndexError, match=f"job 0: band={band} is out of range"):
        read_windows([(path, (0, 0, 2, 2), band)])


@pytest.mark.parametrize("job", ["a.tif", ("a.tif",), ("a.tif", (0, 0, 1)), ("a.tif", (0, 0, 1.5, 2)), ("a.tif", None)])
def test_invalid_job_is_an_error_that_describes_jobs(job):
    with pytest.raises((TypeError, ValueError), match="job 0 is .*a job is"):
        read_windows([job])


@pytest.mark.parametrize("shape", [(1, 20, 20), (2, 20, 21), (2, 20), (2, 20, 20, 1)])
def test_out_of_another_shape_is_an_error(files, shape):
    path = next(iter(files))
    with pytest.raises(ValueError, match=r"out must be an array of shape \(2, 20, 20\)"):
        read_windows([(path, (0, 0, 20, 20))] * 2, np.empty(shape, np.int16))


def test_read_only_out_is_an_error(files):
    out = np.zeros((1, 4, 4), np.int16)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        read_windows([(next(iter(files)), (0, 0, 4, 4))], out)


def test_no_jobs(files):
    with pytest.raises(ValueError, match="no jobs"):
        read_windows([])
    assert read_windows([], np.empty((0, 7, 7))).shape == (0, 7, 7)


def test_missing_file_is_that_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.tif"):
        read_windows([(tmp_path / "none.tif", (0, 0, 2, 2))])


def test_broken_tile_is_an_error_not_zeros(tmp_path):
    path = tmp_path / "broken.tif"
    pixels = np.random.default_rng(0).integers(0, 255, (64, 64), np.uint8)
    tifffile.imwrite(path, pixels, tile=(32, 32), compression="zlib")
    data = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as tif:
        start, size = tif.pages[0].dataoffsets[3], tif.pages[0].databytecounts[3]
    data[start : start + size] = b"\xff" * size
    path.write_bytes(data)
    assert read_windows([(path, (0, 0, 32, 32))]).shape == (1, 32, 32)
    with pytest.raises(ValueError):
        read_windows([(path, (0, 0, 32, 32)), (path, (32, 32, 64, 64))])


def test_overview_windows_are_in_its_pixels(tmp_path):
    full = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64)
    with tifffile.TiffWriter(tmp_path / "o.tif") as tif:
        tif.write(full, tile=(16, 16))
        tif.write(full[::2, ::2].copy(), tile=(16, 16), subfiletype=1)
    got = read_windows([(tmp_path / "o.tif", (20, 4, 30, 14))], overview_level=1)
    assert (got[0] == full[::2, ::2][20:30, 4:14]).all()
    with pytest.raises(ValueError, match="overview_level 2 is out of range"):
        read_windows([(tmp_path / "o.tif", (0, 0, 1, 1))], overview_level=2)


def test_report_is_remembered(files):
    from swath._report import last_report

    read_windows(random_jobs(files, 5)[0])
    assert last_report()


def test_generator_of_jobs_is_taken(files):
    jobs, expected = random_jobs(files, 5)
    assert (read_windows(iter(jobs)) == expected).all()


def test_handles_pickle_into_loaders(files):
    jobs, expected = random_jobs(files, 5)
    jobs = pickle.loads(pickle.dumps([(Handle(path), window, band) for path, window, band in jobs]))
    assert (read_windows(jobs) == expected).all()


def test_remote_files_are_waited_for_in_many_threads(files):
    fsspec = pytest.importorskip("fsspec")
    path = next(iter(files))
    with fsspec.open("memory://windows/a.tif", "wb") as target:
        target.write(path.read_bytes())
    from swath._report import last_report

    windows = [(5, 6, 25, 30), (50, 60, 70, 84)] * 5
    got = read_windows([("memory://windows/a.tif", window) for window in windows])
    assert (got == np.array([files[path][0, w[0] : w[2], w[1] : w[3]] for w in windows])).all()
    assert last_report()["threads"] >= 8


def test_a_number_never_becomes_another_one(tmp_path: Path) -> None:
    path = tmp_path / "bytes.tif"
    tifffile.imwrite(path, np.array([[216, 1], [2, 3]], "u1"))
    with pytest.raises(ValueError, match="cannot be cast to the int8"):
        read_windows([(path, (0, 0, 2, 2))], out=np.empty((1, 2, 2), "i1"))
    wide = read_windows([(path, (0, 0, 2, 2), None)], out=np.empty((1, 2, 2), "f4"))
    assert wide[0, 0, 0] == 216


@pytest.mark.parametrize(
    ("job", "error"),
    [
        (("a.tif", (0, 0, 1, 1), True), TypeError),
        (("a.tif", (0, 0, 1, 1), 0, 1), ValueError),
        (("a.vrt", (0, 0, 1, 1)), ValueError),
    ],
)
def test_invalid_jobs_are_refused(job: tuple[object, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        read_windows([job])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="overview_level"):
        read_windows([("a.tif", (0, 0, 1, 1))], overview_level=True)


@pytest.mark.parametrize(
    ("stored", "value", "out", "holds"),
    [
        ("uint16", 65535, "float16", False),
        ("uint16", 65535, "float32", True),
        ("int16", -32768, "float16", True),
        ("uint8", 255, "float16", True),
        ("float64", 1e300, "float32", False),
        ("float64", 1e30, "float32", True),
        ("float64", np.inf, "float32", True),
        ("float32", 1e38, "float16", False),
    ],
)
def test_a_number_never_becomes_infinite_in_out(
    tmp_path: Path, stored: str, value: float, out: str, holds: bool
) -> None:
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.full((32, 32), value, stored))
    pixels = np.zeros((1, 4, 4), out)
    jobs = [(str(path), (0, 0, 4, 4))]
    if holds:
        read_windows(jobs, pixels)
        assert np.allclose(pixels.astype("float64"), value, rtol=1e-6)
    else:
        with pytest.raises(ValueError, match="job 0"):
            read_windows(jobs, pixels)
