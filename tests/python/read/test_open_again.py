"""Headers are cached for the next read, which must detect every change of the file and of its sidecars."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from open_files import PIXELS, by_gdal, tagged
from swath import open_geotiff
from swath.read import header as header_module
from swath.read.open_geotiff import prepare
from swath.xarray.dataarray import _direct_way_works, _directly, _plainly, data_array


def settle(path: Path) -> None:
    """Makes a file and its folder old enough to be cached."""
    before = time.time() - 100
    os.utime(path, (before, before))
    os.utime(path.parent, (before, before))


@pytest.fixture(autouse=True)
def no_headers() -> None:
    header_module._after_fork()


def test_a_header_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.tif"
    tagged(path)
    settle(path)
    opened = []
    open_source = header_module.open_source
    monkeypatch.setattr(header_module, "open_source", lambda *args: opened.append(args) or open_source(*args))
    for _ in range(3):
        open_geotiff(path, window=(0, 0, 2, 2))
    assert len(opened) == 1


def test_a_young_file_is_not_trusted(tmp_path: Path) -> None:
    """Two writes within one tick of the clock have the same time; here they also have the same size and inode."""
    path = tmp_path / "a.tif"
    tagged(path, nodata="12345")
    assert open_geotiff(path).attrs["nodata"] == 12345
    stat = path.stat()
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(data.replace(b"12345", b"54321"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert open_geotiff(path).attrs["nodata"] == 54321


def test_a_replaced_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tagged(path, PIXELS.astype(np.uint8))
    settle(path)
    assert open_geotiff(path).attrs["crs"] == 32633
    tagged(tmp_path / "b.tif", PIXELS.astype(np.uint16), keys=None)
    (tmp_path / "b.tif").replace(path)
    again = open_geotiff(path)
    assert again.dtype == np.uint16
    assert "crs" not in again.attrs


def test_a_file_changed_in_place_is_read_anew(tmp_path: Path) -> None:
    import rasterio

    path = tmp_path / "a.tif"
    by_gdal(path, PIXELS.astype(np.uint8))
    settle(path)
    assert "nodata" not in open_geotiff(path).attrs
    with rasterio.open(path, "r+") as file:
        file.nodata = 3
    assert open_geotiff(path).attrs["nodata"] == 3


def test_sidecars_are_seen_when_they_come_change_and_go(tmp_path: Path) -> None:
    path, pam = tmp_path / "a.tif", tmp_path / "a.tif.aux.xml"
    tagged(path, PIXELS.astype(np.uint8))
    settle(path)
    assert "nodata" not in open_geotiff(path).attrs
    text = '<PAMDataset><PAMRasterBand band="1"><NoDataValue>{}</NoDataValue></PAMRasterBand></PAMDataset>'
    pam.write_text(text.format(3))
    assert open_geotiff(path).attrs["nodata"] == 3
    settle(pam)
    settle(path)
    assert open_geotiff(path).attrs["nodata"] == 3
    pam.write_text(text.format(4))  # Changed in place, so the folder does not change.
    assert open_geotiff(path).attrs["nodata"] == 4
    pam.unlink()
    assert "nodata" not in open_geotiff(path).attrs


def test_sidecars_of_a_listed_folder_are_seen_when_they_come_change_and_go(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.tif" for i in range(header_module.LISTED_FROM + 4)]
    for path in paths:
        tagged(path, PIXELS.astype(np.uint8))
        settle(path)
    text = '<PAMDataset><PAMRasterBand band="1"><NoDataValue>{}</NoDataValue></PAMRasterBand></PAMDataset>'
    last, pam = paths[-1], Path(f"{paths[-1]}.aux.xml")
    assert all("nodata" not in open_geotiff(path).attrs for path in paths)
    assert header_module._folders.look(str(tmp_path))[1] == frozenset()
    pam.write_text(text.format(3))
    assert open_geotiff(last).attrs["nodata"] == 3
    before = time.time() - 50
    os.utime(pam, (before, before))
    os.utime(tmp_path, (before, before))
    for path in paths:
        open_geotiff(path)
    assert header_module._folders.look(str(tmp_path))[1] == frozenset([pam.name])
    assert open_geotiff(last).attrs["nodata"] == 3
    pam.write_text(text.format(4))  # Changed in place, so the folder does not change.
    assert open_geotiff(last).attrs["nodata"] == 4
    pam.unlink()
    assert "nodata" not in open_geotiff(last).attrs


def test_a_removed_file_is_not_found(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tagged(path)
    settle(path)
    open_geotiff(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        open_geotiff(path)


def test_the_same_name_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, value in (("one", 1), ("two", 2)):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "a.tif"
        tagged(path, np.full((4, 6), value, np.uint8))
        settle(path)
    for folder, value in (("one", 1), ("two", 2), ("one", 1)):
        monkeypatch.chdir(tmp_path / folder)
        assert open_geotiff("a.tif").values[0, 0] == value


def test_many_files_do_not_stay_open(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.tif" for i in range(header_module.KEPT + 20)]
    for path in paths:
        tagged(path)
        settle(path)
    for path in paths:
        os.utime(tmp_path, (1, 1))
        open_geotiff(path)
    assert len(header_module._kept._headers) == header_module.KEPT


def test_threads_may_open_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tagged(path, PIXELS.astype(np.uint8))
    settle(path)
    failed = []

    def read() -> None:
        for row in range(200):
            if open_geotiff(path, window=(row % 4, 0, row % 4 + 1, 6)).values[0, 0] != row % 4 * 6:
                failed.append(row)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_reads(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tagged(path, PIXELS.astype(np.uint8))
    settle(path)
    code = (
        "import os, sys, swath\n"
        "before = swath.open_geotiff(sys.argv[1])\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if swath.open_geotiff(sys.argv[1]).equals(before) else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=60).returncode == 0


def test_plans_travel(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8), nodata="3")
    ready = prepare(path, masked=True, window=(0, 1, 3, 5))
    plan = pickle.loads(pickle.dumps(ready.plan))
    assert plan == ready.plan
    pixels = plan.read(ready.header.file, plan.part((1, 3), (0, 2)))
    np.testing.assert_array_equal(pixels, PIXELS[1:3, 1:3])


def test_the_direct_way_makes_the_same_arrays() -> None:
    assert _direct_way_works(), "this xarray has no way in any more: small windows are slow again"
    data = np.zeros((3, 4, 2), np.int16)
    coords = {"y": np.arange(3.0), "x": np.arange(4), "band": np.arange(2)}
    for dims, pixels in ((("y", "x", "band"), data), (("y", "x"), data[..., 0])):
        some = {dim: coords[dim] for dim in dims}
        direct, plain = (make(pixels, dims, some, {"a": [1]}, "n") for make in (_directly, _plainly))
        xr.testing.assert_identical(direct, plain)
        for array in (direct, plain):
            assert array.data is pixels or array.data.base is not None
        assert direct.sel(x=2, method="nearest").identical(plain.sel(x=2, method="nearest"))
        assert (direct + plain).identical(plain + plain)
        assert direct.to_dataset().identical(plain.to_dataset())
        assert pickle.loads(pickle.dumps(direct)).identical(plain)
    made = data_array(np.zeros(3), ("y",), {"y": np.arange(10.0)[2:5]}, {}, None)
    assert made.y.values.tolist() == [2, 3, 4]


def test_coordinates_cannot_be_changed_for_the_next_reader(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    tagged(path)
    settle(path)
    array = open_geotiff(path)
    with pytest.raises((ValueError, TypeError)):
        array.x.values[0] = 5
    moved = array.assign_coords(x=array.x + 1)
    assert moved.x.values[0] == 106
    assert open_geotiff(path).x.values[0] == 105
