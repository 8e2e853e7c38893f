"""A conversion that is killed leaves the old file or the new one, never a part of one, at whatever moment it dies."""

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
# Uncompressed: most of such a run is writing, and that is where a kill could hurt.
FLAGS = ["--compression", "none", "--tile", 256]
OLD = b"the old file"


class Ground:
    """A folder with a source, and what becomes of it."""

    def __init__(self, folder: Path, layout: str) -> None:
        self.source, self.folder = folder / "in.tif", folder / "out"
        self.target = self.folder / "out.tif"
        self.folder.mkdir()
        write_source(self.source)
        self.flags = [*FLAGS, *LAYOUTS[layout]]
        self.measure()
        self.new, self.size = digest(self.target), self.target.stat().st_size

    def measure(self) -> None:
        """How long a run takes now."""
        self.prepare(exists=False)
        self.seconds = run_seconds(self.source, self.target, *self.flags)

    def prepare(self, exists: bool) -> None:
        for path in self.folder.iterdir():
            path.unlink()
        if exists:
            self.target.write_bytes(OLD)

    def kill(self, exists: bool, number: signal.Signals, moment: Callable[[Conversion], object]) -> int:
        """Convert, send the signal when the moment has come, and give the exit code."""
        self.prepare(exists)
        old = digest(self.target)
        conversion = Conversion(self.source, self.target, *self.flags, *["--overwrite"] * exists)
        moment(conversion)
        conversion.process.send_signal(number)
        ended = conversion.end()
        found = digest(self.target)
        assert found in (old, self.new), f"{self.target.stat().st_size} bytes that are neither the old file nor the new"
        assert found == self.new or ended.code != 0, "it has ended well without a file"
        assert "panicked" not in ended.stderr
        return ended.code

    def leftovers(self) -> set[str]:
        return names(self.folder) - {self.target.name}

    def assert_clean(self, exists: bool) -> None:
        """A file without a name goes with its process. Only to replace another one it needs a name for an instant, and
        then it is complete; where the system has no files without a name, it has one from its beginning on."""
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
    """Moments of a run: any, and those that matter most."""

    def after(seconds: float) -> Callable[[Conversion], object]:
        return lambda conversion: time.sleep(seconds)

    def grown(part: float, seconds: float) -> Callable[[Conversion], object]:
        return lambda conversion: conversion.wait_for_output(int(part * ground.size)) and time.sleep(seconds)

    anywhere = [after((i + rng.random()) / UNIFORM * 1.1 * ground.seconds) for i in range(UNIFORM)]
    growing = [grown(i / GROWING, 0) for i in range(GROWING)]
    # The file has all its bytes: what remains is to sync it and to give it its name.
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
        # Other work on the machine has ended since a run was timed: most kills came too late.
        ground.measure()
    assert killed >= wanted, f"only {killed} runs were killed: the rest tells nothing"


def test_what_others_left_behind_is_not_touched(ground: Ground) -> None:
    """It may belong to a process that is still running."""
    other = ground.folder / f".{ground.target.name}.1-0.swath-tmp"
    other.write_bytes(OLD)
    assert convert(ground.source, ground.target, *ground.flags, "--overwrite").code == 0
    assert digest(ground.target) == ground.new
    assert ground.leftovers() == {other.name} and other.read_bytes() == OLD


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("exists", [False, True], ids=["new", "overwritten"])
def test_polite_signal_leaves_the_old_file_or_the_new_one_alone(
    exists: bool, number: signal.Signals, ground: Ground
) -> None:
    rng = random.Random(8)
    for moment in rng.sample(moments(ground, rng), POLITE):
        code = ground.kill(exists, number, moment)
        assert code in (0, 1, -number, 128 + number), f"exit code {code}"
        ground.assert_clean(exists)
