"""`swath bench --device ...` without a file, as an owner of a GPU runs it, on PoCL and on the CUDA simulator."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from binary import PATH
from simulator import LIBRARIES, environment

OWN = ["none", "lzw", "deflate", "packbits", "zstd"]
PREDICTED = ["lzw", "deflate", "zstd", "lz4"]
TIMES = {"cpu_read", "device_read", "device_read_to_device", "cpu_write", "device_write"}


@pytest.fixture
def simulated(tmp_path_factory):
    """Environments in which the simulator replaces the driver and the named NVIDIA libraries."""
    return lambda *libraries, **variables: environment(tmp_path_factory.mktemp("simulator"), *libraries, **variables)


def bench(*flags: object, env: dict[str, str], scratch: Path) -> tuple[subprocess.CompletedProcess, dict]:
    command = [PATH, "bench", "--size", "300", "--repeat", "1", "--scratch", scratch, "--json", *flags]
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=env, timeout=300)
    assert run.stdout.count("\n") == 1, run.stderr
    assert not list(scratch.iterdir()), "files were left behind"
    return run, json.loads(run.stdout)


def check_schema(result: dict) -> None:
    assert {"device", "driver", "api", "libraries", "size", "repeat", "scratch", "correct", "cases"} <= result.keys()
    assert result["correct"] == all(case["problem"] is None for case in result["cases"])
    for case in result["cases"]:
        assert case["decoder"] in ("builtin", "nvcomp") and case["storage"] in ("auto", "cufile", "posix")
        assert (case["seconds"] is None) == (case["stages"] is None) == (case["bytes"] is None)
        if case["seconds"]:
            assert case["seconds"].keys() == TIMES and all(seconds > 0 for seconds in case["seconds"].values())
            for during in ("read", "write"):
                stages = [stage for stage in case["stages"] if stage["during"] == during]
                assert stages and all(stage["calls"] > 0 and stage["seconds"] >= 0 for stage in stages)
                # The stages do not overlap here, so their sum must not exceed the total time.
                assert sum(stage["seconds"] for stage in stages) <= case["profiled_seconds"][during]


def stages_of(result: dict, codec: str, decoder: str) -> set[str]:
    (case,) = (
        case
        for case in result["cases"]
        if (case["codec"], case["decoder"], case["storage"]) == (codec, decoder, "auto") and case["stages"]
    )
    return {stage["name"] for stage in case["stages"]}


def cases_of(decoder: str, codecs: list[str]) -> list[tuple[str, str, int]]:
    return [(codec, decoder, predictor) for codec in codecs for predictor in ([1, 2, 3] if codec in PREDICTED else [1])]


def found(result: dict) -> list[tuple[str, str, int]]:
    cases = [case for case in result["cases"] if case["storage"] == "auto"]
    return sorted((case["codec"], case["decoder"], case["predictor"]) for case in cases)


def test_opencl_is_compared_in_every_codec_and_predictor_and_then_timed(tmp_path):
    env = {**os.environ, "SWATH_OPENCL_DEVICE": "pocl"}
    run, result = bench("--device", "opencl", env=env, scratch=tmp_path)
    assert run.returncode == 0, run.stderr
    check_schema(result)
    assert found(result) == sorted(cases_of("builtin", OWN))
    for case in result["cases"]:
        assert case["same_pixels"] and not case["fallbacks"], case
        # The Deflate kernel makes other bytes than the CPU.
        assert case["same_bytes"] is (None if case["codec"] == "deflate" else True), case
    assert result["libraries"] is None and result["api"] == "opencl"
    assert [case["codec"] for case in result["cases"] if case["seconds"]] == OWN
    assert {"upload", "kernel inflate", "kernel sum", "kernel place", "download", "kernel cut"} <= stages_of(
        result, "deflate", "builtin"
    )
    assert "comparing 1 of" in run.stderr and "timing zstd" in run.stderr


def test_all_of_nvidias_libraries_are_compared_and_timed(simulated, tmp_path):
    run, result = bench("--device", "cuda", env=simulated(*LIBRARIES), scratch=tmp_path)
    assert run.returncode == 0, run.stderr
    check_schema(result)
    theirs = cases_of("nvcomp", ["deflate", "zstd", "lz4", "jpeg2000", "jpeg"])
    assert found(result) == sorted(cases_of("builtin", OWN) + theirs)
    for case in result["cases"]:
        assert case["same_pixels"] and not case["fallbacks"], case
        same = case["decoder"] == "builtin" and case["codec"] != "deflate"
        assert case["same_bytes"] is (True if same else None), case
    assert {name: entry["version"] is not None for name, entry in result["libraries"].items()} == {
        name: True for _, name in LIBRARIES.values()
    }
    # Through cuFile, and for one codec also through host memory.
    assert [case["codec"] for case in result["cases"] if case["storage"] == "posix"] == ["zstd"]
    assert {"nvCOMP decompress", "nvCOMP compress", "cuFile read", "cuFile write"} <= stages_of(
        result, "zstd", "nvcomp"
    )
    assert {"nvJPEG2000 decode", "nvJPEG2000 encode"} <= stages_of(result, "jpeg2000", "nvcomp")
    assert {"nvJPEG decode", "nvJPEG encode"} <= stages_of(result, "jpeg", "nvcomp")
    jpeg = next(case for case in result["cases"] if case["codec"] == "jpeg")
    assert jpeg["largest_difference"] is not None


def test_missing_library_is_reported_and_the_rest_is_measured(simulated, tmp_path):
    run, result = bench("--device", "cuda", env=simulated(), scratch=tmp_path)
    assert run.returncode == 0, run.stderr
    check_schema(result)
    assert found(result) == sorted(cases_of("builtin", OWN))
    assert all("missing" in entry for entry in result["libraries"].values())


def test_compatibility_mode_of_cufile_is_measured_and_labelled(simulated, tmp_path):
    env = simulated("libcufile.so.0", SWATH_SIM_CUFILE="compat")
    run, result = bench("--device", "cuda", env=env, scratch=tmp_path)
    assert run.returncode == 0, run.stderr
    (other,) = (case for case in result["cases"] if case["storage"] == "cufile")
    assert "compatibility mode" in other["read_by"] and other["same_pixels"] and other["seconds"]
    assert all("cuFile" not in case["read_by"] for case in result["cases"] if case["storage"] == "auto")


@pytest.mark.parametrize("fault", ["chunk:3", "chunk-size:5", "compress-chunk:2"])
def test_fault_of_a_library_is_a_reported_fallback(fault, simulated, tmp_path):
    env = simulated("libnvcomp.so.6", SWATH_SIM_FAIL=fault)
    run, result = bench("--device", "cuda", "--decoder", "nvcomp", env=env, scratch=tmp_path)
    assert run.returncode == 0, run.stderr
    check_schema(result)
    assert all(case["same_pixels"] for case in result["cases"])
    assert sum(bool(case["fallbacks"]) for case in result["cases"]) == 1, result["cases"]


@pytest.mark.parametrize("download, what", [(1, "writes"), (2, "reads")])
def test_wrong_result_of_a_device_is_detected_and_its_case_named(download, what, simulated, tmp_path):
    env = simulated(SWATH_SIM_FAIL=f"wrong:{download}")
    run, result = bench("--device", "cuda", env=env, scratch=tmp_path)
    assert run.returncode == 1
    check_schema(result)
    complaint = run.stderr.splitlines()[-1]
    assert "none by builtin, predictor 1" in complaint and what in complaint
    wrong, *right = result["cases"]
    assert not result["correct"] and wrong["problem"] and wrong["seconds"] is None
    assert not (wrong["same_pixels"] and wrong["same_bytes"])
    assert all(case["same_pixels"] for case in right), "only one bit was wrong"


def test_lost_device_is_reported_for_each_case(simulated, tmp_path):
    env = simulated(SWATH_SIM_FAIL="lost:60")
    run, result = bench("--device", "cuda", env=env, scratch=tmp_path)
    assert run.returncode == 1 and "cases failed" in run.stderr.splitlines()[-1]
    check_schema(result)
    assert result["cases"][-1]["same_pixels"] is None and result["cases"][-1]["problem"]


def test_table_lists_the_implementations_and_their_speed(tmp_path):
    env = {**os.environ, "SWATH_OPENCL_DEVICE": "pocl"}
    command = [PATH, "bench", "--device", "opencl", "--size", "256", "--repeat", "1", "--scratch", tmp_path]
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=env, timeout=300)
    assert run.returncode == 0, run.stderr
    assert "11 cases, 0 wrong" in run.stdout and "into pinned memory" in run.stdout
    lines = run.stdout.splitlines()
    for codec in OWN:
        assert any(line.startswith(f"{codec} by builtin") and len(line.split()) == 10 for line in lines)


def test_cuda_table_lists_libraries_cases_and_stages(simulated, tmp_path):
    command = [PATH, "bench", "--device", "cuda", "--size", "256", "--repeat", "1", "--scratch", tmp_path]
    env = simulated(*LIBRARIES)
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=env, timeout=300)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert "23 cases, 0 wrong" in run.stdout and "GPUDirect Storage" in run.stdout
    for library in ("nvCOMP 6", "nvJPEG2000 0", "nvJPEG 12", "cuFile 1"):
        assert any(line.strip().startswith(library) for line in lines), library
    for codec in ("deflate", "zstd", "lz4", "jpeg2000", "jpeg"):
        assert any(line.startswith(f"{codec} by nvcomp") and len(line.split()) == 10 for line in lines), codec
    for stage in ("cuFile read", "nvCOMP decompress", "nvCOMP compress", "nvJPEG2000 decode", "nvJPEG encode"):
        assert any(line.strip().startswith(stage) and len(line.split()) == 6 for line in lines), stage


def test_useless_flags_are_misuse_and_a_missing_scratch_folder_is_an_error(tmp_path):
    env = {**os.environ, "SWATH_OPENCL_DEVICE": "pocl"}

    def code(*arguments: object) -> int:
        run = subprocess.run([str(PATH), "bench", *map(str, arguments)], capture_output=True, text=True, env=env)
        assert len(run.stderr.splitlines()) == 1, run.stderr
        return run.returncode

    assert code() == code("--device", "cpu") == code("--device", "sim") == 2
    assert code("--device", "opencl", "--windows", "3") == 2
    assert code("scene.tif", "--scratch", tmp_path) == 2
    assert code("--device", "opencl", "--decoder", "best") == 2
    assert code("--device", "opencl", "--scratch", tmp_path / "not there") == 1
