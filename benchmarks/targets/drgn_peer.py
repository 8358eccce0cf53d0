# SPDX-License-Identifier: Apache-2.0
"""One symbol of a running process, by drgn: drgn_peer.py PID NAME."""

from __future__ import annotations

import sys

import drgn

program = drgn.Program()
program.set_pid(int(sys.argv[1]))
try:
    program.load_default_debug_info()
except drgn.MissingDebugInfoError:
    pass  # what has none still has symbols
print(hex(program.symbol(sys.argv[2]).address))
