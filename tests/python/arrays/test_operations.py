"""The written file describes the current array: every operation, from every open function, read back by rasterio and
rioxarray.

The expected file is computed with numpy from the array and the facts of the source file, never by Swath.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import rasterio
import rioxarray
import xarray as xr
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.transform import Affine

import swath
from operations import (
    BAND_NAMES,
    DOORS,
    FIRST_LABEL,
    OPERATIONS,
    OUR_DOORS,
    SOURCES,
    X_NAMES,
    Y_NAMES,
    Operation,
    Source,
    dim,
    open_source,
)

SCENES = ("scene", "scene4")
OTHERS = tuple(name for name in SOURCES if name not in (*SCENES, "rotated"))
COLOURS = {ColorInterp.red, ColorInterp.green, ColorInterp.blue, ColorInterp.alpha}

pytestmark = pytest.mark.filterwarnings("ignore")


@dataclass(frozen=True)
class Case:
    operation: Operation
    source: Source
    door: str
    mode: str
    backend: str

    def __str__(self) -> str:
        return "-".join((self.operation.name, self.source.name, self.door, self.mode, self.backend))


def cases() -> list[Case]:
    """The scenes with every operation; the other files with the operations that apply to all files, in numpy."""
    found = []
    for operation in OPERATIONS:
        for door in DOORS:
            backends = operation.backends if door in OUR_DOORS else ("numpy",)
            for name in SCENES:
                source = SOURCES[name]
                if operation.fits(source):
                    modes = [mode for mode in source.modes if mode in operation.modes]
                    found += [Case(operation, source, door, mode, backend) for mode in modes for backend in backends]
            if not operation.everywhere or door not in OUR_DOORS or "numpy" not in operation.backends:
                continue
            for name in OTHERS:
                source = SOURCES[name]
                # Pixel numbers are not georeferencing, so they cannot be irregular.
                if operation.regular or source.transform is not None:
                    found += [Case(operation, source, door, mode, "numpy") for mode in source.modes]
    return found


def regular_cases() -> list[Case]:
    return [case for case in cases() if case.operation.regular]


def irregular_cases() -> list[Case]:
    return [case for case in cases() if not case.operation.regular]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    return {name: source.write(folder) for name, source in SOURCES.items()}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost more than they save for chunks this small; other tests use threads."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


def target(folder: Path) -> Path:
    """A new name each time: GDAL caches what it read from a path, even after the file was rewritten."""
    target.number = getattr(target, "number", 0) + 1  # type: ignore[attr-defined]
    return folder / f"{target.number}.tif"  # type: ignore[attr-defined]


opened: dict[tuple[str, str, str, str], xr.DataArray] = {}


def result_of(case: Case, files: dict[str, Path]) -> xr.DataArray:
    """Opens each file once per open function; attrs and encoding are not shared."""
    key = (case.source.name, case.door, case.mode, case.backend)
    if key not in opened:
        opened[key] = open_source(files[case.source.name], case.door, case.mode, case.backend)
    return case.operation.apply(opened[key].copy(deep=False))


def in_bands(array: xr.DataArray) -> np.ndarray:
    """The values as (band, y, x)."""
    y, x, band = dim(array, Y_NAMES), dim(array, X_NAMES), dim(array, BAND_NAMES)
    order = [name for name in (band, y, x) if name is not None]
    values = array.transpose(*order).values
    return values[None] if band is None else values


def axis_of(values: np.ndarray | None, count: int, file_step: float, file_start: float) -> tuple[float, float]:
    """Step and outer edge of an axis, computed from the centres of its pixels."""
    if values is None:
        return file_step, file_start
    centres = np.asarray(values, "float64")
    step = file_step if count == 1 else (centres[-1] - centres[0]) / (count - 1)
    return step, centres[0] - step / 2


def expected_transform(array: xr.DataArray, source: Source) -> Affine:
    assert source.transform is not None
    by_axis = []
    steps = (source.transform.a, source.transform.e)
    starts = (source.transform.c, source.transform.f)
    for names, step, start in zip((X_NAMES, Y_NAMES), steps, starts, strict=True):
        axis = dim(array, names)
        values = array.coords[axis].values if axis in array.coords else None
        by_axis.append(axis_of(values, array.sizes[axis], step, start))
    (a, c), (e, f) = by_axis
    return Affine(a, 0.0, c, 0.0, e, f)


def check_place(file: rasterio.DatasetReader, array: xr.DataArray, case: Case) -> None:
    rows, columns = file.shape
    assert (rows, columns) == (array.sizes[dim(array, Y_NAMES)], array.sizes[dim(array, X_NAMES)])
    if case.source.transform is None:
        if case.operation.same:
            assert file.transform == Affine.identity()
        assert file.crs is None
        return
    expected = expected_transform(array, case.source)
    # Every corner of the image is within a millionth of a pixel.
    size = np.array([abs(expected.a), abs(expected.e)])
    for corner in ((0, 0), (columns, 0), (0, rows), (columns, rows)):
        off = (np.array(file.transform * corner) - np.array(expected * corner)) / size
        assert np.abs(off).max() < 1e-6, f"corner {corner} is off by {off} pixels: {file.transform} for {expected}"
    check_crs(file, array, case.operation.epsg or case.source.epsg)


def states_crs(array: xr.DataArray) -> bool:
    reference = array.coords.get("spatial_ref")
    if reference is not None and reference.attrs.get("crs_wkt"):
        return True
    return bool(array.attrs.get("crs") or array.attrs.get("crs_wkt"))


def check_crs(file: rasterio.DatasetReader, array: xr.DataArray, epsg: int | None) -> None:
    if file.crs is None:
        assert not states_crs(array), "the CRS is lost"
    else:
        assert file.crs.to_epsg() == epsg


def labels_of(array: xr.DataArray) -> list[Any] | None:
    """The labels of the bands, or None if the array has none."""
    name = next((name for name in BAND_NAMES if name in array.coords), None)
    return None if name is None else np.atleast_1d(array.coords[name].values).tolist()


def positions(array: xr.DataArray, case: Case, count: int) -> tuple[list[int | None], bool]:
    """For each band its number in the source (None: a new band), and whether the array states it."""
    source, labels = case.source, labels_of(array)
    if labels is not None and all(isinstance(label, int) for label in labels):
        known = [label - FIRST_LABEL[case.door] for label in labels]
        known = [number if 0 <= number < source.count else None for number in known]
        if case.operation.picks is None or None not in known:
            return known, bool(array.attrs)
    if case.operation.picks is not None:
        return list(case.operation.picks), False
    if source.count == 1 and count == 1:
        return [0], bool(array.attrs) and case.operation.numbers == "file"
    return [None] * count, True


def check_names(file: rasterio.DatasetReader, array: xr.DataArray, case: Case) -> None:
    labels = labels_of(array)
    if labels is not None and all(isinstance(label, str) for label in labels):
        assert list(file.descriptions) == labels
        return
    numbers, sure = positions(array, case, file.count)
    for found, number in zip(file.descriptions, numbers, strict=True):
        own = case.source.names[number] if number is not None and case.source.names else None
        if own is not None and sure:
            assert found == own, f"{file.descriptions} for labels {labels}"
        else:
            stale = {name for name in case.source.names if name is not None and name != own}
            assert found not in stale, f"{file.descriptions} for labels {labels}"


def check_units(file: rasterio.DatasetReader, array: xr.DataArray, case: Case) -> None:
    numbers, sure = positions(array, case, file.count)
    strict = sure and case.operation.numbers == "file" and case.door in OUR_DOORS and labels_are_numbers(array)
    for found, number in zip(file.units, numbers, strict=True):
        own = case.source.units[number] if number is not None and case.source.units else None
        assert found == own or (not strict and not found), f"{file.units} for labels {labels_of(array)}"


def labels_are_numbers(array: xr.DataArray) -> bool:
    labels = labels_of(array)
    return labels is None or all(isinstance(label, int) for label in labels)


def check_colours(file: rasterio.DatasetReader, array: xr.DataArray, case: Case) -> None:
    numbers, _ = positions(array, case, file.count)
    for found, number in zip(file.colorinterp, numbers, strict=True):
        own = case.source.colours[number] if number is not None and case.source.colours else None
        assert found not in COLOURS or found == own, f"{file.colorinterp} for labels {labels_of(array)}"


def check_missing(file: rasterio.DatasetReader, array: xr.DataArray, values: np.ndarray, case: Case) -> np.ndarray:
    """Compares the missing pixels of the file and of the array, and returns those of the array that are NaN."""
    stored = file.read(masked=True)
    found = np.ma.getmaskarray(stored) | np.isnan(stored.data.astype("float64"))
    nan = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    sentinel = case.source.nodata
    unmasked = case.mode == "plain" and sentinel is not None and not np.isnan(sentinel)
    stated = nan | (values == sentinel) if unmasked else nan
    if case.operation.fills:
        # odc-geo fills with the nodata value of a masked array and states it.
        stated = stated | (values == array.attrs.get("nodata", np.nan))
    assert not (nan & ~found).any(), f"{(nan & ~found).sum()} NaN pixels are valid in the file, nodata {file.nodata}"
    if case.source.mask is not None and case.mode == "plain":
        return nan
    allowed = nan if case.operation.sentinel == "lost" else stated
    if case.door == "rioxarray" and case.operation.name.startswith("odc_"):
        # odc-geo fills pixels that rioxarray masked with the nodata value of the file.
        allowed = allowed | (values == sentinel)
    extra = found & ~allowed
    assert not extra.any(), f"{extra.sum()} valid pixels are missing in the file, nodata {file.nodata}"
    if case.operation.sentinel == "kept":
        lost = stated & ~found
        assert not lost.any(), f"{lost.sum()} missing pixels are valid in the file, nodata {file.nodata}"
    return nan


def check_values(file: rasterio.DatasetReader, array: xr.DataArray, values: np.ndarray, case: Case) -> None:
    operation = case.operation
    nan = check_missing(file, array, values, case)
    stored = file.read()
    scale, offset = (np.array(each)[:, None, None] for each in (file.scales, file.offsets))
    physical = stored.astype("float64") * scale + offset
    unpacked = case.mode == "unpacked" or (operation.decodes and "scale_factor" in array.encoding)
    if operation.numbers == "new":
        assert set(file.scales) == {1.0}, "computed values have no scale"
        assert set(file.offsets) == {0.0}, "computed values have no offset"
    if unpacked and operation.numbers != "new":
        np.testing.assert_allclose(physical[~nan], values[~nan], rtol=1e-5, atol=2e-6)
        return
    # xarray's interp of dask arrays computes float64 where it declares float32.
    announced = values.astype(array.dtype) if array.dtype.kind == "f" else values
    np.testing.assert_array_equal(stored[~nan], announced[~nan])
    if operation.same and case.mode == "plain":
        assert stored.dtype == values.dtype
    if operation.numbers != "new":
        check_scales(file, array, case)


def check_scales(file: rasterio.DatasetReader, array: xr.DataArray, case: Case) -> None:
    numbers, sure = positions(array, case, file.count)
    strict = sure and case.operation.numbers == "file"
    for scale, offset, number in zip(file.scales, file.offsets, numbers, strict=True):
        own = (1.0, 0.0)
        if number is not None and case.source.scaled:
            own = (case.source.scales[number], case.source.offsets[number])
        accepted = [own] if strict else [own, (1.0, 0.0)]
        assert any(np.allclose((scale, offset), each, rtol=1e-12) for each in accepted), (
            f"scales {file.scales}, offsets {file.offsets} for labels {labels_of(array)}"
        )


def check_by_rioxarray(path: Path, array: xr.DataArray, values: np.ndarray, case: Case) -> None:
    """Checks that rioxarray reads the array's coordinates, and its values with the scale applied."""
    found = rioxarray.open_rasterio(path, mask_and_scale=True)
    if case.source.transform is not None:
        for axis, names in (("x", X_NAMES), ("y", Y_NAMES)):
            name = dim(array, names)
            if name in array.coords and case.operation.regular:
                expected = array.coords[name].values.astype("float64")
                pixel = abs(case.source.transform.a if axis == "x" else case.source.transform.e)
                np.testing.assert_allclose(found[axis].values, expected, rtol=0, atol=1e-5 * pixel)
    if case.operation.numbers == "new" or case.mode == "unpacked":
        valid = ~np.isnan(found.values)
        # rioxarray uses float32 for small integers.
        np.testing.assert_allclose(found.values[valid], values[valid], rtol=1e-5, atol=2e-6)
    found.close()


@pytest.mark.parametrize("case", regular_cases(), ids=str)
def test_the_file_describes_the_array(case: Case, files: dict[str, Path], folder: Path) -> None:
    array = result_of(case, files)
    path = target(folder)
    values = in_bands(array)
    # xarray interpolates float32 to chunks of float64; Swath may refuse them or write the declared type.
    other_chunks = values.dtype != array.dtype
    try:
        swath.to_geotiff(array, path, tile_size=32)
    except (ValueError, OverflowError) as error:
        if not (case.operation.may_refuse or other_chunks) or isinstance(error, swath.NonUniformCoordsError):
            raise
        assert not path.exists()
        return
    values = values.astype("uint8") if values.dtype.kind == "b" else values
    with rasterio.open(path) as file:
        values = values.astype(array.dtype) if other_chunks and file.dtypes[0] == array.dtype else values
        assert file.count == values.shape[0]
        check_place(file, array, case)
        check_values(file, array, values, case)
        check_names(file, array, case)
        check_units(file, array, case)
        check_colours(file, array, case)
    if case.backend == "numpy":
        check_by_rioxarray(path, array, values, case)
    path.unlink()


@pytest.mark.parametrize("case", irregular_cases(), ids=str)
def test_irregular_coordinates_are_refused_and_the_old_file_stays(
    case: Case, files: dict[str, Path], tmp_path: Path
) -> None:
    array = result_of(case, files)
    path = tmp_path / "old.tif"
    path.write_bytes(b"what was there before")
    with pytest.raises(swath.NonUniformCoordsError):
        swath.to_geotiff(array, path, tile_size=32)
    assert path.read_bytes() == b"what was there before"
    assert [each.name for each in tmp_path.iterdir()] == ["old.tif"]


def round_trips() -> list[tuple[str, str, str, str, dict[str, Any]]]:
    """The default and, for unpacked arrays, an explicit `pack=True`."""
    return [
        (name, door, mode, backend, options)
        for name, source in SOURCES.items()
        if name != "rotated"
        for door in OUR_DOORS
        for mode in source.modes
        for backend in ("numpy", "dask")
        for options in ({}, {"pack": True})
        if mode == "unpacked" or not options
    ]


def round_trip_id(value: Any) -> str:
    return "-".join(value) or "default" if isinstance(value, dict) else str(value)


@pytest.mark.parametrize(("name", "door", "mode", "backend", "options"), round_trips(), ids=round_trip_id)
def test_reading_and_writing_restores_the_file(
    name: str, door: str, mode: str, backend: str, options: dict[str, Any], files: dict[str, Path], tmp_path: Path
) -> None:
    source = SOURCES[name]
    path = tmp_path / "again.tif"
    swath.to_geotiff(open_source(files[name], door, mode, backend), path, **options)
    with rasterio.open(files[name]) as old, rasterio.open(path) as new:
        assert new.dtypes == old.dtypes
        assert new.transform == old.transform
        assert new.crs == old.crs
        np.testing.assert_equal(new.nodata, old.nodata)
        assert new.descriptions == old.descriptions
        np.testing.assert_allclose(new.scales, old.scales, rtol=1e-12)
        np.testing.assert_allclose(new.offsets, old.offsets, rtol=1e-12)
        assert new.units == old.units
        assert new.colorinterp == old.colorinterp
        if source.palette:
            assert new.colormap(1) == old.colormap(1)
        assert new.tags() == old.tags()
        if source.mask is None or mode != "plain":
            assert new.mask_flag_enums == old.mask_flag_enums
            np.testing.assert_array_equal(new.read_masks(), old.read_masks())
        missing = source.missing() if mode != "plain" else np.zeros(source.values.shape, bool)
        np.testing.assert_array_equal(new.read()[~missing], old.read()[~missing])


@pytest.mark.parametrize("door", OUR_DOORS)
def test_an_internal_mask_comes_back_as_an_internal_mask(door: str, files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "again.tif"
    swath.to_geotiff(open_source(files["internal_mask"], door, "masked"), path)
    with rasterio.open(path) as file:
        assert file.mask_flag_enums == ([MaskFlags.per_dataset],)
        assert [each.name for each in tmp_path.iterdir()] == ["again.tif"]


STATEMENTS: dict[str, Callable[[xr.DataArray], xr.DataArray]] = {
    "rio_write_nodata": lambda a: a.rio.write_nodata(65535),
    "attrs_nodata": lambda a: a.drop_attrs(deep=False).assign_attrs(nodata=65535),
    "attrs_fill_value": lambda a: a.drop_attrs(deep=False).assign_attrs(_FillValue=65535),
    "after_arithmetic": lambda a: (a + 1).drop_attrs(deep=False).assign_attrs(nodata=65535),
    "built_by_hand": lambda a: xr.DataArray(a.data, a.coords, a.dims, attrs={"_FillValue": 65535}),
}


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("door", DOORS)
def test_nodata_that_the_user_states_is_written(
    door: str, name: str, statement: str, files: dict[str, Path], tmp_path: Path
) -> None:
    array = STATEMENTS[statement](open_source(files[name], door))
    path = tmp_path / "stated.tif"
    swath.to_geotiff(array, path)
    with rasterio.open(path) as file:
        assert file.nodata == 65535
        np.testing.assert_array_equal(file.read(), in_bands(array))


@pytest.mark.parametrize("backend", ["numpy", "dask"])
@pytest.mark.parametrize("computed", [False, True], ids=["selected", "computed"])
@pytest.mark.parametrize("mode", ["masked", "unpacked"])
@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("door", DOORS)
def test_nodata_argument_becomes_the_value_of_missing_pixels(
    door: str, name: str, mode: str, computed: bool, backend: str, files: dict[str, Path], tmp_path: Path
) -> None:
    array = open_source(files[name], door, mode, backend)
    array = array * 2.0 if computed else array
    path = tmp_path / "missing.tif"
    swath.to_geotiff(array, path, nodata=65535)
    with rasterio.open(path) as file:
        assert file.nodata == 65535
        values = in_bands(array)
        np.testing.assert_array_equal(file.read() == 65535, np.isnan(values))
        scale, offset = (np.reshape(each, (-1, 1, 1)) for each in (file.scales, file.offsets))
        valid = ~np.isnan(values)
        found = file.read().astype("float64")
        found = found * scale + offset if mode == "unpacked" else found
        np.testing.assert_allclose(found[valid], values[valid], rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("mode", ["plain", "masked", "unpacked"])
def test_variables_of_a_dataset_become_bands_with_their_names(
    door: str, mode: str, files: dict[str, Path], tmp_path: Path
) -> None:
    """Swath may refuse a Dataset but must not lose variables."""
    array = open_source(files["scene4"], door, mode).isel(x=slice(2, 22, 2))
    nir, red = array.isel(band=3, drop=True) * 1.0, array.isel(band=2, drop=True) * 1.0
    dataset = xr.Dataset({"sum": nir + red, "near_infrared": nir})
    path = tmp_path / "dataset.tif"
    try:
        swath.to_geotiff(dataset, path)
    except (TypeError, ValueError):
        assert not path.exists()
        return
    with rasterio.open(path) as file:
        assert file.descriptions == ("sum", "near_infrared")
        assert set(file.scales) == {1.0}
        expected = np.stack([dataset["sum"].values, dataset["near_infrared"].values])
        valid = ~np.isnan(expected)
        np.testing.assert_array_equal(file.read()[valid], expected[valid])
        np.testing.assert_allclose(file.transform.a, 20.0)
        assert file.crs.to_epsg() == SOURCES["scene4"].epsg


ROTATED_SELECTIONS = {
    "no_op": (slice(None), slice(None)),
    "slice": (slice(3, 15), slice(7, 20)),
    "stride": (slice(None, None, 2), slice(None, None, 3)),
    "slice_with_stride": (slice(3, 19, 4), slice(5, None, 2)),
    "flip_y": (slice(None, None, -1), slice(None)),
    "flip_x": (slice(None), slice(None, None, -1)),
}


def selected_transform(transform: Affine, rows: slice, columns: slice, shape: tuple[int, int]) -> Affine:
    """The transform after a selection: the centres of pixels do not move."""
    first_row, _, row_step = rows.indices(shape[0])
    first_column, _, column_step = columns.indices(shape[1])
    corner = Affine.translation(first_column + 0.5 - column_step / 2, first_row + 0.5 - row_step / 2)
    return transform * corner * Affine.scale(column_step, row_step)


@pytest.mark.parametrize("computed", [False, True], ids=["selected", "computed"])
@pytest.mark.parametrize("mode", ["plain", "masked"])
@pytest.mark.parametrize("selection", ROTATED_SELECTIONS)
def test_a_rotated_transform_follows_slices_and_strides(
    selection: str, mode: str, computed: bool, files: dict[str, Path], tmp_path: Path
) -> None:
    source = SOURCES["rotated"]
    rows, columns = ROTATED_SELECTIONS[selection]
    array = open_source(files["rotated"], "open_geotiff", mode, allow_rotated=True).isel(y=rows, x=columns)
    array = array + 1 if computed else array
    path = tmp_path / "rotated.tif"
    swath.to_geotiff(array, path, keep_rotation=True)
    with rasterio.open(path) as file:
        expected = selected_transform(source.transform, rows, columns, source.values.shape[1:])
        assert file.transform.almost_equals(expected, precision=1e-6), f"{file.transform} for {expected}"
        found = file.read(1, masked=True)
    values = array.values.astype("float64")
    missing = np.isnan(values) if mode == "masked" or computed else values == -9999
    np.testing.assert_array_equal(found.data[~missing], values[~missing])


if hasattr(swath, "open_rasterio"):

    @pytest.mark.parametrize("mode", ["plain", "masked"])
    @pytest.mark.parametrize("selection", [name for name in ROTATED_SELECTIONS if not name.startswith("flip")])
    def test_a_selection_of_a_rotated_file_does_not_keep_the_old_transform(
        selection: str, mode: str, files: dict[str, Path], tmp_path: Path
    ) -> None:
        """rioxarray gives rotated files no coordinates:

        Swath may refuse a selection but must not write it at another position.
        """
        source = SOURCES["rotated"]
        rows, columns = ROTATED_SELECTIONS[selection]
        array = open_source(files["rotated"], "open_rasterio", mode).isel(y=rows, x=columns)
        path = tmp_path / "rotated.tif"
        try:
            swath.to_geotiff(array, path, keep_rotation=True)
        except ValueError:
            assert selection != "no_op"
            assert not path.exists()
            return
        with rasterio.open(path) as file:
            expected = selected_transform(source.transform, rows, columns, source.values.shape[1:])
            assert file.transform.almost_equals(expected, precision=1e-6), f"{file.transform} for {expected}"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_the_table_matches_what_xarray_does_with_encoding(operation: Operation) -> None:
    """`numbers` follows from xarray alone: if it drops `encoding`, the meaning of the file's numbers is lost."""
    rng = np.random.default_rng(0)
    array = xr.DataArray(
        rng.random((4, 24, 30)),
        dims=("band", "y", "x"),
        coords={"band": [1, 2, 3, 4], "y": 4_999_995.0 - 10 * np.arange(24), "x": 500_005.0 + 10 * np.arange(30)},
        attrs={"units": "1"},
    ).rio.write_crs(32633)
    if operation.bands == "one":
        array = array.isel(band=[0])
    array.encoding["marker"] = "kept"
    result = operation.apply(array)
    if operation.numbers != "open":
        assert ("marker" in result.encoding) == (operation.numbers == "file")


def test_the_table_is_wide_enough() -> None:
    assert len(OPERATIONS) >= 60
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
