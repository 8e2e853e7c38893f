"""Exit codes and messages of the command line."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tifffile

from binary import PATH, Swath
from zoo import small


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.tif"
    path.write_bytes(small())
    return path


@pytest.mark.parametrize(
    "args",
    [
        [], ["frobnicate"], ["read"], ["read", "FILE"], ["info"], ["read", "FILE", "OUT", "--frobnicate"],
        ["read", "FILE", "OUT", "--window", "1,2,3"], ["read", "FILE", "OUT", "--window", "a,b,c,d"],
        ["read", "FILE", "OUT", "--bands", "x"], ["read", "FILE", "OUT", "--overview", "x"],
        ["read", "FILE", "OUT", "--layout", "diagonal"], ["read", "FILE", "OUT", "--threads", "-3"],
    ],
    ids=lambda args: " ".join(args) or "nothing",
)  # fmt: skip
def test_misuse_is_exit_code_2(args: list[str], good: Path, swath: Swath, tmp_path: Path) -> None:
    places = {"FILE": str(good), "OUT": str(tmp_path / "out.npy")}
    run = swath.run(*[places.get(arg, arg) for arg in args])
    assert run.code == 2, f"exit code {run.code}: {run.stderr}"
    assert run.stderr.strip() and "panicked" not in run.stderr


@pytest.mark.parametrize("bands", ["0", "2", "1,99", "4294967296"])
def test_missing_band_is_an_error(bands: str, good: Path, swath: Swath, tmp_path: Path) -> None:
    run = swath.run("read", good, tmp_path / "out.npy", "--bands", bands)
    assert run.code in (1, 2)
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize(("name", "number"), [("png", 34933), ("jpegxr", 34934)])
def test_unknown_codec_is_named_by_number(name: str, number: int, swath: Swath, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.tif"
    tifffile.imwrite(path, np.zeros((16, 16), np.uint8), compression=name)
    run = swath.run("read", path, tmp_path / "out.npy")
    assert run.code == 1
    assert len(run.stderr.splitlines()) == 1
    assert str(number) in run.stderr


def test_url_is_reported_as_a_url(swath: Swath) -> None:
    run = swath.run("info", "https://example.com/scene.tif")
    assert run.code == 1
    assert "is an address" in run.stderr and len(run.stderr.splitlines()) == 1


def test_timings_do_not_change_pixels(good: Path, swath: Swath) -> None:
    assert np.array_equal(swath.read(good, "--timings"), swath.read(good))


@pytest.mark.parametrize("name", ["out.npy", "out.png"])
@pytest.mark.parametrize("flags", [[], ["--mask"]], ids=["pixels", "mask"])
def test_read_replaces_a_file_only_with_overwrite(
    name: str, flags: list[str], good: Path, swath: Swath, tmp_path: Path
) -> None:
    out = tmp_path / name
    out.write_bytes(b"precious")
    run = swath.run("read", good, out, *flags)
    assert run.code == 1
    assert run.stderr == f"swath: {out} already exists; pass --overwrite to replace it\n"
    assert out.read_bytes() == b"precious"
    swath.succeed("read", good, out, *flags, "--overwrite")
    assert out.read_bytes() != b"precious"
    assert sorted(os.listdir(tmp_path)) == ["good.tif", name]


@pytest.mark.parametrize(
    ("args", "similar"),
    [
        (["raed"], "read"), (["read", "a", "b.npy", "--widnow", "0,0,1,1"], "--window"),
        (["read", "a", "b.npy", "--overveiw", "1"], "--overview"),
        (["convert", "a", "b", "--compression", "zsdt"], "zstd"),
    ],
)  # fmt: skip
def test_similar_name_is_suggested(args: list[str], similar: str, swath: Swath) -> None:
    run = swath.run(*args)
    assert run.code == 2 and len(run.stderr.splitlines()) == 1
    assert f"did you mean '{similar}'?" in run.stderr


@pytest.mark.parametrize("args", [["read", "--level", "1"], ["read", "--stats"], ["convert", "--level", "1"]])
def test_flags_with_two_meanings_are_gone(args: list[str], good: Path, swath: Swath, tmp_path: Path) -> None:
    run = swath.run(args[0], good, tmp_path / "out.npy", *args[1:])
    assert run.code == 2 and args[1] in run.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell", "elvish"])
def test_completions_contain_commands_and_flags(shell: str, swath: Swath) -> None:
    script = swath.succeed("completions", shell).stdout
    assert "convert" in script and "compression-level" in script
    # clap generates no completions of values for these two shells.
    assert "bands-last" in script or shell in ("powershell", "elvish")


def test_bash_completes_flags_and_values(swath: Swath, tmp_path: Path) -> None:
    script = tmp_path / "swath.bash"
    script.write_text(swath.succeed("completions", "bash").stdout)
    words = "(swath read --la)"
    body = f'source {script}; COMP_WORDS={words}; COMP_CWORD=2; _swath swath --la read; echo "${{COMPREPLY[@]}}"'
    run = subprocess.run(["bash", "-c", body], capture_output=True, text=True, timeout=30, check=True)
    assert run.stdout.split() == ["--layout"]


def test_manual_page_has_the_flags_and_the_examples(swath: Swath) -> None:
    assert "swath\\-convert(1)" in swath.succeed("manpage").stdout
    page = swath.succeed("manpage", "convert").stdout
    assert page.startswith(".ie") and ".SH OPTIONS" in page
    assert "compression\\-level" in page and "scene_cog.tif" in page
    assert swath.run("manpage", "frobnicate").code == 2


@pytest.mark.parametrize(
    "command", ["info", "read", "convert", "validate", "bench", "devices", "demo", "completions", "manpage"]
)
def test_help_has_usage_flags_and_examples(command: str, swath: Swath) -> None:
    text = swath.succeed(command, "--help").stdout
    assert f"Usage: swath {command}" in text and "Options:" in text and "Examples:\n  " in text
    assert swath.succeed("help", command).stdout == text
    assert max(map(len, text.splitlines())) <= 100


def test_help_is_on_stdout(swath: Swath) -> None:
    run = swath.run("--help")
    assert run.code == 0
    assert "read" in run.stdout and "info" in run.stdout


@pytest.mark.parametrize("args", [["--help"], ["info", "FILE"], ["info", "FILE", "--json"], ["validate", "FILE"]])
def test_closed_standard_output_is_not_a_crash(args: list[str], good: Path) -> None:
    writing = closed_pipe()
    run = started([arg.replace("FILE", str(good)) for arg in args], writing)
    os.close(writing)
    assert run.stderr == b"" and run.returncode in (0, 1), (run.returncode, run.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_full_disk_on_standard_output_is_one_sentence(good: Path) -> None:
    with open("/dev/full", "wb") as full:
        run = started(["info", str(good)], full.fileno())
    assert run.returncode == 1
    assert run.stderr.startswith(b"swath: standard output: ") and run.stderr.count(b"\n") == 1


def closed_pipe() -> int:
    """The write end of a pipe whose read end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def started(args: list[str], stdout: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(PATH), *args], stdout=stdout, stderr=subprocess.PIPE, timeout=30, check=False)
