# SPDX-License-Identifier: Apache-2.0
"""Integers that have 64 bits even on 32-bit machines, by the names of their types.

A compiled prototype has sizes of x86-64, on which `long` has 64 bits, too.
"""

from __future__ import annotations

_WIDE = ("long long", "64", "loff_t", "quad", "intmax_t", "curl_off_t", "lzma_vli")


def is_wide(of: str) -> bool:
    """Return whether a type, or a pointer's target, is a 64-bit integer on every machine."""
    return any(word in of for word in _WIDE)
