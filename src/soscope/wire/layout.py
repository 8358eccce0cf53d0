# SPDX-License-Identifier: Apache-2.0
"""Constants and struct layouts of the control block: the mirror of wire.h.

Every `SOSC_X` of wire.h, of the headers that it includes, and of blocks.h is `X` here, and every
`struct sosc_x` is the `Layout` `X`. `scripts/wire.py` writes them, with the names of family.h; a
test checks that it would write the same. Only the headers explain what they mean. Every start of
soscope imports this module, so it may import nothing but `struct`.
"""

from __future__ import annotations

import struct

_SIZES = {"B": 1, "H": 2, "I": 4, "i": 4, "Q": 8, "q": 8, "s": 1}


class Layout:
    """The layout of one C struct: little-endian, naturally aligned.

    `fields` maps a field's name to (offset, size in bytes, struct code of one element),
    `struct` unpacks the whole: arrays of integers as one value each, byte arrays as bytes.
    """

    __slots__ = ("fields", "name", "size", "struct")

    def __init__(self, name: str, spec: str) -> None:
        self.name = name
        self.fields: dict[str, tuple[int, int, str]] = {}
        offset = 0
        alignment = 1
        codes = ["<"]
        for word in spec.split():
            field, _, code = word.partition(":")
            unit = _SIZES[code[-1]]
            size = unit * int(code[:-1] or 1)
            padding = -offset % unit
            codes.append(f"{padding}x{code}" if padding else code)
            offset += padding
            alignment = max(alignment, unit)
            self.fields[field] = (offset, size, code[-1])
            offset += size
        self.size = offset + -offset % alignment
        codes.append(f"{self.size - offset}x")
        self.struct = struct.Struct("".join(codes))

    def offset(self, field: str) -> int:
        """Return the offset of `field` in bytes from the struct's start."""
        return self.fields[field][0]


# ---- written by scripts/wire.py ----
EXEC_NAMES = 63

# enum sosc_exec_state
EXEC_FREE = 0
EXEC_TAKEN = 1
EXEC_NAMED = 2

EXEC = Layout("sosc_exec", "programs:I state:I name:56s")
EXECS = Layout("sosc_execs", "programs:Q reserved:7Q names:504Q")
INJECT = Layout(
    "sosc_inject",
    "rules:I outcomes:I points:I places:I places_used:I points_lost:I first_rule:Q first_outcome:Q "
    "first_place:Q",
)

# enum sosc_inject_flag
INJECT_RETURN = 1
INJECT_ERRNO = 2
INJECT_CHANCE = 4

INJECT_RULE = Layout(
    "sosc_inject_rule",
    "first:Q last:Q step:Q seed:Q chance:Q delay_enter:Q delay_exit:Q site:Q site_rule:I flags:I",
)
INJECT_OUTCOME = Layout("sosc_inject_outcome", "value:Q error:i rule:H flags:H")
INJECT_POINT = Layout("sosc_inject_point", "calls:Q injected:Q rule:I reserved:I")
INJECTED = Layout("sosc_injected", "flags:I error:i")
TRIGGER = Layout("sosc_trigger", "calls:Q tsc:Q")

PATCHES_SIZE = 262144
MAX_PATCHES = 256
MAX_PATCH_LIBRARIES = 64
PATCHES_TEXT = 512

# enum sosc_patches_state
PATCHES_NONE = 0
PATCHES_WAITING = 1
PATCHES_STAND = 2
PATCHES_FAILED = 3

# enum sosc_patches_failure
PATCHES_FINE = 0
PATCHES_NO_LOADER = 1
PATCHES_NO_LIBRARY = 2
PATCHES_NOT_SEEN = 3
PATCHES_NO_FUNCTION = 4
PATCHES_NO_SYMBOL = 5

# enum sosc_patches_flag
PATCHES_MUST = 1

PATCHES = Layout(
    "sosc_patches",
    "size:I flags:I count:I libraries:I first_library:I state:I why:I failed:I text:512s",
)
PATCH = Layout(
    "sosc_patch",
    "function:Q original:Q symbol:I name:I variable:I library:I from:I from_count:I slots:I left:I",
)
PATCH_LIBRARY = Layout("sosc_patch_library", "handle:Q path:I kept:I")

# enum sosc_patch_from_kind
PATCH_FROM_NAME = 0
PATCH_FROM_PATH = 1
PATCH_FROM_MAIN = 2

PATCH_FROM = Layout("sosc_patch_from", "kind:I automaton:I")

# enum sosc_op_code
OP_END = 0
OP_WORDS = 1
OP_STACK = 2
OP_FLOAT = 3
OP_STRING = 4
OP_BYTES = 5
OP_WORD_AT = 6
OP_FORMAT = 7
OP_ERRNO = 8
OP_RESULT = 9
OP_WHEN = 10
OP_VA_FORMAT = 11
OP_VA_SCANF = 12
OP_VECTOR = 13
OP_SCANF = 14
OP_FILLED = 15

VALUES = Layout("sosc_values", "first:I last:I")

ARG_RESULT = 0xFF

ARG_STACK = 0x40

ARG_STACK_END = 0xC0

ITEM_ERRNO = 0xFE

ITEM_INJECTED = 0xFD

ITEM_VALUES = 0xFB

ITEM_VECTORS = 0xFA

ITEM_STACK = 0xFC

# enum sosc_op_length
LENGTH_LIMIT = 0
LENGTH_ARG = 1
LENGTH_PRODUCT = 2
LENGTH_RESULT = 3
LENGTH_RESULT_PRODUCT = 4
LENGTH_RESULT_ARG = 5
LENGTH_AT = 6

# enum sosc_op_flag
OP_IS_READ = 1
OP_INT_LENGTH = 2
OP_INT_RESULT = 4
OP_UNLESS_0 = 8
OP_INT_ARG = 16
OP_ANY_BIT = 32
OP_WCHAR = 32
OP_TEXT_AT = 64
OP_NAMES_READ = 128
OP_UNLESS_NEGATIVE = 16
OP_UNLESS_SAME = 16

OP = Layout("sosc_op", "op:B arg:B length:B length_arg:B limit:H flags:B item:B")

# enum sosc_chunk_state
CHUNK_FREE = 0
CHUNK_OWNED = 1
CHUNK_FULL = 2
CHUNK_STATE = 0xFF

# enum sosc_chunk_flag
CHUNK_BORROWED = 1
CHUNK_RETURNED = 2

CHUNK = Layout("sosc_chunk", "seq:Q tid:I pid:I tsc:Q tsc_full:Q flags:I reserved0:I reserved:3Q")

# enum sosc_unit_type
UNIT_ENTRY = 1
UNIT_ENTRY_ONLY = 2
UNIT_EXIT = 3
UNIT_DATA = 4
UNIT_OVERHEAD = 5
UNIT_OPEN = 6
UNIT_WHOLE = 7
UNIT_NOTHING = 8
UNIT_BLOCK = 9
UNIT_BLOCK_OVER = 10
UNIT_FREED = 11
UNIT_MAPPED = 12
UNIT_UNMAPPED = 13
UNIT_KEPT = 14
UNIT_REPORTED = 15

ENTRY = Layout("sosc_entry", "commit:I sp:I tsc:Q return_addr:Q arg0:Q")
EXIT = Layout("sosc_exit", "commit:I sp:I tsc:Q result:Q errno_value:I reserved:I")
WHOLE = Layout("sosc_whole", "commit:I sp:I start:Q result:Q arg0:Q")
BLOCK = Layout("sosc_block", "commit:I stack:I tsc:Q addr:Q size:Q")

TICKS_LOW = 10
START_BITS = 48
NO_TICKS = 0x3FFFFFF

# enum sosc_data_kind
DATA_MORE = 0
DATA_WORDS = 1
DATA_STACK = 2
DATA_FLOATS = 3
DATA_STRING = 4
DATA_BYTES = 5
DATA_WORD_AT = 6
DATA_PACKED = 7

# enum sosc_data_flag
DATA_TRUNCATED = 1
DATA_UNREADABLE = 2
DATA_NULL = 4

DATA = Layout("sosc_data", "commit:I aux:I payload:24s")

# enum sosc_reported_flag
REPORTED_HOOK = 3
REPORTED_ROOT = 4
REPORTED_LEFT = 8
REPORTED_UNSEEN = 16

REPORTED = Layout("sosc_reported", "commit:I ticks:I start:Q function:Q around:Q")

REPORTED_TICKS = 5

OVERHEAD = Layout("sosc_overhead", "commit:I reserved:I tsc:Q ticks:Q reserved1:Q")
CALL_SITE = Layout("sosc_call_site", "word:Q")
MAGIC = 0x3165706F63736F73
PLAN_MAGIC = 0x316E616C70636F73

WIRE_VERSION = 1
PAGE = 4096
CHUNK_SIZE = 16384
CHUNK_HEADER = 64
CHUNK_SLACK = 512
UNIT = 32
MAX_SLOTS = 262144
SLOT_PLACES = 1048576
MAX_IMAGES = 8192
MAX_SITES = 131072
MAX_COUNTERS = 16384
MAX_MOVES = 131072
MAX_CALL_SITES = 262144
CALL_SITE_SLOT = 17
CALL_SITE_HEADS = 4096
NAMESPACES = 16
GATES = 1024
NONE = 0xFFFFFFFF

# enum sosc_instrument_kind
INSTRUMENT_GUARD = 0
INSTRUMENT_COUNT = 1
INSTRUMENT_STATS = 2
INSTRUMENT_TRACE = 3
INSTRUMENT_INJECT = 4
INSTRUMENT_BLOCKS = 5
INSTRUMENT_OBJECTS = 6
INSTRUMENT_OPEN = 7
INSTRUMENT_CLOSE = 8
INSTRUMENT_PROF = 9
INSTRUMENT_KINDS = 10

# enum sosc_flag
FLAG_FOLLOW = 1
FLAG_EXECS = 2
FLAG_NO_CLOCK = 4

PLANS = 4

# enum sosc_plan_flag
PLAN_ENTRY_ONLY = 1
PLAN_NO_DURATIONS = 2
PLAN_STACKS = 4
PLAN_ASKS = 8
PLAN_CALLERS = 16
PLAN_METHODS = 32

# enum sosc_when_full
FULL_BLOCK = 0
FULL_DROP = 1
FULL_OVERWRITE = 2
FULL_STOP = 3

# enum sosc_state
STATE_NEW = 0
STATE_RUNNING = 1
STATE_FAILED = 2
STATE_STOPPED = 3

# enum sosc_command
COMMAND_NONE = 0
COMMAND_STOP = 1

# enum sosc_section
SEC_PATTERNS = 0
SEC_RULES = 1
SEC_FUNCTIONS = 2
SEC_IMAGES = 3
SEC_SLOTS = 4
SEC_STRINGS = 5
SEC_COUNTS = 6
SEC_CHUNK_STATES = 7
SEC_RING = 8
SEC_PLACES = 9
SEC_CALL_SITES = 10
SEC_CALL_SITE_CHAINS = 11
SEC_PATCHES = 12
SEC_GATES = 13
SEC_MATCHES = 14
SEC_PATCHED = 15
SEC_MOVES = 16
SECTIONS = 17

RANGE = Layout("sosc_range", "offset:Q size:Q")
PLAN = Layout(
    "sosc_plan", "instrument:I flags:I first_rule:I rules:I functions:I reserved:I own:2Q given:2Q"
)
PLAN_HEAD = Layout(
    "sosc_plan_head",
    "magic:Q head_size:I plans:I flags:I string_limit:I chunks:I spare_chunks:I count_arrays:I "
    "main_name:I main_path:I functions_used:I section:34Q plan:28Q",
)

# enum sosc_drop
DROP_FULL = 0
DROP_OVERWRITTEN = 1
DROP_THREADS = 2
DROP_READER_GONE = 3
DROP_EXIT_UNPAIRED = 4
DROP_SITES = 5
DROP_WORDS = 6
DROP_RIGHTS = 7
DROP_KINDS = 8

CONTROL = Layout(
    "sosc_control",
    "magic:Q wire_version:I control_size:I build_id:32s owner_pid:I command:I owner_start:Q "
    "heartbeat:Q flags:I when_full:I state:I error:i error_at:I agent_flags:I agent_base:Q "
    "agent_size:Q tsc_start:Q realtime_start:Q monotonic_start:Q cost_inner:I cost_outer:I "
    "images:I slots:I strings:I counts_used:I sites:I loader_hook:I ring_seq:Q ring_waiters:I "
    "ring_drained:I dropped:8Q dropped_exits:Q slots_left:Q images_dropped:Q slots_dropped:Q "
    "reader_gone:Q starved:Q call_sites:Q overwritten:Q turn:Q gates:Q question:Q unanswered:Q "
    "executes:Q answers:I moves:I waited_room:Q waited_exec:Q waited_look:Q took_chunks:Q "
    "took_images:Q took_asking:Q works:Q took_works:Q work_units:Q stood_still:Q delayed:Q "
    "delays_over:Q delays_unknown:Q executing:I cost_call:I drained_ns:Q",
)

QUESTION_EXEC = 0xFFFFFFFF

# enum sosc_loader_hook
LOADER_NONE = 0
LOADER_HOOKED = 1
LOADER_REFUSED = 2

# enum sosc_agent_flag
AGENT_ERRNO = 1
AGENT_TSC_OFF = 2
AGENT_SEALED = 4
AGENT_TEXT_REFUSED = 8
AGENT_NO_EXITS = 16
AGENT_FORKED = 32
AGENT_RENAMED = 64

AUTOMATON = Layout("sosc_automaton", "states:H classes:H accept:I next:I class_of:256s")

PATTERN_ANY = 0xFFFF
PATTERN_MAIN = 0xFFFE

# enum sosc_rule_kind
RULE_INCLUDE = 1
RULE_EXCLUDE = 2
RULE_FROM = 3
RULE_TO = 4
RULE_CALLER = 5

# enum sosc_rule_flag
RULE_FIRST = 1
RULE_PATH = 2

RULE = Layout("sosc_rule", "kind:B flags:B symbol:H image:H reserved:H")
FUNCTION_TABLE = Layout(
    "sosc_function_table",
    "bits:I cells:I globs:I glob_count:I default_function:I family:4H more:I versioned:I "
    "reserved:I",
)

# enum sosc_function_flag
FN_ENTRY_ONLY = 1
FN_NEVER = 2
FN_TWICE = 4
FN_SIX = 8
FN_PROGRAM = 16
FN_EXIT_PROGRAM = 32
FN_BRIEF = 64
FN_WIDE = 128
FN_OF_LIBC = 256
FN_OF_ZLIB = 512
FN_FAMILY = 768
FN_FAMILY_SHIFT = 8
FN_FOREIGN = 1024
FN_ASKED = 2048

# enum sosc_error_rule
ERROR_NONE = 0
ERROR_INT_NEGATIVE = 1
ERROR_LONG_NEGATIVE = 2
ERROR_NULL = 3
ERROR_MINUS_ONE = 4
ERROR_INT_NONZERO = 5
ERROR_INT_ZERO = 6
ERROR_INT_MINUS_ONE = 7

FUNCTION = Layout(
    "sosc_function",
    "hash:I name:I entry_program:I exit_program:I prototype:I flags:H error_rule:B exit_words:B",
)
FUNCTION_GLOB = Layout("sosc_function_glob", "pattern:H flags:H")

# enum sosc_image_flag
IMAGE_MAIN = 1
IMAGE_LOADER = 2
IMAGE_STARTUP = 4
IMAGE_UNREADABLE = 8
IMAGE_LATE = 16
IMAGE_CLOSED = 32
IMAGE_WRITE_REFUSED = 64
IMAGE_ASKED = 128
IMAGE_METHODS_UNSEEN = 256

IMAGE = Layout(
    "sosc_image",
    "name:I path:I load_bias:Q start:Q end:Q build_id:32s build_id_size:B reserved:3s flags:I "
    "slots_hooked:I slots_left:I slots_refused:I pid:I tsc:Q ready:I ns:I",
)

# enum sosc_move_kind
MOVE_CAME = 1
MOVE_WENT = 2
MOVE_FORKED = 3

MOVE = Layout("sosc_move", "kind:I image:I pid:I parent:I tsc:Q since:Q")

IMAGE_SHIFT = 48
NO_IMAGE = 0x7FFF

# enum sosc_slot_kind
SLOT_JUMP_SLOT = 1
SLOT_GLOB_DAT = 2
SLOT_PLT_GOT = 3
SLOT_CALL_SITES = 4
SLOT_METHOD = 5
SLOT_ENTRY = 6

# enum sosc_slot_refusal
HOOKED = 0
REFUSED_ADDRESS_TAKEN = 1
REFUSED_NOT_A_CALL = 2
REFUSED_FULL = 3
REFUSED_WRITE = 4
REFUSED_TEXT = 5
REFUSED_FOREIGN = 6
REFUSED_IN_USE = 7
REFUSED_NO_SITE = 8

# enum sosc_slot_flag
SLOT_LAZY = 1
SLOT_ENTRY_ONLY = 2
SLOT_PARTIAL = 4

SLOT = Layout(
    "sosc_slot",
    "symbol:I version:I caller:I callee:I addr:Q saved:Q original:Q prototype:I kind:B refusal:B "
    "flags:B error_rule:B ready:I function_flags:H instrument:B reserved:B tsc:Q",
)
STATS = Layout("sosc_stats", "calls:Q returns:Q errors:Q total:Q min:Q max:Q self:Q reserved:Q")

# enum sosc_blob
BLOB_SIZE = 0x4D80000
BLOB_TEXT_MAX = 0x80000
BLOB_ENTRIES = 0x80000
BLOB_SITES = 0x480000
BLOB_COUNTERS = 0x880000
BLOB_DISTANCE = 0xA00000
BLOB_DATA = 0x1480000
BLOB_REPEAT = 64

START = Layout(
    "sosc_start",
    "base:Q r_debug:Q loader:Q phdr:Q phnum:I control_fd:i blob_fd:i plan_fd:i execs_fd:i "
    "reserved:I pages_offset:Q control_size:Q plan_size:Q errno_offset:q tid_offset:q brk:Q "
    "brk_before:Q brk_after:Q flags:Q stack_end:Q",
)

# enum sosc_start_flag
START_AGAIN = 1
START_TURNS = 2

INSIDE = Layout(
    "sosc_inside",
    "magic:Q wire_version:I size:I tables:Q control:Q control_size:Q changes:Q change_count:Q "
    "cells:Q cell_count:Q sitedata:Q site_count:Q plain_jump:Q plain_exit:Q scratch:Q sessions:Q "
    "waiting:Q patches:Q program:Q method_hash:Q method_compare:Q method_state:Q counterdata:Q "
    "counter_count:Q rest:Q trap:Q threads:Q stubs:Q quiet:Q counts:Q is_resting:Q made_threads:Q",
)

# enum sosc_method_state
METHODS_FREE = 0
METHODS_WAIT = 1
METHODS_LEFT = 2

INSIDE_MAGIC = 0x3169706F63736F73

MAX_CHANGES = 655360
SCRATCH = 16384
STUBS_MOST = 64
SITES_A_PAGE = 128

CHANGE = Layout("sosc_change", "addr:Q before:Q after:Q size:B flags:B patch:H image:I")

# enum sosc_change_flag
CHANGE_STANDS = 1
CHANGE_LOADER = 2
CHANGE_CODE = 4
CHANGE_SPLIT = 8

BLOCK_FRAMES = 64
STACK_API = 8
STACK_CUT = 16
STACK_CODE = 17
STACK_SIZE = 32
CODE_RUBY = 0
FRAME_INSTR = 32
FRAME_INSTR_BITS = 30
FRAME_ENTRY = 62
FRAME_PYTHON = 63
FRAME_SOSCOPE = 1
BLOCK_TICKS = 28

# enum sosc_block_api
API_NONE = 0
API_MALLOC = 1
API_CALLOC = 2
API_REALLOC = 3
API_REALLOCARRAY = 4
API_POSIX_MEMALIGN = 5
API_ALIGNED_ALLOC = 6
API_MEMALIGN = 7
API_VALLOC = 8
API_PVALLOC = 9
API_NEW = 10
API_NEW_ARRAY = 11
API_MMAP = 12
API_MREMAP = 13
API_BRK = 14
API_SBRK = 15
API_PTHREAD_CREATE = 16
API_THRD_CREATE = 17

# enum sosc_block_mode
BLOCKS_EXACT = 0
BLOCKS_SAMPLE = 1
BLOCKS_COUNT = 2
BLOCKS_NONE = 3

GIVEN = 7

BLOCKS = Layout(
    "sosc_blocks",
    "bits:I mode:I words:Q words_used:Q stacks_lost:Q first_bucket:Q first_word:Q scale:Q "
    "first_layout:Q layouts:Q first_array:Q arrays:I arrays_used:I leads:Q ruby:I python:I "
    "threads_lost:Q has_allocator:Q frames:I has_xsave:I lead:Q given:7Q",
)

GIVEN_OTHERS = 0xFFFFFFFE
GIVEN_FREE = 1073741824
GIVEN_MUNMAP = 2147483648

LEAD_NOBODY = 1
LEAD_NEVER = 2
LEAD_NEXT = 4

# enum sosc_ruby_frames
RUBY_FINE = 0
RUBY_NO_FUNCTION = 1
RUBY_NO_LAYOUT = 2
RUBY_NO_CONTEXT = 3
RUBY_WRONG = 4

# enum sosc_python_frames
PYTHON_FINE = 0
PYTHON_NO_FUNCTION = 1
PYTHON_NO_LAYOUT = 2
PYTHON_NO_GIL = 3
PYTHON_DEBUG = 4

SIZES_STEP = 16
SIZES_FINE = 1024
SIZES_CLASSES = 128
SIZES_APIS = 12

SIZE_CLASS = Layout("sosc_size_class", "made:Q made_bytes:Q freed:Q freed_bytes:Q")
SIZES = Layout("sosc_sizes", "pid:I tid:I strange:Q untracked:Q untracked_bytes:Q classes:49152s")

# The malloc family (family.h).
# functions that make a block
ALLOCATORS = (
    "malloc calloc realloc reallocarray posix_memalign aligned_alloc memalign valloc pvalloc"
).split()
# functions that only free a block
FREES = "free cfree free_sized free_aligned_sized".split()
# functions that make, move or remove mappings
MAPPINGS = "mmap mmap64 munmap mremap brk sbrk".split()
