# SPDX-License-Identifier: Apache-2.0
"""aarch64: the effects of instructions on the registers that pass arguments.

AAPCS64 ("Parameter passing"). Functions that take scalable vectors are marked
STO_AARCH64_VARIANT_PCS, and no loader binds them lazily, so SVE's registers do not matter.
"""

from __future__ import annotations

import re
from array import array
from typing import Any

from soscope.binfmt.elf.reader import Header
from soscope.inspect.audit import machine as m
from soscope.inspect.audit.machine import Flow, Group, State, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_REG, _IMM, _MEM = 1, 2, 3
_BRANCHES = frozenset("cbz cbnz tbz tbnz".split())
_JUMP_TO = frozenset("br braa brab braaz brabz".split())
_CALL_TO = frozenset("blr blraa blrab blraaz blrabz".split())
_RETURNS = frozenset("ret retaa retab".split())
_STOPS = frozenset("brk udf hlt".split())
_LOADS = frozenset("ldr ldp ldur".split())
_STORES = frozenset("str stp stur".split())
_VECTORS = "bhsdqv"


_LEAVES = re.compile(rb"[\0-\xff]{2}\x1f\xd6")
_DESCRIPTORS = re.compile(rb"[\0-\x1f]\x04\x40\xf9")


def machine(header: Header) -> Arm64 | None:
    """Return the instruction set of a file, None if it is big-endian."""
    return Arm64() if header.encoding.order == "<" else None


class Arm64(m.InstructionSet):
    """The instruction set of little-endian aarch64."""

    def __init__(self) -> None:
        from capstone import CS_ARCH_ARM64, CS_MODE_ARM, Cs

        self._decoder = Cs(CS_ARCH_ARM64, CS_MODE_ARM)
        self._decoder.detail = True
        self._decoder.skipdata = True
        self._written: dict[bytes, frozenset[str]] = {}
        self._register_names: dict[int, str] = {}
        self.leaves, self.descriptors = _LEAVES, _DESCRIPTORS
        self.bits = 64
        self.stack, self.result = "sp", "x0"
        self.below = 16
        vectors = tuple(f"q{n}" for n in range(32))
        self.scratch = frozenset([*(f"x{n}" for n in range(19)), "x30", *vectors])
        self.groups = (
            *(Group(f"x{n}", m.ARGUMENT, (f"x{n}",)) for n in range(8)),
            Group("x8", m.RESULT_PLACE, ("x8",)),
            Group("q0-7", m.ARGUMENT, vectors[:8]),
            # AAPCS64 has no static chain; this one is gcc's
            Group("x18", m.STATIC_CHAIN, ("x18",)),
        )
        self.kept_by_tlsdesc = (
            *(Group(f"x{n}", m.SCRATCH, (f"x{n}",)) for n in range(1, 19)),
            Group("q0-31", m.SCRATCH, vectors),
        )

    def all_parts(self) -> Iterable[str]:
        """Return the names of all register parts."""
        return [*(f"x{n}" for n in range(31)), *(f"q{n}" for n in range(32))]

    def instructions(self, code: bytes, vaddr: int) -> Iterable[Any]:
        """Decode code linearly."""
        return self._decoder.disasm(code, vaddr)  # type: ignore[no-any-return]  # has no types

    def is_padding(self, insn: Any) -> bool:
        """Return whether an instruction only serves alignment."""
        return str(insn.mnemonic) == "nop"

    def _part(self, name: str) -> str:
        """Return the part for capstone's name of a register, "" if there is none."""
        if name == "fp":
            return "x29"
        if name == "lr":
            return "x30"
        if name in ("sp", "wsp"):
            return "sp"
        number = name[1:]
        if not number.isdigit():
            return ""
        if name[0] in "xw":
            return f"x{number}"
        return f"q{number}" if name[0] in _VECTORS else ""

    def _name(self, insn: Any, number: int) -> str:
        """Return capstone's name of a register."""
        known = self._register_names.get(number)
        if known is None:
            known = self._register_names[number] = str(insn.reg_name(number))
        return known

    def _reg(self, insn: Any, operand: Any) -> str:
        return self._part(self._name(insn, operand.reg))

    def writes(self, insn: Any) -> frozenset[str]:
        """Return the parts that an instruction overwrites."""
        key = bytes(insn.bytes)
        known = self._written.get(key)
        if known is None:
            numbers = insn.regs_access()[1] if insn.id else ()
            parts = {self._part(self._name(insn, number)) for number in numbers}
            if insn.id and insn.mnemonic.startswith("ld"):
                # capstone omits the registers that some forms load
                last = insn.operands[-1]
                if last.type == _MEM:
                    parts |= {
                        self._reg(insn, operand)
                        for operand in insn.operands
                        if operand.type == _REG
                    }
            known = self._written[key] = frozenset(parts - {""})
        return known

    def flow(self, insn: Any, state: State) -> Flow:
        """Return how an instruction goes on."""
        name = insn.mnemonic
        if name in ("b", "bl"):
            target = insn.operands[0].imm
            return Flow(m.JUMP if name == "b" else m.CALL, target)
        if name in _BRANCHES or name.startswith("b."):
            return Flow(m.BRANCH, insn.operands[-1].imm)
        if name in _JUMP_TO or name in _CALL_TO:
            kind = m.JUMP_TO if name in _JUMP_TO else m.CALL_TO
            return Flow(kind, None, state.regs.get(self._reg(insn, insn.operands[0])))
        if name in _RETURNS:
            return Flow(m.RETURN, 0, state.regs.get("x30"))
        return Flow(m.STOP) if name in _STOPS else m.ONWARD

    def step(self, insn: Any, state: State) -> None:
        """Apply the effect of an instruction to `state`."""
        if not insn.id:
            return
        name = insn.mnemonic
        ops = insn.operands
        if name in _LOADS or name in _STORES:
            self._transfer(insn, state, is_load=name in _LOADS)
        elif name == "mov" and len(ops) == 2 and ops[1].type in (_REG, _IMM):
            is_whole = self._name(insn, ops[0].reg)[0] != "w"
            value: Value = ("num", ops[1].imm) if ops[1].type == _IMM else None
            if ops[1].type == _REG and is_whole:
                value = state.regs.get(self._reg(insn, ops[1]))
            self._set(state, self._reg(insn, ops[0]), value)
        elif name in ("adr", "adrp"):
            self._set(state, self._reg(insn, ops[0]), ("num", ops[1].imm))
        elif name in ("add", "sub") and len(ops) == 3 and ops[2].type == _IMM:
            old = state.regs.get(self._reg(insn, ops[1]))
            more = ops[2].imm << ops[2].shift.value
            value = None
            if old is not None and old[0] in ("sp", "num"):
                value = (*old[:-1], old[-1] + (more if name == "add" else -more))
            self._set(state, self._reg(insn, ops[0]), value)
        elif name == "add" and len(ops) == 3 and ops[2].type == _REG:
            first, other = (state.regs.get(self._reg(insn, operand)) for operand in ops[1:])
            is_entry = first is not None and first[0] == "num" and other is None
            self._set(state, self._reg(insn, ops[0]), ("table",) if is_entry else None)
        elif name == "and" and self._reg(insn, ops[0]) == "sp":
            state.regs["sp"] = ("sp", insn.address, 0)
        elif name == "mrs":
            if "tpidr_el0" in insn.op_str:
                state.marks |= {"fs"}
            state.forget(self.writes(insn))
        else:
            self._other(insn, state)

    def _set(self, state: State, part: str, value: Value) -> None:
        if part:
            state.regs[part] = value

    def _other(self, insn: Any, state: State) -> None:
        for part in self.writes(insn):
            state.regs[part] = None

    def _transfer(self, insn: Any, state: State, *, is_load: bool) -> None:
        """Load or store one or two registers, with or without writing the address back."""
        ops = insn.operands
        place = next((at for at, op in enumerate(ops) if op.type == _MEM), None)
        if place is None:  # relative to the instruction
            self._other(insn, state)
            return
        memory = ops[place].mem
        base = self._part(self._name(insn, memory.base))
        value = state.regs.get(base)
        behind = ops[place + 1].imm if place + 1 < len(ops) and ops[place + 1].type == _IMM else 0
        moved = value
        if value is not None and value[0] in ("sp", "num"):
            moved = (*value[:-1], value[-1] + memory.disp)
        self._mark_descriptor(value, memory, state, is_load=is_load)
        at = None if memory.index else moved
        width = 0
        for operand in ops[:place]:
            name = self._name(insn, operand.reg)
            part = self._part(name)
            size = {"q": 16, "x": 8, "d": 8, "w": 4, "s": 4}.get(name[:1], 8)
            if is_load:
                loaded = self._load(state, at, width) if size in (8, 16) else None
                self._set(state, part, loaded)
            else:
                self._store(state, at, width, state.regs.get(part) if size in (8, 16) else None)
            width += size
        if insn.writeback:
            after = moved
            if behind and value is not None and value[0] in ("sp", "num"):
                after = (*value[:-1], value[-1] + behind)
            self._set(state, base, after)

    def _mark_descriptor(self, value: Value, memory: Any, state: State, *, is_load: bool) -> None:
        if is_load and value == ("in", "x0") and memory.disp == 8:
            state.marks |= {"descriptor"}

    def _load(self, state: State, at: Value, more: int) -> Value:
        if at is None:
            return None
        if at[0] == "sp":
            return state.memory.get((at[1], at[2] + more))
        return ("at", at[1] + more) if at[0] == "num" else None

    def _store(self, state: State, at: Value, more: int, value: Value) -> None:
        if at is not None and at[0] == "sp":
            state.memory[at[1], at[2] + more] = value

    def stores(self, insn: Any, state: State) -> tuple[int, int, Value] | None:
        """Return (link-time address, size, value) of a store to a fixed address, else None."""
        if not insn.id or not insn.mnemonic.startswith("st"):
            return None
        ops = insn.operands
        place = next((op for op in ops if op.type == _MEM), None)
        if place is None or place.mem.index:
            return None
        value = state.regs.get(self._part(self._name(insn, place.mem.base)))
        if value is None or value[0] != "num":
            return None
        stored = state.regs.get(self._reg(insn, ops[0])) if insn.mnemonic[:3] != "stp" else None
        return value[1] + place.mem.disp, 16, stored

    def taken(self, insn: Any, state: State) -> int | None:
        """Return the link-time address that an instruction computes into a register, else None."""
        if not insn.id or insn.mnemonic not in ("adr", "add"):
            return None
        after = State({part: state.regs.get(part) for part in self.all_parts()})
        self.step(insn, after)
        value = after.regs.get(self._reg(insn, insn.operands[0]))
        return int(value[1]) if value is not None and value[0] == "num" else None

    def mentions(self, code: bytes, vaddr: int, table: int, low: int, high: int) -> set[int]:
        """Return the pages from `low` to `high` whose address the code computes (adrp)."""
        mentions = set()
        for index, word in enumerate(array("I", code[: len(code) // 4 * 4])):
            if word & 0x9F000000 != 0x90000000:
                continue
            number = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
            if number >> 20:
                number -= 1 << 21
            page = ((vaddr + 4 * index >> 12) + number) << 12
            if low >> 12 << 12 <= page < high:
                mentions.add(page)
        return mentions

    def keys(self, pointer: int) -> tuple[int, ...]:
        """Return the addresses with which `mentions` may refer to a pointer."""
        return (pointer >> 12 << 12,)
