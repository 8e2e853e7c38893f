"""Fixtures: the binary, a simulated GPU, and a session folder in which each case is written once."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import binary
import matrix
from case import Case
from simulator import LIBRARIES, environment


def pytest_report_header() -> list[str]:
    return [f"swath: {binary.PATH}", *matrix.header()]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in matrix.header():
        if line.startswith("LEFT OUT"):
            terminalreporter.write_line(line, yellow=True)


def pytest_collection_finish(session: pytest.Session) -> None:
    needs_binary = any("swath" in item.fixturenames for item in session.items)
    if needs_binary and not session.config.option.collectonly and not binary.PATH.is_file():
        pytest.exit(f"no swath binary at {binary.PATH}: build it, or set SWATH_BIN", returncode=2)


@pytest.fixture(scope="session")
def swath() -> Iterator[binary.Swath]:
    """The binary under test."""
    runner = binary.Swath()
    yield runner
    runner.close()


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds the simulator instead of NVIDIA's libraries."""
    return environment(tmp_path_factory.mktemp("simulator"), *LIBRARIES)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], tuple[Path, np.ndarray | None]]:
    """Writes a case on first use and returns its path and the pixels written."""
    folder = tmp_path_factory.mktemp("cases")
    done: dict[str, tuple[Path, np.ndarray | None]] = {}

    def write(case: Case) -> tuple[Path, np.ndarray | None]:
        if case.id not in done:
            path = folder / f"{case.id}.tif"
            done[case.id] = path, case.write(path)
        return done[case.id]

    return write
