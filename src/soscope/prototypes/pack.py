# SPDX-License-Identifier: Apache-2.0
"""Make the compiled file that compiled.py reads."""

from __future__ import annotations

import marshal
import os
from contextlib import suppress
from typing import Any

from soscope.prototypes import compiled
from soscope.prototypes.row import AutomatonParts, Details

_MARSHAL_VERSION = 4  # the format since Python 3.4; later versions read it, too


def packed(
    tables: tuple[bytes, bytes, bytes],
    automata: tuple[AutomatonParts, ...],
    details: Details,
    groups: dict[str, AutomatonParts],
    preamble: str,
    families: tuple[tuple[int, AutomatonParts], ...],
) -> bytes:
    """Return the contents of a compiled file."""
    packed_rows = [marshal.dumps(_shared(row, {}), _MARSHAL_VERSION) for row in details[0]]
    parts = (
        *tables,
        marshal.dumps(automata, _MARSHAL_VERSION),
        # Share equal strings and tuples, because marshal recognises them by identity.
        marshal.dumps((packed_rows, *_shared(details[1:], {})), _MARSHAL_VERSION),
        marshal.dumps(groups, _MARSHAL_VERSION),
        preamble.encode(),
        marshal.dumps(families, _MARSHAL_VERSION),
    )
    offsets = []
    offset = compiled.HEADER.size
    for part in parts:
        offsets += [offset, len(part)]
        offset += len(part)
    return b"".join((compiled.HEADER.pack(compiled.MAGIC, *offsets), *parts))


def write(path: str, content: bytes) -> None:
    """Write a compiled file completely or not at all. Raises OSError."""
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):  # it may not exist; the first error tells why
            os.unlink(temporary)
        raise


def _shared(value: Any, known: dict[tuple[type, str], Any]) -> Any:
    if isinstance(value, list):
        return [_shared(element, known) for element in value]
    if isinstance(value, dict):
        return {_shared(key, known): _shared(held, known) for key, held in value.items()}
    if isinstance(value, tuple):
        value = tuple(_shared(element, known) for element in value)
    # As True == 1 and (True,) == (1,), type and text are part of the key.
    return known.setdefault((type(value), repr(value)), value)
