# SPDX-License-Identifier: Apache-2.0
"""Programs that only start a library: their own calls, which are shown by default, are few.

ruby is libruby with a main function, as are many builds of Python, R and node.
"""

from __future__ import annotations

import re

from soscope.instruments.trace.outcome import TraceOutcome
from soscope.model.image import TracedImage

_MOST_SLOTS = 64  # of a program that does nothing else
_TIMES = 2  # as many slots has the library at least
_STEM = re.compile(r"(?:lib)?([^\W\d_]+)")


def launcher_lines(outcome: TraceOutcome) -> list[str]:
    """Say which programs only start a library, if the user has not said whose calls to show."""
    if outcome.selection.names_caller:
        return []
    pairs = [
        (image.name, library.name)
        for program in outcome.programs
        for image in program.images
        if image.is_main and 0 < image.slots_hooked <= _MOST_SLOTS
        for library in program.images
        if _is_started(library, image)
    ]
    return [
        f"{name} only starts {library}: --from all shows its calls"
        for name, library in dict(pairs).items()
    ]


def _is_started(library: TracedImage, main: TracedImage) -> bool:
    """Return whether a program is little more than a library of its name."""
    is_large = library.slots_left >= _TIMES * main.slots_hooked
    return not library.is_main and is_large and _stem(library.name) == _stem(main.name)


def _stem(name: str) -> str:
    """Return the letters that a name begins with: ruby of ruby3.1 and of libruby-3.1.so."""
    match = _STEM.match(name)
    return match[1].casefold() if match else name
