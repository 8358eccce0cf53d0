# SPDX-License-Identifier: Apache-2.0
"""Run capture programs for a call of a stopped thread, as the agent does in the process.

See `soscope/program.h`. All memory is read from outside, so a bad pointer does no harm.
"""

from __future__ import annotations

from soscope.control.breakpoints import values
from soscope.control.breakpoints.images import ErrnoPlace
from soscope.control.breakpoints.layouts import (
    AS_IT_IS,
    LONGEST,
    SIGNED,
    SINGLE,
    WIDE,
    Constants,
    Kind,
    PassedRecord,
    Repacking,
    kinds_of_format,
)
from soscope.control.breakpoints.values import NO_POINTEES, Pointees
from soscope.entry.remote.convention import LONG_DOUBLE_POINTER, Convention
from soscope.model.call import (
    DATA_BYTES,
    DATA_FLOATS,
    DATA_NULL,
    DATA_STACK,
    DATA_STRING,
    DATA_TRUNCATED,
    DATA_UNREADABLE,
    DATA_WORD_AT,
    DATA_WORDS,
    RESULT_ITEM,
)
from soscope.prototypes import catalog, formats
from soscope.wire import layout
from soscope.wire.recorder import Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from soscope.control.breakpoints.watch import CallSpec
    from soscope.entry.remote.stub import StoppedThread, WordMemory


_INT = 4  # bytes
_WIDE = 4  # bytes of a wchar_t
_X87_AT = 32  # offset of st0 in OP_RESULT, behind rax, rdx, xmm0 and xmm1
_MOST = 4096  # bytes of one item: SOSC_BYTES_MAX
_SIGN, _WORD = 1 << 63, (1 << 64) - 1
_SINGLE_PAGE = 256  # bytes of a string that one read takes
_FORMATS = (layout.OP_FORMAT, layout.OP_SCANF)
_FOLLOWS = (layout.OP_STRING, layout.OP_BYTES, layout.OP_WORD_AT)


class Kept:
    """What an exit record needs from the entry: argument words and stack words.

    `before` has the ints that some of them pointed to at the entry. `hidden` is the address that
    was passed for the result, 0 if there was none.
    """

    __slots__ = ("before", "hidden", "taken")

    def __init__(self, taken: values.PassedArguments, before: dict[int, int], hidden: int) -> None:
        self.taken = taken
        self.hidden = hidden
        self.before = before


class Capturer:
    """Captures calls of one program. `string_limit` is in bytes."""

    __slots__ = ("_constants", "_convention", "_errno", "_limit", "_memory", "_stub")

    def __init__(
        self,
        stub: StoppedThread,
        memory: WordMemory,
        convention: Convention,
        errno: ErrnoPlace,
        string_limit: int,
    ) -> None:
        self._constants = Constants(convention.flags, convention.constants)
        self._errno = errno
        self._stub = stub
        self._memory = memory
        self._convention = convention
        self._limit = string_limit

    def entry(self, spec: CallSpec, sp: int) -> tuple[int, list[Item], Kept]:
        """Return the first word, the data items of the entry, and what the exit needs.

        `sp` is the stack pointer at the entry of the function.
        """
        function, result = spec.function, spec.result
        reader = values.Reader(self._stub, self._memory, self._convention, sp)
        taken = reader.taken
        hidden = reader.hidden() if self._has_hidden(result) else 0
        if isinstance(result, PassedRecord) and result.place == catalog.PLACE_MEMORY:
            taken.word(hidden)
        reader.take(spec.passed)
        for number, name in spec.flags.items():
            taken.words[number] = self._constants.meant(name, taken.words[number])
        run = _ProgramRun(self, taken, function.at_entry, {}, None, spec.pointees)
        for op in run.ops():
            if op[0] in _FORMATS:
                self._format(run, op, reader, spec.tail)
            elif op[0] == layout.OP_VA_SCANF:
                run.follow((layout.OP_STRING, *op[1:]))
            elif op[0] in _FOLLOWS:
                run.follow_planned(op)
            elif op[0] == layout.OP_ERRNO:
                value = self._errno.read().to_bytes(_INT, "little")
                run.items.append((DATA_BYTES, layout.ITEM_ERRNO, 0, value))
        items: list[Item] = []
        if len(taken.words) > 1:
            items.append((DATA_WORDS, 1, 0, _packed(taken.words[1:])))
        if taken.stack:
            items.append((DATA_STACK, 0, 0, _packed(taken.stack)))
        if taken.floats:
            items.append((DATA_FLOATS, 0, 0, b"".join(taken.floats)))
        before = self._before(taken, function.at_exit)
        return (taken.words or [0])[0], items + run.items, Kept(taken, before, hidden)

    def exit(self, spec: CallSpec, kept: Kept, result: int) -> list[Item]:
        """Return the data items of a return, whose first word is `result`."""
        kind, program = spec.result, spec.function.at_exit
        run = _ProgramRun(self, kept.taken, program, kept.before, result, spec.pointees)
        for op in run.ops():
            if op[0] == layout.OP_FLOAT:
                name = values.top_register(
                    self._stub, self._convention, self._convention.result_float
                )
                data = values.float_register(self._stub, self._convention, name)
                if kind == SINGLE:
                    data = values.as_single(data, self._convention)
                run.items.append((DATA_FLOATS, 0, 0, data))
            elif op[0] == layout.OP_RESULT and kind == LONGEST:
                number = values.long_double_result(
                    self._stub, self._memory, self._convention, kept.hidden
                )
                data = bytes(_X87_AT) + b"".join(each.to_bytes(8, "little") for each in number)
                run.items.append((DATA_BYTES, op[6], 0, data.ljust(op[4], b"\0")))
            elif isinstance(kind, PassedRecord) and op[6] == RESULT_ITEM:
                data = kind.as_kept(self._record(kind, kept))
                run.items.append((DATA_BYTES, RESULT_ITEM, 0, data))
            elif op[0] in _FOLLOWS:
                run.follow_planned(op)
        return run.items

    def _record(self, of: PassedRecord, kept: Kept | None) -> bytes:
        hidden = 0 if kept is None else kept.hidden
        return values.record_result(self._stub, self._memory, self._convention, of, hidden)

    def _has_hidden(self, result: Kind) -> bool:
        """Return whether the caller passes an address for the result."""
        if isinstance(result, PassedRecord):
            return result.has_hidden
        by_address = self._convention.long_double == LONG_DOUBLE_POINTER
        return result == LONGEST and by_address

    def result(self, kind: Kind, kept: Kept | None, *, is_signed: bool) -> int:
        """Return the result of a call as a word of 64 bits."""
        if isinstance(kind, PassedRecord):
            repacked = kind.plan.repacked(self._record(kind, kept))
            return int.from_bytes(repacked[:8], "little") if kind.place == catalog.PLACE_INT else 0
        convention, bits = self._convention, self._memory.coding.bits
        result = self._stub.get(convention.result)
        if kind == WIDE and convention.result_upper:
            return self._stub.get(convention.result_upper) << 32 | result
        if kind == WIDE and convention.result_lower:
            return result << 32 | self._stub.get(convention.result_lower)
        return values.extended(result, bits) if is_signed or kind == SIGNED else result

    def _before(self, taken: values.PassedArguments, program: bytes) -> dict[int, int]:
        """Return the ints that are lengths of memory to be filled in, by the words' numbers."""
        run = _ProgramRun(self, taken, program, {}, 0, NO_POINTEES)
        return {
            op[3]: run.int_at(run.word(op[3]))
            for op in run.ops()
            if op[0] == layout.OP_BYTES and op[2] == layout.LENGTH_AT
        }

    def _format(
        self, run: _ProgramRun, op: tuple[int, ...], reader: values.Reader, tail: str
    ) -> None:
        """Keep a format string and the arguments that it describes."""
        run.follow((layout.OP_STRING, *op[1:]))
        _, item, flags, text = run.items[-1]
        if flags & (DATA_NULL | DATA_UNREADABLE):
            return
        named, _ = formats.printf_arguments_of(text, tail)
        kinds = kinds_of_format(named, text)
        taken = reader.taken
        for number, (argument, kind) in enumerate(zip(named, kinds, strict=False), item + 1):
            before = len(taken.words), len(taken.stack)
            reader.take([kind], variadic=True)
            if argument[2] != formats.STRING:
                continue
            at_word = len(taken.words) > before[0]
            addr = taken.words[-1] if at_word else taken.stack[-1]
            run.items.append((DATA_STRING, number, *self.string(addr, self._limit)))

    # ---- memory ----

    def read(self, addr: int, size: int) -> bytes:
        """Return up to `size` bytes of memory."""
        return self._memory.read(addr, size)

    def string(self, addr: int, limit: int, most: int | None = None) -> tuple[int, bytes]:
        """Return flags and at most `limit` bytes of a string.

        With `most` the string need not end with 0.
        """
        if not addr:
            return DATA_NULL, b""
        data = b""
        wanted = limit + 1 if most is None else min(limit + 1, most)
        while len(data) < wanted:
            piece = self._memory.read(addr + len(data), min(_SINGLE_PAGE, wanted - len(data)))
            end = piece.find(b"\0")
            if end >= 0:
                return 0, data + piece[:end]
            if not piece:
                return (DATA_TRUNCATED if data else DATA_UNREADABLE), data
            data += piece
        if len(data) > limit:
            return DATA_TRUNCATED, data[:limit]
        return 0, data

    def wide_string(self, addr: int, limit: int, most: int | None = None) -> tuple[int, bytes]:
        """Return flags and bytes of a wide string in x86-64's order. Limits are in characters."""
        if not addr:
            return DATA_NULL, b""
        wanted = limit + 1 if most is None else min(limit + 1, most)
        data = self._memory.read(addr, _WIDE * min(wanted, _MOST // _WIDE))
        ends = range(0, len(data) - _WIDE + 1, _WIDE)
        end = next((at for at in ends if data[at : at + _WIDE] == bytes(_WIDE)), None)
        if end is None and not data:
            return DATA_UNREADABLE, b""
        text = data[: len(ends) * _WIDE if end is None else end]
        flags = DATA_TRUNCATED if len(text) > limit * _WIDE else 0
        if end is None and len(ends) < wanted:
            flags = DATA_TRUNCATED
        text = text[: limit * _WIDE]
        if self.order == "big":
            text = b"".join(text[at : at + _WIDE][::-1] for at in range(0, len(text), _WIDE))
        return flags, text

    @property
    def word_size(self) -> int:
        """The size of an address in bytes."""
        return self._memory.coding.word.size

    @property
    def order(self) -> Literal["little", "big"]:
        """The byte order of the memory."""
        return self._memory.coding.byteorder

    @property
    def limit(self) -> int:
        """The number of bytes kept of a string if the capture program sets no other limit."""
        return self._limit


class _ProgramRun:
    """One run of one capture program. `result` is None at an entry."""

    __slots__ = ("_before", "_capturer", "_pointees", "_program", "_result", "_taken", "items")

    def __init__(
        self,
        capturer: Capturer,
        taken: values.PassedArguments,
        program: bytes,
        before: dict[int, int],
        result: int | None,
        pointees: Pointees,
    ) -> None:
        self._pointees = pointees
        self._capturer = capturer
        self._taken = taken
        self._program = program
        self._before = before
        self._result = result
        self.items: list[Item] = []

    def ops(self) -> list[tuple[int, ...]]:
        """Return the ops whose conditions hold."""
        ops = []
        at, size = 0, layout.OP.size
        while at + size <= len(self._program):
            op = layout.OP.struct.unpack_from(self._program, at)
            at += size
            if op[0] == layout.OP_WHEN:
                ranges = [
                    layout.VALUES.struct.unpack_from(self._program, at + number * size)
                    for number in range(op[4])
                ]
                at += size * op[4]
                if not self._holds(op, ranges):
                    at += size * op[6]
                continue
            ops.append(op)
        return ops

    def _holds(self, op: tuple[int, ...], ranges: list[tuple[int, ...]]) -> bool:
        word = self.word(op[1])
        if word is None:
            return False
        if op[5] & layout.OP_INT_ARG:
            word &= 0xFFFF_FFFF
        if op[5] & layout.OP_ANY_BIT:
            return any(word & first for first, _ in ranges)
        return any(first <= word <= last for first, last in ranges)

    def word(self, arg: int) -> int | None:
        """Return the word that an op refers to, or None if it was not kept."""
        if arg == layout.ARG_RESULT:
            return self._result
        if arg >= layout.ARG_STACK:
            at = arg - layout.ARG_STACK
            return self._taken.stack[at] if at < len(self._taken.stack) else None
        return self._taken.words[arg] if arg < len(self._taken.words) else None

    def int_at(self, addr: int | None) -> int:
        """Return the int at an address, 0 if the memory cannot be read or the int is negative."""
        data = self._capturer.read(addr, 4) if addr else b""
        order = self._capturer.order
        return max(int.from_bytes(data, order, signed=True), 0)

    def _length(self, op: tuple[int, ...]) -> int | None:
        """Return the length of the memory that an op copies, or None if it is not known."""
        _, _, how, arg, _, flags, _ = op
        result = self._result or 0
        if flags & layout.OP_INT_RESULT:
            result &= 0xFFFF_FFFF
            result = 0 if result >> 31 else result
        elif result & _SIGN:
            result = 0
        if how == layout.LENGTH_LIMIT:
            return _WORD
        if how == layout.LENGTH_RESULT:
            return result
        first = self.word(arg)
        if first is None:
            return None
        length = first
        if flags & layout.OP_INT_LENGTH:
            length = first & 0xFFFF_FFFF
            length = 0 if length >> 31 else length
        if how == layout.LENGTH_ARG:
            return length
        if how == layout.LENGTH_PRODUCT:
            second = self.word(arg + 1)
            return None if second is None else first * second
        if how == layout.LENGTH_RESULT_PRODUCT:
            return first * result
        if how == layout.LENGTH_RESULT_ARG:
            return min(result, length)
        return min(self._before.get(arg, 0), self.int_at(first))

    def follow_planned(self, op: tuple[int, ...]) -> None:
        """Keep the memory that a word points to, if the layout of the memory is known."""
        plan = self._pointees.plan(op[6], self._taken)
        if plan is not None:
            self.follow(op, plan)

    def follow(self, op: tuple[int, ...], plan: Repacking = AS_IT_IS) -> None:
        """Keep the memory that a word points to, converted by `plan`."""
        code, arg, _, _, limit, flags, item = op
        limit = min(limit or self._capturer.limit, _MOST)
        kind = {layout.OP_STRING: DATA_STRING, layout.OP_WORD_AT: DATA_WORD_AT}.get(
            code, DATA_BYTES
        )
        addr = self.word(arg)
        length = self._length(op) if addr else 0
        if addr and flags & layout.OP_TEXT_AT:
            addr, length = self._text_at(addr, is_text=code == layout.OP_BYTES)
        if addr is None or length is None:
            self.items.append((kind, item, DATA_UNREADABLE, b""))
        elif not addr:
            self.items.append((kind, item, DATA_NULL, b""))
        elif kind == DATA_STRING:
            most = None if length == _WORD else length
            if flags & layout.OP_WCHAR:
                kept = self._capturer.wide_string(addr, limit, most)
            else:
                kept = self._capturer.string(addr, limit, most)
            self.items.append((kind, item, *kept))
        else:
            self.items.append((kind, item, *self._bytes(addr, length, limit, kind, plan)))

    def _text_at(self, addr: int, *, is_text: bool) -> tuple[int | None, int]:
        """Return the address and the length of a text. Both lie at `addr`."""
        capturer = self._capturer
        size = capturer.word_size
        data = capturer.read(addr, 2 * size if is_text else size)
        if len(data) < size:
            return None, 0
        order = capturer.order
        length = int.from_bytes(data[size:], order) if is_text else _WORD
        return int.from_bytes(data[:size], order) or None, length

    def _bytes(
        self, addr: int, length: int, limit: int, kind: int, plan: Repacking
    ) -> tuple[int, bytes]:
        if kind == DATA_WORD_AT:
            length = limit = 8
        wanted = plan.reads(min(length, limit))
        data = self._capturer.read(addr, wanted)
        flags = DATA_TRUNCATED if length > limit or len(data) < wanted else 0
        data = plan.repacked(data)
        if wanted and not data:
            flags = DATA_UNREADABLE
        return flags, data


def _packed(words: list[int]) -> bytes:
    return b"".join((word & _WORD).to_bytes(8, "little") for word in words)
