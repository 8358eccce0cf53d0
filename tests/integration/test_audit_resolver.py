# SPDX-License-Identifier: Apache-2.0
"""The audit of real dynamic linkers: against objdump, and against calls that are really bound."""

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

from soscope.binfmt.elf import debuglink
from soscope.errors import SoscopeError
from soscope.inspect.resolver import audit as a
from soscope.inspect.resolver.loader import open_loader
from soscope.inspect.resolver.reach import Reaching
from soscope.inspect.resolver.shape import trampolines
from soscope.linker.search import open_image
from tests.integration import loaders
from tests.support import schema
from tests.support.elffiles import built, run
from tests.support.launching import environment
from tests.support.schema_audit import AUDIT_RESOLVER
from tests.support.tools import need, not_here

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
        timeout=120,
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


@pytest.mark.parametrize("name", FAULTS)
def test_faults_that_were_mended(name: str) -> None:
    found = audited(case(name))
    wrong = [one for one in found.variants if one.verdict == a.UNSOUND]
    lost = [
        (one.kind, [each.name for each in one.registers if each.fate == a.LOST]) for one in wrong
    ]
    assert lost == FAULTS[name]


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
    need(debuglink.build_id_path(bytes.fromhex(found.build_id)))
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


# ---- calls that are really bound ----


def probe_source() -> str:
    """Return the library: its function writes down all registers that may hold arguments."""
    words = "rdi rsi rdx rcx r8 r9 rax r10".split()
    lines = [".text", ".globl probe, seen, set_level"]
    lines += [f".type {one},@function" for one in ("probe", "seen", "set_level")]
    lines += [
        "set_level: mov %edi, level(%rip); ret",
        "seen: lea buffer(%rip), %rax; ret",
        "probe:",
    ]
    lines += [f"mov %{one}, buffer+{8 * at}(%rip)" for at, one in enumerate(words)]
    lines += ["cmpl $1, level(%rip)", "jb 1f", "je 2f"]
    lines += [f"vmovdqu64 %zmm{n}, buffer+{128 + 64 * n}(%rip)" for n in range(32)]
    lines += [f"kmovq %k{n}, buffer+{64 + 8 * n}(%rip)" for n in range(8)]
    lines += ["vzeroupper; ret", "2:"]
    lines += [f"vmovdqu %ymm{n}, buffer+{128 + 64 * n}(%rip)" for n in range(16)]
    lines += ["vzeroupper; ret", "1:"]
    lines += [f"movups %xmm{n}, buffer+{128 + 64 * n}(%rip)" for n in range(16)]
    lines += ["ret", ".bss", ".p2align 6", "buffer: .zero 2176", "level: .long 0"]
    return "\n".join([*lines, '.section .note.GNU-stack,"",@progbits\n'])


def fire_source() -> str:
    """Return the program's half in assembly: patterns into all registers, then the call."""
    words = "rsi rdx rcx r8 r9 rax r10 rdi".split()
    places = {one: at for at, one in enumerate("rdi rsi rdx rcx r8 r9 rax r10".split())}
    lines = [".text", ".globl fire", ".type fire,@function", "fire:", "sub $8, %rsp"]
    lines += ["cmp $1, %edi", "jb 1f", "je 2f"]
    lines += [f"vmovdqu64 given+{128 + 64 * n}(%rip), %zmm{n}" for n in range(32)]
    lines += [f"kmovq given+{64 + 8 * n}(%rip), %k{n}" for n in range(8)]
    lines += ["jmp 3f", "2:"]
    lines += [f"vmovdqu given+{128 + 64 * n}(%rip), %ymm{n}" for n in range(16)]
    lines += ["jmp 3f", "1:"]
    lines += [f"movups given+{128 + 64 * n}(%rip), %xmm{n}" for n in range(16)]
    lines += ["3:", *(f"mov given+{8 * places[one]}(%rip), %{one}" for one in words)]
    lines += ["call probe@plt", "add $8, %rsp", "ret"]
    return "\n".join([*lines, '.section .note.GNU-stack,"",@progbits\n'])


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
unsigned char given[2176];
void fire(int level);
void set_level(int level);
unsigned char *seen(void);
static void say(const char *kind, int number, int at, int size)
{
    char name[16];
    snprintf(name, sizeof name, number < 0 ? "%s" : "%s%d", kind, number);
    printf("%s %s\\n", name, memcmp(given + at, seen() + at, size) ? "lost" : "kept");
}
int main(int argc, char **argv)
{
    const char *words[] = {"rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax", "r10"};
    int level = atoi(argv[1]);
    for (unsigned i = 0; i < sizeof given; i++)
        given[i] = i * 37 + i / 256 + 11;
    set_level(level);
    fire(level);
    for (int i = 0; i < 8; i++)
        say(words[i], -1, 8 * i, 8);
    for (int i = 0; i < 16; i++) {
        say("xmm", i, 128 + 64 * i, 16);
        if (level > 0)
            say("ymm", i, 128 + 64 * i + 16, 16);
        if (level > 1)
            say("zmm", i, 128 + 64 * i + 32, 32);
    }
    for (int i = 16; i < 32 && level > 1; i++)
        say("zmm", i, 128 + 64 * i, 64);
    for (int i = 0; i < 8 && level > 1; i++)
        say("k", i, 64 + 8 * i, 8);
    return 0;
}
"""

AUDITOR = """
#define _GNU_SOURCE
#include <link.h>
unsigned la_version(unsigned version) { return LAV_CURRENT; }
unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}
Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
    La_x86_64_regs *regs, unsigned *flags, const char *name, long *size)
{
    return symbol->st_value;
}
"""


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("caller")
    (folder / "probe.s").write_text(probe_source())
    (folder / "fire.s").write_text(fire_source())
    run("gcc", "-shared", "-o", folder / "libprobe.so", folder / "probe.s")
    lazy = ("-fcf-protection=none", "-fplt", "-Wl,-z,lazy", "-no-pie", "-fno-pie")
    libraries = (str(folder / "fire.s"), f"-L{folder}", "-lprobe", f"-Wl,-rpath,{folder}")
    return built(folder, "caller", MAIN, *lazy, *libraries)


def flags() -> list[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split() for line in lines if line.startswith("flags")), [])


def level() -> int:
    """Return what the processor has: 0 SSE, 1 AVX, 2 AVX-512."""
    known = flags()
    return 2 if "avx512bw" in known else 1 if "avx" in known else 0


def parts(name: str) -> list[str]:
    """Return what the program calls the registers of a row: "ymm0-7 (high halves)", "rdi"."""
    row = re.fullmatch(r"([a-z]+)(\d+)-(\d+)(?: \(high halves\))?", name)
    if row is None:
        return [name]
    return [f"{row[1]}{n}" for n in range(int(row[2]), int(row[3]) + 1)]


def told(path: Path, *, env: dict[str, str] | None = None) -> dict[str, str]:
    done = subprocess.run(
        [path, str(level())],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": "/usr/bin:/bin", **(env or {})},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split() for line in done.stdout.splitlines())


def agrees(one: a.Variant, fates: dict[str, str]) -> None:
    """Check a verdict against what a call has seen: what is saved must have arrived."""
    checked = 0
    for register in one.registers:
        for part in parts(register.name):
            if register.fate in (a.SAVED, a.UNLESS_CHANGED) and part in fates:
                assert fates[part] == "kept", (one.vaddr, part)
                checked += 1
    assert checked >= 15
    # the static chain is saved nowhere, and overwritten at once
    assert fates["r10"] == "lost"
    assert "r10" in one.named(a.LOST)


def of_this_processor(found: a.Audit, kind: str, *, without: str = "") -> a.Variant:
    known = [one for one in ("xsavec", "xsave") if one in flags() and one != without]
    if kind == "resolve":
        how = known[0] if known else "fxsave"
        return next(v for v in found.variants if v.kind == kind and v.how.split()[0] == how)
    wanted = ("without AVX", "with AVX, without AVX-512", "with AVX-512")[level()]
    return next(v for v in found.variants if v.kind == kind and v.condition == wanted)


def loader_of(path: Path) -> str:
    interpreter = open_image(str(path)).interpreter
    assert interpreter is not None
    return interpreter


def test_a_lazy_call_sees_what_is_saved(caller: Path) -> None:
    found = audited(loader_of(caller))
    agrees(of_this_processor(found, "resolve"), told(caller))


def test_a_bound_call_sees_everything(caller: Path) -> None:
    fates = told(caller, env={"LD_BIND_NOW": "1"})
    assert set(fates.values()) == {"kept"}


def test_a_lazy_call_without_xsavec(caller: Path) -> None:
    if "xsavec" not in flags():
        not_here("this processor has no XSAVEC that could be left unused")
    fates = told(caller, env={"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-XSAVEC"})
    found = audited(loader_of(caller))
    agrees(of_this_processor(found, "resolve", without="xsavec"), fates)


def test_a_call_that_an_audit_module_is_told_of(caller: Path, tmp_path: Path) -> None:
    module = built(tmp_path, "auditor.so", AUDITOR, "-shared", "-fPIC")
    fates = told(caller, env={"LD_AUDIT": str(module)})
    agrees(of_this_processor(audited(loader_of(caller)), "profile"), fates)


PROBE32 = """
    .text
    .globl probe
    .type probe,@function
probe:
    push %ebx
    mov 8(%esp), %ebx
    mov %eax, (%ebx)
    mov %edx, 4(%ebx)
    mov %ecx, 8(%ebx)
    movups %xmm0, 16(%ebx)
    movups %xmm1, 32(%ebx)
    movups %xmm2, 48(%ebx)
    pop %ebx
    ret
    .section .note.GNU-stack,"",@progbits
"""

MAIN32 = r"""
#include <stdio.h>
#include <string.h>
unsigned char given[64], seen[64];
void fire(void);
__asm__(
    ".text\n.globl fire\n.type fire,@function\nfire:\n"
    "movups given+16, %xmm0\nmovups given+32, %xmm1\nmovups given+48, %xmm2\n"
    "push $seen\nmov given, %eax\nmov given+4, %edx\nmov given+8, %ecx\n"
    "call probe@plt\nadd $4, %esp\nret");
int main(void)
{
    const char *names[] = {"eax", "edx", "ecx", "", "xmm0", "xmm1", "xmm2"};
    for (unsigned i = 0; i < sizeof given; i++)
        given[i] = i * 37 + 11;
    fire();
    for (int i = 0; i < 7; i++) {
        int at = i < 4 ? 4 * i : 16 * (i - 3), size = i < 4 ? 4 : 16;
        if (*names[i])
            printf("%s %s\n", names[i], memcmp(given + at, seen + at, size) ? "lost" : "kept");
    }
    return 0;
}
"""


def test_a_lazy_call_of_32_bits(tmp_path: Path) -> None:
    need("/usr/lib32/libc.so")
    (tmp_path / "probe.s").write_text(PROBE32)
    run("gcc", "-m32", "-shared", "-o", tmp_path / "libprobe.so", tmp_path / "probe.s")
    lazy = ("-m32", "-fcf-protection=none", "-Wl,-z,lazy", "-no-pie", "-fno-pie")
    libraries = (f"-L{tmp_path}", "-lprobe", f"-Wl,-rpath,{tmp_path}")
    program = built(tmp_path, "caller32", MAIN32, *lazy, *libraries)
    fates = dict(line.split() for line in run(program).splitlines())
    found = audited(loader_of(program))
    usual = next(v for v in found.variants if v.kind == "resolve" and "every" in v.condition)
    for register in usual.registers:
        for part in parts(register.name):
            # what is open the usual way, without a look-up that calls out of the loader, is kept
            assert fates.get(part, "kept") == "kept"
    assert set(usual.named(a.SAVED)) == {"eax", "edx", "ecx"}
    assert len(fates) == 6


TOUCH = [
    ".text",
    ".globl touch",
    ".type touch,@function",
    "touch: sub $8, %rsp",
    *(f"movups {16 * n}(%rdi), %xmm{n}" for n in range(16)),
    "lea variable@tlsdesc(%rip), %rax",
    "call *variable@tlscall(%rax)",
    *(f"movups %xmm{n}, {16 * n}(%rsi)" for n in range(16)),
    "add $8, %rsp",
    "ret",
    # too large for what is kept free in the static block: it is made at the first call
    '.section .tbss,"awT",@nobits',
    "variable: .zero 65536",
    '.section .note.GNU-stack,"",@progbits',
    "",
]

TOUCHING = """
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    unsigned char given[256], seen[2][256];
    void *library = dlopen(argv[1], RTLD_NOW);
    void (*touch)(void *, void *) = library ? dlsym(library, "touch") : 0;
    if (!touch)
        return 1;
    for (int i = 0; i < 256; i++)
        given[i] = i * 37 + 11;
    touch(given, seen[0]);
    touch(given, seen[1]);
    for (int i = 0; i < 32; i++)
        if (memcmp(given + i % 16 * 16, seen[i / 16] + i % 16 * 16, 16))
            printf("xmm%d %d\\n", i % 16, i / 16);
    return 0;
}
"""


def test_what_a_tls_descriptor_loses(tmp_path: Path) -> None:
    (tmp_path / "touch.s").write_text("\n".join(TOUCH))
    run("gcc", "-shared", "-o", tmp_path / "libtouch.so", tmp_path / "touch.s")
    program = built(tmp_path, "touching", TOUCHING, "-ldl")
    lost = run(program, tmp_path / "libtouch.so").split("\n")[:-1]
    found = audited(loader_of(program))
    verdicts = {one.verdict for one in found.variants if one.kind == "tlsdesc"}
    # the second time it is there, and nothing is called
    assert all(line.endswith(" 0") for line in lost)
    assert verdicts == ({a.UNSOUND} if lost else {a.SOUND})


# ---- the verb ----


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


def test_damaged_loaders_never_end_in_a_traceback(tmp_path: Path) -> None:
    whole = Path(need(OWN)).read_bytes()
    chance = random.Random(11)
    outcomes = {"error": 0, "answer": 0}
    for _ in range(8):
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
