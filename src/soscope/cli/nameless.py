# SPDX-License-Identifier: Apache-2.0
"""An unlinked file for a recording that is not kept."""

from __future__ import annotations

import os

from soscope.errors import RecordingError


def nameless() -> int:
    """Return a file that is deleted when it is closed, however that happens.

    If no folder takes files (a read-only file system), the file is in memory. Raises
    RecordingError if there is no room for it.
    """
    import tempfile

    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError:
        return os.memfd_create("soscope-recording")
    try:
        return os.open(folder, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except OSError:
        pass  # the file system does not support O_TMPFILE
    try:
        descriptor, name = tempfile.mkstemp(prefix="soscope-")
        os.unlink(name)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise RecordingError(
            f"cannot make a file in '{folder}': {reason}", errno=error.errno, hint="-o names one"
        ) from error
    return descriptor
