"""`swath bench --device sim`: what batching buys where every read and every transfer takes 1 ms."""

import json

import pytest

from binary import Swath

TILES = 256
# 256 reads with 8 under way take 32 ms, and one transfer 1 ms, against 512 ms: a ratio of 15. A busy machine wakes
# sleepers late, so that only the order of magnitude can be asserted; the times are printed.
LEAST_RATIO = 4.0


def test_batches_cost_a_fraction_of_single_tiles(swath: Swath) -> None:
    measured = json.loads(swath.succeed("bench", "--device", "sim", "--repeat", 3, "--json", timeout=120.0).stdout)
    assert measured["tiles"] == TILES and measured["tile_bytes"] == 16384 and measured["in_flight"] == 8
    for way in ("read", "back"):
        one_by_one, batched, ratio = (measured[way][key] for key in ("one_by_one", "batched", "ratio"))
        print(f"{way}: {one_by_one['ms']:.1f} ms one by one, {batched['ms']:.1f} ms batched, {ratio:.1f} times")
        assert ratio >= LEAST_RATIO
        # Never faster than what is simulated, or nothing is simulated.
        waits = 2 * TILES if way == "read" else TILES
        assert one_by_one["ms"] >= waits and batched["ms"] >= (TILES / 8 + 1 if way == "read" else 1)
        transfers = "uploads" if way == "read" else "downloads"
        other = "downloads" if way == "read" else "uploads"
        assert (one_by_one[transfers], one_by_one[other], one_by_one["synchronisations"]) == (TILES, 0, TILES)
        assert (batched[transfers], batched[other], batched["synchronisations"]) == (1, 0, 1)


def test_table_says_that_it_is_simulated(swath: Swath) -> None:
    out = swath.succeed("bench", "--device=sim", "--repeat", 1, timeout=120.0).stdout
    assert "Simulated" in out and "No GPU" in out


@pytest.mark.parametrize(
    "args",
    [["bench"], ["bench", "--device", "cpu"], ["bench", "scene.tif", "--device", "sim"],
     ["bench", "--device", "sim", "--windows", "3"], ["read", "a.tif", "b.npy", "--device", "sim"]],
    ids=" ".join,
)  # fmt: skip
def test_misuse_is_exit_code_2(args: list[str], swath: Swath) -> None:
    run = swath.run(*args)
    assert run.code == 2 and len(run.stderr.splitlines()) == 1, run.stderr
