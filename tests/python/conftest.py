"""Fixtures: the reference system as a black box, and the corpus.

A notice is printed for each comparison that cannot run.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, Phase, settings

from skipped import leave_out, left_out

REFERENCE = "0.10.20"
SHARED_CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"

# Continuous integration must not fail because of a random seed; HYPOTHESIS_PROFILE=search looks for new examples.
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
settings.register_profile("ci", derandomize=True, database=None, deadline=None, suppress_health_check=QUIET)
settings.register_profile(
    "search", deadline=None, max_examples=5000, suppress_health_check=QUIET, phases=[*Phase], print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def find_reference() -> tuple[ModuleType | None, str]:
    """The module of the reference, or None and the reason."""
    if sys.version_info < (3, 12):
        return None, f"xarray-spatial {REFERENCE} wants Python 3.12, this is {sys.version.split()[0]}"
    try:
        version = importlib.import_module("importlib.metadata").version("xarray-spatial")
        module = importlib.import_module("xrspatial.geotiff")
    except Exception as error:
        return None, f"xarray-spatial {REFERENCE} cannot be imported: {error}"
    if not version.startswith("0.10."):
        return None, f"xarray-spatial {version} is not the {REFERENCE} that the contract was taken from"
    return module, ""


def find_corpus() -> tuple[Path | None, str]:
    """The corpus, which is outside the repository."""
    root = Path(os.environ.get("SWATH_CORPUS", SHARED_CORPUS))
    if (root / "index.csv").is_file():
        return root, ""
    return None, "the corpus is not here: set SWATH_CORPUS to its folder"


@pytest.fixture(scope="session")
def found_reference() -> tuple[ModuleType | None, str]:
    return find_reference()


@pytest.fixture
def reference(found_reference: tuple[ModuleType | None, str], request: pytest.FixtureRequest) -> ModuleType:
    """`xrspatial.geotiff`; tests call it but do not look into it."""
    module, reason = found_reference
    if module is None:
        leave_out(f"comparison with the reference: {reason}", request.node.nodeid)
    assert module is not None
    return module


@pytest.fixture
def corpus(request: pytest.FixtureRequest) -> Path:
    root, reason = find_corpus()
    if root is None:
        leave_out(f"comparison over the corpus: {reason}", request.node.nodeid)
    assert root is not None
    return root


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason, tests in left_out.items():
        terminalreporter.write_line(f"*** LEFT OUT: {len(tests)} tests, {reason} ***", red=True, bold=True)
        for file, count in sorted(
            {test.split("::")[0]: sum(t.startswith(test.split("::")[0]) for t in tests) for test in tests}.items()
        ):
            terminalreporter.write_line(f"    {count} of {file}", yellow=True)


@pytest.fixture(scope="session")
def search_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The search path on which the examples find Swath and xarray finds its engine: a package that is not installed
    has no entry points.
    """
    import swath

    places = [str(Path(swath.__file__).parents[1])]
    if not entry_points(group="xarray.backends", name="swath"):
        folder = tmp_path_factory.mktemp("installed")
        (folder / "swath-0.dist-info").mkdir()
        (folder / "swath-0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: swath\nVersion: 0\n")
        engine = "[xarray.backends]\nswath = swath.xarray.engine:SwathBackendEntrypoint\n"
        (folder / "swath-0.dist-info" / "entry_points.txt").write_text(engine)
        places.append(str(folder))
    return os.pathsep.join(places)
