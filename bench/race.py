"""Starts one process per contestant and lets them run a row in turns. The minimum of the rounds counts."""

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from contestants import CONTESTANTS, Contestant
from files import File, Folder
from job import Job
from written import difference

FOLDER = Path(__file__).resolve().parent
RUST_PEERS = FOLDER / "rust-peers" / "target" / "release" / "rust-peers"
TIMEOUT = 600.0
NO_CACHE = {"SWATH_CACHE_BYTES": "0", "GDAL_CACHEMAX": "10"}
"""Swath's cache is off. GDAL needs one; 10 MB hold the blocks under one window."""
SLOW = 2.0
"""A peer that needs this many times the wall time and the CPU time of the fastest peer does not run again. Both count:
other programs on the machine can double the wall time of one round."""
BY_NAME = {contestant.name: contestant for contestant in CONTESTANTS}


@dataclass
class Row:
    """One comparison: the contestants do the same job."""

    kind: str
    title: str
    job: Job
    contestants: list[str]
    amount: float
    """Bytes or files that one run handles; the speed is this divided by the time."""
    unit: str = "MB/s"
    fresh: bool = False
    """Whether each run has a new process. It costs an import, and the memory of earlier runs does not count."""
    raster: tuple[str, int, int] = ("dem", 256, 256)
    """Name, width and height of the pixels that a write must store."""
    overviews: bool = False
    uncached: bool = False
    """Whether the contestants run without a cache of decoded blocks."""
    files: list[File] = field(default_factory=list)
    """Files to write first if they are missing. The first one is the file that the job reads or whose codec it uses."""


@dataclass
class Limits:
    """How often a row is repeated: until the time is used up, within these numbers of rounds."""

    seconds: float = 10.0
    least: int = 5
    most: int = 15
    least_writes: int = 3
    fresh: int = 3


class Worker:
    """A process that runs jobs for one contestant."""

    def __init__(self, contestant: Contestant, pin: bool, uncached: bool) -> None:
        argv = [sys.executable, str(FOLDER / "worker.py"), contestant.module] + ["--pin"] * pin
        if contestant.rust:
            argv = [str(RUST_PEERS), contestant.module]
        # What libraries print is shown only if the process ends unexpectedly.
        self.noise = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lives as long as the process
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.noise}
        environment = os.environ | (NO_CACHE if uncached else {})
        self.process = subprocess.Popen(argv, text=True, bufsize=1, env=environment, **pipes)
        self.hello = self.answer()

    def ask(self, job: Job, check: bool = False) -> dict:
        try:
            print(json.dumps(asdict(job) | {"check": check}), file=self.process.stdin, flush=True)
        except OSError as error:
            return {"failed": f"the process has ended: {error}"}
        return self.answer()

    def answer(self) -> dict:
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        self.process.kill()
        self.noise.seek(0)
        return {"failed": (self.noise.read().strip() or "no answer")[-300:]}

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.noise.close()


@dataclass
class Entry:
    """What one contestant did in a row."""

    note: str = ""
    """Why it did not run, or why its result does not count."""
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    file_bytes: int = 0


class Race:
    """Keeps the processes between rows."""

    def __init__(self, folder: Folder, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        self.workers: dict[tuple[str, bool, bool], Worker] = {}
        self.absent: dict[str, str] = {}
        self.versions: dict[str, str] = {}

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()

    def start(self, name: str, row: Row) -> Worker | None:
        """A new process, unless an earlier one reported that the contestant is not installed."""
        contestant = BY_NAME[name]
        if name in self.absent:
            return None
        if contestant.rust and not RUST_PEERS.exists():
            self.leave_out(name, "bench/rust-peers is not built")
            return None
        worker = Worker(contestant, contestant.pin and row.job.threads == 1, row.uncached)
        if "version" not in worker.hello:
            self.leave_out(name, str(worker.hello))
            worker.close()
            return None
        if contestant.role == "swath" and name not in self.versions:
            print(f"{name}: {worker.hello.get('origin', '')}", flush=True)
        self.versions[name] = worker.hello["version"]
        return worker

    def leave_out(self, name: str, reason: str) -> None:
        self.absent[name] = reason
        print(f"*** {name} IS LEFT OUT: {reason}", flush=True)

    def worker(self, name: str, row: Row) -> Worker | None:
        key = (name, BY_NAME[name].pin and row.job.threads == 1, row.uncached)
        if key not in self.workers or self.workers[key].process.poll() is not None:
            started = self.start(name, row)
            if started is None:
                return None
            self.workers[key] = started
        return self.workers[key]

    def run(self, row: Row) -> dict:
        """Checks every contestant, then lets them run in turns."""
        for file in row.files:
            self.folder.write(file)
            self.folder.mean_error(file)
        if row.files:
            row.job.mean_error = self.folder.mean_error(row.files[0])
        entries = {name: Entry() for name in row.contestants}
        load = os.getloadavg()[0]
        (self.run_fresh if row.fresh else self.run_kept)(row, entries)
        found = {name: vars(entry) for name, entry in entries.items() if entry.seconds or entry.note}
        for name, entry in entries.items():
            if entry.note and not entry.note.startswith("unsupported") and name not in self.absent:
                print(f"*** {row.kind}, {row.title}: {name}: {entry.note:.120}", flush=True)
        head = {"kind": row.kind, "title": row.title, "threads": row.job.threads, "amount": row.amount}
        return head | {"unit": row.unit, "load": round(load, 2), "contestants": found}

    def run_kept(self, row: Row, entries: dict[str, Entry]) -> None:
        running = []
        is_write = bool(row.job.target)
        for name, entry in entries.items():
            worker = self.worker(name, row)
            if worker is None:
                entry.note = f"absent: {self.absent[name]}"
                continue
            answer = worker.ask(self.job_of(row), check=True)
            # A write is checked after it ran, so its first run counts.
            self.note(entry, answer, row, check=BY_NAME[name].role != "limit", keep=is_write)
            if not entry.note:
                running.append(name)
        end = time.perf_counter() + self.limits.seconds
        least = self.limits.least_writes - 1 if is_write else self.limits.least
        for round_number in range(self.limits.most):
            if round_number >= least and time.perf_counter() > end:
                break
            for name in list(running):
                self.note(entries[name], self.worker(name, row).ask(self.job_of(row)), row, check=False)
                if entries[name].note:
                    running.remove(name)
            running = without_slow_peers(running, entries)

    def run_fresh(self, row: Row, entries: dict[str, Entry]) -> None:
        for _ in range(self.limits.fresh):
            for name, entry in entries.items():
                worker = None if entry.note else self.start(name, row)
                if worker is None:
                    entry.note = entry.note or f"absent: {self.absent[name]}"
                    continue
                worker.ask(self.warm_up(row))
                first = not entry.seconds and BY_NAME[name].role != "limit"
                self.note(entry, worker.ask(self.job_of(row)), row, check=first)
                worker.close()

    def job_of(self, row: Row) -> Job:
        """Touches the files first, so that no header cached by an earlier round serves this one."""
        for path in row.job.paths or [row.job.path] * bool(row.job.path):
            past = os.stat(path).st_mtime_ns - 1_000_000_001
            os.utime(path, ns=(past, past))
        return row.job

    def warm_up(self, row: Row) -> Job:
        """The same job with a small image, so that late imports and compilations do not count."""
        if not row.job.target:
            return replace(row.job, path=str(self.folder.small_files()[0]))
        small = (row.raster[0], 512, 512)
        self.folder.pixels(*small)
        return replace(row.job, source=str(self.folder.source(*small)))

    def note(self, entry: Entry, answer: dict, row: Row, check: bool = True, keep: bool = True) -> None:
        """Stores a measurement, or the reason why there is none. A wrong file does not count."""
        for reason in ("unsupported", "wrong", "failed"):
            if reason in answer:
                # The folder of the files differs from machine to machine.
                entry.note = f"{reason}: {answer[reason]}".replace(f"{self.folder.path}/", "")
                return
        written = Path(row.job.target)
        if row.job.target and written.exists():
            if check:
                wrong = difference(written, self.folder.pixels(*row.raster), row.overviews)
                entry.note = f"wrong: {wrong}" if wrong else ""
            entry.file_bytes = written.stat().st_size
            written.unlink()
        if keep and not entry.note:
            entry.seconds.append(answer["seconds"])
            entry.cpu.append(answer["cpu"])
            entry.memory.append(answer.get("memory", 0))


def without_slow_peers(running: list[str], entries: dict[str, Entry]) -> list[str]:
    peers = [entries[name] for name in running if BY_NAME[name].role == "peer"]
    if not peers:
        return running
    seconds, cpu = (SLOW * min(min(getattr(entry, key)) for entry in peers) for key in ("seconds", "cpu"))

    def is_slow(name: str) -> bool:
        entry = entries[name]
        return BY_NAME[name].role == "peer" and min(entry.seconds) > seconds and min(entry.cpu) > cpu

    return [name for name in running if not is_slow(name)]
