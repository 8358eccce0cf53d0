# SPDX-License-Identifier: Apache-2.0
"""The offsets of fields in CPython's structs by version, for soscope and the agent."""

from __future__ import annotations

from struct import Struct, unpack_from

from soscope.errors import FormatError, SoscopeError
from soscope.model.record import Record
from soscope.wire import headers as layout

# Offsets in CPython's structs of all that soscope reads: a `PythonLayout` for a minor version.
#
# All numbers are bytes from the start of a struct on a 64-bit machine, for release builds with a
# GIL. Patch releases of one minor version agree. The numbers are from CPython's headers
# (pycore_frame.h, code.h, unicodeobject.h, object.h, pycore_dict.h), which a test compiles if they
# are installed.

NOTHING = 0xFFFF_FFFF  # as an offset: this version has no such field
COOKIE = b"xdebugpy"

# How `frame_instr` refers to the instruction.
BYTE_INDEX = 0  # an int32, the offset in bytes (3.9)
UNIT_INDEX = 1  # an int32, the offset in units of two bytes (3.10)
POINTER = 2  # the address of the instruction (3.11 and newer)

OLDEST, NEWEST = (3, 9), (3, 15)

# The order of `agent_words`: the agent's struct has these fields, each a u32.
AGENT_FIELDS = (
    "tstate_frame",  # the current frame, or the C frame that leads to it
    "cframe_frame",  # NOTHING if tstate_frame is the frame itself
    "tstate_interp",
    "tstate_thread_id",
    "frame_code",  # a pointer whose three low bits are tags
    "frame_previous",
    "frame_instr",
    "instr_kind",  # BYTE_INDEX, UNIT_INDEX or POINTER
    "frame_owner",  # one byte; NOTHING if all frames have code
    "frame_entry",  # one byte: the frame was called from C code; NOTHING except in 3.11
    "owner_shim",  # if the owner is at least this, the frame has no code: go to the previous
    "code_filename",
    "code_name",
    "code_qualname",  # NOTHING if there is none
    "code_firstlineno",  # an int32
    "code_linetable",  # a bytes object
    "code_bytecode",  # start of the instructions in the code object; NOTHING before 3.11
    "object_refcnt",
    "object_type",
    "var_size",
    "type_name",
    "type_basicsize",
    "type_itemsize",
    "type_flags",
    "str_length",
    "str_state",
    "str_ascii_data",
    "str_compact_data",
    "bytes_data",
)


class PythonLayout(Record, kw_only=True, frozen=True, eq=True):
    """The layout of one minor version of CPython, `version` as (3, 11).

    A field that the version lacks is NOTHING. `code_varnames` is the tuple of the names of a
    frame's variables: from 3.11 on all of them, before that only those that are in no cell.
    `frame_data` is the offset of a frame's variables. `frameobject_frame` is the offset in a
    frame object of the pointer to its frame. `dict_keys_head` is the size of the head of a
    dictionary's keys. `heaptype_size` and `type_size` are the sizes of the C structs. A layout
    never changes; `but` makes another one.

    >>> from soscope.live.python.offsets import layout_of
    >>> layout_of((3, 11)).code_filename
    112
    """

    version: tuple[int, int]
    tstate_frame: int
    cframe_frame: int
    tstate_thread_id: int
    frame_code: int
    frame_previous: int
    frame_instr: int
    instr_kind: int
    frame_owner: int
    frame_data: int
    code_filename: int
    code_name: int
    code_qualname: int
    code_firstlineno: int
    code_linetable: int
    code_bytecode: int
    code_nlocals: int
    code_stacksize: int
    code_extra: int
    code_consts: int
    code_varnames: int
    code_freevars: int
    code_cellvars: int
    generator_frame: int
    frameobject_data: int
    str_ascii_data: int
    str_compact_data: int
    str_legacy_size: int
    str_utf8_length: int
    heaptype_name: int
    heaptype_size: int
    type_size: int
    dict_keys_head: int
    tstate_interp: int = 16
    owner_shim: int = NOTHING
    frame_entry: int = NOTHING
    object_refcnt: int = 0
    object_type: int = 8
    var_size: int = 16
    type_name: int = 24
    type_basicsize: int = 32
    type_itemsize: int = 40
    type_flags: int = 168
    type_methods: int = 232
    type_base: int = 256
    type_dict: int = 264
    type_mro: int = 344
    str_length: int = 16
    str_state: int = 32
    bytes_data: int = 32
    dict_keys: int = 32
    dict_values: int = 40

    def agent_words(self) -> list[int]:
        """Return the fields that the agent needs, in the order of AGENT_FIELDS, as u32 each."""
        return [getattr(self, field) for field in AGENT_FIELDS]

    @property
    def heaptype_qualname(self) -> int:
        """Offset of the qualified name in a heap type."""
        return self.heaptype_name + 16

    @property
    def heaptype_cached_keys(self) -> int:
        """Offset in a heap type of the keys that its instances share."""
        return self.heaptype_name + 24

    @classmethod
    def from_debug_offsets(cls, head: bytes) -> PythonLayout:
        """Return the layout in `_PyRuntime` itself, given its first DEBUG_SIZE bytes.

        It is for 3.13 and newer. Fields that the interpreter does not give come from the table of
        its version. Raises FormatError if the bytes are not such a struct, and SoscopeError for a
        free-threaded build or an unknown version. pycore_runtime.h and pycore_debug_offsets.h,
        `_Py_DebugOffsets`.
        """
        version, free_threaded = debug_version(head)
        if free_threaded:
            raise SoscopeError(
                f"CPython {version[0]}.{version[1]}: it was built without a GIL",
                hint="its objects are laid out in another way, which soscope does not read",
            )
        base = layout_of(version)
        said = {
            field: unpack_from("<Q", head, 8 * index)[0]
            for field, index in _DEBUG_WORDS[version].items()
        }
        compact = said["str_ascii_data"] + 16  # behind the length and address of the UTF-8 form
        wrong = next((field for field, value in said.items() if value >= _MOST[field]), None)
        if wrong is not None:
            raise FormatError(f"_PyRuntime: debug offsets: {wrong} is {said[wrong]}", field=wrong)
        return base.but(**said, str_compact_data=compact)


DEBUG_SIZE = 1024
_HEAD = Struct("<8sQQ")
_MOST = dict.fromkeys(AGENT_FIELDS, 4096)
_MOST["tstate_frame"] = 1 << 20


def debug_version(head: bytes) -> tuple[tuple[int, int], bool]:
    """Return the version, and whether there is no GIL, from the first bytes of `_PyRuntime`.

    Raises FormatError if these are not debug offsets, SoscopeError for an unknown version.
    """
    if len(head) < DEBUG_SIZE or not head.startswith(COOKIE):
        raise FormatError("_PyRuntime: it does not begin with debug offsets", field="cookie")
    _, number, free_threaded = _HEAD.unpack_from(head)
    version = number >> 24 & 0xFF, number >> 16 & 0xFF
    if version not in _DEBUG_WORDS:
        raise _unknown(version)
    return version, bool(free_threaded)


def layout_of(version: tuple[int, int]) -> PythonLayout:
    """Return the layout of a minor version. Raises SoscopeError if it is not known."""
    layout = _LAYOUTS.get(version)
    if layout is None:
        raise _unknown(version)
    return layout


def _unknown(version: tuple[int, int]) -> SoscopeError:
    return SoscopeError(
        f"CPython {version[0]}.{version[1]}: its structs are not known",
        hint=f"soscope reads {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}",
    )


_3_9 = PythonLayout(
    version=(3, 9),
    tstate_frame=24,
    cframe_frame=NOTHING,
    tstate_thread_id=176,
    frame_code=32,
    frame_previous=24,
    frame_instr=104,
    instr_kind=BYTE_INDEX,
    frame_owner=NOTHING,
    frame_data=360,
    code_filename=104,
    code_name=112,
    code_qualname=NOTHING,
    code_firstlineno=40,
    code_linetable=120,
    code_bytecode=NOTHING,
    code_nlocals=28,
    code_stacksize=32,
    code_extra=144,
    code_consts=56,
    code_varnames=72,
    code_freevars=80,
    code_cellvars=88,
    generator_frame=NOTHING,
    frameobject_data=NOTHING,
    str_ascii_data=48,
    str_compact_data=72,
    str_legacy_size=80,
    str_utf8_length=48,
    heaptype_name=840,
    heaptype_size=880,
    type_size=408,
    dict_keys_head=40,
)
_3_10 = _3_9.but(
    version=(3, 10),
    frame_instr=96,
    instr_kind=UNIT_INDEX,
    frame_data=352,
    heaptype_name=848,
    heaptype_size=888,
)
_3_11 = _3_10.but(
    version=(3, 11),
    tstate_frame=56,
    cframe_frame=8,
    tstate_thread_id=152,
    frame_previous=48,
    frame_instr=56,
    instr_kind=POINTER,
    frame_owner=69,
    frame_entry=68,
    frame_data=72,
    code_filename=112,
    code_name=120,
    code_qualname=128,
    code_firstlineno=72,
    code_linetable=136,
    code_bytecode=184,
    code_nlocals=76,
    code_stacksize=68,
    code_extra=176,
    code_consts=24,
    code_varnames=96,
    code_freevars=NOTHING,
    code_cellvars=NOTHING,
    generator_frame=80,
    frameobject_data=48,
    heaptype_size=904,
    dict_keys_head=32,
)
_3_12 = _3_11.but(
    version=(3, 12),
    cframe_frame=0,
    tstate_thread_id=136,
    frame_code=0,
    frame_previous=8,
    frame_owner=70,
    frame_entry=NOTHING,
    owner_shim=3,
    code_firstlineno=68,
    code_bytecode=192,
    code_nlocals=72,
    code_stacksize=64,
    code_extra=184,
    generator_frame=72,
    str_ascii_data=40,
    str_compact_data=56,
    str_legacy_size=64,
    str_utf8_length=40,
    heaptype_name=856,
    heaptype_size=920,
    type_size=416,
)
_3_13 = _3_12.but(
    version=(3, 13),
    tstate_frame=72,
    cframe_frame=NOTHING,
    tstate_thread_id=152,
    code_bytecode=200,
    code_extra=192,
    frameobject_data=64,
    heaptype_size=928,
)
_3_14 = _3_13.but(
    version=(3, 14),
    frame_owner=74,
    frame_data=80,
    code_bytecode=208,
    code_extra=200,
    frameobject_data=72,
    heaptype_size=936,
)
_3_15 = _3_14.but(
    version=(3, 15),
    tstate_thread_id=176,
    heaptype_name=864,
    heaptype_size=944,
    type_size=424,
)
_LAYOUTS = {layout.version: layout for layout in (_3_9, _3_10, _3_11, _3_12, _3_13, _3_14, _3_15)}


def _words(
    thread: int, thread_id: int, frame: int, code: int, thing: int, text: int
) -> dict[str, int]:
    """Return the word index in `_Py_DebugOffsets` of each field, given the starts of its groups."""
    return {
        "tstate_interp": thread,
        "tstate_frame": thread + 1,
        "tstate_thread_id": thread_id,
        "frame_previous": frame,
        "frame_code": frame + 1,
        "frame_instr": frame + 2,
        "frame_data": frame + 3,
        "frame_owner": frame + 4,
        "code_filename": code,
        "code_name": code + 1,
        "code_qualname": code + 2,
        "code_linetable": code + 3,
        "code_firstlineno": code + 4,
        "code_bytecode": code + 8,
        "object_type": thing,
        "type_name": thing + 2,
        "type_flags": thing + 4,
        "str_state": text,
        "str_length": text + 1,
        "str_ascii_data": text + 2,
        "bytes_data": text - 2,
    }


_DEBUG_WORDS = {
    (3, 13): _words(thread=22, thread_id=24, frame=29, code=35, thing=45, text=68),
    (3, 14): _words(thread=25, thread_id=27, frame=32, code=40, thing=51, text=78),
    (3, 15): _words(thread=25, thread_id=30, frame=40, code=48, thing=59, text=90),
}
_MOST["frame_data"] = 4096


# The layout of each version of CPython, in the form that the agent needs.

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
