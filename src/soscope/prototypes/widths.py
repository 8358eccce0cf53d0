# SPDX-License-Identifier: Apache-2.0
"""Which integers have 64 bits on machines of 32, by the names of their types.

A compiled prototype has the size that they have on x86-64, where `long` is as wide.
"""

from __future__ import annotations

_WIDE = ("long long", "64", "loff_t", "quad", "intmax_t", "curl_off_t", "lzma_vli")


def is_wide(of: str) -> bool:
    """Return whether a type, or what a pointer leads to, is a 64-bit integer on any machine."""
    return any(word in of for word in _WIDE)
