# SPDX-License-Identifier: Apache-2.0
"""Find which exported functions of libraries were called, by the counts of slots."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase

from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError
from soscope.model.image import IMAGE_MAIN
from soscope.model.record import Record, fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.trace.outcome import TraceOutcome
    from soscope.model.image import TracedSlot

_FUNCTIONS = (elf.STT_FUNC, elf.STT_GNU_IFUNC)


class CalledFunction(Record):
    """An exported function. `names` are its names, first the name by which it was called.

    `is_uncertain` means that no call was seen, but an image takes its address, or holds the
    address in a slot that could not be hooked.
    """

    names: list[str]
    calls: int = 0
    is_lower_bound: bool = False
    is_uncertain: bool = False

    @property
    def name(self) -> str:
        """Return the name that is shown."""
        return self.names[0]


class CalledImage(Record):
    """A library with its exported functions. `why` is why these are not known, "" if they are."""

    name: str
    path: str
    functions: list[CalledFunction] = fresh(list)
    why: str = ""

    @property
    def called(self) -> list[CalledFunction]:
        """Return the functions that were called, most often called first."""
        called = [function for function in self.functions if function.calls]
        return sorted(called, key=lambda function: (-function.calls, function.name))

    @property
    def calls(self) -> int:
        """Return how many calls of its functions were seen."""
        return sum(function.calls for function in self.functions)

    @property
    def uncertain(self) -> list[CalledFunction]:
        """Return the functions that may have been called, by name."""
        return [function for function in self.functions if function.is_uncertain]

    @property
    def never(self) -> list[CalledFunction]:
        """Return the functions that were never called, by name."""
        return [
            function
            for function in self.functions
            if not function.calls and not function.is_uncertain
        ]


def called_in(outcome: TraceOutcome, images: list[str], select: list[str]) -> list[CalledImage]:
    """Return the libraries that match the globs `images`, or all called ones if it is empty.

    `select` are globs of functions. If there are any, only matching functions are listed, and
    libraries without one are left out.
    """
    loaded_images: dict[str, CalledImage] = {}
    for program in outcome.programs:
        for loaded in program.images:
            if not loaded.flags & IMAGE_MAIN and loaded.path not in loaded_images:
                loaded_images[loaded.path] = CalledImage(loaded.name, loaded.path)
    counts: dict[tuple[str, str], list[TracedSlot]] = {}
    calls: dict[tuple[str, str], int] = {}
    for program in outcome.programs:
        for slot in program.slots:
            if slot.callee is not None:
                key = slot.callee.path, slot.symbol
                counts.setdefault(key, []).append(slot)
                calls[key] = calls.get(key, 0) + (program.counts or {}).get(slot.index, 0)
    shown = []
    for image in loaded_images.values():
        if images and not any(_is_named(image, pattern) for pattern in images):
            continue
        _read_exports(image)
        for function in image.functions:
            for name in function.names:
                slots = counts.get((image.path, name), [])
                function.calls += calls.get((image.path, name), 0)
                function.is_lower_bound |= any(slot.partial for slot in slots)
                function.is_uncertain |= any(not slot.is_hooked for slot in slots)
            function.names.sort(key=lambda name: (-calls.get((image.path, name), 0), name))
            function.is_uncertain = not function.calls and (
                function.is_uncertain or function.is_lower_bound
            )
        if select:
            image.functions = [
                function
                for function in image.functions
                if any(fnmatchcase(name, glob) for name in function.names for glob in select)
            ]
        if image.functions if select else images or image.called:
            shown.append(image)
    return sorted(shown, key=lambda image: (-image.calls, image.name))


def unmatched(images: list[str], outcome: TraceOutcome) -> list[str]:
    """Return the patterns that match no loaded library."""
    loaded = [
        CalledImage(image.name, image.path)
        for program in outcome.programs
        for image in program.images
    ]
    return [pattern for pattern in images if not any(_is_named(image, pattern) for image in loaded)]


def _is_named(image: CalledImage, pattern: str) -> bool:
    base = os.path.basename(image.path)
    if "/" in pattern:
        return image.path == pattern or os.path.realpath(pattern) == os.path.realpath(image.path)
    return any(
        fnmatchcase(name, glob)
        for name in (image.name, base)
        for glob in (pattern, f"{pattern}.so*")
    )


def _read_exports(image: CalledImage) -> None:
    """Read the functions that a library exports. Names of one address are one function."""
    try:
        with open(image.path, "rb") as file:
            read = ElfImage.from_descriptor(file.fileno(), image.path)
            by_address: dict[int, list[str]] = {}
            for symbol in read.symbols:
                if symbol.name and symbol.is_defined and symbol.type in _FUNCTIONS:
                    names = by_address.setdefault(symbol.value, [])
                    if symbol.name not in names:
                        names.append(symbol.name)
    except (FormatError, OSError) as error:
        image.why = str(error)
        return
    image.functions = sorted(
        (CalledFunction(sorted(names)) for names in by_address.values()),
        key=lambda function: function.name,
    )
