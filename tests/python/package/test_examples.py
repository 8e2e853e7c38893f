"""The examples run unchanged, each in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "examples"
EXAMPLES = sorted(path.name for path in FOLDER.glob("*.py"))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name: str, tmp_path: Path, search_path: str) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": search_path}
    done = subprocess.run(
        [sys.executable, FOLDER / name], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout, "an example shows something"


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_opens_as_a_notebook(name: str) -> None:
    """Cells begin with a marker, and the first cell describes the example."""
    text = (FOLDER / name).read_text()
    assert text.startswith("# %% [markdown]\n# # ")
    assert text.count("\n# %%\n") >= 4
