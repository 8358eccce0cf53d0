# SPDX-License-Identifier: Apache-2.0
"""Finds the library that a file of LD_PROFILE is about, by the file's name."""

from __future__ import annotations

import os
import sys

from soscope.errors import SoscopeError
from soscope.linker.library import Library, open_image
from soscope.linker.paths import Root
from soscope.linker.search import program_of, shared_system

SUFFIX = ".profile"


def library_of(path: str) -> str | None:
    """Return the path of the library that the file at `path` may be about, None if not found.

    If LD_PROFILE was set to a path, that path follows the folder of profiles. Else it is a file
    beside the profile, or the one that a loader finds by that name, with the present
    LD_LIBRARY_PATH.
    """
    full = os.path.abspath(path)
    if not full.endswith(SUFFIX):
        return None
    parts = full.removesuffix(SUFFIX).split("/")
    for first in range(1, len(parts) - 1):
        below = "/" + "/".join(parts[first:])
        if os.path.isfile(below):
            return below
    try:
        program = program_of(open_image(sys.executable), sys.executable, Root(""))
        system = shared_system(Root(""), program, os.environ.get("LD_LIBRARY_PATH", ""))
        place, library = system.plain(parts[-1])
    except (OSError, SoscopeError):
        return None  # the user is asked for it
    return place if isinstance(library, Library) else None
