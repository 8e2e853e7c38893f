"""Sidecar files of an image: categories and statistics in `.aux.xml`, styles in `.qml`."""

from __future__ import annotations

import os
import stat
from xml.etree import ElementTree

import numpy as np
import pytest
import rasterio
import tifffile
import xarray as xr

from mosaics import tif
from swath import _swath, _xml, open_geotiff
from swath.read.sidecars import pam_attrs
from swath.write.ramps import RAMPS, ramp_of, ramp_range_of
from swath.write.sidecars import categories_of, class_contents, ramp_contents, write_beside

NAMES = "<CategoryNames><Category>water</Category><Category>land</Category></CategoryNames>"
FIELDS = {"value": 5, "name": 2, "red": 6, "green": 7, "blue": 8, "alpha": 9, "count": 1}


def pam(tmp_path, content, encoding="utf-8"):
    """A file whose PAM has this text in its first band."""
    path = tmp_path / "image.tif"
    text = (
        content
        if content.startswith(("<?", "<!"))
        else f'<PAMDataset><PAMRasterBand band="1">{content}</PAMRasterBand></PAMDataset>'
    )
    (tmp_path / "image.tif.aux.xml").write_bytes(text.encode(encoding))
    return str(path)


def table(columns, *rows, kind="thematic"):
    fields = "".join(
        f"<FieldDefn><Name>{name}</Name><Usage>{FIELDS[name]}</Usage></FieldDefn>" for name in columns.split()
    )
    body = "".join("<Row>" + "".join(f"<F>{cell}</F>" for cell in row) + "</Row>" for row in rows)
    return f'<GDALRasterAttributeTable tableType="{kind}">{fields}{body}</GDALRasterAttributeTable>'


class TestCategoriesOfAFile:
    def test_names_without_a_table(self, tmp_path):
        assert pam_attrs(pam(tmp_path, NAMES)) == {"category_names": ["water", "land"]}

    def test_a_table_counts_more_than_names(self, tmp_path):
        rows = ((0, "a", 1, 2, 3, 4), (1, "b", 5, 6, 7, 8))
        read = pam_attrs(pam(tmp_path, NAMES + table("value name red green blue alpha", *rows)))
        assert read == {"category_names": ["a", "b"], "category_colors": [(1, 2, 3, 4), (5, 6, 7, 8)]}

    def test_columns_in_any_order_and_others_between(self, tmp_path):
        read = pam_attrs(pam(tmp_path, table("alpha name count blue value green red", (4, "a", 99, 3, 0, 2, 1))))
        assert read == {"category_names": ["a"], "category_colors": [(1, 2, 3, 4)]}

    def test_values_missing_in_the_table_are_empty_and_transparent(self, tmp_path):
        read = pam_attrs(pam(tmp_path, table("value name red green blue alpha", (2, "c", 1, 2, 3, 4))))
        assert read == {"category_names": ["", "", "c"], "category_colors": [(0, 0, 0, 0), (0, 0, 0, 0), (1, 2, 3, 4)]}

    def test_no_alpha_no_colours(self, tmp_path):
        read = pam_attrs(pam(tmp_path, table("value name red green blue", (0, "a", 1, 2, 3))))
        assert read == {"category_names": ["a"]}

    @pytest.mark.parametrize(
        "content",
        [
            table("value name", ("x", "a")),
            table("value name", (-1, "a")),
            table("value name", (0,)),
            table("value name", (1e300, "a")),
            table("value name", (0, "a"), kind="athematic"),
        ],
    )
    def test_an_unusable_table_leaves_the_names(self, tmp_path, content):
        assert pam_attrs(pam(tmp_path, NAMES + content)) == {"category_names": ["water", "land"]}

    def test_more_than_a_million_are_ignored(self, tmp_path):
        assert pam_attrs(pam(tmp_path, table("value name", (_swath.MAX_CLASSES, "a")))) == {}
        names = "<Category/>" * (_swath.MAX_CLASSES + 1)
        assert pam_attrs(pam(tmp_path, f"<CategoryNames>{names}</CategoryNames>")) == {}

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
    def test_a_doctype_is_refused_in_every_encoding(self, tmp_path, encoding):
        text = f'<!DOCTYPE x [<!ENTITY e "boom">]><PAMDataset><PAMRasterBand>{NAMES}</PAMRasterBand></PAMDataset>'
        assert pam_attrs(pam(tmp_path, text, encoding)) == {}

    def test_broken_sidecar_counts_as_missing(self, tmp_path):
        path = pam(tmp_path, NAMES)
        beside = tmp_path / "image.tif.aux.xml"
        whole = beside.read_bytes()
        for end in range(0, len(whole) - 1, 7):
            beside.write_bytes(whole[:end])
            assert pam_attrs(path) == {}
        beside.unlink()
        assert pam_attrs(path) == {}

    def test_a_sidecar_that_is_too_large_is_ignored(self, tmp_path):
        path = pam(tmp_path, NAMES)
        with open(f"{path}.aux.xml", "ab") as file:
            file.write(b"\n" * (64 << 20))
        assert pam_attrs(path) == {}

    def test_deep_nesting_ends(self, tmp_path):
        path = pam(tmp_path, NAMES + "<a>" * 100_000 + "</a>" * 100_000)
        assert pam_attrs(path) == {}
        write_beside(path, class_contents(["x"], None))
        assert pam_attrs(path) == {"category_names": ["x"]}

    def test_only_local_paths_have_sidecars(self, tmp_path):
        path = pam(tmp_path, NAMES)
        assert pam_attrs(f"file://{path}") == pam_attrs(b"II") == pam_attrs(None) == {}


class TestWritingCategories:
    def test_gdal_and_swath_read_them(self, tmp_path):
        path = str(tmp_path / tif(tmp_path / "c.tif", np.zeros((2, 2), "u1")))
        names, colors = ["a<b", 'ü & "q"', ""], [(1, 2, 3, 255), (4, 5, 6, 0), (0, 0, 0, 0)]
        write_beside(path, class_contents(*categories_of(names, colors)))
        assert pam_attrs(path) == {"category_names": names, "category_colors": colors}
        root = ElementTree.parse(f"{path}.aux.xml").getroot()
        assert [each.text or "" for each in root.iter("Category")] == names

    def test_other_content_of_the_sidecar_is_kept(self, tmp_path):
        path = pam(tmp_path, f"{NAMES}<Histograms>kept</Histograms>")
        write_beside(path, class_contents(*categories_of(["x"], None)))
        text = (tmp_path / "image.tif.aux.xml").read_text()
        assert "kept" in text and "water" not in text
        assert pam_attrs(path) == {"category_names": ["x"]}

    def test_characters_that_xml_has_not_are_left_out(self, tmp_path):
        path = str(tmp_path / "c.tif")
        write_beside(path, class_contents(*categories_of(["a\x00b\x1fc\ud800", "d\t"], None)))
        assert pam_attrs(path)["category_names"] == ["abc", "d\t"]

    def test_a_mapping_has_gaps(self):
        assert categories_of({0: "a", 2: "c"}, {2: (1, 2, 3)}) == (
            ["a", "", "c"],
            [(0, 0, 0, 0), (0, 0, 0, 0), (1, 2, 3, 255)],
        )

    def test_arrays_are_taken(self):
        assert categories_of(np.array(["a", "b"]), np.array([[1, 2, 3, 4], [5, 6, 7, 300]])) == (
            ["a", "b"],
            [(1, 2, 3, 4), (5, 6, 7, 255)],
        )

    def test_colours_of_another_number_are_left_out(self):
        assert categories_of(["a", "b"], [(1, 2, 3, 4)]) == (["a", "b"], None)

    @pytest.mark.parametrize("colors", [["red"], [(1, 2)], [None], [(1, 2, 3, "x")]])
    def test_invalid_colour_is_an_error_before_the_write(self, colors):
        with pytest.raises(ValueError, match="category_colors"):
            categories_of(["a"], colors)

    @pytest.mark.parametrize("names", ["abc", 5])
    def test_invalid_list_is_an_error_before_the_write(self, names):
        with pytest.raises(TypeError, match="category_names"):
            categories_of(names, None)


class TestColorRamps:
    def test_names(self):
        assert set(RAMPS) == {"viridis", "plasma", "magma", "inferno", "cividis", "greys", "spectral", "terrain"}
        assert ramp_of("Viridis") == ramp_of(True) == "viridis"
        assert ramp_of(None) is ramp_of("") is ramp_of(False) is None
        for wrong in ("viridis_r", 1, ["viridis"]):
            with pytest.raises(ValueError, match="unknown color_ramp"):
                ramp_of(wrong)

    @pytest.mark.parametrize("wrong", [(1,), (1, 2, 3), "ab", (0, "x"), (2, 1), (0, float("nan")), (0, float("inf"))])
    def test_a_range_that_is_none(self, wrong):
        with pytest.raises(ValueError, match="color_ramp_range"):
            ramp_range_of(wrong)

    @pytest.mark.parametrize("wrong", [5, (None, None)])
    def test_a_range_of_the_wrong_type(self, wrong):
        with pytest.raises(TypeError, match="color_ramp_range"):
            ramp_range_of(wrong)

    def test_statistics_are_those_that_gdal_reads(self, tmp_path):
        path = str(tmp_path / tif(tmp_path / "r.tif", np.zeros((2, 2), "f4")))
        write_beside(path, ramp_contents("magma", None, (-0.1, 2**60 + 1, 1 / 3, 0.0)))
        with rasterio.open(path) as file:
            tags = file.tags(1)
        assert tags["STATISTICS_MINIMUM"] == "-0.1"
        assert tags["STATISTICS_MAXIMUM"] == str(2**60 + 1)
        assert float(tags["STATISTICS_MEAN"]) == 1 / 3
        assert tags["STATISTICS_STDDEV"] == "0"

    def test_the_style_spans_the_range_with_all_colours(self, tmp_path):
        write_beside(str(tmp_path / "r.tif"), ramp_contents("terrain", (3.0, 10.5), (0.0, 63.0, 1.0, 1.0)))
        root = ElementTree.parse(tmp_path / "r.qml").getroot()
        renderer = root.find("pipe/rasterrenderer")
        assert renderer.get("type") == "singlebandpseudocolor"
        items = root.findall(".//item")
        assert [item.get("color") for item in items] == list(RAMPS["terrain"])
        assert (items[0].get("value"), items[-1].get("value")) == ("3", "10.5")
        keys = [item.get("key") for item in ElementTree.parse(tmp_path / "r.tif.aux.xml").getroot().iter("MDI")]
        assert keys == ["STATISTICS_MINIMUM", "STATISTICS_MAXIMUM"]

    def test_one_value_has_no_style(self, tmp_path):
        write_beside(str(tmp_path / "r.tif"), ramp_contents("magma", None, (1.0, 1.0, 1.0, 0.0)))
        assert sorted(os.listdir(tmp_path)) == ["r.tif.aux.xml"]

    def test_no_valid_pixel_has_no_sidecar(self, tmp_path):
        write_beside(str(tmp_path / "r.tif"), ramp_contents("magma", None, None))
        assert os.listdir(tmp_path) == []

    def test_other_items_stay(self, tmp_path):
        path = pam(tmp_path, '<Metadata><MDI key="a">b</MDI><MDI key="STATISTICS_MEAN">9</MDI></Metadata>' + NAMES)
        write_beside(path, ramp_contents("magma", (0.0, 1.0), None))
        root = ElementTree.parse(f"{path}.aux.xml").getroot()
        found = {item.get("key"): item.text for item in root.iter("MDI")}
        assert found == {"a": "b", "STATISTICS_MINIMUM": "0", "STATISTICS_MAXIMUM": "1"}
        assert pam_attrs(path) == {"category_names": ["water", "land"]}

    def test_style_is_that_of_the_reference(self, tmp_path, reference):
        pixels = xr.DataArray(np.arange(12, dtype="f4").reshape(3, 4), dims=("y", "x"))
        reference.to_geotiff(pixels, str(tmp_path / "theirs.tif"), color_ramp="plasma", compression="none")
        write_beside(str(tmp_path / "ours.tif"), ramp_contents("plasma", None, (0.0, 11.0, 5.5, 3.45)))
        ours, theirs = (
            ElementTree.canonicalize((tmp_path / name).read_text(), strip_text=True)
            for name in ("ours.qml", "theirs.qml")
        )
        assert ours == theirs


class TestAtomicity:
    def test_a_failed_write_keeps_the_old_content(self, tmp_path, monkeypatch):
        path = tmp_path / "x.aux.xml"
        path.write_text("old")

        def fail(*_):
            raise OSError("disk full")

        monkeypatch.setattr(_xml.os, "replace", fail)
        with pytest.raises(OSError, match="disk full"):
            _xml.replace_file(str(path), b"new")
        assert path.read_text() == "old"
        assert os.listdir(tmp_path) == ["x.aux.xml"]

    def test_written_files_are_readable_by_other_users(self, tmp_path):
        before = os.umask(0o022)
        try:
            _xml.replace_file(str(tmp_path / "x"), b"new")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o644


BROKEN = {"text": b"not a TIFF", "empty": b"", "cut off": b"II*\0\x08\0\0\0", "far away": b"II*\0\xff\xff\xff\x0f"}


class TestUnreadableOverviews:
    """A sidecar that is ignored without a warning would remove overviews unnoticed."""

    @pytest.fixture(params=BROKEN.values(), ids=BROKEN.keys())
    def path(self, request, tmp_path):
        tif(tmp_path / "a.tif", np.arange(4096, dtype="u2").reshape(64, 64))
        (tmp_path / "a.tif.ovr").write_bytes(request.param)
        for each in (tmp_path / "a.tif", tmp_path / "a.tif.ovr", tmp_path):
            os.utime(each, (1e9, 1e9))  # Headers of files that have just changed are not cached.
        return str(tmp_path / "a.tif")

    @pytest.mark.parametrize("call", [{}, {"chunks": 32}, {"window": (0, 0, 8, 8)}, {"overview_level": 0}], ids=str)
    def test_each_open_warns_of_path_and_cause(self, path, call):
        for _ in range(2):  # The second read uses the cached header.
            with pytest.warns(
                RuntimeWarning, match=r"Ignoring unreadable sidecar '.*a\.tif\.ovr': \w+Error: ."
            ) as caught:
                array = open_geotiff(path, **call)
            assert len(caught) == 1
            assert caught[0].filename == __file__
            assert array[3, 5] == 3 * 64 + 5

    def test_level_of_the_sidecar_is_an_error_with_its_cause(self, path):
        for _ in range(2):
            with pytest.raises(ValueError, match=r"overview_level=1 from external sidecar '.*a\.tif\.ovr'") as caught:
                open_geotiff(path, overview_level=1)
            assert isinstance(caught.value.__cause__, ValueError)
            assert ".ovr" in str(caught.value.__cause__)

    @pytest.mark.parametrize("level", [True, "1"])
    def test_a_wrong_type_stays_a_type_error(self, path, level):
        with pytest.raises(TypeError, match="overview_level"):
            open_geotiff(path, overview_level=level)

    def test_overviews_of_the_file_are_read(self, path):
        with rasterio.open(path, "r+") as file:
            file.build_overviews([2])
        with pytest.warns(RuntimeWarning, match="Ignoring unreadable sidecar"):
            assert open_geotiff(path, overview_level=1).shape == (32, 32)
        with pytest.raises(ValueError, match="overview_level=2 from external sidecar"):
            open_geotiff(path, overview_level=2)


def test_overviews_beside_a_file_follow_those_inside(tmp_path):
    pixels = np.arange(4096, dtype="u2").reshape(64, 64)
    tif(tmp_path / "a.tif", pixels)
    with rasterio.open(tmp_path / "a.tif", "r+") as file:
        file.build_overviews([2])
    tifffile.imwrite(tmp_path / "a.tif.ovr", pixels[::4, ::4].copy(), subfiletype=1, metadata=None)
    path = str(tmp_path / "a.tif")
    for chunks in (None, 8):
        assert open_geotiff(path, overview_level=1, chunks=chunks).shape == (32, 32)
        beside = open_geotiff(path, overview_level=2, chunks=chunks)
        np.testing.assert_array_equal(beside.values, pixels[::4, ::4])
        assert beside.attrs["transform"] == (4.0, 0.0, 100.0, 0.0, -4.0, 200.0)
    with pytest.raises(ValueError, match="3 pyramid IFDs"):
        open_geotiff(path, overview_level=3)


def test_unreadable_mask_file_is_reported(tmp_path):
    tif(tmp_path / "a.tif", np.zeros((4, 4), "u1"))
    (tmp_path / "a.tif.msk").write_bytes(b"not a TIFF")
    with pytest.warns(RuntimeWarning, match=r"Ignoring unreadable sidecar '.*a\.tif\.msk'"):
        open_geotiff(str(tmp_path / "a.tif"), masked=True)


def test_folder_with_the_name_of_a_sidecar_is_not_one(tmp_path, recwarn):
    tif(tmp_path / "a.tif", np.zeros((4, 4), "u1"))
    (tmp_path / "a.tif.ovr").mkdir()
    open_geotiff(str(tmp_path / "a.tif"))
    assert not recwarn.list
