# SPDX-License-Identifier: Apache-2.0
"""`soscope prof check`: what objdump counts, and what an instrumented program says of itself."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from soscope.errors import UsageError
from soscope.verbs.main import main
from soscope.verbs.prof.run import parse_mode
from tests.support.files.elffiles import built, run
from tests.support.machines.tools import need
from tests.support.schemas.checked import (
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    Check,
    _is,
    _list_of,
    _object,
    _one_of,
    wrong_members,
)
from tests.support.time.patience import limit

_MODE: dict[str, Check] = {
    "mode": TEXT,
    "works": _is(bool),
    "ns": _is(float),
    "reason": TEXT_OR_NULL,
}
_SCHEMA: dict[str, Check] = {
    "schema": _one_of("soscope/prof-check/1"),
    "image": TEXT,
    "instrumented": _one_of("mcount", "fentry", "cyg", "patchable", None),
    "sites": NUMBER_OR_NULL,
    "functions": NUMBER_OR_NULL,
    "inlined": NUMBER_OR_NULL,
    "relro": _one_of("none", "partial", "full"),
    "modes": _list_of(_object(_MODE)),
    "advice": _list_of(TEXT),
}
_MODES = ["quiet", "count", "sample", "time", "log", "boundary count", "boundary time"]

# functions of every kind that compilers make of them: inlined, copied, split, recursive, local
_TEXT = """
#include <stdlib.h>
static inline int square(int x) { return x * x; }
static inline int both(int x) { return square(x) + square(x + 1); }
__attribute__((noinline)) static int summed(int n)
{
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += both(i);
	return sum;
}
__attribute__((noinline)) static int copied(int n, int by)
{
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += i * by;
	return sum;
}
int leaf(int a) { return a + 1; }
int middle(int a) { return leaf(a) * 2; }
int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int all(int n)
{
	if (n < 0)
		abort();
	return summed(n) + copied(n, 7) + middle(n) + fib(n);
}
int many(char **words) { return all(atoi(words[0])); }
"""
_SHARED = "-fPIC -shared"
_HOOKS = {
    "mcount": ("mcount", "_mcount"),
    "fentry": ("__fentry__",),
    "cyg": ("__cyg_profile_func_enter", "__cyg_profile_func_enter_bare"),
}
_CYG = "-finstrument-functions"
_SPELLINGS = [
    (compiler, kind, flags)
    for compiler in ("gcc", "clang")
    for kind, flags in [
        ("mcount", "-O0 -pg"),
        ("mcount", "-O2 -pg -fno-plt"),
        ("mcount", "-Os -pg -Wl,-z,now"),
        ("fentry", "-O2 -pg -mfentry"),
        ("fentry", "-O2 -pg -mfentry -flto"),
        ("cyg", f"-O0 {_CYG}"),
        ("cyg", f"-O2 {_CYG}"),
        ("cyg", f"-O2 {_CYG} -fno-plt -Wl,-z,now"),
        ("cyg", f"-Os {_CYG} -Wl,-z,norelro"),
        ("cyg", f"-O2 {_CYG} -fuse-ld=lld"),
        ("cyg", f"-O2 {_CYG} -fuse-ld=mold -Wl,-z,ibtplt"),
    ]
    if not ("-flto" in flags and compiler == "clang")
] + [
    ("gcc", "cyg", f"-O2 {_CYG} -flto"),
    ("clang", "cyg", "-O2 -finstrument-functions-after-inlining"),
    ("clang", "cyg", "-O2 -finstrument-function-entry-bare"),
]
_FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")


def _check(capfd: pytest.CaptureFixture[str], path: Path, *words: str) -> dict[str, Any]:
    assert main(["prof", "check", "--json", *words, str(path)]) == 0
    document: dict[str, Any] = json.loads(capfd.readouterr().out)
    assert not wrong_members(document, _SCHEMA)
    assert document["image"] == str(path)
    assert [mode["mode"] for mode in document["modes"]] == _MODES
    assert all(mode["works"] == (mode["reason"] is None) for mode in document["modes"])
    return document


def _works(document: dict[str, Any]) -> set[str]:
    return {mode["mode"] for mode in document["modes"] if mode["works"]}


def _listed(path: Path, hooks: tuple[str, ...]) -> tuple[int, int]:
    """Return how many calls of hooks objdump prints, and in how many functions."""
    calls, functions, function = 0, set(), ""
    hook = "|".join(map(re.escape, hooks))
    call = re.compile(rf"\t(?:addr32 )?(?:call|jmp) .*<(?:{hook})(?:[@$].*)?>$")
    for line in run("objdump", "-d", "--no-show-raw-insn", path).splitlines():
        if head := _FUNCTION.match(line):
            function = head[1]
        elif call.search(line) and not re.search(r"[@$.]plt", function):
            calls += 1
            if ".cold" not in function:
                functions.add(function)
    return calls, len(functions)


def _relro(path: Path) -> str:
    if "GNU_RELRO" not in run("readelf", "-lW", path):
        return "none"
    return "full" if re.search(r"BIND_NOW|Flags: NOW", run("readelf", "-dW", path)) else "partial"


def without_section_headers(path: Path) -> Path:
    """Take out of an ELF file what says where its section headers are."""
    data = bytearray(path.read_bytes())
    data[40:48] = bytes(8)  # e_shoff
    data[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    bare = path.with_suffix(".bare")
    bare.write_bytes(data)
    return bare


@pytest.mark.every(4)
@pytest.mark.parametrize(
    ("compiler", "kind", "flags"), _SPELLINGS, ids=lambda value: value.replace(" ", "")
)
def test_sites_are_those_that_objdump_prints(
    compiler: str, kind: str, flags: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    need(compiler, "objdump", "ld.lld", "mold")
    words = shlex.split(f"{_SHARED} {flags}")
    path = built(tmp_path, "lib.so", _TEXT, *words, compiler=compiler)
    found = _check(capfd, path)
    assert found["instrumented"] == kind
    assert (found["sites"], found["functions"]) == _listed(path, _HOOKS[kind])
    assert found["sites"] >= 7
    assert found["relro"] == _relro(path)
    assert found["inlined"] == found["sites"] - found["functions"]
    has_no_inlined = kind != "cyg" or "-O0" in flags or "after" in flags or "bare" in flags
    assert (found["inlined"] == 0) or not has_no_inlined
    assert _works(found) >= {"quiet", "count", "boundary count", "boundary time"}
    assert ("time" in _works(found)) == ("bare" not in flags)

    # what a loader does not need is not needed here
    run("strip", path)
    for other in (path, without_section_headers(path)):
        stripped = _check(capfd, other)
        for key in ("instrumented", "sites", "functions", "relro"):
            assert stripped[key] == found[key], key
        assert stripped["inlined"] in (None, found["inlined"])


_HOST = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#define PLAIN __attribute__((no_instrument_function))
int work(int n);
PLAIN void __cyg_profile_func_enter(void *function, void *site)
{
	char *behind = __builtin_return_address(0);
	Dl_info where;
	if (dladdr(behind - 1, &where))
		printf("%p %d\\n", (void *)behind, where.dli_saddr != function);
}
PLAIN void __cyg_profile_func_exit(void *function, void *site) {}
PLAIN int main(int count, char **words) { return work(count) == 0; }
"""
_WORK = """
#define ALONE __attribute__((noinline, noclone))
#define INTO __attribute__((always_inline)) inline
#ifdef __clang__
#undef ALONE
#define ALONE __attribute__((noinline))
#endif
extern int one(int n), two(int n);
INTO int one(int n) { return n + 1; }
INTO int two(int n) { return one(n) * one(n + 2); }
int (*volatile by_pointer[])(int) = {one, two};
ALONE int first(int n) { return n * 3; }
ALONE int second(int n) { return two(n) + first(n); }
ALONE int third(int n) { return n ? two(second(n)) + third(n - 1) : one(7); }
ALONE __attribute__((no_instrument_function)) int outside(int n) { return one(n) + two(n); }
ALONE int work(int n)
{
	return third(n) + outside(n) + second(1) + by_pointer[0](n) + by_pointer[1](n);
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_inlined_functions_are_those_that_run(
    compiler: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The hook itself says from where it is called, and whether that is in another function."""
    need(compiler)
    make = partial(built, tmp_path, compiler=compiler)
    library = make("libwork.so", _WORK, "-O2", _CYG, *shlex.split(_SHARED))
    host = make("host", _HOST, str(library), "-Wl,-rpath,$ORIGIN", "-rdynamic", "-ldl")
    said = subprocess.run(
        [host], capture_output=True, text=True, timeout=limit(), check=True
    ).stdout
    sites = {tuple(line.split()) for line in said.splitlines()}
    assert len({place for place, _ in sites}) == len(sites)
    inlined = sum(int(other) for _, other in sites)
    assert inlined > 8
    for path in (library, without_section_headers(library)):
        found = _check(capfd, path)
        assert found["sites"] == len(sites)
        assert found["inlined"] == inlined
        # `outside` has sites, all of them inlined
        assert found["functions"] == len(sites) - inlined + 1
    assert f"{inlined} of {len(sites)} sites" in found["advice"][0]


def test_a_copy_in_a_stripped_library_cannot_be_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = _TEXT + "int again(int n) { return copied(n + 1, 7) + copied(n, 7); }"
    path = built(tmp_path, "lib.so", text, "-O2", _CYG, "-fipa-cp-clone", *shlex.split(_SHARED))
    found = _check(capfd, path)
    assert found["inlined"] == found["sites"] - found["functions"]
    has_copies = "copied.constprop" in run("nm", path)
    run("strip", path)
    stripped = _check(capfd, path)
    assert stripped["inlined"] == (None if has_copies else found["inlined"])
    said = re.match(r"(\d+) (?:to (\d+) )?of", stripped["advice"][0])
    assert said is not None
    assert int(said[1]) <= found["inlined"] <= int(said[2] or said[1])


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_room_for_hooks(compiler: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    need(compiler)
    words = shlex.split(f"{_SHARED} -O2 -fpatchable-function-entry=5")
    path = built(tmp_path, "lib.so", _TEXT, *words, compiler=compiler)
    found = _check(capfd, path)
    entries = re.search(
        r"__patchable_function_entries +\S+ +\S+ +\S+ ([0-9a-f]+)", run("readelf", "-SW", path)
    )
    assert entries is not None
    assert found["instrumented"] == "patchable"
    assert found["sites"] == found["functions"] == int(entries[1], 16) // 8
    assert found["inlined"] == 0
    assert _works(found) == set(_MODES)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_room_in_front_of_a_function_is_none(
    compiler: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(f"{_SHARED} -O2 -fpatchable-function-entry=8,8")
    found = _check(capfd, built(tmp_path, "lib.so", _TEXT, *words, compiler=need(compiler)))
    assert found["instrumented"] == "patchable"
    assert _works(found) == {"boundary count", "boundary time"}
    assert found["modes"][0]["reason"] == "no function has room for a call at its entry"
    assert main(["prof", "check", str(tmp_path / "lib.so")]) == 0
    entries = f"{found['sites']} entries in {found['functions']} functions"
    assert f"  {entries}, 0 of them with room for a call" in capfd.readouterr().out.splitlines()


@pytest.mark.parametrize("flags", ["-pg", "-pg -mfentry", _CYG])
def test_a_library_with_its_own_hook(
    flags: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own = """
    #define PLAIN __attribute__((no_instrument_function))
    PLAIN void __cyg_profile_func_enter(void *a, void *b) {}
    PLAIN void __cyg_profile_func_exit(void *a, void *b) {}
    PLAIN void __fentry__(void) {}
    PLAIN void mcount(void) {}
    """
    words = shlex.split(f"{_SHARED} -Wl,-Bsymbolic {flags}")
    path = built(tmp_path, "lib.so", _TEXT + own, *words)
    found = _check(capfd, path)
    kind = found["instrumented"]
    assert (found["sites"], found["functions"]) == _listed(path, _HOOKS[kind])
    assert found["sites"] >= 7
    assert _works(found) == {"boundary count", "boundary time"}
    assert "a hook of its own" in found["modes"][0]["reason"]


def test_a_static_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = _TEXT + "int main(int count, char **words) { return many(words); }"
    path = built(tmp_path, "program", program, "-O2", "-pg", "-static-pie")
    found = _check(capfd, path)
    assert found["instrumented"] == "mcount"
    assert (found["sites"], found["functions"]) == _listed(path, _HOOKS["mcount"])
    assert not _works(found)


def test_calls_by_a_register_are_no_number(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads the code without running it cannot count them; that they are there is sure."""
    for flags in ("-mindirect-branch=thunk -fno-plt", "-mcmodel=large"):
        path = built(tmp_path, "lib.so", _TEXT, *shlex.split(f"{_SHARED} {_CYG} {flags}"))
        found = _check(capfd, path)
        assert found["instrumented"] == "cyg"
        assert (found["sites"], found["functions"], found["inlined"]) == (None, None, None)
        assert "time" in _works(found)
        assert any("by a register" in line for line in found["advice"])


def test_another_machine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    need("clang", "ld.lld")
    text = "int leaf(int a) { return a + 1; }"
    words = shlex.split(f"--target=aarch64-linux-gnu -nostdlib -fuse-ld=lld -pg {_SHARED}")
    found = _check(capfd, built(tmp_path, "lib.so", text, *words, compiler="clang"))
    assert (found["instrumented"], found["sites"]) == ("mcount", None)
    assert not _works(found)
    assert "aarch64" in found["modes"][0]["reason"]


def test_frames_that_are_realigned(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
    typedef double wide __attribute__((vector_size(32), aligned(32)));
    void use(void *, void *);
    int aligned(int n) { wide w = {n}; use(&w, __builtin_alloca(n)); return n; }
    int plain(int n) { return n + 1; }
    """
    found = _check(capfd, built(tmp_path, "lib.so", text, "-O1", "-pg", *shlex.split(_SHARED)))
    assert any(line.startswith("1 function with an aligned stack") for line in found["advice"])


def test_what_else_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    need("clang")
    resolver = """
    static int one(int n) { return n; }
    static int (*choose(void))(int) { return one; }
    int chosen(int n) __attribute__((ifunc("choose")));
    """
    pg, cyg = "-pg -mfentry", _CYG
    for compiler, flags, text, said in (
        ("gcc", cyg, resolver, "the resolver of the IFUNC chosen calls the hook"),
        ("gcc", f"{pg} -mrecord-mcount -Wl,-z,notext", _TEXT, "-mrecord-mcount has the loader"),
        ("gcc", f"{cyg} -fpatchable-function-entry=5", _TEXT, "with room for a hook at the entry"),
        (
            "gcc",
            "-fpatchable-function-entry=2",
            _TEXT,
            "no room for a call at 9 entries: build with -fpatchable-function-entry=5",
        ),
        ("gcc", f"{pg} {cyg}", _TEXT, "9 sites of another kind of hook: "),
        ("clang", "-fxray-instrument -fxray-instruction-threshold=1", _TEXT, "-fxray-instrument"),
        ("clang", cyg, _TEXT, "clang calls no exit hook where an exception"),
        ("gcc", cyg, _TEXT, "gcc may move the code"),
        ("gcc", "-pg", _TEXT, "gcc -pg -mfentry has the hook called first"),
    ):
        words = shlex.split(f"{_SHARED} -O0 {flags}")
        found = _check(capfd, built(tmp_path, "lib.so", text, *words, compiler=compiler))
        assert [line for line in found["advice"] if said in line], (flags, found["advice"])


def test_a_library_of_the_system(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing of it is instrumented, although its C library offers all the hooks."""
    for name in ("libc.so.6", "libm.so.6"):
        path = Path(run("gcc", f"-print-file-name={name}").strip())
        found = _check(capfd, path)
        assert (found["instrumented"], found["sites"], found["inlined"]) == (None, 0, None)
        assert _works(found) == {"boundary count", "boundary time"}
        assert found["advice"][0].startswith("not instrumented: build with")


def test_modes_that_work_are_those_that_run_takes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = _check(capfd, built(tmp_path, "lib.so", _TEXT, _CYG, *shlex.split(_SHARED)))
    for mode in found["modes"][:5]:
        try:
            parse_mode(mode["mode"])
        except UsageError:
            assert not mode["works"]
        else:
            assert mode["works"]


def test_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = built(tmp_path, "lib.so", _TEXT, "-O2", _CYG, *shlex.split(_SHARED))
    found = _check(capfd, path)
    assert main(["prof", "check", str(path)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == (
        f"{path}: instrumented with -finstrument-functions (__cyg_profile_func_enter)"
    )
    assert f"{found['sites']} call sites in {found['functions']} functions" in lines[1]
    assert f"{found['inlined']} of them" in lines[1]
    assert [line.split()[-1] for line in lines if re.match(r" +\d", line)][1:5] == _MODES[:4]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 2, "LIB"),
        (["a", "b"], 2, "unrecognized arguments: b"),
        (["--depth", "a"], 2, "--depth"),
        (["/nonexistent/lib.so"], 1, "no such file or directory"),
        (["/etc"], 1, "not a regular file"),
        (["/etc/passwd"], 1, "not an ELF file"),
        (["/dev/null"], 1, "not a regular file"),
    ],
)
def test_wrong_input(
    words: list[str], status: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["prof", "check", *words]) == status
    output = capfd.readouterr()
    first, *rest = output.err.splitlines()
    assert said in first
    assert all(line.startswith("  hint: ") for line in rest)
    assert not output.out


def test_what_is_not_linked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    paths = {
        "an object file that is not linked": built(tmp_path, "lib.o", _TEXT, "-c", "-pg"),
        "debugging information alone": tmp_path / "lib.debug",
    }
    library = built(tmp_path, "lib.so", _TEXT, "-g", *shlex.split(_SHARED))
    run("objcopy", "--only-keep-debug", library, tmp_path / "lib.debug")
    for said, path in paths.items():
        assert main(["prof", "check", str(path)]) == 1
        assert said in capfd.readouterr().err
