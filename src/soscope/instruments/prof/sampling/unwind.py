# SPDX-License-Identifier: Apache-2.0
"""Walks the copy of a stack, fast, as two rules find most frames.

Where unwind tables have no rule (code that was made at run time), the walk follows the frame
pointer if that leads to code.
"""

from __future__ import annotations

from bisect import bisect_right, insort

from soscope.binfmt.elf.unwind import AT_CFA, Registers, Row, caller
from soscope.entry.isa import arch
from soscope.errors import FormatError
from soscope.instruments.prof.sampling.imagemap import ImageMap

MOST_FRAMES = 512
_WORD = 8
_FP, _SP, _PC = arch.FP_COLUMN, arch.SP_COLUMN, arch.PC_COLUMN

BY_SP, BY_FP, BY_ROW, LAST, NOTHING = range(5)  # ways to find the caller
# Kind, distance of the CFA, distance from the CFA to the saved frame pointer (0: not saved), row.
Rule = tuple[int, int, int, Row | None]
_NO_RULE: Rule = (NOTHING, 0, 0, None)


class Unwinder:
    """Walks stacks in one process, and remembers the rules of its code."""

    def __init__(self, images: ImageMap) -> None:
        self._images = images
        self._generation = images.generation
        self._known: dict[int, Rule] = {}
        self._starts: list[int] = []  # ranges of code with one rule
        self._rules: dict[int, tuple[int, Rule]] = {}

    def walk(self, registers: Registers, start: int, stack: bytes) -> tuple[list[int], bool]:
        """Return addresses, innermost first, and whether the walk reached the end of the stack.

        `stack` is the memory from `start` on, which is below the stack pointer: a function that
        is about to return has left there the words that its rules refer to. Each address is one
        too large: a return address is behind its call, and the innermost address is the program
        counter plus 1.
        """
        words = memoryview(stack)[: len(stack) & -_WORD].cast("Q")
        count = len(words)
        pc, sp, fp = registers.get(_PC) or 0, registers.get(_SP) or 0, registers.get(_FP) or 0
        addrs = [pc + 1]
        back = 0  # the innermost and an interrupted address are exact: 0
        known, find = self._known, self._find
        for _ in range(MOST_FRAMES):
            rule = known.get(pc - back)
            if rule is None:
                rule = find(pc - back)
            kind, distance, saved, row = rule
            if kind == BY_SP:
                cfa = sp + distance
            elif kind == BY_FP:
                cfa = fp + distance
            elif kind == LAST:
                return addrs, True
            elif kind == BY_ROW:
                assert row is not None
                if len(addrs) > 1:
                    registers = {_PC: pc, _SP: sp, _FP: fp}
                above = self._by_row(row, registers, words, start)
                if above is None:
                    return addrs, False
                pc, cfa, fp = above
                if not pc:
                    return addrs, True
                back = 0 if row.is_signal else 1
                if not row.is_signal and cfa <= sp:
                    return addrs, False
                sp = cfa
                addrs.append(pc + 1 - back)
                continue
            else:
                at = fp - start >> 3
                if not fp or not 0 <= at < count - 1 or fp % _WORD or fp < sp:
                    return addrs, False
                if self._images.at(words[at + 1] - 1) is None:
                    return addrs, False
                cfa, saved = fp + 2 * _WORD, -2 * _WORD
            at = cfa - start >> 3
            if not 0 < at <= count or cfa <= sp or cfa & 7:
                return addrs, False
            pc = words[at - 1]
            if saved:
                at += saved >> 3
                if at >= 0:  # else the function has restored the frame pointer already
                    fp = words[at] if at < count else 0
            sp, back = cfa, 1
            if not pc:
                return addrs, True
            addrs.append(pc)
        return addrs, False

    def _by_row(
        self, row: Row, registers: Registers, words: memoryview, start: int
    ) -> tuple[int, int, int] | None:
        """Return the caller's program counter, stack and frame pointer, None if not known."""

        def read(addr: int) -> int | None:
            at = addr - start >> 3
            if 0 <= at < len(words) and not addr & 7:
                return int(words[at])
            data = self._images.space.memory.read(addr, _WORD)
            return int.from_bytes(data, "little") if len(data) == _WORD else None

        try:
            above = caller(row, registers, read, _SP)
        except (FormatError, OSError):
            return None  # damaged rules, or the process has ended
        pc, sp = above.get(_PC), above.get(_SP)
        return None if pc is None or sp is None else (pc, sp, above.get(_FP) or 0)

    def _find(self, pc: int) -> Rule:
        if self._generation != self._images.generation:
            self._generation = self._images.generation
            self._known.clear()
            self._starts.clear()
            self._rules.clear()
        at = bisect_right(self._starts, pc) - 1
        if at >= 0:
            end, rule = self._rules[self._starts[at]]
            if pc < end:
                self._known[pc] = rule
                return rule
        image = self._images.at(pc)
        known = None if image is None else image.row(pc)
        if known is None:
            return _NO_RULE  # the rule is not kept, as code made at run time changes
        row, start, end = known
        rule = _rule_of(row)
        if start not in self._rules:
            insort(self._starts, start)
        self._rules[start] = end, rule
        self._known[pc] = rule
        return rule


def _rule_of(row: Row) -> Rule:
    """Return the short form of a row, if it has one."""
    if row.is_last:
        return LAST, 0, 0, row
    rules = row.rules
    by_fp = rules.get(_FP)
    is_plain = (
        row.expression is None
        and row.register in (_SP, _FP)
        and row.returns == _PC
        and not row.is_signal
        and rules.get(_PC) == (AT_CFA, -_WORD)
        and _SP not in rules
        and (by_fp is None or by_fp[0] == AT_CFA)
    )
    if not is_plain:
        return BY_ROW, 0, 0, row
    saved = by_fp[1] if by_fp is not None else 0
    assert isinstance(saved, int)
    return BY_SP if row.register == _SP else BY_FP, row.offset, saved, row
