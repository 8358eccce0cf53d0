# SPDX-License-Identifier: Apache-2.0
"""What the processor can do, and the kernel lets programs use."""

from __future__ import annotations

_ENOUGH = 4096  # bytes: the first processor's lines; making those of hundreds takes a while


def has_xsave() -> bool:
    """Return whether XSAVE is there; False where nobody can tell."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            lines = file.read(_ENOUGH).splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith(b"flags")), b"")
    return b"xsave" in flags.split()
