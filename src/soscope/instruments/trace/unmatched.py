# SPDX-License-Identifier: Apache-2.0
"""Reports words of a filter that have matched nothing, and what the user may have meant.

It does so twice: when the images are loaded that the target starts with, and after its end.
Images may be loaded late, so only then it is certain that nothing has matched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from soscope.model.image import TracedImage
from soscope.select.automaton import Automaton
from soscope.select.filter import (
    Pattern,
    Selection,
    Word,
    compile_pattern,
    compile_symbol,
    near_misses,
    without_anchors,
)
from soscope.wire import layout
from soscope.wire.block import ControlBlock

# Libraries that are part of glibc's libc.so.6 since version 2.34.
_LIBC = "libc.so.6"
_IN_LIBC = tuple(f"lib{name}.so" for name in ("pthread", "dl", "util", "anl", "rt"))
_SO_FAR = " so far (what is loaded later may match)"


def explain_unmatched(
    selection: Selection,
    matched: Sequence[int],
    symbols: Iterable[str],
    images: Iterable[TracedImage],
    *,
    hooked: int | None = None,
) -> list[str]:
    """Return one line for each word that has matched nothing, with near misses.

    `matched` has the number of matches of each rule (ControlBlock.rules_matched, which may be
    summed over several programs). `symbols` are all function symbols that some image imports, and
    `images` are all images that were seen. `hooked` is the number of chosen slots. If every word
    has matched and yet no slot was chosen, a line tells so.
    """
    names = sorted(set(symbols))
    seen = list(images)
    lines = [line for word in selection.unmatched(matched) for line in _explain(word, names, seen)]
    if not lines and hooked == 0 and any(word.text for word in selection.words):
        words = [f"{word.option} {word.text}" for word in selection.words if word.text]
        lines.append(f"no call matches {' with '.join(dict.fromkeys(words))}")
    return lines


def explain_so_far(
    missing: Sequence[Word], blocks: Sequence[ControlBlock], meanwhile: Callable[[], object]
) -> Iterator[str]:
    """Yield a line for each word that has matched nothing in any of the programs.

    Calls `meanwhile` often, as the target runs already.
    """
    from soscope.control.imports import imported_functions

    images = [image for number, block in enumerate(blocks) for image in block.images(number)]
    names: set[str] = set()
    for path in {image.path for image in images}:
        names |= imported_functions([path])
        meanwhile()
    symbols = sorted(names)
    for word in missing:
        yield from _explain(word, symbols, images, _SO_FAR)
        meanwhile()


def _explain(
    word: Word, symbols: list[str], images: list[TracedImage], so_far: str = ""
) -> list[str]:
    """Explain one word; no line if it is an exclusion that had nothing to exclude."""
    shown = f"{word.option} {word.text}"
    matching = [image for image in images if _matches_image(word.image, image)]
    if word.kind in (layout.RULE_FROM, layout.RULE_TO):
        what = "caller" if word.kind == layout.RULE_FROM else "callee"
        if matching:
            return [f"{shown} matches no {what}{so_far}: {matching[0].name} has no such calls"]
        if word.image.text.startswith(_IN_LIBC) and any(image.name == _LIBC for image in images):
            why = f": glibc 2.34 and newer has it in {_LIBC} ({word.option} {_LIBC})"
        else:
            why = _did_you_mean(_near_images(word.image, images))
        return [f"{shown} matches no {what}{so_far}{why}"]
    known = word.symbol.is_any or _any_matches(compile_symbol(word.symbol), symbols)
    if word.kind == layout.RULE_EXCLUDE:
        if known or not word.symbol.is_plain:
            return []
        misses = near_misses(without_anchors(word.symbol.text), symbols)
        return [f"{shown} excludes nothing{so_far}{_did_you_mean(misses)}"] if misses else []
    if not known:
        inside = "" if so_far or not word.symbol.is_plain else _inside(word.symbol.text, images)
        misses = [] if inside else near_misses(_literal(word.symbol), symbols)
        return [f"{shown} matches no symbol{so_far}{inside}{_did_you_mean(misses)}"]
    if not matching:
        # A sign in an expression begins a rule, so @ld-linux.so.2 was cut short.
        misses = [
            name.replace("-", r"\-").replace("+", r"\+")
            for name in _near_images(word.image, images)
        ]
        return [f"{shown} matches no caller{so_far}{_did_you_mean(misses)}"]
    if word.image.is_any:
        return [f"{shown} matches no call{so_far}"]
    # The word behind the at-sign is the caller. Most users who write it mean the callee.
    meant = _did_you_mean([f"-l {word.image.text}"])
    return [f"{shown} matches no caller{so_far}: behind @ stands who calls{meant}"]


def _inside(name: str, images: list[TracedImage]) -> str:
    """Return which images define a function that no image calls through a slot, and an option."""
    from soscope.control.imports import which_define

    by_path = {image.path: image.name for image in images if image.path and image.name}
    words = [f"-x {name}@{by_path[path]}" for path in which_define(name, by_path)]
    if not words:
        return ""
    whose = ", ".join(word.partition("@")[2] for word in words)
    has = "has a function" if len(words) == 1 else "have functions"
    return f": {whose} {has} of that name inside; {' '.join(words)} shows its calls"


def _did_you_mean(words: list[str]) -> str:
    """Return the end of a line that lists what the user may have meant."""
    return f"; did you mean {', '.join(words)}?" if words else ""


def _any_matches(automaton: Automaton, names: list[str]) -> bool:
    """Return whether one of the names matches."""
    return any(automaton.matches(name.encode("utf-8", "surrogateescape")) for name in names)


def _matches_image(pattern: Pattern, image: TracedImage) -> bool:
    """Return whether a pattern for images matches this one."""
    if pattern.is_main:
        return image.is_main
    if pattern.is_any:
        return True
    name = image.path if pattern.is_path else image.name
    return _any_matches(compile_pattern(pattern), [name])


def _near_images(pattern: Pattern, images: list[TracedImage]) -> list[str]:
    """Return the images that a pattern may have meant, as words for the command line."""
    if pattern.is_path:
        names = sorted({image.path for image in images if image.path})
    else:
        names = sorted({image.name for image in images if image.name})
    return near_misses(_literal(pattern), names)


def _literal(pattern: Pattern) -> str:
    """Return the longest part of a pattern without special characters."""
    import re  # takes milliseconds, and most traces have matched everything

    special = r"\\.|\[[^]]*\]|[*?.^$\\]" if pattern.is_regex else r"\[[^]]*\]|[*?]|^\^|\$$"
    runs = re.split(special, pattern.text)
    return max(runs, key=len, default="")
