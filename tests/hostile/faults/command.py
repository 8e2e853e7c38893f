"""Faults in the command: each run is a process of its own."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tifffile

from .outcome import State, Tally, difference, fresh, state_of
from .plan import Fault, numbers

SECONDS = 30
"""A run takes less than a tenth of a second."""

PAM = (
    '<PAMDataset><PAMRasterBand band="1"><CategoryNames><Category>{}</Category></CategoryNames></PAMRasterBand>'
    "</PAMDataset>"
)


def image(path: Path, seed: int, side: int = 700) -> None:
    """Writes an image of 700 x 700 pixels with a category name, so that a conversion writes a sidecar."""
    ramp = np.add.outer(np.arange(side), np.arange(side))
    noise = np.random.default_rng(seed).integers(0, 16, (side, side))
    tifffile.imwrite(path, (ramp + noise).astype("uint16"), tile=(128, 128), compression="zlib")
    Path(f"{path}.aux.xml").write_text(PAM.format(f"class {seed}"))


@dataclass(frozen=True)
class Scenario:
    """One use of the command."""

    name: str
    arguments: Callable[[Path, Path], list[object]]
    """The arguments, from the input and the folder of the target."""
    has_old: bool = False
    """Whether the target exists, with sidecars of its own."""


def _convert(*flags: str) -> Callable[[Path, Path], list[object]]:
    return lambda source, folder: ["convert", source, folder / "out.tif", *flags]


SCENARIOS = (
    Scenario("convert", _convert()),
    Scenario("convert, overwrite", _convert("--overwrite"), has_old=True),
    Scenario("convert, uncompressed strips", _convert("--compression", "none", "--strips", "64")),
    Scenario("COG", _convert("--cog")),
    Scenario("COG, overwrite", _convert("--cog", "--overwrite", "--statistics"), has_old=True),
    Scenario("read to .npy", lambda source, folder: ["read", source, folder / "out.npy"]),
    Scenario("read to .png", lambda source, folder: ["read", source, folder / "out.png"]),
    Scenario("info", lambda source, folder: ["info", source]),
    Scenario("validate", lambda source, folder: ["validate", source]),
)

EXCLUDED = {("read to .png", "memory")}
"""The crates that write PNG allocate their working memory without a check, and end the process if there is none."""


class Runner:
    """Runs scenarios of the command with the library of faults."""

    def __init__(self, binary: Path, library: Path, folder: Path) -> None:
        self._binary, self._library, self._folder = binary, library, folder
        self._source = folder / "in.tif"
        image(self._source, 1)
        self._old = folder / "old"
        self._old.mkdir()
        image(self._old / "out.tif", 2, side=64)
        (self._old / "out.tif").chmod(0o600)
        (self._old / "out.tif.msk").write_bytes(b"an old mask")

    def run(self, scenario: Scenario, fault: Fault, most: int | None) -> Tally:
        """Fails one call after the other until no call is left."""
        tally = Tally()
        before, after, tally.calls, printed = self._without_fault(scenario, fault)
        if tally.calls == 0:
            return tally
        for number in numbers(tally.calls, most):
            problem, succeeded, failures = self._once(scenario, fault, number, before, after, printed)
            if failures:
                tally.add(problem and f"{scenario.name}, {fault.name}, call {number}: {problem}", succeeded)
        return tally

    def _without_fault(self, scenario: Scenario, fault: Fault) -> tuple[State, State, int, str]:
        target = self._fresh(scenario)
        before = state_of(target)
        done, calls, _ = self._start(scenario, fault, 0, target)
        assert done.returncode == 0, done.stderr
        return before, state_of(target), calls, done.stdout

    def _once(
        self, scenario: Scenario, fault: Fault, number: int, before: State, after: State, printed: str
    ) -> tuple[str, bool, int]:
        target = self._fresh(scenario)
        try:
            done, _, failures = self._start(scenario, fault, number, target)
        except subprocess.TimeoutExpired:
            return f"did not end in {SECONDS} s", False, 1
        found = state_of(target)
        if done.returncode == 0:
            lost = "stdout is incomplete" if done.stdout != printed else ""
            return difference(found, after) or lost, True, failures
        if done.returncode != 1:
            return f"exit code {done.returncode}: {done.stderr[-300:]}", False, failures
        # A message cannot be printed if writing fails from then on.
        silent = fault.kind == "write" and fault.stays
        # `validate` prints what is wrong with a file to stdout.
        says = (done.stderr or done.stdout).splitlines()[-1:]
        if not silent and not (says and (says[0].startswith("swath: ") or done.stdout)):
            return f"no sentence: {done.stderr[-300:]!r}", False, failures
        # The file is complete before its statistics are printed.
        printing = fault.kind == "write" and (silent or "standard output" in done.stderr)
        return "" if printing and found == after else difference(found, before), False, failures

    def _fresh(self, scenario: Scenario) -> Path:
        return fresh(self._folder / "target", self._old if scenario.has_old else None)

    def _start(
        self, scenario: Scenario, fault: Fault, number: int, target: Path
    ) -> tuple[subprocess.CompletedProcess[str], int, int]:
        report = self._folder / "report"
        report.unlink(missing_ok=True)
        plan = f"{fault.kind}:{number}:{fault.error}:{int(fault.stays)}"
        done = subprocess.run(
            [str(self._binary), *map(str, scenario.arguments(self._source, target))],
            env={**os.environ, "LD_PRELOAD": str(self._library), "FAULT_PLAN": plan, "FAULT_REPORT": str(report)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        calls, failures = struct.unpack("<QQ", report.read_bytes())
        return done, calls, failures
