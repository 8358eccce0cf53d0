# SPDX-License-Identifier: Apache-2.0
"""How much memory the machine has to spare: /proc/meminfo."""

from __future__ import annotations

_UNKNOWN = 1 << 30


def available() -> int:
    """Return how many bytes are available without swapping (MemAvailable); 1 GiB if unknown."""
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # a container without it
    return _UNKNOWN
