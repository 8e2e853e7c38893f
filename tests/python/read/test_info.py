"""`read_info` returns what `open_geotiff` finds in the headers, without pixels."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import swath
from open_files import PIXELS, tagged
from swath import open_geotiff, read_info


def test_it_agrees_with_open_geotiff(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8), nodata="3")
    info, array = read_info(path), open_geotiff(path)
    assert (info["height"], info["width"]) == array.shape
    assert info["dtype"] == array.dtype.name
    assert info["epsg"] == array.attrs["crs"]
    assert info["nodata"] == array.attrs["nodata"] == 3
    assert info["transform"] == array.attrs["transform"]


def test_every_kind_of_source_gives_the_same(tmp_path: Path) -> None:
    path = Path(tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8)))
    expected = {**read_info(path), "name": ""}
    with path.open("rb") as file:
        for source in (str(path), path.read_bytes(), io.BytesIO(path.read_bytes()), file, path.as_uri()):
            assert {**read_info(source), "name": ""} == expected


def test_a_change_of_the_result_does_not_affect_other_calls(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8))
    first = read_info(path)
    tags = list(first["tags"])
    first["tags"].clear()
    first["geo_keys"].clear()
    assert read_info(path)["tags"] == tags
    assert open_geotiff(path).attrs["crs"] == 32633


def test_sidecars_count(tmp_path: Path) -> None:
    path = Path(tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8)))
    assert read_info(path)["nodata"] is None
    text = '<PAMDataset><PAMRasterBand band="1"><NoDataValue>4</NoDataValue></PAMRasterBand></PAMDataset>'
    Path(f"{path}.aux.xml").write_text(text)
    assert read_info(path)["nodata"] == 4


def test_missing_files_and_other_contents_are_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_info(tmp_path / "missing.tif")
    mosaic = tmp_path / "a.vrt"
    mosaic.write_text("<VRTDataset/>")
    with pytest.raises(swath.CorruptGeoTIFFError):
        read_info(mosaic)
    with pytest.raises(OSError):
        read_info(tmp_path)


def test_it_needs_no_xarray(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8))
    code = "import sys, swath; swath.read_info(sys.argv[1]); print({'xarray', 'dask', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"
