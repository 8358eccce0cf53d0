# SPDX-License-Identifier: Apache-2.0
"""Compute what a seccomp filter returns for a system call, by interpreting its classic BPF.

Unknown words of a call stand for any value: both ways of a jump that depends on them are
followed, and all possible verdicts are collected. Instructions are those of <linux/bpf_common.h>
and <linux/filter.h>, and verdicts those of seccomp(2).
"""

from __future__ import annotations

import struct

ALLOW, LOG, ERRNO = 0x7FFF_0000, 0x7FFC_0000, 0x0005_0000
_ACTION_MASK, _DATA_MASK = 0xFFFF_0000, 0xFFFF
_WORDS = 16  # of the scratch memory, BPF_MEMWORDS
_MASK = 0xFFFF_FFFF
_MOST_STEPS = 50_000
_DATA_SIZE = 64  # struct seccomp_data: nr, arch, instruction_pointer, args[6]
_ARGS = 16

# <linux/bpf_common.h>
_LD, _LDX, _ST, _STX, _ALU, _JMP, _RET, _MISC = range(8)
_W = 0x00
_IMM, _ABS, _MEM, _LEN = 0x00, 0x20, 0x60, 0x80
_X = 0x08  # BPF_SRC
_A = 0x10  # BPF_RVAL of BPF_RET
_TXA = 0x80

_INSTRUCTION = struct.Struct("=HBBI")  # struct sock_filter

Code = list[tuple[int, int, int, int]]
Word = int | None  # None: any value
State = tuple[int, Word, Word, tuple[Word, ...]]


class TooLong(Exception):  # noqa: N818  it is an answer, not a mistake
    """The filter has too many paths, or is invalid."""


def parse(data: bytes) -> Code:
    """Return the (code, jt, jf, k) of a filter's bytes."""
    return list(_INSTRUCTION.iter_unpack(data[: len(data) // 8 * 8]))


def call(number: int, arch: int, arguments: dict[int, int]) -> dict[int, int]:
    """Return the known 32-bit words of a `struct seccomp_data`, by offset.

    `arguments` maps the positions of known arguments to their 64-bit values.
    """
    words = {0: number & _MASK, 4: arch}
    for position, value in arguments.items():
        at = _ARGS + 8 * position
        words[at], words[at + 4] = value & _MASK, value >> 32 & _MASK
    return words


def verdicts(code: Code, words: dict[int, int]) -> set[int]:
    """Return all values that the filter may return for a call with these words.

    Raises TooLong.
    """
    values: set[int] = set()
    seen: set[State] = set()
    todo: list[State] = [(0, 0, 0, (0,) * _WORDS)]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        if len(seen) > _MOST_STEPS or state[0] >= len(code):
            raise TooLong
        todo += _step(code, words, state, values)
    return values


def _step(code: Code, words: dict[int, int], state: State, values: set[int]) -> list[State]:
    """Return the states after one instruction. A verdict is added to `values`."""
    at, a, x, memory = state
    op, if_true, if_false, k = code[at]
    kind = op & 7
    if kind == _RET:
        value = a if op & 0x18 == _A else k
        if value is None:
            raise TooLong
        values.add(value)
        return []
    if kind == _JMP:
        return [(at + 1 + by, a, x, memory) for by in _jumps(op, if_true, if_false, k, a, x)]
    if kind == _LD:
        a = _load(op, k, words, memory)
    elif kind == _LDX:
        x = _load(op, k, words, memory)
    elif kind in (_ST, _STX):
        value = a if kind == _ST else x
        memory = (*memory[:k], value, *memory[k + 1 :])
    elif kind == _ALU:
        a = _calculate(op, a, x if op & _X else k)
    elif op & 0xF8 == _TXA:
        a = x
    else:
        x = a
    return [(at + 1, a, x, memory)]


def _load(op: int, k: int, words: dict[int, int], memory: tuple[Word, ...]) -> Word:
    mode = op & 0xE0
    if mode == _IMM:
        return k
    if mode == _MEM:
        return memory[k] if k < _WORDS else None
    if mode == _LEN:
        return _DATA_SIZE
    return words.get(k) if mode == _ABS else None


def _jumps(op: int, if_true: int, if_false: int, k: int, a: Word, x: Word) -> set[int]:
    how = op & 0xF0
    if how == 0x00:  # BPF_JA
        return {k}
    other = x if op & _X else k
    if a is None or other is None:
        return {if_true, if_false}
    holds = {0x10: a == other, 0x20: a > other, 0x30: a >= other, 0x40: bool(a & other)}
    if how not in holds:
        raise TooLong
    return {if_true if holds[how] else if_false}


def _calculate(op: int, a: Word, b: Word) -> Word:
    how = op & 0xF0
    if how == 0x50 and 0 in (a, b):  # 0 whatever the other operand is
        return 0
    if a is None or (b is None and how != 0x80):
        return None
    if how == 0x80:  # BPF_NEG
        return -a & _MASK
    assert b is not None
    if how in (0x30, 0x90) and not b:  # division by 0: the kernel makes the filter return 0
        raise TooLong
    results = {
        0x00: lambda: a + b,
        0x10: lambda: a - b,
        0x20: lambda: a * b,
        0x30: lambda: a // b,
        0x40: lambda: a | b,
        0x50: lambda: a & b,
        0x60: lambda: a << b if b < 32 else 0,
        0x70: lambda: a >> b if b < 32 else 0,
        0x90: lambda: a % b,
        0xA0: lambda: a ^ b,
    }
    if how not in results:
        raise TooLong
    return results[how]() & _MASK


def action(verdict: int) -> int:
    """Return the action of a verdict."""
    return verdict & _ACTION_MASK


def errno_of(verdict: int) -> int:
    """Return the errno of an ERRNO verdict."""
    return verdict & _DATA_MASK
