"""Warnings that point at the caller of this package."""

from __future__ import annotations

import os
import sys
import warnings

_HERE = os.path.join(os.path.dirname(__file__), "")


def warn(message: str, category: type[Warning]) -> None:
    """Issues a warning for the line that called this package, at any depth of calls."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
