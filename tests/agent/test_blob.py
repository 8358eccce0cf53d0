# SPDX-License-Identifier: Apache-2.0
"""What the linked agent must be, to be mapped by hand into any process.

No import, no relocation, no initialised variable, no vector register; an unwind rule for
every instruction; trampolines that lead to their data from wherever they are mapped.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import NamedTuple

import pytest

from soscope.entry.agent.install import Blob, agent_path
from soscope.wire import layout
from tests.agent import hosted
from tests.support.machines.tools import need

AGENT = Path(agent_path())
EXPORTS = {
    "soscope_agent_hook",
    "soscope_agent_load",
    "soscope_agent_objects",
    "soscope_agent_program",
    "soscope_agent_unload",
    "soscope_agent_rest",
    "soscope_agent_start",
    "soscope_agent_tally",
    "sosc_loader_event",
    "sosc_trap",
    "sosc_entry_page",
    "sosc_site_page",
    "sosc_counter_page",
}
# 64-bit general registers and their parts, the program counter; fs and gs are not loaded
GENERAL = re.compile(
    r"%(?:[re]?(?:[abcd]x|[sd]i|[sb]p|ip)|[abcd][lh]|[sd]il|[sb]pl|r(?:[89]|1[0-5])[dwb]?|[cdefgs]s)$"
)
# What instructions may do with more than those, and where each stands: arguments are captured, and
# an interpreter's functions are called in the middle of a call.
STATE = ["fxrstor64", "fxsave64", "fxsave64", "xrstor64", "xsave64"]
# Arguments that are vectors are stored, each register once for each size.
STORES = re.compile(r"v?movups %[xyz]mm[0-7],[^%]*\(%r\w+\)$")
ENTRY, SITE, COUNTER = 16, 32, 128
SITES_PER_PAGE = layout.PAGE // SITE


class Section(NamedTuple):
    """A line of readelf -S."""

    name: str
    type: str
    addr: int
    offset: int
    size: int
    flags: str


def readelf(*words: str) -> str:
    return hosted.output(need("readelf"), "-W", *words, AGENT)


def sections() -> dict[str, Section]:
    line = re.compile(
        r"^ +\[ *\d+\] (\S+) +(\S+) +([0-9a-f]{16}) ([0-9a-f]+) ([0-9a-f]+)"
        r" [0-9a-f]{2} +([A-Za-z]*) ",
        re.MULTILINE,
    )
    found = {}
    for name, kind, addr, offset, size, flags in line.findall(readelf("-S")):
        found[name] = Section(name, kind, int(addr, 16), int(offset, 16), int(size, 16), flags)
    assert ".text" in found
    return found


def segments() -> list[tuple[str, int, int, str]]:
    """Return type, vaddr, memsz and flags of each program header."""
    line = re.compile(
        r"^  ([A-Z_]+) +0x[0-9a-f]+ 0x([0-9a-f]+) 0x[0-9a-f]+ 0x[0-9a-f]+"
        r" 0x([0-9a-f]+) ([RWE ]{3}) ",
        re.MULTILINE,
    )
    found = [
        (kind, int(at, 16), int(size, 16), flags)
        for kind, at, size, flags in line.findall(readelf("-l"))
    ]
    assert found
    return found


def symbols() -> dict[str, int]:
    """Return the addresses of all symbols, local ones too."""
    rows = [line.split() for line in readelf("-s").splitlines()]
    return {row[7]: int(row[1], 16) for row in rows if len(row) == 8 and row[0][:-1].isdigit()}


def instructions() -> list[tuple[int, int, str]]:
    """Return vaddr, length and text of every instruction."""
    shown = hosted.output(need("objdump"), "-dw", "-z", "--insn-width=16", AGENT)
    found = re.findall(r"^ *([0-9a-f]+):\t((?:[0-9a-f]{2} )+) *\t(.*)$", shown, re.MULTILINE)
    assert len(found) > 3000
    return [(int(at, 16), len(raw) // 3, text.split("#")[0].strip()) for at, raw, text in found]


def test_it_imports_nothing() -> None:
    rows = [line.split() for line in readelf("-s", "--dyn-syms").splitlines()]
    undefined = [row for row in rows if len(row) > 6 and row[6] == "UND" and row[0] != "0:"]
    assert not undefined
    assert "(NEEDED)" not in readelf("-d")


def test_it_exports_what_soscope_looks_up() -> None:
    rows = [line.split() for line in readelf("--dyn-syms").splitlines()]
    names = [row[7] for row in rows if len(row) == 8 and row[0] not in {"Num:", "0:"}]
    assert sorted(names) == sorted(EXPORTS)


def test_it_needs_no_relocation() -> None:
    assert "There are no relocations" in readelf("-r")
    assert not [name for name in sections() if name.startswith((".rel", ".plt"))]
    # DT_INIT is the way in as a preloaded library
    tags = set(re.findall(r"\((REL|RELA|RELR|JMPREL|TEXTREL|\w+_ARRAY|FINI)\)", readelf("-d")))
    assert not tags


def test_it_has_no_initialised_variable_and_no_thread_local_one() -> None:
    writable = [s for s in sections().values() if "W" in s.flags and s.size]
    assert {s.name for s in writable if s.type != "NOBITS"} <= {".dynamic"}
    assert not [s.name for s in sections().values() if "T" in s.flags]
    kinds = [kind for kind, *_ in segments()]
    assert "TLS" not in kinds
    assert "INTERP" not in kinds


def test_no_segment_is_writable_and_executable() -> None:
    assert not [row for row in segments() if "W" in row[3] and "E" in row[3]]
    loads = [row for row in segments() if row[0] == "LOAD"]
    code = [row for row in loads if "E" in row[3]]
    assert len(code) == 1
    assert code[0][1] == 0  # mapped from the file's start
    assert code[0][2] <= layout.BLOB_TEXT_MAX


def test_parts_lie_where_the_launcher_maps_them() -> None:
    found = sections()
    data = layout.BLOB_ENTRIES + layout.BLOB_DISTANCE
    assert found[".entries"][2:5:2] == (layout.BLOB_ENTRIES, layout.MAX_SLOTS * ENTRY)
    assert found[".sites"][2:5:2] == (layout.BLOB_SITES, layout.MAX_SITES * SITE)
    assert found[".cells"][2:5:2] == (data, layout.MAX_SLOTS * ENTRY)
    assert found[".sitedata"].addr == layout.BLOB_SITES + layout.BLOB_DISTANCE
    for name, start in ((".counters", 0), (".counterdata", layout.BLOB_DISTANCE)):
        where = layout.BLOB_COUNTERS + start
        assert found[name][2:5:2] == (where, layout.MAX_COUNTERS * COUNTER)
    assert found[".bss"].addr == layout.BLOB_DATA
    assert found[".bss"].addr + found[".bss"].size <= layout.BLOB_SIZE


def test_it_uses_general_registers_alone() -> None:
    odd = []
    for at, _, text in instructions():
        registers = re.findall(r"%[a-z0-9]+(?:\([0-9]\))?", text)
        if STORES.match(text):
            continue
        if any(not GENERAL.match(register) for register in registers):
            odd.append(f"{at:x}: {text}")
    assert not odd


def test_no_instruction_touches_vector_or_floating_point_state() -> None:
    # without an operand to tell: f… of the x87, v… and p… of the vector units
    allowed = {*STATE} | {"pop", "push", "pushq", "popq", "pause", "prefetchw"}
    odd = {
        text.split()[0]
        for _, _, text in instructions()
        if re.match(r"(f|v|emms|ldmxcsr|stmxcsr|xsave|xrstor|p(?!ush|op|ause))", text)
        and text.split()[0] not in allowed
        and not STORES.match(text)
    }
    assert not odd
    stores = [text.split()[1][:5] for _, _, text in instructions() if STORES.match(text)]
    assert sorted(stores) == [f"%{of}mm{number}" for of in "xyz" for number in range(8)]
    assert (
        sorted(text.split()[0] for _, _, text in instructions() if text.split()[0] in STATE)
        == STATE
    )


def test_system_calls_are_raw() -> None:
    texts = [text for _, _, text in instructions()]
    assert "syscall" in texts
    assert not [text for text in texts if text.startswith(("int ", "sysenter", "lcall"))]
    # nothing is called through a table that the loader would have to fill in
    assert not [text for text in texts if re.match(r"(call|jmp) +\*0x[0-9a-f]+$", text)]


def test_every_function_that_is_jumped_to_begins_with_endbr64() -> None:
    # handlers and exits are reached by jmp *(memory)
    at = {vaddr: text for vaddr, _, text in instructions()}
    reached = {
        name: vaddr
        for name, vaddr in symbols().items()
        if re.match(r"sosc_([hx]_\w+|loader_event|entry_page|site_page|counter_page)$", name)
    }
    assert len(reached) > 15
    assert not [name for name, vaddr in reached.items() if at[vaddr] != "endbr64"]


def frames() -> list[tuple[int, int]]:
    """Return the ranges that have an unwind rule."""
    shown = readelf("--debug-dump=frames")
    found = re.findall(r" FDE .* pc=([0-9a-f]+)\.\.([0-9a-f]+)$", shown, re.MULTILINE)
    return sorted((int(low, 16), int(high, 16)) for low, high in found)


def test_every_instruction_has_an_unwind_rule() -> None:
    ranges = frames()
    text = sections()[".text"]
    padding = {"int3", "nop", "xchg"}
    naked = []
    for at, length, said in instructions():
        if not text.addr <= at < text.addr + text.size:
            continue
        if not any(low <= at and at + length <= high for low, high in ranges):
            word = said.split()[0]
            if word not in padding and not re.search(r"\bnop[wl]?\b|^(data16|cs)\b", said):
                naked.append(f"{at:x}: {said}")
    assert not naked
    for name in (".entries", ".sites", ".counters"):
        section = sections()[name]
        assert (section.addr, section.addr + section.size) in ranges


def test_the_table_that_unwinders_search_has_every_rule() -> None:
    data = AGENT.read_bytes()
    section = sections()[".eh_frame_hdr"]
    version, frame, count, table = data[section.offset : section.offset + 4]
    # what libgcc and LLVM's libunwind search: udata4 count, sdata4 from the header
    assert (version, frame, count, table) == (1, 0x1B, 0x03, 0x3B)
    (entries,) = struct.unpack_from("<I", data, section.offset + 8)
    rows = list(struct.iter_unpack("<ii", data[section.offset + 12 :][: 8 * entries]))
    assert rows == sorted(rows)
    assert [section.addr + start for start, _ in rows] == [low for low, _ in frames()]
    kinds = {kind: (at, size) for kind, at, size, _ in segments()}
    assert kinds["GNU_EH_FRAME"] == (section.addr, section.size)
    assert section.size >= 12 + 8 * entries


def test_the_rules_of_the_trampolines() -> None:
    # The entry trampolines' is that of a function's first instruction; the return
    # trampolines' is an expression: see arch_x86_64.S
    shown = readelf("--debug-dump=frames")
    blocks = re.split(r"\n\n", shown)
    sites = next(block for block in blocks if f"pc={layout.BLOB_SITES:016x}" in block)
    assert "DW_CFA_def_cfa_expression" in sites
    assert "DW_CFA_val_expression: r16" in sites
    for start in (layout.BLOB_ENTRIES, layout.BLOB_COUNTERS):
        rule = next(block for block in blocks if f"pc={start:016x}" in block)
        assert "expression" not in rule
        assert "DW_CFA" not in rule.replace("DW_CFA_nop", "")
    assert '"zRS"' in shown  # exact: no call instruction stands before a return trampoline


def page(name: str) -> tuple[int, bytes]:
    at = symbols()[name]
    section = next(s for s in sections().values() if s.addr <= at < s.addr + s.size)
    offset = section.offset + at - section.addr
    return at, AGENT.read_bytes()[offset : offset + layout.PAGE]


def test_an_entry_trampoline_leads_to_its_cell() -> None:
    _, code = page("sosc_entry_page")
    assert len(code) == layout.PAGE
    assert {code[at : at + ENTRY] for at in range(0, layout.PAGE, ENTRY)} == {code[:ENTRY]}
    endbr, lea, displacement, jump = struct.unpack("<I3si3s", code[:14])
    assert endbr == 0xFA1E0FF3
    assert lea == b"\x4c\x8d\x1d"  # lea rel32(%rip), %r11
    assert 4 + 7 + displacement == layout.BLOB_DISTANCE
    assert jump == b"\x41\xff\x23"  # jmp *(%r11)
    assert code[14:16] == b"\xcc\xcc"


def test_a_return_trampoline_leads_to_its_data() -> None:
    _, code = page("sosc_site_page")
    exit_data = layout.BLOB_DISTANCE + (SITES_PER_PAGE - 1) * SITE  # ret of the page's last
    for number in range(SITES_PER_PAGE - 1):
        start = number * SITE
        one = code[start : start + SITE]
        endbr, add, call, original, keep, lea, own, jump, handler = struct.unpack(
            "<I4s2si5s3si2si", one
        )
        assert endbr == 0xFA1E0FF3
        assert add == b"\x48\x83\xc4\x08"  # add $8, %rsp
        assert call == b"\xff\x15"  # call *rel32(%rip)
        assert 14 + original == layout.BLOB_DISTANCE + 16  # struct sosc_site.original
        assert keep == b"\x4c\x89\x5c\x24\xf0"  # mov %r11, -16(%rsp)
        assert lea == b"\x4c\x8d\x1d"
        assert 26 + own == 0  # r11 = this trampoline
        assert jump == b"\xff\x25"
        assert start + 32 + handler == exit_data
    assert set(code[-SITE:]) == {0xCC}  # its data is the exit pointer


def test_a_counter_uses_the_data_behind_it() -> None:
    start, code = page("sosc_counter_page")
    pieces = [code[at : at + COUNTER] for at in range(0, layout.PAGE, COUNTER)]
    assert set(pieces) == {pieces[0]}
    used = set()
    for vaddr, length, text in instructions():
        if not start <= vaddr < start + COUNTER or "(%rip)" not in text:
            continue
        found = re.search(r"(-?0x[0-9a-f]+)\(%rip\)", text)
        assert found
        used.add(vaddr + length + int(found[1], 16) - start - layout.BLOB_DISTANCE)
    assert used == {16, 24, 32, 40, 48, 56}  # cell, thread, two of where and at


def test_the_blob_repeats_the_pages() -> None:
    blob = Blob.build()
    try:
        blob.fill()
        with open(blob.fd, "rb", closefd=False) as file:
            content = file.read()
    finally:
        blob.close()
    data = AGENT.read_bytes()
    assert content[: len(data)] == data
    assert blob.pages_offset % layout.PAGE == 0
    pages = content[blob.pages_offset :]
    wanted = page("sosc_entry_page")[1] * layout.BLOB_REPEAT
    wanted += page("sosc_site_page")[1] * layout.BLOB_REPEAT
    wanted += page("sosc_counter_page")[1] * layout.BLOB_REPEAT
    assert pages == wanted
    # pieces of so many pages are mapped again and again
    for size in (
        layout.MAX_SLOTS * ENTRY,
        layout.MAX_SITES * SITE,
        layout.MAX_COUNTERS * COUNTER,
    ):
        assert size % (layout.BLOB_REPEAT * layout.PAGE) == 0


@pytest.mark.parametrize("name", ["sosc_cells", "sosc_sitedata", "sosc_entries", "sosc_sites"])
def test_what_trampolines_need_is_within_the_reservation(name: str) -> None:
    assert 0 < symbols()[name] < layout.BLOB_SIZE
