"""Calls of the system that fail: some of each kind. `make faults` fails every call, one after the other."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from conftest import BINARY
from faults.campaign import Row, of_command, of_python

MOST = 3
"""The number of calls of each kind that fail in each scenario."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD: NO FAULT IS TRIED ON THIS SYSTEM")


def check(rows: list[Row], kinds: set[str]) -> None:
    wrong = [problem for _, _, tally in rows for problem in tally.wrong]
    assert not wrong, "\n".join(wrong)
    failed = {fault.split()[0] for _, fault, tally in rows if tally.runs.total()}
    assert kinds <= failed, "every kind of call was tried"
    outcomes = {outcome for _, _, tally in rows for outcome in tally.runs}
    assert outcomes == {"right", "error"}


def test_fault_in_the_command_gives_an_error_or_the_right_file(tmp_path: Path) -> None:
    rows = list(of_command(BINARY, tmp_path, MOST, "convert, overwrite", "COG, overwrite", "read to .npy"))
    check(rows, {"read", "write", "sync", "name", "open", "space", "status", "attribute", "memory", "thread"})


def test_fault_in_python_gives_an_exception_or_the_right_file(tmp_path: Path) -> None:
    written = ("to_geotiff, overwrite", "to_geotiff, color ramp, overwrite", "to_geotiff, mosaic")
    rows = list(of_python(tmp_path, MOST, *written, "open_geotiff", "open_geotiff, http"))
    check(rows, {"read", "write", "sync", "name", "open", "space", "status", "memory", "thread", "network"})


def test_campaign_notices_a_file_that_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign itself can fail: this command leaves a temporary file when it cannot write."""
    command = tmp_path / "leaky"
    leak = 'case $FAULT_PLAN in *:0:*) ;; *) touch "$(dirname "$3")/left.tmp" ;; esac'
    command.write_text(f'#!/bin/sh\n{leak}\nexec $REAL "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("REAL", os.fspath(BINARY))
    rows = list(of_command(command, tmp_path, 1, "convert"))
    assert any("left.tmp was left" in problem for _, _, tally in rows for problem in tally.wrong)
