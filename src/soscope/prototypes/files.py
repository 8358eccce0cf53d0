# SPDX-License-Identifier: Apache-2.0
"""Prototypes in files of the user's own."""

from __future__ import annotations

from soscope.errors import FormatError, UsageError
from soscope.prototypes.added import USER, SourceText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.prototypes.catalog import Prototypes

_MOST = 16 << 20  # bytes


def add_files(prototypes: Prototypes, paths: list[str]) -> None:
    """Add the declarations of files that the user has named.

    Raises UsageError for one that cannot be read, FormatError for one with a fault.
    """
    for path in paths:
        text = SourceText(USER, path, _content(path))
        try:
            prototypes.add(text)
        except FormatError as error:
            if error.hint is None and "is not known" in error.message:
                error.hint = "declare it before in the same file: no file is #included"
            raise


def _content(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"--prototypes: cannot read {path}: {reason}") from None
    if len(content) > _MOST:
        raise UsageError(f"--prototypes: {path} has more than 16 MiB")
    # what is no UTF-8 can only stand in comments and strings
    return content.decode("utf-8", "replace")
