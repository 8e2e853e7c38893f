"""Datasets: each variable becomes a band with its name, scale and unit, or the write is refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
import rasterio
import rioxarray
import xarray as xr

import swath
from swath import open_geotiff, to_geotiff

RNG = np.random.default_rng(14)
BYTES = RNG.integers(1, 200, (8, 9)).astype("u1")
COUNTS = RNG.integers(1, 4000, (3, 8, 9)).astype("u2")
BYTES[2, 2], COUNTS[:, 1, 1] = 0, 0
PLACE = rasterio.Affine(10, 0, 500, 0, -10, 900)
READS: list[dict[str, Any]] = [{}, {"masked": True}, {"unpack": True}]


def file(path: Path, pixels: Any, nodata: float | None = 0, scales: Any = None, offsets: Any = None) -> Path:
    bands = pixels if pixels.ndim == 3 else pixels[None]
    profile = {"width": bands.shape[2], "height": bands.shape[1], "count": len(bands), "dtype": bands.dtype}
    with rasterio.open(path, "w", driver="GTiff", crs="EPSG:32633", transform=PLACE, nodata=nodata, **profile) as made:
        made.write(bands)
        if scales is not None:
            made.scales, made.offsets = scales, offsets or (0.0,) * len(bands)
        if len(bands) == 3:
            made.descriptions, made.units = ("blue", "green", "red"), ("m", "s", "")
            made.update_tags(SENSOR="MSI")
    return path


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    """Three bands, each with its own name, unit, scale and offset."""
    return file(tmp_path / "scene.tif", COUNTS, 0, (0.1, 0.5, 1.0), (1.0, 2.0, 3.0))


def seen(path: Path) -> dict[str, Any]:
    with rasterio.open(path) as found:
        return {
            "pixels": found.read(),
            "names": found.descriptions,
            "scales": found.scales,
            "offsets": found.offsets,
            "units": found.units,
            "nodata": found.nodata,
            "dtypes": set(found.dtypes),
            "crs": found.crs and found.crs.to_epsg(),
            "transform": found.transform,
            "tags": found.tags(),
        }


def written(dataset: xr.Dataset, tmp_path: Path, **options: Any) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_geotiff(dataset, tmp_path / "it.tif", **options)
    return seen(tmp_path / "it.tif")


@pytest.mark.parametrize("lazy", [False, True])
def test_variables_become_bands_with_their_names(lazy: bool, tmp_path: Path) -> None:
    coords = {"y": 895 - 10.0 * np.arange(8), "x": 505 + 10.0 * np.arange(9)}
    dataset = xr.Dataset(
        {"ndvi": (("y", "x"), BYTES / 7), "slope": (("x", "y"), COUNTS[0].T), "wet": (("y", "x"), BYTES > 9)},
        coords,
        {"crs": 32633},
    )
    found = written(dataset.chunk(4) if lazy else dataset, tmp_path)
    assert found["names"] == ("ndvi", "slope", "wet")
    np.testing.assert_array_equal(found["pixels"], [BYTES / 7, COUNTS[0], BYTES > 9])
    assert (found["dtypes"], found["crs"], found["transform"]) == ({"float64"}, 32633, PLACE)
    np.testing.assert_array_equal(open_geotiff(tmp_path / "it.tif", band="slope"), COUNTS[0])


@pytest.mark.parametrize("keywords", READS)
@pytest.mark.parametrize("way", ["to_dataset", "read", "dropped labels", "two of three", "reversed"])
def test_bands_of_one_file_keep_their_metadata(way: str, keywords: dict[str, Any], scene: Path, tmp_path: Path) -> None:
    whole = open_geotiff(scene, **keywords)
    order = {"two of three": [2, 0], "reversed": [2, 1, 0]}.get(way, [0, 1, 2])
    if way == "read":
        dataset = xr.Dataset(
            {n: open_geotiff(scene, band=n, **keywords).drop_vars("band") for n in seen(scene)["names"]}
        )
    elif way == "dropped labels":
        parts = {f"own{number}": open_geotiff(scene, band=number, **keywords) for number in order}
        dataset = xr.Dataset({name: part.reset_coords("band", drop=True) for name, part in parts.items()})
    else:
        dataset = whole.to_dataset("band")[order]
    found, expected = written(dataset, tmp_path), seen(scene)
    for name in ("scales", "offsets", "units", "names"):
        if (way, name) == ("dropped labels", "names"):
            assert found["names"] == ("own0", "own1", "own2")
        else:
            assert found[name] == tuple(expected[name][number] for number in order), name
    np.testing.assert_array_equal(found["pixels"], COUNTS[order])
    for name in ("nodata", "dtypes", "crs", "transform", "tags"):
        assert found[name] == expected[name], name


@pytest.mark.parametrize("keywords", READS)
def test_scales_of_several_files_stay_with_their_pixels(keywords: dict[str, Any], tmp_path: Path) -> None:
    one = file(tmp_path / "one.tif", BYTES, 0, (0.1,), (5.0,))
    two = file(tmp_path / "two.tif", COUNTS[0], 0, (1e-4,))
    dataset = xr.Dataset({"one": open_geotiff(one, **keywords), "two": open_geotiff(two, **keywords)})
    found = written(dataset, tmp_path)
    assert (found["scales"], found["offsets"], found["nodata"]) == ((0.1, 1e-4), (5.0, 0.0), 0)
    # The type that can hold the samples of both.
    assert found["dtypes"] == {"uint16"}
    np.testing.assert_array_equal(found["pixels"], [BYTES, COUNTS[0]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_masked_floats_get_their_sentinel_again(dtype: str, tmp_path: Path) -> None:
    heights = np.where(BYTES == 0, -9999, BYTES.astype("i2")).astype(dtype)
    paths = [
        file(tmp_path / f"{name}.tif", (heights + (heights > 0) * n).astype(dtype), -9999)
        for n, name in enumerate("ab")
    ]
    dataset = xr.Dataset({path.stem: open_geotiff(path, masked=True) for path in paths})
    found = written(dataset, tmp_path)
    assert (found["dtypes"], found["nodata"]) == ({dtype}, -9999)
    assert (found["pixels"][:, 2, 2] == -9999).all() and not np.isnan(found["pixels"]).any()


@pytest.mark.parametrize("keywords", [{"masked": True}, {"unpack": True}])
def test_masked_variables_with_other_sentinels_have_nan_for_all(keywords: dict[str, Any], tmp_path: Path) -> None:
    one = file(tmp_path / "one.tif", BYTES, 0, (0.1,), (5.0,))
    two = file(tmp_path / "two.tif", BYTES + 55, 255)
    read = {path.stem: open_geotiff(path, **keywords) for path in (one, two)}
    found = written(xr.Dataset(read), tmp_path)
    assert found["dtypes"] == {"float64"} and np.isnan(found["nodata"])
    np.testing.assert_array_equal(found["pixels"], [array.values for array in read.values()])
    # Values that were masked but not scaled are still packed.
    assert found["scales"] == ((1.0, 1.0) if "unpack" in keywords else (0.1, 1.0))


def test_raw_and_unpacked_values_side_by_side(scene: Path, tmp_path: Path) -> None:
    raw, unpacked = (open_geotiff(scene, band=0, **keywords).drop_vars("band") for keywords in READS[1:])
    found = written(xr.Dataset({"raw": raw, "unpacked": unpacked, "computed": unpacked * 2}), tmp_path)
    assert (found["scales"], found["offsets"]) == ((0.1, 1.0, 1.0), (1.0, 0.0, 0.0))
    np.testing.assert_array_equal(found["pixels"], [raw, unpacked, unpacked * 2])
    assert np.isnan(found["nodata"])


def test_lost_labels_drop_the_scale_with_a_warning(scene: Path, tmp_path: Path) -> None:
    whole = open_geotiff(scene)
    dataset = xr.Dataset({name: whole.isel(band=number, drop=True) for number, name in enumerate("abc")})
    with pytest.warns(UserWarning, match="lost the labels"):
        to_geotiff(dataset, tmp_path / "it.tif")
    assert seen(tmp_path / "it.tif")["scales"] == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("door", [swath.open_rasterio, rioxarray.open_rasterio], ids=["ours", "rioxarray"])
@pytest.mark.parametrize("keywords", [{}, {"masked": True}, {"mask_and_scale": True}])
def test_band_as_variable_comes_back(door: Any, keywords: dict[str, Any], scene: Path, tmp_path: Path) -> None:
    dataset = door(scene, band_as_variable=True, **keywords)
    expected = seen(scene)
    assert_same(written(dataset, tmp_path), expected, [0, 1, 2])
    renamed = written(dataset.rename(band_1="blau"), tmp_path)
    assert renamed["names"] == ("blau", "green", "red")
    assert_same(written(dataset[["band_3", "band_1"]], tmp_path), expected, [2, 0])
    assert_same(written(dataset[["band_2"]], tmp_path), expected, [1])


def assert_same(found: dict[str, Any], expected: dict[str, Any], order: list[int]) -> None:
    for name in ("names", "scales", "offsets", "units"):
        assert found[name] == tuple(expected[name][number] for number in order), name
    np.testing.assert_array_equal(found["pixels"], expected["pixels"][order])
    assert (found["nodata"], found["dtypes"], found["crs"]) == (0, {"uint16"}, 32633)
    assert found["tags"]["SENSOR"] == "MSI"


def plain(**attrs: Any) -> xr.DataArray:
    return xr.DataArray(BYTES, dims=("y", "x"), attrs=attrs)


@pytest.mark.parametrize(
    ("other", "error", "words"),
    [
        (plain(nodata=255), swath.ConflictingNodataError, "different nodata values"),
        (plain(_FillValue=255), swath.ConflictingNodataError, "different nodata values"),
        (plain(), swath.ConflictingNodataError, "'other' of the Dataset has no nodata value"),
        (plain(nodata=0, crs=4326), swath.ConflictingCRSError, "attrs\\['crs'\\]"),
        (plain(nodata=0, crs_wkt=pyproj.CRS(3857).to_wkt()), swath.ConflictingCRSError, "attrs\\['crs_wkt'\\]"),
    ],
)
def test_variables_that_disagree_are_refused_unless_the_caller_decides(
    other: xr.DataArray, error: type[Exception], words: str, tmp_path: Path
) -> None:
    (tmp_path / "it.tif").write_bytes(b"old")
    own = plain(nodata=0, crs=32633, crs_wkt=pyproj.CRS(32633).to_wkt())
    dataset = xr.Dataset({"own": own, "other": other})
    with pytest.raises(error, match=words):
        to_geotiff(dataset, tmp_path / "it.tif")
    assert (tmp_path / "it.tif").read_bytes() == b"old"
    found = written(dataset, tmp_path, nodata=7, crs=3857)
    assert (found["nodata"], found["crs"]) == (7, 3857)


def test_a_nodata_value_that_other_variables_cannot_equal_is_not_a_conflict(tmp_path: Path) -> None:
    floats = plain(nodata=-9999).astype("f4")
    found = written(xr.Dataset({"height": floats, "class": plain(), "flag": plain(nodata=1) > 3}), tmp_path)
    assert found["nodata"] == -9999
    with pytest.raises(swath.ConflictingNodataError):
        written(xr.Dataset({"class": plain(nodata=1), "flag": plain() > 3}), tmp_path)


def test_a_computed_variable_has_the_transform_of_the_others(scene: Path, tmp_path: Path) -> None:
    array = open_geotiff(scene, masked=True, band=0).drop_vars("band")
    fresh = xr.DataArray(np.ones((8, 9), "f4"), coords=array.coords)
    for dataset in (xr.Dataset({"a": array, "b": fresh}), xr.Dataset({"b": fresh, "a": array})):
        found = written(dataset, tmp_path)
        assert (found["crs"], found["transform"]) == (32633, PLACE)


def test_a_system_that_is_a_variable_counts(tmp_path: Path) -> None:
    """`xr.open_dataset` of a netCDF file makes `spatial_ref` a variable by default."""
    coords = {"y": 895 - 10.0 * np.arange(8), "x": 505 + 10.0 * np.arange(9)}
    dataset = xr.Dataset({"a": (("y", "x"), BYTES), "b": (("y", "x"), BYTES)}, coords).rio.write_crs(32633)
    assert written(dataset.reset_coords("spatial_ref"), tmp_path)["crs"] == 32633
    # It applies to all variables, whatever attributes they still have.
    dataset["a"].attrs["crs"], dataset["b"].attrs["crs"] = 4326, 3857
    assert written(dataset, tmp_path)["crs"] == 32633


def test_variables_that_are_not_images_are_an_error_among_several(tmp_path: Path) -> None:
    image, table = (("y", "x"), BYTES), ("n", np.arange(3))
    with pytest.raises(ValueError, match=r"\['table'\].*var="):
        to_geotiff(xr.Dataset({"a": image, "b": image, "table": table}), tmp_path / "it.tif")
    with pytest.raises(ValueError, match="no variable with 'y' and 'x'"):
        to_geotiff(xr.Dataset({"table": table}), tmp_path / "it.tif")
    with pytest.raises(ValueError, match="'bands' has the dimensions.*on its own"):
        to_geotiff(xr.Dataset({"a": image, "bands": (("band", "y", "x"), BYTES[None])}), tmp_path / "it.tif")
    assert not list(tmp_path.iterdir())
    found = written(xr.Dataset({"a": image, "table": table, "one": 5}), tmp_path)
    np.testing.assert_array_equal(found["pixels"], [BYTES])


@pytest.mark.parametrize("lazy", [False, True])
def test_64_bit_integers_beside_floats_are_not_rounded(lazy: bool, tmp_path: Path) -> None:
    large = np.full((8, 9), 2**53, "i8")
    dataset = xr.Dataset({"id": (("y", "x"), large), "f": (("y", "x"), BYTES / 2)})
    found = written(dataset.chunk(4) if lazy else dataset, tmp_path)
    assert found["dtypes"] == {"float64"} and (found["pixels"][0] == 2**53).all()
    large[7, 8] += 1
    with pytest.raises(ValueError, match="'id' has integers"):
        written(dataset.chunk(4) if lazy else dataset, tmp_path)


def test_one_variable_is_written_as_the_array_that_it_is(scene: Path, tmp_path: Path) -> None:
    array = open_geotiff(scene, unpack=True)
    to_geotiff(array, tmp_path / "array.tif")
    for dataset in (array.to_dataset(name="own"), xr.open_dataset(scene, engine="swath", unpack=True)):
        to_geotiff(dataset, tmp_path / "it.tif")
        assert (tmp_path / "it.tif").read_bytes() == (tmp_path / "array.tif").read_bytes()
