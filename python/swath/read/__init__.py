"""`open_geotiff` and `read_windows`: from a source to pixels, coordinates and attributes.

A read goes through these modules in this order:

* `open_geotiff`: the function; `request` checks its arguments
* `source`: a path, URL, bytes or file object becomes an opened file; `header` keeps what its headers say
* `georef`, `crs`, `nodata`, `attrs`: coordinates, coordinate reference system, missing values, attributes
* `sidecars`: category names and colours in the `.aux.xml` file beside an image
* `prepare`, `plan`: everything that is decided before the first pixel is read
* `pixels`: the pixels of a plan, read when they are indexed
* `windows`: many small windows of many files into one array
"""
