"""A conversion that is killed at any moment leaves the complete old file or the complete new one."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conversion import LAYOUTS, TEMPORARY, Conversion, convert, digest, names, run_seconds, write_source

UNIFORM, GROWING, COMPLETE = 14, 4, 4
POLITE = 6
# Uncompressed: such a run spends most of its time writing, which is when a kill could do damage.
FLAGS = ["--compression", "none", "--tile", 256]
OLD = b"the old file"


class Ground:
    """A folder with a source and a target."""

    def __init__(self, folder: Path, layout: str) -> None:
        self.source, self.folder = folder / "in.tif", folder / "out"
        self.target = self.folder / "out.tif"
        self.folder.mkdir()
        write_source(self.source)
        self.flags = [*FLAGS, *LAYOUTS[layout]]
        self.measure()
        self.new, self.size = digest(self.target), self.target.stat().st_size

    def measure(self) -> None:
        """Measures how long one conversion takes now."""
        self.prepare(exists=False)
        self.seconds = run_seconds(self.source, self.target, *self.flags)

    def prepare(self, exists: bool) -> None:
        for path in self.folder.iterdir():
            path.unlink()
        if exists:
            self.target.write_bytes(OLD)

    def kill(self, exists: bool, number: signal.Signals, moment: Callable[[Conversion], object]) -> int:
        """Converts, sends the signal when `moment` returns, and returns the exit code."""
        self.prepare(exists)
        old = digest(self.target)
        conversion = Conversion(self.source, self.target, *self.flags, *["--overwrite"] * exists)
        moment(conversion)
        conversion.process.send_signal(number)
        ended = conversion.end()
        found = digest(self.target)
        assert found in (old, self.new), f"{self.target.stat().st_size} bytes that are neither the old file nor the new"
        assert found == self.new or ended.code != 0, "the process reported success but wrote no file"
        assert "panicked" not in ended.stderr
        return ended.code

    def leftovers(self) -> set[str]:
        return names(self.folder) - {self.target.name}

    def assert_clean(self, exists: bool) -> None:
        """Checks that the folder holds no temporary file.

        On systems with unnamed files (O_TMPFILE), the kernel removes the file with its process. To replace an
        existing file, Swath names it for an instant, when it is already complete. On other systems the temporary file
        has a name from the start.
        """
        left = self.leftovers()
        assert len(left) <= 2 and all(TEMPORARY.fullmatch(name) for name in left), f"left behind: {left}"
        if has_files_without_a_name(self.folder):
            complete = {name for name in left if exists and digest(self.folder / name) == self.new}
            assert left == complete, f"left behind: {left}"


def has_files_without_a_name(folder: Path) -> bool:
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR))
    except (OSError, AttributeError):
        return False
    return True


@pytest.fixture(params=LAYOUTS)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    return Ground(tmp_path, request.param)


def moments(ground: Ground, rng: random.Random) -> list[Callable[[Conversion], object]]:
    """Random moments of a run, and the most critical ones."""

    def after(seconds: float) -> Callable[[Conversion], object]:
        return lambda conversion: time.sleep(seconds)

    def grown(part: float, seconds: float) -> Callable[[Conversion], object]:
        return lambda conversion: conversion.wait_for_output(int(part * ground.size)) and time.sleep(seconds)

    anywhere = [after((i + rng.random()) / UNIFORM * 1.1 * ground.seconds) for i in range(UNIFORM)]
    growing = [grown(i / GROWING, 0) for i in range(GROWING)]
    # All bytes are written: the process only has to sync the file and rename it.
    complete = [grown(1, i * rng.random() * 0.002) for i in range(COMPLETE)]
    return anywhere + growing + complete


@pytest.mark.parametrize("exists", [False, True], ids=["new", "overwritten"])
def test_sigkill_leaves_the_old_file_or_the_new_one(exists: bool, ground: Ground) -> None:
    wanted = (UNIFORM + GROWING + COMPLETE) // 2
    killed = 0
    for attempt in range(3):
        for moment in moments(ground, random.Random(7 + attempt)):
            killed += ground.kill(exists, signal.SIGKILL, moment) == -signal.SIGKILL
            ground.assert_clean(exists)
        if killed >= wanted:
            break
        # The machine was busier when the run was timed than it is now, so most kills came too late.
        ground.measure()
    assert killed >= wanted, f"only {killed} runs were killed: too few for this test"


def test_temporary_files_of_other_processes_are_not_removed(ground: Ground) -> None:
    """A temporary file may belong to a process that is still running."""
    other = ground.folder / f".{ground.target.name}.1-0.swath-tmp"
    other.write_bytes(OLD)
    assert convert(ground.source, ground.target, *ground.flags, "--overwrite").code == 0
    assert digest(ground.target) == ground.new
    assert ground.leftovers() == {other.name} and other.read_bytes() == OLD


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("exists", [False, True], ids=["new", "overwritten"])
def test_sigterm_leaves_only_the_old_file_or_the_new_one(
    exists: bool, number: signal.Signals, ground: Ground
) -> None:
    rng = random.Random(8)
    for moment in rng.sample(moments(ground, rng), POLITE):
        code = ground.kill(exists, number, moment)
        assert code in (0, 1, -number, 128 + number), f"exit code {code}"
        ground.assert_clean(exists)
