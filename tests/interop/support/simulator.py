"""The simulator that replaces NVIDIA's driver and libraries."""

import os
from pathlib import Path

import binary

DRIVER = ["libcuda.so", "libcuda.so.1"]
# The file name of each NVIDIA library, the environment variable that holds its path, and Swath's name for it.
LIBRARIES = {
    "libnvcomp.so.6": ("SWATH_NVCOMP_PATH", "nvcomp"),
    "libnvjpeg2k.so.0": ("SWATH_NVJPEG2K_PATH", "nvjpeg2000"),
    "libnvjpeg.so.12": ("SWATH_NVJPEG_PATH", "nvjpeg"),
    "libcufile.so.0": ("SWATH_CUFILE_PATH", "cufile"),
}


def environment(folder: Path, *libraries: str, **variables: str) -> dict[str, str]:
    """Environment of a process that finds the simulator as its driver and as the named libraries, and no other
    library.
    """
    simulator = binary.PATH.with_name("libswath_sim.so")
    assert simulator.is_file(), f"no simulator at {simulator}: build swath-sim beside swath"
    for name in [*DRIVER, *libraries]:
        (folder / name).symlink_to(simulator)
    others = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    hidden = {variable: "none" for name, (variable, _) in LIBRARIES.items() if name not in libraries}
    # Tests read small images, which a real GPU would leave to the CPU.
    return {**others, "LD_LIBRARY_PATH": str(folder), "SWATH_PLACEMENT": "device", **hidden, **variables}
