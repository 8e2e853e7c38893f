"""Reading mosaics: GDAL's pixels, the errors of the contract, no access outside the folder."""

from __future__ import annotations

import os
import pickle
import threading
import warnings

import dask
import numpy as np
import pytest
import rasterio

import swath
from agreement import as_the_reference_says_it, public
from mosaics import as_gdal_reads, band, source, tif, vrt
from swath import (
    DegeneratePixelSizeError,
    GeoTIFFFallbackWarning,
    MixedBandMetadataError,
    PixelSafetyLimitError,
    RotatedTransformError,
    UnparseableCRSError,
    UnsupportedGeoTIFFFeatureError,
    VRTUnsupportedError,
    open_geotiff,
)
from swath.mosaic import canvas, document
from swath.mosaic.document import DTYPES, read_vrt

A = np.arange(1, 17, dtype="u1").reshape(4, 4)


@pytest.fixture
def folder(tmp_path):
    """a.tif and b.tif, to be placed side by side."""
    (tmp_path / "m").mkdir()
    tif(tmp_path / "m" / "a.tif", A)
    tif(tmp_path / "m" / "b.tif", A + 50, x=104)
    return tmp_path / "m"


BOTH = source("a.tif") + source("b.tif", dst=(4, 0, 4, 4))
COMPLEX = {"kind": "ComplexSource"}


def of(folder, *bands, **about):
    return vrt(folder / "m.vrt", *bands, **about)


def check_pixels(path, **reading):
    ours, theirs = open_geotiff(path, **reading).values, as_gdal_reads(path)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


class TestPixels:
    def test_sources_side_by_side(self, folder):
        check_pixels(of(folder, band(BOTH)))

    def test_a_hole_has_the_nodata_value_or_zero(self, folder):
        check_pixels(of(folder, band(source("a.tif"), nodata=7)))
        check_pixels(of(folder, band(source("a.tif"))))
        check_pixels(of(folder, band(source("a.tif"), dtype="Float32", nodata="nan")))

    def test_a_whole_file_needs_no_rectangles(self, folder):
        check_pixels(of(folder, band(source("a.tif", None))))

    def test_sources_of_several_bands_are_decoded_once_for_all(self, folder, monkeypatch):
        tif(folder / "rgb.tif", np.stack([A, A + 1, A + 2]))
        path = of(folder, *(band(source("rgb.tif", band=b)) for b in (3, 1, 2)))
        check_pixels(path)
        report = {}
        open_geotiff(path, report=report)
        assert report["sources"] == 1

    @pytest.mark.parametrize("kind", ["SimpleSource", "ComplexSource"])
    def test_later_sources_cover_earlier_ones(self, folder, kind):
        """Where they have data; only ComplexSource has a nodata value."""
        tif(folder / "n.tif", np.where(A % 3 == 0, 0, A).astype("u1"), nodata=0)
        over = source("n.tif", kind=kind, inside="<NODATA>0</NODATA>")
        path = of(folder, band(source("b.tif") + over), size=(4, 4))
        check_pixels(path)
        assert (open_geotiff(path).values[0, 2] == 53) == (kind == "ComplexSource")

    def test_overlapping_sources_keep_their_order_with_many_threads(self, folder):
        for value in range(1, 40):
            tif(folder / f"{value}.tif", np.full((64, 64), value, "u1"))
        sources = "".join(source(f"{v}.tif", (0, 0, 64, 64), (v, v % 5, 64, 64)) for v in range(1, 40))
        path = of(folder, band(sources), size=(70, 110))
        for _ in range(5):
            check_pixels(path, threads=8)

    def test_mosaics_at_random_are_those_of_gdal(self, folder):
        """Types, rectangles with fractions, scales, nodata, windows."""
        for seed in range(60):
            random_mosaic(folder, np.random.default_rng(seed))

    def test_a_window_is_the_part_of_the_whole(self, folder):
        path = of(folder, band(source("a.tif", (0.3, 0, 3.1, 4), (0.4, 0.2, 6.7, 3.3))))
        whole = open_geotiff(path).values
        for top in range(4):
            for left in range(8):
                part = open_geotiff(path, window=(top, left, 4, 8)).values
                np.testing.assert_array_equal(part, whole[top:, left:])

    def test_few_rows_are_held_at_once(self, folder, monkeypatch):
        """For sources that are used unchanged and for downsampled ones, in any position."""
        tif(
            folder / "big.tif",
            np.arange(300 * 200, dtype="u2").reshape(300, 200),
            tiled=True,
            blockxsize=16,
            blockysize=32,
        )
        held = []
        plain = canvas.Canvas._read
        monkeypatch.setattr(canvas.Canvas, "_read", lambda *given: held.append(given[3].count) or plain(*given))
        monkeypatch.setattr(canvas, "AT_ONCE", 9000)
        for dst in [(3, 5, 180, 270), (0, 5, 190, 270), (3.5, 5.5, 180, 270), (3, 5, 18, 7), (3, 5, 199, 290)]:
            sources = source("big.tif", (7, 11, 180, 270), dst) + source("big.tif", (0, 0, 9, 9), (60, 60, 9, 9))
            for one in (sources, source("big.tif", (7, 11, 180, 270), dst)):
                check_pixels(of(folder, band(one, dtype="UInt16"), size=(300, 200)), threads=3)
        assert max(held) <= 9000 // 180
        whole = of(folder, band(source("big.tif", (0, 0, 200, 300)), dtype="UInt16"), size=(300, 200))
        held.clear()
        check_pixels(whole)
        assert held == [32] * 9 + [12]

    def test_a_window_inside_of_a_source_is_decoded_in_place(self, folder, monkeypatch):
        tif(folder / "big.tif", np.arange(300 * 200, dtype="u2").reshape(300, 200))
        path = of(
            folder, band(source("big.tif", (0, 0, 200, 300), (50, 60, 200, 300)), dtype="UInt16"), size=(400, 300)
        )
        whole = as_gdal_reads(path)
        monkeypatch.setattr(canvas.Canvas, "put", None)
        np.testing.assert_array_equal(open_geotiff(path, window=(70, 80, 170, 180)).values, whole[70:170, 80:180])

    def test_thinning_out(self, folder, monkeypatch):
        tif(folder / "big.tif", np.arange(300 * 200, dtype="u2").reshape(300, 200))
        path = of(folder, band(source("big.tif", (0, 0, 200, 300), (0, 0, 7, 9)), dtype="UInt16"), size=(9, 7))
        monkeypatch.setattr(canvas, "AT_ONCE", 2000)
        check_pixels(path)

    def test_64_bit_integers_stay_exact(self, folder):
        values = np.array([[2**63 - 1, 2**53 + 1], [-(2**63), 7]])
        tif(folder / "l.tif", values)
        path = of(
            folder,
            band(source("l.tif", (0, 0, 2, 2), inside="<NODATA>7</NODATA>", **COMPLEX), dtype="Int64"),
            size=(2, 2),
        )
        assert open_geotiff(path).values.tolist() == [[2**63 - 1, 2**53 + 1], [-(2**63), 0]]

    def test_scales_are_as_exact_as_those_of_gdal(self, folder):
        """GDAL goes through float32 from float64 to Float32, but not from or to longer integers."""
        rng = np.random.default_rng(0)
        for own in ("f8", "i4", "u2"):
            tif(folder / "s.tif", (rng.random((32, 32)) * 1e5).astype(own))
            for dtype in ("Float32", "Float64", "Int32"):
                scaled = source("s.tif", (0, 0, 32, 32), inside="<ScaleRatio>-1.7</ScaleRatio>", **COMPLEX)
                check_pixels(of(folder, band(scaled, dtype=dtype), size=(32, 32)))

    def test_the_real_part_of_complex_sources(self, folder):
        tif(folder / "c.tif", (A + 1j * A).astype("c8"))
        for dtype in ("Float32", "Int16"):
            check_pixels(of(folder, band(source("c.tif"), dtype=dtype)))

    def test_few_sources_are_read_for_a_small_window(self, folder):
        """The other source may be broken or of any size."""
        (folder / "b.tif").write_bytes(b"II*\0nonsense")
        read = open_geotiff(of(folder, band(BOTH)), window=(0, 0, 4, 4))
        np.testing.assert_array_equal(read.values, A)

    def test_sources_are_decoded_in_parallel(self, folder, monkeypatch):
        threads = set()
        together = threading.Barrier(2, timeout=20)
        plain = canvas.values_of

        def slow(*arguments):
            threads.add(threading.get_ident())
            together.wait()
            return plain(*arguments)

        monkeypatch.setattr(canvas, "values_of", slow)
        open_geotiff(of(folder, band(BOTH)), threads=2)
        assert len(threads) == 2

    def test_report(self, folder):
        report = {}
        open_geotiff(of(folder, band(BOTH)), report=report)
        assert report["sources"] == 2 and report["blocks"] == 2
        assert swath.last_report()["sources"] == 2


def random_mosaic(folder, rng):
    names = list(DTYPES)
    width, height = int(rng.integers(5, 30)), int(rng.integers(5, 30))
    dtype = names[rng.integers(len(names))]
    files = []
    for index in range(rng.integers(1, 4)):
        own = DTYPES[names[rng.integers(len(names))] if rng.random() < 0.5 else dtype]
        shape = tuple(map(int, rng.integers((1, 3, 3), (4, 20, 20))))
        files.append((tif(folder / f"s{index}.tif", random_pixels(rng, np.dtype(own), shape)), shape))
    bands = []
    for index in range(rng.integers(1, 4)):
        sources = "".join(random_source(rng, files, index, width, height) for _ in range(rng.integers(0, 5)))
        # GDAL reads other texts as 64-bit integers in its own way.
        texts = ["0", "5", "255"] if dtype in ("UInt64", "Int64") else ["0", "5", "nan", "-9999", "300", "1.5"]
        nodata = None if rng.random() < 0.5 else texts[rng.integers(len(texts))]
        bands.append(band(sources, dtype=dtype, nodata=nodata))
    path = of(folder, *bands, size=(height, width))
    ours = open_geotiff(path, band_nodata="first", threads=int(rng.integers(1, 5))).values
    theirs = as_gdal_reads(path)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs, err_msg=(folder / "m.vrt").read_text())


def random_pixels(rng, dtype, shape):
    if dtype.kind == "f":
        pixels = (rng.normal(0, [1, 50, 1e5, 1e12][rng.integers(4)], shape) * 2).round(1) / 2
        pixels[rng.random(shape) < 0.05] = [np.nan, np.inf, 0.5][rng.integers(3)]
    else:
        limits = np.iinfo(dtype)
        few = rng.random() < 0.6 or dtype.itemsize == 8
        low, high = (max(-40, int(limits.min)), min(300, int(limits.max))) if few else (limits.min, limits.max)
        pixels = rng.integers(low, high, shape, endpoint=True, dtype=np.int64)
    pixels = pixels.astype(dtype)
    pixels[rng.random(shape) < 0.2] = [0, 5, 7][rng.integers(3)]
    return pixels


def random_source(rng, files, index, width, height):
    name, (count, rows, columns) = files[rng.integers(len(files))]
    x, y = int(rng.integers(columns - 1)), int(rng.integers(rows - 1))
    src = (x, y, int(rng.integers(1, columns - x + 1)), int(rng.integers(1, rows - y + 1)))
    place = (int(rng.integers(0, width - 1)), int(rng.integers(0, height - 1)))
    dst = [
        (*place, *src[2:]),
        (*place, int(rng.integers(1, width + 3)), int(rng.integers(1, height + 3))),
        tuple(
            round(float(v), 3) for v in (*rng.uniform(0, (width - 1, height - 1)), *rng.uniform(0.6, (width, height)))
        ),
    ][rng.integers(3)]
    if rng.random() < 0.4:
        return source(name, src, dst, band=min(index, count - 1) + 1)
    inside = ""
    if rng.random() < 0.7:
        inside += f"<NODATA>{['0', '5', '7', 'nan', '-9999', '300', '5.0'][rng.integers(7)]}</NODATA>"
    if rng.random() < 0.4:
        inside += f"<ScaleRatio>{[2.0, 0.5, 0.3, -1.5, 1e-3][rng.integers(5)]}</ScaleRatio>"
    if rng.random() < 0.4:
        inside += f"<ScaleOffset>{[1.0, 0.5, -3.25, 1000.0][rng.integers(4)]}</ScaleOffset>"
    return source(name, src, dst, band=min(index, count - 1) + 1, inside=inside, **COMPLEX)


class TestWhatAttrsSay:
    def test_place(self, folder):
        read = open_geotiff(of(folder, band(BOTH)), window=(1, 2, 3, 7))
        assert read.attrs["transform"] == (1.0, 0.0, 102.0, 0.0, -1.0, 199.0)
        assert (read.attrs["crs"], read.attrs["crs_wkt"], read.attrs["georef_status"]) == (32633, "EPSG:32633", "full")
        assert read.x.values.tolist() == [102.5, 103.5, 104.5, 105.5, 106.5]
        assert read.y.values.tolist() == [198.5, 197.5]
        assert read.name == "m" and read.dims == ("y", "x")

    def test_nothing_but_place_nodata_and_holes(self, folder):
        read = open_geotiff(of(folder, band(BOTH, inside="<Description>d</Description><Scale>2</Scale>")))
        assert set(read.attrs) == {"_swath_contract", "georef_status", "crs", "crs_wkt", "transform"}

    def test_nowhere(self, folder):
        read = open_geotiff(of(folder, band(BOTH), place=""), window=(1, 2, 3, 7))
        assert read.attrs["georef_status"] == "none" and repr(read.attrs["_swath_no_georef"]) == "1"
        assert read.x.values.tolist() == [2, 3, 4, 5, 6] and read.x.dtype == np.int64

    def test_points(self, folder):
        inside = '<Metadata><MDI key="AREA_OR_POINT">Point</MDI></Metadata>'
        read = open_geotiff(of(folder, band(BOTH), inside=inside))
        assert read.attrs["raster_type"] == "point" and read.x.values[0] == 100.0

    def test_rotated(self, folder):
        path = of(folder, band(BOTH), place="<GeoTransform>100,1,0.2,200,0,-1</GeoTransform>")
        with pytest.raises(RotatedTransformError, match="allow_rotated"):
            open_geotiff(path)
        read = open_geotiff(path, allow_rotated=True)
        assert read.attrs["rotated_affine"] == (1.0, 0.2, 100.0, 0.0, -1.0, 200.0)
        assert read.attrs["georef_status"] == "rotated_dropped" and "crs" not in read.attrs

    def test_bbox(self, folder):
        read = open_geotiff(of(folder, band(BOTH)), bbox=(101.2, 197, 106.5, 199.5))
        assert read.shape == (3, 6) and read.attrs["transform"][2] == 101.0

    @pytest.mark.parametrize("text", ["nonsense", 'PROJCS["x",GEOG'])
    def test_a_system_that_cannot_be_parsed(self, folder, text):
        path = of(folder, band(BOTH), place=f"<SRS>{text}</SRS>")
        with pytest.raises(UnparseableCRSError, match="allow_unparseable_crs"):
            open_geotiff(path)
        with pytest.warns(GeoTIFFFallbackWarning, match="cannot parse"):
            assert open_geotiff(path, allow_unparseable_crs=True).attrs["crs_wkt"] == text

    def test_categories_beside_the_index(self, folder):
        path = of(folder, band(BOTH))
        with open(f"{path}.aux.xml", "w") as file:
            names = "<CategoryNames><Category>a</Category></CategoryNames>"
            file.write(f'<PAMDataset><PAMRasterBand band="1">{names}</PAMRasterBand></PAMDataset>')
        assert open_geotiff(path).attrs["category_names"] == ["a"]

    def test_a_replaced_index_is_read_again(self, folder):
        path = of(folder, band(BOTH, nodata=1))
        long_ago = os.stat(path).st_mtime_ns - 10**10
        os.utime(path, ns=(long_ago, long_ago))
        first = read_vrt(path)
        assert read_vrt(path) is first
        of(folder, band(BOTH, nodata=2))
        assert open_geotiff(path).attrs["nodata"] == 2


class TestNodata:
    @pytest.mark.parametrize(
        ("text", "value"),
        [("5", 5), ("5.0", 5), (" 5 ", 5), ("-9999", -9999), ("0.5", 0.5), ("1e3", 1000.0), ("x", None), ("", None)],
    )
    def test_values_of_integers(self, folder, text, value):
        read = open_geotiff(of(folder, band(BOTH, nodata=text)))
        assert read.attrs.get("nodata") == value
        assert read.dtype == np.uint8

    def test_masked(self, folder):
        read = open_geotiff(of(folder, band(BOTH, nodata=5)), masked=True)
        assert read.dtype == np.float64
        assert np.isnan(read.values).sum() == 1 and np.isnan(read.values[1, 0])
        values = [read.attrs[name] for name in ("nodata", "masked_nodata", "nodata_pixels_present")]
        assert repr(values) == "[nan, 1, 1]"
        assert read.encoding["_FillValue"] == read.encoding["swath"].nodata == 5
        assert read.encoding["dtype"] == "uint8"

    def test_masked_holes(self, folder):
        read = open_geotiff(of(folder, band(source("a.tif"), dtype="Float32", nodata=-1)), masked=True)
        assert np.isnan(read.values[:, 4:]).all() and read.dtype == np.float32

    def test_a_value_that_no_pixel_can_equal_masks_nothing(self, folder):
        read = open_geotiff(of(folder, band(BOTH, nodata=-9999)), masked=True)
        assert read.dtype == np.uint8 and repr(read.attrs["masked_nodata"]) == "0"
        assert read.attrs["nodata"] == -9999 and "_FillValue" not in read.encoding

    def test_bands_that_disagree(self, folder):
        path = of(folder, band(BOTH, nodata=1), band(BOTH, nodata=2))
        with pytest.raises(MixedBandMetadataError, match="band_nodata='first'"):
            open_geotiff(path)
        read = open_geotiff(path, band_nodata="first")
        assert read.attrs["nodata"] == 1 and read.dtype == np.uint8
        assert open_geotiff(path, band_nodata="first", band=1).attrs["nodata"] == 2

    @pytest.mark.parametrize("chunks", [None, 3])
    def test_each_band_is_masked_by_its_own_value(self, folder, chunks):
        path = of(folder, band(BOTH, nodata=1), band(BOTH, nodata=2), band(BOTH))
        read = open_geotiff(path, band_nodata="first", masked=True, chunks=chunks)
        gaps = np.argwhere(np.isnan(read.values)).tolist()
        assert gaps == [[0, 0, 0], [0, 1, 1]] and read.dtype == np.float64
        np.testing.assert_array_equal(read[:, :, 1].values, read.values[:, :, 1])

    def test_nan_agrees_with_nan(self, folder):
        path = of(folder, *(band(BOTH, dtype="Float32", nodata="nan") for _ in range(2)))
        assert np.isnan(open_geotiff(path).attrs["nodata"])


class TestRefusals:
    @pytest.mark.parametrize("kind", ["VRTWarpedDataset", "VRTPansharpenedDataset", "VRTProcessedDataset"])
    def test_vrt_that_is_not_a_mosaic_is_refused(self, folder, kind):
        with pytest.raises(UnsupportedGeoTIFFFeatureError, match="subClass"):
            open_geotiff(of(folder, band(BOTH), attributes=f' subClass="{kind}"'))

    @pytest.mark.parametrize("inside", ["<MaskBand/>", "<GCPList/>", "<GDALWarpOptions/>", "<PansharpeningOptions/>"])
    def test_elements_of_a_dataset(self, folder, inside):
        with pytest.raises(UnsupportedGeoTIFFFeatureError, match=inside[1:-2]):
            open_geotiff(of(folder, band(BOTH), inside=inside))

    @pytest.mark.parametrize(
        "about",
        [
            {"attributes": ' subClass="VRTDerivedRasterBand"'},
            {"inside": "<MaskBand/>"},
            {"inside": "<PixelFunctionType>sum</PixelFunctionType>"},
            {"inside": "<KernelFilteredSource/>"},
            {"inside": "<AveragedSource/>"},
            {"inside": "<Unknown/>"},
        ],
    )
    def test_bands_that_are_computed(self, folder, about):
        with pytest.raises(UnsupportedGeoTIFFFeatureError, match="VRTRasterBand band=1"):
            open_geotiff(of(folder, band(BOTH, **about)))

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            (source("o.vrt"), "another VRT"),
            (source("O.VRT"), "another VRT"),
            (source("a.tif", inside="<UseMaskBand>true</UseMaskBand>"), "UseMaskBand"),
            (source("a.tif", dst=(0, 0, 8, 4), inside="<ResampleAlg>cubic</ResampleAlg>", **COMPLEX), "ResampleAlg"),
            (source("a.tif", dst=(0, 0, 8, 4), attributes=' resampling="bilinear"'), "ResampleAlg"),
            (source("a.tif", (-1, 0, 4, 4), (0, 0, 4, 4)), "negative offset"),
            (source("a.tif", (0, 0, -4, 4)), "negative size"),
            (source("a.tif", dst=(20, 0, 4, 4)), "outside the VRT extent"),
            (source("a.tif", (0, 0, 0, 4)), "empty SrcRect"),
            (source("a.tif", inside="<LUT>0:0,255:1</LUT>", **COMPLEX), "LUT"),
            (source("a.tif").replace("<DstRect", "<Other"), "only one of"),
        ],
    )
    def test_sources(self, folder, text, what):
        with pytest.raises(VRTUnsupportedError, match=what):
            open_geotiff(of(folder, band(text)))

    @pytest.mark.parametrize("place", ["100,0,0,200,0,-1", "100,1,0,200,0,0"])
    def test_pixels_without_a_size(self, folder, place):
        with pytest.raises(VRTUnsupportedError, match="zero pixel size"):
            open_geotiff(of(folder, band(BOTH), place=f"<GeoTransform>{place}</GeoTransform>"))

    def test_pixels_of_no_number(self, folder):
        with pytest.raises(DegeneratePixelSizeError):
            open_geotiff(of(folder, band(BOTH), place="<GeoTransform>100,nan,0,200,0,-1</GeoTransform>"))

    @pytest.mark.parametrize("dtype", ["CFloat32", "Float16", "Foo", ""])
    def test_types(self, folder, dtype):
        with pytest.raises(ValueError, match="dataType"):
            open_geotiff(of(folder, band(BOTH, dtype=dtype)))

    def test_bands_of_several_types(self, folder):
        path = of(folder, band(BOTH), band(BOTH, dtype="Int16"))
        with pytest.raises(MixedBandMetadataError, match="dtypes"):
            open_geotiff(path)
        assert open_geotiff(path, band=1).dtype == np.int16

    def test_no_bands(self, folder):
        with pytest.raises(VRTUnsupportedError, match="no <VRTRasterBand>"):
            open_geotiff(of(folder))

    @pytest.mark.parametrize("chunks", [None, 3])
    def test_bands_by_number_and_name(self, folder, chunks):
        names = ("red", "nir", "blue")
        bands = (band(source("a.tif"), inside=f"<Description>{name}</Description>", nodata=2) for name in names)
        path = of(folder, *bands, band(source("b.tif"), nodata=2), size=(4, 4))
        one = open_geotiff(path, band="nir", chunks=chunks)
        assert one.dims == ("y", "x")
        assert one.band.item() == 1
        for masked in (False, True):
            some = open_geotiff(path, band=[3, "red"], chunks=chunks, masked=masked)
            assert some.dims == ("y", "x", "band")
            assert some.band.values.tolist() == [3, 0]
            expected = np.stack([A + 50, A], -1).astype("f8" if masked else "u1")
            np.testing.assert_array_equal(some, np.where(masked & (expected == 2), np.nan, expected))
        assert open_geotiff(path, band=[1], chunks=chunks).shape == (4, 4, 1)
        for wrong in ("green", ["red", 0], [4], []):
            with pytest.raises(ValueError, match="band"):
                open_geotiff(path, band=wrong, chunks=chunks)

    @pytest.mark.parametrize("wrong", [-1, 2, True, "a", [0, 2], [0.5]])
    def test_bands_that_are_none(self, folder, wrong):
        with pytest.raises(ValueError, match="band"):
            open_geotiff(of(folder, band(BOTH), band(BOTH)), band=wrong)

    @pytest.mark.parametrize("window", [(1, 2, 5, 7), (-1, 2, 3, 7), (1, 2, 1, 7)])
    def test_windows_outside(self, folder, window):
        with pytest.raises(ValueError, match="outside the VRT extent"):
            open_geotiff(of(folder, band(BOTH)), window=window)

    @pytest.mark.parametrize("chunks", [None, 2])
    def test_sources_in_another_system(self, folder, chunks):
        tif(folder / "geo.tif", A, crs="EPSG:4326")
        other = source("a.tif") + source("geo.tif", dst=(4, 0, 4, 4))
        for place in (mosaic_place := "<SRS>EPSG:32633</SRS>", ""):
            with pytest.raises(VRTUnsupportedError, match="EPSG:4326"):
                open_geotiff(of(folder, band(other), place=place), chunks=chunks)
        tif(folder / "free.tif", A, crs=None)
        open_geotiff(of(folder, band(source("free.tif")), place=mosaic_place))

    def test_a_system_far_down_the_list_is_found_when_it_is_read(self, folder):
        tif(folder / "geo.tif", A, crs="EPSG:4326")
        for index in range(20):
            tif(folder / f"{index}.tif", A)
        sources = "".join(source(f"{index}.tif", dst=(4 * index, 0, 4, 4)) for index in range(20))
        path = of(folder, band(sources + source("geo.tif", dst=(80, 0, 4, 4))), size=(4, 84))
        lazy = open_geotiff(path, chunks=4)
        lazy[:, :80].compute()
        with pytest.raises(VRTUnsupportedError, match="EPSG:4326"):
            lazy[:, 80:].compute()

    def test_a_source_that_is_smaller_than_it_should_be(self, folder):
        with pytest.raises(ValueError, match="outside the source extent"):
            open_geotiff(of(folder, band(source("a.tif", (2, 2, 4, 4), (0, 0, 4, 4)))))

    def test_a_source_with_fewer_bands(self, folder):
        with pytest.raises(IndexError, match="SourceBand 2"):
            open_geotiff(of(folder, band(source("a.tif", band=2))))


class TestXml:
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-32"])
    def test_a_doctype_is_refused_in_every_encoding(self, folder, encoding):
        path = of(folder, band(BOTH))
        text = (folder / "m.vrt").read_text()
        (folder / "m.vrt").write_bytes(f'<!DOCTYPE a [<!ENTITY b "c">]>{text}'.encode(encoding))
        with pytest.raises(ValueError, match="VRT"):
            open_geotiff(path)

    def test_what_is_not_xml(self, folder):
        path = of(folder, band(BOTH))
        whole = (folder / "m.vrt").read_bytes()
        for end in range(0, len(whole), 37):
            (folder / "m.vrt").write_bytes(whole[:end])
            with pytest.raises(ValueError, match="VRT"):
                open_geotiff(path)

    def test_size(self, folder, monkeypatch):
        path = of(folder, band(BOTH))
        monkeypatch.setenv("SWATH_VRT_MAX_XML_BYTES", "100")
        with pytest.raises(ValueError, match="100-byte cap"):
            open_geotiff(path)
        for wrong in ("x", "0", "-1"):
            monkeypatch.setenv("SWATH_VRT_MAX_XML_BYTES", wrong)
            with pytest.raises(ValueError, match="positive integer"):
                open_geotiff(path)

    @pytest.mark.parametrize("rect", ["x", "nan", "1e999"])
    def test_numbers(self, folder, rect):
        with pytest.raises(ValueError, match="VRT"):
            open_geotiff(of(folder, band(source("a.tif", (0, 0, rect, 4)))))


class TestContainment:
    @pytest.fixture
    def outside(self, folder):
        tif(folder.parent / "out.tif", A)
        return str(folder.parent / "out.tif")

    def test_inside(self, folder):
        (folder / "sub").mkdir()
        tif(folder / "sub" / "c.tif", A)
        (folder / "link.tif").symlink_to(folder / "a.tif")
        for name, relative in [("sub/c.tif", 1), ("sub/../a.tif", 1), ("link.tif", 1), (str(folder / "a.tif"), 0)]:
            open_geotiff(of(folder, band(source(name, relative=relative))))

    def test_outside(self, folder, outside):
        (folder / "link.tif").symlink_to(outside)
        names = [("../out.tif", 1), ("sub/../../out.tif", 1), ("link.tif", 1), (outside, 0), (outside, 1)]
        names += [("http://x/a.tif", 0), ("/vsicurl/http://x/a.tif", 0), ("/etc/passwd", 0), ("s3://b/a.tif", 0)]
        for name, relative in names:
            for chunks in (None, 2):
                with pytest.raises(ValueError, match="outside the VRT directory"):
                    open_geotiff(of(folder, band(source(name, relative=relative))), chunks=chunks)

    def test_a_folder_whose_name_begins_alike_is_another(self, folder):
        other = folder.parent / "mm"
        other.mkdir()
        tif(other / "a.tif", A)
        with pytest.raises(ValueError, match="outside the VRT directory"):
            open_geotiff(of(folder, band(source(str(other / "a.tif"), relative=0))))

    def test_roots_are_for_absolute_names(self, folder, outside, monkeypatch):
        monkeypatch.setenv("SWATH_VRT_ALLOWED_ROOTS", os.pathsep.join(["/nowhere", str(folder.parent)]))
        open_geotiff(of(folder, band(source(outside, relative=0))))
        for name, relative in [("../out.tif", 1), (outside, 1), ("/etc/passwd", 0)]:
            with pytest.raises(ValueError, match="SWATH_VRT_ALLOWED_ROOTS"):
                open_geotiff(of(folder, band(source(name, relative=relative))))

    def test_a_link_that_changes_later_leads_nowhere_else(self, folder, outside):
        """The path that was checked is the path that is opened."""
        link = folder / "link.tif"
        link.symlink_to(folder / "a.tif")
        lazy = open_geotiff(of(folder, band(source("link.tif")), size=(4, 4)), chunks=4)
        link.unlink()
        link.symlink_to(outside)
        os.remove(outside)
        np.testing.assert_array_equal(lazy.values, A)

    def test_many_sources_of_few_folders_ask_for_few_folders(self, folder, monkeypatch):
        resolved = []
        plain = os.path.realpath
        monkeypatch.setattr(document.os.path, "realpath", lambda path: resolved.append(path) or plain(path))
        of(folder, band(BOTH * 500))
        read_vrt(str(folder / "m.vrt"))
        assert len(resolved) <= 3


@pytest.mark.parametrize("reading", [{}, {"chunks": 2}, {"allow_rotated": True}], ids=str)
def test_the_transform_of_a_source_is_ignored(folder, reading):
    with rasterio.open(folder / "a.tif", "r+") as file:
        file.transform = rasterio.Affine(1, 0.3, 100, 0.3, -1, 200)
    path = of(folder, band(BOTH))
    check_pixels(path, **reading)
    assert open_geotiff(path, **reading).attrs["transform"] == (1.0, 0.0, 100.0, 0.0, -1.0, 200.0)


class TestMissingSources:
    SOURCES = source("a.tif") + source("gone.tif", dst=(4, 0, 4, 4))

    def test_raise(self, folder):
        with pytest.raises(FileNotFoundError, match=r"gone\.tif"):
            open_geotiff(of(folder, band(self.SOURCES)))

    def test_chunks_raise_before_anything_is_computed(self, folder):
        with pytest.raises(FileNotFoundError, match="1 missing source"):
            open_geotiff(of(folder, band(self.SOURCES)), chunks=4)

    def test_warn_leaves_a_hole(self, folder):
        with pytest.warns(GeoTIFFFallbackWarning, match="hole"):
            read = open_geotiff(of(folder, band(self.SOURCES, nodata=9)), missing_sources="warn")
        assert (read.values[:, 4:] == 9).all() and (read.values[:, :4] == A).all()
        (hole,) = read.attrs["vrt_holes"]
        assert hole["source"] == str(folder / "gone.tif")
        assert (hole["band"], hole["dst_rect"]) == (1, (4, 0, 4, 4))
        assert hole["error"].startswith("FileNotFoundError: ")

    def test_broken_files_are_holes_too(self, folder):
        (folder / "gone.tif").write_bytes(b"II*\0garbage")
        path = of(folder, band(self.SOURCES))
        with pytest.raises(ValueError, match=r"gone\.tif"):
            open_geotiff(path)
        with pytest.warns(GeoTIFFFallbackWarning, match="hole"):
            assert len(open_geotiff(path, missing_sources="warn").attrs["vrt_holes"]) == 1

    def test_chunks_warn(self, folder):
        with pytest.warns(GeoTIFFFallbackWarning, match="Chunked"):
            read = open_geotiff(of(folder, band(self.SOURCES)), missing_sources="warn", chunks=4)
        assert read.attrs["vrt_holes"][0]["error"] == "FileNotFoundError: source file not found"
        with pytest.warns(GeoTIFFFallbackWarning, match="hole"):
            assert (read.values[:, 4:] == 0).all()

    def test_strict_raises_in_spite_of_warn(self, folder, monkeypatch):
        monkeypatch.setenv("SWATH_STRICT", "1")
        path = of(folder, band(self.SOURCES))
        with pytest.raises(FileNotFoundError):
            open_geotiff(path, missing_sources="warn")
        # Also for chunks, when they are opened: not hours later, when one of them is computed.
        with pytest.raises(FileNotFoundError, match="1 missing source"):
            open_geotiff(path, missing_sources="warn", chunks=4)
        with pytest.warns(GeoTIFFFallbackWarning, match="Chunked"):
            open_geotiff(path, missing_sources="warn", chunks=4, window=(0, 0, 4, 4))

    @pytest.mark.filterwarnings("ignore::swath.GeoTIFFFallbackWarning")
    @pytest.mark.parametrize("content", [None, b"II*\0garbage"], ids=["missing", "broken"])
    @pytest.mark.parametrize("reading", [{}, {"chunks": 3}, {"masked": True}, {"dtype": "f8"}], ids=str)
    @pytest.mark.parametrize("dtype", ["Float32", "Float64"])
    def test_hole_of_floats_without_nodata_is_nan_and_not_a_measurement(self, folder, content, reading, dtype):
        if content is not None:
            (folder / "gone.tif").write_bytes(content)
        # Four columns of a source, four of the hole, two that no source covers.
        path = of(folder, band(self.SOURCES, dtype=dtype), size=(4, 10))
        read = open_geotiff(path, missing_sources="warn", **reading).values
        np.testing.assert_array_equal(read[:, :4], A)
        assert np.isnan(read[:, 4:8]).all()
        assert (read[:, 8:] == 0).all()
        part = open_geotiff(path, missing_sources="warn", window=(1, 2, 3, 10), **reading).values
        np.testing.assert_array_equal(part, read[1:3, 2:10])

    @pytest.mark.filterwarnings("ignore::swath.GeoTIFFFallbackWarning")
    @pytest.mark.parametrize("nodata, expected", [(-9, -9), (0, 0), ("nan", np.nan)])
    def test_hole_of_a_band_with_nodata_keeps_it(self, folder, nodata, expected):
        path = of(folder, band(self.SOURCES, dtype="Float32", nodata=nodata))
        for reading in ({}, {"chunks": 3}):
            read = open_geotiff(path, missing_sources="warn", **reading).values
            np.testing.assert_array_equal(read[:, 4:], np.full((4, 4), expected, "f4"))

    @pytest.mark.filterwarnings("ignore::swath.GeoTIFFFallbackWarning")
    @pytest.mark.parametrize("first", [True, False])
    def test_other_sources_show_in_a_hole(self, folder, first):
        gone, below = source("gone.tif", dst=(2, 0, 4, 4)), source("a.tif", **COMPLEX, inside="<NODATA>3</NODATA>")
        path = of(folder, band(gone + below if first else below + gone, dtype="Float32"))
        read = open_geotiff(path, missing_sources="warn").values
        expected = np.zeros((4, 8), "f4")
        expected[:, :4] = A
        expected[:, 4:6] = np.nan  # No other source covers it.
        expected[0, 2] = np.nan  # The other source has no data there.
        np.testing.assert_array_equal(read, expected)

    @pytest.mark.filterwarnings("ignore::swath.GeoTIFFFallbackWarning")
    def test_each_band_has_its_own_holes(self, folder):
        path = of(folder, band(BOTH, dtype="Float32"), band(self.SOURCES, dtype="Float32"))
        read = open_geotiff(path, missing_sources="warn").values
        np.testing.assert_array_equal(read[:, :, 0], np.hstack([A, A + 50]))
        np.testing.assert_array_equal(read[:, :, 1], np.hstack([A, np.full((4, 4), np.nan)]))

    def test_missing_source_outside_the_window_is_no_error(self, folder):
        path = of(folder, band(self.SOURCES), band(source("a.tif")))
        for reading in ({"window": (0, 0, 4, 4)}, {"band": 1}, {"band": 1, "chunks": 2}):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert "vrt_holes" not in open_geotiff(path, **reading).attrs


class TestLimits:
    def test_the_whole_of_an_eager_read_counts(self, folder):
        path = of(folder, band(BOTH))
        open_geotiff(path, max_pixels=32)
        with pytest.raises(PixelSafetyLimitError):
            open_geotiff(path, max_pixels=31)
        open_geotiff(path, max_pixels=8, window=(0, 0, 2, 4))

    def test_each_chunk_counts_not_the_whole(self, folder):
        path = of(folder, band(BOTH))
        assert open_geotiff(path, max_pixels=9, chunks=3).values.shape == (4, 8)
        lazy = open_geotiff(path, max_pixels=8, chunks=3)
        with pytest.raises(PixelSafetyLimitError):
            lazy.compute()

    def test_a_mosaic_above_the_limit_is_opened_lazily(self, folder):
        path = of(folder, band(BOTH), size=(100_000, 100_000))
        with pytest.raises(PixelSafetyLimitError):
            open_geotiff(path)
        lazy = open_geotiff(path, chunks=5000)
        np.testing.assert_array_equal(lazy[:4, :4].values, A)

    @pytest.mark.parametrize(
        "reading, decoded",
        [
            ({}, 91 * 91),  # From the centre of the first cell of 10 x 10 pixels to that of the last.
            ({"window": (4, 4, 5, 5)}, 1),
            ({"window": (0, 0, 2, 10)}, 11 * 91),
            ({"chunks": 5}, 41 * 41),
        ],
        ids=str,
    )
    def test_pixels_decoded_for_downsampling_count(self, folder, reference, reading, decoded):
        tif(folder / "big.tif", np.arange(10_000, dtype="u2").reshape(100, 100))
        path = of(folder, band(source("big.tif", (0, 0, 100, 100), (0, 0, 10, 10)), dtype="UInt16"), size=(10, 10))
        for module in (swath, reference):
            module.open_geotiff(path, max_pixels=decoded, **reading).compute()
            with pytest.raises(ValueError, match="safety limit") as caught:
                module.open_geotiff(path, max_pixels=decoded - 1, **reading).compute()
            assert type(caught.value).__name__ == "PixelSafetyLimitError"

    def test_only_what_is_held_at_once_counts(self, folder, monkeypatch):
        tif(folder / "big.tif", np.arange(10_000, dtype="u2").reshape(100, 100))
        path = of(folder, band(source("big.tif", (0, 0, 100, 100), (0, 0, 10, 10)), dtype="UInt16"), size=(10, 10))
        whole = open_geotiff(path).values
        monkeypatch.setattr(canvas, "AT_ONCE", 2000)  # Two rows of the mosaic, which cover eleven of the source.
        np.testing.assert_array_equal(open_geotiff(path, max_pixels=11 * 91).values, whole)
        with pytest.raises(PixelSafetyLimitError, match="11 x 91 x 1 = 1,001 pixels to be resampled"):
            open_geotiff(path, max_pixels=11 * 91 - 1)

    def test_only_bands_that_are_held_count(self, folder):
        tif(folder / "big.tif", np.zeros((3, 100, 100), "u1"))
        path = of(folder, band(source("big.tif", (0, 0, 100, 100), (0, 0, 10, 10), band=2)), size=(10, 10))
        open_geotiff(path, max_pixels=91 * 91)


class TestChunks:
    def test_same_pixels(self, folder):
        path = of(folder, *(band(BOTH, nodata=5) for _ in range(3)))
        whole = open_geotiff(path, masked=True)
        for chunks in (1, 3, (2, 5), "auto", {"y": 2}):
            lazy = open_geotiff(path, masked=True, chunks=chunks)
            assert lazy.dtype == whole.dtype
            np.testing.assert_array_equal(lazy.values, whole.values)
        np.testing.assert_array_equal(lazy[1, ::-2, 1].values, whole.values[1, ::-2, 1])

    def test_the_mosaic_is_in_the_graph_once(self, folder):
        sources = "".join(source("a.tif", dst=(x, 0, 4, 4)) for x in range(0, 4000, 4))
        lazy = open_geotiff(of(folder, band(sources), size=(4, 4000)), chunks=(4, 10))
        tasks = [len(pickle.dumps(task)) for task in dict(lazy.__dask_graph__()).values()]
        assert 400 <= len(tasks) <= 402
        assert sorted(tasks)[-2] < 2000 < sorted(tasks)[-1]

    def test_dask_names_differ_for_different_reads(self, folder):
        """dask treats arrays with the same name as the same array."""
        path = of(folder, band(BOTH, nodata=5))
        readings = [{}, {"masked": True}, {"window": (0, 0, 4, 4)}, {"chunks": 2}]
        names = [open_geotiff(path, **{"chunks": 4} | reading).data.name for reading in readings]
        assert len(set(names)) == len(readings)
        assert open_geotiff(path, chunks=4, threads=3).data.name == names[0]
        tif(folder / "b.tif", A)
        os.utime(folder / "b.tif", (1, 1))
        assert open_geotiff(path, chunks=4).data.name != names[0]

    def test_other_processes(self, folder):
        lazy = open_geotiff(of(folder, band(BOTH)), chunks=4)
        with dask.config.set(scheduler="processes", num_workers=2):
            np.testing.assert_array_equal(lazy.values, np.hstack([A, A + 50]))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(lazy)).values, np.hstack([A, A + 50]))

    def test_xarray_engine(self, folder):
        import xarray as xr

        opened = xr.open_dataset(of(folder, band(BOTH)), engine=swath.SwathBackendEntrypoint)
        np.testing.assert_array_equal(next(iter(opened.data_vars.values())).values, np.hstack([A, A + 50]))


class TestGpu:
    """The CPU assembles the mosaic, then it is uploaded. Other tests cover the upload."""

    class OnDevice(np.ndarray):
        """An array in other memory."""

    @pytest.fixture
    def device(self, monkeypatch):
        events = []
        monkeypatch.setattr("swath.mosaic.open.require_gpu", lambda: events.append("required"))
        uploaded = lambda array: events.append("uploaded") or array.view(TestGpu.OnDevice)  # noqa: E731
        monkeypatch.setattr("swath.mosaic.open.to_device", uploaded)
        return events

    def test_eager(self, folder, device):
        read = open_geotiff(of(folder, band(BOTH, nodata=5)), gpu=True, masked=True)
        assert isinstance(read.data, TestGpu.OnDevice) and read.dtype == np.float64
        assert device == ["required", "uploaded"]

    def test_chunks(self, folder, device):
        read = open_geotiff(of(folder, band(BOTH)), gpu=True, chunks=4)
        device.clear()
        assert isinstance(read.data._meta, TestGpu.OnDevice)
        read.data.compute(scheduler="synchronous")
        assert device == ["uploaded"] * 2

    def test_without_a_device_no_file_is_touched(self, folder, monkeypatch):
        def refuse():
            raise ImportError("no cupy")

        monkeypatch.setattr("swath.mosaic.open.require_gpu", refuse)
        with pytest.raises(ImportError, match="no cupy"):
            open_geotiff(str(folder / "nowhere.vrt"), gpu=True)


class TestAgainstTheReference:
    """Where GDAL and the reference agree, Swath agrees too: attrs, coordinates, errors."""

    CASES = {
        "plain": (dict(), dict()),
        "nodata": (dict(nodata=5), dict()),
        "masked": (dict(nodata=5), dict(masked=True)),
        "cast": (dict(nodata=5), dict(dtype="float32")),
        "window": (dict(nodata=5), dict(window=(1, 2, 3, 7))),
        "chunks": (dict(nodata=5), dict(chunks=3, masked=True)),
        "bbox": (dict(), dict(bbox=(101.2, 197, 106.5, 199.5))),
        "window outside": (dict(), dict(window=(0, 0, 9, 9))),
        "band": (dict(), dict(band=3)),
        "unpack": (dict(), dict(unpack=True)),
        "coordinates": (dict(), dict(parse_coordinates=False)),
        "level": (dict(), dict(overview_level=1)),
        "cloud": (dict(), dict(max_cloud_bytes=5)),
        "missing_sources": (dict(), dict(missing_sources="x")),
        "band_nodata": (dict(), dict(band_nodata="x")),
        "pixels": (dict(), dict(max_pixels=3)),
        "float to int": (dict(dtype="Float32"), dict(dtype="int16")),
        "complex": (dict(dtype="CFloat32"), dict()),
        "derived": (dict(attributes=' subClass="VRTDerivedRasterBand"'), dict()),
        "stable": (dict(), dict(stable_only=True)),
    }

    @pytest.mark.parametrize("case", CASES)
    def test_same(self, folder, reference, case):
        about, reading = self.CASES[case]
        path = of(folder, band(BOTH, **about))
        ours, theirs = (outcome(read, path, reading) for read in (open_geotiff, reference.open_geotiff))
        assert ours == theirs


def outcome(read, path, reading):
    try:
        array = read(path, **reading)
    except Exception as error:
        return type(error).__name__
    attrs = public(as_the_reference_says_it(array))
    coords = {name: (values.values.tolist(), values.dtype) for name, values in array.coords.items()}
    return str(array.values), array.dtype, array.dims, attrs, coords, array.name
