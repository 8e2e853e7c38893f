"""One module per contestant. A module defines `version()` and one function per operation that it takes part in:

full_read(job)         open the file, return all pixels
windows(job)           open the file once, yield the pixels of each window
windows_reopened(job)  the same, but open the file for each window
open_window(job)       for each of many files: open it, yield one small window
headers(job)           for each of many files: open it, look at the metadata, yield None
small_files(job)       for each of many small files: open it, yield all pixels
first_open(job)        a new process: import the package, read one small file
write(job)             write job.array as a tiled file
cog(job)               write job.array as a COG with overviews
convert_cog(job)       write the file job.path as a COG with overviews
stream_cog(job)        write job.dask_array() as a COG with overviews

`prepare_OPERATION(job)`, if it exists, runs first and is not timed.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Contestant:
    """A program that takes part."""

    name: str
    module: str
    pin: bool = False
    """Whether one thread means one core, because the package has no option for the number of threads."""
    role: str = "peer"
    """peer, swath or limit"""
    rust: bool = False
    """Whether the program is bench/rust-peers instead of a module of this folder."""


CONTESTANTS = [
    Contestant("Swath", "swath_package", role="swath"),
    Contestant("Swath read_windows", "swath_windows", role="swath"),
    Contestant("Swath command", "swath_command", role="swath"),
    Contestant("GTiff", "gtiff"),
    Contestant("LIBERTIFF", "libertiff"),
    Contestant("tifffile", "by_tifffile"),
    Contestant("async-geotiff", "by_async_geotiff", pin=True),
    Contestant("xrspatial", "by_xrspatial", pin=True),
    Contestant("tiff crate", "tiff", rust=True),
    Contestant("geotiff-rust", "geotiff-rust", rust=True),
    Contestant("rioxarray", "by_rioxarray"),
    Contestant("rio-cogeo", "by_rio_cogeo"),
    Contestant("odc-geo", "by_odc_geo"),
    Contestant("limit", "limit", role="limit"),
]
