"""open_geotiff returns the same as the reference, call by call: pixels, coordinates, name, attrs, warnings, errors."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import swath
from agreement import attempt, disagreement
from deliberate import READ
from sample_layouts import all_layouts
from sample_metadata import all_metadata
from samples import Call, Sample, spell

SAMPLES = [*all_layouts(), *all_metadata()]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sample], Path]:
    """Writes a sample on first use."""
    folder = tmp_path_factory.mktemp("samples")
    done: dict[str, Path] = {}

    def make(sample: Sample) -> Path:
        if sample.id not in done:
            path = folder / f"{sample.id.replace(' ', '_')}.tif"
            sample.make(path)
            done[sample.id] = path
        return done[sample.id]

    return make


def ignored(sample: Sample, call: Call) -> frozenset[str]:
    """The deliberate differences for this call of this sample."""
    label = f"{sample.id}: {spell(call)}"
    return frozenset(what for entry in READ if fnmatch.fnmatchcase(label, entry.call) for what in entry.what)


def test_every_sample_has_its_own_name() -> None:
    assert len({sample.id for sample in SAMPLES}) == len(SAMPLES)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
def test_same_answer(sample: Sample, made: Callable[[Sample], Path], reference: ModuleType) -> None:
    path = str(made(sample))
    wrong = []
    for call in sample.calls:
        ours = attempt(lambda call=call: swath.open_geotiff(path, **call).load())
        theirs = attempt(lambda call=call: reference.open_geotiff(path, **call).load())
        found = disagreement(ours, theirs, ignore=ignored(sample, call))
        wrong += [f"open_geotiff({spell(call)})\n      {line}" for line in found]
    assert not wrong, "ours / theirs:\n" + "\n".join(wrong)


def test_every_listed_difference_is_one(made: Callable[[Sample], Path], reference: ModuleType) -> None:
    """An entry of the table that is no longer needed could hide defects."""
    idle = []
    for entry in READ:
        live = False
        for sample in SAMPLES:
            for call in sample.calls:
                if live or not fnmatch.fnmatchcase(f"{sample.id}: {spell(call)}", entry.call):
                    continue
                path = str(made(sample))
                ours = attempt(lambda path=path, call=call: swath.open_geotiff(path, **call).load())
                theirs = attempt(lambda path=path, call=call: reference.open_geotiff(path, **call).load())
                live = bool(disagreement(ours, theirs))
        if not live:
            idle.append(entry.call)
    assert not idle, f"these calls agree with the reference: {idle}"
