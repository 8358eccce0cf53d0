# SPDX-License-Identifier: Apache-2.0
"""Say which words of a filter matched nothing, and what the user may have meant.

Runs after the target has ended, since images may come late: only then is it known that
nothing matched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from soscope.instruments.trace.expression import Pattern
from soscope.instruments.trace.filter import Selection, Word, compile_pattern
from soscope.model.image import Image
from soscope.wire import layout

MOST_MISSES = 3  # near misses that are named
MOST_NAMES = 20_000  # names that are compared: difflib needs about 5 µs each


def explain_unmatched(
    selection: Selection,
    matched: Sequence[int],
    symbols: Iterable[str],
    images: Iterable[Image],
    *,
    hooked: int | None = None,
) -> list[str]:
    """Return one line for each word that matched nothing, with near misses.

    `matched` counts what each rule matched (ControlBlock.rules_matched, which may be
    summed over several programs), `symbols` are all function symbols that some image
    imports, `images` all images that were seen, `hooked` the number of slots that were
    chosen: if every word matched something and yet no slot was chosen, that is said.
    """
    names = sorted(set(symbols))
    seen = list(images)
    lines = [
        line
        for word, count in zip(selection.words, matched, strict=False)
        if not count and word.text
        for line in _explain(word, names, seen)
    ]
    if not lines and hooked == 0 and any(word.text for word in selection.words):
        words = [f"{word.option} {word.text}" for word in selection.words if word.text]
        lines.append(f"no call matches {' with '.join(dict.fromkeys(words))}")
    return lines


def _explain(word: Word, symbols: list[str], images: list[Image]) -> list[str]:
    """Explain one word; no line if it is an exclusion that had nothing to exclude."""
    shown = f"{word.option} {word.text}"
    found = [image for image in images if _matches_image(word.image, image)]
    if word.kind in (layout.RULE_FROM, layout.RULE_TO):
        what = "caller" if word.kind == layout.RULE_FROM else "callee"
        if found:
            return [f"{shown} matches no {what}: {found[0].name} has no such calls"]
        return [f"{shown} matches no {what}{_did_you_mean(_near_images(word.image, images))}"]
    known = word.symbol.is_any or _any_matches(word.symbol, symbols)
    if word.kind == layout.RULE_EXCLUDE:
        if known or not word.symbol.is_plain:
            return []
        misses = near_misses(word.symbol.text, symbols)
        return [f"{shown} excludes nothing{_did_you_mean(misses)}"] if misses else []
    if not known:
        misses = near_misses(_literal(word.symbol), symbols)
        return [f"{shown} matches no symbol{_did_you_mean(misses)}"]
    if not found:
        # In an expression a sign begins a rule: @ld-linux.so.2 has been cut short.
        misses = [
            name.replace("-", r"\-").replace("+", r"\+")
            for name in _near_images(word.image, images)
        ]
        return [f"{shown} matches no caller{_did_you_mean(misses)}"]
    if word.image.is_any:
        return [f"{shown} matches no call"]
    # What follows the at-sign is the caller; most who write it mean the callee.
    return [f"{shown} matches no caller{_did_you_mean([f'-l {word.image.text}'])}"]


def _did_you_mean(words: list[str]) -> str:
    """Return the end of a line that names what may have been meant."""
    return f"; did you mean {', '.join(words)}?" if words else ""


def _any_matches(pattern: Pattern, names: list[str]) -> bool:
    """Say whether a pattern matches one of the names."""
    automaton = compile_pattern(pattern)
    return any(automaton.matches(name.encode("utf-8", "surrogateescape")) for name in names)


def _matches_image(pattern: Pattern, image: Image) -> bool:
    """Say whether a pattern for images matches this one."""
    if pattern.is_main:
        return image.is_main
    if pattern.is_any:
        return True
    return _any_matches(pattern, [image.path if pattern.is_path else image.name])


def _near_images(pattern: Pattern, images: list[Image]) -> list[str]:
    """Return the images that a pattern may have meant, as words for the command line."""
    if pattern.is_path:
        names = sorted({image.path for image in images if image.path})
    else:
        names = sorted({image.name for image in images if image.name})
    return near_misses(_literal(pattern), names)


def _literal(pattern: Pattern) -> str:
    """Return the longest run of a pattern in which nothing is special."""
    special = r"\\.|\[[^]]*\]|[*?.^$\\]" if pattern.is_regex else r"\[[^]]*\]|[*?]"
    runs = re.split(special, pattern.text)
    return max(runs, key=len, default="")


def near_misses(name: str, candidates: list[str]) -> list[str]:
    """Return up to three of the candidates that `name` may have been meant to be.

    First those that differ in case, are a C++ name with this identifier, or begin with
    it; then those that are alike letter by letter.
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
        elif candidate.startswith("_Z") and mangled in candidate:
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
