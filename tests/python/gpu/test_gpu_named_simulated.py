"""The tests for hardware run: here the simulator is the hardware, and the substitute for CuPy is what is installed."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from simulated_gpu import CHILD, REPOSITORY, environment


def test_tests_for_hardware_run_on_the_device_that_is_named(tmp_path: Path) -> None:
    module = Path(__file__).with_name("test_gpu_named.py")
    folder = tmp_path / "lib"
    folder.mkdir()
    variables = environment(folder)
    # As on a machine with a GPU: nothing tells the tests that it is simulated.
    del variables[CHILD], variables["SWATH_PLACEMENT"]
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", str(module)]
    done = subprocess.run(
        command,
        env={**variables, "SWATH_TEST_DEVICE": "cuda:0"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cases = list(ET.parse(report).iter("testcase"))
    left_out = [case.get("name") for case in cases if case.find("skipped") is not None]
    assert len(cases) > 25 and left_out in ([], ["test_pytorch_takes_the_memory_and_gives_it_back"]), left_out
