"""Tests that are skipped because something outside the repository is missing. The summary of the run lists them."""

from __future__ import annotations

import pytest

left_out: dict[str, list[str]] = {}


def leave_out(reason: str, test: str) -> None:
    left_out.setdefault(reason, []).append(test)
    pytest.skip(reason)
