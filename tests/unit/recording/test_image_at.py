# SPDX-License-Identifier: Apache-2.0
"""The image at an address of a recorded program."""

from __future__ import annotations

import pytest

from soscope.model.image import IMAGE_CLOSED, IMAGE_STARTUP, TracedImage
from soscope.recording import format as form
from soscope.recording.clock import Clock
from soscope.recording.names import RecordedProgram, in_image
from soscope.wire import layout


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


CAME, WENT, FORKED = layout.MOVE_CAME, layout.MOVE_WENT, layout.MOVE_FORKED
NONE = layout.NONE


def moved(*rows: tuple[int, int, int, int, int, int]) -> RecordedProgram:
    """Return a program with two files that had one place in turn, and its moves."""
    program = RecordedProgram(0)
    main = image(2, "/bin/main", bias=0x9000)
    main.flags = IMAGE_STARTUP
    data = b"".join(layout.MOVE.struct.pack(*row) for row in rows)
    program.add(form.MOVES, 0, data)
    program._images = {0: image(0, "/lib/a.so"), 1: image(1, "/lib/b.so"), 2: main}
    return program


def clock() -> Clock:
    known = Clock()
    known.add(1, 1, 1)
    known.add(1_000_001, 1_000_001, 1_000_001)  # a tick is a nanosecond
    return known


def index_at(program: RecordedProgram, time: int, pid: int = 1, addr: int = 0x1900) -> int | None:
    """Return the index of the image that a process had at a time, None: none."""
    index, alone = in_image(program.word(addr, pid, time, clock().time_ns))
    assert alone == addr
    return None if index == layout.NO_IMAGE - 1 else index


def test_a_place_is_whose_it_was_at_that_time() -> None:
    program = moved(
        (CAME, 0, 1, 0, 100, 0),
        (WENT, 0, 1, 0, 200, 0),
        (CAME, 1, 1, 0, 300, 0),
        (WENT, 1, 1, 0, 400, 0),
        (CAME, 0, 1, 0, 500, 0),
    )
    at = {time: index_at(program, time) for time in (99, 100, 199, 200, 299, 300, 399, 400, 500)}
    nobody = dict.fromkeys((99, 200, 299, 400))
    assert at == {100: 0, 199: 0, 300: 1, 399: 1, 500: 0} | nobody
    assert index_at(program, 0) is None  # its time is not known
    assert index_at(program, 250, addr=0x9900) is None  # it needs none: nobody else was there
    assert program.word(0x9900, 1, 250, clock().time_ns) == 0x9900
    caller = program.images()[1]
    assert in_image(program.word(0x1900, 1, 150, clock().time_ns, caller))[0] == 1


def test_a_forked_child_has_what_its_parent_had_then() -> None:
    program = moved(
        (CAME, 0, 1, 0, 100, 0),
        (WENT, 0, 1, 0, 200, 100),
        (FORKED, NONE, 2, 1, 250, 100),  # it was forked before, and seen later
        (CAME, 1, 1, 0, 300, 200),
        (WENT, 0, 2, 0, 400, 100),
        (FORKED, NONE, 3, 2, 450, 400),
        (CAME, 1, 3, 0, 500, 400),
    )
    assert [index_at(program, time, 2) for time in (240, 300, 399, 400)] == [0, 0, 0, None]
    assert [index_at(program, time, 3) for time in (460, 499, 500)] == [None, None, 1]
    assert index_at(program, 300, 4) is None  # nobody knows that process


def test_moves_that_found_no_room_leave_a_place_to_nobody() -> None:
    row = layout.MOVE.struct.pack(CAME, 0, 1, 0, 100, 0)
    program = moved()
    program.add(form.MOVES, 0, row * layout.MAX_MOVES)
    assert index_at(program, 99) is None
    assert index_at(program, 100) is None
    assert in_image(program.word(0x1900, 1, 100, clock().time_ns, program.images()[0]))[0] == 0


def test_an_addr_of_a_stack_that_names_no_image_is_in_the_first_one() -> None:
    program = moved((CAME, 0, 1, 0, 100, 0))
    named = [program.image_of(0x1900 | number << layout.IMAGE_SHIFT) for number in (0, 1, 2)]
    assert [each and each.index for each in named] == [0, 0, 1]
    assert program.image_of(0x1900 | layout.NO_IMAGE << layout.IMAGE_SHIFT) is None
    assert moved().image_of(0x1900) is None  # of an older version: several had it
    assert moved().image_of(0x9900) is not None
