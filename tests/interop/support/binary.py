"""Runs the `swath` binary and reads its output."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[3]
# Absolute, because some tests start the binary in another folder.
PATH = Path(os.environ.get("SWATH_BIN", REPOSITORY / "target" / "release" / "swath")).resolve()


@dataclass(frozen=True)
class Run:
    """The result of one process. `code` is negative for a signal, as in `subprocess`."""

    code: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    stdout: str
    stderr: str


class Swath:
    """The binary, started through the spawner so that the measured peak memory is that of the binary."""

    def __init__(self, binary: Path = PATH) -> None:
        self.binary = str(binary)
        spawner = Path(__file__).with_name("spawner.py")
        self._spawner = subprocess.Popen(
            [sys.executable, "-I", "-S", str(spawner)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._scratch = tempfile.TemporaryDirectory(prefix="swath-peers-")

    def close(self) -> None:
        self._spawner.stdin.close()
        self._spawner.wait()
        self._scratch.cleanup()

    def run(self, *args: object, timeout: float = 30.0) -> Run:
        """Runs `swath ARGS`; it may fail."""
        request = {"argv": [self.binary, *map(str, args)], "timeout": timeout}
        self._spawner.stdin.write(json.dumps(request) + "\n")
        self._spawner.stdin.flush()
        return Run(**json.loads(self._spawner.stdout.readline()))

    def succeed(self, *args: object, timeout: float = 30.0) -> Run:
        """Runs `swath ARGS`, which must succeed."""
        run = self.run(*args, timeout=timeout)
        assert run.code == 0, f"swath {' '.join(map(str, args))}: exit {run.code}: {run.stderr.strip()}"
        return run

    def read(self, path: Path, *flags: object) -> np.ndarray:
        """The pixels that `swath read` returns for `path`."""
        out = Path(self._scratch.name) / "out.npy"
        out.unlink(missing_ok=True)
        self.succeed("read", path, out, *flags, timeout=120.0)
        array = np.load(out, allow_pickle=False)
        little = array.dtype.newbyteorder("<")
        assert array.dtype == little, f"{array.dtype.str} is not little-endian"
        return array

    def info(self, path: Path) -> dict:
        """The parsed `swath info --json`."""
        return json.loads(self.succeed("info", path, "--json").stdout)
