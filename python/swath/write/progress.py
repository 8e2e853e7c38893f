"""Progress of a write."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int, int], object]


@contextmanager
def shown(progress: bool | Progress | None, size: int) -> Iterator[Progress | None]:
    """Returns the callback for a write of `size` bytes of pixels:

    None, the user's, or a bar on stderr that is removed at the end.
    """
    if progress is None or progress is False:
        yield None
    elif callable(progress):
        yield _in_bytes(progress, size)
    elif progress is True:
        bar = _tqdm()
        if bar is None:
            yield _percent
            sys.stderr.write("\n")
        else:
            with bar:
                yield _in_bytes(_steps_of(bar), size)
    else:
        raise TypeError(f"progress must be True, False, None or a callable, got {type(progress).__name__}")


def _in_bytes(show: Progress, size: int) -> Progress:
    """Converts the engine's count of rows to bytes."""
    return lambda done, total: show(size * done // max(total, 1), size)


def _tqdm() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(unit="B", unit_scale=True, unit_divisor=1024, leave=False)


def _steps_of(bar: Any) -> Progress:
    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return show


def _percent(done: int, total: int) -> None:
    sys.stderr.write(f"\r{100 * done // max(total, 1):3d} %")
    sys.stderr.flush()
