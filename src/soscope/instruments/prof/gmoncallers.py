# SPDX-License-Identifier: Apache-2.0
"""Callers of the calls of a gmon.out, in which mcount has rounded the return addresses down.

mcount keeps a call by the piece of code that it returns to: 16 bytes on 64-bit machines, 8 bytes
on 32-bit ones. If such a piece belongs to several functions, the call instructions in it tell
which.
"""

from __future__ import annotations

from soscope.binfmt.profiles import GmonFile
from soscope.instruments.prof.model import ProfFunction
from soscope.instruments.prof.naming import UNKNOWN, ImageFunctions
from soscope.instruments.prof.returns import Code, ReturnAddresses


class GmonCallers:
    """The callers of the arcs of one file. `offset` turns its addresses into link-time addresses.

    `code` are the ranges of the image's code. Callers outside of them are not known.
    """

    def __init__(self, gmon: GmonFile, functions: ImageFunctions, code: Code, offset: int) -> None:
        self._functions = functions
        self._code = code
        self._mask = (1 << gmon.bits) - 1
        self._offset = offset
        self._returns = ReturnAddresses(functions)
        self._piece = 1 if self._are_starts(gmon) else _piece(gmon)

    def of(self, from_pc: int, callee: ProfFunction) -> list[ProfFunction]:
        """Return the possible callers of `callee` that return to `from_pc` or behind it."""
        start = (from_pc + self._offset) & self._mask
        if not any(low <= start <= high for low, high in self._code):
            return []
        there = self._functions.at(start)
        if self._piece == 1:
            # A return address lies behind the call, so it may belong to the function before.
            begins = _named([there]) if there.addr == start else []
            return begins or _named([self._functions.at(start - 1)])
        near = self._functions.in_range(start, start + self._piece - 1)
        several = _named([function for _, _, function in near])
        if there.addr == start and self._returns.call_before(start)[0]:
            several += _named([self._functions.at(start - 1)])  # a call that never returns
        if len(several) < 2:
            return several
        return self._by_code(start, callee) or several

    def _are_starts(self, gmon: GmonFile) -> bool:
        """Return whether all callers are addresses of functions, which mcount does not write."""
        starts = {(from_pc + self._offset) & self._mask for from_pc, _ in gmon.arcs}
        callers = zip(starts, self._functions.at_all(list(starts)), strict=True)
        return all(start == caller.addr for start, caller in callers if caller.size)

    def _by_code(self, start: int, callee: ProfFunction) -> list[ProfFunction]:
        """Return functions with calls that return to the piece, calls of `callee` if possible.

        If no direct call of `callee` returns there, indirect calls count.
        """
        sure: list[ProfFunction] = []
        possible: list[ProfFunction] = []
        for addr in range(start, start + self._piece):
            is_call, target, _ = self._returns.call_before(addr)
            if not is_call:
                continue
            caller = _named([self._functions.at(addr - 1)])
            if target is None:
                possible += caller
            else:
                called = self._functions.at(target)
                if called is callee or called.symbol == f"{callee.symbol}@plt":
                    sure += caller
        return list(dict.fromkeys(sure)) or list(dict.fromkeys(possible))


def _piece(gmon: GmonFile) -> int:
    """Return how many bytes of code share a return address, 1 if addresses were not rounded."""
    piece = 16 if gmon.bits == 64 else 8
    lows = [(histogram.low, histogram.high) for histogram in gmon.histograms]
    for from_pc, _ in gmon.arcs:
        low = next((low for low, high in lows if low <= from_pc < high), None)
        if low is not None and (from_pc - low) % piece:
            return 1
    return piece


def _named(functions: list[ProfFunction]) -> list[ProfFunction]:
    """Return each function once, without unknown places that belong to no function."""
    return [each for each in dict.fromkeys(functions) if each.symbol != UNKNOWN or each.size]
