"""Files that state the same fact twice with different values.

Covered are geo keys that contradict the EPSG code, `.aux.xml` files that contradict tags, nodata values outside the
range of the sample type, and palettes in images that are not palette images.
"""

import itertools
from pathlib import Path

import numpy as np
import pytest
import rasterio
import tifffile

import info
import raw
from binary import Swath

NODATA, METADATA = 42113, 42112
UTM = {1024: 1, 3072: 32633}
HEIGHTS = UTM | {4096: 5773}
PACKED = (
    '<GDALMetadata><Item name="SCALE" sample="0" role="scale">0.25</Item>'
    '<Item name="OFFSET" sample="0" role="offset">9</Item></GDALMetadata>'
)

SYSTEMS: dict[str, dict[int, object]] = {
    "utm-over-nad27": {1024: 1, 3072: 26915, 2048: 4267},
    "utm-over-etrs89": UTM | {2048: 4258},
    "utm-over-its-own": UTM | {2048: 4326},
    "grid-over-wgs84": {1024: 1, 3072: 27700, 2048: 4326},
    "grid-over-another-datum": {1024: 1, 3072: 27700, 2050: 6326},
    "grid-over-its-datum": {1024: 1, 3072: 27700, 2050: 6277},
    "grid-over-another-ellipsoid": {1024: 1, 3072: 27700, 2056: 7030},
    "grid-over-its-ellipsoid": {1024: 1, 3072: 27700, 2056: 7001},
    "grid-beside-axes": {1024: 1, 3072: 27700, 2057: 6378137.0, 2059: 298.257},
    "pseudo-mercator-over-nad27": {1024: 1, 3072: 3857, 2048: 4267},
    "pseudo-mercator-on-a-sphere": {1024: 1, 3072: 3857, 2048: 4326, 2057: 6378137.0, 2058: 6378137.0},
    "degrees-on-another-ellipsoid": {1024: 2, 2048: 4277, 2056: 7030},
    "degrees-from-another-meridian": {1024: 2, 2048: 4807, 2051: 8901},
    "degrees-beside-a-longitude": {1024: 2, 2048: 4277, 2061: 2.5},
    "lambert-beside-greenwich": {1024: 1, 3072: 27572, 2051: 8901},
    "grid-beside-paris": {1024: 1, 3072: 27700, 2051: 8903},
    "grid-over-its-own-from-paris": {1024: 1, 3072: 27700, 2048: 4277, 2051: 8903},
    "unknown-heights": UTM | {4096: 9999},
    "unknown-heights-in-feet": UTM | {4096: 9999, 4099: 9003},
    "heights-without-a-code": UTM | {4096: 32767, 4099: 9003},
    "heights-in-another-unit": UTM | {4096: 5703, 4099: 9003},
    "heights-in-feet-in-metres": UTM | {4096: 6360, 4099: 9001},
    "heights-of-a-datum-code": UTM | {4096: 5103},
}
PLACES: dict[str, tuple[tuple[float, float, float], tuple[float, ...]]] = {
    "scale-and-offset": ((1, 1, 0.5), (0, 0, 0, 5, 5, 10)),
    "one-and-zero": ((1, 1, 1), (0, 0, 0, 5, 5, 0)),
    "zero-and-ten": ((1, 1, 0), (0, 0, 0, 5, 5, 10)),
    "zeros": ((1, 1, 0), (0, 0, 0, 5, 5, 0)),
    "third-of-the-image": ((1, 1, 0.5), (0, 0, 3, 5, 5, 10)),
    "two-points": ((1, 1, 0.5), (0, 0, 0, 5, 5, 10, 1, 1, 0, 6, 4, 20)),
}
SIDECARS = {
    "offset": "<Offset>5</Offset>", "scale": "<Scale>5</Scale>", "both": "<Offset>5</Offset><Scale>2</Scale>",
    "unit": "<UnitType>ft</UnitType>",
}  # fmt: skip
TEXTS = [
    "-1", "-9999", "5.5", "-5.5", "-0.5", "1e39", "1e3", "inf", "nan", "99999999999999999999", "-99999999999999999999",
    "18446744073709551615", "-9223372036854775809", "255.5", "5,7", "5",
]  # fmt: skip


def write(
    path: Path,
    keys: dict[int, object],
    revision: int = 1,
    scale: tuple[float, ...] = (1, 1, 0),
    tie: tuple[float, ...] = (0, 0, 0, 5, 5, 0),
    metadata: str | None = None,
) -> Path:
    directory, doubles = [1, 1, revision, len(keys)], []
    for key, value in sorted(keys.items()):
        directory += [key, 34736, 1, len(doubles)] if isinstance(value, float) else [key, 0, 1, value]
        doubles += [value] if isinstance(value, float) else []
    tags = [(33550, "d", 3, scale), (33922, "d", len(tie), tie), (34735, "H", len(directory), directory)]
    tags += [(34736, "d", len(doubles), doubles)] if doubles else []
    tags += [(METADATA, "s", 0, metadata)] if metadata else []
    tifffile.imwrite(path, np.ones((16, 16), np.uint8), metadata=None, extratags=[(*tag, True) for tag in tags])
    return path


def differences(swath: Swath, path: Path, *names: str) -> list[str]:
    expected = info.expected(path)
    return info.differences(swath.info(path), {name: expected[name] for name in names})


@pytest.mark.parametrize("revision", [0, 1])
@pytest.mark.parametrize("name", SYSTEMS)
def test_crs_of_contradicting_keys_is_that_of_the_peer(name: str, revision: int, swath: Swath, tmp_path: Path) -> None:
    path = write(tmp_path / "a.tif", SYSTEMS[name], revision)
    assert not differences(swath, path, "epsg", "units")


@pytest.mark.parametrize("metadata", [None, PACKED], ids=["alone", "beside-items"])
@pytest.mark.parametrize("name", PLACES)
def test_scale_of_heights_in_each_location(name: str, metadata: str | None, swath: Swath, tmp_path: Path) -> None:
    scale, tie = PLACES[name]
    path = write(tmp_path / "a.tif", HEIGHTS, scale=scale, tie=tie, metadata=metadata)
    assert not differences(swath, path, "scales", "offsets", "units")


@pytest.mark.parametrize("by_place", [False, True])
@pytest.mark.parametrize("name", SIDECARS)
def test_scale_and_offset_come_from_one_source(name: str, by_place: bool, swath: Swath, tmp_path: Path) -> None:
    scale, tie = PLACES["scale-and-offset" if by_place else "zeros"]
    path = write(tmp_path / "a.tif", HEIGHTS, scale=scale, tie=tie, metadata=PACKED)
    beside(path, SIDECARS[name])
    assert not differences(swath, path, "scales", "offsets", "units")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int32", "uint64", "int64"])
def test_nodata_outside_the_range_of_the_type(dtype: str, text: str, swath: Swath, tmp_path: Path) -> None:
    """Checks the pixels that such a nodata value masks and the fill value of sparse tiles, before and after a
    conversion that stores fewer tiles.
    """
    path = sparse(tmp_path / "a.tif", dtype, text)
    swath.succeed("convert", path, tmp_path / "b.tif", "--skip-empty")
    for file in (path, tmp_path / "b.tif"):
        with rasterio.open(file) as dataset:
            np.testing.assert_array_equal(swath.read(file), dataset.read())
            np.testing.assert_array_equal(swath.read(file, "--mask") > 0, dataset.dataset_mask() > 0)
    np.testing.assert_array_equal(swath.read(tmp_path / "b.tif"), swath.read(path))


@pytest.mark.parametrize("text", ["1e300", "-1e300", "3.4028236e+38", "inf", "5,5", "5.5"])
def test_nodata_in_a_sidecar_that_a_float_cannot_represent(text: str, swath: Swath, tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    values = np.array([[np.inf, -np.inf, np.nan, 5, 5.5, np.finfo(np.float32).max]], np.float32)
    tifffile.imwrite(path, values, metadata=None)
    beside(path, f"<NoDataValue>{text}</NoDataValue>")
    with rasterio.open(path) as dataset:
        np.testing.assert_array_equal(swath.read(path, "--mask") > 0, dataset.dataset_mask() > 0)


# Red, green and blue need at least three bands.
@pytest.mark.parametrize(
    ("photometric", "bands"), [pair for pair in itertools.product(range(4), range(1, 5)) if pair[0] != 2 or pair[1] > 2]
)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_palette_in_an_image_that_is_not_a_palette_image(
    dtype: str, bands: int, photometric: int, swath: Swath, tmp_path: Path
) -> None:
    limits = np.iinfo(dtype)
    formats = raw.short(*[2 if limits.min else 1] * bands)
    fields = raw.image(4, 4, limits.bits, bands, photometric=raw.short(photometric), sample_format=formats)
    extra = bands - (3 if photometric == 2 else 1)
    fields |= {raw.EXTRA_SAMPLES: raw.short(*[0] * extra)} if extra else {}
    fields[raw.COLOR_MAP] = raw.short(*(value * 257 % 65536 for value in range(3 << limits.bits)))
    path, copy = tmp_path / "a.tif", tmp_path / "b.tif"
    path.write_bytes(raw.tiff([raw.Directory(fields, [np.ones((4, 4, bands), dtype).tobytes()])]))
    swath.succeed("convert", path, copy)
    assert not differences(swath, path, "colors")
    with rasterio.open(path) as theirs, rasterio.open(copy) as ours:
        assert ours.colormap(1) == theirs.colormap(1)
        assert ours.colorinterp == theirs.colorinterp
        colors = [list(color) for _, color in sorted(theirs.colormap(1).items())]
    assert swath.info(path)["palette"] == colors


def beside(path: Path, band: str) -> None:
    xml = f'<PAMDataset><PAMRasterBand band="1">{band}</PAMRasterBand></PAMDataset>'
    path.with_name(path.name + ".aux.xml").write_text(xml)


def sparse(path: Path, dtype: str, nodata: str) -> Path:
    """Three tiles: one with values of which some may be masked, one that is not stored, one of zeros."""
    limits = np.iinfo(dtype)
    tile = np.zeros((16, 16), dtype)
    tile[0, :8] = [limits.max, limits.max - 4, limits.min, 1, 4, 5, 6, 7]
    tile[1, :2] = [-1, -5] if limits.min else [255, 0]
    format = 2 if limits.min else 1
    fields = raw.tiled(48, 16, (16, 16), bits=limits.bits, sample_format=raw.short(format))
    fields[raw.TILE_OFFSETS] = raw.long(8, 0, 8 + tile.nbytes)
    fields[raw.TILE_COUNTS] = raw.long(tile.nbytes, 0, tile.nbytes)
    fields[NODATA] = raw.Field(raw.ASCII, nodata.encode() + b"\0")
    path.write_bytes(raw.tiff([raw.Directory(fields, [tile.tobytes(), np.zeros_like(tile).tobytes()])]))
    return path
