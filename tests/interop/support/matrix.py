"""All pixel cases that the installed peers can write, and the number of cases that they cannot."""

import tempfile
import warnings
from functools import cache
from pathlib import Path

import imagecodecs
import numpy as np
import rasterio
import tifffile

import gdal_cases
import raw_cases
import tifffile_cases
from case import Case
from gdal_cases import write_gdal


def can_write(codec: str) -> bool:
    """Whether rasterio's GDAL can write a codec."""
    bilevel = codec.startswith("ccitt")
    array = np.zeros((3 if codec in ("webp", "jpeg") else 1, 16, 16), np.uint8)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            write_gdal(Path(folder) / "probe.tif", array, compress=codec, **({"nbits": 1} if bilevel else {}))
        except rasterio.errors.RasterioError:
            return False
    return True


@cache
def matrix() -> tuple[list[Case], dict[str, int]]:
    """The cases that can be made here, and per missing codec the number of cases that cannot."""
    wanted = [*gdal_cases.all_cases(), *tifffile_cases.all_cases(), *raw_cases.all_cases()]
    ids = [case.id for case in wanted]
    assert len(set(ids)) == len(ids), f"two cases share an id: {sorted({i for i in ids if ids.count(i) > 1})}"
    writable = {codec: can_write(codec) for codec in {case.needs for case in wanted} - {""}}
    cases = [case for case in wanted if writable.get(case.needs, True)]
    missing: dict[str, int] = {}
    for case in wanted:
        if not writable.get(case.needs, True):
            missing[case.needs] = missing.get(case.needs, 0) + 1
    return cases, missing


def header() -> list[str]:
    """The versions used in the comparison, for the head of the test report."""
    cases, missing = matrix()
    lines = [
        f"peers: rasterio {rasterio.__version__} (GDAL {rasterio.__gdal_version__}), "
        f"tifffile {tifffile.__version__}, imagecodecs {imagecodecs.__version__}, numpy {np.__version__}",
        f"pixel cases: {len(cases)}",
    ]
    for codec, count in sorted(missing.items()):
        lines.append(f"LEFT OUT: {count} cases that need GDAL to write {codec}, which this rasterio cannot")
    tif_only = sum(case.oracle == "tifffile" for case in cases)
    if tif_only:
        lines.append(f"{tif_only} cases (JPEG 2000, JPEG XL, CCITT RLE) are compared with tifffile alone")
    return lines
