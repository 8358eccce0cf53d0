# SPDX-License-Identifier: Apache-2.0
"""Names for the return addresses of a recording, and stacks of calls (-k) as text."""

from __future__ import annotations

import os
from struct import unpack_from

from soscope.binfmt.dwarf.lines import DwarfLines
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import FileSource, open_regular
from soscope.errors import SoscopeError
from soscope.frames.interpreters import NO_PART, Evaluator, PythonFrames, is_entry, is_python, mix
from soscope.live.names.locate import Locator
from soscope.live.names.staticnames import ImageNames
from soscope.model.call import Entry, StackFrame, printable
from soscope.recording.names import Programs, RecordedProgram, in_image
from soscope.wire import layout

# Names for the return addresses of a recording, from its images and their files.

_COUNT = (1 << layout.STACK_API) - 1
Place = tuple[StackFrame, int | None]  # a frame, and its address if it is native code
_API_NAMES = {"API_NEW": "operator new", "API_NEW_ARRAY": "operator new[]"}
APIS = {
    value: _API_NAMES.get(name, name.removeprefix("API_").lower())
    for name, value in vars(layout).items()
    if name.startswith("API_")
}
HEAP_APIS = (layout.API_BRK, layout.API_SBRK)
MAPPING_APIS = frozenset(APIS.values()) - {
    APIS[layout.API_NONE],
    *layout.ALLOCATORS,
    *_API_NAMES.values(),
}


def stack_at(program: RecordedProgram, number: int) -> tuple[int, tuple[int, ...], bool]:
    """Return (api, words, whether more frames existed) of a stack; (0, (), False) if none.

    The words are return addresses, followed by frames of Python or Ruby.
    """
    words = program.stacks
    at = number * 8
    if not number or at + 8 > len(words):
        return 0, (), False
    (head,) = unpack_from("<Q", words, at)
    count = head & _COUNT
    if at + 8 + 8 * count > len(words):
        return 0, (), False
    api = head >> layout.STACK_API & 0xFF
    return api, unpack_from(f"<{count}Q", words, at + 8), bool(head >> layout.STACK_CUT & 1)


class _NamedFile:
    """The file of an image. If its identity is not `identity`, it gives no names."""

    def __init__(self, path: str, identity: bytes) -> None:
        self._locator: Locator | None = None
        self._lines: DwarfLines | None = None
        self._evaluator: Evaluator | None = None
        self.is_other = False
        self._fd: int | None = open_regular(path)
        if self._fd is None:
            return
        try:
            image = ElfImage.from_source(FileSource(self._fd, path))
            if identity and image.identity != identity:
                self.is_other = True
                return
            names = ImageNames(image, build_id=image.build_id, path=path, roots=[""])
            self._locator = Locator(image, names)
            self._evaluator = Evaluator(image, names)
        except (SoscopeError, OSError):
            return  # the functions of this file have no names
        self._lines = DwarfLines(image)

    def __del__(self) -> None:
        """Close the file, as readers of a recording in Python do not close it themselves."""
        if self._fd is not None:
            os.close(self._fd)

    def part(self, vaddr: int) -> int:
        """Return whether the call before a return address is in an interpreter's evaluator."""
        return NO_PART if self._evaluator is None else self._evaluator.part(vaddr - 1)

    def frame(self, name: str, vaddr: int) -> StackFrame:
        """Return the frame of a return address. The call is in front of it."""
        place = None
        if self._locator is not None:
            try:
                place = self._locator.at(vaddr - 1)
            except (SoscopeError, OSError):
                pass  # damaged symbols
        line = self._lines.at(vaddr - 1) if self._lines is not None else None
        file, number = line or (None, None)
        if place is None or not place.is_found or place.symbol is None:
            return StackFrame(name, None, vaddr, file, number)
        return StackFrame(name, place.symbol.name, place.offset + 1, file, number)


class FrameNames:
    """Names of the return addresses in the processes of a recording.

    `others` are the paths of files that have changed since.
    """

    def __init__(self) -> None:
        self._files: dict[tuple[str, bytes], _NamedFile] = {}
        self._known: dict[tuple[int, int], tuple[StackFrame, int, int]] = {}
        self._python: dict[int, PythonFrames] = {}
        self.others: set[str] = set()

    def stack(self, program: RecordedProgram, words: tuple[int, ...]) -> tuple[StackFrame, ...]:
        """Return the frames of a stack from its words."""
        return tuple([frame for frame, _ in self.places(program, words)])

    def places(
        self, program: RecordedProgram, words: tuple[int, ...], *, is_cut: bool = False
    ) -> list[Place]:
        """Return the frames, each with its address, None for frames of an interpreter.

        Addresses are link-time addresses if the image is known. `is_cut` means that more frames
        existed.
        """
        native = [self._of(program, word) for word in words if not is_python(word)]
        frames: list[Place] = [(frame, addr) for frame, _, addr in native]
        if len(native) == len(words):
            return frames
        python = self._python.setdefault(program.index, PythonFrames(program))
        python.program = program  # the program may have been read again, with more records
        own: list[tuple[Place, bool]] = [
            ((python.of(word), None), is_entry(word)) for word in words if is_python(word)
        ]
        return mix(frames, [part for _, part, _ in native], own, is_cut=is_cut)

    def _of(self, program: RecordedProgram, word: int) -> tuple[StackFrame, int, int]:
        """Return (frame, part of the evaluator, address) of a return address."""
        key = program.index, word
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._make(program, word)
        return known

    def _make(self, program: RecordedProgram, word: int) -> tuple[StackFrame, int, int]:
        if word == layout.FRAME_SOSCOPE:
            return StackFrame("soscope", None, None), NO_PART, 0
        image = program.image_of(word)
        _, addr = in_image(word)
        if image is None:
            return StackFrame(None, None, addr), NO_PART, addr
        key = image.path, image.identity
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = _NamedFile(image.path, image.identity)
            if file.is_other:
                self.others.add(image.path)
        vaddr = addr - image.load_bias
        return file.frame(image.name, vaddr), file.part(vaddr), vaddr


# The stacks of calls (-k): their frames, and their text in tables and flame graphs.

Key = tuple[int, int, int]  # program, process, number of the stack
_MOST_KEPT = 1 << 16


class CallFrames:
    """Names the frames of stacks, with a cache. `programs` has all stacks."""

    def __init__(self, programs: Programs) -> None:
        self.programs = programs
        self._names = FrameNames()
        self._places: dict[Key, list[Place]] = {}
        self._texts: dict[Key, str] = {}

    def places(self, key: Key) -> list[Place]:
        """Return frames and their addresses, innermost first, [] if nothing is known."""
        known = self._places.get(key)
        if known is None:
            index, _, number = key
            program = self.programs[index]
            _, words, is_cut = stack_at(program, number)
            known = self._names.places(program, words, is_cut=is_cut)
            if len(self._places) > _MOST_KEPT:
                self._places.clear()
            if known:  # an unknown stack may still be read
                self._places[key] = known
        return known

    def frames(self, key: Key) -> tuple[StackFrame, ...]:
        """Return only the frames, innermost first."""
        return tuple([frame for frame, _ in self.places(key)])

    def text(self, key: Key) -> str:
        """Return the `frame_text` of all frames, outermost first, with ";" between them."""
        text = self._texts.get(key)
        if text is None:
            text = ";".join([frame_text(frame) for frame, _ in reversed(self.places(key))])
            if len(self._texts) > _MOST_KEPT:
                self._texts.clear()
            if text:
                self._texts[key] = text
        return text


def key_of(entry: Entry) -> Key:
    """Return the key of a call's stack."""
    return entry.slot.process, entry.pid, entry.stack


def frame_text(frame: StackFrame) -> str:
    """Return a frame in one word: image`symbol, or an interpreter's function and line.

    Characters that separate frames or lines are replaced.
    """
    label = frame_label(frame)
    if frame.image is None and frame.file is not None:
        return frame_name(f"{label} ({frame.file}:{frame.line})")
    return frame_name(f"{frame.image or '?'}`{label}")


def frame_label(frame: StackFrame) -> str:
    """Return the function of a frame, or its offset in the image if it has no name."""
    return frame.symbol or ("?" if frame.offset is None else f"{frame.offset:#x}")


def frame_name(name: str) -> str:
    """Return a name without separators of frames and lines, and without control characters."""
    return printable(name.replace(";", ":").replace("\n", " "))
