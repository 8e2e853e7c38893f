"""`open_rasterio`: arrays with the dimensions, attributes and encoding that `rioxarray.open_rasterio` gives.

* `open_rasterio`: the function
* `layout`: (band, y, x) arrays, or Datasets with one variable per band
* `attrs`, `grid_mapping`: attributes and encoding, the `spatial_ref` coordinate
* `raster_info`, `gdal_tags`, `netcdf_tags`: what rasterio reports of a file, tags in the form that GDAL gives them
* `rotated`: two-dimensional coordinates of rotated images

This package does not import rioxarray.
"""
