# SPDX-License-Identifier: Apache-2.0
"""A file for a recording that nobody keeps."""

from __future__ import annotations

import os

from soscope.errors import RecordingError


def nameless() -> int:
    """Return a file that goes when it is closed, however that comes about.

    Raises RecordingError where there is no room for one.
    """
    import tempfile

    folder = tempfile.gettempdir()
    try:
        return os.open(folder, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except OSError:
        pass  # the file system has no such files
    try:
        descriptor, name = tempfile.mkstemp(prefix="soscope-")
        os.unlink(name)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise RecordingError(
            f"cannot make a file in '{folder}': {reason}", errno=error.errno, hint="-o names one"
        ) from error
    return descriptor
