"""Fixtures: the command under test, and small source files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import tifffile

BINARY = Path(os.environ.get("SWATH_BIN", "target/release/swath")).absolute()


@dataclass(frozen=True)
class Result:
    """How a run of the command ended."""

    code: int
    stdout: str
    stderr: str


class Command:
    """Runs the command with a time limit, so that a hang is a failure."""

    def __init__(self, path: Path = BINARY) -> None:
        self.path = path

    def run(
        self, *arguments: object, seconds: float = 60, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Result:
        done = subprocess.run(
            [str(self.path), *map(os.fspath, map(_text, arguments))],
            capture_output=True,
            timeout=seconds,
            env={**os.environ, **(env or {})},
            cwd=cwd,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    def succeed(self, *arguments: object, **how: object) -> Result:
        result = self.run(*arguments, **how)  # type: ignore[arg-type]
        assert result.code == 0, result.stderr
        return result


def _text(argument: object) -> str | os.PathLike[str]:
    return argument if isinstance(argument, os.PathLike) else str(argument)


@pytest.fixture(scope="session")
def command() -> Command:
    if not BINARY.is_file():
        pytest.exit(f"no swath binary at {BINARY}: build it, or set SWATH_BIN", returncode=2)
    return Command()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of 32 x 32 pixels with the value 7, in a folder of its own."""
    folder = tmp_path / "source"
    folder.mkdir()
    path = folder / "in.tif"
    tifffile.imwrite(path, np.full((32, 32), 7, "uint8"))
    return path
