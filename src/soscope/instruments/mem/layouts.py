# SPDX-License-Identifier: Apache-2.0
"""The file of soscope's that the agent loads into Ruby programs."""

from __future__ import annotations

import os

from soscope import errors


def ruby_library() -> bytes:
    """Return the path of soscope_memprof.rb with a NUL behind it, b"" if there is no such file."""
    folder = os.path.dirname(os.path.abspath(errors.__file__))
    path = os.path.join(folder, "_agent", "ruby", "soscope_memprof.rb")
    return os.fsencode(path) + b"\0" if os.path.exists(path) else b""
