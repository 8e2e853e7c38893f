"""Conversions that the system stops: full disk, read-only or removed folder, too few files or too little memory.

The conversion ends with exit code 1 and one sentence that names the file and the reason. The old file is intact and
no other file is left.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import binary
from conversion import (
    LAYOUTS,
    Conversion,
    Ended,
    assert_one_sentence,
    convert,
    digest,
    is_root,
    limited,
    names,
    write_source,
)

FLAGS = ["--compression", "none", "--tile", 256]
NOBODY, ATTEMPTS = 65534, 10
OLD = b"the old file"
MIB = 1 << 20


class Place:
    """A source, a target folder, and the file that a conversion would write there."""

    def __init__(self, folder: Path, layout: str) -> None:
        self.folder, self.source = folder, folder / "in.tif"
        self.flags = [*FLAGS, *LAYOUTS[layout]]
        # A COG reserves the space before its blocks with an allocation, which does not count as growth of the file.
        self.is_cog = layout == "cog"
        write_source(self.source)
        whole = folder / "whole.tif"
        assert convert(self.source, whole, *self.flags).code == 0
        self.new, self.size = digest(whole), whole.stat().st_size
        whole.unlink()
        self.out = folder / "out"
        self.out.mkdir()

    def try_both(self, out: Path | None = None, **started: object) -> list[Ended]:
        """Converts to a new file and to an existing one. Both must fail and leave no new file."""
        target = (out or self.out) / "out.tif"
        ended = [convert(self.source, target, *self.flags, **started)]
        assert names(target.parent) == set(), "a failed conversion has left something"
        target.write_bytes(OLD)
        ended.append(convert(self.source, target, *self.flags, "--overwrite", **started))
        assert target.read_bytes() == OLD
        assert names(target.parent) == {target.name}, "a failed conversion has left something"
        target.unlink()
        return ended


@pytest.fixture(params=LAYOUTS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param)


def limits(place: Place) -> dict[str, int]:
    """File sizes at which the write must fail, from the first byte to the last."""
    pixels = 1536 * 1024 * 2
    return {
        "nothing": 0,
        "header": 10,
        "first block": 100_000,
        "middle of the spool": pixels // 2,
        "end of the spool": pixels - 1,
        **({} if place.is_cog else {"directories": pixels + 20, "last byte": place.size - 1}),
    }


def test_file_that_may_not_grow_is_an_error_and_the_old_one_stays(place: Place) -> None:
    for limit in limits(place).values():
        for ended in place.try_both(preexec_fn=limited(FSIZE=limit)):
            assert_one_sentence(ended, "out.tif", "file too large")


def test_sigxfsz_leaves_the_old_file(place: Place) -> None:
    """Without the limit's error (EFBIG), the default action of the system is to kill the process."""
    target = place.out / "out.tif"
    target.write_bytes(OLD)

    def limit() -> None:
        limited(FSIZE=MIB)()
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

    ended = convert(place.source, target, *place.flags, "--overwrite", preexec_fn=limit)
    assert ended.code in (1, -signal.SIGXFSZ)
    assert target.read_bytes() == OLD


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system; only root may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if not is_root() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_full_disk_is_an_error_and_the_old_file_stays(place: Place, small_disk: Path) -> None:
    # Disk sizes at which the spool does not fit, the copy of a COG's blocks does not fit, and the last page does not
    # fit.
    for size in (100_000, MIB, place.size // 2, place.size + 200_000, 2 * place.size - 300_000):
        if size > place.size and "--cog" not in place.flags:
            continue
        subprocess.run(["mount", "-o", f"remount,size={size}", small_disk], check=True)
        for ended in place.try_both(small_disk):
            assert_one_sentence(ended, "out.tif", "no space left")


def test_large_enough_disk_is_used_and_left_clean(place: Place, small_disk: Path) -> None:
    """Without this check the test above would pass for any size."""
    needed = 2 * place.size if "--cog" in place.flags else place.size
    subprocess.run(["mount", "-o", f"remount,size={needed + 500_000}", small_disk], check=True)
    assert convert(place.source, small_disk / "out.tif", *place.flags).code == 0
    assert digest(small_disk / "out.tif") == place.new
    used = shutil.disk_usage(small_disk).used
    assert used < place.size + 100_000, f"{used} bytes of the disk are in use for a file of {place.size}"


def test_full_device_is_an_error(place: Place) -> None:
    assert_one_sentence(convert(place.source, Path("/dev/full"), *place.flags), "/dev/full", "no space left")


def test_folder_that_is_removed_during_a_write_is_an_error(place: Place) -> None:
    for _ in range(ATTEMPTS):
        place.out.mkdir(exist_ok=True)
        conversion = Conversion(place.source, place.out / "out.tif", *place.flags)
        conversion.wait_for_output()
        shutil.rmtree(place.out)
        ended = conversion.end()
        assert not place.out.exists()
        if ended.code != 0:
            assert_one_sentence(ended, "out.tif", "no such file")
            return
    raise AssertionError("the folder could not be removed in time")


@pytest.mark.parametrize("flags", [[], ["--overwrite"]], ids=["plainly", "overwrite"])
def test_target_that_is_a_folder_is_an_error(flags: list[str], place: Place) -> None:
    (place.out / "out.tif").mkdir()
    assert_one_sentence(convert(place.source, place.out / "out.tif", *place.flags, *flags), "out.tif", "directory")
    assert names(place.out) == {"out.tif"} and names(place.out / "out.tif") == set()


def test_missing_folder_is_an_error(place: Place) -> None:
    ended = convert(place.source, place.folder / "missing" / "out.tif", *place.flags)
    assert_one_sentence(ended, "out.tif", "no such file")


@pytest.fixture
def open_place(place: Place) -> Iterator[Place]:
    """The same place, readable by other users, with an existing target."""
    with tempfile.TemporaryDirectory(prefix="swath-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        place.source = Path(shutil.copy(place.source, folder / "in.tif"))
        place.source.chmod(0o644)
        place.out = folder / "out"
        place.out.mkdir()
        (place.out / "out.tif").write_bytes(OLD)
        yield place


def as_nobody() -> dict[str, object]:
    """Arguments that start a process as an unprivileged user."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if is_root() else {}


def test_folder_that_is_read_only_is_an_error(open_place: Place) -> None:
    open_place.out.chmod(0o555)
    for name in ("out.tif", "new.tif"):
        ended = run_as_nobody(open_place, open_place.out / name, "--overwrite")
        assert_one_sentence(ended, name, "permission denied")
    open_place.out.chmod(0o755)
    assert names(open_place.out) == {"out.tif"}
    assert (open_place.out / "out.tif").read_bytes() == OLD


def test_one_thread_is_enough_and_no_thread_is_an_error(open_place: Place) -> None:
    """A process without root privileges, because the limit on threads does not apply to root."""
    if not is_root():
        pytest.skip("needs a user without other processes")
    open_place.out.chmod(0o777)
    (open_place.out / "out.tif").unlink()
    target = open_place.out / "new.tif"
    for processes in (1, 2, 3, 4, 8):
        ended = run_as_nobody(open_place, target, "--overwrite", NPROC=processes)
        if ended.code != 0:
            assert_one_sentence(ended, "resource temporarily unavailable")
        assert digest(target) == (open_place.new if ended.code == 0 else None)
        target.unlink(missing_ok=True)
        assert names(open_place.out) == set()
    assert ended.code == 0


def run_as_nobody(place: Place, target: Path, *flags: object, **limit: int) -> Ended:
    """Runs through a file descriptor, because the binary may be in a folder that only root can read."""
    with binary.PATH.open("rb") as file:
        return convert(
            place.source, target, *place.flags, *flags, **as_nobody(), preexec_fn=limited(**limit),
            executable=f"/proc/self/fd/{file.fileno()}", pass_fds=[file.fileno()],
        )  # fmt: skip


def test_few_file_descriptors_are_enough_or_an_error(place: Place) -> None:
    target = place.out / "out.tif"
    codes = []
    for files in range(5, 14):
        ended = convert(place.source, target, *place.flags, preexec_fn=limited(NOFILE=files))
        codes.append(ended.code)
        if ended.code != 0:
            assert_one_sentence(ended, "too many open files")
        assert digest(target) == (place.new if ended.code == 0 else None)
        target.unlink(missing_ok=True)
        assert names(place.out) == set()
    assert codes[-1] == 0 and 1 in codes, f"exit codes {codes}"


def test_too_little_memory_ends_the_process_and_keeps_the_old_file(place: Place) -> None:
    """Rust aborts (SIGABRT) when an allocation fails; the system kills a process that is too large to load."""
    target = place.out / "out.tif"
    codes = []
    for megabytes in (*range(12, 40, 2), 150, 4096):
        target.write_bytes(OLD)
        ended = convert(place.source, target, *place.flags, "--overwrite", preexec_fn=limited(AS=megabytes * MIB))
        codes.append(ended.code)
        if ended.code == -signal.SIGABRT:
            assert ended.stderr.strip(), f"{megabytes} MiB: ended without a message"
        elif ended.code > 0 and ended.code != 127:
            assert_one_sentence(ended)
        assert digest(target) == place.new if ended.code == 0 else target.read_bytes() == OLD
    assert codes[-1] == 0 and any(codes), f"exit codes {codes}"


def test_interrupted_pipe_is_an_error_not_a_signal(place: Place) -> None:
    """Standard output whose reader has closed it."""
    read, write = os.pipe()
    os.close(read)
    argv = [binary.PATH, "convert", place.source, "-", *place.flags]
    done = subprocess.run(
        list(map(str, argv)), stdout=write, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    os.close(write)
    assert_one_sentence(Ended(done.returncode, done.stderr), "broken pipe")
