# SPDX-License-Identifier: Apache-2.0
"""Reports of instrumented code: the mirror of soscope/prof.h, as `layout` mirrors wire.h."""

from __future__ import annotations

from soscope.wire.layout import Layout

# Modes: what the hooks do with calls.
PROF_QUIET = 0
PROF_COUNT = 1
PROF_SAMPLE = 2
PROF_TIME = 3
PROF_LOG = 4
PROF_MODES = 5

# Hooks that report calls.
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
PROF_INSIDE = 1 << 63

PROF_SHADOW_STACK = 1
PROF_FOLLOWED = 2

# Reasons why entries of functions are not patched.
PROF_LEFT_SMALL = 0
PROF_LEFT_OTHER = 1
PROF_LEFT_START = 2
PROF_LEFT_WRITE = 3
PROF_LEFT_FULL = 4
PROF_LEFT_KINDS = 5

PROF_NODE_HOOK = 3
PROF_NODE_UNSEEN = 4
PROF_NODE_ALIAS = 8

PROF_FRAME_TIMED = 1
PROF_FRAME_FOLDED = 2

PROF_COST = Layout("sosc_prof_cost", "inner:I outer:I")
PROF = Layout(
    "sosc_prof",
    "mode:I tables:I period:I used:I first_table:Q cost:4Q foreign:Q flags:I slots:I "
    "entries:I left:5I unread:I reserved_word:I reserved:3Q",
)
PROF_NODE = Layout(
    "sosc_prof_node", "key:Q function:Q calls:Q total:Q self:Q from:Q site:Q timed:I flags:I"
)
PROF_FRAME = Layout(
    "sosc_prof_frame",
    "place:Q start:Q done:Q site:Q from:Q key:Q function:Q flags:I commit:I",
)
PROF_TABLE = Layout(
    "sosc_prof_table",
    "pid:I tid:I threads:I nodes:I done:Q last:Q left:Q unpaired:Q deep:Q filled:8Q",
)
