"""Tests on a simulated GPU, in a process that finds Swath's simulator as NVIDIA's driver and a substitute for CuPy.

The loader searches the driver's library once, when a process starts. Therefore all tests of a module that are marked
`@on_gpu` run together in one other process when the first of them is run, and each passes here if it passed there.
`LIBRARIES` of such a module names the NVIDIA libraries that are simulated in addition to the driver.
"""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
CHILD = "SWATH_SIMULATED_GPU"
NVIDIA = {
    "libnvcomp.so.6": "SWATH_NVCOMP_PATH",
    "libnvjpeg2k.so.0": "SWATH_NVJPEG2K_PATH",
    "libnvjpeg.so.12": "SWATH_NVJPEG_PATH",
    "libcufile.so.0": "SWATH_CUFILE_PATH",
}

Test = TypeVar("Test", bound=Callable[..., None])


def simulator() -> Path:
    """The library that replaces NVIDIA's driver."""
    built = Path(os.environ.get("SWATH_BIN", REPOSITORY / "target" / "release" / "swath"))
    library = Path(os.environ.get("SWATH_SIM", built.with_name("libswath_sim.so"))).resolve()
    assert library.is_file(), (
        f"no simulator of a GPU at {library}: build swath-sim, or set SWATH_SIM to libswath_sim.so"
    )
    return library


def environment(folder: Path, *libraries: str) -> dict[str, str]:
    """Environment of a process that finds the simulator as the driver and these libraries, and the substitute for
    CuPy.
    """
    for name in ("libcuda.so", "libcuda.so.1", *libraries):
        (folder / name).symlink_to(simulator())
    others = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    path = os.pathsep.join([str(HERE / "standin"), str(HERE), *filter(None, [others.get("PYTHONPATH")])])
    hidden = {variable: "none" for name, variable in NVIDIA.items() if name not in libraries}
    # Tests read small images, which a real GPU would leave to the CPU.
    placement = {"SWATH_PLACEMENT": "device"}
    return {**others, **hidden, **placement, "LD_LIBRARY_PATH": str(folder), "PYTHONPATH": path, CHILD: "1"}


@functools.cache
def _outcomes(module: str, libraries: tuple[str, ...]) -> dict[str, str | None]:
    """The result of each test of a module in that process: None if it passed, else its output."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", module]
        done = subprocess.run(
            command,
            env=environment(Path(folder), *libraries),
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert report.is_file(), f"the tests of {module} did not run on the simulator:\n{done.stdout}\n{done.stderr}"
        cases = ET.parse(report).iter("testcase")
        return {case.get("name", ""): _complaint(case, done) for case in cases}


def _complaint(case: ET.Element, done: subprocess.CompletedProcess[str]) -> str | None:
    for kind in ("failure", "error", "skipped"):
        for element in case.iter(kind):
            return f"{kind} on the simulator:\n{element.get('message')}\n{element.text}\n{done.stderr[-2000:]}"
    return None


def on_gpu(test: Test) -> Test:
    """Runs a test with a simulated GPU."""

    @functools.wraps(test)
    def elsewhere(*args: Any, **keywords: Any) -> None:
        if os.environ.get(CHILD):
            reset()
            with no_memory_left():
                test(*args, **keywords)
            if "cupy" in sys.modules:
                sys.modules["cupy"].release()
            return
        node = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        libraries = test.__globals__.get("LIBRARIES", ())
        outcomes = _outcomes(str(Path(test.__code__.co_filename).resolve()), libraries)
        name = node.split("::", 1)[1]
        assert name in outcomes, f"{name} did not run on the simulator, only {sorted(outcomes)}"
        complaint = outcomes[name]
        assert complaint is None, complaint

    return elsewhere  # type: ignore[return-value]


def _driver() -> ctypes.CDLL:
    driver = ctypes.CDLL("libcuda.so.1")
    driver.swath_sim_device_bytes.restype = ctypes.c_uint64
    driver.swath_sim_events.restype = ctypes.c_size_t
    driver.swath_sim_events.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return driver


def reset() -> None:
    """Resets the counters of faults and the recorded calls of the driver and of the substitute for CuPy."""
    _driver().swath_sim_reset()
    if (cupy := sys.modules.get("cupy")) is not None:
        cupy.log.clear()
        cupy.computed.clear()


def device_bytes() -> int:
    """Bytes of device memory that are allocated, by any owner."""
    return int(_driver().swath_sim_device_bytes())


def events() -> list[str]:
    """The calls of the driver since `reset`."""
    driver = _driver()
    buffer = ctypes.create_string_buffer(driver.swath_sim_events(None, 0) + 4096)
    length = driver.swath_sim_events(buffer, len(buffer))
    return buffer.raw[:length].decode().splitlines()


def moved(direction: str) -> int:
    """Bytes that were copied: `upload`, `download` or `copy`."""
    return sum(int(event.split()[1]) for event in events() if event.split()[0] == direction)


@contextmanager
def simulator_variables(**variables: str) -> Iterator[None]:
    """Makes the simulator fail or behave differently: sets SWATH_SIM_ plus the name."""
    named = {f"SWATH_SIM_{name}": value for name, value in variables.items()}
    os.environ.update(named)
    reset()
    try:
        yield
    finally:
        for name in named:
            os.environ.pop(name, None)
        reset()


@contextmanager
def no_memory_left() -> Iterator[None]:
    """Checks that a test has freed all device memory."""
    import gc

    from swath import _swath

    yield
    gc.collect()
    _swath.trim_devices()
    assert device_bytes() == 0, f"{device_bytes()} bytes of device memory were not given back"
