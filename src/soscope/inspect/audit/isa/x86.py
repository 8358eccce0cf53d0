# SPDX-License-Identifier: Apache-2.0
"""x86-64 and i386: the effects of instructions on the registers that pass arguments.

Intel's SDM: volume 2 for what they write, volume 1, chapter 13, for what fxsave and xsave save.
"""

from __future__ import annotations

import re
from array import array
from typing import Any

from soscope.binfmt.elf.reader import Header
from soscope.inspect.audit import machine as m
from soscope.inspect.audit.machine import Flow, Group, State, Value
from soscope.model.arch import EM_386

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Registers of x86-64 and i386, divided into parts that are saved or overwritten as a whole.
#
# psABI AMD64 ("Parameter Passing") and psABI i386 ("Registers") for argument registers; the bits of
# XCR0: Intel's SDM, volume 1, chapter 13.


def components(count: int) -> dict[int, frozenset[str]]:
    """Return bit of XCR0 -> its parts; `count` is the number of vector registers."""
    low = range(min(count, 16))
    components = {
        0: frozenset(("x87",)),
        1: frozenset(f"xmm{n}" for n in low),
        2: frozenset(f"ymm{n}" for n in low),
        3: frozenset(f"bnd{n}" for n in range(4)),
        5: frozenset(f"k{n}" for n in range(8)),
        6: frozenset(f"zmm{n}" for n in low),
        18: frozenset(("amx",)),
    }
    if count > 16:
        components[7] = frozenset(f"zmm{n}" for n in range(16, 32))
        components[19] = frozenset(f"r{n}" for n in range(16, 32))
    return components


def pieces(parts: frozenset[str]) -> list[tuple[str, int]]:
    """Return the parts of one register, each with its offset in memory."""
    places = {"x": 0, "y": 16, "z": 32}
    if len(parts) == 1:
        return [(part, 0) for part in parts]
    return [(part, places[part[0]]) for part in sorted(parts)]


def groups64() -> tuple[Group, ...]:
    """Return the argument registers of x86-64 in order, then other registers that may matter."""
    arguments = [Group(name, m.ARGUMENT, (name,)) for name in "rdi rsi rdx rcx r8 r9".split()]
    return (
        *arguments,
        Group("rax", m.VECTOR_COUNT, ("rax",)),
        Group("xmm0-7", m.ARGUMENT, tuple(f"xmm{n}" for n in range(8))),
        Group("ymm0-7 (high halves)", m.ARGUMENT, tuple(f"ymm{n}" for n in range(8)), "avx"),
        Group("zmm0-7 (high halves)", m.ARGUMENT, tuple(f"zmm{n}" for n in range(8)), "avx512"),
        Group("r10", m.STATIC_CHAIN, ("r10",)),
        Group("xmm8-15", m.EXTENDED, tuple(f"xmm{n}" for n in range(8, 16))),
        Group("k0-7", m.EXTENDED, tuple(f"k{n}" for n in range(8)), "avx512"),
        Group("zmm16-31", m.EXTENDED, tuple(f"zmm{n}" for n in range(16, 32)), "avx512"),
        Group("bnd0-3", m.EXTENDED, tuple(f"bnd{n}" for n in range(4)), "mpx"),
    )


def groups32() -> tuple[Group, ...]:
    """Return the argument registers of i386 in order."""
    arguments = [Group(name, m.REGPARM, (name,)) for name in "eax edx ecx".split()]
    return (
        *arguments,
        Group("xmm0-2", m.ARGUMENT, ("xmm0", "xmm1", "xmm2"), "sse"),
        Group("ymm0-2 (high halves)", m.ARGUMENT, ("ymm0", "ymm1", "ymm2"), "avx"),
        Group("zmm0-2 (high halves)", m.ARGUMENT, ("zmm0", "zmm1", "zmm2"), "avx512"),
        Group("mm0-2", m.ARGUMENT, ("x87",)),
    )


_NAMES64 = "rax rcx rdx rbx rsp rbp rsi rdi".split()
_X87 = frozenset("fpsw fpcw fptag".split())
_MOVES = frozenset(
    "movaps movups movapd movupd movdqa movdqu lddqu movntdqa movntps vmovaps vmovups vmovapd"
    " vmovupd vmovdqa vmovdqu vmovdqa32 vmovdqa64 vmovdqu8 vmovdqu16 vmovdqu32 vmovdqu64".split()
)
_SAVES = frozenset("xsave xsave64 xsavec xsavec64 xsaveopt xsaveopt64 xsaves xsaves64".split())
_RESTORES = frozenset("xrstor xrstor64 xrstors xrstors64".split())
_STOPS = frozenset(("ud2", "hlt", "int3"))
_RETURNS = frozenset(("ret", "retf", "iretd", "iretq"))
_BEFORE = 1 << 62  # not an offset: key for the old stack pointer, before it moved
_REG, _IMM, _MEM = 1, 2, 3  # capstone's operand types, equal for all architectures
# functions that return the address of the next instruction in a register: mov (%esp),%reg; ret
_THUNKS = {b"\x8b\x04\x24\xc3": "eax", b"\x8b\x1c\x24\xc3": "ebx", b"\x8b\x0c\x24\xc3": "ecx"}
_THUNKS |= {b"\x8b\x14\x24\xc3": "edx", b"\x8b\x34\x24\xc3": "esi", b"\x8b\x3c\x24\xc3": "edi"}
_THUNKS |= {b"\x8b\x2c\x24\xc3": "ebp"}
_POPS = re.compile(rb"\xc2[\x04-\x7c]\0", re.DOTALL)


_LEAVES_64 = re.compile(rb"\xff[\xe0-\xe7]")
_LEAVES_32 = re.compile(rb"\xff[\xe0-\xe7]|\xc2.\0", re.DOTALL)
_DESCRIPTORS_64 = re.compile(rb"\x8b[\x40\x48\x50\x58\x60\x68\x70\x78]\x08")
_DESCRIPTORS_32 = re.compile(rb"\x8b[\x40\x48\x50\x58\x60\x68\x70\x78]\x04")


def machine(header: Header) -> X86:
    """Return the instruction set of a file."""
    bits = header.encoding.bits
    return X86(32, 4) if header.machine == EM_386 else X86(64, bits // 8)


class X86(m.InstructionSet):
    """The instruction set of 64-bit x86 (with x32, whose `pointer` is 4) or of i386."""

    def __init__(self, bits: int, pointer: int) -> None:
        from capstone import CS_ARCH_X86, CS_MODE_32, CS_MODE_64, Cs

        self._decoder = Cs(CS_ARCH_X86, CS_MODE_64 if bits == 64 else CS_MODE_32)
        self._decoder.detail = True
        self._decoder.skipdata = True
        self.bits = bits
        self.pointer = pointer
        self.word = bits // 8
        self._parts: dict[str, frozenset[str]] = {}
        self._written: dict[bytes, frozenset[str]] = {}
        self._register_names: dict[int, str] = {}
        self.thunks: dict[int, str] = {}
        self._popping: dict[int, bytes] = {}
        self.below = 2 * self.word
        count = 32 if bits == 64 else 8
        self._components = components(count)
        vectors = [part for bit in (1, 2, 6, 7) for part in sorted(self._components.get(bit, ()))]
        rest = [*sorted(self._components[5]), "x87"]
        if bits == 64:
            self.stack, self.result = "rsp", "rax"
            self.leaves, self.descriptors = _LEAVES_64, _DESCRIPTORS_64
            general = "rax rcx rdx rsi rdi r8 r9 r10 r11".split()
            self.groups = groups64()
        else:
            self.stack, self.result = "esp", "eax"
            self.table_register = "ebx"
            self.leaves, self.descriptors = _LEAVES_32, _DESCRIPTORS_32
            general = "eax ecx edx".split()
            self.groups = groups32()
        self.scratch = frozenset([*general, *vectors, *rest, *self._components[3], "amx"])
        self.kept_by_tlsdesc = self._tlsdesc(general)

    def _tlsdesc(self, general: list[str]) -> tuple[Group, ...]:
        kept = tuple(part for part in general if part != self.result)
        groups = [Group(part, m.SCRATCH, (part,)) for part in kept]
        for name, bit, needs in (
            ("xmm0-{}", 1, "sse"),
            ("ymm0-{} (high halves)", 2, "avx"),
            ("zmm0-{} (high halves)", 6, "avx512"),
            ("zmm16-31", 7, "avx512"),
            ("k0-7", 5, "avx512"),
        ):
            parts = tuple(sorted(self._components.get(bit, ())))
            if parts:
                groups.append(Group(name.format(len(parts) - 1), m.SCRATCH, parts, needs))
        return (*groups, Group("x87", m.SCRATCH, ("x87",)))

    def all_parts(self) -> Iterable[str]:
        """Return the names of all register parts."""
        names = list(_NAMES64)
        if self.bits == 64:
            names += [f"r{n}" for n in range(8, 16)]
        else:
            names = ["e" + name[1:] for name in names]
        for parts in self._components.values():
            names += parts
        return names

    def instructions(self, code: bytes, vaddr: int) -> Iterable[Any]:
        """Decode code linearly."""
        return self._decoder.disasm(code, vaddr)  # type: ignore[no-any-return]  # has no types

    def is_padding(self, insn: Any) -> bool:
        """Return whether an instruction only serves alignment."""
        if insn.mnemonic == "nop":
            return True
        ops = insn.operands if insn.id and insn.mnemonic == "lea" else ()
        if not ops:
            return False
        memory = ops[1].mem
        return ops[0].reg == memory.base and not memory.index and not memory.disp

    # ---- registers ----

    def _named(self, name: str) -> frozenset[str]:
        """Return the parts for capstone's name of a register."""
        known = self._parts.get(name)
        if known is None:
            known = self._parts[name] = frozenset(self._find(name))
        return known

    def _find(self, name: str) -> Iterable[str]:
        for prefix, parts in (("zmm", "xyz"), ("ymm", "xy"), ("xmm", "x")):
            if name.startswith(prefix):
                number = int(name[3:])
                if number >= 16:
                    return [f"zmm{number}"]
                return [f"{part}mm{number}" for part in parts]
        if name.startswith(("st", "mm")) or name in _X87:
            return ["x87"]
        if name.startswith("tmm"):
            return ["amx"]
        if name[0] in "kb" and name[-1].isdigit():
            return [name]
        general = self._general(name)
        return [] if general is None else [general]

    def _general(self, name: str) -> str | None:
        """Return the whole register of which `name` is a part: rax for al, ax, eax."""
        head = "r" if self.bits == 64 else "e"
        if name[0] == "r" and name[1:2].isdigit():
            return name.rstrip("bwd")
        if name[0] in "re" and "r" + name[1:] in _NAMES64:
            return head + name[1:]
        if len(name) == 2 and name[1] in "lh" and name[0] in "abcd":
            return f"{head}{name[0]}x"
        short = name.removesuffix("l") if len(name) == 3 else name
        return head + short if "r" + short in _NAMES64 else None

    def _name(self, insn: Any, number: int) -> str:
        """Return capstone's name of a register."""
        known = self._register_names.get(number)
        if known is None:
            known = self._register_names[number] = str(insn.reg_name(number))
        return known

    def _reg(self, insn: Any, operand: Any) -> str:
        return self._name(insn, operand.reg)

    def writes(self, insn: Any) -> frozenset[str]:
        """Return the parts that an instruction overwrites."""
        key = bytes(insn.bytes)
        known = self._written.get(key)
        if known is None:
            known = self._written[key] = self._writes(insn)
        return known

    def writes_at(self, insn: Any, state: State) -> frozenset[str]:
        """Return the parts that an instruction overwrites; for xrstor they depend on a mask."""
        area = self._area(insn.mnemonic, state) if insn.mnemonic in _RESTORES else frozenset()
        return area or self.writes(insn)

    def _writes(self, insn: Any) -> frozenset[str]:
        if not insn.id:
            return frozenset()
        name = insn.mnemonic.rsplit(" ", 1)[-1]
        if name in _RESTORES:  # the mask tells which
            return frozenset().union(*self._components.values())
        if name.startswith("fxrstor"):
            return self._components[0] | self._components[1]
        if name == "vzeroupper":
            return self._components[2] | self._components[6]
        if name == "syscall":
            return frozenset(("rax", "rcx", "r11"))
        written: set[str] = set()
        for register in insn.regs_access()[1]:
            written |= self._named(self._name(insn, register))
        if name.startswith("v"):  # VEX and EVEX forms write the whole register
            for part in [part for part in written if part[1:3] == "mm" and part[0] in "xy"]:
                written |= {f"{kind}mm{part[3:]}" for kind in "xyz"}
        if name.startswith(("cmpxchg", "cpuid", "rdtsc", "xgetbv")):
            written |= {self.result}
        if name.startswith("cmpxchg") and insn.mnemonic.endswith(("8b", "16b")):
            written |= self._named("edx")
        if name[0] == "f" and not name.startswith(("fxsave", "fence")):
            written |= {"x87"}
        return frozenset(written)

    # ---- control flow ----

    def flow(self, insn: Any, state: State) -> Flow:
        """Return how an instruction goes on."""
        if not insn.id:
            return m.ONWARD
        name = insn.mnemonic.rsplit(" ", 1)[-1]  # without bnd and notrack
        if name in _STOPS:
            return Flow(m.STOP)
        if name in _RETURNS:
            ops = insn.operands
            extra = ops[0].imm if ops else 0
            return Flow(m.RETURN, extra, self._load(state, self._stack_key(state, 0)))
        is_call = name == "call"
        if not is_call and name != "jmp":
            if name[0] == "j" or name.startswith(("loop", "xbegin")):
                return Flow(m.BRANCH, insn.operands[0].imm)
            return m.ONWARD
        operand = insn.operands[0]
        if operand.type == _IMM:
            return Flow(m.CALL if is_call else m.JUMP, operand.imm)
        kind = m.CALL_TO if is_call else m.JUMP_TO
        if operand.type == _REG:
            return Flow(kind, None, state.regs.get(self._general(self._reg(insn, operand)) or ""))
        key, fixed = self._place(insn, operand, state)
        return Flow(kind, None, ("at", fixed) if fixed is not None else self._load(state, key))

    def call(self, insn: Any, state: State) -> None:
        """Apply the effect of a call that returns to `state`."""
        operand = insn.operands[0]
        if operand.type == _IMM and operand.imm in self.thunks:
            state.regs[self.thunks[operand.imm]] = ("num", insn.address + insn.size)
            return
        super().call(insn, state)
        if operand.type == _IMM:
            self._move_stack(state, self._pops(operand.imm))

    def learn(self, code: bytes, vaddr: int) -> None:
        """Record a function that only returns its return address, or that removes arguments."""
        register = _THUNKS.get(code[-4:]) if self.bits == 32 and len(code) <= 8 else None
        if register is not None:
            self.thunks[vaddr] = register
        elif self.bits == 32 and _POPS.search(code):
            self._popping[vaddr] = code

    def _pops(self, vaddr: int) -> int:
        """Return how many bytes of arguments a function removes from the stack when it returns."""
        code = self._popping.get(vaddr)
        if code is None:
            return 0
        for insn in self.instructions(code, vaddr):
            if insn.id and insn.mnemonic.endswith("ret") and insn.operands:
                return int(insn.operands[0].imm)
        return 0

    # ---- data movement ----

    def _stack_key(self, state: State, more: int) -> tuple[int, int] | None:
        value = state.regs.get(self.stack)
        if value is None or value[0] != "sp":
            return None
        return value[1], value[2] + more

    def _place(
        self, insn: Any, operand: Any, state: State
    ) -> tuple[tuple[int, int] | None, int | None]:
        """Return a memory operand's location: on the stack, at a link-time address, or neither."""
        memory = operand.mem
        if memory.segment:
            name = self._name(insn, memory.segment)
            if name in ("fs", "gs"):
                return None, None
        base = self._name(insn, memory.base) if memory.base else ""
        if memory.index:
            return None, None
        if base in ("rip", "eip"):
            return None, insn.address + insn.size + memory.disp
        if not base:
            return None, None
        value = state.regs.get(self._general(base) or "")
        if value is None:
            return None, None
        if value[0] == "sp":
            return (value[1], value[2] + memory.disp), None
        if value[0] == "num":
            return None, (value[1] + memory.disp) & (1 << 8 * self.pointer) - 1
        return None, None

    def _load(self, state: State, key: tuple[int, int] | None) -> Value:
        return None if key is None else state.memory.get(key)

    def _move_stack(self, state: State, by: int) -> None:
        value = state.regs.get(self.stack)
        if value is not None and value[0] == "sp":
            state.regs[self.stack] = ("sp", value[1], value[2] + by)

    def _is_stack(self, insn: Any, operand: Any) -> bool:
        return operand.type == _REG and self._general(self._reg(insn, operand)) == self.stack

    def _mask(self, state: State) -> int | None:
        """Return edx:eax, None unless both are known."""
        low, high = (state.regs.get(name) for name in self._pair())
        if low is None or high is None or low[0] != "num" or high[0] != "num":
            return None
        return int(low[1]) & 0xFFFFFFFF | (int(high[1]) & 0xFFFFFFFF) << 32

    def _pair(self) -> tuple[str, str]:
        return ("rax", "rdx") if self.bits == 64 else ("eax", "edx")

    def _area(self, name: str, state: State) -> frozenset[str]:
        """Return the parts that fxsave, xsave or their counterparts move."""
        if name.startswith("fx"):
            return self._components[0] | self._components[1]
        if name[0] == "f":
            return self._components[0]
        mask = self._mask(state)
        if mask is None:
            return frozenset()
        chosen = [parts for bit, parts in self._components.items() if mask >> bit & 1]
        return frozenset().union(*chosen)

    def step(self, insn: Any, state: State) -> None:
        """Apply the effect of an instruction to `state`."""
        if not insn.id:
            return
        name = insn.mnemonic
        ops = insn.operands
        for operand in ops:
            if operand.type == _MEM and operand.mem.segment:
                state.marks |= {self._name(insn, operand.mem.segment)}
        if name == "push":
            value = self._value(insn, ops[0], state)
            self._move_stack(state, -self.word)
            self._store(state, self._stack_key(state, 0), value)
        elif name == "pop":
            value = self._load(state, self._stack_key(state, 0))
            self._move_stack(state, self.word)
            self._assign(insn, ops[0], value, state)
        elif name in ("mov", "movabs"):
            self._mark_descriptor(insn, ops[1], state)
            self._assign(insn, ops[0], self._value(insn, ops[1], state), state)
        elif name == "lea":
            key, fixed = self._place(insn, ops[1], state)
            value = ("num", fixed) if fixed is not None else None
            self._assign(insn, ops[0], value if key is None else ("sp", *key), state)
        elif name in ("add", "sub") and ops[0].type == _REG:
            self._add(insn, state, 1 if name == "add" else -1)
        elif name == "xor" and ops[0].type == ops[1].type == _REG and ops[0].reg == ops[1].reg:
            self._assign(insn, ops[0], ("num", 0), state, whole=True)
        elif name == "and" and self._is_stack(insn, ops[0]):
            state.regs[self.stack] = ("sp", insn.address, 0)
            if ops[1].type == _IMM:
                state.marks |= {f"aligned {-ops[1].imm & 0xFFFF}"}
        elif name in ("rep movsb", "rep movsq"):
            self._copy(insn, state)
        elif name == "xchg":
            self._exchange(insn, state)
        elif name in _MOVES or name == "bndmov":
            self._move_vector(insn, state)
        elif name.startswith(("fxsave", "fnsave")) or name in _SAVES:
            key, _ = self._place(insn, ops[0], state)
            mask = None if name[0] == "f" else self._mask(state)
            how = name.removesuffix("64")
            state.marks |= {f"saved {how}" if mask is None else f"saved {how} {mask:#x}"}
            saved = {part: state.regs.get(part) for part in self._area(name, state)}
            self._store(state, key, ("parts", saved))
        elif name.startswith(("fxrstor", "frstor")) or name in _RESTORES:
            self._restore(insn, state)
        else:
            self._other(insn, state)

    def _other(self, insn: Any, state: State) -> None:
        """Apply an instruction that moves no whole value: forget everything that it writes."""
        state.forget(self.writes(insn) - {self.stack})
        for operand in insn.operands:
            if operand.type == _MEM and operand.access & 2:
                key, _ = self._place(insn, operand, state)
                if key is not None:
                    state.memory.pop(key, None)
        if self.stack in self.writes(insn):
            state.regs[self.stack] = None

    def _mark_descriptor(self, insn: Any, operand: Any, state: State) -> None:
        """Mark a load of the second word at %eax, by which code for TLS descriptors is known."""
        if operand.type == _MEM and operand.mem.base and operand.mem.disp in (self.pointer, 8):
            base = self._general(self._name(insn, operand.mem.base)) or ""
            if state.regs.get(base) == ("in", self.result):
                state.marks |= {"descriptor"}

    def _value(self, insn: Any, operand: Any, state: State) -> Value:
        if operand.type == _IMM:
            return ("num", operand.imm)
        if operand.type == _REG:
            name = self._reg(insn, operand)
            general = self._general(name)
            if general is None or operand.size < min(self.pointer, self.word):
                return None
            return state.regs.get(general)
        key, fixed = self._place(insn, operand, state)
        if fixed is not None:
            return ("at", fixed)
        return self._load(state, key)

    def _store(self, state: State, key: tuple[int, int] | None, value: Value) -> None:
        if key is not None:
            state.memory[key] = value

    def _assign(
        self, insn: Any, operand: Any, value: Value, state: State, *, whole: bool = False
    ) -> None:
        if operand.type == _MEM:
            key, _ = self._place(insn, operand, state)
            self._store(state, key, value)
            return
        general = self._general(self._reg(insn, operand))
        if general is None:
            state.forget(self.writes(insn))
            return
        if operand.size < self.word and not whole and value is not None:
            # a number or pointer fills the register; half of an entry value is not that value
            is_number = value[0] in ("num", "at") and operand.size >= 4
            is_pointer = value[0] in ("sp", "result") and operand.size >= self.pointer
            value = value if is_number or is_pointer else None
        state.regs[general] = value

    def _add(self, insn: Any, state: State, sign: int) -> None:
        ops = insn.operands
        general = self._general(self._reg(insn, ops[0]))
        old = state.regs.get(general or "")
        more = self._value(insn, ops[1], state)
        if general is None:
            return
        if old is None or old[0] not in ("sp", "num"):
            is_entry = old is None and ops[1].type == _REG and more is not None and more[0] == "num"
            state.regs[general] = ("table",) if is_entry else None
        elif more is not None and more[0] == "num":
            number = old[-1] + sign * more[1]
            if old[0] == "num":
                number &= (1 << 8 * self.pointer) - 1
            state.regs[general] = (*old[:-1], number)
        elif general == self.stack:
            state.regs[general] = ("sp", insn.address, 0)
            state.memory[insn.address, _BEFORE] = old
        else:
            state.regs[general] = ("table",) if old[0] == "num" and more is None else None

    def _copy(self, insn: Any, state: State) -> None:
        """Copy memory; if it fills the stack's last growth, %rdi ends at the old stack pointer."""
        place = state.regs.get("rdi")
        state.forget(self.writes(insn))
        if place is not None and place[0] == "sp" and not place[2]:
            state.regs["rdi"] = state.memory.get((place[1], _BEFORE))

    def _exchange(self, insn: Any, state: State) -> None:
        target, other = insn.operands
        first, second = self._value(insn, target, state), self._value(insn, other, state)
        self._assign(insn, target, second, state)
        self._assign(insn, other, first, state)

    def _move_vector(self, insn: Any, state: State) -> None:
        """Move a vector register to or from memory: its parts have 16, 16 and 32 bytes."""
        target, source = insn.operands
        if target.type == _MEM and source.type == _REG:
            key, _ = self._place(insn, target, state)
            for part, more in pieces(self._named(self._reg(insn, source))):
                if key is not None:
                    state.memory[key[0], key[1] + more] = state.regs.get(part)
        elif source.type == _MEM and target.type == _REG:
            key, _ = self._place(insn, source, state)
            state.forget(self.writes(insn))
            for part, more in pieces(self._named(self._reg(insn, target))):
                stored = None if key is None else state.memory.get((key[0], key[1] + more))
                state.regs[part] = stored
        else:
            state.forget(self.writes(insn))

    def _restore(self, insn: Any, state: State) -> None:
        key, _ = self._place(insn, insn.operands[0], state)
        area = self._load(state, key)
        saved = area[1] if area is not None and area[0] == "parts" else {}
        parts = self._area(insn.mnemonic, state) or self.writes(insn)
        for part in parts:
            state.regs[part] = saved.get(part)

    def stores(self, insn: Any, state: State) -> tuple[int, int, Value] | None:
        """Return (link-time address, size, value) of a store to a fixed address, else None."""
        if not insn.id or not insn.operands:
            return None
        target = insn.operands[0]
        if target.type != _MEM or not target.access & 2:
            return None
        _, fixed = self._place(insn, target, state)
        if fixed is None:
            return None
        is_move = insn.mnemonic == "mov"
        value = self._value(insn, insn.operands[1], state) if is_move else None
        return fixed, target.size, value

    def taken(self, insn: Any, state: State) -> int | None:
        """Return the link-time address that an instruction computes into a register, else None."""
        if not insn.id or insn.mnemonic != "lea":
            return None
        return self._place(insn, insn.operands[1], state)[1]

    def mentions(self, code: bytes, vaddr: int, table: int, low: int, high: int) -> set[int]:
        """Return the addresses from `low` to `high` whose distance may be in the code.

        With 32 bits, the distance counts from the global offset table at `table`.
        """
        mentions = set()
        for shift in range(4):
            words = array("i", code[shift : shift + (len(code) - shift) // 4 * 4])
            base = table if self.bits == 32 else vaddr + shift + 4
            step = 0 if self.bits == 32 else 4
            for index, distance in enumerate(words):
                if low <= base + index * step + distance < high:
                    mentions.add(base + index * step + distance)
        return mentions

    def keys(self, pointer: int) -> tuple[int, ...]:
        """Return the addresses with which `mentions` may refer to a pointer."""
        # a number of one or four bytes may follow the distance
        return (pointer,) if self.bits == 32 else (pointer, pointer - 1, pointer - 4)
