# SPDX-License-Identifier: Apache-2.0
"""Compile a described function to capture programs: what the agent keeps of a call.

A call costs what is kept of it, so as little as possible is asked for. The first integer
register is always kept. Six registers are one fixed move, so that a function that needs more
than one and no program for anything else asks for six. A string that the function itself must
read needs no pointer beside it.
"""

from __future__ import annotations

from soscope.errors import FormatError
from soscope.prototypes import row
from soscope.prototypes.describe import Argument, Description
from soscope.wire import layout

RESULT = layout.ARG_RESULT
_EXIT_WORDS = 2  # arguments that an exit program may use
_WIDE_LIMIT = 128  # bytes of a wide string: 32 characters
_FORMAT_LIMIT = 256  # bytes of a format: more than is shown, to know its arguments
_POINTER_SIZE = 8

# op, arg, length, length_arg, limit, flags, item: the fields of struct sosc_op.
Op = tuple[int, int, int, int, int, int, int]


class Programs:
    """The programs of one function, ops without OP_END.

    `flags` are those of struct sosc_function where exits are seen, `entry_flags` where they
    are not.
    """

    __slots__ = ("at_entry", "at_exit", "entry_flags", "exit_words", "flags")

    def __init__(self, description: Description) -> None:
        words, follows = _entry(description)
        self.at_exit, self.exit_words = _exit(description)
        only_words = len(words) == 1 and words[0][0] == layout.OP_WORDS and not follows
        self.at_entry = words + follows
        self.entry_flags = layout.FN_PROGRAM if self.at_entry else 0
        self.flags = self.entry_flags
        if only_words:
            self.entry_flags = layout.FN_SIX
            # A call whose arguments wait for its return runs a program in any case.
            if not self.exit_words:
                self.flags = layout.FN_SIX
                self.at_entry = []
        if self.at_exit:
            self.flags |= layout.FN_EXIT_PROGRAM


def _op(
    op: int,
    arg: int,
    *,
    item: int = 0,
    length: int = layout.LENGTH_LIMIT,
    length_arg: int = 0,
    limit: int = 0,
    flags: int = 0,
) -> Op:
    return op, arg, length, length_arg, limit, flags, item


def _entry(description: Description) -> tuple[list[Op], list[Op]]:
    """Return the ops at entry that keep registers and stack, and those that follow pointers."""
    arguments = [*description.arguments, *description.optionals]
    follows: list[Op] = []
    words = stack = floats = 0
    for number, argument in enumerate(description.arguments):
        if argument.format:
            flags = layout.OP_MUST_FOLLOW if argument.follow else 0
            follows.append(
                _op(layout.OP_FORMAT, argument.index, item=number, limit=_FORMAT_LIMIT, flags=flags)
            )
        elif argument.leads and not argument.out:
            follows.append(_follow(description, argument, number))
    for argument in arguments:
        if argument.place == row.PLACE_INT:
            sure = argument.follow and argument.leads == row.LEADS_TO_STRING
            if argument.index and not sure:
                words = max(words, argument.index + 1)
        elif argument.place == row.PLACE_FLOAT:
            floats = max(floats, argument.index + 1)
        else:
            size = 2 if argument.show[0] == row.SHOW_LONG_DOUBLE else 1
            stack = max(stack, argument.index + size)
    if description.words:
        words = 1 + description.words
    if description.tail in (row.TAIL_PRINTF, row.TAIL_SCANF):
        words = 6  # the values of a format; OP_FORMAT keeps those that are elsewhere
    ops = []
    if words:
        ops.append(_op(layout.OP_WORDS, words))
    if stack:
        ops.append(_op(layout.OP_STACK, stack))
    if floats:
        ops.append(_op(layout.OP_FLOAT, floats))
    return ops, follows


def _exit(description: Description) -> tuple[list[Op], int]:
    """Return the ops at exit and how many arguments they use."""
    ops: list[Op] = []
    used: list[int] = []
    for number, argument in enumerate(description.arguments):
        if not (argument.leads and argument.out):
            continue
        op = _follow(description, argument, number)
        wanted = [op[1]]
        if op[2] in (layout.LENGTH_ARG, layout.LENGTH_RESULT_PRODUCT):
            wanted.append(op[3])
        elif op[2] == layout.LENGTH_PRODUCT:
            raise _fail(description, "a product cannot be a length at the return")
        wanted = [arg for arg in wanted if arg not in used]
        if len(used) + len(wanted) > _EXIT_WORDS:
            raise _fail(description, f"more than {_EXIT_WORDS} arguments are wanted at the return")
        used += wanted
        ops.append(op)
    result = description.result
    if result is not None:
        if result.place == row.PLACE_FLOAT:
            ops.append(_op(layout.OP_FLOAT, 1, item=RESULT))
        elif result.leads == row.LEADS_TO_STRING:
            ops.append(_op(layout.OP_STRING, RESULT, item=RESULT))
        elif result.leads == row.LEADS_TO_WIDE:
            ops.append(_op(layout.OP_BYTES, RESULT, item=RESULT, limit=_WIDE_LIMIT))
        elif result.leads:
            raise _fail(description, "this result cannot be followed")
    return ops, len(used)


def _follow(description: Description, argument: Argument, number: int) -> Op:
    """Return the op that keeps what `argument` leads to."""
    flags = layout.OP_MUST_FOLLOW if argument.follow else 0
    if argument.length:
        how, arg = _length(description, argument)
        limit = argument.size  # of a socket address; 0 of bytes: as many as of a string
        return _op(
            layout.OP_BYTES,
            argument.index,
            item=number,
            length=how,
            length_arg=arg,
            limit=limit,
            flags=flags,
        )
    if argument.leads == row.LEADS_TO_STRING:
        return _op(layout.OP_STRING, argument.index, item=number, flags=flags)
    limit = _WIDE_LIMIT
    if argument.leads != row.LEADS_TO_WIDE:
        limit = argument.size * (argument.count or 1)
    if limit == _POINTER_SIZE:
        return _op(layout.OP_WORD_AT, argument.index, item=number, flags=flags)
    return _op(layout.OP_BYTES, argument.index, item=number, limit=limit, flags=flags)


def _length(description: Description, argument: Argument) -> tuple[int, int]:
    """Return enum sosc_op_length and the register it names, for BYTES(...)."""
    tokens = argument.length
    if tokens == ["result"]:
        return layout.LENGTH_RESULT, 0
    names = tokens[::2]
    if set(tokens[1::2]) - {"*"} or len(names) not in (1, 2):
        raise _fail(description, f"BYTES({' '.join(tokens)}) is not understood")
    if names[0] == "result":
        return layout.LENGTH_RESULT_PRODUCT, _register(description, names[1])
    first = _register(description, names[0])
    if len(names) == 1:
        return layout.LENGTH_ARG, first
    if _register(description, names[1]) != first + 1:
        raise _fail(description, "the factors of a product must be neighbours")
    return layout.LENGTH_PRODUCT, first


def _register(description: Description, name: str) -> int:
    argument = description.arguments[description.number_of(name)]
    if argument.place != row.PLACE_INT:
        raise _fail(description, f"length '{name}' is not in an integer register")
    return argument.index


def _fail(description: Description, what: str) -> FormatError:
    function = description.function
    return FormatError(f"{function.where}: {function.name}: {what}", field=function.name)
