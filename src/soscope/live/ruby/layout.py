# SPDX-License-Identifier: Apache-2.0
"""Where CRuby's structs have what is read of them, by version.

vm_core.h, iseq.h, method.h, internal/imemo.h, internal/class.h. In bytes; the same in all: of an
execution context the stack, its size in words and the innermost control frame; of a control frame
program counter, stack pointer, code, self and environment; of code its body, of a body type, size
and instructions.
"""

from __future__ import annotations

from enum import Enum


class NamesIn(Enum):
    """Where a class has its name, and what a singleton class is of."""

    TABLE = "a table of its variables"
    SHAPE = "an array of its variables"
    FIELD = "a field"


class RubyLayout:
    """The structs of one version.

    `frame` is the size of a control frame, `infos` where a body has its table of lines, `info` the
    size of an entry of that. `has_long_texts`: a string has its length in front of its text.
    """

    __slots__ = ("frame", "has_long_texts", "info", "infos", "names_in", "version")

    def __init__(
        self, version: tuple[int, int], frame: int, infos: int, info: int, names_in: NamesIn
    ) -> None:
        self.version = version
        self.frame = frame
        self.infos = infos
        self.info = info
        self.names_in = names_in
        self.has_long_texts = version >= (3, 2)


LAYOUTS = {
    layout.version: layout
    for layout in (
        RubyLayout((2, 7), 56, 120, 8, NamesIn.TABLE),
        RubyLayout((3, 0), 56, 120, 8, NamesIn.TABLE),
        RubyLayout((3, 1), 64, 120, 12, NamesIn.TABLE),
        RubyLayout((3, 2), 64, 112, 12, NamesIn.SHAPE),
        RubyLayout((3, 3), 56, 112, 12, NamesIn.FIELD),
    )
}

# Objects: flags and class, and what their kind has.
KIND = 31  # of the flags
CLASS, MODULE, STRING, ARRAY, IMEMO = 2, 3, 5, 7, 0x1A
IMEMO_SHIFT, IMEMO_MASK = 12, 15
SVAR, METHOD_ENTRY, CODE = 2, 6, 7  # kinds of imemo
SINGLETON = 1 << 12
LONG = 1 << 13  # of a string: its text lies elsewhere
SHORT_ARRAY = 1 << 13

LOCATION = 64  # of a body: path, base label, label
CODE_BODY = 16
ENTRY_OWNER = 32  # of a method entry

# Flags of an environment.
LOCAL = 0x2  # the outermost one of its method
FINISH = 0x20  # who called the function that runs code waits for it
C_FRAME = 0x80
