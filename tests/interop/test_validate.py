"""Compares `swath validate` with the validators of GDAL and rio-cogeo, on valid COGs and on broken ones."""

import json
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from rio_cogeo.cogeo import cog_validate

from binary import REPOSITORY, Swath
from cog_broken import BROKEN, UNREADABLE
from cog_cases import VALID, cog
from cog_parts import ghost
from gdal_validator import GDAL_MODULE, GDAL_PYTHON

# GDAL's Python bindings belong to the system's Python; see scripts/gdal-validator.

STRIPS = "an image of at most 1024 pixels in strips passes for one in tiles"
FIRST_BAND = "only the first band of a planar file is looked at"
BROKEN_OVERVIEW = "an overview that cannot be read is left out with a message, what is left has none"

# Files on which GDAL's validator misses a violation of its own rule.
GDAL_MISSES = {
    "gtiff-striped": STRIPS,
    "gtiff-striped-513-wide": STRIPS,
    "gtiff-striped-513-high": STRIPS,
    "overview-striped-700": STRIPS,
    "overview-of-the-same-size": "an overview may be as large as the level before it",
    "truncated-trailer": "a trailer that the file ends in is not compared",
    "leader-of-second-band": FIRST_BAND,
    "tiles-of-second-band-swapped": FIRST_BAND,
}
# Files that another validator refuses or crashes on although they break none of its rules.
GDAL_STUMBLES = {
    "offset-beyond-end": "ends in an exception",
    "truncated-tiles": "ends in an exception",
    "sizes-missing": "cannot be opened",
}
RIO_STUMBLES = {
    "sizes-missing": "cannot be opened",
    "sizes-missing-in-overview": BROKEN_OVERVIEW,
    "width-missing-in-overview": BROKEN_OVERVIEW,
    "line-not-text": "ends in an exception",
}

FILES: dict[str, Callable[[Path], None]] = {
    **{f"valid-{name}": write for name, write in VALID.items()},
    **{name: write for name, (_, write) in BROKEN.items()},
}


@dataclass(frozen=True)
class Verdicts:
    """The results of the three validators for one file."""

    path: Path
    swath: dict
    exit_code: int
    gdal: bool
    gdal_says: str
    rio: bool
    rio_says: str

    @property
    def rules(self) -> set[str]:
        return set(self.swath["counts"])

    def broken(self, authority: str, *lists: str) -> set[str]:
        """The rules of one validator that Swath reports as broken."""
        findings = (finding for name in lists for finding in self.swath[name])
        return {finding["rule"] for finding in findings if authority in finding["authorities"]}


def ask_gdal(path: Path) -> tuple[bool, str]:
    command = [GDAL_PYTHON, "-m", GDAL_MODULE, "--full-check=yes", str(path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, env={"PATH": "/usr/bin:/bin"})
    output = run.stdout + run.stderr
    assert "No module named" not in output, f"{output}: run `make setup`"
    return run.returncode == 0, output


def ask_rio_cogeo(path: Path) -> tuple[bool, str]:
    try:
        valid, errors, warnings = cog_validate(str(path), strict=True, quiet=True)
    except Exception as error:  # any failure of the validator counts
        return False, repr(error)
    return valid, f"{errors} {warnings}"


@pytest.fixture(scope="module")
def judged(swath: Swath, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Verdicts]]:
    """Writes a file on first use and runs all three validators on it."""
    done: dict[str, Verdicts] = {}

    def judge(name: str) -> Verdicts:
        if name not in done:
            path = tmp_path_factory.mktemp("validate") / f"{name}.tif"
            FILES[name](path)
            run = swath.run("validate", path, "--json")
            assert run.code in (0, 1) and not run.stderr, f"{name}: exit code {run.code}: {run.stderr}"
            done[name] = Verdicts(path, json.loads(run.stdout), run.code, *ask_gdal(path), *ask_rio_cogeo(path))
        return done[name]

    yield judge


@pytest.mark.parametrize("name", FILES)
def test_exit_code_and_lists_agree(name: str, judged) -> None:
    verdicts = judged(name)
    assert verdicts.swath["valid"] == (verdicts.exit_code == 0) == (not verdicts.swath["errors"])
    listed = {finding["rule"] for key in ("errors", "warnings", "notes") for finding in verdicts.swath[key]}
    assert listed == verdicts.rules


@pytest.mark.parametrize("name", FILES)
def test_gdal_refuses_exactly_what_breaks_a_rule_of_gdal(name: str, judged) -> None:
    verdicts = judged(name)
    broken = verdicts.broken("GDAL", "errors")
    accepted = name in GDAL_MISSES or not broken and name not in GDAL_STUMBLES
    assert verdicts.gdal == accepted, f"swath: {broken or 'nothing'}, GDAL: {verdicts.gdal_says}"


@pytest.mark.parametrize("name", FILES)
def test_rio_cogeo_refuses_exactly_what_breaks_a_rule_of_rio_cogeo(name: str, judged) -> None:
    verdicts = judged(name)
    broken = verdicts.broken("rio-cogeo", "errors", "warnings")
    accepted = not broken and name not in RIO_STUMBLES
    assert verdicts.rio == accepted, f"swath: {broken or 'nothing'}, rio-cogeo: {verdicts.rio_says}"


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("valid-")])
def test_all_validators_accept_a_cog(name: str, judged) -> None:
    verdicts = judged(name)
    assert verdicts.swath["valid"], verdicts.swath["errors"]
    assert verdicts.gdal, verdicts.gdal_says
    assert verdicts.rio, verdicts.rio_says


@pytest.mark.parametrize("name", BROKEN)
def test_the_broken_rule_is_named(name: str, judged) -> None:
    rule, _ = BROKEN[name]
    assert rule in judged(name).rules


@pytest.mark.parametrize("name", BROKEN)
def test_strict_counts_warnings(name: str, judged, swath: Swath) -> None:
    verdicts = judged(name)
    strict = json.loads(swath.run("validate", verdicts.path, "--json", "--strict").stdout)
    assert strict["valid"] == (not verdicts.swath["errors"] and not verdicts.swath["warnings"])


def test_every_listed_exception_is_necessary(judged) -> None:
    """Each listed exception is necessary.

    A rule that GDAL's validator misses must be a rule of GDAL; a file that another validator wrongly refuses must
    break none of that validator's rules.
    """
    assert GDAL_MISSES.keys() | GDAL_STUMBLES.keys() | RIO_STUMBLES.keys() <= FILES.keys()
    assert all(judged(name).broken("GDAL", "errors") for name in GDAL_MISSES)
    assert not any(judged(name).broken("GDAL", "errors") for name in GDAL_STUMBLES)
    assert not any(judged(name).broken("rio-cogeo", "errors", "warnings") for name in RIO_STUMBLES)


def rules_of_the_documentation() -> set[str]:
    lines = (REPOSITORY / "docs" / "validate.md").read_text().splitlines()
    rows = [line.split("|") for line in lines if line.startswith("| `") and line.count("|") == 5]
    return {row[1].strip(" `") for row in rows}


def test_every_rule_is_broken_by_some_file() -> None:
    # Files larger than 4 GiB have their own test.
    tested = {rule for rule, _ in BROKEN.values()} | {"bigtiff-needed"}
    assert rules_of_the_documentation() == tested


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_file_is_one_sentence_and_exit_code_1(name: str, swath: Swath, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.tif"
    UNREADABLE[name](path)
    for flags in ([], ["--json"]):
        run = swath.run("validate", path, *flags)
        assert run.code == 1 and not run.stdout
        assert len(run.stderr.splitlines()) == 1 and "panicked" not in run.stderr


def test_misuse_is_exit_code_2(swath: Swath, tmp_path: Path) -> None:
    path = tmp_path / "cog.tif"
    cog(path)
    for arguments in ([], [path, path], [path, "--frobnicate"], [path, "--json=yes"]):
        assert swath.run("validate", *arguments).code == 2


def test_text_output_lists_errors_and_warnings(judged, swath: Swath) -> None:
    valid = swath.run("validate", judged("valid-default").path)
    assert valid.code == 0 and not valid.stderr
    assert valid.stdout.startswith("valid COG: 3 overviews, 128 x 128 tiles, Deflate")
    bad = swath.run("validate", judged("leader-of-overview").path)
    assert bad.code == 1 and not bad.stderr
    lines = bad.stdout.splitlines()
    assert lines[0].startswith("not a valid COG: 1 error")
    assert lines[1].startswith("error") and "tile-leader" in lines[1] and "tile (1, 0) of level 1 at offset" in lines[1]


def test_classic_file_beyond_4_gib(swath: Swath, tmp_path: Path) -> None:
    path = tmp_path / "huge.tif"
    cog(path)
    with path.open("r+b") as file:
        file.truncate(2**32 + 10)
    found = json.loads(swath.run("validate", path, "--json").stdout)
    assert "bigtiff-needed" in found["counts"] and found["valid"]


TILES = 10_000_000


def ten_million_tiles(path: Path, broken: bool) -> None:
    """A BigTIFF of 8-byte tiles with leaders and trailers; the tiles are in reverse order if `broken`."""
    across = 4000
    text = ghost()
    ifd_at = 16 + len(text) + len(text) % 2
    entries = [
        (256, 4, 1, across * 16), (257, 4, 1, TILES // across * 16), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1),
        (277, 3, 1, 1), (322, 3, 1, 16), (323, 3, 1, 16), (324, 16, TILES, None), (325, 4, TILES, None),
    ]  # fmt: skip
    offsets_at = ifd_at + 8 + 20 * len(entries) + 8
    counts_at = offsets_at + 8 * TILES
    data_at = counts_at + 4 * TILES
    places = {324: offsets_at, 325: counts_at}
    rows = [struct.pack("<HHQQ", *entry[:3], places.get(entry[0], entry[3])) for entry in entries]
    with path.open("wb") as file:
        file.write((b"II" + struct.pack("<HHHQ", 43, 8, 0, ifd_at) + text).ljust(ifd_at, b"\0"))
        file.write(struct.pack("<Q", len(rows)) + b"".join(rows) + bytes(8))
        offsets = data_at + 4 + 16 * np.arange(TILES, dtype="<u8")
        file.write((offsets[::-1] if broken else offsets).tobytes())
        file.write(np.full(TILES, 8, "<u4").tobytes())
        tile = struct.pack("<I", 8 if not broken else 9) + b"12345678" + b"5678"
        for _ in range(100):
            file.write(tile * (TILES // 100))


@pytest.mark.parametrize("broken", [False, True])
def test_ten_million_tiles_take_seconds_and_little_memory(broken: bool, swath: Swath, tmp_path: Path) -> None:
    path = tmp_path / "tiles.tif"
    ten_million_tiles(path, broken)
    run = swath.run("validate", path, "--json", timeout=120)
    path.unlink()
    found = json.loads(run.stdout)
    assert not run.stderr and found["levels"][0]["stored_blocks"] == TILES
    wrong = {"tile-leader": TILES, "tile-order": TILES - 1} if broken else {}
    assert {rule: found["counts"][rule] for rule in {finding["rule"] for finding in found["errors"]}} == wrong
    assert len(found["errors"]) == 10 * len(wrong)
    assert run.seconds < 30 and run.peak_bytes < 200 << 20, (run.seconds, run.peak_bytes >> 20)
