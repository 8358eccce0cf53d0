# SPDX-License-Identifier: Apache-2.0
"""Offsets in CRuby's structs of all that soscope reads, by version.

Sources: vm_core.h, iseq.h, method.h, internal/imemo.h, internal/class.h. Offsets are in bytes.
These are the same in all versions: in an execution context the stack, its size in words and the
innermost control frame; in a control frame program counter, stack pointer, code, self and
environment; in code its body; in a body type, size and instructions.
"""

from __future__ import annotations

from enum import Enum


class NamesIn(Enum):
    """Where a class has its name, and the object of a singleton class."""

    TABLE = "a table of its variables"
    SHAPE = "an array of its variables"
    FIELD = "a field"


class RubyLayout:
    """The structs of one version.

    `frame` is the size of a control frame, `infos` the offset of the table of lines in a body,
    `info` the size of an entry of that table. If `has_long_texts` is true, a string has its
    length in front of its text.
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

# Objects: flags, class, and fields that depend on the kind.
KIND = 31  # bits of the flags
CLASS, MODULE, STRING, ARRAY, IMEMO = 2, 3, 5, 7, 0x1A
IMEMO_SHIFT, IMEMO_MASK = 12, 15
SVAR, METHOD_ENTRY, CODE = 2, 6, 7  # kinds of imemo
SINGLETON = 1 << 12
LONG = 1 << 13  # flag of a string whose text is elsewhere
SHORT_ARRAY = 1 << 13

LOCATION = 64  # offset in a body: path, base label, label
CODE_BODY = 16
ENTRY_OWNER = 32  # offset in a method entry

# Flags of an environment.
LOCAL = 0x2  # the outermost environment of its method
FINISH = 0x20  # C code waits for the function that runs this frame
C_FRAME = 0x80
