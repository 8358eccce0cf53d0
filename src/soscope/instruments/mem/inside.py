# SPDX-License-Identifier: Apache-2.0
"""What `soscope_mem` has to know of the agent and of CPython, as the text of a module.

That package counts inside programs, on Pythons on which soscope itself does not run, and is
installed without it. So it has a copy, which a test compares with what this makes:

    python -m soscope.instruments.mem.inside >integrations/python/soscope_mem/_tables.py
"""

from __future__ import annotations

import sys

from soscope.instruments.mem.layouts import agent_layouts
from soscope.instruments.mem.objects import REFUSALS
from soscope.wire import layout as wire
from soscope.wire import objectlayout as layout

_HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
"""What is known of the agent and of CPython; made by soscope.instruments.mem.inside."""
'''
_STRUCTS = {
    "INSIDE": wire.INSIDE,
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
    "INSIDE_AT": wire.BLOB_DATA,  # bytes from where an agent begins
}
_A_LINE = 40  # bytes


def tables() -> str:
    """Return the text of the module."""
    lines = [_HEAD]
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


if __name__ == "__main__":
    sys.stdout.write(tables())
