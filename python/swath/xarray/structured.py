"""Lists and dicts in attrs that netCDF and Zarr can store.

Both refuse attributes that are dicts or nested lists. They treat `Structured` as text, while Python code uses it as
the list or dict that it holds. A file returns the plain text, which `value_of` converts to the list again.
"""

from __future__ import annotations

import json
from typing import Any


class Structured(str):
    """A list or dict with a text form. It compares, iterates and indexes like its value; callers must not change it."""

    value: Any

    def __new__(cls, value: Any, text: str | None = None) -> Structured:
        """The text is JSON by default."""
        made = super().__new__(cls, json.dumps(value, default=_plain) if text is None else text)
        made.value = value
        return made

    def __getitem__(self, key: Any) -> Any:
        return self.value[key]

    def __iter__(self) -> Any:
        return iter(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __contains__(self, key: object) -> bool:
        return key in self.value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Structured):
            return bool(self.value == other.value)
        return str.__eq__(self, other) if isinstance(other, str) else bool(self.value == other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __repr__(self) -> str:
        return repr(self.value)

    def __reduce__(self) -> tuple[Any, ...]:
        return Structured, (self.value, str.__str__(self))

    def __getattr__(self, name: str) -> Any:
        # Forwards keys, values, items and get to the dict. Python calls this only for names that str does not have, so
        # methods such as index and count stay those of str.
        if name in ("keys", "values", "items", "get"):
            return getattr(self.value, name)
        raise AttributeError(f"'Structured' object has no attribute {name!r}")


def value_of(attribute: Any) -> Any:
    """Returns the list or dict of an attribute, also from its JSON text after a round trip through a file."""
    if isinstance(attribute, Structured):
        return attribute.value
    if isinstance(attribute, str):
        try:
            return json.loads(attribute)
        except ValueError:
            return attribute
    return attribute


def _plain(value: Any) -> Any:
    """Converts values without a JSON form: the bytes of a tag."""
    if isinstance(value, bytes):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
