# SPDX-License-Identifier: Apache-2.0
"""SEC_FUNCTIONS reads back as the agent reads it."""

from __future__ import annotations

import pytest

from soscope.prototypes import load, table
from soscope.prototypes.catalog import TREATMENT_FAMILIES, Prototypes
from soscope.select.patterns import Automaton, compile_glob, pack_patterns
from soscope.wire import layout


class Walker:
    """Looks names up as the agent's lookup does: from bytes alone."""

    def __init__(self, section: bytes, patterns: list[Automaton]) -> None:
        self.section = section
        self.patterns = patterns
        head = layout.FUNCTION_TABLE.struct.unpack_from(section)
        self.bits, self.cells, self.globs, self.glob_count, self.default = head[:5]

    def find(self, name: str) -> dict[str, int]:
        encoded = name.encode()
        wanted, mask = table.gnu_hash(encoded), (1 << self.bits) - 1
        index = (wanted >> 4) & mask
        while True:
            cell = self.function(self.cells + index * layout.FUNCTION.size)
            if not cell["name"]:
                break
            end = self.section.index(b"\0", cell["name"])
            if cell["hash"] == wanted and self.section[cell["name"] : end] == encoded:
                return cell
            index = (index + 1) & mask
        found = self.function(self.default)
        for number in range(self.glob_count):
            at = self.globs + number * layout.FUNCTION_GLOB.size
            pattern, flags = layout.FUNCTION_GLOB.struct.unpack_from(self.section, at)
            if self.patterns[pattern].matches(encoded):
                found["flags"] |= flags
                break
        return found

    def function(self, at: int) -> dict[str, int]:
        fields = layout.FUNCTION.fields
        return dict(zip(fields, layout.FUNCTION.struct.unpack_from(self.section, at), strict=True))

    def program(self, at: int) -> list[tuple[int, ...]]:
        ops: list[tuple[int, ...]] = []
        assert at % 8 == 0
        while True:
            op = layout.OP.struct.unpack_from(self.section, at)
            if op[0] == layout.OP_END:
                return ops
            ops.append(op)
            ranges = op[4] if op[0] == layout.OP_WHEN else 0
            at += layout.OP.size * (1 + ranges)


@pytest.fixture(scope="module")
def prototypes() -> Prototypes:
    return load()


def walker(prototypes: Prototypes, *, entry_only: bool = False, arguments: bool = True) -> Walker:
    patterns = [compile_glob("some*"), compile_glob("pattern")]
    section = prototypes.function_table(patterns, entry_only=entry_only, want_arguments=arguments)
    pack_patterns(patterns)
    return Walker(section, patterns)


def test_the_hash_is_that_of_dt_gnu_hash() -> None:
    # Values of the generic ABI's own examples.
    assert table.gnu_hash(b"") == 0x1505
    assert table.gnu_hash(b"printf") == 0x156B2BB8
    assert table.gnu_hash(b"exit") == 0x7C967E3F
    assert table.gnu_hash(b"syscall") == 0xBAC212A0


def test_a_string_function(prototypes: Prototypes) -> None:
    found = walker(prototypes)
    cell = found.find("strlen")
    assert cell["flags"] & ~layout.FN_FAMILY == layout.FN_PROGRAM | layout.FN_BRIEF
    assert found.program(cell["entry_program"]) == [
        (layout.OP_STRING, 0, 0, 0, 0, layout.OP_IS_READ, 0)
    ]
    assert cell["exit_program"] == cell["exit_words"] == 0
    assert cell["error_rule"] == layout.ERROR_NONE


def test_a_function_that_fills_in(prototypes: Prototypes) -> None:
    found = walker(prototypes)
    cell = found.find("read")
    assert cell["flags"] & ~layout.FN_FAMILY == layout.FN_PROGRAM | layout.FN_EXIT_PROGRAM
    assert cell["error_rule"] == layout.ERROR_LONG_NEGATIVE
    assert cell["exit_words"] == 1
    assert found.program(cell["exit_program"]) == [
        (layout.OP_BYTES, 1, layout.LENGTH_RESULT, 0, 0, 0, 1)
    ]


def test_aliases_share_a_prototype(prototypes: Prototypes) -> None:
    found = walker(prototypes)
    numbers = {found.find(name)["prototype"] for name in ("open", "open64", "__open64")}
    assert len(numbers) == 1
    assert numbers != {layout.NONE}


def test_an_unknown_function_keeps_words(prototypes: Prototypes) -> None:
    cell = walker(prototypes).find("frobnicate")
    assert cell["flags"] & ~layout.FN_FAMILY == layout.FN_SIX
    assert cell["prototype"] == layout.NONE
    assert cell["error_rule"] == layout.ERROR_NONE


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("dlopen", layout.FN_ENTRY_ONLY),
        ("dlsym", layout.FN_ENTRY_ONLY),
        ("dl_iterate_phdr", layout.FN_ENTRY_ONLY),
        ("longjmp", layout.FN_ENTRY_ONLY),
        ("__longjmp_chk", layout.FN_ENTRY_ONLY),
        ("exit", layout.FN_ENTRY_ONLY),
        ("__assert_fail", layout.FN_ENTRY_ONLY),
        ("__stack_chk_fail", layout.FN_ENTRY_ONLY),
        ("__vprintf_chk_fail", layout.FN_ENTRY_ONLY),
        ("_Unwind_Resume", layout.FN_ENTRY_ONLY),
        ("__cxa_throw", layout.FN_ENTRY_ONLY),
        ("_ZSt20__throw_length_errorPKc", layout.FN_ENTRY_ONLY),
        ("clone", layout.FN_ENTRY_ONLY),
        ("syscall", layout.FN_ENTRY_ONLY),
        ("__libc_start_main", layout.FN_ENTRY_ONLY),
        ("__tls_get_addr", layout.FN_ENTRY_ONLY),
        ("__asan_report_load8", layout.FN_ENTRY_ONLY),
        ("__sanitizer_print_stack_trace", layout.FN_ENTRY_ONLY),
        ("__sanitizer_cov_trace_pc_guard", layout.FN_NEVER),
        ("mcount", layout.FN_NEVER),
        ("__fentry__", layout.FN_NEVER),
        ("__cyg_profile_func_enter", layout.FN_NEVER),
        ("__morestack_non_split", layout.FN_NEVER),
        ("setjmp", layout.FN_TWICE),
        ("__sigsetjmp", layout.FN_TWICE),
        ("getcontext", layout.FN_TWICE),
        ("vfork", layout.FN_TWICE),
        ("execve", 0),
        ("fork", 0),
        ("dladdr", 0),
        ("_ZSt4cout", 0),
        ("__cxa_begin_catch", 0),
    ],
)
@pytest.mark.parametrize("arguments", [False, True])
def test_special_functions(prototypes: Prototypes, name: str, flag: int, arguments: bool) -> None:
    special = layout.FN_ENTRY_ONLY | layout.FN_NEVER | layout.FN_TWICE
    assert walker(prototypes, arguments=arguments).find(name)["flags"] & special == flag


def test_nothing_is_kept_for_counts(prototypes: Prototypes) -> None:
    found = walker(prototypes, arguments=False)
    cell = found.find("read")
    assert cell["flags"] & ~layout.FN_FAMILY == cell["entry_program"] == cell["exit_program"] == 0
    assert cell["error_rule"] == layout.ERROR_LONG_NEGATIVE
    assert found.find("frobnicate")["flags"] == 0


def test_nothing_is_asked_at_returns_that_are_not_seen(prototypes: Prototypes) -> None:
    found = walker(prototypes, entry_only=True)
    assert found.find("read")["flags"] & ~layout.FN_FAMILY == layout.FN_SIX
    assert found.find("read")["exit_words"] == 0
    everything = walker(prototypes)
    for name in ("dlsym", "exit", "__cxa_demangle"):
        cell = everything.find(name)
        if cell["flags"] & layout.FN_ENTRY_ONLY:
            assert not cell["flags"] & layout.FN_EXIT_PROGRAM
            assert cell["exit_program"] == 0


def test_the_globs_follow_the_patterns_of_the_run(prototypes: Prototypes) -> None:
    patterns = [compile_glob("some*")]
    section = prototypes.function_table(patterns, entry_only=False, want_arguments=True)
    found = Walker(section, patterns)
    numbers = [
        layout.FUNCTION_GLOB.struct.unpack_from(section, found.globs + 4 * number)[0]
        for number in range(found.glob_count)
    ]
    assert numbers == list(range(1, 1 + found.glob_count))
    assert len(patterns) == 1 + found.glob_count + len(TREATMENT_FAMILIES)


def test_every_cell_can_be_found_and_every_program_is_sound(prototypes: Prototypes) -> None:
    found = walker(prototypes)
    known = 0
    for index in range(1 << found.bits):
        cell = found.function(found.cells + index * layout.FUNCTION.size)
        if not cell["name"]:
            continue
        known += 1
        name = found.section[cell["name"] : found.section.index(b"\0", cell["name"])].decode()
        assert found.find(name) == cell
        assert bool(cell["entry_program"]) == bool(cell["flags"] & layout.FN_PROGRAM)
        assert bool(cell["exit_program"]) == bool(cell["flags"] & layout.FN_EXIT_PROGRAM)
        assert not (cell["flags"] & layout.FN_SIX and cell["flags"] & layout.FN_PROGRAM)
        assert cell["exit_words"] <= 6
        if cell["entry_program"]:
            entry = found.program(cell["entry_program"])
            assert entry
            plain = [op for op in entry if op[0] != layout.OP_WHEN]
            places = range(layout.ARG_STACK, layout.ARG_STACK_END)
            assert all(op[1] <= 8 or op[1] in places for op in plain)
            of_call = (layout.ITEM_ERRNO, layout.ITEM_VALUES, layout.ITEM_VECTORS)
            assert all(op[6] < 16 or op[6] in of_call for op in plain)
    assert known >= 220
    assert known * 4 <= 3 << found.bits


def test_treatments_are_those_of_the_table() -> None:
    known = load()
    patterns: list[Automaton] = []
    section = known.function_table(patterns, entry_only=False, want_arguments=False)
    walker = Walker(section, patterns)
    names = ["setjmp", "vfork", "dlopen", "mcount", "strlen", "malloc", "nobody", "", "é"]
    names += ["__sanitizer_cov_trace_pc", "_Unwind_Resume", "__libc_dlopen_mode", "\udcff"]
    for name in names:
        flags = walker.find(name)["flags"] if name != "\udcff" else 0
        assert known.treatment(name) == flags & ~layout.FN_FAMILY, name
    assert known.treatment("setjmp") == known.treatment("vfork") == layout.FN_TWICE
    assert known.treatment("__sanitizer_cov_trace_pc") == layout.FN_NEVER
