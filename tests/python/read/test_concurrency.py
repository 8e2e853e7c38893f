"""Threads, processes and forks that read at the same time."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import numpy as np
import pytest
import tifffile

from swath.read.nodata import Finish
from swath.read.pixels import Pixels
from swath.read.plan import ReadPlan
from swath.read.source import Handle, open_source
from swath.read.windows import read_windows

STARTS = ["fork", "spawn"] if sys.platform.startswith("linux") else ["spawn"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("concurrency")
    rng = np.random.default_rng(1)
    made = {}
    for number in range(8):
        pixels = rng.integers(0, 60000, (256, 320)).astype(np.uint16)
        tifffile.imwrite(folder / f"{number}.tif", pixels, tile=(64, 64), compression="zlib", predictor=True)
        made[str(folder / f"{number}.tif")] = pixels
    return made


def jobs_of(files, count, seed):
    rng = np.random.default_rng(seed)
    jobs = []
    for _ in range(count):
        top, left = int(rng.integers(0, 256 - 40)), int(rng.integers(0, 320 - 50))
        jobs.append((str(rng.choice(list(files))), (top, left, top + 40, left + 50)))
    return jobs


def expected_of(files, jobs):
    return np.array([files[path][w[0] : w[2], w[1] : w[3]] for path, w in jobs])


def pixels_of(path):
    dtype = np.dtype(np.uint16)
    return Pixels(Handle(path), ReadPlan((0, 0, 256, 320), 0, (0,), True, Finish(dtype, dtype)))


def read_part(pixels, seed):
    """Reads, in a worker, a window of the pickled object."""
    top = seed * 7 % 200
    return top, pixels[top : top + 30, 5:300]


def test_many_threads_read_one_opened_file(files):
    path, expected = next(iter(files.items()))
    pixels = pixels_of(path)
    with ThreadPoolExecutor(16) as pool:
        for top, part in pool.map(lambda seed: read_part(pixels, seed), range(200)):
            assert (part == expected[top : top + 30, 5:300]).all()


def test_many_threads_read_one_file_object(files):
    path, expected = next(iter(files.items()))
    with open(path, "rb") as source:
        file = open_source(source)

        def read(_):
            out = np.empty(expected.shape, expected.dtype)
            file.read_into(out)
            return (out == expected).all()

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read, range(32)))


def test_thread_pool_reads_windows_of_many_files(files):
    batches = [jobs_of(files, 20, seed) for seed in range(24)]
    with ThreadPool(8) as pool:
        for jobs, got in zip(batches, pool.map(read_windows, batches), strict=True):
            assert (got == expected_of(files, jobs)).all()


def test_handle_used_by_many_threads_at_once_is_opened_once(files):
    handle = pickle.loads(pickle.dumps(Handle(next(iter(files)))))
    ready = threading.Barrier(12)

    def use(_):
        ready.wait()
        return handle.file()

    with ThreadPoolExecutor(12) as pool:
        assert len({id(file) for file in pool.map(use, range(12))}) == 1


@pytest.mark.parametrize("start", STARTS)
def test_processes_read_after_the_parent_has_read(files, start):
    path, expected = next(iter(files.items()))
    pixels = pixels_of(path)
    assert (pixels[:, :] == expected).all()
    batches = [jobs_of(files, 20, seed) for seed in range(4)]
    assert (read_windows(batches[0]) == expected_of(files, batches[0])).all()
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(start)) as pool:
        for top, part in pool.map(read_part, [pixels] * 6, range(6)):
            assert (part == expected[top : top + 30, 5:300]).all()
        for jobs, got in zip(batches, pool.map(read_windows, batches), strict=True):
            assert (got == expected_of(files, jobs)).all()
    assert (pixels[:, :] == expected).all()


def child_reads(pixels, file, jobs, answer):
    out = np.empty((256, 320), np.uint16)
    file.read_into(out)
    answer.send((out.sum(), pixels[:, :].sum(), read_windows(jobs).sum()))


@pytest.mark.skipif("fork" not in STARTS, reason="this system does not fork")
def test_fork_while_other_threads_read(files):
    """A forked child has only the thread that forked it: the engine must not wait for the other threads."""
    path, expected = next(iter(files.items()))
    pixels, file, jobs = pixels_of(path), open_source(path), jobs_of(files, 30, 3)
    total = expected.sum(), expected.sum(), expected_of(files, jobs).sum()
    stop = threading.Event()

    def keep_reading(seed):
        far = pickle.loads(pickle.dumps(pixels))
        while not stop.is_set():
            read_windows(jobs_of(files, 10, seed))
            assert far[10, 10] == expected[10, 10]

    threads = [threading.Thread(target=keep_reading, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    context = multiprocessing.get_context("fork")
    try:
        for _ in range(8):
            here, there = context.Pipe()
            child = context.Process(target=child_reads, args=(pixels, file, jobs, there))
            child.start()
            assert here.poll(20), "the forked child does not answer"
            assert here.recv() == total
            child.join(20)
            assert child.exitcode == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_reading_lets_other_threads_run(tmp_path):
    """The engine releases the GIL while it decodes pixels."""
    path = tmp_path / "large.tif"
    pixels = np.random.default_rng(0).integers(0, 50, (3000, 3000)).astype(np.uint16)
    tifffile.imwrite(path, pixels, tile=(256, 256), compression="zlib")
    file, out = open_source(path), np.empty(pixels.shape, np.uint16)
    done, ticks = threading.Event(), 0

    def read():
        for _ in range(3):
            file.read_into(out, threads=1)
        done.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(10)  # The switch interval is long, so another thread runs only when the GIL is released.
    try:
        thread = threading.Thread(target=read)
        thread.start()
        while not done.wait(0.001):
            ticks += 1
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert ticks > 20
    assert (out == pixels).all()
