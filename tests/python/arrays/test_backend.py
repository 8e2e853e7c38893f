"""The xarray engine `swath`."""

from __future__ import annotations

import io
import pathlib
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import tifffile
import xarray as xr

import swath
from swath import SwathBackendEntrypoint

ROOT = pathlib.Path(__file__).resolve().parents[3]


def open_dataset(source, **keywords):
    return xr.open_dataset(source, engine=SwathBackendEntrypoint, **keywords)


def write(path, pixels, nodata=None, scale=None, point=False, **layout):
    """Writes (y, x) or (y, x, band) pixels of 10 m in UTM 33."""
    keys = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 2 if point else 1, 3072, 0, 1, 32633)
    tags = [
        (33550, "d", 3, (10.0, 10.0, 0.0)),
        (33922, "d", 6, (0.0, 0.0, 0.0, 500.0, 9000.0, 0.0)),
        (34735, "H", len(keys), keys),
    ]
    if nodata is not None:
        tags.append((42113, "s", 0, str(nodata)))
    if scale is not None:
        tags.append((42112, "s", 0, f'<GDALMetadata><Item name="SCALE">{scale}</Item></GDALMetadata>'))
    if pixels.ndim == 3:
        layout = {"photometric": "minisblack", "planarconfig": "contig"} | layout
    tifffile.imwrite(path, pixels, extratags=tags, metadata=None, **layout)
    return path


@pytest.fixture
def dem(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 900, (120, 150)).astype(np.int16)
    return write(tmp_path / "dem.tif", pixels, nodata=7, scale=0.5, tile=(32, 16), compression="zlib"), pixels


@pytest.fixture
def bands(tmp_path):
    pixels = np.random.default_rng(1).random((50, 60, 6)).astype(np.float32)
    return write(tmp_path / "bands.tif", pixels, tile=(16, 16)), pixels


@pytest.fixture
def half_broken(tmp_path):
    """A file with an intact first tile and corrupt others, so that reading too much fails."""
    path = write(tmp_path / "broken.tif", np.full((64, 64), 9, np.uint16), tile=(32, 32), compression="zlib")
    data = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as tif:
        offsets, sizes = tif.pages[0].dataoffsets, tif.pages[0].databytecounts
    for offset, size in zip(offsets[1:], sizes[1:], strict=True):
        data[offset : offset + size] = b"\xff" * size
    path.write_bytes(data)
    return path


def test_variable_equals_the_array_of_open_geotiff(dem):
    path, pixels = dem
    dataset, array = open_dataset(path), swath.open_geotiff(path)
    assert list(dataset.data_vars) == ["dem"]
    array.attrs.pop("nodata_pixels_present")
    assert dataset["dem"].identical(array)
    assert (dataset["dem"].values == pixels).all()


def test_engine_is_registered_under_its_name():
    text = (ROOT / "pyproject.toml").read_text()
    assert '[project.entry-points."xarray.backends"]\nswath = "swath.xarray.engine:SwathBackendEntrypoint"' in text
    entry = SwathBackendEntrypoint()
    assert entry.open_dataset_parameters == ("filename_or_obj", "drop_variables")
    assert "Swath" in entry.description


def test_no_pixel_is_read_before_it_is_accessed(half_broken):
    dataset = open_dataset(half_broken)
    assert (dataset["broken"][:32, :32].values == 9).all()
    assert dataset["broken"][3, 4].item() == 9
    with pytest.raises(ValueError):
        dataset["broken"].load()


def test_chunks_are_lazy_too(half_broken):
    dataset = open_dataset(half_broken, chunks={})
    assert dataset["broken"].chunks == ((32, 32), (32, 32))
    assert (dataset["broken"][:32, :32].values == 9).all()
    with pytest.raises(ValueError):
        dataset["broken"].compute()


INDEXERS = [
    {"y": 5},
    {"y": -1, "x": -1},
    {"y": slice(10, 20), "x": slice(3, 100, 7)},
    {"y": slice(None, None, -1)},
    {"y": slice(100, 3, -40), "x": slice(None, None, -9)},
    {"y": slice(None, None, 50)},
    {"y": slice(5, 5)},
    {"x": [3, 1, 149, 3]},
    {"y": [110, 2], "x": [5, 6, 7]},
    {"y": np.array([], int)},
    {"y": xr.DataArray([1, 90, 3], dims="place"), "x": xr.DataArray([0, 20, 149], dims="place")},
]


@pytest.mark.parametrize("indexers", INDEXERS, ids=str)
def test_every_kind_of_index_gives_those_pixels(dem, indexers):
    path, _ = dem
    lazy, whole = open_dataset(path)["dem"], swath.open_geotiff(path)
    got, expected = lazy.isel(indexers), whole.isel(indexers)
    assert got.shape == expected.shape
    assert (got.values == expected.values).all()


@pytest.mark.parametrize(
    "indexers",
    [
        {"band": 2},
        {"band": [5, 0]},
        {"band": slice(None, None, -2)},
        {"band": -1, "y": slice(3, 9)},
        {"x": 3, "band": [1]},
    ],
    ids=str,
)
def test_bands_are_indexed_as_an_axis(bands, indexers):
    path, _ = bands
    lazy, whole = open_dataset(path)["bands"], swath.open_geotiff(path)
    assert lazy.dims == ("y", "x", "band")
    assert lazy.isel(indexers).identical(whole.isel(indexers))


def test_indexes_of_indexes(dem):
    path, pixels = dem
    part = open_dataset(path)["dem"].isel(y=slice(10, 100, 3)).isel(y=slice(2, 9), x=slice(None, None, 5)).isel(x=3)
    assert (part.values == pixels[10:100:3][2:9, ::5][:, 3]).all()


def test_index_beyond_the_image_is_an_error(dem):
    with pytest.raises(IndexError):
        open_dataset(dem[0])["dem"].isel(y=120).load()


def test_selection_by_coordinates(dem):
    path, _ = dem
    assert open_dataset(path)["dem"].sel(x=525.0, y=8975.0) == swath.open_geotiff(path).sel(x=525.0, y=8975.0)


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ({}, ((32, 32, 32, 24), (16,) * 9 + (6,))),
        ({"y": 64}, ((64, 56), (16,) * 9 + (6,))),
        ({"y": 64, "x": -1}, ((64, 56), (150,))),
        (-1, ((120,), (150,))),
        ("auto", ((120,), (150,))),
    ],
)
def test_chunks_of_open_dataset_follow_tiles(dem, chunks, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = open_dataset(dem[0], chunks=chunks)
    assert dataset["dem"].chunks == expected
    assert (dataset["dem"].values == dem[1]).all()


def test_preferred_chunks_of_a_window_end_at_tiles(dem):
    path, pixels = dem
    dataset = open_dataset(path, window=(10, 20, 90, 140), chunks={})
    assert dataset["dem"].chunks == ((22, 32, 26), (12,) + (16,) * 6 + (12,))
    assert (dataset["dem"].values == pixels[10:90, 20:140]).all()
    assert open_dataset(path)["dem"].encoding["preferred_chunks"] == {"y": 32, "x": 16}


def test_preferred_chunks_of_strips_are_worth_a_task(tmp_path):
    path = write(tmp_path / "strips.tif", np.zeros((4000, 1000), np.uint8), rowsperstrip=3)
    preferred = open_dataset(path)["strips"].encoding["preferred_chunks"]
    assert preferred["x"] == 1000 and preferred["y"] % 3 == 0 and preferred["y"] > 500


def test_reading_parameters_are_those_of_open_geotiff(dem, bands):
    path, pixels = dem
    assert open_dataset(path, window=(0, 0, 10, 20))["dem"].shape == (10, 20)
    assert open_dataset(path, backend_kwargs={"bbox": (500, 8900, 550, 9000)})["dem"].shape == (10, 5)
    assert open_dataset(bands[0], band=2)["bands"].dims == ("y", "x")
    assert open_dataset(path, default_name="z")["z"].shape == pixels.shape
    assert "x" not in open_dataset(path, parse_coordinates=False).coords
    masked = open_dataset(path, masked=True)["dem"]
    assert masked.dtype == np.float64 and np.array_equal(np.isnan(masked.values), pixels == 7)
    with pytest.raises(TypeError, match="bogus"):
        open_dataset(path, bogus=1)
    with pytest.raises(ValueError, match="window"):
        open_dataset(path, window=(0, 0, 1000, 20))
    with pytest.raises(FileNotFoundError, match="none.tif"):
        open_dataset(path.with_name("none.tif"))


@pytest.mark.parametrize("name", ["unpack", "mask_and_scale"])
def test_unpacked_by_either_name_without_complaint(dem, name):
    path, pixels = dem
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = open_dataset(path, **{name: True})["dem"].values
    assert np.array_equal(got, np.where(pixels == 7, np.nan, pixels * 0.5), equal_nan=True)
    assert open_dataset(path, **{name: False})["dem"].dtype == np.int16


def test_decoding_options_of_other_formats_are_ignored(dem):
    dataset = open_dataset(dem[0], decode_times=False, decode_coords=True, use_cftime=None)
    assert open_dataset(dem[0], decode_cf=False).identical(dataset)


def test_dropped_variables(dem):
    assert list(open_dataset(dem[0], drop_variables=["dem"]).data_vars) == []
    assert list(open_dataset(dem[0], drop_variables="x").coords) == ["y"]


def test_file_objects_are_band_data(dem):
    path, pixels = dem
    for source in (io.BytesIO(path.read_bytes()), path.open("rb")):
        dataset = open_dataset(source)
        assert list(dataset.data_vars) == ["band_data"]
        assert (dataset["band_data"].values == pixels).all()


@pytest.mark.parametrize(
    ("source", "can"),
    [
        ("a.tif", True),
        ("a.TIFF", True),
        ("/b/a.vrt", True),
        (pathlib.Path("a.Tif"), True),
        ("http://h/a.tif?token=1", True),
        ("a.tif?x=1", True),
        ("s3://b/a.tif#x", True),
        ("file:///b/a.tif", True),
        ("a.nc", False),
        ("a", False),
        ("a.tif.gz", False),
        ("a.gtiff", False),
        (b"a.tif", False),
        (io.BytesIO(b"II*\0"), False),
        (3, False),
        (None, False),
    ],
)
def test_guess_is_by_extension(source, can):
    assert SwathBackendEntrypoint().guess_can_open(source) is can


def test_datasets_pickle_without_their_pixels(dem):
    path, pixels = dem
    frozen = pickle.dumps(open_dataset(path))
    assert len(frozen) < 12_000
    assert (pickle.loads(frozen)["dem"].values == pixels).all()


def test_many_files_concatenate(tmp_path):
    for day in range(3):
        write(tmp_path / f"{day}.tif", np.full((40, 50), day, np.uint8), tile=(16, 16))
    paths = [tmp_path / f"{day}.tif" for day in range(3)]
    with xr.open_mfdataset(
        paths, engine=SwathBackendEntrypoint, combine="nested", concat_dim="day", default_name="v"
    ) as dataset:
        assert dataset["v"].dims == ("day", "y", "x")
        assert dataset["v"].chunks is not None
        assert dataset["v"].mean(("y", "x")).values.tolist() == [0, 1, 2]


def test_file_replaced_after_it_was_opened_is_an_error(dem):
    path, pixels = dem
    dataset = open_dataset(path)
    write(path, pixels[::-1].copy())
    with pytest.raises(swath.SourceChangedError):
        dataset["dem"].load()


def test_spatial_ref_is_what_rioxarray_reads(dem, bands, tmp_path):
    pytest.importorskip("rioxarray")
    point = write(tmp_path / "point.tif", dem[1], point=True)
    for path, corner in ((dem[0], (500.0, 9000.0)), (bands[0], (500.0, 9000.0)), (point, (495.0, 9005.0))):
        dataset = open_dataset(path, spatial_ref=True)
        array = swath.open_geotiff(path, spatial_ref=True)
        for placed in (dataset, dataset[path.stem], array):
            assert placed.rio.crs.to_epsg() == 32633
            assert tuple(placed.rio.transform())[:6] == (10.0, 0.0, corner[0], 0.0, -10.0, corner[1])
            assert placed.rio.bounds()[0] == corner[0]
        assert "spatial_ref" not in open_dataset(path).coords


def test_spatial_ref_survives_netcdf_conventions(dem):
    encoded, _ = xr.conventions.encode_dataset_coordinates(open_dataset(dem[0], spatial_ref=True))
    assert xr.conventions.encode_cf_variable(encoded["dem"]).attrs["grid_mapping"] == "spatial_ref"


def test_coregister_reads_onto_the_target(dem):
    path, _ = dem
    target = swath.open_geotiff(path)[10:20, 30:50]
    dataset = open_dataset(path, coregister=target, resampling="nearest")
    assert dataset["dem"].shape == (10, 20)
    assert (dataset["x"].values == target["x"].values).all()
    expected = target.swath.open_geotiff(path, coregister=True, resampling="nearest")
    assert dataset["dem"].identical(expected)
    assert open_dataset(path, auto_reproject=target)["dem"].shape == (10, 20)
    with_var = open_dataset(path, coregister=target.to_dataset(name="v"), var="v", resampling="nearest")
    assert with_var.identical(dataset)


def test_another_crs_is_not_reprojected_in_silence(dem):
    target = swath.open_geotiff(dem[0])[10:20, 30:50].assign_attrs(crs=4326)
    for name in ("coregister", "auto_reproject"):
        with pytest.raises(NotImplementedError, match="does not reproject"):
            open_dataset(dem[0], **{name: target})


@pytest.mark.parametrize(
    ("keywords", "match"),
    [
        ({"like": 1}, "'like=' backend kwarg was removed"),
        ({"coregister": True}, "coregister need a target grid"),
        ({"auto_reproject": True}, "auto_reproject need a target grid"),
        ({"resampling": "nearest"}, "resampling need a target grid"),
        ({"var": "dem"}, "var need a target grid"),
        ({"coregister": "a", "auto_reproject": "b"}, "coregister, auto_reproject need a target grid"),
    ],
)
def test_target_keywords_without_a_target_are_errors(dem, keywords, match):
    with pytest.raises(ValueError, match=match):
        open_dataset(dem[0], **keywords)


def test_two_targets_are_one_too_many(dem):
    target = swath.open_geotiff(dem[0])[10:20, 30:50]
    for other in (target, target.to_dataset(name="v")):
        with pytest.raises(ValueError, match="exactly one"):
            open_dataset(dem[0], coregister=target, auto_reproject=other)


@pytest.mark.parametrize("says_no", [None, 0, False])
def test_target_of_auto_reproject_alone_does_not_resample(dem, says_no):
    path, _ = dem
    whole = swath.open_geotiff(path)
    target = whole[10:20, 30:50]
    between = target.assign_coords(x=target["x"] + 0.3 * float(whole["x"][1] - whole["x"][0]))
    expected = between.swath.open_geotiff(path)
    assert open_dataset(path, auto_reproject=between, coregister=says_no)["dem"].identical(expected)
    # A flag next to the target has the meaning of the accessor's flag.
    both = between.swath.open_geotiff(path, coregister=True, auto_reproject=True)
    assert open_dataset(path, auto_reproject=between, coregister=True)["dem"].identical(both)


@pytest.mark.parametrize("keywords", [{"coregister": False}, {"coregister": None, "auto_reproject": False}])
def test_target_keywords_that_are_false_are_accepted(dem, keywords):
    assert open_dataset(dem[0], **keywords)["dem"].shape == (120, 150)


def test_chunks_given_to_the_engine_itself_are_those_of_open_geotiff(dem):
    dataset = SwathBackendEntrypoint().open_dataset(dem[0], chunks=50)
    assert dataset["dem"].chunks == ((50, 50, 20), (50, 50, 50))


def test_closing_a_dataset_is_not_an_error(dem):
    with open_dataset(dem[0]) as dataset:
        assert pickle.loads(pickle.dumps(dataset)).identical(dataset)
    with open_dataset(dem[0], chunks={}) as dataset:
        dataset["dem"].load()


def test_mosaics_are_lazy(dem):
    path, pixels = dem
    vrt = path.with_suffix(".vrt")
    vrt.write_text(
        '<VRTDataset rasterXSize="150" rasterYSize="120"><GeoTransform>500, 10, 0, 9000, 0, -10</GeoTransform>'
        '<VRTRasterBand dataType="Int16" band="1"><SimpleSource><SourceFilename relativeToVRT="1">dem.tif'
        '</SourceFilename><SourceBand>1</SourceBand><SrcRect xOff="0" yOff="0" xSize="150" ySize="120"/>'
        '<DstRect xOff="0" yOff="0" xSize="150" ySize="120"/></SimpleSource></VRTRasterBand></VRTDataset>'
    )
    dataset = open_dataset(vrt)
    assert dataset["dem"].chunks is None
    assert (dataset["dem"][5:7, ::-3].values == pixels[5:7, ::-3]).all()
    assert (dataset["dem"].isel(y=[3, 90], x=[5, 6, 7]).values == pixels[[3, 90]][:, [5, 6, 7]]).all()
    assert open_dataset(vrt, chunks={})["dem"].chunks is not None


@pytest.mark.parametrize("name", ["x", "y", "band", "spatial_ref"])
@pytest.mark.parametrize("options", [{}, {"chunks": {}}, {"backend_kwargs": {"spatial_ref": True}}])
def test_a_file_that_is_called_as_a_coordinate(name: str, options: dict[str, Any], tmp_path: pathlib.Path) -> None:
    pixels = np.arange(32, dtype="u1").reshape(4, 4, 2)
    path = swath.to_geotiff(pixels, str(tmp_path / f"{name}.tif"), crs=4326)
    dataset = xr.open_dataset(path, engine=SwathBackendEntrypoint, **options)
    assert list(dataset) == ["band_data"]
    np.testing.assert_array_equal(dataset["band_data"].values, pixels)
