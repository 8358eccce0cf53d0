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
_MANAGED_DICT, _MANAGED_WEAKREF = 1 << 4, 1 << 3  # of tp_flags: 16 bytes in front of the object

# How `frame_instr` refers to the instruction.
BYTE_INDEX = 0  # an int32, the offset in bytes (3.9)
UNIT_INDEX = 1  # an int32, the offset in units of two bytes (3.10)
POINTER = 2  # the address of the instruction (3.11 and newer)

# How `code_linetable` refers to lines (co_lnotab, PEP 626, Objects/locations.md).
LNOTAB, LINETABLE, LOCATIONS = range(3)

# Where the attributes of an object are that are in no dictionary (pycore_object.h).
NO_VALUES = 0
VALUES_POINTER = 1  # their address is 32 bytes in front of the object (3.11)
VALUES_TAGGED = 2  # their address with a tag is 24 bytes in front of the object (3.12)
VALUES_BEHIND = 3  # behind the object (3.13 and newer)

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
    dictionary's keys, and `dict_values_head` the size of the head of its separate values.
    `heaptype_size` and `type_size` are the sizes of the C structs. `presize_flags` are the flags of
    a type whose instances have two pointers in front of them. `generator_code` is the code object
    of a generator, also of one that has ended. A layout never changes; `but` makes another one.

    What is not an offset: `line_table` is the form of the lines of code. `inline_values` tells
    where attributes are that are in no dictionary. `static_types_have_head` tells whether the
    collector has a head for static types. `has_log2_keys`: keys of dictionaries hold sizes as
    powers of two. `has_tagged_int`: the sign of an int is in tag bits. `least_digits` is the number
    of digits of the int 0. `has_wide_state`: the state of a str may be in its upper half.
    `bytearray_has_bytes`: a bytearray holds a bytes object. `frames_nest`: a function of Python
    calls another one without a frame of C between them. `chains_dying`: the count of a dying object
    may be the address of the next one. `has_immortals`: counts from some number on never change.
    `debug_groups` are the arguments of `_words` if `_PyRuntime` itself has offsets, else empty.
    `runtime_places` are the offsets of the first interpreter in `_PyRuntime`, of the next
    interpreter, of its first thread and of the next thread (pycore_runtime.h, pycore_interp.h,
    pystate.h); with debug offsets, their word indices in `_Py_DebugOffsets`.

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
    dict_values_head: int = 0
    tuple_data: int = 24
    function_code: int = 16
    function_defaults: int = 32
    function_kwdefaults: int = 40
    managed_dict: int = NOTHING  # bytes in front of the object
    presize_flags: int = 0
    str_wide: int = 40  # the wchar_t form, and 24 bytes on its length
    generator_code: int = NOTHING
    line_table: int = LNOTAB
    inline_values: int = NO_VALUES
    least_digits: int = 0
    runtime_places: tuple[int, int, int, int] = (32, 0, 8, 8)
    debug_groups: tuple[int, ...] = ()
    static_types_have_head: bool = False
    has_log2_keys: bool = False
    has_tagged_int: bool = False
    has_wide_state: bool = False
    bytearray_has_bytes: bool = False
    frames_nest: bool = False
    chains_dying: bool = False
    has_immortals: bool = False

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
            for field, index in _words(*base.debug_groups).items()
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
_MOST["frame_data"] = 4096


def debug_version(head: bytes) -> tuple[tuple[int, int], bool]:
    """Return the version, and whether there is no GIL, from the first bytes of `_PyRuntime`.

    Raises FormatError if these are not debug offsets, SoscopeError for an unknown version.
    """
    if len(head) < DEBUG_SIZE or not head.startswith(COOKIE):
        raise FormatError("_PyRuntime: it does not begin with debug offsets", field="cookie")
    _, number, free_threaded = _HEAD.unpack_from(head)
    version = number >> 24 & 0xFF, number >> 16 & 0xFF
    if version not in _LAYOUTS or not _LAYOUTS[version].debug_groups:
        raise _unknown(version)
    return version, bool(free_threaded)


def layout_of(version: tuple[int, int]) -> PythonLayout:
    """Return the layout of a minor version. Raises SoscopeError if it is not known."""
    layout = _LAYOUTS.get(version)
    if layout is None:
        raise _unknown(version)
    return layout


def line_table_of(version: tuple[int, int]) -> int:
    """Return the form of the lines of code: LNOTAB, LINETABLE or LOCATIONS.

    A version that is not known is taken for a new one.
    """
    return _LAYOUTS.get(version, _LAYOUTS[NEWEST]).line_table


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
    function_code=48,
    function_defaults=56,
    function_kwdefaults=64,
    line_table=LINETABLE,
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
    managed_dict=24,
    presize_flags=_MANAGED_DICT,
    generator_code=16,
    line_table=LOCATIONS,
    inline_values=VALUES_POINTER,
    least_digits=1,
    runtime_places=(40, 0, 16, 8),
    static_types_have_head=True,
    has_log2_keys=True,
    frames_nest=True,
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
    presize_flags=_MANAGED_DICT | _MANAGED_WEAKREF,
    str_wide=NOTHING,
    generator_code=NOTHING,
    inline_values=VALUES_TAGGED,
    runtime_places=(40, 0, 72, 8),
    has_tagged_int=True,
    has_immortals=True,
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
    dict_values_head=8,
    inline_values=VALUES_BEHIND,
    runtime_places=(5, 8, 9, 21),
    static_types_have_head=False,
    chains_dying=True,
    debug_groups=(22, 24, 29, 35, 45, 68),
)
_3_14 = _3_13.but(
    version=(3, 14),
    frame_owner=74,
    frame_data=80,
    code_bytecode=208,
    code_extra=200,
    frameobject_data=72,
    heaptype_size=936,
    tuple_data=32,
    runtime_places=(5, 8, 9, 24),
    debug_groups=(25, 27, 32, 40, 51, 78),
    has_wide_state=True,
)
_3_15 = _3_14.but(
    version=(3, 15),
    tstate_thread_id=176,
    heaptype_name=864,
    heaptype_size=944,
    type_size=424,
    bytearray_has_bytes=True,
    debug_groups=(25, 30, 40, 48, 59, 90),
)
_LAYOUTS = {layout.version: layout for layout in (_3_9, _3_10, _3_11, _3_12, _3_13, _3_14, _3_15)}
OLDEST, NEWEST = min(_LAYOUTS), max(_LAYOUTS)


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


# The layout of each version of CPython, in the form that the agent needs.

_TAGS = 7  # tag bits of a pointer in a frame


def agent_layouts() -> bytes:
    """Return `struct sosc_python` for each known version."""
    return b"".join(map(_pack, _LAYOUTS.values()))


def _pack(of: PythonLayout) -> bytes:
    fields = {
        "minor": of.version[1],
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
        "head_flags": of.presize_flags,
        "frame_values": of.frame_data,
        "code_values": of.code_nlocals,
        "code_stack": of.code_stacksize,
        "code_cells": of.code_cellvars,
        "code_frees": of.code_freevars,
        "code_consts": of.code_consts,
    }
    return layout.PYTHON.struct.pack(*(fields[name] for name in layout.PYTHON.fields))
