"""The attrs of a file other than georeferencing and nodata."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from open_files import PIXELS, by_gdal, tagged
from swath import open_geotiff

PLACELESS: dict[str, Any] = {"scale": None, "tie": None, "keys": None}


def about(path: Path, **tags: Any) -> dict[str, Any]:
    """attrs without those of tifffile's own tags."""
    attrs = open_geotiff(tagged(path, **{"pixels": PIXELS.astype(np.uint8), **PLACELESS, **tags})).attrs
    for name in ("_swath_contract", "_swath_no_georef", "georef_status"):
        attrs.pop(name)
    if attrs.get("resolution_unit") == "none":
        for name in ("x_resolution", "y_resolution", "resolution_unit"):
            attrs.pop(name)
    return attrs


def test_the_contract_is_stated(tmp_path: Path) -> None:
    attrs = open_geotiff(tagged(tmp_path / "a.tif")).attrs
    assert attrs["_swath_contract"] == 5


def test_resolution(tmp_path: Path) -> None:
    inch = about(tmp_path / "a.tif", resolution=(72, 36), resolutionunit=2)
    assert inch == {"x_resolution": 72.0, "y_resolution": 36.0, "resolution_unit": "inch"}
    metric = about(tmp_path / "b.tif", resolution=(3.5, (7, 3)), resolutionunit=3)
    assert metric == {"x_resolution": 3.5, "y_resolution": 7 / 3, "resolution_unit": "centimeter"}


def test_texts_and_other_tags(tmp_path: Path) -> None:
    attrs = about(
        tmp_path / "a.tif",
        description="heights in metres",
        extra=[
            (315, "s", 0, "me", True),
            (65000, "H", 1, 7, True),
            (65001, "H", 3, (1, 2, 3), True),
            (65003, "B", 4, b"\1\2\3\4", True),
            (65004, "B", 1, 5, True),
            (65005, "2I", 1, (1, 3), True),
            (65006, "2I", 2, (1, 3, 5, 8), True),
            (65007, 7, 3, b"abc", True),
            (65008, "i", 2, (-1, -2), True),
            (65009, "f", 1, 1.5, True),
            (65012, "Q", 1, 2**40, True),
        ],
    )
    assert attrs == {
        "image_description": "heights in metres",
        "extra_tags": [
            (270, 2, 18, "heights in metres"),
            (315, 2, 3, "me"),
            (65000, 3, 1, 7),
            (65001, 3, 3, (1, 2, 3)),
            (65003, 1, 4, (1, 2, 3, 4)),
            (65004, 1, 1, 5),
            (65005, 5, 1, 1 / 3),
            (65006, 5, 2, (1 / 3, 5 / 8)),
            (65007, 7, 3, b"abc"),
            (65008, 9, 2, (-1, -2)),
            (65009, 11, 1, 1.5),
            (65012, 16, 1, 2**40),
        ],
    }


def test_texts_that_are_not_ascii(tmp_path: Path) -> None:
    attrs = about(tmp_path / "a.tif", metadata="<GDALMetadata><Item name='A'>h\u00e9</Item></GDALMetadata>")
    assert attrs["gdal_metadata"] == {"A": "h\u00e9"}


def test_encoding_of_blocks_is_not_in_attrs(tmp_path: Path) -> None:
    """JPEG tables and similar tags would be wrong in a file written from this array."""
    path = by_gdal(
        tmp_path / "a.tif",
        np.zeros((3, 64, 64), np.uint8),
        compress="jpeg",
        photometric="ycbcr",
        tiled=True,
        blockxsize=32,
        blockysize=32,
    )
    tags = {tag for tag, *_ in open_geotiff(path).attrs.get("extra_tags", [])}
    assert not tags & {347, 529, 530, 531, 532}


def test_extra_samples(tmp_path: Path) -> None:
    attrs = about(
        tmp_path / "a.tif", pixels=np.zeros((4, 6, 4), np.uint8), photometric="rgb", extrasamples=["unassalpha"]
    )
    assert attrs["extra_samples"] == (2,)
    assert attrs["extra_tags"] == [(338, 3, 1, 2)]
    assert "extra_samples" not in about(tmp_path / "b.tif", pixels=np.zeros((4, 6, 3), np.uint8), photometric="rgb")


def test_colormap_is_raw(tmp_path: Path) -> None:
    table = np.arange(768, dtype=np.uint16).reshape(3, 256)
    attrs = about(tmp_path / "a.tif", photometric="palette", colormap=table)
    assert attrs["colormap"] == tuple(range(768))


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ('<Item name="A">1</Item>', {"A": "1"}),
        (
            '<Item name="A" sample="0" role="scale">2</Item><Item name="B" domain="d">y</Item>',
            {("A", 0): "2", "B": "y"},
        ),
        ('<Item name="A">1</Item><Item name="A">2</Item>', {"A": "2"}),
        ('<Item name="A"/><Item name="B"></Item>', {"A": "", "B": ""}),
        # As GDAL reads them: no name, no item; white space at the start is layout; a band that is no number is band 0.
        ("<Item>5</Item>", {}),
        ('<Item name="A"> 5 </Item>', {"A": "5 "}),
        ('<Item name="A">&lt;&amp;&gt;</Item>', {"A": "<&>"}),
        ('<Item name="A" sample="x">5</Item>', {("A", 0): "5"}),
        ("<Item", {}),
    ],
)
def test_gdal_metadata(tmp_path: Path, items: str, expected: Any) -> None:
    xml = f"<GDALMetadata>{items}</GDALMetadata>"
    attrs = about(tmp_path / "a.tif", metadata=xml)
    assert attrs == {"gdal_metadata": expected, "gdal_metadata_xml": xml}


def test_gdal_metadata_is_what_was_given_to_gdal(tmp_path: Path) -> None:
    import rasterio

    path = by_gdal(tmp_path / "a.tif", PIXELS.astype(np.uint8))
    given = {"A": "a<b & c>d", "B": "\"quoted\" 'too'", "C": "&amp;"}
    with rasterio.open(path, "r+") as file:
        file.update_tags(**given)
    with rasterio.open(path) as file:
        assert given.items() <= file.tags().items()
    assert open_geotiff(path).attrs["gdal_metadata"] == given


def test_a_document_type_is_not_expanded(tmp_path: Path) -> None:
    xml = '<!DOCTYPE a [<!ENTITY e "x">]><GDALMetadata><Item name="A">&e;</Item></GDALMetadata>'
    assert about(tmp_path / "a.tif", metadata=xml)["gdal_metadata"] == {}


def test_categories_of_pam(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", PIXELS.astype(np.uint8))
    (tmp_path / "a.tif.aux.xml").write_text(
        '<PAMDataset><PAMRasterBand band="1"><CategoryNames><Category>sea</Category><Category>land</Category>'
        "</CategoryNames></PAMRasterBand></PAMDataset>"
    )
    for chunks in (None, 2):
        assert open_geotiff(path, chunks=chunks).attrs["category_names"] == ["sea", "land"]
    assert "category_names" not in open_geotiff(Path(path).read_bytes()).attrs


def test_overviews_have_the_metadata_of_the_image(tmp_path: Path) -> None:
    path = by_gdal(tmp_path / "a.tif", np.zeros((64, 64), np.uint8), levels=[2], nodata=7)
    import rasterio

    with rasterio.open(path, "r+") as file:
        file.update_tags(A="1")
        file.scales = [2.0]
    whole, level = open_geotiff(path), open_geotiff(path, overview_level=1)
    assert level.attrs["gdal_metadata"] == whole.attrs["gdal_metadata"]
    assert level.attrs["nodata"] == 7
    unpacked = open_geotiff(path, overview_level=1, unpack=True)
    assert unpacked.encoding["scale_factor"] == 2.0
    assert unpacked.encoding["swath"].scaling == {0: (2.0, 0.0)}
    assert unpacked.encoding["swath"].shape == (32, 32)


def test_changes_of_attrs_do_not_affect_later_reads(tmp_path: Path) -> None:
    path = tagged(tmp_path / "a.tif", metadata="<GDALMetadata><Item name='A'>1</Item></GDALMetadata>", description="d")
    expected = open_geotiff(path)
    spoiled = open_geotiff(path)
    # Objects that all arrays of a file share cannot be changed, only replaced.
    with pytest.raises(TypeError):
        spoiled.attrs["gdal_metadata"]["A"] = "2"
    with pytest.raises(AttributeError):
        spoiled.attrs["extra_tags"].append(None)
    spoiled.attrs["gdal_metadata"] = {**spoiled.attrs["gdal_metadata"], "A": "2"}
    spoiled.attrs["extra_tags"] = [*spoiled.attrs["extra_tags"], (65000, 3, 1, 1)]
    spoiled.attrs["nodata"] = 5
    del spoiled.attrs["crs"]
    spoiled.encoding["_FillValue"] = 5
    assert open_geotiff(path).identical(expected)
    assert open_geotiff(path).encoding == expected.encoding


def test_structured_attributes_are_used_as_what_they_hold(tmp_path: Path) -> None:
    metadata = "<GDALMetadata><Item name='A'>1</Item><Item name='B' sample='0'>2</Item></GDALMetadata>"
    path = tagged(tmp_path / "a.tif", metadata=metadata, extra=[(65000, "H", 2, (3, 4), True)])
    attrs = open_geotiff(path).attrs
    found = attrs["gdal_metadata"]
    assert found == {"A": "1", ("B", 0): "2"} and found != {"A": "1"}
    assert found["A"] == found.get("A") == "1" and found.get("C") is None
    assert "A" in found and "1" not in found
    assert (len(found), list(found), dict(found.items())) == (2, ["A", ("B", 0)], {"A": "1", ("B", 0): "2"})
    with pytest.raises(KeyError):
        found["C"]
    tags = attrs["extra_tags"]
    assert (65000, 3, 2, (3, 4)) in tags and tags[-1] == (65000, 3, 2, (3, 4))
    for one in (found, tags):
        # They are texts for netCDF and Zarr, and unchanged after copying and pickling.
        assert isinstance(one, str)
        assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one.value == one
        assert repr(one) == repr(one.value)
