# SPDX-License-Identifier: Apache-2.0
"""Stacks as the words of a recording have them, and what is shown of them."""

from __future__ import annotations

import json
import struct

from soscope.model.call import DATA_BYTES, STACK_ITEM, Captured, Entry
from soscope.model.image import ERROR_NONE, HOOKED, SLOT_JUMP_SLOT, TracedSlot
from soscope.recording import format as form
from soscope.recording.names import Programs
from soscope.report.trace.adorned import CallStacks
from soscope.report.trace.display import Display
from soscope.wire import headers, layout

PYTHON = 1 << layout.FRAME_PYTHON
LINE = 1 << layout.FRAME_INSTR  # of Ruby, whose frames have a line for an instruction


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def code(file: bytes, name: bytes) -> bytes:
    """Return the words of what a code of Ruby's says of itself."""
    head = headers.CODE.struct.pack(0, len(file), 0, len(name), 0, 0)
    data = head + file + name
    data += bytes(-len(data) % 8)
    size = len(data) // 8 << layout.STACK_SIZE
    return words(size | 1 << layout.STACK_CODE) + data


def programs(table: bytes) -> Programs:
    made = Programs()
    made[0].add(form.STACKS, 1, table)
    return made


def entry(stack: int | None) -> Entry:
    slot = TracedSlot(
        0, 0, "malloc", "", None, None, 0, SLOT_JUMP_SLOT, HOOKED, False, False, 1, ERROR_NONE
    )
    items = {} if stack is None else {STACK_ITEM: (DATA_BYTES, 0, stack.to_bytes(4, "little"))}
    return Entry(0, 7, 7, slot, 0, 0x1234, Captured((1,), data=items), False)


def test_frames_stand_in_order_as_many_as_are_wanted() -> None:
    made = code(b"/srv/app.rb", b"render")
    first = 1 + len(made) // 8
    table = made + words(3, 0x1111, 0x2222, PYTHON | 31 * LINE | 1)
    text = CallStacks(programs(table), Display(stacks=64)).text(entry(first))
    # no evaluator is known: the interpreter's frames stand behind all others
    assert text.splitlines() == [" > [0x1111]", " > [0x2222]", " > /srv/app.rb:31 in render"]
    assert CallStacks(programs(table), Display(stacks=1)).text(entry(first)) == " > [0x1111]\n"


def test_members_are_those_that_are_documented() -> None:
    made = code(b'/srv/"app".rb', b"render")
    table = made + words(2, 0x1111, PYTHON | 31 * LINE | 1)
    stacks = CallStacks(programs(table), Display(stacks=64))
    document = json.loads("{" + stacks.members(entry(1 + len(made) // 8)).rstrip(",") + "}")
    native = {"image": None, "symbol": None, "offset": 0x1111, "file": None, "line": None}
    own = {"image": None, "symbol": "render", "offset": None, "file": '/srv/"app".rb', "line": 31}
    assert document == {"stack": [native, own]}


def test_names_of_the_program_do_nothing_to_a_terminal() -> None:
    made = code(b"a\nb.rb", b"\x1b[31mred")
    table = made + words(1, PYTHON | LINE | 1)
    text = CallStacks(programs(table), Display(stacks=64)).text(entry(1 + len(made) // 8))
    assert text == " > a\\x0ab.rb:1 in \\x1b[31mred\n"


def test_what_is_not_known_is_not_shown() -> None:
    stacks = CallStacks(programs(words(1, 0x1111)), Display(stacks=64))
    for number in (None, 0, 99):
        assert stacks.text(entry(number)) == ""
        assert stacks.members(entry(number)) == '"stack":null,'


def test_a_code_that_found_no_room_is_a_question_mark() -> None:
    stacks = CallStacks(programs(words(2, 0x1111, PYTHON)), Display(stacks=64))
    assert stacks.text(entry(1)) == " > [0x1111]\n > ?\n"
