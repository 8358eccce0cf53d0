# SPDX-License-Identifier: Apache-2.0
"""Where a block was made: a script's line, or one of C that is not its interpreter's own."""

from __future__ import annotations

import pytest

from soscope.instruments.mem.diff import place_of
from soscope.model.call import StackFrame

SOURCE = "/tmp/build.1/Python-3.11.7"


def native(image: str, file: str | None = None, line: int | None = None) -> StackFrame:
    return StackFrame(image, "f", 1, file, line)


MALLOC = native("libpython3.11.so", f"{SOURCE}/Objects/obmalloc.c", 2023)
CALL = native("libpython3.11.so", f"{SOURCE}/Objects/call.c", 214)
SCRIPT = StackFrame(None, "grow", None, "grow.py", 5)
OUTER = native("libpython3.11.so", f"{SOURCE}/Python/ceval.c", 1134)
CTYPES = native("_ctypes.so", f"{SOURCE}/./Modules/_ctypes/callproc.c", 918)
MAIN = native("python3.11", f"{SOURCE}/Programs/python.c", 15)


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([MALLOC, SCRIPT, OUTER, MAIN], ("grow.py", 5)),
        ([native("libc.so.6"), MALLOC, CALL, SCRIPT, OUTER], ("grow.py", 5)),
        ([native("ext.so"), native("libffi.so.8"), CTYPES, CALL, SCRIPT, OUTER], ("grow.py", 5)),
        ([native("ext.so", "/src/ext.c", 7), CTYPES, CALL, SCRIPT, OUTER], ("/src/ext.c", 7)),
        ([native("libstdc++.so"), native("ext.so", "/src/e.cc", 8), CALL, SCRIPT, OUTER],
         ("/src/e.cc", 8)),
        ([MALLOC, OUTER, MAIN], (f"{SOURCE}/Objects/obmalloc.c", 2023)),  # nothing runs yet
        ([native("a", "Objects/a.c", 1), SCRIPT, native("a", "Python/b.c", 2)], ("grow.py", 5)),
        # a header of another tree says nothing of where its source lies
        ([native("e.so", "/src/e.c", 9), SCRIPT, OUTER, native("libpython3.11.so", "/u/a.h", 1)],
         ("/src/e.c", 9)),
        ([SCRIPT], ("grow.py", 5)),
    ],
)  # fmt: skip
def test_the_innermost_line_of_the_program(
    frames: list[StackFrame], expected: tuple[str, int]
) -> None:
    assert place_of("malloc", tuple(frames)) == (*expected, "malloc")
