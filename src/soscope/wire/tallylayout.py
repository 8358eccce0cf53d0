# SPDX-License-Identifier: Apache-2.0
"""Requests of a program that counts its own calls: the mirror of tally.h, as `layout` of wire.h."""

from __future__ import annotations

from soscope.wire.layout import Layout

# Sizes.
TALLY_KINDS = 12
TALLY_NAME = 48
TALLY_OPERATION = 24
TALLY_PATH = 120
TALLY_LEFTS = 256

# Requests of the program.
TALLY_OPEN = 1
TALLY_LOOK = 2
TALLY_CLOSE = 3

# Groups of functions.
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

# What a call requests, and what it returns.
ASKS_NOTHING = 0
ASKS_SIZE = 1
ASKS_PRODUCT = 2
ASKS_VECTOR = 3
ASKS_MESSAGE = 4
ASKS_TEXT = 5
ASKS_STEP = 6
ASKS_PREPARED = 7
ASKS_INT = 8
GETS_NOTHING = 0
GETS_RESULT = 1
GETS_BLOCK = 2
GETS_BLOCK_AT = 3
GIVES_BLOCK = 4
GETS_SIZE_AT = 5
GETS_INT = 6
GETS_SIZE_IF = 7

# Other facts about a function.
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

# Kinds of statements, of answers, and of blocks.
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

# Reasons why a slot is not counted.
TALLY_ADDRESS = 1
TALLY_FOREIGN = 2
TALLY_READ_ONLY = 3
TALLY_FULL = 4
TALLY_STUBS = 5
TALLY_LOADING = 6
TALLY_TAKEN = 7
TALLY_WHYS = 8

TALLY_FUNCTION = Layout(
    "sosc_tally_function",
    "name:48s operation:24s group:B requested:B first:B second:B actual:B third:B "
    "fourth:B words:B flags:H reserved:3H",
)
TALLY_COUNT = Layout(
    "sosc_tally_count",
    "calls:Q ticks:Q requested:Q actual:Q kinds:12Q",
)
TALLY_WIRE = Layout(
    "sosc_tally_wire",
    "connects:Q sends:Q sent:Q receives:Q received:Q round_trips:Q ticks:Q reserved:Q",
)
TALLY_LEFT = Layout(
    "sosc_tally_left",
    "function:I why:I path:120s",
)
TALLY = Layout(
    "sosc_tally",
    "size:I order:I tables:Q images:Q iterate:Q usable:Q resident:Q counts:Q wires:Q count_room:I "
    "flags:I functions:Q function_count:I slots:I lefts:Q left_count:I left_more:I "
    "ticks:Q found:Q sqlites:I reserved:I",
)
