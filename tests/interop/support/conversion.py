"""A running `swath convert` that tests disturb, and checks of the files it leaves."""

import contextlib
import hashlib
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tifffile

import binary

SECONDS = 60.0
LAYOUTS = {"cog": ["--cog"], "plain": []}
TEMPORARY = re.compile(r"\.(?P<stem>.+)\.\d+-\d+\.swath-tmp")


@dataclass(frozen=True)
class Ended:
    """How a conversion ended. `code` is negative for a signal."""

    code: int
    stderr: str


class Conversion:
    """`swath convert SOURCE TARGET FLAGS` in its own process."""

    def __init__(self, source: Path, target: Path, *flags: object, **started: object) -> None:
        argv = [binary.PATH, "convert", source, target, "--threads", 2, *flags]
        self.process = subprocess.Popen(
            list(map(str, argv)),
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE} | started,
        )
        self.folder = target.parent

    def end(self) -> Ended:
        """Waits for the process to end; a process that hangs fails the test."""
        try:
            # A pipe, because a file would be subject to the limits that some conversions run with.
            stderr = self.process.communicate(timeout=SECONDS)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise AssertionError(f"still running after {SECONDS} s") from None
        return Ended(self.process.returncode, stderr.decode("utf-8", "replace"))

    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_for_output(self, size: int = 0) -> bool:
        """Polls until the file being written has at least this many bytes, or the process ends."""
        while self.is_running():
            if any(found >= size for found in self.written()):
                return True
        return False

    def written(self) -> Iterator[int]:
        """The sizes of the open files in the target's folder, with or without a name."""
        folder = os.path.realpath(self.folder) + os.sep
        with contextlib.suppress(OSError):
            for opened in os.scandir(f"/proc/{self.process.pid}/fd"):
                # The process may close any of them during this loop.
                with contextlib.suppress(OSError):
                    if os.readlink(opened.path).startswith(folder):
                        yield os.stat(opened.path).st_size


def convert(source: Path, target: Path, *flags: object, **started: object) -> Ended:
    """Runs a conversion to its end and returns how it ended."""
    return Conversion(source, target, *flags, **started).end()


def digest(path: Path) -> str | None:
    """A hash of the bytes of a file; None if there is no file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def write_source(path: Path, seed: int = 0, shape: tuple[int, int] = (1536, 1024), **options: object) -> np.ndarray:
    """Writes an image of uint16 tiles that is made quickly and still compresses little."""
    steps = np.random.default_rng(seed).integers(-40, 41, shape)
    array = (20000 + steps.cumsum(axis=1)).astype(np.uint16)
    tifffile.imwrite(path, array, **{"tile": (128, 128), "photometric": "minisblack"} | options)
    return array


def limited(**limits: int) -> Callable[[], None]:
    """Returns a `preexec_fn` that sets limits, named as in `resource` without RLIMIT_.

    A file that grows beyond its limit is an error (EFBIG) rather than a signal.
    """

    def apply() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        for name, limit in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))

    return apply


def run_seconds(source: Path, target: Path, *flags: object) -> float:
    """Seconds that an undisturbed conversion takes: the median of three."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        assert convert(source, target, *flags, "--overwrite").code == 0
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[1]


def assert_one_sentence(ended: Ended, *words: str, code: int = 1) -> None:
    """Checks that the process failed with an exit code and a single line that states the reason."""
    assert ended.code == code, f"exit code {ended.code}: {ended.stderr.strip()[-300:]}"
    lines = ended.stderr.splitlines()
    assert len(lines) == 1 and "panicked" not in lines[0], f"{len(lines)} lines on stderr: {ended.stderr[:300]!r}"
    missing = [word for word in words if word.lower() not in lines[0].lower()]
    assert not missing, f"{missing} not in: {lines[0]}"


def is_root() -> bool:
    return os.geteuid() == 0
