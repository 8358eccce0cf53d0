# SPDX-License-Identifier: Apache-2.0
"""Struct layouts of single instruments: the mirror of objects.h, prof.h and tally.h.

`scripts/wire.py` writes it from these headers of the agent, as it writes `layout` from wire.h.
"""

from __future__ import annotations

from soscope.wire.layout import Layout

# ---- written by scripts/wire.py ----
OBJECTS_PLACES = 4096
OBJECTS_TEXT = 64
CODE_TEXT = 16384
CODE_LINES = 4194304

# enum sosc_objects_flag
OBJECTS_COLLECT = 1
OBJECTS_TYPES = 2
OBJECTS_SAMPLE = 4

# enum sosc_objects_order
OBJECTS_BEGIN = 1
OBJECTS_GARBAGE = 2
OBJECTS_END = 3
OBJECTS_REFS = 4

# enum sosc_objects_runtime
RUNTIME_NONE = 0
RUNTIME_PYTHON = 1
RUNTIME_RUBY = 2

# enum sosc_objects_state
OBJECTS_WAITING = 0
OBJECTS_COUNTING = 1
OBJECTS_REFUSED = 2

# enum sosc_objects_refusal
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

# enum sosc_objects_reason
OBJECTS_AT_END = 1
OBJECTS_AT_EXEC = 2
OBJECTS_HAS_REFS = 3

# enum sosc_python_instr
INSTR_BYTES = 0
INSTR_UNITS = 1
INSTR_POINTER = 2

PYTHON = Layout(
    "sosc_python",
    "minor:I state_thread:I state_frame:I inner_frame:I frame_code:I frame_tag:I frame_previous:I "
    "frame_instr:I instr_kind:I frame_owner:I shim:I frame_entry:I code_file:I code_name:I "
    "code_first_line:I code_lines:I code_bytes:I text_length:I text_state:I text_ascii:I "
    "text_compact:I bytes_data:I type_flags:I head_flags:I frame_values:I code_values:I "
    "code_stack:I code_cells:I code_frees:I code_consts:I",
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
OBJECTS_CALL = Layout("sosc_objects_call", "order:I waits:I")

# enum sosc_program_order
PROGRAM_BEGIN = 1
PROGRAM_LOOK = 2
PROGRAM_LOOK_AND_BEGIN = 3
PROGRAM_END = 4
PROGRAM_CHILD = 5
PROGRAM_MADE_BEGIN = 6
PROGRAM_MADE_LOOK = 7
PROGRAM_MADE_END = 8

# enum sosc_program_dump_flag
DUMP_ALL = 1
DUMP_REACHABLE = 2

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
PROGRAM_OBJECT = Layout("sosc_program_object", "addr:Q origin:I whole:I")
PROGRAM_ROW = Layout("sosc_program_row", "type:Q count:Q origin:I reserved:I")
OBJECTS_TALLY = Layout(
    "sosc_objects_tally", "created:Q destroyed:Q lost:Q origins:Q origin_count:Q"
)
RUBY = Layout("sosc_ruby", "types:Q rows:Q row_count:Q rows_lost:Q moved:Q")

RUBY_TYPES = 65536
RUBY_BUILTIN = 32
RUBY_KIND = 31
RUBY_FREED = 1

RUBY_TYPE = Layout("sosc_ruby_type", "class:Q name:Q size:I asked:I")
RUBY_ROW = Layout("sosc_ruby_row", "origin:I type:I count:Q bytes:Q squares:Q")

# enum sosc_ref
REF_OBJECT = 0
REF_HOLDER = 1
REF_TYPE = 2
REF_FRAME = 3
REF_THREAD = 4
REF_MAYBE = 5
REF_ROOT = 6
REF_KEY = 7

REF_BITS = 7

REFS = Layout("sosc_refs", "words:Q count:Q lost:Q is_last:Q modules:Q")

SIDE_TOPS = 8192
SIDE_LEAVES = 16384
SIDE_WORDS = 65536
SIDE_ORIGIN = 0x7FFFFFF
SIDE_SINCE = 0x8000000
SIDE_DYING = 0x10000000
SIDE_OLDER = 0x10000000
SIDE_SHIFT = 29

SIDE_USED = 0x80000000
ORIGIN = Layout(
    "sosc_origin", "code:Q file:Q name:Q lines:Q copy:Q first_line:I instr:i size:I reserved:I"
)
CODE = Layout(
    "sosc_code", "first_line:I file_size:I file_width:I name_size:I name_width:I lines_size:I"
)

# enum sosc_prof_mode
PROF_QUIET = 0
PROF_COUNT = 1
PROF_SAMPLE = 2
PROF_TIME = 3
PROF_LOG = 4
PROF_MODES = 5

# enum sosc_prof_hook
PROF_MCOUNT = 0
PROF_FENTRY = 1
PROF_CYG = 2
PROF_BARE = 3
PROF_HOOKS = 4

PROF_NODE_BITS = 15
PROF_NODES = 32768
PROF_ROOM = 28672
PROF_FRAMES = 4096
PROF_HEAD = 4096
PROF_TABLE_SIZE = 2363392
PROF_NO_CALLER = 1
PROF_PAGE_NODES = 64
PROF_FILLED_WORDS = 8

PROF_INSIDE = 0x8000000000000000

# enum sosc_prof_flag
PROF_SHADOW_STACK = 1
PROF_FOLLOWED = 2

# enum sosc_prof_left
PROF_LEFT_SMALL = 0
PROF_LEFT_OTHER = 1
PROF_LEFT_START = 2
PROF_LEFT_WRITE = 3
PROF_LEFT_FULL = 4
PROF_LEFT_KINDS = 5

# enum sosc_prof_node_flag
PROF_NODE_HOOK = 3
PROF_NODE_UNSEEN = 4
PROF_NODE_ALIAS = 8

# enum sosc_prof_frame_flag
PROF_FRAME_TIMED = 1
PROF_FRAME_FOLDED = 2

PROF_COST = Layout("sosc_prof_cost", "inner:I outer:I")
PROF = Layout(
    "sosc_prof",
    "mode:I tables:I period:I used:I first_table:Q cost:4Q foreign:Q flags:I slots:I entries:I "
    "left:5I unread:I reserved_word:I reserved:3Q",
)
PROF_NODE = Layout(
    "sosc_prof_node", "key:Q function:Q calls:Q total:Q self:Q from:Q site:Q timed:I flags:I"
)
PROF_FRAME = Layout(
    "sosc_prof_frame", "place:Q start:Q done:Q site:Q from:Q key:Q function:Q flags:I commit:I"
)
PROF_TABLE = Layout(
    "sosc_prof_table",
    "pid:I tid:I threads:I nodes:I done:Q last:Q left:Q unpaired:Q deep:Q filled:8Q",
)

TALLY_KINDS = 12
TALLY_NAME = 48
TALLY_OPERATION = 24
TALLY_PATH = 120
TALLY_LEFTS = 256

# enum sosc_tally_order
TALLY_OPEN = 1
TALLY_LOOK = 2
TALLY_CLOSE = 3

# enum sosc_tally_group
TALLY_NONE = 0
TALLY_FD = 1
TALLY_MEMORY = 2
TALLY_POSTGRES = 3
TALLY_MYSQL = 4
TALLY_MEMCACHE = 5
TALLY_REDIS = 6
TALLY_SQLITE = 7
TALLY_SSL = 8
TALLY_GROUPS = 9

# enum sosc_tally_requested
ASKS_NOTHING = 0
ASKS_SIZE = 1
ASKS_PRODUCT = 2
ASKS_VECTOR = 3
ASKS_MESSAGE = 4
ASKS_TEXT = 5
ASKS_STEP = 6
ASKS_PREPARED = 7
ASKS_INT = 8

# enum sosc_tally_actual
GETS_NOTHING = 0
GETS_RESULT = 1
GETS_BLOCK = 2
GETS_BLOCK_AT = 3
GIVES_BLOCK = 4
GETS_SIZE_AT = 5
GETS_INT = 6
GETS_SIZE_IF = 7

# enum sosc_tally_flag
TALLY_QUERY = 1
TALLY_GOES_ON = 2
TALLY_ANSWER = 4
TALLY_ANSWER_AT = 8
TALLY_IN = 16
TALLY_OUT = 32
TALLY_CONNECT = 64
TALLY_ENDS = 128
TALLY_MAKES = 256
TALLY_COMES = 512
TALLY_VFORKS = 1024

TALLY_NO = 255

# enum sosc_tally_kind
TALLY_SELECT = 0
TALLY_INSERT = 1
TALLY_UPDATE = 2
TALLY_DELETE = 3
TALLY_PREPARED = 4
TALLY_OTHER = 5
TALLY_SUCCESS = 0
TALLY_NOT_FOUND = 1
TALLY_NOT_STORED = 2
TALLY_EXISTS = 3
TALLY_FAILED = 5
TALLY_UNSIZED = 0

TALLY_FUNCTION = Layout(
    "sosc_tally_function",
    "name:48s operation:24s group:B requested:B first:B second:B actual:B third:B fourth:B words:B "
    "flags:H reserved:3H",
)
TALLY_COUNT = Layout("sosc_tally_count", "calls:Q ticks:Q requested:Q actual:Q kinds:12Q")
TALLY_WIRE = Layout(
    "sosc_tally_wire",
    "connects:Q sends:Q sent:Q receives:Q received:Q round_trips:Q ticks:Q reserved:Q",
)

# enum sosc_tally_why
TALLY_ADDRESS = 1
TALLY_FOREIGN = 2
TALLY_READ_ONLY = 3
TALLY_FULL = 4
TALLY_STUBS = 5
TALLY_LOADING = 6
TALLY_TAKEN = 7
TALLY_WHYS = 8

TALLY_LEFT = Layout("sosc_tally_left", "function:I why:I path:120s")
TALLY = Layout(
    "sosc_tally",
    "size:I order:I tables:Q images:Q iterate:Q usable:Q resident:Q counts:Q wires:Q count_room:I "
    "flags:I functions:Q function_count:I slots:I lefts:Q left_count:I left_more:I ticks:Q found:Q "
    "sqlites:I reserved:I",
)
