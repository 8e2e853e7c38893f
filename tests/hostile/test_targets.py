"""Targets of a write: permissions, symbolic links, stale sidecars and concurrent writers."""

from __future__ import annotations

import os
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rasterio
import tifffile
import xarray
from conftest import Command

import swath

Write = Callable[[Path, Path], None]
"""Replaces the second file by an image with the pixels of the first."""

linux = pytest.mark.skipif(not hasattr(os, "setxattr"), reason="extended attributes are tested on Linux only")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


def by_command(source: Path, target: Path) -> None:
    Command().succeed("convert", source, target, "--overwrite")


def by_python(source: Path, target: Path) -> None:
    swath.to_geotiff(swath.open_geotiff(str(source)), str(target), overwrite=True)


@pytest.fixture(params=[by_command, by_python], ids=["command", "python"])
def write(request: pytest.FixtureRequest) -> Write:
    return request.param


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "target" / "out.tif"
    path.parent.mkdir()
    tifffile.imwrite(path, np.zeros((32, 32), "uint8"))
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def value(path: Path) -> int:
    return int(tifffile.imread(path)[0, 0])


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_pipe_without_a_reader_is_an_error_and_stays(command: Command, source: Path, overwrite: list[str]) -> None:
    pipe = source.parent / "out.tif"
    os.mkfifo(pipe)
    result = command.run("convert", source, pipe, *overwrite, seconds=20)
    assert result.code == 1 and "pipe" in result.stderr and result.stderr.count("\n") == 1
    with pytest.raises(OSError, match="pipe"):
        swath.to_geotiff(swath.open_geotiff(str(source)), str(pipe), overwrite=True)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert sorted(os.listdir(source.parent)) == ["in.tif", "out.tif"]


@pytest.mark.parametrize("name", ["/dev/full", "/dev/null"])
def test_device_stays_a_device(command: Command, source: Path, name: str) -> None:
    result = command.run("convert", source, name, "--overwrite")
    assert result.code == (1 if name == "/dev/full" else 0), result.stderr
    assert stat.S_ISCHR(os.stat(name).st_mode)


@pytest.mark.parametrize("kind", ["directory", "socket"])
def test_target_that_cannot_be_replaced_stays(command: Command, source: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out.tif"
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "socket":
            listener.bind(str(target))
        else:
            target.mkdir()
        result = command.run("convert", source, target, "--overwrite")
        assert result.code == 1 and result.stderr.count("\n") == 1
        with pytest.raises(OSError):
            swath.to_geotiff(swath.open_geotiff(str(source)), str(target), overwrite=True)
        assert target.is_dir() or stat.S_ISSOCK(target.lstat().st_mode)
        assert sorted(os.listdir(tmp_path)) == ["out.tif", "source"]


@pytest.mark.parametrize("suffix", [".aux.xml", ".msk", ".ovr"])
def test_sidecar_that_is_a_link_does_not_reach_its_file(
    write: Write, source: Path, target: Path, tmp_path: Path, suffix: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (target.parent / f"out.tif{suffix}").symlink_to(secret)
    write(source, target)
    assert secret.read_text() == "secret"
    assert value(target) == 7


@pytest.mark.parametrize("name", ["in.tif.aux.xml", "in.tif.ovr", "in.tif.msk", "in.tfw"])
@pytest.mark.parametrize("what", ["pipe", "/dev/zero"])
def test_sidecar_of_a_source_that_never_ends_is_ignored(
    command: Command, source: Path, tmp_path: Path, name: str, what: str
) -> None:
    sidecar = source.parent / name
    if what == "pipe":
        os.mkfifo(sidecar)
    else:
        sidecar.symlink_to(what)
    for call in (["info", source], ["read", source, tmp_path / "out.npy"]):
        result = command.run(*call, seconds=20)
        assert result.code in (0, 1), result.stderr
    assert swath.open_geotiff(str(source)).shape == (32, 32)


@pytest.mark.parametrize("bits", [0o600, 0o640, 0o666, 0o444, 0o755])
def test_overwriting_keeps_the_mode(write: Write, source: Path, target: Path, bits: int) -> None:
    target.chmod(bits)
    write(source, target)
    assert (mode(target), value(target)) == (bits, 7)


def test_new_file_gets_the_mode_of_the_umask(write: Write, source: Path, target: Path) -> None:
    old = os.umask(0o027)
    try:
        write(source, target.with_name("new.tif"))
    finally:
        os.umask(old)
    assert mode(target.with_name("new.tif")) == 0o640


@as_root
def test_overwriting_keeps_owner_and_group(write: Write, source: Path, target: Path) -> None:
    os.chown(target, 1234, 2345)
    target.chmod(0o640)
    write(source, target)
    found = target.stat()
    assert (found.st_uid, found.st_gid, mode(target)) == (1234, 2345, 0o640)


@as_root
def test_group_that_cannot_be_kept_gives_no_access_to_another_group(source: Path) -> None:
    """A user without the right to change groups replaces a file in a folder that everyone may write to."""

    def become_nobody() -> None:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        original, target = Path(folder, "in.tif"), Path(folder, "out.tif")
        original.write_bytes(source.read_bytes())
        target.write_bytes(source.read_bytes())
        original.chmod(0o644)
        os.chown(target, 0, 2345)
        target.chmod(0o660)
        arguments = [str(Command().path), "convert", str(original), str(target), "--overwrite"]
        done = subprocess.run(arguments, preexec_fn=become_nobody, capture_output=True)
        assert done.returncode == 0, done.stderr
        assert (target.stat().st_gid, mode(target)) == (65534, 0o600)


@linux
def test_overwriting_keeps_extended_attributes(write: Write, source: Path, target: Path) -> None:
    os.setxattr(target, "user.origin", b"survey 12")
    os.setxattr(target, "user.empty", b"")
    write(source, target)
    found = {name: os.getxattr(target, name) for name in os.listxattr(target) if name.startswith("user.")}
    assert found == {"user.origin": b"survey 12", "user.empty": b""}


def access_list(*entries: tuple[int, int, int]) -> bytes:
    """A POSIX access control list as the kernel stores it: tag, permissions and id of each entry."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


USER_OBJ, USER, GROUP_OBJ, MASK, OTHER, NO_ID = 1, 2, 4, 16, 32, 0xFFFFFFFF


@linux
def test_overwriting_keeps_the_access_control_list(write: Write, source: Path, target: Path) -> None:
    name = "system.posix_acl_access"
    wanted = access_list(
        (USER_OBJ, 6, NO_ID), (USER, 4, 4321), (GROUP_OBJ, 0, NO_ID), (MASK, 4, NO_ID), (OTHER, 0, NO_ID)
    )
    try:
        os.setxattr(target, name, wanted)
    except OSError as error:
        pytest.skip(f"the file system has no access control lists: {error}")
    before = mode(target)
    write(source, target)
    assert (os.getxattr(target, name), mode(target)) == (wanted, before)


@linux
def test_default_list_of_the_folder_does_not_open_a_private_file(write: Write, source: Path, target: Path) -> None:
    inherited = access_list(
        (USER_OBJ, 7, NO_ID), (USER, 7, 4321), (GROUP_OBJ, 5, NO_ID), (MASK, 7, NO_ID), (OTHER, 5, NO_ID)
    )
    target.chmod(0o600)
    try:
        os.setxattr(target.parent, "system.posix_acl_default", inherited)
    except OSError as error:
        pytest.skip(f"the file system has no access control lists: {error}")
    write(source, target)
    assert "system.posix_acl_access" not in os.listxattr(target)
    assert mode(target) == 0o600


@pytest.mark.parametrize("dangling", [False, True])
def test_chain_of_links_is_followed_to_its_end(write: Write, source: Path, target: Path, dangling: bool) -> None:
    links = [target.parent / "a.tif", target.parent / "b.tif", target.parent / "deep" / "c.tif"]
    links[2].parent.mkdir()
    links[0].symlink_to("b.tif")
    links[1].symlink_to(Path("deep") / "c.tif")
    links[2].symlink_to(Path("..") / "out.tif")
    if dangling:
        target.unlink()
    write(source, links[0])
    assert all(link.is_symlink() for link in links)
    assert value(target) == 7


def test_loop_of_links_is_an_error(command: Command, source: Path, target: Path) -> None:
    one, two = target.with_name("one.tif"), target.with_name("two.tif")
    one.symlink_to("two.tif")
    two.symlink_to("one.tif")
    result = command.run("convert", source, one, "--overwrite")
    assert result.code == 1 and "symbolic links" in result.stderr
    with pytest.raises(OSError, match="symbolic links"):
        by_python(source, one)
    assert sorted(os.listdir(target.parent)) == ["one.tif", "out.tif", "two.tif"]


@pytest.mark.parametrize("suffix", [".msk", ".ovr", ".aux.xml"])
@pytest.mark.parametrize("through", ["name", "link"])
def test_stale_sidecars_of_the_real_target_and_of_the_link_are_removed(
    write: Write, source: Path, target: Path, suffix: str, through: str
) -> None:
    link = target.parent / "links" / "link.tif"
    link.parent.mkdir()
    link.symlink_to(target)
    stale = [Path(f"{target}{suffix}")]
    if through == "link":
        stale.append(Path(f"{link}{suffix}"))
    for path in stale:
        path.write_bytes(b"stale")
    write(source, target if through == "name" else link)
    assert not any(path.exists() for path in stale)
    assert sorted(os.listdir(target.parent)) == ["links", "out.tif"]


def test_stale_sidecar_of_the_real_target_prevents_a_write_without_overwrite(
    command: Command, source: Path, target: Path
) -> None:
    link = target.with_name("link.tif")
    link.symlink_to("out.tif")
    target.unlink()
    Path(f"{target}.msk").write_bytes(b"stale")
    result = command.run("convert", source, link)
    assert result.code == 1 and "out.tif.msk already exists" in result.stderr
    assert not target.exists()


def test_failed_replacement_leaves_the_old_sidecars(command: Command, source: Path, target: Path) -> None:
    Path(f"{target}.aux.xml").write_bytes(b"old")
    # A folder cannot be set aside as a sidecar.
    Path(f"{target}.msk").mkdir()
    result = command.run("convert", source, target, "--overwrite")
    assert result.code == 1
    assert value(target) == 0
    assert Path(f"{target}.aux.xml").read_bytes() == b"old"
    assert sorted(os.listdir(target.parent)) == ["out.tif", "out.tif.aux.xml", "out.tif.msk"]


def with_categories(path: Path, number: int) -> Path:
    """A file whose pixels and whose class name in the sidecar have the same number."""
    profile = {"driver": "GTiff", "count": 1, "height": 32, "width": 32, "dtype": "uint8"}
    with rasterio.open(path, "w", **profile) as out:
        out.write(np.full((1, 32, 32), number, "uint8"))
    Path(f"{path}.aux.xml").write_text(
        "<PAMDataset><PAMRasterBand band='1'><CategoryNames>"
        f"<Category>class {number}</Category></CategoryNames></PAMRasterBand></PAMDataset>"
    )
    return path


def test_concurrent_overwriters_leave_the_sidecar_of_the_remaining_file(tmp_path: Path) -> None:
    """Readers see the pixels of one writer with the class of the same writer, or, for a moment, without a class."""
    sources = [with_categories(tmp_path / f"in{number}.tif", number) for number in (1, 2, 3)]
    target = tmp_path / "out" / "out.tif"
    target.parent.mkdir()
    by_command(sources[0], target)
    sidecar = Path(f"{target}.aux.xml")
    assert "class 1" in sidecar.read_text()
    program = str(Command().path)
    for _ in range(12):
        arguments = [[program, "convert", str(source), str(target), "--overwrite"] for source in sources]
        running = [subprocess.Popen(one, stdout=subprocess.DEVNULL) for one in arguments]
        assert [one.wait(60) for one in running] == [0, 0, 0]
        assert f"class {value(target)}<" in sidecar.read_text()
        assert sorted(os.listdir(target.parent)) == ["out.tif", "out.tif.aux.xml"]


def classed(number: int) -> Callable[[str], object]:
    array = xarray.DataArray(np.full((32, 32), number, "uint8"), dims=("y", "x"))
    array.attrs["category_names"] = [f"class {number}"]
    return lambda path: swath.to_geotiff(array, path)


def styled(number: int) -> Callable[[str], object]:
    array = xarray.DataArray(np.full((32, 32), number, "float32"), dims=("y", "x"))
    array[0, 1] = number + 10
    return lambda path: swath.to_geotiff(array, path, color_ramp="viridis")


@pytest.mark.parametrize("kind", [classed, styled])
def test_concurrent_overwriters_in_python_do_not_mix_their_sidecars(
    tmp_path: Path, kind: Callable[[int], Callable[[str], object]]
) -> None:
    target = tmp_path / "out.tif"
    writes = [kind(number) for number in (1, 2)]
    writes[0](str(target))
    names = sorted(os.listdir(tmp_path))
    for _ in range(40):
        threads = [threading.Thread(target=write, args=(str(target),)) for write in writes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        number, text = value(target), Path(f"{target}.aux.xml").read_text()
        if kind is classed:
            assert f"class {number}<" in text
        else:
            assert f">{number}</MDI>" in text and f">{number + 10}</MDI>" in text
            assert f'minimumValue="{number}"' in target.with_suffix(".qml").read_text()
        assert sorted(os.listdir(tmp_path)) == names


def test_failed_style_leaves_the_old_image_and_its_sidecars(tmp_path: Path) -> None:
    target = tmp_path / "out.tif"
    styled(1)(str(target))
    style = target.with_suffix(".qml")
    style.unlink()
    # A folder cannot be replaced by a style file.
    style.mkdir()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(OSError, match="out.tif"):
        styled(2)(str(target))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def identity(path: Path) -> tuple[int, int, int]:
    """What tells a file from another file that has had the same name."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def test_reader_does_not_combine_new_pixels_with_an_old_sidecar(tmp_path: Path) -> None:
    sources = [with_categories(tmp_path / f"in{number}.tif", number) for number in (1, 2)]
    target = tmp_path / "out" / "out.tif"
    target.parent.mkdir()
    by_command(sources[0], target)
    sidecar = Path(f"{target}.aux.xml")
    stop, wrong = threading.Event(), []

    def watch() -> None:
        while not stop.is_set():
            # The image is the same before and after, so the sidecar was read with this image. The inode alone does not
            # show that: a later image can get the inode of an earlier one.
            try:
                before = identity(target)
                number = value(target)
                text = sidecar.read_text()
                same = identity(target) == before
            except FileNotFoundError:
                continue
            if same and f"class {number}<" not in text:
                wrong.append((number, text))

    reader = threading.Thread(target=watch)
    reader.start()
    try:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            for source in sources:
                by_command(source, target)
    finally:
        stop.set()
        reader.join()
    assert not wrong


def test_sidecar_written_through_a_link_is_found_at_both_names(tmp_path: Path) -> None:
    source = with_categories(tmp_path / "in.tif", 5)
    target, link = tmp_path / "out" / "real.tif", tmp_path / "out" / "link.tif"
    target.parent.mkdir()
    link.symlink_to("real.tif")
    by_command(source, link)
    for path in (target, link):
        assert "class 5" in Path(f"{path}.aux.xml").read_text()
    array = xarray.DataArray(np.full((4, 4), 1, "uint8"), dims=("y", "x"), attrs={"category_names": ["none", "one"]})
    swath.to_geotiff(array, str(link), overwrite=True)
    for path in (target, link):
        assert swath.open_geotiff(str(path)).attrs["category_names"] == ["none", "one"]


def test_private_image_has_a_private_sidecar(tmp_path: Path, target: Path) -> None:
    target.chmod(0o600)
    by_command(with_categories(tmp_path / "in.tif", 5), target)
    assert mode(Path(f"{target}.aux.xml")) == 0o600


def test_mosaic_index_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    folder = tmp_path / "mosaic"
    folder.mkdir()
    real, link = folder / "real.vrt", folder / "link.vrt"
    real.write_text("<VRTDataset/>")
    real.chmod(0o600)
    link.symlink_to("real.vrt")
    array = xarray.DataArray(np.ones((4, 4), "uint8"), dims=("y", "x"))
    swath.to_geotiff(array, str(link), overwrite=True)
    assert link.is_symlink() and mode(real) == 0o600
    assert int(swath.open_geotiff(str(link)).values.sum()) == 16
