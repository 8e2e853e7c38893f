"""Threads that cannot be started, forks at a bad time, and producers whose rows are not as announced."""

from __future__ import annotations

import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tifffile
from conftest import BINARY

from swath import _swath


def run(program: str, *arguments: object, seconds: float = 60) -> str:
    """Runs a Python program, which must succeed in time."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


WITHOUT_THREADS = """
    import os, resource, sys
    import numpy as np, xarray
    import swath

    os.chdir(sys.argv[1])
    array = xarray.DataArray(np.arange(3000 * 3000, dtype="float32").reshape(3000, 3000), dims=("y", "x"))
    path = "a.tif"
    swath.to_geotiff(array, path)
    opened = swath.open_geotiff
    opened(path)
    os.chmod(path, 0o644)
    # Root may start any number of threads.
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    import threading
    try:
        threading.Thread(target=print).start()
    except RuntimeError:
        pass
    else:
        print("threads can be started")
        sys.exit(0)
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that all users may write to. Only root may search pytest's folders if root runs the tests."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


def test_read_without_threads_gives_the_pixels_or_one_error(shared: Path) -> None:
    out = run(
        WITHOUT_THREADS
        + """
    try:
        read = opened(path)
        assert np.array_equal(read.values, array.values)
        print("pixels")
    except RuntimeError as error:
        assert "cannot start a thread" in str(error), error
        print("error")
    """,
        shared,
    )
    assert out.strip() in {"pixels", "error", "threads can be started"}


def test_write_without_threads_is_an_error_and_no_file(shared: Path) -> None:
    out = run(
        WITHOUT_THREADS
        + """
    try:
        swath.to_geotiff(array, "b.tif")
    except RuntimeError as error:
        assert "cannot start a thread" in str(error), error
        print("error")
    """,
        shared,
    )
    assert out.strip() in {"error", "threads can be started"}
    if out.strip() == "error":
        assert os.listdir(shared) == ["a.tif"]


def test_fork_while_a_device_is_opened_does_not_block_the_child() -> None:
    """The thread that opens the device holds the lock of the open devices; in the child it does not exist."""
    program = """
    import os, sys, threading, time
    from swath import _swath

    def open_device():
        for name in ("opencl", "cuda", "opencl", "cuda"):
            try:
                _swath.write("/dev/null", None, shape=(1, 1, 1), dtype="uint8", options={}, device=name)
            except Exception:
                pass

    thread = threading.Thread(target=open_device)
    thread.start()
    children = []
    while thread.is_alive() and len(children) < 40:
        child = os.fork()
        if child == 0:
            _swath.trim_devices()
            os._exit(0)
        children.append(child)
        time.sleep(0.005)
    deadline = time.monotonic() + 20
    for child in children:
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                for each in children:
                    try:
                        os.kill(each, 9)
                    except ProcessLookupError:
                        pass
                sys.exit("a child is blocked")
            time.sleep(0.01)
    thread.join()
    print(len(children))
    """
    assert int(run(program)) > 0


@pytest.mark.parametrize("wrong", ["int16", "float16", "uint8"])
def test_rows_of_another_type_are_refused(tmp_path: Path, wrong: str) -> None:
    """The arrays have the announced number of bytes, so their length does not show the difference."""
    columns = 8 if wrong != "uint8" else 16

    def rows(start: int, end: int) -> np.ndarray:
        return np.ones((end - start, columns), wrong)

    with pytest.raises(TypeError, match=f"{wrong} for rows 0..8, not of uint16"):
        _swath.write(str(tmp_path / "a.tif"), rows, shape=(1, 8, 8), dtype="uint16", options={}, chunk_rows=[8])
    assert os.listdir(tmp_path) == []


def test_interrupted_write_ends_and_leaves_no_file(tmp_path: Path) -> None:
    def rows(start: int, end: int) -> np.ndarray:
        os.kill(os.getpid(), signal.SIGINT)
        return np.ones((end - start, 64), "uint8")

    with pytest.raises(KeyboardInterrupt):
        _swath.write(str(tmp_path / "a.tif"), rows, shape=(1, 4096, 64), dtype="uint8", options={})
    assert os.listdir(tmp_path) == []


def limited(what: int, amount: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs the command with a limit of the system."""
    return subprocess.run(
        [str(BINARY), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(what, (amount, amount)),
    )


@pytest.mark.parametrize("name", ["out.tif", "out.npy"])
def test_limit_on_the_size_of_files_is_one_sentence(source: Path, tmp_path: Path, name: str) -> None:
    """The system sends a signal that ends a process by default."""
    out = tmp_path / name
    done = limited(resource.RLIMIT_FSIZE, 100, "convert" if name.endswith("tif") else "read", source, out)
    assert done.returncode == 1 and "too large" in done.stderr and done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == ["source"]


@pytest.mark.parametrize("descriptors", [4, 5, 6, 7, 8, 12])
def test_limit_on_open_files_is_an_error_or_the_right_file(source: Path, tmp_path: Path, descriptors: int) -> None:
    out = tmp_path / "out.tif"
    done = limited(resource.RLIMIT_NOFILE, descriptors, "convert", source, out, "--cog")
    if done.returncode == 0:
        assert (tifffile.imread(out) == 7).all()
    else:
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
        assert os.listdir(tmp_path) == ["source"]


def test_mosaic_of_more_files_than_can_be_open_is_read(source: Path, tmp_path: Path) -> None:
    tiles = "".join(
        f'<SimpleSource><SourceFilename relativeToVRT="1">{n}.tif</SourceFilename><SourceBand>1</SourceBand>'
        '<SrcRect xOff="0" yOff="0" xSize="32" ySize="32"/>'
        f'<DstRect xOff="{32 * n}" yOff="0" xSize="32" ySize="32"/></SimpleSource>'
        for n in range(100)
    )
    for n in range(100):
        shutil.copy(source, tmp_path / f"{n}.tif")
        os.utime(tmp_path / f"{n}.tif", (0, 0))
    mosaic = tmp_path / "mosaic.vrt"
    mosaic.write_text(
        f'<VRTDataset rasterXSize="3200" rasterYSize="32"><VRTRasterBand dataType="Byte" band="1">{tiles}'
        "</VRTRasterBand></VRTDataset>"
    )
    program = """
    import resource, sys
    import swath
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    array = swath.open_geotiff(sys.argv[1], threads=2)
    print(array.shape, int(array.min()), int(array.max()))
    """
    assert run(program, mosaic) == "(32, 3200) 7 7\n"


def test_name_that_is_not_utf_8_is_read_and_written(source: Path, tmp_path: Path) -> None:
    strange, out = os.fsencode(tmp_path) + b"/\xff\xfe.tif", os.fsencode(tmp_path) + b"/\xfe.tif"
    shutil.copy(os.fsencode(source), strange)
    done = subprocess.run([os.fsencode(BINARY), b"convert", strange, out], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with open(out, "rb") as file:
        assert (tifffile.imread(io.BytesIO(file.read())) == 7).all()


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_standard_streams_do_not_reach_the_file(source: Path, tmp_path: Path, closed: str) -> None:
    """Without them, the next file that is opened gets their number."""
    out = tmp_path / "out.tif"
    call = f"'{BINARY}' convert '{source}' '{out}' --statistics {closed}"
    subprocess.run(call, shell=True, timeout=60, check=False)
    assert (tifffile.imread(out) == 7).all()
