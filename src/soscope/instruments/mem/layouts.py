# SPDX-License-Identifier: Apache-2.0
"""What the agent gives Ruby programs of soscope's."""

from __future__ import annotations

import os

from soscope import errors


def ruby_library() -> bytes:
    """Return the path of soscope_memprof.rb, with a NUL behind it; b"" where there is none."""
    folder = os.path.dirname(os.path.abspath(errors.__file__))
    path = os.path.join(folder, "_agent", "ruby", "soscope_memprof.rb")
    return os.fsencode(path) + b"\0" if os.path.exists(path) else b""
