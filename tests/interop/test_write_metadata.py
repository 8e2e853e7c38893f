"""Metadata survives a conversion."""

from pathlib import Path

import numpy as np
import pytest
import rasterio
import rasterio.windows
import tifffile
from rasterio.windows import Window

import metadata_cases
from binary import Swath
from case import assert_same, gdal_pixels
from dataset_view import differences, own_tags, view
from metadata_cases import Described

CASES = metadata_cases.all_cases()
STRIPS = ["--strips", 9, "--compression", "lzw"]
WAYS = {"cog": ["--cog", "--tile", 16], "strips": STRIPS, "band": ["--interleave", "band"]}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_all_metadata_survives(case: Described, way: str, swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    case.write(source)
    swath.succeed("convert", source, path, *WAYS[way])
    assert not differences(view(path), view(source))
    assert_same(gdal_pixels(path), gdal_pixels(source))
    # The copy has no sidecar.
    assert sorted(file.name for file in tmp_path.iterdir() if file.name.startswith("out")) == ["out.tif"]


@pytest.mark.parametrize("name", ["utm", "feet", "compound", "laea", "tmerc"])
def test_georeferencing_in_a_sidecar_becomes_tags(name: str, swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    place = {"crs": metadata_cases.SYSTEMS[name], "transform": metadata_cases.NORTH_UP}
    Described("sidecar", {"profile": "BASELINE", **place}, beside=".aux.xml").write(source)
    swath.succeed("convert", source, path)
    # The result when GDAL itself converts the CRS to tags: some names and authorities are lost.
    tagged = tmp_path / "tagged.tif"
    Described("sidecar", place).write(tagged)
    assert not differences(view(path), view(tagged))


@pytest.mark.parametrize("bigtiff", [False, True])
@pytest.mark.parametrize("byteorder", "<>")
def test_private_tags_of_every_type_survive(byteorder: str, bigtiff: bool, swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    metadata_cases.write_private(source, byteorder, bigtiff)
    want = own_tags(source)
    assert len(want) >= len(metadata_cases.PRIVATE)
    for flags in (["--cog", "--tile", 16], ["--strips", 7], ["--bigtiff", "yes"]):
        if bigtiff and "--bigtiff" not in flags:
            flags = [*flags, "--bigtiff", "yes"]  # a classic TIFF has no numbers of 64 bits
        swath.succeed("convert", source, path, "--overwrite", *flags)
        assert own_tags(path) == want


def test_64_bit_tags_in_a_classic_file_are_not_dropped_silently(swath: Swath, tmp_path: Path) -> None:
    """A classic TIFF cannot store LONG8; the writer may change the type or refuse, but must not drop the tag."""
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    metadata_cases.write_private(source, "<", True)
    run = swath.run("convert", source, path, "--bigtiff", "no")
    assert run.code in (0, 1)
    if run.code == 0:
        codes = {code for code, *_ in metadata_cases.LONG8}
        assert codes <= own_tags(path).keys()


@pytest.mark.parametrize(("dtype", "value"), metadata_cases.WIDE_NODATA)
def test_nodata_of_64_bits_is_exact(dtype: str, value: int, swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    metadata_cases.write_wide_nodata(source, dtype, value)
    swath.succeed("convert", source, path, "--cog", "--tile", 16)
    with tifffile.TiffFile(path) as tif:
        assert tif.pages[0].tags[42113].value == str(value)
    assert_same(swath.read(path, "--mask"), swath.read(source, "--mask"))
    assert_same(gdal_pixels(path), gdal_pixels(source))


def described(path: Path) -> None:
    """A file in which each band has different metadata."""
    case = Described("described", {"crs": "EPSG:32633", "transform": metadata_cases.NORTH_UP}, bands=3)
    case.describe = metadata_cases.everything
    case.write(path)


@pytest.mark.parametrize("window", [(0, 0, 45, 61), (3, 5, 44, 60), (44, 60, 45, 61), (0, 17, 1, 18)])
@pytest.mark.parametrize("transform", ["north-up", "rotated", "point"])
def test_transform_of_a_window(window: tuple, transform: str, swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    rotated = rasterio.Affine(10, 3, 500000, 2.5, -10, 5100000)
    place = {"crs": "EPSG:32633", "transform": rotated if transform == "rotated" else metadata_cases.NORTH_UP}
    case = Described("window", place)
    if transform == "point":
        case.describe = lambda dataset: dataset.update_tags(AREA_OR_POINT="Point")
    case.write(source)
    swath.succeed("convert", source, path, "--window", ",".join(map(str, window)), "--cog")
    part = Window.from_slices((window[0], window[2]), (window[1], window[3]))
    with rasterio.open(source) as dataset, rasterio.open(path) as copy:
        want = rasterio.windows.transform(part, dataset.transform)
        assert np.allclose(tuple(copy.transform), tuple(want), rtol=1e-14)
        assert copy.tags().get("AREA_OR_POINT") == dataset.tags().get("AREA_OR_POINT")
    assert_same(gdal_pixels(path), gdal_pixels(source, window=part))


def test_gcps_and_rpcs_of_a_window(swath: Swath, tmp_path: Path) -> None:
    for name, describe in (("gcps", metadata_cases.gcps), ("rpcs", metadata_cases.rpcs)):
        source, path = tmp_path / f"{name}.tif", tmp_path / f"{name}-part.tif"
        Described(name, describe=describe).write(source)
        swath.succeed("convert", source, path, "--window", "3,5,44,60")
        whole, part = view(source), view(path)
        if name == "gcps":
            assert part["gcps"] == [(row - 3, col - 5, *rest) for row, col, *rest in whole["gcps"]]
            assert part["gcp crs"] == whole["gcp crs"]
        else:
            moved = {"line_off": whole["rpcs"]["line_off"] - 3, "samp_off": whole["rpcs"]["samp_off"] - 5}
            assert part["rpcs"] == whole["rpcs"] | moved


@pytest.mark.parametrize("bands", [[1], [3], [3, 1], [2, 2], [3, 2, 1]])
def test_band_metadata_follows_the_bands(bands: list[int], swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    described(source)
    swath.succeed("convert", source, path, "--bands", ",".join(map(str, bands)))
    whole, part = view(source), view(path)
    for name in ("descriptions", "scales", "offsets", "units"):
        assert part[name] == tuple(whole[name][band - 1] for band in bands), name
    assert part["colors"] == [whole["colors"][band - 1] for band in bands]
    for new, old in enumerate(bands, 1):
        assert part[f"tags of band {new}"] == whole[f"tags of band {old}"]
    for name in ("crs", "transform", "tags"):
        assert part[name] == whole[name], name
    assert_same(gdal_pixels(path), gdal_pixels(source, bands=bands))


def test_statistics_of_the_image_are_not_copied_to_a_part(swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    described(source)
    swath.succeed("convert", source, path, "--window", "1,1,30,30")
    whole, part = view(source), view(path)
    for band in (1, 2, 3):
        items = whole[f"tags of band {band}"]
        kept = {key: value for key, value in items[""].items() if not key.startswith("STATISTICS_")}
        assert part[f"tags of band {band}"].get("", {}) == kept
    assert not differences(part, whole, ("transform", "mask", *(f"tags of band {band}" for band in (1, 2, 3))))


def test_statistics_are_those_of_the_pixels(swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    described(source)
    run = swath.succeed("convert", source, path, "--statistics", "--nodata", 7)
    with rasterio.open(path) as dataset:
        for band in dataset.indexes:
            values = dataset.read(band, masked=True).compressed().astype(float)
            items = {key.removeprefix("STATISTICS_"): value for key, value in dataset.tags(band).items()}
            for name, want in (("MINIMUM", values.min()), ("MAXIMUM", values.max()), ("MEAN", values.mean()),
                               ("STDDEV", values.std())):  # fmt: skip
                assert float(items[name]) == pytest.approx(want, rel=1e-12), name
            percent = 100 * values.size / dataset.width / dataset.height
            assert float(items["VALID_PERCENT"]) == pytest.approx(percent, abs=0.01)
    assert len(run.stdout.splitlines()) == 3


def test_one_page_of_a_file_with_several(swath: Swath, tmp_path: Path) -> None:
    source, path = tmp_path / "in.tif", tmp_path / "out.tif"
    case = Described("pages", {"crs": "EPSG:32633", "transform": metadata_cases.NORTH_UP}, metadata_cases.items)
    case.write(source)
    other = Described("other", {"append_subdataset": "YES", "crs": "EPSG:2154", "transform": metadata_cases.NORTH_UP})
    other.dtype, other.bands, other.describe = "float32", 1, metadata_cases.gcps
    other.describe = lambda dataset: dataset.update_tags(PAGE="second")
    other.write(source)
    swath.succeed("convert", source, path, "--image", 1, "--cog")
    second = Path(f"GTIFF_DIR:2:{source}")
    assert not differences(view(path), view(second))
    assert_same(gdal_pixels(path), gdal_pixels(second))
    run = swath.run("convert", source, path, "--image", 2, "--overwrite")
    assert run.code == 1 and len(run.stderr.splitlines()) == 1
