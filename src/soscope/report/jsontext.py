# SPDX-License-Identifier: Apache-2.0
"""Small JSON documents, without the standard module: that imports `re` and `enum`.

For an answer that takes ten milliseconds, eight more would be spent on importing a decoder.
"""

from __future__ import annotations


def dumps(value: object) -> str:
    """Return `value` as JSON text, in one line and in ASCII, as json.dumps writes it.

    None, booleans, integers, floats, strings, lists, tuples, and dictionaries with strings for
    keys. What is no number ("nan", "inf", "-inf") becomes a string: JSON has no word for it.
    Raises TypeError for everything else.
    """
    try:
        from _json import encode_basestring_ascii as quoted
    except ImportError:  # an interpreter without the compiled half
        from json.encoder import py_encode_basestring_ascii as quoted
    parts: list[str] = []
    _write(value, parts, quoted)
    return "".join(parts)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _write(value: object, parts: list[str], quoted: Callable[[str], str]) -> None:
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
        for at, one in enumerate(value):
            if at:
                parts.append(", ")
            _write(one, parts, quoted)
        parts.append("]")
    elif isinstance(value, dict):
        parts.append("{")
        for at, (key, one) in enumerate(value.items()):
            if not isinstance(key, str):
                raise TypeError(f"{key!r} is no name")
            parts.append(", " if at else "")
            parts.append(quoted(key) + ": ")
            _write(one, parts, quoted)
        parts.append("}")
    else:
        raise TypeError(f"{value!r} cannot be written as JSON")
