"""The faults of the campaign, and the numbers of the calls that fail."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SHORT = -1
"""Not an error: only a part of the bytes is transferred."""


@dataclass(frozen=True)
class Fault:
    """Calls of one kind fail in one way: once, or from one call on."""

    kind: str
    error: int
    stays: bool = False

    @property
    def name(self) -> str:
        error = "short" if self.error == SHORT else errno.errorcode[self.error]
        return f"{self.kind} {error}{' from then on' if self.stays else ''}"


FAULTS = (
    Fault("read", errno.EIO),
    Fault("read", errno.EINTR),
    Fault("read", SHORT),
    Fault("write", errno.ENOSPC),
    Fault("write", errno.ENOSPC, stays=True),
    Fault("write", errno.EIO),
    Fault("write", errno.EINTR),
    Fault("write", SHORT),
    Fault("sync", errno.EIO),
    Fault("sync", errno.ENOSPC),
    Fault("name", errno.EIO),
    Fault("name", errno.ENOSPC),
    Fault("open", errno.EIO),
    Fault("open", errno.EMFILE),
    Fault("open", errno.EMFILE, stays=True),
    Fault("space", errno.ENOSPC),
    Fault("space", errno.EOPNOTSUPP),
    Fault("status", errno.EIO),
    Fault("attribute", errno.EPERM),
    Fault("attribute", errno.EIO),
    Fault("memory", errno.ENOMEM),
    Fault("memory", errno.ENOMEM, stays=True),
    Fault("thread", errno.EAGAIN),
    Fault("thread", errno.EAGAIN, stays=True),
    Fault("network", errno.ECONNRESET),
    Fault("network", errno.EINTR),
    Fault("network", SHORT),
)


def numbers(calls: int, most: int | None) -> Iterator[int]:
    """The calls to fail: all, or `most` of them spread from the first to the last."""
    # The number of calls differs between runs, because threads share the work. Two more make sure that the last fails.
    last = calls + 2
    if most is None or last <= most:
        yield from range(1, last + 1)
        return
    yield from sorted({1 + round(i * (last - 1) / max(most - 1, 1)) for i in range(most)})


def build(folder: Path) -> Path:
    """Compiles the library that injects faults. Only Linux has what it needs."""
    if sys.platform != "linux":
        raise RuntimeError("faults are injected with LD_PRELOAD, on Linux only: NO FAULT WAS TRIED")
    made = folder / "inject.so"
    source = Path(__file__).with_name("inject.c")
    subprocess.run(["cc", "-O2", "-Wall", "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made
