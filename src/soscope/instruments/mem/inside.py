# SPDX-License-Identifier: Apache-2.0
"""Writes the tables that `soscope_mem` and `memprof` need to talk to the agent.

Those two packages count inside programs, in which soscope itself does not run, and they are
installed without soscope. So they have copies of soscope's layouts as files of their own. A
number, the fingerprint, stands for all layouts, and the agent has a copy of it: two sides with
different fingerprints have different versions. A test compares the copies with the output of
this:

    python -m soscope.instruments.mem.inside FOLDER_OF_THE_SOURCES
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

from soscope.instruments.mem.objects import REFUSALS
from soscope.live.python.offsets import agent_layouts
from soscope.wire import headers as layout
from soscope.wire import headers as tally
from soscope.wire import layout as wire

# Increased when a field changes its meaning and keeps its place.
_MEANING = 1
_HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
"""What is known of the agent and of CPython; made by soscope.instruments.mem.inside."""
'''
_STRUCTS = {
    "INSIDE": wire.INSIDE,
    "TALLY": tally.TALLY,
    "FUNCTION": tally.TALLY_FUNCTION,
    "COUNT": tally.TALLY_COUNT,
    "WIRE": tally.TALLY_WIRE,
    "LEFT": tally.TALLY_LEFT,
    "PROGRAM": layout.PROGRAM,
    "ROW": layout.PROGRAM_ROW,
    "ORIGIN": layout.ORIGIN,
    "CODE": layout.CODE,
    "DUMP": layout.PROGRAM_DUMP,
    "OBJECT": layout.PROGRAM_OBJECT,
}
_NUMBERS = {
    "BEGIN": layout.PROGRAM_BEGIN,
    "LOOK": layout.PROGRAM_LOOK,
    "LOOK_AND_BEGIN": layout.PROGRAM_LOOK_AND_BEGIN,
    "END": layout.PROGRAM_END,
    "CHILD": layout.PROGRAM_CHILD,
    "MADE_BEGIN": layout.PROGRAM_MADE_BEGIN,
    "MADE_LOOK": layout.PROGRAM_MADE_LOOK,
    "MADE_END": layout.PROGRAM_MADE_END,
    "DUMP_ALL": layout.DUMP_ALL,
    "DUMP_REACHABLE": layout.DUMP_REACHABLE,
    "COUNTING": layout.OBJECTS_COUNTING,
    "REFUSED": layout.OBJECTS_REFUSED,
    "LAYOUT_SIZE": layout.PYTHON.size,
    "WIRE_VERSION": wire.WIRE_VERSION,
    "INSIDE_MAGIC": wire.INSIDE_MAGIC,
    "INSIDE_AT": wire.BLOB_DATA,  # bytes from the beginning of an agent
}
_A_LINE = 40  # bytes
_PACKED = {"I": "L<", "i": "l<", "Q": "Q<", "q": "q<", "H": "S<", "B": "C", "s": "a", "x": "x"}
_RUBY = ("TALLY", "FUNCTION", "COUNT", "WIRE", "LEFT")
_C_HEAD = """\
// SPDX-License-Identifier: Apache-2.0
/**
 * A fingerprint of all layouts on which a program and its agent must agree, made by
 * soscope.instruments.mem.inside.
 */
#ifndef SOSCOPE_TABLES_H
#define SOSCOPE_TABLES_H

"""
_RUBY_HEAD = """\
# frozen_string_literal: true

# SPDX-License-Identifier: Apache-2.0

module Memprof
  # What is known of the agent; made by soscope.instruments.mem.inside.
  module Tables
"""


def fingerprint() -> int:
    """Return a number of 60 bits that stands for all layouts and numbers shared with the agent."""
    shared = {name: value for name, value in vars(wire).items() if name.startswith("BLOB_")}
    shared.update(vars(layout), **vars(tally), INSIDE=wire.INSIDE, CHANGE=wire.CHANGE)
    lines = [f"meaning {_MEANING}", f"command {wire.CONTROL.offset('command')}"]
    for name, value in sorted(shared.items()):
        if isinstance(value, wire.Layout):
            lines.append(f"{name} {value.struct.format} {' '.join(value.fields)}")
        elif type(value) is int:
            lines.append(f"{name} {value}")
    digest = hashlib.sha256("\n".join(lines).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 4


def tables() -> str:
    """Return the text of the Python module."""
    lines = [_HEAD, f"FINGERPRINT = {fingerprint()}"]
    lines += [f"{name} = {number}" for name, number in _NUMBERS.items()]
    lines.append("\n# Structs: how they are packed, and the names of their fields.")
    for name, struct in _STRUCTS.items():
        lines.append(f'{name}_FORMAT = "{struct.struct.format}"')
        lines.append(f"{name}_FIELDS = (")
        lines += [f'    "{field}",' for field in struct.fields]
        lines.append(")")
    lines.append("\nREFUSALS = {")
    lines += [f'    {number}: "{text}",' for number, text in sorted(REFUSALS.items())]
    lines.append("}\n\n# Where each version of CPython keeps things.\nLAYOUTS = bytes.fromhex(")
    data = agent_layouts()
    lines += [f'    "{data[at : at + _A_LINE].hex()}"' for at in range(0, len(data), _A_LINE)]
    return "\n".join([*lines, ")", ""])


def ruby_tables() -> str:
    """Return the text of the Ruby file."""
    numbers = {"FINGERPRINT": fingerprint()}
    for name in ("WIRE_VERSION", "INSIDE_MAGIC", "INSIDE_AT"):
        numbers[name] = _NUMBERS[name]
    lines = [f"    {name} = {number:_}" for name, number in numbers.items()]
    for name in _RUBY:
        struct = _STRUCTS[name]
        lines.append(f'    {name}_FORMAT = "{_packed(struct.struct.format)}"')
        lines.append(f"    {name}_SIZE = {struct.size}")
        fields = " ".join(struct.fields)
        lines.append(f"    {name}_FIELDS = %i[{fields}].freeze")
    return _RUBY_HEAD + "\n".join(lines) + "\n  end\n  private_constant :Tables\nend\n"


def _packed(form: str) -> str:
    """Return a format of Python's struct as a format of Ruby's Array#pack."""
    parts = re.findall(r"(\d*)([a-zA-Z])", form)
    return "".join(f"{_PACKED[code]}{count}" for count, code in parts if count != "0")


def header() -> str:
    """Return the text of the agent's C header."""
    return f"{_C_HEAD}#define SOSC_TABLES {fingerprint():#x}ull\n\n#endif\n"


def files() -> dict[str, str]:
    """Return all texts by their paths below the folder of the sources."""
    return {
        "integrations/python/soscope_mem/_tables.py": tables(),
        "integrations/ruby/lib/memprof/tables.rb": ruby_tables(),
        "native/include/soscope/tables.h": header(),
    }


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.stdout.write(tables())
    for folder in sys.argv[1:]:
        for path, text in files().items():
            (Path(folder) / path).write_text(text)
