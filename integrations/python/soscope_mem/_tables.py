# SPDX-License-Identifier: Apache-2.0
"""What is known of the agent and of CPython; made by soscope.instruments.mem.inside."""

FINGERPRINT = 508937816341124496
BEGIN = 1
LOOK = 2
LOOK_AND_BEGIN = 3
END = 4
CHILD = 5
MADE_BEGIN = 6
MADE_LOOK = 7
MADE_END = 8
DUMP_ALL = 1
DUMP_REACHABLE = 2
COUNTING = 1
REFUSED = 2
LAYOUT_SIZE = 120
WIRE_VERSION = 1
INSIDE_MAGIC = 3560500604125278067
INSIDE_AT = 21495808

# Structs: how they are packed, and the names of their fields.
INSIDE_FORMAT = "<QIIQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ0x"
INSIDE_FIELDS = (
    "magic",
    "wire_version",
    "size",
    "tables",
    "control",
    "control_size",
    "changes",
    "change_count",
    "cells",
    "cell_count",
    "sitedata",
    "site_count",
    "plain_jump",
    "plain_exit",
    "scratch",
    "sessions",
    "waiting",
    "patches",
    "program",
    "method_hash",
    "method_compare",
    "method_state",
    "counterdata",
    "counter_count",
    "rest",
    "trap",
    "threads",
    "stubs",
    "quiet",
    "counts",
    "is_resting",
    "made_threads",
)
TALLY_FORMAT = "<IIQQQQQQQIIQIIQIIQQII0x"
TALLY_FIELDS = (
    "size",
    "order",
    "tables",
    "images",
    "iterate",
    "usable",
    "resident",
    "counts",
    "wires",
    "count_room",
    "flags",
    "functions",
    "function_count",
    "slots",
    "lefts",
    "left_count",
    "left_more",
    "ticks",
    "found",
    "sqlites",
    "reserved",
)
FUNCTION_FORMAT = "<48s24sBBBBBBBBH3H0x"
FUNCTION_FIELDS = (
    "name",
    "operation",
    "group",
    "requested",
    "first",
    "second",
    "actual",
    "third",
    "fourth",
    "words",
    "flags",
    "reserved",
)
COUNT_FORMAT = "<QQQQ12Q0x"
COUNT_FIELDS = (
    "calls",
    "ticks",
    "requested",
    "actual",
    "kinds",
)
WIRE_FORMAT = "<QQQQQQQQ0x"
WIRE_FIELDS = (
    "connects",
    "sends",
    "sent",
    "receives",
    "received",
    "round_trips",
    "ticks",
    "reserved",
)
LEFT_FORMAT = "<II120s0x"
LEFT_FIELDS = (
    "function",
    "why",
    "path",
)
PROGRAM_FORMAT = "<IIQQQIIIIQQQQQ64sQ0x"
PROGRAM_FIELDS = (
    "size",
    "order",
    "tables",
    "images",
    "layouts",
    "layout_count",
    "state",
    "refusal",
    "row_count",
    "rows",
    "lost",
    "origins",
    "origin_count",
    "left_out",
    "text",
    "dump",
)
ROW_FORMAT = "<QQII0x"
ROW_FIELDS = (
    "type",
    "count",
    "origin",
    "reserved",
)
ORIGIN_FORMAT = "<QQQQQIiII0x"
ORIGIN_FIELDS = (
    "code",
    "file",
    "name",
    "lines",
    "copy",
    "first_line",
    "instr",
    "size",
    "reserved",
)
CODE_FORMAT = "<IIIIII0x"
CODE_FIELDS = (
    "first_line",
    "file_size",
    "file_width",
    "name_size",
    "name_width",
    "lines_size",
)
DUMP_FORMAT = "<QQQQQQQQQqiIQQQ0x"
DUMP_FIELDS = (
    "fork",
    "before",
    "after_parent",
    "after_child",
    "keep",
    "call",
    "disable",
    "get_objects",
    "flags",
    "between",
    "child",
    "reserved",
    "objects",
    "object_count",
    "lost",
)
OBJECT_FORMAT = "<QII0x"
OBJECT_FIELDS = (
    "addr",
    "origin",
    "whole",
)

REFUSALS = {
    1: "it does not define {text}",
    2: "its version is not known: {text}",
    3: "it is a free-threaded build",
    4: "its code that announces new objects cannot be changed",
    5: "there is no memory for the tables",
    6: "its end cannot be heard of",
    7: "objects made for a test were not counted right",
    8: "another tool has taken the interpreter's tracer",
    9: "it makes Ractors, which are not told of each other's objects",
    10: "the program counts them itself (soscope_mem), or another tool does",
    11: "soscope has them counted by type alone",
    12: "soscope has some of them counted, by chance",
}

# Where each version of CPython keeps things.
LAYOUTS = bytes.fromhex(
    "09000000b000000018000000ffffffff2000000007000000180000006800000000000000ffffffff"
    "ffffffffffffffff6800000070000000280000007800000000000000100000002000000030000000"
    "4800000020000000a800000000000000680100001c00000020000000580000005000000038000000"
    "0a000000b000000018000000ffffffff2000000007000000180000006000000001000000ffffffff"
    "ffffffffffffffff6800000070000000280000007800000000000000100000002000000030000000"
    "4800000020000000a800000000000000600100001c00000020000000580000005000000038000000"
    "0b000000980000003800000008000000200000000700000030000000380000000200000045000000"
    "ffffffff4400000070000000780000004800000088000000b8000000100000002000000030000000"
    "4800000020000000a800000010000000480000004c00000044000000ffffffffffffffff18000000"
    "0c000000880000003800000000000000000000000700000008000000380000000200000046000000"
    "03000000ffffffff70000000780000004400000088000000c0000000100000002000000028000000"
    "3800000020000000a800000018000000480000004800000040000000ffffffffffffffff18000000"
    "0d0000009800000048000000ffffffff000000000700000008000000380000000200000046000000"
    "03000000ffffffff70000000780000004400000088000000c8000000100000002000000028000000"
    "3800000020000000a800000018000000480000004800000040000000ffffffffffffffff18000000"
    "0e0000009800000048000000ffffffff00000000070000000800000038000000020000004a000000"
    "03000000ffffffff70000000780000004400000088000000d0000000100000002000000028000000"
    "3800000020000000a800000018000000500000004800000040000000ffffffffffffffff18000000"
    "0f000000b000000048000000ffffffff00000000070000000800000038000000020000004a000000"
    "03000000ffffffff70000000780000004400000088000000d0000000100000002000000028000000"
    "3800000020000000a800000018000000500000004800000040000000ffffffffffffffff18000000"
)
