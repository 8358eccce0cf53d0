# SPDX-License-Identifier: Apache-2.0
"""Ops of a capture program that run only if another argument has one of certain values."""

from __future__ import annotations

from soscope.errors import FormatError
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from soscope.prototypes.row import Conditions

# op, arg, length, length_arg, limit, flags, item: the fields of struct sosc_op.
Op = tuple[int, int, int, int, int, int, int]
# Conditions, and the ops that run if all of them are true.
Choice = tuple["Conditions", list[Op]]

_MOST = 255  # words that one op can skip, at most
_INT_SIZE = 4
_INT_MASK = 0xFFFF_FFFF
_WORD_MASK = 0xFFFF_FFFF_FFFF_FFFF


def first_of(
    choices: list[Choice], otherwise: list[Op], registers: list[tuple[int, int]]
) -> list[Op]:
    """Return code that runs the ops of the first choice that applies, else `otherwise`.

    A choice applies if its conditions are true. `registers` has the register of each argument and
    its size. Raises FormatError if there are too many values.
    """
    code = otherwise
    later: list[Choice] = []
    for choice in reversed(choices):
        conditions, ops = choice
        if not ops and (not code or (not otherwise and _excludes(conditions, later))):
            continue
        later.append(choice)
        if not conditions:
            code = ops
            continue
        body = [*ops, _skip(len(code))] if code else ops
        for condition in reversed(conditions):
            body = [*_when(condition, registers, len(body)), *body]
        code = [*body, *code]
    return code


def without_ranges(ops: list[Op]) -> Iterator[Op]:
    """Yield the ops of a program, without the ranges of values between them."""
    at = 0
    while at < len(ops):
        op = ops[at]
        yield op
        at += 1 + (op[4] if op[0] == layout.OP_WHEN else 0)


def _excludes(conditions: Conditions, later: list[Choice]) -> bool:
    """Return whether these conditions exclude all later choices."""
    if len(conditions) != 1 or conditions[0][1] != "==":
        return False
    number, _, values = conditions[0]
    return all(
        any(
            other == number and operator == "==" and not set(others) & set(values)
            for other, operator, others in theirs
        )
        for theirs, _ in later
    )


def _when(
    condition: tuple[int, str, tuple[int, ...]], registers: list[tuple[int, int]], body: int
) -> list[Op]:
    number, operator, values = condition
    register, size = registers[number]
    flags = layout.OP_INT_ARG if size <= _INT_SIZE else 0
    if operator == "&":
        flags |= layout.OP_ANY_BIT
        mask = 0
        for value in values:
            mask |= value
        ranges = [(mask, mask)]
    else:
        known = _INT_MASK if flags else _WORD_MASK
        ranges = _ranges({value & known for value in values})
    if len(ranges) > _MOST or body > _MOST:
        raise FormatError("too many values decide what an argument is")
    if any(last > _INT_MASK for _, last in ranges):
        raise FormatError("a value that decides what an argument is has more than 32 bits")
    head = (layout.OP_WHEN, register, layout.LENGTH_LIMIT, 0, len(ranges), flags, body)
    return [head, *(layout.OP.struct.unpack(layout.VALUES.struct.pack(*each)) for each in ranges)]


def _skip(words: int) -> Op:
    if words > _MOST:
        raise FormatError("too many values decide what an argument is")
    return layout.OP_WHEN, layout.ARG_RESULT, layout.LENGTH_LIMIT, 0, 0, 0, words


def _ranges(values: set[int]) -> list[tuple[int, int]]:
    """Return values as sorted ranges of adjacent values."""
    ranges: list[tuple[int, int]] = []
    for value in sorted(values):
        if ranges and ranges[-1][1] == value - 1:
            ranges[-1] = ranges[-1][0], value
        else:
            ranges.append((value, value))
    return ranges
