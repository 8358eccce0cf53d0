# SPDX-License-Identifier: Apache-2.0
"""Calls of made-up functions, from a declaration to what is printed."""

from __future__ import annotations

from pathlib import Path

from soscope.model.call import DATA_BYTES, DATA_STRING, ENDED_RETURN, NOTHING, Captured, Exit
from soscope.model.image import TracedSlot
from soscope.prototypes.capture import CapturePrograms
from soscope.prototypes.catalog import Structs
from soscope.prototypes.describe import Description
from soscope.prototypes.parser import Declarations
from soscope.prototypes.printer import Printer
from soscope.prototypes.show import ConstantSets, NamedTypes

DIRECTORY = Path(__file__).parents[3] / "prototypes"
WORD = 0xFFFF_FFFF_FFFF_FFFF

SETS = """
enum whence
    SEEK_SET=0 SEEK_CUR=1
enum handle
    NEXT=-1
flags open
    field 3
        O_RDONLY=0 O_WRONLY=1 O_RDWR=2
    bits
        O_CREAT=0100 O_SYNC=04010000 O_DSYNC=010000 O_CLOEXEC=02000000
flags protection
    PROT_NONE=0 PROT_READ=1 PROT_WRITE=2
flags kind
    field 0xf000
        REGULAR=0x8000 DIRECTORY=0x4000
enum address_family
    AF_UNIX=1 AF_INET=2 AF_INET6=10 AF_NETLINK=16
enum level
    SOCKET=1 TCP=6
enum by_level.SOCKET
    WORD=2
enum by_level.TCP
    NO_DELAY=2
"""


def sets() -> ConstantSets:
    """Return the sets above."""
    found = ConstantSets()
    found.read(SETS, "sets")
    return found


def describe(text: str) -> Description:
    """Return the description of the one function that `text` declares."""
    declarations = Declarations()
    for name in ("types.h", "structs.h"):
        declarations.read((DIRECTORY / name).read_text().replace("ENUM(clock)", ""), name)
    declarations.read("struct pair { int fd; short what; };", "pair.h")
    declarations.read(text, "test.h")
    function = declarations.functions[-1]
    return Description(function, sets(), declarations.structs)


def programs(text: str) -> CapturePrograms:
    """Return the capture programs of the one function that `text` declares."""
    return CapturePrograms(describe(text))


def printer(text: str) -> Printer:
    """Return the printer of the one function that `text` declares."""
    known = sets()
    structs: Structs = {
        "timespec": (
            ("tv_sec", 0, ("decimal", 8, True, ""), ()),
            ("tv_nsec", 8, ("decimal", 8, True, ""), ()),
        ),
        "in_addr": (("s_addr", 0, ("hex", 4, False, ""), ()),),
        "pair": (
            ("fd", 0, ("decimal", 4, True, ""), ()),
            ("what", 4, ("octal flags", 2, True, "kind"), ()),
        ),
    }
    return Printer(describe(text).kept(), NamedTypes(known.enums, known.flags, structs))


def at_entry(
    *words: int,
    strings: dict[int, bytes] | None = None,
    data: dict[int, tuple[int, int, bytes]] | None = None,
    floats: tuple[float, ...] = (),
    stack: tuple[int, ...] = (),
) -> Captured:
    """Return what was captured at an entry; `strings` by argument number."""
    found = {item: (DATA_STRING, 0, content) for item, content in (strings or {}).items()}
    return Captured(tuple(word & WORD for word in words), stack, floats, {**found, **(data or {})})


def at_exit(
    result: int | None,
    *,
    data: dict[int, bytes] | None = None,
    floats: tuple[float, ...] = (),
    errno: int | None = None,
    ended: str = ENDED_RETURN,
) -> Exit:
    """Return the end of a call; `data` by argument number, 0xff is the result."""
    found = {item: (DATA_BYTES, 0, content) for item, content in (data or {}).items()}
    captured = Captured((), (), floats, found) if found or floats else NOTHING
    word = None if result is None else result & WORD
    return Exit(None, 0, None, word, errno, captured, ended, 1, 1, slot("f"))


def slot(name: str, prototype: int | None = None) -> TracedSlot:
    """Return a slot of the function `name`."""
    return TracedSlot(0, 0, name, "", None, None, 0, 1, 0, False, False, prototype, 0)


def texts(of: Printer, captured: Captured, limit: int = 32, after: Exit | None = None) -> list[str]:
    """Return the arguments as a line shows them."""
    shown = [argument.shown for argument in of.arguments(captured, limit, after)]
    assert of.texts(captured, limit, after) == shown
    return shown
