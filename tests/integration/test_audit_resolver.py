# SPDX-License-Identifier: Apache-2.0
"""The audit of real dynamic linkers: and objdump as the witness."""

from __future__ import annotations

import functools
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from soscope.binfmt.elf import sections
from soscope.errors import SoscopeError
from soscope.inspect.audit import audit as a
from soscope.inspect.audit.audit import Reaching, trampolines
from soscope.inspect.audit.loader import open_loader
from soscope.linker.library import open_image
from tests.integration import loaders
from tests.support.files.elffiles import run
from tests.support.machines.tools import need
from tests.support.processes.launching import environment
from tests.support.schemas import checked as schema
from tests.support.schemas.audit import AUDIT_RESOLVER
from tests.support.targets.covering import sizes
from tests.support.time.patience import limit

pytestmark = pytest.mark.shares

pytest.importorskip("capstone")

OWN = "/lib64/ld-linux-x86-64.so.2"
I386 = "/lib32/ld-linux.so.2"
MUSL = "/lib/ld-musl-x86_64.so.1"
WORDS64 = "rdi rsi rdx rcx r8 r9 rax".split()


@functools.cache
def audited(path: str) -> a.Audit:
    need(path)
    return a.audit(path)


def foreign(suite: str, pattern: str) -> str:
    root = loaders.fetched(suite, loaders.FOREIGN)
    found = [one for one in root.rglob(pattern) if one.is_file() and not one.is_symlink()]
    return str(min(found, key=lambda one: len(str(one))))


def soscope(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "soscope", "audit-resolver", *words],
        capture_output=True,
        text=True,
        timeout=limit(120),
        check=False,
        env=environment(),
    )


def shape(found: a.Audit) -> list[tuple[Any, ...]]:
    """Return everything of an audit but the names of functions."""
    rows: list[tuple[Any, ...]] = []
    for one in found.variants:
        fates = tuple((each.name, each.fate) for each in one.registers)
        sites = tuple(each.site and (each.site.vaddr, each.site.times) for each in one.registers)
        ways = tuple(way.vaddr for way in one.path.ways)
        rows.append((one.kind, one.vaddr, one.verdict, one.condition, fates, sites, ways))
    return rows


# ---- glibc of this machine, and others ----


def test_this_machine() -> None:
    found = audited(OWN)
    assert (found.loader, found.arch, found.verdict) == ("glibc", "x86-64", a.SOUND)
    kinds = [one.kind for one in found.variants]
    assert kinds.count("resolve") == 3
    assert kinds.count("profile") == 3
    resolving = {one.how.split()[0]: one for one in found.variants if one.kind == "resolve"}
    assert set(resolving) == {"fxsave", "xsave", "xsavec"}
    for one in resolving.values():
        assert set(WORDS64) <= set(one.named(a.SAVED))
        assert one.named(a.LOST) == ["r10"]
        assert one.path.undecoded == 0
        assert 20 <= one.path.functions <= 80
    assert resolving["fxsave"].named(a.ABSENT)
    assert not resolving["xsavec"].named(a.ABSENT)


CASES = {
    "2.31": ("bullseye", "", 3),
    "2.41": ("trixie", "", 3),
    "2.31-i386": ("bullseye", "lib32/ld-*.so*", 2),
    "2.41-i386": ("trixie", "lib32/ld-*.so*", 1),
    "2.31-aarch64": ("bullseye", "aarch64-linux-gnu/lib/ld-*.so*", 1),
    "2.41-aarch64": ("trixie", "aarch64-linux-gnu/lib/ld-*.so*", 1),
}


def case(name: str) -> str:
    suite, pattern, _ = CASES[name]
    return foreign(suite, pattern) if pattern else str(loaders.Loader(suite).interpreter.resolve())


@pytest.mark.every(6)
@pytest.mark.parametrize("name", CASES)
def test_other_releases_and_architectures(name: str) -> None:
    found = audited(case(name))
    assert found.loader == "glibc"
    assert found.version in (name.partition("-")[0], "")
    assert [one.kind for one in found.variants].count("resolve") == CASES[name][2]
    for one in found.variants:
        assert one.path.undecoded == 0
        assert one.path.functions > 10
    resolving = [one for one in found.variants if one.kind == "resolve"]
    if found.arch == "i386":
        usual = resolving[0]
        assert {"eax", "edx", "ecx"} == set(usual.named(a.SAVED))
        # there is no vector instruction on the way, but it leads out of the file
        assert (usual.verdict, usual.named(a.LOST)) == (a.CONDITIONAL, [])
    else:
        assert {one.verdict for one in resolving} == {a.SOUND}
        assert found.verdict == a.SOUND


# what these releases are known to lose: bugs 26643 (mended in 2.35), 31372 (in 2.40) of glibc
FAULTS = {
    "2.31": [("tlsdesc", ["xmm0-15"])],
    "2.41": [],
    "2.31-aarch64": [("profile", ["x8"])],
    "2.41-aarch64": [],
}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", FAULTS)
def test_faults_that_were_mended(name: str) -> None:
    found = audited(case(name))
    wrong = [one for one in found.variants if one.verdict == a.UNSOUND]
    lost = [
        (one.kind, [each.name for each in one.registers if each.fate == a.LOST]) for one in wrong
    ]
    assert lost == FAULTS[name]


@pytest.mark.every(8)
@pytest.mark.parametrize("name", [OWN, I386, *CASES])
def test_a_stripped_copy_gives_the_same(tmp_path: Path, name: str) -> None:
    path = case(name) if name in CASES else need(name)
    copy = tmp_path / "ld.so"
    shutil.copyfile(path, copy)
    if "aarch64" not in name:
        run("objcopy", "--strip-all", copy)
    data = bytearray(copy.read_bytes())
    # the build-id leads to the debug symbols
    build_id = bytes.fromhex(audited(path).build_id)
    at = data.index(build_id)
    data[at : at + len(build_id)] = bytes(len(build_id))
    # and there need be no section headers: e_shoff, e_shnum, e_shstrndx
    is_wide = data[4] == 2
    offset, last = (0x28, 0x3C) if is_wide else (0x20, 0x30)
    data[offset : offset + (8 if is_wide else 4)] = bytes(8 if is_wide else 4)
    data[last : last + 4] = bytes(4)
    copy.write_bytes(data)
    found = a.audit(str(copy))
    assert shape(found) == shape(audited(path))
    assert found.verdict == audited(path).verdict
    assert all(one.name == "" for one in found.variants if one.kind != "tlsdesc")


def test_debug_symbols_name_what_shapes_find() -> None:
    found = audited(OWN)
    need(sections.build_id_path(bytes.fromhex(found.build_id)))
    named = {one.name for one in found.variants}
    wanted = {f"_dl_runtime_resolve_{how}" for how in ("fxsave", "xsave", "xsavec")}
    wanted |= {f"_dl_runtime_profile_{how}" for how in ("sse", "avx", "avx512")}
    assert wanted <= named
    for one in found.variants:
        if one.kind == "resolve":
            assert one.path.name == "_dl_fixup"
            assert one.name == f"_dl_runtime_resolve_{one.how.split()[0]}"


# ---- objdump as the witness ----


def disassembled(path: str) -> dict[int, str]:
    lines = run("objdump", "-d", "--no-show-raw-insn", "-w", path).splitlines()
    found = {}
    for line in lines:
        row = re.match(r"^ *([0-9a-f]+):\t(.*?) *(?:[#<].*)?$", line)
        if row:
            found[int(row[1], 16)] = row[2]
    return found


@pytest.mark.every(2)
@pytest.mark.parametrize("path", [OWN, I386])
def test_vector_writes_and_calls_are_those_that_objdump_shows(path: str) -> None:
    loader = open_loader(need(path))
    starts = sorted({one.calls[0] for one in trampolines(loader)})
    reach = Reaching(loader).reach(starts)
    code = disassembled(path)
    counted: dict[str, int] = {}
    total = 0
    for function in reach.functions.values():
        inside = [at for at in code if function.vaddr <= at < function.vaddr + function.size]
        total += len(inside)
        for at in inside:
            words = code[at].replace("bnd ", "").replace("notrack ", "").split(None, 1)
            operands = words[1] if len(words) > 1 else ""
            is_call = words[0].startswith(("call", "j")) and "*" not in operands
            if is_call and re.fullmatch(r"[0-9a-f]+", operands.strip()):
                # whatever is called or jumped to is on the way, too
                target = int(operands, 16)
                around = [f for f in reach.functions.values() if 0 <= target - f.vaddr < f.size]
                assert around, f"{at:#x}: {code[at]}"
            last = operands.rsplit(",", 1)[-1].strip()
            reads = ("ucomis", "comis", "ptest", "cmp", "test", "push")
            if re.fullmatch(r"%xmm\d+", last) and not words[0].startswith(reads):
                counted[last[1:]] = counted.get(last[1:], 0) + 1
    assert total == reach.instructions
    ours = {part: one.times for part, one in reach.writes.items() if part.startswith("xmm")}
    assert ours == counted
    if path == OWN:
        assert sum(counted.values()) > 100


# ---- the verb ----


def loader_of(path: Path) -> str:
    interpreter = open_image(str(path)).interpreter
    assert interpreter is not None
    return interpreter


def test_the_documents() -> None:
    for path in (OWN, I386, MUSL):
        need(path)
        done = soscope("--json", path)
        assert done.stderr == ""
        document = json.loads(done.stdout)
        assert schema.wrong_members(document, AUDIT_RESOLVER) == []
        found = audited(path)
        assert document["path"] == path
        assert document["verdict"] == found.verdict
        assert len(document["variants"]) == len(found.variants)
        assert done.returncode == (1 if found.verdict == a.UNSOUND else 0)


def test_the_page_of_this_interpreters_loader() -> None:
    done = soscope()
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(loader_of(Path(sys.executable).resolve()))
    assert "lazy binding: sound: every argument arrives" in lines
    assert all(len(line) <= 100 for line in lines)
    longer = soscope("--why")
    assert " in _dl_fixup: through " in longer.stdout or " in 0x" in longer.stdout
    assert set(lines) <= set(longer.stdout.splitlines())


def test_musl_binds_at_once() -> None:
    done = soscope(need(MUSL))
    assert (done.returncode, done.stderr) == (0, "")
    assert "musl binds every slot when it loads an image" in done.stdout


def test_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    done = soscope(sys.executable)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("soscope: error: '")
    assert "is no dynamic linker\n  hint: it is loaded by /lib" in done.stderr
    cut = tmp_path / "ld.so"
    cut.write_bytes(Path(need(OWN)).read_bytes()[:100_000])
    done = soscope(str(cut))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"soscope: error: {cut}: ")
    assert soscope("a", "b").returncode == 2


@pytest.mark.parametrize("copies", sizes(5, 40))
def test_damaged_loaders_never_end_in_a_traceback(copies: int, tmp_path: Path) -> None:
    whole = Path(need(OWN)).read_bytes()
    chance = random.Random(11)
    outcomes = {"error": 0, "answer": 0}
    for _ in range(copies):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 8)):
            at = chance.choice((chance.randrange(1024), chance.randrange(len(data))))
            data[at] = chance.randrange(256)
        path = tmp_path / "damaged"
        path.write_bytes(data)
        try:
            a.audit(str(path))
            outcomes["answer"] += 1
        except SoscopeError:
            outcomes["error"] += 1
    assert min(outcomes.values()) > 0
