# SPDX-License-Identifier: Apache-2.0
"""What `_PyRuntime` says of itself: made up here; real ones are in the integration tests."""

from __future__ import annotations

from struct import pack_into

import pytest

from soscope.errors import FormatError, SoscopeError
from soscope.live.python import offsets
from soscope.live.python.offsets import AGENT_FIELDS, DEBUG_SIZE, PythonLayout, layout_of


def debug_offsets(layout: PythonLayout, *, free_threaded: int = 0) -> bytearray:
    """Lay out `_Py_DebugOffsets` as pycore_runtime.h of 3.13 does."""
    head = bytearray(DEBUG_SIZE)
    pack_into("<8sQQ", head, 0, b"xdebugpy", 0x030D00F0, free_threaded)
    # byte offsets in the struct of 3.13.5, as its compiler says
    places = {
        176: layout.tstate_interp,
        184: layout.tstate_frame,
        192: layout.tstate_thread_id,
        232: layout.frame_previous,
        240: layout.frame_code,
        248: layout.frame_instr,
        256: layout.frame_data,
        264: layout.frame_owner,
        280: layout.code_filename,
        288: layout.code_name,
        296: layout.code_qualname,
        304: layout.code_linetable,
        312: layout.code_firstlineno,
        344: layout.code_bytecode,
        360: layout.object_type,
        376: layout.type_name,
        392: layout.type_flags,
        528: layout.bytes_data,
        544: layout.str_state,
        552: layout.str_length,
        560: layout.str_ascii_data,
    }
    for at, value in places.items():
        pack_into("<Q", head, at, value)
    return head


def test_what_the_interpreter_says_wins() -> None:
    base = layout_of((3, 13))
    assert PythonLayout.from_debug_offsets(bytes(debug_offsets(base))) == base
    other = base.but(tstate_frame=88, frame_owner=71, code_filename=160)
    assert PythonLayout.from_debug_offsets(bytes(debug_offsets(other))) == other


def test_a_build_without_a_gil_is_refused() -> None:
    head = debug_offsets(layout_of((3, 13)), free_threaded=1)
    with pytest.raises(SoscopeError, match=r"3\.13: it was built without a GIL"):
        PythonLayout.from_debug_offsets(bytes(head))


def test_damaged_debug_offsets_are_refused() -> None:
    head = debug_offsets(layout_of((3, 13)))
    with pytest.raises(FormatError, match="does not begin with debug offsets"):
        PythonLayout.from_debug_offsets(bytes(head[:100]))
    with pytest.raises(FormatError, match="does not begin with debug offsets"):
        PythonLayout.from_debug_offsets(b"\0" * DEBUG_SIZE)
    pack_into("<Q", head, 280, 1 << 40)
    with pytest.raises(FormatError, match="code_filename is 1099511627776"):
        PythonLayout.from_debug_offsets(bytes(head))


def test_unknown_versions_are_refused() -> None:
    for version in ((2, 7), (3, 8), (3, 16)):
        with pytest.raises(SoscopeError, match=r"its structs are not known") as caught:
            layout_of(version)
        assert caught.value.hint == "soscope reads 3.9 to 3.15"
    head = debug_offsets(layout_of((3, 13)))
    pack_into("<Q", head, 8, 0x031000F0)
    with pytest.raises(SoscopeError, match=r"CPython 3\.16: its structs are not known"):
        PythonLayout.from_debug_offsets(bytes(head))


def test_the_agent_gets_words_of_32_bits() -> None:
    for minor in range(9, 16):
        words = layout_of((3, minor)).agent_words()
        assert len(words) == len(AGENT_FIELDS)
        assert all(0 <= word <= offsets.NOTHING for word in words)
