# SPDX-License-Identifier: Apache-2.0
"""What the profile of a boundary says of images whose method tables were not looked for."""

from __future__ import annotations

import struct

from soscope.instruments.prof.boundary import unseen_tables
from soscope.recording import format as form
from soscope.recording.names import RecordedProgram
from soscope.wire import layout


def program(*flags: int) -> RecordedProgram:
    """Return a program with an image for each of these flags."""
    made = RecordedProgram(0)
    made.add(form.STRINGS, 0, b"\0odd.so\0")
    for index, each in enumerate(flags):
        record = bytearray(layout.IMAGE.size)
        values = {"name": 1, "path": 1, "start": 4096, "end": 8192, "flags": each, "ready": 1}
        for field, value in values.items():
            size = layout.IMAGE.fields[field][1]
            struct.pack_into("<Q" if size == 8 else "<I", record, layout.IMAGE.offset(field), value)
        made.add(form.IMAGES, index, bytes(record))
    return made


def test_images_with_tables_that_were_not_looked_for_are_named_once() -> None:
    assert unseen_tables([program(0)]) == []
    unseen = layout.IMAGE_METHODS_UNSEEN
    notes = unseen_tables([program(0, unseen), program(unseen)])
    assert len(notes) == 1
    assert notes[0].startswith("odd.so: method tables not hooked")
