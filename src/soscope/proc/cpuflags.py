# SPDX-License-Identifier: Apache-2.0
"""Read which features the processor has and the kernel lets programs use."""

from __future__ import annotations

_ENOUGH = 4096  # bytes, enough for the first processor: text for hundreds is slow


def has_xsave() -> bool:
    """Return whether the processor has XSAVE; False if /proc/cpuinfo cannot be read."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            lines = file.read(_ENOUGH).splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith(b"flags")), b"")
    return b"xsave" in flags.split()
