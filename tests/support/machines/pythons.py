# SPDX-License-Identifier: Apache-2.0
"""The CPythons of this machine: the distribution's, pyenv's, and those of SOSCOPE_PYTHONS."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

DISTRIBUTION = "/usr/bin/python3"
_OLDEST, _NEWEST = 9, 15


@cache
def pythons() -> list[str]:
    """Return the paths of all interpreters from 3.9 to 3.15, each once.

    SOSCOPE_PYTHONS names more, with colons between: of releases unpacked into a folder, say.
    """
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    paths = [DISTRIBUTION]
    for minor in range(_OLDEST, _NEWEST + 1):
        paths += map(str, sorted(folder.glob(f"3.{minor}.*/bin/python3.{minor}")))
    return paths + [path for path in os.environ.get("SOSCOPE_PYTHONS", "").split(":") if path]


def few_pythons() -> list[str]:
    """Return those that differ most, for tests that take long: the distribution's, the newest."""
    every = pythons()
    return [every[0], *every[1:][-2:]]
