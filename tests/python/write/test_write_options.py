"""The options that Python passes to the engine: keys, values, and the codec table that Python's checks use."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import swath
from swath import _swath

PIXELS = np.zeros((16, 16), "u1")
PICTURE = np.zeros((16, 16, 3), "u1")
STUB = Path(swath.__file__).with_name("_swath.pyi")


def write(tmp_path: Path, **options: Any) -> None:
    target = str(tmp_path / "a.tif")
    _swath.write(target, PIXELS, shape=(1, 16, 16), dtype="uint8", options=options)  # type: ignore[typeddict-item]


def keys_of(name: str) -> list[str]:
    """The keys of a TypedDict of the stub."""
    classes = [node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ClassDef)]
    (found,) = (node for node in classes if node.name == name)
    return [
        node.target.id for node in found.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]


def test_unknown_option_is_a_type_error_that_names_it(tmp_path: Path) -> None:
    for key in ("tiles", "Compression", "crs_text", ""):
        with pytest.raises(TypeError, match=f"unknown option '{key}'"):
            write(tmp_path, **{key: 1})
    with pytest.raises(TypeError, match="unknown key of band_info 'name'"):
        write(tmp_path, band_info=[{"name": "red"}])
    assert not list(tmp_path.iterdir())


def test_every_option_of_the_stub_is_known(tmp_path: Path) -> None:
    write(tmp_path, **dict.fromkeys(keys_of("Options")))
    write(tmp_path, band_info=[dict.fromkeys(keys_of("BandInfo"))])


def test_keyword_that_no_function_has_is_a_type_error(tmp_path: Path) -> None:
    write(tmp_path)
    file = _swath.File.open(str(tmp_path / "a.tif"))
    unexpected = "unexpected keyword argument 'windows'"
    with pytest.raises(TypeError, match=rf"read_into\(\) got an {unexpected}"):
        file.read_into(PIXELS.copy(), windows=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=rf"read_to_device\(\) got an {unexpected}"):
        file.read_to_device(windows=None)  # type: ignore[call-arg]
    arguments: dict[str, Any] = {"shape": (1, 16, 16), "dtype": "uint8", "options": {}}
    with pytest.raises(TypeError, match=rf"write\(\) got an {unexpected}"):
        _swath.write(str(tmp_path / "b.tif"), PIXELS, windows=None, **arguments)
    for name in arguments:
        rest = {other: value for other, value in arguments.items() if other != name}
        with pytest.raises(TypeError, match=rf"write\(\) missing required keyword argument: '{name}'"):
            _swath.write(str(tmp_path / "b.tif"), PIXELS, **rest)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tif"]


def test_keyword_of_a_wrong_type_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    file = _swath.File.open(str(tmp_path / "a.tif"))
    with pytest.raises(TypeError, match="argument 'window'"):
        file.read_into(PIXELS.copy(), window="all")  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        file.read_into(PIXELS.copy(), level=-1)


def test_every_keyword_of_the_stub_is_known(tmp_path: Path) -> None:
    optional: dict[str, Any] = dict.fromkeys(keys_of("WriteKeywords"))
    optional |= {"bands_last": True, "overwrite": True, "strict": False, "rows_on_device": False}
    path = str(tmp_path / "a.tif")
    _swath.write(path, PIXELS, shape=(1, 16, 16), dtype="uint8", options={}, **optional)
    keywords: dict[str, Any] = dict.fromkeys(keys_of("ReadKeywords"))
    keywords |= {"bands_last": True, "level": 0, "strict": False}
    _swath.File.open(path).read_into(PIXELS.copy(), **keywords)


def test_description_has_the_keys_of_the_stub(tmp_path: Path) -> None:
    write(tmp_path)
    description = _swath.File.open(str(tmp_path / "a.tif")).describe()
    assert sorted(description) == sorted(keys_of("Description"))
    assert sorted(description["band_info"][0]) == sorted(keys_of("BandInfo"))
    assert all(sorted(codec) == sorted(keys_of("Codec")) for codec in _swath.codecs())


@pytest.mark.parametrize("option", [{"planar": "line"}, {"raster_type": "pixel"}, {"overviews": "all"}], ids=str)
def test_value_that_no_option_has_is_an_error_that_names_the_option(tmp_path: Path, option: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=f"option {next(iter(option))} must be one of"):
        write(tmp_path, **option)


def test_each_codec_is_written_by_name_and_alias_with_the_levels_of_the_table(tmp_path: Path) -> None:
    for codec in _swath.codecs():
        if not codec["write"]:
            continue
        for name in (codec["name"], *codec["aliases"]):
            swath.to_geotiff(PICTURE, str(tmp_path / "a.tif"), compression=name.upper())
            tag = _swath.File.open(str(tmp_path / "a.tif")).describe()["compression_code"]
            assert tag == codec["tags"][0]
        for level in () if codec["levels"] is None else (codec["levels"][0] - 1, codec["levels"][1] + 1):
            target = str(tmp_path / "a.tif")
            with pytest.raises(ValueError, match=f"out of range for {codec['name']}"):
                swath.to_geotiff(PIXELS, target, compression=codec["name"], compression_level=level)
