"""Mosaics: `.vrt` files that place many GeoTIFF files on one grid.

* `open`: `open_geotiff` of a `.vrt` file
* `document`: the checked content of a `.vrt` file
* `source`, `canvas`: a mosaic as a file from which windows are read; the placement of the pixels of its sources
* `write`: `to_geotiff` to a `.vrt` file and a folder of tiles
"""
