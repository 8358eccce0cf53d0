# SPDX-License-Identifier: Apache-2.0
"""One side of a comparison: a recording, or a JSON document printed by a report."""

from __future__ import annotations

import json
import os
from typing import Any

from soscope.errors import RecordingError
from soscope.recording import format as form

_FIRST = 1 << 12  # bytes that tell what a file is
_MAGIC = form.MAGIC.to_bytes(4, "little")


def document_text(path: str) -> bytes | None:
    """Return the content of a file that is no recording, None if it begins as one.

    If it does not begin as a JSON object, only its beginning is returned. Raises RecordingError.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(_FIRST)
            if text.lstrip().startswith(b"{"):  # other files may be endless
                text += file.read()
    except OSError as error:
        reason = (error.strerror or os.strerror(error.errno or 0)).lower()
        raise RecordingError(f"cannot open '{path}': {reason}", errno=error.errno) from error
    return None if text.startswith(_MAGIC) else text


def document_of(text: bytes, schema: str) -> dict[str, Any] | None:
    """Return the JSON object of a schema, None if the text is something else."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None  # no report has printed that
    return said if isinstance(said, dict) and said.get("schema") == schema else None


def number_of(value: object) -> int:
    """Return a member that is an integer. Raises TypeError for others."""
    if type(value) is not int:
        raise TypeError
    return value


def text_of(value: object) -> str:
    """Return a member that is text. Raises TypeError for others."""
    if not isinstance(value, str):
        raise TypeError
    return value
