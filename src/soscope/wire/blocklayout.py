# SPDX-License-Identifier: Apache-2.0
"""Stacks and memory blocks: the mirror of soscope/blocks.h, as `layout` mirrors wire.h."""

from __future__ import annotations

from soscope.wire.layout import Layout

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

# Constants of enum sosc_block_mode.
BLOCKS_EXACT = 0
BLOCKS_SAMPLE = 1
BLOCKS_COUNT = 2
BLOCKS_NONE = 3

LEAD_NOBODY = 1
LEAD_NEVER = 2
LEAD_NEXT = 4

# Constants of enum sosc_block_api.
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

BLOCKS = Layout(
    "sosc_blocks",
    "bits:I mode:I words:Q words_used:Q stacks_lost:Q first_bucket:Q first_word:Q scale:Q "
    "first_layout:Q layouts:Q"
    " first_array:Q arrays:I arrays_used:I leads:Q ruby:I python:I threads_lost:Q has_allocator:Q"
    " frames:I has_xsave:I lead:Q reserved1:7Q",
)

# Constants of enum sosc_ruby_frames.
RUBY_FINE = 0
RUBY_NO_FUNCTION = 1
RUBY_NO_LAYOUT = 2
RUBY_NO_CONTEXT = 3
RUBY_WRONG = 4

# Constants of enum sosc_python_frames.
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
SIZES = Layout(
    "sosc_sizes",
    "pid:I tid:I strange:Q untracked:Q untracked_bytes:Q"
    f" classes:{SIZES_APIS * SIZES_CLASSES * SIZE_CLASS.size}s",
)
