"""Writes the tables and charts of a run: docs/performance/NAME.md and its SVG files."""

import argparse
from pathlib import Path

import charts
import tables
from results import load

DOCS = Path(__file__).resolve().parents[1] / "docs" / "performance"
CHARTED = {"full read": "full-reads", "write": "writes"}


def conditions(run: dict) -> str:
    versions = ", ".join(f"{name} ({version})" for name, version in run["versions"].items())
    loads = [row["load"] for row in run["rows"]]
    busy = max(loads) > 2 * run["cores"]
    words = [
        f"{run['date'][:10]}, commit {run['commit']}, {run['cpu']}, {run['cores']} cores,",
        f"{run['memory_bytes'] / 1e9:.0f} GB, {run['system']}, Python {run['python']}.",
        f"Load average of the machine during the run: {min(loads)} to {max(loads)}",
        "(the run itself causes 1 to 2).",
        *["**Other programs kept the machine busy: only the CPU ratios of this run are reliable.**"] * busy,
        f"Contestants: {versions}.",
    ]
    words += [f"**{name} was left out**: {reason}." for name, reason in run["left_out"].items()]
    return " ".join(words)


def section(kind: str, rows: list[dict], name: str) -> list[str]:
    parts = [f"## {kind[0].upper()}{kind[1:]}"]
    if kind == "machine":
        return [*parts, tables.machine(rows)]
    if kind in CHARTED:
        chart = DOCS / f"{name}-{CHARTED[kind]}.svg"
        chart.write_text(charts.ratios(f"{kind}: times the speed of the best peer", rows))
        parts.append(f"![ratios]({chart.name})")
    if not kind.startswith(("memory", "scaling")):
        parts.append(tables.compared(rows))
    parts += ["Speed of every contestant:", tables.everyone(rows)]
    has_memory = kind.startswith("memory") or "COG" in kind and "read" not in kind
    if has_memory:
        parts += ["Peak memory over the start, MB:", tables.memories(rows)]
    if any(entry.get("file_bytes") for row in rows for entry in row["contestants"].values()):
        parts += ["File size, MB:", tables.file_sizes(rows)]
    return parts


def publish(name: str) -> Path:
    run = load(name)
    DOCS.mkdir(parents=True, exist_ok=True)
    rows = run["rows"]
    parts = [f"# Results of `make bench{'-quick' * (name == 'quick')}`", conditions(run)]
    parts += ["[How to read them](../performance.md).", "## Targets", tables.targets(rows)]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        parts += section(kind, [row for row in rows if row["kind"] == kind], name)
    failures = tables.not_timed(rows)
    if failures:
        parts += ["## Not timed", "\n".join(f"* {line}" for line in failures)]
    path = DOCS / f"{name}.md"
    path.write_text("\n\n".join(parts) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["quick", "full"])
    print(publish(parser.parse_args().name))


if __name__ == "__main__":
    main()
