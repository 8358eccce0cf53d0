# SPDX-License-Identifier: Apache-2.0
"""Find the CPython in a process: its image, its version, and whether soscope can read it.

Every CPython, static or shared, exports `_PyRuntime`. 3.11 and newer export Py_Version, too. 3.9
and 3.10 have their version only as text. From 3.13 on, `_PyRuntime` begins with the offsets of
its own structs, which soscope then uses.
"""

from __future__ import annotations

import re
from struct import unpack_from

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.lookup import Name
from soscope.binfmt.source import ByteSource
from soscope.errors import FormatError, SoscopeError
from soscope.live.images.image import LoadedImage
from soscope.live.images.images import Images
from soscope.live.python.offsets import DEBUG_SIZE, PythonLayout, layout_of
from soscope.model.record import Record
from soscope.proc.memory import word_at

_RUNTIME = Name(b"_PyRuntime")
_VERSION = Name(b"Py_Version")
_DEBUG_BUILD = Name(b"_Py_NegativeRefcount")  # only builds with Py_REF_DEBUG have it
# the linker may have made it the end of a longer string
_TEXT = re.compile(rb"(?<![\d.])3\.(\d{1,2})\.(\d{1,3})(?:(?:a|b|rc)\d+)?\+?\0")
_FOLDER = re.compile(rb"python3\.(\d{1,2})\0")
_MOST = 64 << 20  # bytes of a segment that are searched


class Interpreter(Record, frozen=True, eq=True):
    """A CPython in a process.

    `version` has three numbers. `runtime` is the run-time address of `_PyRuntime`. `is_shared`
    tells that it is in a library (libpython), not in the program itself.
    """

    image: LoadedImage
    version: tuple[int, int, int]
    runtime: int
    is_shared: bool
    layout: PythonLayout

    @property
    def linkage(self) -> str:
        """`is_shared` as a word: "shared" or "static"."""
        return "shared" if self.is_shared else "static"

    @property
    def version_text(self) -> str:
        """The version as text: "3.11.2"."""
        return ".".join(map(str, self.version))


def find_interpreter(images: Images) -> Interpreter | None:
    """Return the CPython among the images of a process, None if there is none.

    If there are several, return the first in link-map order, to which the loader binds.

    Raises SoscopeError, with the reason, if soscope cannot read it: an unknown version, a build
    without a GIL, a debug build, or a process of 32 bits.
    """
    for image in [*images.linked, *images.all[len(images.linked) :]]:
        runtime = _addr_of(image, _RUNTIME)
        if runtime is not None:
            return _read(images, image, runtime)
    return None


def _read(images: Images, image: LoadedImage, runtime: int) -> Interpreter:
    space = images.space
    if space.bits != 64:
        raise SoscopeError(f"{image.name}: soscope does not read a CPython of {space.bits} bits")
    version = _version_of(image)
    if version is None:
        raise SoscopeError(f"{image.name}: it does not say which version of CPython it is")
    what = f"CPython {version[0]}.{version[1]}.{version[2]} ({image.name})"
    if _addr_of(image, _DEBUG_BUILD) is not None:
        raise SoscopeError(
            f"{what}: it is a debug build",
            hint="its objects are laid out in another way, which soscope does not read",
        )
    layout = layout_of(version[:2])
    if layout.debug_groups:
        layout = PythonLayout.from_debug_offsets(space.read(runtime, DEBUG_SIZE))
        if layout.version != version[:2]:
            found = ".".join(map(str, layout.version))
            raise SoscopeError(f"{what}: its debug offsets are of version {found}")
    return Interpreter(image, version, runtime, not image.is_main, layout)


def _addr_of(image: LoadedImage, name: Name) -> int | None:
    """Return the run-time address of a symbol that the image itself defines, else None."""
    try:
        entry = image.symbols.find(name)
    except FormatError:
        return None  # a damaged image
    return None if entry is None else image.load_bias + entry.value


def _version_of(image: LoadedImage) -> tuple[int, int, int] | None:
    """Return the version's three numbers, None if the image does not contain them."""
    addr = _addr_of(image, _VERSION)
    if addr is not None:
        data = image.space.read(addr, 4)
        if len(data) == 4:
            return data[3], data[2], data[1]
    data = b"".join(
        image.space.read(segment.vaddr + image.load_bias, min(segment.filesz, _MOST))
        for segment in image.segments
        if segment.type == c.PT_LOAD and not segment.flags & c.PF_W
    )
    # other numbers of this form (Unicode, SQLite) have no library folder with that name
    minors = {int(match[1]) for match in _FOLDER.finditer(data)}
    numbers = {(3, int(match[1]), int(match[2])) for match in _TEXT.finditer(data)}
    likely = [version for version in numbers if version[1] in minors]
    return likely[0] if len(likely) == 1 else None


# The threads of an interpreter: thread pointer -> address of the thread state.

_MOST_THREADS = 1 << 16  # threads, as their list may change during the read
_MOST_INTERPRETERS = 1 << 10


def thread_states(memory: ByteSource, interpreter: Interpreter) -> dict[int, int]:
    """Return thread pointer -> address of the thread state, for all threads.

    The list may change meanwhile, so users of a state check whether it still has the same thread.
    """
    places = _places(memory, interpreter)
    if places is None:
        return {}
    first, next_interpreter, threads, next_thread = places
    at = interpreter.layout.tstate_thread_id
    states: dict[int, int] = {}
    home = word_at(memory, interpreter.runtime + first)
    for _ in range(_MOST_INTERPRETERS):
        if not home:
            break
        state = word_at(memory, home + threads)
        while state and len(states) < _MOST_THREADS:
            pointer = word_at(memory, state + at)
            if pointer in states:
                break
            states[pointer] = state
            state = word_at(memory, state + next_thread)
        home = word_at(memory, home + next_interpreter)
    return states


def _places(memory: ByteSource, interpreter: Interpreter) -> tuple[int, ...] | None:
    places = interpreter.layout.runtime_places
    if not interpreter.layout.debug_groups:
        return places
    head = memory.read(interpreter.runtime, DEBUG_SIZE)
    if len(head) < DEBUG_SIZE:
        return None
    return tuple(unpack_from("<Q", head, 8 * word)[0] for word in places)
