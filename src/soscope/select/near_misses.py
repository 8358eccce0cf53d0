# SPDX-License-Identifier: Apache-2.0
"""Finds the names that a user may have meant with a misspelt one."""

from __future__ import annotations

MOST_MISSES = 3  # near misses that are printed
MOST_NAMES = 20_000  # names that are compared. difflib needs about 5 µs for each


def near_misses(name: str, candidates: list[str]) -> list[str]:
    """Return up to three of the candidates that the user may have meant with `name`.

    First come candidates that differ only in case, that are a C++ name with this identifier, that
    are a name which the headers of a C library substitute (`__isoc99_sscanf`, `__printf_chk`), or
    that begin with it. Then come candidates with similar letters.
    """
    if len(name) < 2:  # a single letter resembles everything
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
