"""Fixtures: the binary, a simulated GPU, and a folder per session in which every case is written once."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import binary
import matrix
from case import Case


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


# The names under which the loader looks for NVIDIA's libraries.
NVIDIA = ["libcuda.so", "libcuda.so.1", "libnvcomp.so.6", "libnvjpeg2k.so.0", "libnvjpeg.so.12", "libcufile.so.0"]


@pytest.fixture(scope="session")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds the simulator in place of NVIDIA's libraries."""
    library = binary.PATH.with_name("libswath_sim.so")
    if not library.is_file():
        pytest.fail(f"no simulator at {library}: build swath-sim beside swath")
    folder = tmp_path_factory.mktemp("simulator")
    for name in NVIDIA:
        (folder / name).symlink_to(library)
    others = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
    return {**others, "LD_LIBRARY_PATH": str(folder)}


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], tuple[Path, np.ndarray | None]]:
    """Writes a case on first use; gives its path and the pixels put in."""
    folder = tmp_path_factory.mktemp("cases")
    done: dict[str, tuple[Path, np.ndarray | None]] = {}

    def write(case: Case) -> tuple[Path, np.ndarray | None]:
        if case.id not in done:
            path = folder / f"{case.id}.tif"
            done[case.id] = path, case.write(path)
        return done[case.id]

    return write
