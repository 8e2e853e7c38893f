"""Pixels on a GPU: `gpu=True`, CuPy, and other libraries by DLPack.

What is read stays in the memory of the device: CuPy takes it by its address, without a copy. What is written is cut
into tiles where it lies. No pixel goes through the host unless the device has failed, and then a warning says so.

* `read`, `write`: `open_geotiff(gpu=True)`, `to_geotiff(gpu=True)`
* `read_device`: the function; it needs no CuPy
* `arrays`: CuPy, the choice of a device, copies between host and device
* `fallback`: what is warned about and reported when the CPU does the work of a GPU
"""
