"""What connects Swath with xarray and dask.

* `engine`, `accessor`: `xarray.open_dataset(engine="swath")`, and `.swath` on DataArrays and Datasets
* `dask`: `chunks=`
* `under`, `coregister`, `resample`: the part of a file that lies under an array, on the array's grid
* `dataarray`, `spatial_ref`: how DataArrays and their `spatial_ref` coordinate are made
* `state`, `structured`: what a read records in `encoding` for a later write; lists and dicts in `attrs`
"""
