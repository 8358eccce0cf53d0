# SPDX-License-Identifier: Apache-2.0
"""Run by gdb-multiarch: stops where f0 begins and, through a FinishBreakpoint, where it returns."""

import gdb


class _Return(gdb.FinishBreakpoint):
    def stop(self) -> bool:
        """Look at the result, and go on."""
        int(gdb.parse_and_eval("$r3"))
        return False


class _Entry(gdb.Breakpoint):
    def stop(self) -> bool:
        """Look at the argument, and go on."""
        int(gdb.parse_and_eval("$r3"))
        _Return(gdb.newest_frame(), internal=True)
        return False


_Entry("f0")
