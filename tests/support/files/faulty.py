# SPDX-License-Identifier: Apache-2.0
"""Readers that do to damaged files what none may do: tests of `tests.support.files.damage`."""

from __future__ import annotations

import os
from pathlib import Path


def _is_sound(path: str) -> bool:
    return Path(path).read_bytes() == bytes(4096)


def keyerror(path: str) -> None:
    """Raise what is no FormatError."""
    if not _is_sound(path):
        raise KeyError(path)


def toolong(path: str) -> None:
    """Never end."""
    while not _is_sound(path):
        pass  # never ends: a time limit is looked at


def memoryerror(path: str) -> None:
    """Want a gigabyte."""
    if not _is_sound(path):
        assert len(bytearray(1 << 30)) == 1 << 30


def exit_status(path: str) -> None:
    """End the process."""
    if not _is_sound(path):
        os.abort()
