"""GPU support: `gpu=True`, CuPy, and other libraries through DLPack.

Pixels that were read stay in the memory of the device; CuPy takes their address without a copy. Pixels to write are
split into tiles on the device. No pixel goes through host memory unless the device fails, and then a warning is
issued.

* `read`, `write`: `open_geotiff(gpu=True)`, `to_geotiff(gpu=True)`
* `read_device`: the function; it needs no CuPy
* `allocator`: memory of CuPy's pool, of RMM or of another library
* `several`: reads and writes that several GPUs share
* `arrays`: CuPy, the choice of a device, copies between host and device
* `fallback`: warnings and reports when the CPU does the work of a GPU
"""
