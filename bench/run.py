"""Compares Swath with other programs and writes the tables and charts of docs/performance.md.

Every contestant runs in its own process; all run in turns, so that other load on the machine affects all of them; the
minimum of the rounds counts. docs/performance.md describes the rows.
"""

import argparse
import re
import time
from pathlib import Path

import results
import rows as all_rows
from files import Folder
from publish import publish
from race import Limits, Race


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, required=True, help="folder in which the benchmark keeps its files")
    parser.add_argument("--quick", action="store_true", help="smaller images, fewer rows, fewer rounds")
    parser.add_argument("--tiny", action="store_true", help="tiny images, to try the harness; saves nothing")
    parser.add_argument("--max-size", type=int, default=4300, metavar="MB", help="largest image of the scaling rows")
    parser.add_argument("--only", default="", metavar="REGEX", help="only rows whose 'kind, title' matches")
    parser.add_argument("--who", default="", metavar="REGEX", help="only contestants whose name matches, and Swath")
    parser.add_argument("--threads", type=int, help="only rows with this number of threads")
    arguments = parser.parse_args()

    start = time.perf_counter()
    folder = Folder(arguments.dir.resolve())
    size = all_rows.TINY if arguments.tiny else all_rows.QUICK if arguments.quick else all_rows.FULL
    make = all_rows.Rows(folder, size)
    rows = all_rows.quick(make) if arguments.quick else all_rows.full(make, arguments.max_size * 1_000_000)
    rows = [row for row in rows if re.search(arguments.only, f"{row.kind}, {row.title}")]
    rows = [row for row in rows if arguments.threads in (None, row.job.threads)]
    for row in rows:
        row.contestants = [name for name in row.contestants if name == "Swath" or re.search(arguments.who, name)]
    race = Race(folder, Limits(0.5, 3, 9, 2, 1) if arguments.quick or arguments.tiny else Limits())
    measured = []
    for row in rows:
        measured.append(race.run(row))
        print(results.line(measured[-1]), flush=True)
    race.close()
    print(f"{time.perf_counter() - start:.0f} s")
    if not (arguments.tiny or arguments.only or arguments.who or arguments.threads):
        name = "quick" if arguments.quick else "full"
        print(results.save(name, race, measured))
        print(publish(name))


if __name__ == "__main__":
    main()
