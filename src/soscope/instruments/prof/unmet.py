# SPDX-License-Identifier: Apache-2.0
"""Patterns of `-l` that match no image of any profiled program."""

from __future__ import annotations

from collections.abc import Iterable

from soscope.errors import UsageError
from soscope.model.image import TracedImage
from soscope.select.filter import compile_selection, rules_matched


def unmet(patterns: list[str], images: Iterable[TracedImage]) -> list[str]:
    """Return a line for each pattern (as of `-l`) that matches none of the images."""
    try:
        selection = compile_selection([], [], patterns)
    except UsageError:
        return []  # a recording from another version
    counts = [0] * len(selection.words)
    for image in images:
        names = image.name, image.path, image.is_main
        for number, is_matched in enumerate(rules_matched(selection, "", names, names)):
            counts[number] += is_matched
    return [f"-l {word.text} matches no image" for word in selection.unmatched(counts)]
