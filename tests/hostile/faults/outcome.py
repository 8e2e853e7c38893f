"""What a run with a fault may leave behind."""

from __future__ import annotations

import shutil
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

State = dict[str, tuple[bytes, int]]
"""The files of a folder: contents and permissions by name."""


def state_of(folder: Path) -> State:
    """Reads all files of a folder."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def fresh(target: Path, old: Path | None) -> Path:
    """Makes the folder `target` anew: empty, or with the files of `old`."""
    shutil.rmtree(target, ignore_errors=True)
    if old is None:
        target.mkdir()
    else:
        shutil.copytree(old, target)
    return target


def difference(found: State, wanted: State) -> str:
    """Describes how two states differ; empty if they do not."""
    parts = [f"{name} is missing" for name in sorted(wanted.keys() - found.keys())]
    parts += [f"{name} was left" for name in sorted(found.keys() - wanted.keys())]
    for name in sorted(found.keys() & wanted.keys()):
        if found[name][0] != wanted[name][0]:
            parts.append(f"{name} has other contents")
        if found[name][1] != wanted[name][1]:
            parts.append(f"{name} has mode {found[name][1]:o}")
    return ", ".join(parts)


@dataclass
class Tally:
    """The results of one fault in one scenario."""

    calls: int = 0
    """The number of calls of the kind without a fault."""
    runs: Counter[str] = field(default_factory=Counter)
    """`right`: the right files; `error`: an error and the old files; `wrong`: anything else."""
    wrong: list[str] = field(default_factory=list)

    def add(self, problem: str, succeeded: bool) -> None:
        self.runs["wrong" if problem else "right" if succeeded else "error"] += 1
        if problem:
            self.wrong.append(problem)
