"""GDAL's script that validates COGs, and the Python that has it installed."""

import os

GDAL_PYTHON = os.environ.get("GDAL_PYTHON", "/usr/bin/python3")
GDAL_MODULE = "osgeo_utils.samples.validate_cloud_optimized_geotiff"

# Runs GDAL's script on many files in one process, because starting it takes longer than one validation.
JUDGE = f"""
import json, sys
from {GDAL_MODULE} import validate
verdicts = {{}}
for path in json.load(sys.stdin):
    try:
        verdicts[path] = validate(path, full_check=True)[1]
    except Exception as error:
        verdicts[path] = [repr(error)]
json.dump(verdicts, sys.stdout)
"""
