# SPDX-License-Identifier: Apache-2.0
"""Say what the interpreter itself knows of the lines of many code objects: one JSON document.

The code is that of the standard library's files that are named, found beside `os`. Of each code
object: line table in hex, first line, length, and [first offset, line] wherever the line changes,
as `dis` (3.9) or `co_lines` say; from 3.11 on that is compared with `co_positions` first.
"""

from __future__ import annotations

import dis
import json
import os
import sys
import types
from collections.abc import Iterator
from typing import Any


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested(constant)


def changes(code: Any) -> list[tuple[int, int | None]]:
    if sys.version_info < (3, 10):  # noqa: UP036  older ones run this, too
        return [(offset, line) for offset, line in dis.findlinestarts(code)]
    if sys.version_info >= (3, 11):  # noqa: UP036  older ones run this, too
        lines = [line for start, end, line in code.co_lines() for _ in range(start, end, 2)]
        assert lines == [position[0] for position in code.co_positions()], code
    return [(start, line) for start, _, line in code.co_lines()]


rows = []
library = os.path.dirname(os.__file__)
for name in sys.argv[1:]:
    path = os.path.join(library, name)
    if not os.path.exists(path):
        continue  # other versions have other modules
    with open(path, encoding="utf-8") as file:
        module = compile(file.read(), path, "exec", dont_inherit=True)
    for code in nested(module):
        table = code.co_lnotab if sys.version_info < (3, 10) else code.co_linetable
        rows.append((table.hex(), code.co_firstlineno, len(code.co_code), changes(code)))
json.dump({"version": sys.version_info[:2], "rows": rows}, sys.stdout)
