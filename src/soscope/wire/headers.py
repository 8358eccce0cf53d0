# SPDX-License-Identifier: Apache-2.0
"""Object counting: the mirror of soscope/objects.h, as `layout` mirrors wire.h."""

from __future__ import annotations

from soscope.wire.layout import Layout

OBJECTS_PLACES = 4096
OBJECTS_TEXT = 64
CODE_TEXT = 16384
CODE_LINES = 4194304

# Flags of soscope: how objects are counted.
OBJECTS_COLLECT = 1
OBJECTS_TYPES = 2
OBJECTS_SAMPLE = 4

# Requests of soscope to a running interpreter.
OBJECTS_BEGIN = 1
OBJECTS_GARBAGE = 2
OBJECTS_END = 3
OBJECTS_REFS = 4

# Requests of a program that counts its own objects.
PROGRAM_BEGIN = 1
PROGRAM_LOOK = 2
PROGRAM_LOOK_AND_BEGIN = 3
PROGRAM_END = 4
PROGRAM_CHILD = 5
PROGRAM_MADE_BEGIN = 6
PROGRAM_MADE_LOOK = 7
PROGRAM_MADE_END = 8

# Which objects a program dumps.
DUMP_ALL = 1
DUMP_REACHABLE = 2

# Interpreters.
RUNTIME_NONE = 0
RUNTIME_PYTHON = 1
RUNTIME_RUBY = 2

# States of counting in a process.
OBJECTS_WAITING = 0
OBJECTS_COUNTING = 1
OBJECTS_REFUSED = 2

# Why objects cannot be counted.
OBJECTS_FINE = 0
OBJECTS_NO_FUNCTION = 1
OBJECTS_NO_LAYOUT = 2
OBJECTS_NO_GIL = 3
OBJECTS_NO_CODE = 4
OBJECTS_NO_MEMORY = 5
OBJECTS_NO_END = 6
OBJECTS_WRONG = 7
OBJECTS_REPLACED = 8
OBJECTS_RACTORS = 9
OBJECTS_TAKEN = 10
OBJECTS_NO_LINES = 11
OBJECTS_SAMPLED = 12

# Reasons why a process asks soscope to look at its counts.
OBJECTS_AT_END = 1
OBJECTS_AT_EXEC = 2
OBJECTS_HAS_REFS = 3

# Forms in which a frame has its current instruction.
INSTR_BYTES = 0
INSTR_UNITS = 1
INSTR_POINTER = 2

# Kinds of the words that describe references.
REF_OBJECT = 0
REF_HOLDER = 1
REF_TYPE = 2
REF_FRAME = 3
REF_THREAD = 4
REF_MAYBE = 5
REF_ROOT = 6
REF_KEY = 7
REF_BITS = 7

# The side table of objects.
SIDE_TOPS = 8192
SIDE_LEAVES = 16384
SIDE_WORDS = 65536
SIDE_ORIGIN = 0x07FFFFFF
SIDE_SINCE = 0x08000000
SIDE_DYING = 0x10000000
SIDE_OLDER = 0x10000000
SIDE_SHIFT = 29

SIDE_USED = 0x8000_0000

# Ruby.
RUBY_TYPES = 65536
RUBY_BUILTIN = 32
RUBY_KIND = 31
RUBY_FREED = 1

PYTHON = Layout(
    "sosc_python",
    "minor:I state_thread:I state_frame:I inner_frame:I frame_code:I frame_tag:I frame_previous:I "
    "frame_instr:I instr_kind:I frame_owner:I shim:I frame_entry:I code_file:I code_name:I "
    "code_first_line:I code_lines:I code_bytes:I text_length:I text_state:I text_ascii:I "
    "text_compact:I bytes_data:I type_flags:I head_flags:I "
    "frame_values:I code_values:I code_stack:I code_cells:I code_frees:I code_consts:I",
)
OBJECTS = Layout(
    "sosc_objects",
    "flags:I layouts:I first_layout:I first_place:I places:I places_used:I library:I source:I "
    "scale:Q",
)
OBJECTS_PLACE = Layout(
    "sosc_objects_place",
    "pid:I state:I runtime:I minor:I refusal:I reason:I asked:I answered:I done:I reserved:I "
    "side:Q tally:Q text:64s ruby:Q refs:Q",
)
OBJECTS_CALL = Layout(
    "sosc_objects_call",
    "order:I waits:I",
)
PROGRAM = Layout(
    "sosc_program",
    "size:I order:I tables:Q images:Q layouts:Q layout_count:I state:I refusal:I row_count:I "
    "rows:Q lost:Q origins:Q origin_count:Q left_out:Q text:64s dump:Q",
)
PROGRAM_DUMP = Layout(
    "sosc_program_dump",
    "fork:Q before:Q after_parent:Q after_child:Q keep:Q call:Q disable:Q get_objects:Q flags:Q "
    "between:q child:i reserved:I objects:Q object_count:Q lost:Q",
)
PROGRAM_OBJECT = Layout(
    "sosc_program_object",
    "addr:Q origin:I whole:I",
)
PROGRAM_ROW = Layout(
    "sosc_program_row",
    "type:Q count:Q origin:I reserved:I",
)
RUBY = Layout(
    "sosc_ruby",
    "types:Q rows:Q row_count:Q rows_lost:Q moved:Q",
)
RUBY_TYPE = Layout(
    "sosc_ruby_type",
    "class:Q name:Q size:I asked:I",
)
RUBY_ROW = Layout(
    "sosc_ruby_row",
    "origin:I type:I count:Q bytes:Q squares:Q",
)
REFS = Layout(
    "sosc_refs",
    "words:Q count:Q lost:Q is_last:Q modules:Q",
)
OBJECTS_TALLY = Layout(
    "sosc_objects_tally",
    "created:Q destroyed:Q lost:Q origins:Q origin_count:Q",
)
ORIGIN = Layout(
    "sosc_origin",
    "code:Q file:Q name:Q lines:Q copy:Q first_line:I instr:i size:I reserved:I",
)
CODE = Layout(
    "sosc_code",
    "first_line:I file_size:I file_width:I name_size:I name_width:I lines_size:I",
)
