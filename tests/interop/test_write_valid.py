"""Every COG that Swath writes passes GDAL's validator (full check), rio-cogeo's strict validator and `swath
validate`.
"""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin
from rio_cogeo.cogeo import cog_validate

from binary import Swath
from gdal_validator import GDAL_PYTHON, JUDGE
from pixels import photo
from readers import gdal_lacks
from write_cases import conversions

FLAGS = {
    "plain": [],
    "jpeg": ["--compression", "jpeg"],
    "webp": ["--compression", "webp", "--quality", 80],
    "lzw": ["--compression", "lzw", "--skip-empty"],
    "uncompressed": ["--compression", "none"],
    "lerc": ["--compression", "lerc_zstd", "--max-z-error", 1],
    "band interleaved": ["--interleave", "band"],
    "bigtiff": ["--bigtiff", "yes"],
    "flat tiles": ["--tile", "256x128"],
    "odd factors": ["--overviews", "3,9"],
    "cubic": ["--resampling", "cubic", "--statistics"],
    "deflate in little memory": ["--compression", "deflate", "--memory", "1", "--threads", 3],
}
# GDAL's script uses the GDAL of the system, which may be too old for these sample types.
NEW_TYPES = {"int8", "float16"}


def write_picture(path: Path, mask: bool) -> None:
    profile = {"driver": "GTiff", "count": 3, "height": 1300, "width": 1500, "dtype": "uint8", "crs": "EPSG:32633"}
    with (
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(path, "w", **profile, transform=from_origin(5e5, 5e6, 10, 10)) as out,
    ):
        out.write(photo("valid", 3, 1300, 1500))
        if mask:
            rows, cols = np.mgrid[:1300, :1500]
            out.write_mask(((rows + cols) % 700 > 100).astype("uint8") * 255)


@pytest.fixture(scope="module")
def written(swath: Swath, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """COGs of all kinds: large ones with and without a mask, and the random conversions."""
    folder = tmp_path_factory.mktemp("valid")
    files: dict[str, Path] = {}
    for mask in (False, True):
        source = folder / f"picture-{mask}.tif"
        write_picture(source, mask)
        for name, flags in FLAGS.items():
            files[f"{name}{' with mask' * mask}"] = target = folder / f"{len(files)}.tif"
            swath.succeed("convert", source, target, "--cog", *flags)
    source = folder / "source.tif"
    for made in conversions():
        if made.layout == "cog" and not made.refusal and made.dtype not in NEW_TYPES and not gdal_lacks(made.codec):
            made.write_source(source)
            files[made.id] = target = folder / f"{len(files)}.tif"
            swath.succeed("convert", source, target, *made.arguments())
    return files


def test_gdal_validator_finds_no_error(written: dict[str, Path]) -> None:
    command = [GDAL_PYTHON, "-c", JUDGE]
    paths = json.dumps([str(path) for path in written.values()])
    environment = {"PATH": "/usr/bin:/bin"}
    run = subprocess.run(command, input=paths, capture_output=True, text=True, timeout=300, env=environment)
    assert run.returncode == 0, run.stderr
    verdicts = json.loads(run.stdout)
    assert len(verdicts) == len(written) > 50
    wrong = {name: verdicts[str(path)] for name, path in written.items() if verdicts[str(path)]}
    assert not wrong


def test_strict_rio_cogeo_finds_no_error(written: dict[str, Path]) -> None:
    wrong = {}
    for name, path in written.items():
        valid, errors, warnings = cog_validate(str(path), strict=True, quiet=True)
        with rasterio.open(path) as dataset:
            # rio-cogeo computes overview factors from widths only, so it finds none for an image of one column.
            thin = dataset.width < 2 * max(dataset.overviews(1), default=0) or 1 in dataset.overviews(1)
        if not valid and not (thin and all("Decimation" in error for error in errors)):
            wrong[name] = errors, warnings
    assert not wrong


def test_swath_validate_finds_no_error(written: dict[str, Path], swath: Swath) -> None:
    for name, path in written.items():
        run = swath.run("validate", path)
        assert run.code == 0, f"{name}: {run.stdout}"
