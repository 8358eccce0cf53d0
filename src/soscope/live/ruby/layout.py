# SPDX-License-Identifier: Apache-2.0
"""The offsets of fields in CRuby's structs by version, and the detection of CRuby."""

from __future__ import annotations

import re
from enum import Enum
from struct import unpack

from soscope.binfmt.elf.lookup import Name
from soscope.errors import FormatError, SoscopeError
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images
from soscope.live.images.scope import is_musl

# Offsets in CRuby's structs of all that soscope reads, by version.
#
# Sources: vm_core.h, iseq.h, method.h, internal/imemo.h, internal/class.h. Offsets are in bytes.
# These are the same in all versions: in an execution context the stack, its size in words and the
# innermost control frame; in a control frame program counter, stack pointer, code, self and
# environment; in code its body; in a body type, size and instructions.


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


# Thread-local variables in the code of x86-64 (psABI, 4.11), the one machine that is sampled.

# 66 lea index(%rip), %rdi; 66 66 rex.W call, or a call through the word that holds the address: 66
# rex.W call
_GENERAL = re.compile(rb"\x66\x48\x8d\x3d(....)\x66(?:\x66\x48\xe8|\x48\xff\x15)", re.DOTALL)
_END = 8  # end of its lea
_LOCAL = re.compile(rb"\x64[\x48\x4c]\x8b[\x04\x0c\x14\x1c\x24\x2c\x34\x3c]\x25(....)", re.DOTALL)
_GUARD = 0x28  # offset of the stack protector's value

DTV = 8  # bytes from the thread pointer to the list of the thread's blocks


def first_variable(code: bytes, addr: int) -> tuple[int, int] | None:
    """Return the location of the first thread-local variable in `code`, which is at `addr`.

    It is (address of the pair of module number and offset, 0), or (0, offset from the thread
    pointer), or None if there is no such variable.
    """
    general = _GENERAL.search(code)
    locals_ = [match for match in _LOCAL.finditer(code) if unpack("<i", match[1])[0] != _GUARD]
    if general is not None and not (locals_ and locals_[0].start() < general.start()):
        return addr + general.start() + _END + unpack("<i", general[1])[0], 0
    return (0, unpack("<i", locals_[0][1])[0]) if locals_ else None


# Find the CRuby in a process, and check whether soscope can read its frames.

_OWN = "rb_tracepoint_new"  # only libruby has this symbol and the version
_VERSION = "ruby_version"
_CURRENT = "ruby_current_execution_context_ptr"  # of the GVL's holder; up to 2.7
_USES_CONTEXT = "rb_profile_frames"
_CODE = 64  # bytes of a function that are searched


class Ruby:
    """A CRuby in a process; addresses are run-time addresses.

    `current` is the address of the variable with the execution context of the thread that holds
    the GVL. It is 0 if each thread has a variable of its own. Then `variable` is that, as
    `first_variable` returns it.
    """

    __slots__ = ("current", "image", "is_musl", "layout", "objects", "variable")

    def __init__(self, image: LoadedImage, layout: RubyLayout) -> None:
        """Find these variables. Raises SoscopeError, with the reason, if Ruby cannot be read."""
        self.image = image
        self.layout = layout
        self.is_musl = False
        self.current = _addr_of(image, _CURRENT) or 0
        self.variable = (0, 0)
        self.objects = (_addr_of(image, "rb_cString") or 0, _addr_of(image, "rb_cArray") or 0)
        if not self.current:
            code = _addr_of(image, _USES_CONTEXT) or 0
            variable = first_variable(image.space.read(code, _CODE), code)
            if variable is None:
                raise SoscopeError(
                    f"Ruby ({image.name}): the place of its execution context is unknown"
                )
            self.variable = variable


def find_ruby(images: Images) -> Ruby | None:
    """Return the CRuby among the images of a process, None if there is none.

    Raises SoscopeError, with the reason, if soscope cannot read it.
    """
    for image in [*images.linked, *images.all[len(images.linked) :]]:
        version = _addr_of(image, _VERSION)
        if version is None or _addr_of(image, _OWN) is None:
            continue
        text = images.space.read(version, 16).split(b"\0")[0].decode("latin-1")
        numbers = text.split(".")
        is_number = len(numbers) > 1 and all(map(str.isdecimal, numbers[:2]))
        layout = LAYOUTS.get((int(numbers[0]), int(numbers[1]))) if is_number else None
        if layout is None:
            raise SoscopeError(f"Ruby {text} ({image.name}): its frames are not known")
        ruby = Ruby(image, layout)
        ruby.is_musl = is_musl(images)
        return ruby
    return None


def _addr_of(image: LoadedImage, name: str) -> int | None:
    """Return the run-time address of a symbol that the image itself defines, else None."""
    try:
        entry = image.symbols.find(Name(name.encode()))
    except FormatError:
        return None  # a damaged image
    return None if entry is None else image.load_bias + entry.value
