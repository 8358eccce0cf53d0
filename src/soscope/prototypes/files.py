# SPDX-License-Identifier: Apache-2.0
"""Prototypes in files of the user."""

from __future__ import annotations

import os
import re

from soscope.errors import FormatError, UsageError
from soscope.prototypes.added import LTRACE, USER, SourceText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.prototypes.catalog import Prototypes

_MOST = 16 << 20  # bytes
_LTRACE = ".conf"  # ending of ltrace's files


def add_files(prototypes: Prototypes, paths: list[str]) -> None:
    """Add the declarations in files that the user has named.

    Raises UsageError for a file that cannot be read, FormatError for a file with an error.
    """
    for path in paths:
        if path.endswith(_LTRACE):
            _add_ltrace(prototypes, path)
            continue
        text = SourceText(USER, path, _content(path))
        try:
            prototypes.add(text)
        except FormatError as error:
            if error.hint is None and "is not known" in error.message:
                error.hint = "declare it before in the same file: no file is #included"
            raise


def add_ltrace(prototypes: Prototypes, names: set[str]) -> list[str]:
    """Add the declarations of some functions in ltrace's own files; return their errors.

    A file that is missing, or cannot be read, is skipped.
    """
    notes = []
    for path in (os.path.expanduser("~/.ltrace.conf"), "/etc/ltrace.conf"):
        left = {name for name in names if not prototypes.is_known(name)}
        try:
            content = _content(path) if left else ""
        except UsageError:
            continue  # ignored, because the user did not give this file
        # most files have none of them, and the translator is slow to import
        if any(re.search(rf"\b{re.escape(name)}\s*\(", content) for name in left):
            notes += _translate(prototypes, path, content, left)
    return notes


def _add_ltrace(prototypes: Prototypes, path: str) -> None:
    """Add a file that the user has named. Raises FormatError for its first error."""
    notes = _translate(prototypes, path, _content(path), None)
    if notes:
        raise FormatError(notes[0])


def _translate(
    prototypes: Prototypes, path: str, content: str, names: set[str] | None
) -> list[str]:
    from soscope.prototypes.sources import Translator

    translator = Translator(path, names)
    text = translator.read(content)
    refused: list[FormatError] = []
    try:
        prototypes.add(SourceText(LTRACE, path, text), refused)
    except FormatError as error:
        refused.append(error)
    return [error.message for error in [*translator.faults, *refused]]


def _content(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"--prototypes: cannot read {path}: {reason}") from None
    if len(content) > _MOST:
        raise UsageError(f"--prototypes: {path} has more than 16 MiB")
    # bytes that are not UTF-8 can only be in comments and strings
    return content.decode("utf-8", "replace")
