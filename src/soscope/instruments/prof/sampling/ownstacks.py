# SPDX-License-Identifier: Apache-2.0
"""Finds the reader of an interpreter's frames in a process: of Python, else of Ruby."""

from __future__ import annotations

from typing import Protocol

from soscope.errors import SoscopeError
from soscope.instruments.prof.sampling.imagemap import ImageMap
from soscope.live.python.interpreter import find_interpreter
from soscope.live.python.stacks import PythonStacks
from soscope.live.ruby.frames import RubyStacks
from soscope.live.ruby.layout import find_ruby
from soscope.model.call import OwnFrame


class OwnStacks(Protocol):
    """Reads interpreter frames of stopped threads."""

    def frames(self, thread_pointer: int, most: int) -> list[tuple[OwnFrame, bool]]:
        """Return the frames, innermost first, each with whether C code has called it."""


def find_own_stacks(images: ImageMap) -> tuple[OwnStacks | None, str | None]:
    """Return a reader of interpreter frames (None if there is none), and what is not seen.

    The second value tells which frames are not seen, and why. It is None if all are.
    """
    why = None
    try:
        python = find_interpreter(images.images)
        if python is not None:
            return PythonStacks(images.space, python), None
    except SoscopeError as error:
        why = f"frames of Python are not seen: {error}"
    try:
        ruby = find_ruby(images.images)
        if ruby is not None:
            return RubyStacks(images.space, ruby), why
    except SoscopeError as error:
        why = f"frames of Ruby are not seen: {error}"
    return None, why
