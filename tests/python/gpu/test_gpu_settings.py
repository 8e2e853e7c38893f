"""Settings of a device: a keyword comes before the environment, and the environment before the default."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

from simulated_gpu import events, on_gpu, reset

LIBRARIES = ("libnvcomp.so.6", "libcufile.so.0")


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


def a_file(folder: Path) -> tuple[str, Any]:
    pixels = (np.arange(96 * 96) % 251).astype("uint16").reshape(96, 96)
    path = str(folder / "a.tif")
    tifffile.imwrite(path, pixels, tile=(32, 32), compression="zlib")
    return path, pixels


@on_gpu
@pytest.mark.parametrize("chunks", [None, 64])
def test_builtin_decoder_keeps_untrusted_streams_from_nvidia(tmp_path: Path, chunks: int | None) -> None:
    import swath

    path, pixels = a_file(tmp_path)

    def is_by_nvcomp(**keywords: Any) -> bool:
        reset()
        array = swath.open_geotiff(path, gpu=True, chunks=chunks, **keywords)
        array = array.compute() if chunks else array
        np.testing.assert_array_equal(array.data.get(), pixels)
        has_run = any("nvcomp" in event.lower() for event in events())
        # Chunks are read in threads of dask, and each thread has its own last report.
        assert chunks or has_run == ("nvCOMP" in swath.last_report()["decoded_by"]), events()
        return has_run

    assert is_by_nvcomp() and not is_by_nvcomp(decoder="builtin")
    with environment(SWATH_DECODER="nvcomp"):
        assert not is_by_nvcomp(decoder="builtin")
    with environment(SWATH_DECODER="builtin"):
        assert not is_by_nvcomp() and is_by_nvcomp(decoder="nvcomp")


@on_gpu
def test_encoder_is_chosen_by_keyword_then_environment(tmp_path: Path) -> None:
    import cupy

    import swath

    path, (_, pixels) = str(tmp_path / "b.tif"), a_file(tmp_path)

    def encoded(**keywords: Any) -> bool:
        swath.to_geotiff(cupy.asarray(pixels), path, compression="deflate", tile_size=32, **keywords)
        np.testing.assert_array_equal(tifffile.imread(path), pixels)
        by = str(swath.last_report()["compressed_by"])
        assert by == {"builtin": "kernel deflate_encode", "cpu": "the CPU"}.get(keywords.get("encoder"), by)
        return "nvCOMP" in by

    assert encoded() and encoded(encoder="nvcomp")
    assert not encoded(encoder="builtin") and not encoded(encoder="cpu")
    with environment(SWATH_ENCODER="builtin"):
        assert not encoded() and encoded(encoder="auto")


@on_gpu
def test_storage_is_chosen_by_keyword_then_environment(tmp_path: Path) -> None:
    import swath

    path, _ = a_file(tmp_path)

    def read_by(**keywords: Any) -> bool:
        swath.read_device(path, **keywords)
        return "cuFile" in str(swath.last_report()["read_by"])

    assert read_by(storage="cufile") and not read_by(storage="posix")
    with environment(SWATH_STORAGE="posix"):
        assert not read_by() and read_by(storage="cufile")


@on_gpu
def test_memory_is_limited_by_keyword_then_environment(tmp_path: Path) -> None:
    import cupy

    import swath

    path, pixels = a_file(tmp_path)
    with pytest.raises(swath.DeviceMemoryError, match="budget"):
        swath.read_device(path, gpu_memory=0)
    with environment(SWATH_GPU_MEMORY="0"):
        with pytest.raises(swath.DeviceMemoryError, match="budget"):
            swath.read_device(path)
        np.testing.assert_array_equal(swath.read_device(path, gpu_memory=64).to_host(), pixels)
    with environment(SWATH_STRICT="1"), pytest.raises(swath.DeviceMemoryError, match="budget"):
        swath.to_geotiff(cupy.asarray(pixels), str(tmp_path / "b.tif"), gpu_memory=0)


@on_gpu
def test_unknown_values_are_errors_that_list_the_values(tmp_path: Path) -> None:
    import cupy

    import swath

    path, pixels = a_file(tmp_path)
    with pytest.raises(ValueError, match=r"decoder must be one of auto\|builtin\|nvcomp, not 'own'"):
        swath.open_geotiff(path, gpu=True, decoder="own")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"storage must be one of auto\|cufile\|posix, not 'disk'"):
        swath.read_device(path, storage="disk")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"encoder must be one of auto\|builtin\|nvcomp\|cpu, not ''"):
        swath.to_geotiff(cupy.asarray(pixels), path, encoder="")  # type: ignore[arg-type]
    for name, values in [
        ("SWATH_DECODER", "one of auto|builtin|nvcomp"),
        ("SWATH_STORAGE", "one of auto|cufile|posix"),
        ("SWATH_GPU_MEMORY", "a whole number"),
    ]:
        with environment(**{name: "own"}), pytest.raises(ValueError) as raised:
            swath.read_device(path)
        assert f"{name} must be {values}" in str(raised.value) and "'own'" in str(raised.value)
    with environment(SWATH_ENCODER="own"), pytest.raises(ValueError, match="SWATH_ENCODER must be one of"):
        swath.to_geotiff(cupy.asarray(pixels), path)


@pytest.mark.parametrize("keywords", [{"decoder": "builtin"}, {"storage": "posix"}, {"gpu_memory": 1}], ids=str)
def test_settings_of_a_device_need_a_device(tmp_path: Path, keywords: dict[str, Any]) -> None:
    import swath

    path, pixels = a_file(tmp_path)
    with pytest.raises(ValueError, match="only applies when gpu=True"):
        swath.open_geotiff(path, **keywords)
    keywords = {name.replace("decoder", "encoder"): value for name, value in keywords.items()}
    with pytest.raises(ValueError, match="only applies to writes on a GPU"):
        swath.to_geotiff(pixels, str(tmp_path / "b.tif"), **keywords)
