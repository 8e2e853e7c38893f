"""Metadata survives a read and a write completely, and outdated metadata is not written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr
from rasterio.enums import ColorInterp

import swath
from swath._swath import File

BYTES = (np.arange(40 * 50) % 250).astype("u1").reshape(40, 50)


def image(data: Any = BYTES, **attrs: Any) -> xr.DataArray:
    dims = ("y", "x") if data.ndim == 2 else ("y", "x", "band")
    return xr.DataArray(data, dims=dims, attrs=attrs)


def written(data: Any, tmp_path: Path, **options: Any) -> Any:
    swath.to_geotiff(data, tmp_path / "it.tif", **options)
    return File.open(str(tmp_path / "it.tif")).describe()


def again(path: Path, tmp_path: Path, **call: Any) -> Path:
    """Reads a file and writes it again."""
    target = tmp_path / "again.tif"
    swath.to_geotiff(swath.open_geotiff(path, **call), target)
    return target


def tags_of(path: Path) -> dict[int, Any]:
    with tifffile.TiffFile(path) as file:
        return {tag.code: tag.value for tag in file.pages[0].tags}


@pytest.fixture
def rich(tmp_path: Path) -> Path:
    """A file with all kinds of metadata that GDAL writes."""
    path = tmp_path / "rich.tif"
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        width=50,
        height=40,
        count=2,
        dtype="int16",
        crs="EPSG:32633",
        transform=rasterio.Affine(0.1 + 0.2, 0, 1 / 3, 0, -0.1, 1e7 / 3),
        nodata=-9999,
        tiled=True,
        blockxsize=16,
        blockysize=16,
    ) as file:
        file.write(np.stack([BYTES, BYTES]).astype("int16"))
        file.update_tags(
            AREA_OR_POINT="Point", plain="1", accents="é ≥ 漢", marks="a<b>&\"c\" 'd'", TIFFTAG_SOFTWARE="soft"
        )
        file.update_tags(TIFFTAG_IMAGEDESCRIPTION="a picture", TIFFTAG_DATETIME="2020:01:01 00:00:00")
        file.update_tags(TIFFTAG_XRESOLUTION="72.5", TIFFTAG_YRESOLUTION="300", TIFFTAG_RESOLUTIONUNIT="3")
        file.update_tags(ns="OTHER", inside="a domain")
        file.update_tags(1, STATISTICS_MEAN="3", own="of band 1")
        file.update_tags(2, ns="BANDS", own="of band 2")
        file.descriptions = ("first", "zweite ü")
        file.units = ("m", "°C")
        file.scales, file.offsets = (0.1, 1 / 3), (5.0, -273.15)
        file.colorinterp = (ColorInterp.gray, ColorInterp.alpha)
    return path


@pytest.mark.parametrize("call", [{}, {"chunks": 20}], ids=["numpy", "dask"])
def test_all_metadata_of_gdal_survives(rich: Path, call: dict[str, Any], tmp_path: Path) -> None:
    with rasterio.open(rich) as one, rasterio.open(again(rich, tmp_path, **call)) as two:
        assert two.transform == one.transform
        assert two.crs == one.crs
        assert two.nodata == one.nodata
        assert two.tags() == one.tags()
        assert two.tags(ns="OTHER") == one.tags(ns="OTHER") == {"inside": "a domain"}
        assert two.descriptions == one.descriptions
        assert two.units == one.units
        assert (two.scales, two.offsets) == (one.scales, one.offsets)
        assert two.colorinterp == one.colorinterp
        for band in (1, 2):
            assert two.tags(band) == one.tags(band)
            assert two.tags(band, ns="BANDS") == one.tags(band, ns="BANDS")
        np.testing.assert_array_equal(two.read(), one.read())


def test_attrs_survive(rich: Path, tmp_path: Path) -> None:
    one, two = swath.open_geotiff(rich), swath.open_geotiff(again(rich, tmp_path))
    assert set(two.attrs) == set(one.attrs)
    for name, value in one.attrs.items():
        assert two.attrs[name] == value, name
    xr.testing.assert_identical(two.drop_attrs(), one.drop_attrs().rename(two.name))


def test_a_second_round_changes_no_byte(rich: Path, tmp_path: Path) -> None:
    first = again(rich, tmp_path)
    swath.to_geotiff(swath.open_geotiff(first), tmp_path / "second.tif")
    assert (tmp_path / "second.tif").read_bytes() == first.read_bytes()


@pytest.mark.parametrize(
    "tag",
    [
        (65000, 1, 5, b"hello"),
        (65000, 7, 5, b"\x00\xff\x80\x01\x02"),
        (65000, 2, 4, "abc"),
        (65000, 2, 3, "é"),
        (65000, 3, 1, 7),
        (65000, 3, 3, (7, 8, 65535)),
        (65000, 4, 2, (70000, 2**32 - 1)),
        (65000, 6, 3, (-128, 0, 127)),
        (65000, 8, 2, (-32768, 5)),
        (65000, 9, 2, (-(2**31), 5)),
        (65000, 11, 2, (1.5, -0.25)),
        (65000, 12, 3, (0.1, -1e300, 2.0)),
        (65000, 5, 1, (1, 3)),
        (65000, 5, 2, ((1, 3), (72, 1))),
        (65000, 10, 2, ((-1, 3), (72, 1))),
        (65000, 16, 1, 2**40),
        (65000, 17, 1, -(2**40)),
        (700, 1, 9, b"<x:xmp/>\n"),
        (34675, 7, 3, b"icc"),
        (50844, 12, 92, tuple(float(n) for n in range(92))),
        (305, 2, 5, "soft"),
    ],
    ids=str,
)
def test_tags_of_every_type_survive(tag: tuple[int, int, int, Any], tmp_path: Path) -> None:
    """(id, type, count, value) as in attrs: they survive one round trip and a second one."""
    made = written(image(extra_tags=[tag]), tmp_path)
    found = next(found for found in made["tags"] if found[0] == tag[0])
    assert found[1] == tag[1] and found[3] == tag[3]
    then = File.open(str(again(tmp_path / "it.tif", tmp_path))).describe()
    assert next(found for found in then["tags"] if found[0] == tag[0]) == found


STALE = [
    (254, 4, 1, 1),
    (256, 3, 1, 5),
    (258, 3, 1, 4),
    (259, 3, 1, 5),
    (266, 3, 1, 2),
    (273, 4, 1, 8),
    (274, 3, 1, 3),
    (284, 3, 1, 2),
    (317, 3, 1, 2),
    (322, 3, 1, 64),
    (330, 4, 1, 8),
    (339, 3, 1, 3),
    (347, 7, 4, b"abcd"),
    (530, 3, 2, (2, 2)),
    (532, 5, 1, (0, 1)),
    (33550, 12, 3, (1.0, 1.0, 0.0)),
    (34665, 4, 1, 8),
    (34853, 4, 1, 8),
    (50674, 4, 2, (4, 0)),
    (65001, 13, 1, 8),
]


def test_tags_of_the_old_storage_are_left_out(tmp_path: Path) -> None:
    plain = written(image(), tmp_path)["tags"]
    assert written(image(extra_tags=STALE), tmp_path)["tags"] == plain
    with rasterio.open(tmp_path / "it.tif") as file:
        np.testing.assert_array_equal(file.read(1), BYTES)


def test_a_jpeg_becomes_a_file_without_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "jpeg.tif"
    picture = np.stack([BYTES] * 3)
    options = {"compress": "jpeg", "photometric": "ycbcr", "tiled": True, "blockxsize": 16, "blockysize": 16}
    with rasterio.open(path, "w", driver="GTiff", width=50, height=40, count=3, dtype="uint8", **options) as file:
        file.write(picture)
    tags = tags_of(again(path, tmp_path))
    assert not {347, 529, 530, 531, 532} & set(tags)
    with rasterio.open(path) as one, rasterio.open(tmp_path / "again.tif") as two:
        np.testing.assert_array_equal(one.read(), two.read())


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("abc", TypeError),
        (5, TypeError),
        ([5], ValueError),
        ([(65000, 2)], ValueError),
        ([(70000, 3, 1, 7)], ValueError),
        ([(65000, 3, 1, 70000)], ValueError),
        ([(65000, 3, 1, "x")], ValueError),
        ([(65000, 99, 1, 5)], ValueError),
    ],
)
def test_tags_that_are_none(given: Any, error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error, match="extra_tags|tag 65000"):
        written(image(extra_tags=given), tmp_path)
    assert not list(tmp_path.iterdir())


def test_of_two_tags_with_one_id_the_first_counts(tmp_path: Path) -> None:
    made = written(image(extra_tags=[(65000, 3, 1, 7), (65000, 3, 1, 8)]), tmp_path)
    assert [tag[3] for tag in made["tags"] if tag[0] == 65000] == [7]


def test_metadata_of_a_dict(tmp_path: Path) -> None:
    given = {"A": "1", "number": 5, "float": 1.5, "none": None, "accents": 'é<&>"'}
    given |= {("B", 0): "2", ("UNITTYPE", 1): "m", ("SCALE", 0): "0.5", ("DESCRIPTION", 0): "first"}
    written(image(np.stack([BYTES] * 2, -1), gdal_metadata=given), tmp_path)
    with rasterio.open(tmp_path / "it.tif") as file:
        tags = file.tags()
        assert {key: tags[key] for key in ("A", "number", "float", "accents")} == {
            "A": "1",
            "number": "5",
            "float": "1.5",
            "accents": 'é<&>"',
        }
        assert file.tags(1)["B"] == "2"
        assert file.units[1] == "m" and file.scales[0] == 0.5 and file.descriptions[0] == "first"


def test_the_text_counts_more_than_the_dict(tmp_path: Path) -> None:
    xml = '<GDALMetadata><Item name="A" domain="D">1</Item></GDALMetadata>'
    found = written(image(gdal_metadata={"B": "2"}, gdal_metadata_xml=xml), tmp_path)["metadata"]
    assert found == [("A", "1", None, "D", None)]


XML = [
    '<GDALMetadata><Item name="A">1</Item></GDALMetadata>',
    '<GDALMetadata>\n<!-- why --><Item sample="0" name="SCALE" role="scale">2</Item>'
    '<Item name="Z">é</Item><Item name="OFFSET" sample="0" role="offset">0</Item></GDALMetadata>',
    "<GDALMetadata/>",
    "<other/>",
    "<GDAL",
]


@pytest.mark.parametrize("xml", XML)
def test_a_text_stays_as_it_is(xml: str, tmp_path: Path) -> None:
    written(image(gdal_metadata_xml=xml), tmp_path)
    assert tags_of(tmp_path / "it.tif")[42112] == xml


def test_a_scale_that_is_not_a_number_is_kept_as_text(tmp_path: Path) -> None:
    xml = '<GDALMetadata><Item name="SCALE" sample="0" role="scale">many</Item></GDALMetadata>'
    for attrs in ({"gdal_metadata_xml": xml}, {"gdal_metadata": {("SCALE", 0): "many"}}):
        assert written(image(**attrs), tmp_path)["metadata"] == [("SCALE", "many", 0, None, None)]


def test_a_text_that_does_not_hold_any_more_is_made_anew(tmp_path: Path) -> None:
    data = image(gdal_metadata_xml='<GDALMetadata><Item name="STATISTICS_MEAN" sample="0">3</Item></GDALMetadata>')
    written(data, tmp_path, statistics=True)
    with rasterio.open(tmp_path / "it.tif") as file:
        assert float(file.tags(1)["STATISTICS_MEAN"]) == pytest.approx(BYTES.mean())


@pytest.mark.parametrize("key", [1, ("x",), ("y", "z"), ("q", 1, 2), ("n", -1)])
def test_keys_of_metadata_are_names_or_name_and_band(key: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="gdal_metadata"):
        written(image(gdal_metadata={key: "a"}), tmp_path)


@pytest.mark.parametrize("name", ["gdal_metadata", "gdal_metadata_xml", "extra_tags", "colormap", "image_description"])
def test_attributes_that_are_none(name: str, tmp_path: Path) -> None:
    assert written(image(**{name: None}), tmp_path) == written(image(), tmp_path)


PALETTE = tuple(np.random.default_rng(5).integers(0, 256, 768).tolist())


def test_a_palette_survives(tmp_path: Path) -> None:
    palette = tuple(color * 257 for color in PALETTE)
    found = written(image(colormap=palette), tmp_path)
    assert (found["photometric"], found["colormap"]) == (3, palette)
    with rasterio.open(again(tmp_path / "it.tif", tmp_path)) as file:
        assert file.colorinterp == (ColorInterp.palette,)
        assert file.colormap(1)[7] == (PALETTE[7], PALETTE[7 + 256], PALETTE[7 + 512], 255)
    assert swath.open_geotiff(tmp_path / "again.tif").attrs["colormap"] == palette


def test_a_palette_that_pixels_cannot_index_stays_a_tag(tmp_path: Path) -> None:
    found = written(image(BYTES.astype("f4"), colormap=PALETTE), tmp_path)
    assert found["photometric"] == 1
    with rasterio.open(tmp_path / "it.tif") as file:
        assert file.colorinterp == (ColorInterp.gray,)
    with pytest.raises(ValueError, match="colormap"):
        written(image(colormap=(70000,) * 768), tmp_path)
    with pytest.warns(UserWarning, match="colormap"):
        written(image(colormap="viridis"), tmp_path)


@pytest.mark.parametrize(("unit", "code"), [("none", 1), ("inch", 2), ("centimeter", 3)])
def test_resolution_survives(unit: str, code: int, tmp_path: Path) -> None:
    given = {"x_resolution": 72.5, "y_resolution": 300.0, "resolution_unit": unit}
    assert written(image(**given), tmp_path)["resolution"] == (72.5, 300.0, code)
    attrs = swath.open_geotiff(again(tmp_path / "it.tif", tmp_path)).attrs
    assert {name: attrs[name] for name in given} == given


def test_half_a_resolution_is_written_as_it_is(tmp_path: Path) -> None:
    written(image(x_resolution=72), tmp_path)
    tags = tags_of(tmp_path / "it.tif")
    assert tags[282] == (72, 1) and 283 not in tags and 296 not in tags
    for bad in (-1, float("nan"), "a"):
        with pytest.raises(ValueError):
            written(image(x_resolution=bad, y_resolution=1), tmp_path)


@pytest.mark.parametrize("bands", [2, 4])
def test_alpha_survives(bands: int, tmp_path: Path) -> None:
    path = tmp_path / "alpha.tif"
    with rasterio.open(path, "w", driver="GTiff", width=50, height=40, count=bands, dtype="uint8", alpha="yes") as file:
        file.write(np.stack([BYTES] * bands))
    with rasterio.open(path) as one, rasterio.open(again(path, tmp_path)) as two:
        assert two.colorinterp == one.colorinterp
    # Metadata of four bands does not apply to one band.
    swath.to_geotiff(swath.open_geotiff(path, band=0), tmp_path / "one.tif")
    assert File.open(str(tmp_path / "one.tif")).describe()["extra_samples"] == []


def test_tags_override_photometric_and_extra_samples(tmp_path: Path) -> None:
    three = image(np.stack([BYTES] * 3, -1), extra_tags=[(262, 3, 1, 2)])
    assert written(three, tmp_path)["photometric"] == 2
    four = image(np.stack([BYTES] * 4, -1), extra_tags=[(338, 3, 1, 1)])
    assert written(four, tmp_path, photometric="rgb")["extra_samples"] == [1]


TITLE = "<GDALMetadata><Item name='TITLE'>a</Item></GDALMetadata>"
OWN = "<GDALMetadata><Item name='SCALE' sample='0' role='scale'>4</Item><Item name='TITLE'>a</Item></GDALMetadata>"


@pytest.mark.parametrize("metadata", [None, TITLE, OWN], ids=["alone", "beside a title", "against the tag"])
@pytest.mark.parametrize(
    "beside", ["", "<Offset>5</Offset>", "<Scale>2</Scale><UnitType>K &lt; &amp;amp;</UnitType>"], ids=["", "o", "s u"]
)
@pytest.mark.parametrize("scale, height", [(0.5, 10), (0, 0)])
def test_scales_that_are_not_in_the_tag_survive(
    metadata: str | None, beside: str, scale: float, height: float, tmp_path: Path
) -> None:
    """These scales come from the vertical CRS or from a sidecar, which a new file does not have."""
    keys = [(1024, 0, 1, 1), (1025, 0, 1, 1), (3072, 0, 1, 32633), (4096, 0, 1, 5773)]
    path = tmp_path / "a.tif"
    flat = [1, 1, 1, len(keys), *(number for key in keys for number in key)]
    tags: list[Any] = [(33550, "d", 3, (1, 1, scale), True), (33922, "d", 6, (0, 0, 0, 1, 1, height), True)]
    tags += [(34735, "H", len(flat), flat, True)]
    tags += [] if metadata is None else [(42112, "s", 0, metadata, True)]
    tifffile.imwrite(path, BYTES, metadata=None, extratags=tags)
    if beside:
        xml = f'<PAMDataset><PAMRasterBand band="1">{beside}</PAMRasterBand></PAMDataset>'
        (tmp_path / "a.tif.aux.xml").write_text(xml)
    with rasterio.open(path) as theirs, rasterio.open(again(path, tmp_path)) as ours:
        assert (ours.scales, ours.offsets, ours.units) == (theirs.scales, theirs.offsets, theirs.units)
        assert ours.tags().get("TITLE") == theirs.tags().get("TITLE")
        expected = BYTES * theirs.scales[0] + theirs.offsets[0]
    np.testing.assert_allclose(swath.open_geotiff(path, unpack=True), expected)


def test_texts_with_accents(tmp_path: Path) -> None:
    written(image(image_description="Höhe ≥ 0"), tmp_path)
    assert swath.open_geotiff(tmp_path / "it.tif").attrs["image_description"] == "Höhe ≥ 0"


def test_categories_survive(tmp_path: Path) -> None:
    names, colors = ["water", "wood & <moor>"], [(0, 0, 255, 255), (0, 128, 0, 255)]
    swath.to_geotiff(image(category_names=names, category_colors=colors), tmp_path / "it.tif")
    attrs = swath.open_geotiff(again(tmp_path / "it.tif", tmp_path)).attrs
    assert attrs["category_names"] == names
    assert [tuple(color) for color in attrs["category_colors"]] == colors


def test_arrays_of_the_reference_are_understood(tmp_path: Path) -> None:
    theirs = {"_xrspatial_geotiff_contract": 5, "_xrspatial_no_georef": True, "georef_status": "none"}
    data = image(**theirs).assign_coords(y=np.arange(40), x=np.arange(50))
    assert written(data, tmp_path)["transform"] is None


@pytest.mark.parametrize(
    ("change", "kept"),
    [(lambda a: a, True), (lambda a: a[2:], False), (lambda a: a * 2, False)],
    ids=["as read", "slice", "computed"],
)
def test_statistics_of_other_pixels_are_not_written(change: Any, kept: bool, tmp_path: Path) -> None:
    source, target = tmp_path / "in.tif", tmp_path / "out.tif"
    with rasterio.open(source, "w", driver="GTiff", width=8, height=8, count=1, dtype="uint8") as file:
        file.write(np.arange(64, dtype="uint8").reshape(1, 8, 8))
        file.update_tags(1, STATISTICS_MEAN="31.5", source="survey")
    swath.to_geotiff(change(swath.open_geotiff(source)), target)
    with rasterio.open(target) as file:
        assert ("STATISTICS_MEAN" in file.tags(1)) == kept
        assert file.tags(1)["source"] == "survey"
