"""The code in the pages for users of other packages runs unchanged, each page from top to bottom."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = ("from-rioxarray.md", "from-xrspatial.md")


@pytest.mark.parametrize("page", PAGES)
def test_code_of_the_page_runs(page: str, tmp_path: Path, search_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 4, "a page of examples without examples"
    monkeypatch.setenv("PYTHONPATH", search_path)
    command = [sys.executable, "-W", "ignore", "-c", "\n".join(blocks)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
