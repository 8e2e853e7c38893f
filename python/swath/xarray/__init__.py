"""What connects Swath with xarray and dask.

* `engine`, `accessor`: `xarray.open_dataset(engine="swath")`, and `.swath` on DataArrays and Datasets
* `dask`: `chunks=`
* `under`, `grid`: the part of a file that lies under an array
* `coregister`, `resample`: its pixels on the grid of the array
* `dataarray`, `lazy_array`, `spatial_ref`: how DataArrays, lazy variables and `spatial_ref` coordinates are made
* `state`, `structured`: what a read records in `encoding` for a later write; lists and dicts in `attrs`
"""
