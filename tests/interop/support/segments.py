"""The blocks of a file as they are stored."""

from pathlib import Path

import tifffile


def segments(path: Path, page: int = 0) -> list[bytes]:
    """The bytes of every tile or strip of a page, in the order of its table; those of a sparse block are empty."""
    with tifffile.TiffFile(path) as tif:
        found = tif.pages[page]
        handle = tif.filehandle
        blocks = []
        for offset, length in zip(found.dataoffsets, found.databytecounts, strict=True):
            handle.seek(offset)
            blocks.append(handle.read(length))
        return blocks
