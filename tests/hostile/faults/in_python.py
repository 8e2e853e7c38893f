"""Faults in the Python package: one process arms a fault, calls Swath and compares, again and again.

Run by `campaign.py` with the library of faults preloaded. Prints one JSON object for each fault of each scenario.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray

import swath

from .outcome import State, Tally, difference, fresh, state_of
from .plan import FAULTS, Fault, numbers

SECONDS = 60
FAILURES = (OSError, MemoryError, RuntimeError, EOFError)
"""The errors that a fault may raise: of the system, of memory, of threads. Swath's errors are subclasses."""

library = ctypes.CDLL(None)
library.fault_arm.argtypes = (ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_int)
library.fault_calls.restype = library.fault_disarm.restype = ctypes.c_uint64


@dataclass(frozen=True)
class Scenario:
    """One use of the package. `work` gets the folder of the target and returns what is compared."""

    name: str
    work: Callable[[Path], object]
    has_old: bool = False


def pixels(seed: int, side: int = 600) -> xarray.DataArray:
    """An image with class names, so that a write makes a sidecar."""
    ramp = np.add.outer(np.arange(side), np.arange(side)) + np.random.default_rng(seed).integers(0, 16, (side, side))
    attrs = {"category_names": ["none", f"class {seed}"]}
    return xarray.DataArray(ramp.astype("uint16"), dims=("y", "x"), attrs=attrs)


def ramped() -> xarray.DataArray:
    return xarray.DataArray(np.linspace(0, 1, 90_000, dtype="float32").reshape(300, 300), dims=("y", "x"))


def scenarios(source: str, url: str) -> tuple[Scenario, ...]:
    """The scenarios that read `source`, which the server has at `url`."""
    array, ramp = pixels(3), ramped()
    chunked = array.chunk({"y": 200})

    def write(**options: object) -> Callable[[Path], object]:
        return lambda folder: swath.to_geotiff(array, folder / "out.tif", **options) and None

    return (
        Scenario("to_geotiff", write()),
        Scenario("to_geotiff, overwrite", write(), has_old=True),
        Scenario("to_geotiff, COG, overwrite", write(cog=True, statistics=True, compression="deflate"), has_old=True),
        Scenario(
            "to_geotiff, color ramp, overwrite",
            lambda folder: swath.to_geotiff(ramp, folder / "out.tif", color_ramp="viridis") and None,
            has_old=True,
        ),
        Scenario("to_geotiff, dask", lambda folder: swath.to_geotiff(chunked, folder / "out.tif") and None),
        Scenario("to_geotiff, mosaic", lambda folder: swath.to_geotiff(array, folder / "out.vrt") and None),
        Scenario("open_geotiff", lambda folder: swath.open_geotiff(source).values.tobytes()),
        Scenario("open_geotiff, http", lambda folder: swath.open_geotiff(url).values.tobytes()),
    )


class Runner:
    """Runs scenarios in this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._old = folder / "old"
        self._old.mkdir()
        swath.to_geotiff(pixels(2, side=64), self._old / "out.tif")
        (self._old / "out.tif").chmod(0o600)
        (self._old / "out.tif.msk").write_bytes(b"an old mask")

    def run(self, scenario: Scenario, fault: Fault, most: int | None) -> Tally:
        """Fails one call after the other until no call is left."""
        tally = Tally()
        target = self._fresh(scenario)
        before = state_of(target)
        library.fault_arm(fault.kind.encode(), 0, fault.error, fault.stays)
        wanted = scenario.work(target)
        tally.calls = library.fault_calls()
        library.fault_disarm()
        after = state_of(target)
        for number in numbers(tally.calls, most) if tally.calls else ():
            problem, succeeded, failures = self._once(scenario, fault, number, (before, after, wanted))
            if failures:
                tally.add(problem and f"{scenario.name}, {fault.name}, call {number}: {problem}", succeeded)
        return tally

    def _once(
        self, scenario: Scenario, fault: Fault, number: int, wanted: tuple[State, State, object]
    ) -> tuple[str, bool, int]:
        before, after, result = wanted
        target = self._fresh(scenario)
        descriptors = len(os.listdir("/proc/self/fd"))
        raised: BaseException | None = None
        found: object = None
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        library.fault_arm(fault.kind.encode(), number, fault.error, fault.stays)
        try:
            found = scenario.work(target)
        except BaseException as error:
            raised = error.with_traceback(None)
        failures = library.fault_disarm()
        faulthandler.cancel_dump_traceback_later()
        if raised is not None and not isinstance(raised, FAILURES):
            return f"raised {type(raised).__name__}: {str(raised)[:300]}", False, failures
        if raised is None:
            wrong = "" if found == result else "the pixels are wrong"
            return wrong or difference(state_of(target), after) or _leak(descriptors), True, failures
        return difference(state_of(target), before) or _leak(descriptors), False, failures

    def _fresh(self, scenario: Scenario) -> Path:
        return fresh(self._folder / "target", self._old if scenario.has_old else None)


def _leak(before: int) -> str:
    """Reports descriptors that stay open. Connections to servers are kept, so a few more are no leak."""
    for _ in range(50):
        after = len(os.listdir("/proc/self/fd"))
        if after <= before + 4:
            return ""
        gc.collect()
        time.sleep(0.02)
    return f"{after - before} descriptors stay open"


def main() -> None:
    folder, source, url, most, *only = sys.argv[1:]
    warnings.simplefilter("ignore")
    runner = Runner(Path(folder))
    for scenario in scenarios(source, url):
        if only and scenario.name not in only:
            continue
        # Everything that the first call imports or opens is there before faults are counted.
        scenario.work(runner._fresh(scenario))
        for fault in FAULTS:
            tally = runner.run(scenario, fault, int(most) or None)
            row = {"scenario": scenario.name, "fault": fault.name, "calls": tally.calls, "wrong": tally.wrong}
            print(json.dumps(row | {"runs": dict(tally.runs)}), flush=True)


if __name__ == "__main__":
    main()
