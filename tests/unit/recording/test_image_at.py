# SPDX-License-Identifier: Apache-2.0
"""The image at an address of a recorded program."""

from __future__ import annotations

import pytest

from soscope.model.image import IMAGE_CLOSED, TracedImage
from soscope.recording.names import RecordedProgram


def image(index: int, path: str, build_id: bytes = b"\1", bias: int = 0x1000) -> TracedImage:
    return TracedImage(index, 0, path, path, bias, bias, bias + 0x1000, build_id, 0, 0, 0, 0, 1)


PLACES = pytest.mark.parametrize(
    ("later", "found"),
    [
        (image(1, "/lib/a.so"), 1),  # loaded again where it was
        (image(1, "/lib/b.so"), None),
        (image(1, "/lib/a.so", b"\2"), None),  # another file by now
        (image(1, "/lib/a.so", bias=0x1800), None),
        (image(1, "/lib/b.so", bias=0x2000), 0),  # beside it
    ],
)


@PLACES
def test_a_place_is_whose_it_was_at_the_end(later: TracedImage, found: int | None) -> None:
    program = RecordedProgram(0)
    first = image(0, "/lib/a.so")
    program._images = {0: first, 1: later}
    assert program.open_at(0x1900) == program.image_at(0x1900)
    first.flags = IMAGE_CLOSED
    at = program.open_at(0x1900)
    assert (at is None) == (found == 0)
    assert at in (None, later)


@PLACES
def test_a_place_that_several_files_had_is_nobody_s(later: TracedImage, found: int | None) -> None:
    program = RecordedProgram(0)
    program._images = {0: image(0, "/lib/a.so"), 1: later}
    at = program.image_at(0x1900)
    assert (at and at.index) == found
    assert program.image_at(0x900) is None
