# SPDX-License-Identifier: Apache-2.0
"""Names that a misspelt one may have been meant to be."""

from __future__ import annotations

MOST_MISSES = 3  # near misses that are named
MOST_NAMES = 20_000  # names that are compared: difflib needs about 5 µs each


def near_misses(name: str, candidates: list[str]) -> list[str]:
    """Return up to three of the candidates that `name` may have been meant to be.

    First those that differ in case, are a C++ name with this identifier or what a C library's
    headers make of it (`__isoc99_sscanf`, `__printf_chk`), or begin with it; then those that are
    alike letter by letter.
    """
    if len(name) < 2:  # one letter is like everything
        return []
    folded = name.casefold()
    mangled = f"{len(name)}{name}"
    ranked = []
    for candidate in candidates[:MOST_NAMES]:
        if candidate == name:
            continue
        if candidate.casefold() == folded:
            ranked.append((0, len(candidate), candidate))
        elif (candidate.startswith("_Z") and mangled in candidate) or (
            candidate.startswith("__") and name in candidate.split("_")
        ):
            ranked.append((1, len(candidate), candidate))
        elif candidate.casefold().startswith(folded):
            ranked.append((2, len(candidate), candidate))
        elif f"lib{folded}" == candidate.casefold()[: len(folded) + 3]:
            ranked.append((3, len(candidate), candidate))
    best = [candidate for _, _, candidate in sorted(ranked)[:MOST_MISSES]]
    if len(best) < MOST_MISSES:
        from difflib import get_close_matches  # 4 ms, and only here

        alike = get_close_matches(name, candidates[:MOST_NAMES], n=MOST_MISSES, cutoff=0.7)
        best += [candidate for candidate in alike if candidate not in best and candidate != name]
    return best[:MOST_MISSES]
