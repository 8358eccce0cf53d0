# SPDX-License-Identifier: Apache-2.0
"""JSON documents. Small ones are written without the standard module.

That module imports `re` and `enum`. For an answer that takes ten milliseconds, eight more would
go into importing a decoder.
"""

from __future__ import annotations

try:
    from _json import encode_basestring_ascii as quoted
except ImportError:  # an interpreter without the compiled module
    from json.encoder import py_encode_basestring_ascii as quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("dumps", "json_document", "quoted")


def dumps(value: object) -> str:
    """Return `value` as JSON text, in one line and in ASCII, as json.dumps writes it.

    `value` may consist of None, booleans, integers, floats, strings, lists, tuples, and
    dictionaries with strings as keys. NaN and infinities become the strings "nan", "inf" and
    "-inf", as JSON does not have them. Raises TypeError for other types.
    """
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts)


def _write(value: object, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(quoted(value))
    elif value is None:
        parts.append("null")
    elif isinstance(value, bool):
        parts.append("true" if value else "false")
    elif isinstance(value, int):
        parts.append(int.__repr__(value))
    elif isinstance(value, float):
        text = float.__repr__(value)
        parts.append(text if value - value == 0 else quoted(text))
    elif isinstance(value, list | tuple):
        parts.append("[")
        for at, item in enumerate(value):
            if at:
                parts.append(", ")
            _write(item, parts)
        parts.append("]")
    elif isinstance(value, dict):
        parts.append("{")
        for at, (key, item) in enumerate(value.items()):
            if not isinstance(key, str):
                raise TypeError(f"{key!r} is no name")
            parts.append(", " if at else "")
            parts.append(quoted(key) + ": ")
            _write(item, parts)
        parts.append("}")
    else:
        raise TypeError(f"{value!r} cannot be written as JSON")


def json_document(value: Mapping[str, object]) -> str:
    """Return a JSON document for a file or a pipe. Its schema is the first field of `value`."""
    import json

    return json.dumps(value, indent=1) + "\n"
