"""The fault campaign: every call of the system that Swath makes fails once.

    python tests/hostile/faults/campaign.py           all calls; writes the table of docs/faults.md
    python tests/hostile/faults/campaign.py --most 5  five calls of each kind
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults import command
from faults.outcome import Tally
from faults.plan import FAULTS, build
from faults.server import serving

Row = tuple[str, str, Tally]
HOSTILE = Path(__file__).resolve().parents[1]
DOCUMENT = HOSTILE.parents[1] / "docs" / "faults.md"


def of_command(binary: Path, folder: Path, most: int | None, *only: str) -> Iterator[Row]:
    """Yields scenario, fault and outcome of the command, for all scenarios or only for these."""
    runner = command.Runner(binary, build(folder), _made(folder / "command"))
    for scenario in command.SCENARIOS:
        if only and scenario.name not in only:
            continue
        for fault in FAULTS:
            if (scenario.name, fault.kind) not in command.EXCLUDED:
                yield scenario.name, fault.name, runner.run(scenario, fault, most)


def of_python(folder: Path, most: int | None, *only: str) -> Iterator[Row]:
    """Yields scenario, fault and outcome of the Python package, for all scenarios or only for these."""
    library, source = build(folder), _made(folder / "source") / "in.tif"
    command.image(source, 1)
    with serving(source.parent) as url:
        work = _made(folder / "python")
        arguments = [work, source, f"{url}/in.tif", most or 0, *only]
        variables = {"LD_PRELOAD": str(library), "SWATH_ALLOW_PRIVATE_HOSTS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "faults.in_python", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables},
            cwd=HOSTILE,
        )
        assert process.stdout is not None and process.stderr is not None
        last = "the start"
        for line in process.stdout:
            row = json.loads(line)
            last = f"{row['scenario']}, {row['fault']}"
            tally = Tally(row["calls"], wrong=row["wrong"])
            tally.runs.update(row["runs"])
            yield row["scenario"], row["fault"], tally
        errors = process.stderr.read()
        if process.wait() != 0:
            raise AssertionError(f"Python ended with {process.returncode} after {last}: {errors[-3000:]}")


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def table(rows: list[Row]) -> str:
    """Returns the outcome of each kind of call in each scenario as Markdown."""
    total: dict[tuple[str, str], Tally] = {}
    for scenario, fault, tally in rows:
        kind = total.setdefault((scenario, fault.split()[0]), Tally())
        kind.calls = max(kind.calls, tally.calls)
        kind.runs += tally.runs
    lines = ["| scenario | kind | calls | runs | right result | error, old files |", "|---" * 6 + "|"]
    for (scenario, kind), tally in total.items():
        if tally.calls:
            runs, right, error = tally.runs.total(), tally.runs["right"], tally.runs["error"]
            lines.append(f"| {scenario} | {kind} | {tally.calls} | {runs} | {right} | {error} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, help="calls of each kind that fail; without it, all")
    parser.add_argument("--only", action="append", default=[], help="a scenario; may be given several times")
    parser.add_argument("--binary", type=Path, default=os.environ.get("SWATH_BIN", "target/release/swath"))
    arguments = parser.parse_args()
    start, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        campaigns = (
            of_command(arguments.binary.absolute(), _made(Path(folder, "c")), arguments.most, *arguments.only),
            of_python(_made(Path(folder, "p")), arguments.most, *arguments.only),
        )
        for row in (row for campaign in campaigns for row in campaign):
            rows.append(row)
            scenario, fault, tally = row
            if tally.calls:
                print(f"{scenario:36}{fault:32}{tally.calls:5} {dict(tally.runs)}", flush=True)
            for problem in tally.wrong:
                print(f"    {problem}", flush=True)
    runs = sum(sum(tally.runs.values()) for _, _, tally in rows)
    wrong = sum(tally.runs["wrong"] for _, _, tally in rows)
    print(f"{runs} runs with a fault, {wrong} wrong, {time.monotonic() - start:.0f} s")
    if arguments.most is None and not arguments.only and not wrong:
        text = DOCUMENT.read_text()
        head = text[: text.index("| scenario |")]
        DOCUMENT.write_text(head + table(rows) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
