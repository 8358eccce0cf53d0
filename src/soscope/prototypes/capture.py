# SPDX-License-Identifier: Apache-2.0
"""Compile a described function to capture programs: what the agent keeps of a call.

The cost of a call depends on how much is captured, so a program captures as little as possible.
The first integer register is always kept. Ops may depend on the value of another argument.
"""

from __future__ import annotations

from itertools import chain
from re import fullmatch

from soscope.errors import FormatError
from soscope.prototypes import catalog
from soscope.prototypes.describe import DescribedArgument, Description
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from soscope.prototypes.catalog import Conditions


# Ops of a capture program that run only if another argument has one of certain values.

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


# Six registers are one fixed move. So a function that needs more than one register, and no program
# for other data, asks for six. A string that the function itself must read needs no pointer beside
# it.

RESULT = layout.ARG_RESULT
_EXIT_WORDS = 6  # words of the entry for an exit program: SOSC_KEPT_MAX
_STRINGS = (catalog.POINTS_TO_STRING, catalog.POINTS_TO_WIDE)
_WIDE_OPS = (layout.OP_VA_FORMAT, layout.OP_VA_SCANF, layout.OP_VECTOR)
_FORMAT_LIMIT = 256  # bytes of a format; more than is printed, to know its arguments
_MOST_OF_RESULT = 4096  # bytes of a structure: SOSC_BYTES_MAX
_RESULTS = 32  # bytes: rax, rdx, xmm0, xmm1
_RESULTS_X87 = 64  # bytes: the same, st0, st1
_POINTER_SIZE = 8
_MOST_OF_STACK = layout.ARG_STACK_END - layout.ARG_STACK  # words


class CapturePrograms:
    """The programs of one function, as ops without OP_END.

    `flags` are the flags of struct sosc_function if exits are traced, `entry_flags` if not.
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
            # If arguments wait for the call's return, the exit runs a program in any case.
            if not self.exit_words:
                self.flags = layout.FN_SIX
                self.at_entry = []
        if self.at_exit:
            self.flags |= layout.FN_EXIT_PROGRAM
        if any(op[0] in _WIDE_OPS for op in without_ranges(self.at_entry)):
            self.flags |= layout.FN_WIDE
            self.entry_flags |= layout.FN_WIDE


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
    """Return the ops at entry that capture registers and stack, and ops that follow pointers."""
    arguments = [
        *description.arguments,
        *chain.from_iterable(each for _, each in description.optionals),
        *(each for _, _, each in description.others),
    ]
    follows: list[Op] = []
    words = stack = floats = vectors = vector_size = 0
    for number, argument in enumerate(description.arguments):
        if argument.format:
            follows += _format(description, argument, number)
        elif _keeps_at_entry(argument):
            follows.append(_follow(description, argument, number))
    follows = _with_alternatives(description, follows, _keeps_at_entry)
    for argument in arguments:
        if argument.place == catalog.PLACE_INT:
            sure = argument.follow and argument.leads == catalog.POINTS_TO_STRING
            sure = sure and not argument.unless_0 and argument.writes is None
            if argument.index and not sure:
                words = max(words, argument.index + 1)
        elif argument.place == catalog.PLACE_FLOAT:
            floats = max(floats, argument.index + 1)
        elif argument.place == catalog.PLACE_VECTOR:
            vectors = max(vectors, argument.index + 1)
            vector_size = max(vector_size, argument.type.size)
        elif argument.place == catalog.PLACE_REGISTERS:
            for register in catalog.unpacked(argument.index, argument.type.size):
                if register < catalog.SECOND_FLOAT:
                    words = max(words, register + 1)
                else:
                    floats = max(floats, register - catalog.SECOND_FLOAT + 1)
        else:
            stack = max(stack, argument.index + (argument.type.size + 7) // 8)
    if description.words:
        named = sum(passed.place == catalog.PLACE_INT for passed in description.arguments)
        words = max(words, named + description.words)
    if description.tail in (catalog.TAIL_PRINTF, catalog.TAIL_SCANF):
        words = 6  # the values for a format; OP_FORMAT captures those elsewhere
    ops = []
    if words:
        ops.append(_op(layout.OP_WORDS, words))
    if stack:
        ops.append(_op(layout.OP_STACK, stack))
    if floats:
        ops.append(_op(layout.OP_FLOAT, floats))
    if vectors:
        ops.append(_op(layout.OP_VECTOR, vectors, item=layout.ITEM_VECTORS, limit=vector_size))
    if description.errno == catalog.ERRNO_CHANGED:
        follows.append(_op(layout.OP_ERRNO, 0, item=layout.ITEM_ERRNO))
    return ops, follows


def _format(description: Description, argument: DescribedArgument, number: int) -> list[Op]:
    """Return the ops that capture a format and the strings among its arguments."""
    flags = layout.OP_IS_READ if argument.follow else 0
    if argument.follow_named:
        flags |= layout.OP_NAMES_READ
    if argument.leads == catalog.POINTS_TO_WIDE:
        flags |= layout.OP_WCHAR
    fills = description.tail.endswith(catalog.TAIL_SCANF)
    code, place = layout.OP_SCANF if fills else layout.OP_FORMAT, 0
    if description.tail.startswith(catalog.TAIL_LISTED):
        code = layout.OP_VA_SCANF if fills else layout.OP_VA_FORMAT
        place = description.arguments[-1].index
    return [
        _op(
            code,
            argument.index,
            item=number,
            length_arg=place,
            limit=_FORMAT_LIMIT,
            flags=flags,
        )
    ]


def _exit(description: Description) -> tuple[list[Op], int]:
    """Return the ops at the exit, and how many arguments they use."""
    ops = _with_alternatives(
        description,
        [
            _follow(description, argument, number)
            for number, argument in enumerate(description.arguments)
            if _keeps_at_exit(argument)
        ],
        _keeps_at_exit,
    )
    used: set[tuple[int, int]] = set()
    for op in without_ranges(ops):
        if op[1] != RESULT:
            used.add((op[1], layout.LENGTH_LIMIT))
        if op[2] == layout.LENGTH_PRODUCT:
            raise _fail(description, "a product cannot be a length at the return")
        if op[2] not in (layout.LENGTH_LIMIT, layout.LENGTH_RESULT):
            used.add((op[3], layout.LENGTH_LIMIT))
        if op[2] == layout.LENGTH_AT:
            used.add((op[3], layout.LENGTH_AT))
        if len(used) > _EXIT_WORDS:
            raise _fail(description, f"more than {_EXIT_WORDS} words are wanted at the return")
    if description.tail.endswith(catalog.TAIL_SCANF):
        ops.append(_op(layout.OP_FILLED, RESULT))
    result = description.result
    if result is not None:
        if result.place == catalog.PLACE_FLOAT:
            ops.append(_op(layout.OP_FLOAT, 1, item=RESULT))
        elif result.place == catalog.PLACE_RESULT:
            x87 = result.index == catalog.SECOND_X87
            size = _RESULTS_X87 if x87 else _RESULTS
            ops.append(_op(layout.OP_RESULT, RESULT, item=RESULT, limit=size))
        elif result.place == catalog.PLACE_VECTOR:
            ops.append(_op(layout.OP_VECTOR, 1, item=RESULT, limit=result.type.size))
        elif result.place == catalog.PLACE_MEMORY:
            size = min(result.type.size, _MOST_OF_RESULT)
            ops.append(_op(layout.OP_BYTES, RESULT, item=RESULT, limit=size))
        elif result.leads in _STRINGS:
            flags = layout.OP_IS_READ if result.follow else 0
            flags |= layout.OP_WCHAR if result.leads == catalog.POINTS_TO_WIDE else 0
            ops.append(_op(layout.OP_STRING, RESULT, item=RESULT, flags=flags))
        elif result.leads == catalog.POINTS_TO_STRUCT:
            size, flags = min(result.size, _MOST_OF_RESULT), layout.OP_IS_READ
            ops.append(_op(layout.OP_BYTES, RESULT, item=RESULT, limit=size, flags=flags))
        elif result.leads:
            raise _fail(description, "this result cannot be followed")
    return ops, len(used)


def _keeps_at_entry(argument: DescribedArgument) -> bool:
    return bool(argument.leads) and (argument.writes is None or argument.is_in_out)


def _keeps_at_exit(argument: DescribedArgument) -> bool:
    return bool(argument.leads) and argument.writes is not None


def _with_alternatives(
    description: Description, ops: list[Op], is_kept: Callable[[DescribedArgument], bool]
) -> list[Op]:
    """Return `ops` with those for arguments whose type depends on another argument."""
    fixed = description.arguments
    registers = [(each.index, each.type.size) for each in fixed]
    by_item: dict[int, list[Op]] = {}
    for op in ops:
        by_item.setdefault(op[-1], []).append(op)

    def kept(arguments: list[DescribedArgument], item: int) -> list[Op]:
        numbered = enumerate(arguments, item)
        return [_follow(description, each, number) for number, each in numbered if is_kept(each)]

    for item in dict.fromkeys(number for number, _, _ in description.others):
        choices = [
            (conditions, kept([argument], item))
            for number, conditions, argument in description.others
            if number == item
        ]
        by_item[item] = first_of(choices, by_item.get(item, []), registers)
    tails = [(conditions, kept(each, len(fixed))) for conditions, each in description.optionals]
    by_item[len(fixed)] = first_of(tails, [], registers)
    return [op for item in sorted(by_item) for op in by_item[item]]


def _follow(description: Description, argument: DescribedArgument, number: int) -> Op:
    """Return the op that captures the data to which `argument` points."""
    flags = layout.OP_IS_READ if argument.follow else 0
    if argument.follow and argument.writes is not None:
        flags |= _once_written(description, argument)
    if argument.unless_0 and (argument.length or argument.leads not in _STRINGS):
        raise _fail(description, f"FOLLOW_UNLESS_0 of '{argument.name}', which is no string")
    if argument.unless_same and not argument.length:
        raise _fail(description, f"FOLLOW_UNLESS_SAME of '{argument.name}', which has no BYTES")
    if argument.length:
        flags |= layout.OP_UNLESS_SAME if argument.unless_same else 0
        how, arg, more = _length(description, argument)
        flags |= more
        limit = argument.size  # of a socket address; for bytes 0: the limit of strings
        return _op(
            layout.OP_BYTES,
            _arg(argument),
            item=number,
            length=how,
            length_arg=arg,
            limit=limit,
            flags=flags,
        )
    if argument.leads in _STRINGS:
        if argument.leads == catalog.POINTS_TO_WIDE:
            flags |= layout.OP_WCHAR
        how, arg = layout.LENGTH_LIMIT, 0
        if argument.most:
            how = layout.LENGTH_ARG
            arg, more = _register(description, " ".join(argument.most))
            flags |= more
        elif argument.unless_0:
            arg, more = _register(description, " ".join(argument.unless_0))
            flags |= more | layout.OP_UNLESS_0
        return _op(
            layout.OP_STRING,
            _arg(argument),
            item=number,
            length=how,
            length_arg=arg,
            flags=flags,
        )
    if argument.leads == catalog.POINTS_TO_STRING_AT:
        flags |= layout.OP_TEXT_AT
        return _op(layout.OP_STRING, argument.index, item=number, flags=flags)
    if argument.is_text_at:
        flags |= layout.OP_TEXT_AT
        return _op(layout.OP_BYTES, _arg(argument), item=number, flags=flags)
    limit = argument.size * (argument.count or 1)
    if limit == _POINTER_SIZE:
        return _op(layout.OP_WORD_AT, _arg(argument), item=number, flags=flags)
    return _op(layout.OP_BYTES, _arg(argument), item=number, limit=limit, flags=flags)


def _once_written(description: Description, argument: DescribedArgument) -> int:
    """Return the op flags for the condition under which a function has written a string."""
    flags = 0
    for number, operator in argument.writes or ():
        if number == catalog.WRITES_SUCCESS and description.error_rule == layout.ERROR_INT_NEGATIVE:
            flags |= layout.OP_UNLESS_NEGATIVE
        elif (
            operator == ">"
            and number >= 0
            and [description.arguments[number].name] == argument.most
        ):
            flags |= layout.OP_UNLESS_0  # of the register with the length
        else:
            raise _fail(description, f"FOLLOW of '{argument.name}', by what OUT(...) says of it")
    if argument.leads != catalog.POINTS_TO_STRING or argument.length or argument.is_in_out:
        raise _fail(description, f"FOLLOW of '{argument.name}', which is not only a string")
    return flags


def _length(description: Description, argument: DescribedArgument) -> tuple[int, int, int]:
    """Return enum sosc_op_length, its register and enum sosc_op_flag for BYTES(...)."""
    text = "".join(argument.length)
    result = layout.OP_INT_RESULT if description.function.result.size == _INT_SIZE else 0
    if text == "result":
        return layout.LENGTH_RESULT, 0, result
    if match := fullmatch(r"min\(result,(\w+)\)", text):
        return layout.LENGTH_RESULT_ARG, *_and_result(_register(description, match[1]), result)
    if match := fullmatch(r"\*(\w+)", text):
        register = _register(description, match[1])
        if register[0] >= layout.ARG_STACK:
            raise _fail(description, f"length '*{match[1]}' is on the stack")
        return layout.LENGTH_AT, *register
    if match := fullmatch(r"result\*(\w+)", text):
        return layout.LENGTH_RESULT_PRODUCT, *_and_result(_register(description, match[1]), result)
    names = text.split("*")
    if not all(fullmatch(r"\w+", name) for name in names) or len(names) > 2:
        raise _fail(description, f"BYTES({' '.join(argument.length)}) is not understood")
    first, flags = _register(description, names[0])
    if len(names) == 1:
        return layout.LENGTH_ARG, first, flags
    if _register(description, names[1]) != (first + 1, 0) or flags:
        raise _fail(description, "the factors of a product must be neighbours of type size_t")
    return layout.LENGTH_PRODUCT, first, 0


def _and_result(register: tuple[int, int], flags: int) -> tuple[int, int]:
    return register[0], register[1] | flags


def _register(description: Description, name: str) -> tuple[int, int]:
    """Return an op's number for the location of the length `name`, and the op flag for its size."""
    argument = description.arguments[description.number_of(name)]
    if argument.place not in (catalog.PLACE_INT, catalog.PLACE_STACK) or argument.type.size > 8:
        raise _fail(description, f"length '{name}' is no integer")
    if argument.place == catalog.PLACE_STACK and argument.index >= _MOST_OF_STACK:
        raise _fail(description, f"length '{name}' is too far up the stack")
    return _arg(argument), layout.OP_INT_LENGTH if argument.type.size == _INT_SIZE else 0


def _arg(argument: DescribedArgument) -> int:
    """Return an op's number for the location of an argument."""
    return argument.index + (layout.ARG_STACK if argument.place == catalog.PLACE_STACK else 0)


def _fail(description: Description, what: str) -> FormatError:
    function = description.function
    return FormatError(f"{function.where}: {function.name}: {what}", field=function.name)
