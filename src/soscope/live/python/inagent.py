# SPDX-License-Identifier: Apache-2.0
"""The layout of each version of CPython, in the form that the agent needs."""

from __future__ import annotations

from soscope.live.python.offsets import NEWEST, OLDEST, PythonLayout, layout_of
from soscope.wire import headers as layout

_TAGS = 7  # tag bits of a pointer in a frame
_MANAGED_DICT, _MANAGED_WEAKREF = 1 << 4, 1 << 3  # of tp_flags: 16 bytes in front of the object


def agent_layouts() -> bytes:
    """Return `struct sosc_python` for each known version."""
    versions = [(OLDEST[0], minor) for minor in range(OLDEST[1], NEWEST[1] + 1)]
    return b"".join(_pack(layout_of(version)) for version in versions)


def _pack(of: PythonLayout) -> bytes:
    minor = of.version[1]
    fields = {
        "minor": minor,
        "state_thread": of.tstate_thread_id,
        "state_frame": of.tstate_frame,
        "inner_frame": of.cframe_frame,
        "frame_code": of.frame_code,
        "frame_tag": _TAGS,
        "frame_previous": of.frame_previous,
        "frame_instr": of.frame_instr,
        "instr_kind": of.instr_kind,
        "frame_owner": of.frame_owner,
        "shim": of.owner_shim,
        "frame_entry": of.frame_entry,
        "code_file": of.code_filename,
        "code_name": of.code_name,
        "code_first_line": of.code_firstlineno,
        "code_lines": of.code_linetable,
        "code_bytes": of.code_bytecode if of.instr_kind == layout.INSTR_POINTER else 0,
        "text_length": of.str_length,
        "text_state": of.str_state,
        "text_ascii": of.str_ascii_data,
        "text_compact": of.str_compact_data,
        "bytes_data": of.bytes_data,
        "type_flags": of.type_flags,
        "head_flags": _head_flags(minor),
        "frame_values": of.frame_data,
        "code_values": of.code_nlocals,
        "code_stack": of.code_stacksize,
        "code_cells": of.code_cellvars,
        "code_frees": of.code_freevars,
        "code_consts": of.code_consts,
    }
    return layout.PYTHON.struct.pack(*(fields[name] for name in layout.PYTHON.fields))


def _head_flags(minor: int) -> int:
    if minor < 11:
        return 0
    return _MANAGED_DICT if minor == 11 else _MANAGED_DICT | _MANAGED_WEAKREF
