# SPDX-License-Identifier: Apache-2.0
"""A new processor has few places, and all verbs call it by one name."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from soscope.binfmt.isa import PARTS, part
from soscope.entry.isa import arch
from soscope.model import arch as machines
from soscope.model.arch import ARCHES, Arch, arch_named, arch_of, arch_of_cputype
from tests.support.files.stubs import FOREIGN, PROGRAM, compiled, linked
from tests.support.machines.tools import need
from tests.support.processes.run import soscope

SOURCES = Path(__file__).parents[1] / "src" / "soscope"

# Where a machine may be named in code: the table, the folders called isa/, and what no other
# machine has. docs/internals/other-machines.md lists them.
ALLOWED = {
    "model/arch.py",
    "linker/machine.py",  # what loaders call folders and caches
    "linker/system.py",  # the levels of the x86-64 psABI
    # tables with a row for each machine
    "entry/remote/conventions.py",
    "inspect/check/processors.py",
    "inspect/explain/resolvers.py",
    "recording/clock.py",  # machine code that reads the counter
    "prototypes/describe.py",  # where x86-64 passes what a declaration names
    # Apple calls a format of fixups so; one cputype counts from another segment
    "binfmt/macho/fixups.py",
    # what looks for the stub at one address, in files of the symbols' part
    "live/lookup/names.py",
    "live/names/locate.py",
}
_DISTANCES = ("OFF", "OFF32", "OFF64", "REL", "REL32", "REL64")  # how psABIs spell one type
NAMES = {
    name
    for one in ARCHES
    for name in (one.name, one.isa, *one.aliases, *one.unames, *one.apple.values())
    if name
} | {"x32", "x86"}
MAY_NAME = re.compile(rf"\b(?:{'|'.join(map(re.escape, NAMES))}|(?:EM|CPU|R)_[A-Z0-9_]+)\b")


def _machines_in(path: Path) -> set[str]:
    """Return the machines that a file's code names: strings, numbers' names, modules."""
    found: set[str] = set()
    text = path.read_text()
    if MAY_NAME.search(text) is None:
        return found  # a quick answer for most files
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            found.add(str(node.value))
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(one.name for one in node.names)]
        elif isinstance(node, ast.Name):
            names = [node.id]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        found.update(
            one for one in names if one in NAMES or re.fullmatch(r"(EM|CPU|R)_[A-Z0-9_]+", one)
        )
    is_own = path.name.startswith(("capture", "layout"))  # constants of ours begin with R_, too
    return set() if is_own else found


def test_machines_are_named_in_few_places() -> None:
    named = {}
    for path in sorted(SOURCES.rglob("*.py")):
        place = path.relative_to(SOURCES)
        if "isa" not in place.parts and (found := _machines_in(path)):
            named[str(place)] = found
    assert set(named) == ALLOWED, {key: named[key] for key in named.keys() - ALLOWED}


def test_each_instruction_set_has_a_folder_with_the_parts_that_are_listed() -> None:
    folders = {path.parent.name for path in (SOURCES / "binfmt/isa").glob("*/__init__.py")}
    assert folders == set(PARTS) == {one.isa for one in ARCHES if one.isa}
    for one in ARCHES:
        for name in PARTS.get(one.isa, ()):
            assert part(one, name) is not None, (one.name, name)


def test_the_agents_machine_is_a_row() -> None:
    (row,) = (one for one in ARCHES if one.has_agent)
    assert (row.number, row.bits) == (arch.MACHINE, arch.BITS)
    assert arch.__name__.endswith(f".{row.unames[0]}")


def test_the_list_of_audited_machines_names_the_files_beside_it() -> None:
    here = SOURCES / "inspect/audit/isa"
    tree = ast.parse((here / "__init__.py").read_text())
    (listed,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_KNOWN"
    )
    files = {path.stem for path in here.glob("*.py")} - {"__init__", "x86parts"}
    assert files == set(listed) <= set(PARTS)


def test_numbers_are_those_of_the_systems_header() -> None:
    text = Path(need("/usr/include/elf.h")).read_text()
    define = re.compile(r"^#define\s+(\w+)\s+(\d+|0x[0-9a-fA-F]+)\b", re.MULTILINE)
    told = {name: int(value, 0) for name, value in define.findall(text)}
    numbers = {name: value for name, value in vars(machines).items() if name.startswith("EM_")}
    assert numbers.items() <= told.items()
    roles = ("jump_slot", "glob_dat", "copy", "relative", "tlsdesc", "tpoff")
    distance = {f"{first}TP{last}" for first in ("", "TLS_") for last in _DISTANCES}
    checked = 0
    for one in ARCHES:
        types = one.relocations
        for number, name in types.types.items():
            assert told.get(types.prefix + name, number) == number, (types.prefix, name)
            checked += types.prefix + name in told
        for role in roles:
            number = getattr(types, role)
            known = [key for key, value in told.items() if key.startswith(types.prefix)]
            names = {key.removeprefix(types.prefix) for key in known if told[key] == number}
            words = {role.upper(), role.upper().replace("JUMP", "JMP"), "TLS_DESC", "REL32"}
            words |= distance
            assert not number or not names or names & words, (one.name, role, number)
    assert checked > 30


def _row(number: int, bits: int, order: str, flags: int = 0) -> Arch:
    found = arch_of(number, bits, order, flags)
    assert found is not None
    return found


def test_a_file_has_the_row_that_suits_it_best() -> None:
    assert [_row(22, bits, ">").name for bits in (64, 32)] == ["s390x", "s390"]
    assert [_row(21, 64, order).name for order in "<>"] == ["ppc64le", "ppc64"]
    assert [_row(8, 32, ">", flags).name for flags in (0, 0x20)] == ["mips", "mips64"]
    assert _row(8, 64, "<", 0x20).has_split_info
    assert not _row(8, 32, "<", 0x20).has_split_info
    assert _row(183, 32, "<").relocations.jump_slot == 182
    assert _row(62, 32, "<").relocations.jump_slot == 7
    # what no such processor has: the row that differs least
    assert _row(62, 64, ">").name == "x86-64"
    assert arch_of(9999, 64) is None
    assert arch_named("arm64e") is arch_of_cputype(0x0100000C)
    assert arch_named("armv7") is None is arch_of_cputype(0)


@pytest.mark.parametrize("target", sorted(FOREIGN))
def test_all_verbs_call_a_file_the_same(target: str, tmp_path: Path) -> None:
    # by that symbol audit-resolver takes it for musl's loader, of which it says the machine, too
    unit = compiled(tmp_path, target, PROGRAM + "void *_dl_debug_addr;", "-fPIC")
    path = linked(
        tmp_path, target, "bfd" if target == "s390x" else "lld", [unit], "-shared", "-z", "lazy"
    )
    name = target.removesuffix("el") if target.startswith("mips") else target

    def told(*words: str) -> Any:
        done = soscope(*words)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    assert told("map", "--json", str(path))["images"][0]["arch"] == name
    assert told("explain", "--json", str(path), "puts")["images"][0]["arch"] == name
    assert told("check", "--json", str(path))["images"][0]["arch"] == name
    assert told("doctor", "--json", str(path))["subject"]["machine"] == name
    assert told("audit-resolver", "--json", str(path))["arch"] == name
