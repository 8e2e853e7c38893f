"""`.swath` on arrays and datasets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile
import xarray as xr

import swath


def run(code):
    """Runs code in a new interpreter, in which nothing is imported yet."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def write(path, pixels, epsg=32633, step=10.0, south_up=False, point=False, nodata=None, overviews=()):
    tags = [(34735, "H", 16, (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 2 if point else 1, 3072, 0, 1, epsg or 32767))]
    if epsg is None:
        tags = []
    if south_up:
        matrix = (step, 0, 0, 0, 0, step, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)
        tags.append((34264, "d", 16, tuple(map(float, matrix))))
    else:
        tags += [(33550, "d", 3, (step, step, 0.0)), (33922, "d", 6, (0.0, 0.0, 0.0, 0.0, 640.0, 0.0))]
    if nodata is not None:
        tags.append((42113, "s", 0, str(nodata)))
    layout = {"photometric": "minisblack", "planarconfig": "contig"} if pixels.ndim == 3 else {}
    with tifffile.TiffWriter(path) as tif:
        tif.write(pixels, tile=(16, 16), extratags=tags, metadata=None, **layout)
        for overview in overviews:
            tif.write(overview, tile=(16, 16), subfiletype=1, metadata=None, **layout)
    return path


@pytest.fixture
def ramp():
    return np.arange(64 * 64, dtype=np.float32).reshape(64, 64)


@pytest.fixture
def path(tmp_path, ramp):
    return write(tmp_path / "c.tif", ramp)


def grid(x, dx, columns, y, dy, rows, **attrs):
    """A template with this first pixel centre and these steps."""
    coords = {"y": y - np.arange(rows) * dy, "x": x + np.arange(columns) * dx}
    return xr.DataArray(np.zeros((rows, columns)), dims=("y", "x"), coords=coords, attrs=attrs or {"crs": 32633})


def extent(array):
    return [float(v) for v in (array.y[0], array.y[-1], array.x[0], array.x[-1])]


@pytest.mark.parametrize("order", ["import swath; import xarray as xr", "import xarray as xr; import swath"])
def test_accessor_is_registered_in_any_import_order(order):
    code = f"{order}; a = xr.DataArray([0.0]); print(type(a.swath).__name__, a.to_dataset(name='v').swath)"
    assert run(code).startswith("SwathDataArray <swath.xarray.accessor.SwathDataset")


def test_import_leaves_the_heavy_packages_alone():
    heavy = {"xarray", "dask", "pandas", "pyproj", "cupy", "fsspec"}
    assert run(f"import sys, swath; print({heavy!r} & set(sys.modules))") == "set()"


def test_waiting_for_xarray_does_not_stand_in_the_way_of_others():
    code = (
        "import sys, importlib, importlib.util, swath; before = list(sys.meta_path); "
        "assert importlib.util.find_spec('numpy') and importlib.util.find_spec('no_such_package') is None; "
        "assert importlib.util.find_spec('xarray') and importlib.util.find_spec('xarray'); "
        "import json.tool, xarray; "
        "assert xarray.__spec__.loader is xarray.__loader__ and 'exec_module' not in vars(xarray.__loader__); "
        "importlib.reload(xarray); print(len(before) - len(sys.meta_path), hasattr(xarray.DataArray, 'swath'))"
    )
    assert run(code) == "1 True"


def test_missing_xarray_is_still_an_import_error():
    code = (
        "import sys, swath\n"
        "sys.path[:] = []\nsys.path_importer_cache.clear()\n"
        "for _ in range(2):\n"
        "    try:\n        import xarray\n    except ImportError as error:\n        print(error.name)"
    )
    assert run(code).split() == ["xarray", "xarray"]


def test_second_registration_does_not_warn():
    import warnings

    from swath.xarray.accessor import register, register_with_xarray

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register()
        register_with_xarray()


def test_array_is_written_as_the_function_writes_it(path, tmp_path):
    array = swath.open_geotiff(path)
    out = str(tmp_path / "out.tif")
    assert array.swath.to_geotiff(out, compression="deflate") == out
    swath.to_geotiff(array, str(tmp_path / "same.tif"), compression="deflate")
    assert (tmp_path / "out.tif").read_bytes() == (tmp_path / "same.tif").read_bytes()


def test_dataset_writes_the_variable_that_is_named_or_all(path, tmp_path):
    array = swath.open_geotiff(path)
    dataset = xr.Dataset({"t": ("q", [1, 2]), "v": array, "w": array + 1})
    out = tmp_path / "out.tif"
    with pytest.raises(ValueError, match=r"\['t'\].*cannot be bands"):
        dataset.swath.to_geotiff(str(out))
    assert not out.exists()
    dataset[["v", "w"]].swath.to_geotiff(str(out))
    assert (swath.open_geotiff(out).values == np.stack([array.values, array.values + 1], -1)).all()
    assert (swath.open_geotiff(out, band="w").values == array.values + 1).all()
    # A single image has nothing to be combined with.
    dataset[["t", "v"]].swath.to_geotiff(str(out))
    assert (swath.open_geotiff(out).values == array.values).all()
    dataset.swath.to_geotiff(str(out), var="w")
    assert (swath.open_geotiff(out).values == array.values + 1).all()
    with pytest.raises(KeyError, match="zz"):
        dataset.swath.to_geotiff(str(out), var="zz")
    with pytest.raises(ValueError, match="no variable with 'y' and 'x' dimensions"):
        dataset[["t"]].swath.to_geotiff(str(out))
    bands = xr.Dataset({"b": (("band", "y", "x"), np.zeros((2, 5, 5), np.uint8))})
    bands.swath.to_geotiff(str(out))
    assert swath.open_geotiff(out).shape == (5, 5, 2)


def test_window_is_the_part_that_the_array_covers(path):
    whole = swath.open_geotiff(path)
    part = whole[10:20, 30:45]
    got = part.swath.open_geotiff(path)
    assert (got.values == part.values).all() and extent(got) == extent(part)
    assert got.identical(swath.open_geotiff(path, window=(10, 30, 20, 45)))
    assert part[::-1].swath.open_geotiff(path).identical(got)
    assert whole.swath.open_geotiff(path).identical(whole)


@pytest.mark.parametrize(
    ("template", "shape", "expected"),
    [
        (grid(10, 10, 5, 600, 10, 4), (5, 6), [605, 565, 5, 55]),
        (grid(13, 3, 4, 545, 3, 5), (3, 3), [545, 525, 5, 25]),
        (grid(100, 100, 4, 540, 100, 3), (22, 32), [545, 335, 95, 405]),
        (grid(55, 10, 1, 545, 10, 1), (1, 1), [545, 545, 55, 55]),
        (grid(605, 10, 9, 635, 10, 2), (2, 4), [635, 625, 605, 635]),
        (grid(5 + 1e-8, 10, 3, 635, 10, 2), (2, 3), [635, 625, 5, 25]),
    ],
)
def test_window_covers_every_centre_and_ends_at_the_image(path, template, shape, expected):
    got = template.swath.open_geotiff(path)
    assert got.shape == shape and extent(got) == expected


def test_overviews_have_their_own_window(tmp_path, ramp):
    small = ramp.reshape(32, 2, 32, 2).mean((1, 3))
    path = write(tmp_path / "o.tif", ramp, overviews=[small])
    got = grid(12.5, 10, 4, 632.5, 10, 4).swath.open_geotiff(path, overview_level=1)
    assert got.shape == (3, 3) and (got.values == small[:3, :3]).all()


def test_south_up_and_point_files(tmp_path, ramp):
    path = write(tmp_path / "s.tif", ramp, south_up=True)
    whole = swath.open_geotiff(path)
    assert whole[7:9, 5:9].swath.open_geotiff(path).identical(swath.open_geotiff(path, window=(7, 5, 9, 9)))
    path = write(tmp_path / "p.tif", ramp, point=True)
    whole = swath.open_geotiff(path)
    assert whole[7:9, 5:9].swath.open_geotiff(path).identical(swath.open_geotiff(path, window=(7, 5, 9, 9)))


def test_file_without_georeference_is_a_grid_of_numbers(tmp_path, ramp):
    tifffile.imwrite(tmp_path / "n.tif", ramp)
    whole = swath.open_geotiff(tmp_path / "n.tif")
    assert (whole[7:9, 5:9].swath.open_geotiff(tmp_path / "n.tif").values == ramp[7:9, 5:9]).all()


def test_kind_of_array_follows_the_template(path):
    part = swath.open_geotiff(path)[10:30, 30:60]
    assert part.swath.open_geotiff(path).chunks is None
    lazy = part.chunk({"y": 8, "x": 10})
    assert lazy.swath.open_geotiff(path).chunks == ((8, 8, 4), (10, 10, 10))
    assert lazy.swath.open_geotiff(path, chunks=None).chunks is None
    assert part.swath.open_geotiff(path, chunks=7).chunks == ((7, 7, 6), (7, 7, 7, 7, 2))
    dataset = xr.Dataset({"t": ("q", [1]), "v": part, "w": lazy})
    assert dataset.swath.open_geotiff(path).chunks is None
    assert dataset.swath.open_geotiff(path, var="w").chunks == ((8, 8, 4), (10, 10, 10))


def test_dataset_without_a_raster_is_an_error(path):
    part = swath.open_geotiff(path)[:5, :5]
    with pytest.raises(ValueError, match="no 2D variable with 'y' and 'x'"):
        xr.Dataset(coords={"y": part.y, "x": part.x}).swath.open_geotiff(path)
    with pytest.raises(KeyError, match="zz"):
        part.to_dataset(name="v").swath.open_geotiff(path, var="zz")


@pytest.mark.parametrize("crs", [{}, {"crs": 32633}, {"crs": np.int64(32633)}, {"crs": "EPSG:32633"}, {"crs_wkt": ""}])
def test_same_or_no_crs_is_fine(path, crs):
    if "crs_wkt" in crs:
        crs = {"crs_wkt": swath.open_geotiff(path).attrs["crs_wkt"]}
    template = grid(15, 10, 3, 605, 10, 2)
    template.attrs = crs
    assert template.swath.open_geotiff(path).shape == (2, 3)


def test_file_without_crs_takes_any_template(tmp_path, ramp):
    path = write(tmp_path / "nc.tif", ramp, epsg=None)
    assert grid(15, 10, 3, 605, 10, 2, crs=4326).swath.open_geotiff(path).shape == (2, 3)


@pytest.mark.parametrize("crs", [4326, "EPSG:32634", 32634])
def test_another_crs_is_an_error(path, crs):
    template = grid(15, 10, 3, 605, 10, 2, crs=crs)
    with pytest.raises(ValueError, match="CRS mismatch: caller has .* but file has EPSG:32633"):
        template.swath.open_geotiff(path)
    with pytest.raises(NotImplementedError, match="does not reproject"):
        template.swath.open_geotiff(path, auto_reproject=True)
    with pytest.raises(NotImplementedError, match="does not reproject"):
        template.swath.open_geotiff(path, coregister=True)


def test_invalid_crs_is_an_error(path):
    pytest.importorskip("pyproj")
    with pytest.raises(ValueError, match="attrs\\['crs'\\]='junk' is not a valid CRS"):
        grid(15, 10, 3, 605, 10, 2, crs="junk").swath.open_geotiff(path)


def test_auto_reproject_with_nothing_to_reproject_is_a_plain_read(path):
    template = grid(15, 10, 3, 605, 10, 2)
    assert template.swath.open_geotiff(path, auto_reproject=True).identical(template.swath.open_geotiff(path))


def test_templates_without_coordinates_are_errors(path):
    with pytest.raises(ValueError, match="'y' and 'x' coordinates"):
        xr.DataArray(np.zeros((3, 3)), dims=("y", "x")).swath.open_geotiff(path)
    with pytest.raises(ValueError, match="not finite"):
        grid(np.nan, 10, 3, 605, 10, 2).swath.open_geotiff(path)
    with pytest.raises(ValueError, match="window=.* outside the source extent"):
        grid(1e6, 10, 3, 605, 10, 2).swath.open_geotiff(path)
    with pytest.raises(ValueError, match="resampling must be one of"):
        grid(15, 10, 3, 605, 10, 2).swath.open_geotiff(path, resampling="zz")
    with pytest.raises(TypeError, match="bogus"):
        grid(15, 10, 3, 605, 10, 2).swath.open_geotiff(path, bogus=1)
    with pytest.raises(ValueError, match="mutually exclusive"):
        grid(15, 10, 3, 605, 10, 2).swath.open_geotiff(path, bbox=(0, 0, 1, 1))


def test_window_keyword_is_found_here(path):
    template = grid(15, 10, 3, 605, 10, 2)
    assert template.swath.open_geotiff(path, window=(0, 0, 1, 1)).shape == (2, 3)


def test_file_objects_are_windowed_too(path):
    template = grid(15, 10, 3, 605, 10, 2)
    with path.open("rb") as file:
        assert (template.swath.open_geotiff(file).values == template.swath.open_geotiff(path).values).all()
    with path.open("rb") as file:
        got = template.swath.open_geotiff(file, coregister=True)
    assert (got.values == template.swath.open_geotiff(path, coregister=True).values).all()


# On the ramp every pixel is 64 * row + column, so interpolated values are known in advance.
@pytest.mark.parametrize("method", ["nearest", "bilinear", "cubic"])
@pytest.mark.parametrize(("x", "y"), [(12.5, 600.0), (10.0, 600.0), (105.0, 305.0), (333.3, 333.3)])
def test_coregistered_values_lie_on_the_ramp(path, method, x, y):
    template = grid(x, 10, 5, y, 10, 4)
    got = template.swath.open_geotiff(path, coregister=True, resampling=method)
    rows, columns = (640 - template.y.values) / 10 - 0.5, template.x.values / 10 - 0.5
    if method == "nearest":
        rows, columns = np.floor(rows + 0.5), np.floor(columns + 0.5)
    assert np.allclose(got.values, 64 * rows[:, None] + columns[None, :])
    assert got.dims == ("y", "x") and (got.x == template.x).all() and (got.y == template.y).all()


@pytest.mark.parametrize(("method", "dtype"), [("nearest", np.float64), ("bilinear", np.float64)])
def test_edges_are_nan_where_there_is_no_pixel(path, method, dtype):
    got = grid(-7, 5, 6, 645, 5, 5).swath.open_geotiff(path, coregister=True, resampling=method)
    nan = np.nan
    if method == "nearest":
        expected = [[nan] * 6] + [[nan, nan, 0, 0, 1, 1]] * 2 + [[nan, nan, 64, 64, 65, 65]] * 2
    else:
        rows = [0.0, 0.0, 32.0, 64.0]
        expected = [[nan] * 6] + [[nan, r, r, r + 0.3, r + 0.8, r + 1.3] for r in rows]
    assert got.dtype == dtype
    assert np.allclose(got.values, expected, equal_nan=True)


def test_nodata_has_no_weight(tmp_path):
    pixels = np.arange(64 * 64, dtype=np.int16).reshape(64, 64)
    path = write(tmp_path / "i.tif", pixels, nodata=5)
    template = grid(12.5, 10, 6, 632.5, 10, 1, crs=32633, res=(10, 10))
    got = template.swath.open_geotiff(path, coregister=True, resampling="bilinear")
    assert np.allclose(got.values[0], [16.75, 17.75, 18.75, 19.75, 41.0, 25.615384615])
    nearest = template.swath.open_geotiff(path, coregister=True, resampling="nearest")
    assert np.array_equal(nearest.values[0], [1, 2, 3, 4, np.nan, 6], equal_nan=True)


def test_auto_resamples_integers_with_nearest_and_reports_it(tmp_path):
    path = write(tmp_path / "i.tif", np.arange(64 * 64, dtype=np.int16).reshape(64, 64))
    template = grid(12.5, 10, 4, 632.5, 10, 2)
    with pytest.warns(UserWarning, match="chose 'nearest'"):
        got = template.swath.open_geotiff(path, coregister=True)
    assert got.dtype == np.int16 and got.values.tolist() == [[1, 2, 3, 4], [65, 66, 67, 68]]


@pytest.mark.parametrize(("step", "level"), [(10, 0), (19, 0), (20, 1), (35, 1), (40, 2), (100, 2)])
def test_coarsest_overview_that_is_fine_enough(tmp_path, ramp, step, level):
    overviews = [np.full((32, 32), -1, np.float32), np.full((16, 16), -2, np.float32)]
    path = write(tmp_path / "o.tif", ramp, overviews=overviews)
    template = grid(205, step, 3, 405, step, 3)
    got = template.swath.open_geotiff(path, coregister=True)
    assert (got.values == -level).all() if level else (got.values >= 0).all()
    assert (template.swath.open_geotiff(path, coregister=True, overview_level=0).values >= 0).all()


def test_coregistered_bands_and_chunks(tmp_path, ramp):
    path = write(tmp_path / "b.tif", np.stack([ramp, ramp + 5], -1))
    template = grid(12.5, 10, 6, 600, 10, 5)
    whole = template.swath.open_geotiff(path, coregister=True)
    assert whole.dims == ("y", "x", "band") and np.allclose(whole[..., 1] - whole[..., 0], 5)
    lazy = template.swath.open_geotiff(path, coregister=True, chunks=(2, 4))
    assert lazy.chunks == ((2, 2, 1), (4, 2), (2,))
    assert lazy.compute().identical(whole)
    assert template.chunk({"y": 3, "x": 2}).swath.open_geotiff(path, coregister=True).chunks[:2] == ((3, 2), (2, 2, 2))
    one = template.swath.open_geotiff(path, coregister=True, band=1)
    assert one.dims == ("y", "x") and (one.values == whole[..., 1].values).all()


def test_cubic_is_sharper_than_linear_and_linear_beside_holes(tmp_path):
    pixels = np.zeros((64, 64), np.float32)
    pixels[20, 20], pixels[40, 40] = 16, np.nan
    path = write(tmp_path / "d.tif", pixels)
    at = grid(210, 10, 2, 435, 10, 2)  # Half a pixel to the right of the peak.
    cubic = at.swath.open_geotiff(path, coregister=True, resampling="cubic").values
    assert np.allclose(cubic, [[9, -1], [0, 0]])
    hole = grid(410, 10, 1, 235, 10, 1, crs=32633, res=10)
    assert hole.swath.open_geotiff(path, coregister=True, resampling="cubic").item() == 0


def test_coregistered_attributes_describe_the_new_grid(path):
    got = grid(12.5, 10, 5, 600, 10, 4).swath.open_geotiff(path, coregister=True)
    assert got.attrs["transform"] == (10.0, 0.0, 7.5, 0.0, -10.0, 605.0)
    assert got.attrs["crs"] == 32633 and np.isnan(got.attrs["nodata"])


@pytest.mark.parametrize(
    ("template", "keywords", "match"),
    [
        (grid(15, 10, 3, 605, 10, 3)[::-1], {}, "y coords in descending order"),
        (grid(15, 10, 3, 605, 10, 3)[:, ::-1], {}, "x coords in ascending order"),
        (grid(15, 10, 5, 605, 10, 3).isel(x=[0, 1, 3]), {}, "x coords are not evenly spaced"),
        (grid(15, 10, 1, 605, 10, 3), {}, "cannot infer x resolution"),
        (grid(15, 10, 3, 605, 10, 1), {}, "cannot infer y resolution"),
        (grid(1e6, 10, 3, 605, 10, 3), {}, "does not overlap"),
        (grid(15, 10, 3, 605, 10, 3), {"gpu": True}, "gpu=True or .vrt"),
        (grid(15, 10, 3, 605, 10, 3), {"allow_rotated": True}, "allow_rotated"),
    ],
)
def test_templates_without_a_regular_grid_are_errors(path, template, keywords, match):
    with pytest.raises(ValueError, match=match):
        template.swath.open_geotiff(path, coregister=True, **keywords)


def test_window_of_a_mosaic(path):
    vrt = path.with_suffix(".vrt")
    vrt.write_text(
        '<VRTDataset rasterXSize="64" rasterYSize="64"><SRS>EPSG:32633</SRS>'
        "<GeoTransform>0, 10, 0, 640, 0, -10</GeoTransform>"
        '<VRTRasterBand dataType="Float32" band="1"><SimpleSource><SourceFilename relativeToVRT="1">c.tif'
        '</SourceFilename><SourceBand>1</SourceBand><SrcRect xOff="0" yOff="0" xSize="64" ySize="64"/>'
        '<DstRect xOff="0" yOff="0" xSize="64" ySize="64"/></SimpleSource></VRTRasterBand></VRTDataset>'
    )
    template = grid(15, 10, 3, 605, 10, 2)
    assert (template.swath.open_geotiff(vrt).values == template.swath.open_geotiff(path).values).all()


def test_mosaics_are_not_coregistered(path):
    with pytest.raises(ValueError, match=r"\.vrt"):
        grid(15, 10, 3, 605, 10, 3).swath.open_geotiff(path.with_suffix(".vrt"), coregister=True)


def test_hardly_covered_templates_are_warned_of(path):
    with pytest.warns(UserWarning, match="covers .*% of the caller grid"):
        grid(600, 10, 100, 605, 10, 20).swath.open_geotiff(path, coregister=True)


def test_random_grids_agree_with_the_reference(reference, path):
    """Full resolution, nearest and bilinear: xarray-spatial's cubic lacks neighbours at the edges of the window that
    it reads.
    """
    rng = np.random.default_rng(4)
    for _ in range(25):
        template = grid(rng.uniform(20, 500), rng.choice([3, 7.3, 10, 12]), 9, rng.uniform(200, 620), 9.1, 7)
        plain = template.swath.open_geotiff(path)
        theirs = template.xrs.open_geotiff(str(path))
        assert plain.shape == theirs.shape and (plain.values == theirs.values).all()
        for method in ("nearest", "bilinear"):
            request = {"coregister": True, "resampling": method, "overview_level": 0}
            ours = template.swath.open_geotiff(path, **request)
            theirs = template.xrs.open_geotiff(str(path), **request)
            assert np.allclose(ours.values, theirs.values, equal_nan=True)


def test_datasets_of_several_bands_and_single_rows_have_an_extent_too(tmp_path: Path) -> None:
    path = tmp_path / "bands.tif"
    pixels = np.arange(3 * 20 * 30, dtype="u2").reshape(20, 30, 3)
    array = xr.DataArray(
        pixels, dims=("y", "x", "band"), coords={"y": 100 - np.arange(20.0), "x": np.arange(30.0)}, attrs={"crs": 32633}
    )
    swath.to_geotiff(array, path)
    part = swath.open_geotiff(path)[5:9, 3:10]
    found = part.to_dataset(name="q").swath.open_geotiff(path)
    np.testing.assert_array_equal(found.values, part.values)
    np.testing.assert_array_equal(part[0].swath.open_geotiff(path).values, part.values[:1])
