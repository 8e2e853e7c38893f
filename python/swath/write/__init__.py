"""`to_geotiff`: from a DataArray or Dataset to the options and pixels that the engine writes.

* `to_geotiff`: the function
* `raster`, `dataset`: which axis is which; a Dataset as one array of bands
* `placement`, `geo_keys`: transform and coordinate reference system
* `bands`, `metadata`, `gdal_metadata`: band names, colours, tags, the items of GDAL_METADATA
* `storage`, `pack`, `mask`: stored type, scale and offset, nodata, validity mask
* `layout`: tiles, codec, predictor, overviews
* `stream`, `progress`: how the engine receives rows, and the progress bar
* `sidecars`, `ramps`: `.aux.xml` and `.qml` files beside the image
"""
