"""XML of sidecars and mosaics. Document types are refused, so no entity can expand and no file can be fetched."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from xml.etree.ElementTree import Element, TreeBuilder, tostring
from xml.parsers import expat

# Characters that XML 1.0 cannot represent, not even escaped.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
MAX_BYTES = 64 << 20
MAX_DEPTH = 64
MAX_NODES = 1 << 21
"""The number of elements and attributes. A mosaic of 20,000 files with three bands has about 1.2 million."""


def parse_xml(data: bytes, max_depth: int = MAX_DEPTH, max_nodes: int = MAX_NODES) -> Element:
    """Returns the root element. Raises ValueError for a DOCTYPE, in any encoding, for text that is not XML, and
    for a document that is too deep or has too many elements.
    """
    parser = expat.ParserCreate()
    parser.buffer_text = True
    builder = TreeBuilder()
    depth = nodes = 0
    too_many = f"the XML has more than {max_nodes} elements and attributes (SWATH_MAX_XML_NODES)"
    # The parser reads all attributes of an element before it reports the element. An element has one or two "<", an
    # attribute has one "=".
    if data.count(b"<") > 2 * max_nodes or data.count(b"=") > max_nodes:
        raise ValueError(too_many)

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, nodes
        depth += 1
        nodes += 1 + len(attributes)
        if depth > max_depth:
            raise ValueError(f"the XML is nested more than {max_depth} deep (SWATH_MAX_XML_DEPTH)")
        if nodes > max_nodes:
            raise ValueError(too_many)
        builder.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(name)

    def doctype(*_: object) -> None:
        raise ValueError(
            "the XML has a DOCTYPE declaration, which is refused: it can expand without end or name other files"
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ValueError(f"this is not well-formed XML: {error}") from None
    return builder.close()


def writable(text: object) -> str:
    """Returns a text without the characters that XML cannot represent; the writer escapes the others."""
    return _UNWRITABLE.sub("", str(text))


def add(parent: Element, tag: str, text: object | None = None, **attributes: object) -> Element:
    """Appends an element."""
    child = Element(tag, {name: writable(value) for name, value in attributes.items()})
    if text is not None:
        child.text = writable(text)
    parent.append(child)
    return child


def to_bytes(root: Element, prolog: str = "") -> bytes:
    """Returns the document, indented by two spaces where elements contain only elements."""
    _indent(root, "\n")
    return (prolog + tostring(root, encoding="unicode") + "\n").encode("utf-8")


def _indent(element: Element, line: str) -> None:
    children = list(element)
    if not children or (element.text and element.text.strip()):
        return
    element.text = line + "  "
    for child in children:
        _indent(child, line + "  ")
        child.tail = line + "  "
    children[-1].tail = line


def replace_file(path: str, data: bytes) -> None:
    """Writes a file atomically. A symbolic link stays, and the file that it leads to is replaced.

    The new file keeps the mode of the old one, and its owner and extended attributes as far as the system permits.
    """
    path = os.path.realpath(path)
    temporary = f"{path}.tmp-{os.urandom(16).hex()}"
    try:
        with open(temporary, "xb", opener=_private if os.path.exists(path) else None) as file:
            file.write(data)
            file.flush()
            if os.path.isfile(path):
                _keep_attributes(path, file.fileno())
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _keep_attributes(path: str, new: int) -> None:
    """Gives an open file the owner, the mode and the extended attributes of another one."""
    if not hasattr(os, "fchown"):
        return
    old = os.stat(path)
    mode = stat.S_IMODE(old.st_mode)
    with suppress(OSError):
        os.fchown(new, old.st_uid, -1)
    try:
        os.fchown(new, -1, old.st_gid)
    except OSError:
        # Another group must not get more than everyone had.
        mode &= ~0o070 | (mode & 0o007) << 3
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(path):
                with suppress(OSError):
                    os.setxattr(new, name, os.getxattr(path, name))
    os.fchmod(new, mode)
