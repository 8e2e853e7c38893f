"""Mosaics: `.vrt` files that place many GeoTIFF files on one grid.

* `open`: `open_geotiff` of a `.vrt` file
* `document`: what a `.vrt` file says, checked
* `source`, `canvas`: a mosaic as a file to read windows from; how the pixels of its members are placed
* `write`: `to_geotiff` to a `.vrt` file and a folder of tiles
"""
