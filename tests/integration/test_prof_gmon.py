# SPDX-License-Identifier: Apache-2.0
"""gmon.out of programs and libraries, beside gprof's reading and what the program has counted."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.files import elffiles, gmonmade
from tests.support.machines.tools import need
from tests.support.processes.run import soscope
from tests.support.time.patience import limit

PROGRAM = """\
#define SLOW __attribute__((noinline))
static volatile long spent;
SLOW void leaf(int n) { for (int i = 0; i < n; i++) spent += i; }
SLOW void mid(int n) { leaf(n); leaf(n); spent++; }
SLOW int deep(int n) { return n ? deep(n - 1) + 1 : 0; }
int main(void)
{
    for (int i = 0; i < 700; i++)
        mid(30000);
    leaf(1);
    return deep(20) != 20;
}
"""
LIBRARY = """\
#define SLOW __attribute__((noinline))
static long calls[2];
static volatile long spent;
SLOW static void inner(int n) { calls[0]++; for (int i = 0; i < n; i++) spent += i; }
void outer(int n) { calls[1]++; inner(n); inner(0); spent++; }
long inner_made(void) { return calls[0]; }
"""
HOST = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
void outer(int), _mcleanup(void), monstartup(unsigned long, unsigned long);
long inner_made(void);
static unsigned long low, high, bias, program;
static int look(struct dl_phdr_info *image, size_t size, void *data)
{
    (void)size, (void)data;
    if (!image->dlpi_name[0])
        program = image->dlpi_addr;
    if (!strstr(image->dlpi_name, "libprofiled"))
        return 0;
    bias = image->dlpi_addr;
    for (int i = 0; i < image->dlpi_phnum; i++)
        if (image->dlpi_phdr[i].p_type == PT_LOAD && image->dlpi_phdr[i].p_flags & PF_X) {
            low = bias + image->dlpi_phdr[i].p_vaddr;
            high = low + image->dlpi_phdr[i].p_memsz;
        }
    return 0;
}
/* the hooks of -finstrument-functions, led to mcount */
__asm__(".globl __cyg_profile_func_enter, __cyg_profile_func_exit;"
        "__cyg_profile_func_enter: jmp *mcount@GOTPCREL(%rip); __cyg_profile_func_exit: ret");
int main(void)
{
    dl_iterate_phdr(look, NULL);
    monstartup(low, high);
    for (int i = 0; i < 500; i++)
        outer(200000);
    _mcleanup();
    printf("{\\"inner\\": %ld, ", inner_made());
    printf("\\"bias\\": %lu, \\"program\\": %lu}\\n", bias, program);
}
"""


def _report(path: Path, *words: str | Path) -> dict[str, Any]:
    done = soscope("report", "--json", path, *words)
    assert (done.returncode, done.stderr) == (0, "")
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["schema"] == "soscope/prof-report/1"
    return said


def _run(program: Path, folder: Path) -> str:
    done = subprocess.run(
        [program], cwd=folder, capture_output=True, text=True, timeout=limit(), check=True
    )
    return done.stdout


def _of(said: dict[str, Any], name: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = [row for row in said["functions"] if row["symbol"] == name]
    (row,) = rows
    return row


def _gprof(program: Path, profile: Path) -> tuple[dict[str, float], dict[tuple[str, str], int]]:
    """Return what gprof says: self seconds by function, calls by (caller, callee)."""
    need("gprof")
    flat = elffiles.run("gprof", "-b", "-p", program, profile)
    times = {
        found[2]: float(found[1])
        for found in re.finditer(r"^ *[\d.]+ +[\d.]+ +([\d.]+) .* (\w+) *$", flat, re.MULTILINE)
    }
    calls: dict[tuple[str, str], int] = {}
    callers: list[tuple[str, int]] = []
    for line in elffiles.run("gprof", "-b", "-q", program, profile).splitlines():
        own = re.match(r"\[\d+\] +[\d.]+ +[\d.]+ +[\d.]+ *(?:\d+(?:\+(\d+))?)? +(\w+) ", line)
        caller = re.match(r" +[\d.]+ +[\d.]+ +(\d+)/\d+ +(\w+) \[", line)
        if own:
            calls |= {(name, own[2]): count for name, count in callers}
            if own[1]:
                calls[own[2], own[2]] = int(own[1])
        if line.startswith("---") or own:
            callers = []
        elif caller:
            callers.append((caller[2], int(caller[1])))
    return times, calls


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "build",
    ["gcc -O2", "gcc -O1 -no-pie", "gcc -O2 -mfentry", "gcc -O2 -m32", "clang -O1"],
)
def test_a_program_as_gprof_reads_it(build: str, tmp_path: Path) -> None:
    compiler, *flags = build.split()
    program = elffiles.built(tmp_path, "prog", PROGRAM, *flags, "-pg", compiler=compiler)
    _run(program, tmp_path)
    times, calls = _gprof(program, tmp_path / "gmon.out")
    assert calls["mid", "leaf"] == 1400
    said = _report(tmp_path / "gmon.out", "--image", program)
    arcs = {(row["caller"], row["callee"]): row["calls"] for row in said["arcs"]}
    assert arcs == calls
    assert _of(said, "leaf")["calls"] == 1401
    for name, seconds in times.items():
        # there are no times if the kernel saw the program at no tick
        assert (_of(said, name)["self_ns"] or 0) == pytest.approx(seconds * 1e9, abs=5e6)
    assert (said["mode"], said["functions"][0]["symbol"]) == ("count", "leaf")
    assert _of(said, "main")["calls"] is None  # the C library has called it
    named = {name: value for value, _, _, name in elffiles.nm(program)}
    rows = [row for row in said["functions"] if not row["symbol"].endswith("@plt")]  # of a tick
    assert all(int(row["addr"], 16) == named[row["symbol"]] for row in rows)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("is_pie", "hooks"), [(True, "-pg"), (False, "-pg"), (True, "-finstrument-functions")]
)
def test_a_library_where_it_was_loaded(tmp_path: Path, hooks: str, *, is_pie: bool) -> None:
    flags = ["-shared", "-fPIC", "-fno-omit-frame-pointer", hooks]
    library = elffiles.built(tmp_path, "libprofiled.so", LIBRARY, *flags)
    words = ["-L.", "-lprofiled", "-Wl,-rpath,$ORIGIN", "-rdynamic"]
    words.append("-pie" if is_pie else "-no-pie")
    made = json.loads(_run(elffiles.built(tmp_path, "host", HOST, *words), tmp_path))
    profile = tmp_path / "gmon.out"
    biases = ["--load-bias", hex(made["bias"])]
    if is_pie:
        biases += ["--program-bias", hex(made["program"])]
    said = _report(profile, "--image", library, *biases)
    # its code tells, too; without, gprof does not know
    for words in ([], biases[:2], ["--load-bias", "0x1000"]):
        told = _report(profile, "--image", library, *words)
        assert {name: told[name] for name in ("functions", "arcs")} == {
            name: said[name] for name in ("functions", "arcs")
        }
        place = hex(made["bias"] - (made["program"] if is_pie else 0))
        is_right = not is_pie and words == biases
        assert is_right or f"addresses are {place} less than in the file" in told["notes"][0]
    assert _of(said, "inner")["calls"] == made["inner"] == 1000
    (arc,) = said["arcs"]
    assert (arc["caller"], arc["callee"], arc["calls"]) == ("outer", "inner", 1000)
    assert _of(said, "inner")["self_ns"] >= 10_000_000
    assert said["functions"][0]["symbol"] == "inner"
    other = elffiles.built(tmp_path, "libother.so", LIBRARY, "-shared", "-fPIC")
    done = soscope("report", profile, "--image", other, *biases)
    assert (done.returncode, done.stderr.count("\n")) == (1, 2)
    assert "no function of its calls mcount at " in done.stderr


def test_callers_that_stand_close_together(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(40)]
    functions = "".join(
        f"int {name}(int a) {{ return leaf(a) + {at + 1}; }}\n" for at, name in enumerate(names)
    )
    calls = "".join(
        f"for (int i = 0; i < {at + 1}; i++) s += {name}(i);\n" for at, name in enumerate(names)
    )
    text = (
        "static volatile int seen;\n__attribute__((noinline)) int leaf(int a) "
        f"{{ seen += a; return seen; }}\n{functions}"
        f"int main(void) {{ int s = 0;\n{calls} return s == 1; }}\n"
    )
    program = elffiles.built(tmp_path, "prog", text, "-Os", "-pg", "-mfentry", "-fno-inline")
    _run(program, tmp_path)
    said = _report(tmp_path / "gmon.out", "--image", program)
    truth = {(name, "leaf"): at + 1 for at, name in enumerate(names)}
    truth |= {("main", name): at + 1 for at, name in enumerate(names)}
    arcs = {(row["caller"], row["callee"]): row["calls"] for row in said["arcs"]}
    assert sum(arcs.values()) == sum(truth.values())
    known = {arc: calls for arc, calls in arcs.items() if arc[0] is not None}
    assert known.items() <= truth.items()
    # mcount has made one count of calls by two functions that return to the same 16 bytes
    lacking = {caller for caller, _ in truth.keys() - known.keys()}
    told = " ".join(note for note in said["notes"] if "mcount does not tell" in note)
    assert 0 < len(lacking) < 10
    assert lacking == set(re.findall(r"\bf\d+", told))


def test_callers_told_by_where_they_begin_and_from_elsewhere(tmp_path: Path) -> None:
    symbol_at_zero = "-Wl,--undefined=__executable_start"
    program = elffiles.built(tmp_path, "prog", PROGRAM, "-O2", symbol_at_zero)
    named = {name: value for value, _, _, name in elffiles.nm(program)}
    arcs = [
        (0, named["mid"], 1 << 31),
        (0, named["mid"], 1 << 31),
        (0x7F00_0000_0000, named["leaf"], 3),
        (named["mid"], named["leaf"], 4),
        (named["leaf"], named["deep"], 5),
    ]
    profile = tmp_path / "gmon.out"
    profile.write_bytes(gmonmade.header(1) + gmonmade.arcs(arcs))
    said = _report(profile, "--image", program)
    assert {(row["caller"], row["callee"]): row["calls"] for row in said["arcs"]} == {
        (None, "mid"): 1 << 32,
        (None, "leaf"): 3,
        ("mid", "leaf"): 4,
        ("leaf", "deep"): 5,
    }
    assert _of(said, "leaf")["calls"] == 7
    assert _of(said, "leaf")["self_ns"] is None


def test_words_that_mean_nothing_here(tmp_path: Path) -> None:
    profile = tmp_path / "gmon.out"
    profile.write_bytes(gmonmade.header(1) + b"\1")
    for words, said in (
        (["-c", "--image", "/bin/true"], "--summary: "),
        ([], "does not name its program"),
        (["--image", "/bin/true", "--load-bias", "far"], "'far' is not an address"),
    ):
        done = soscope("report", profile, *words)
        assert (done.returncode, done.stderr.startswith("soscope: error: ")) == (2, True)
        assert said in done.stderr
    done = soscope("report", profile, "--image", "/bin/true")
    assert (done.returncode, done.stderr) == (
        1,
        f"soscope: error: {profile}: arc at offset 0x15: 20 bytes expected, 0 found\n",
    )
    for words in (["report"], ["prof", "report"]):
        profile.write_bytes(gmonmade.header(1))
        done = soscope(*words, profile, "--image", "/bin/true", "-o", profile)
        assert (done.returncode, "names the recording itself" in done.stderr) == (2, True), words
        assert profile.read_bytes() == gmonmade.header(1)
    recording = tmp_path / "true.sosr"
    soscope("trace", "--record", recording, "--", "true")
    done = soscope("report", recording, "--image", "/bin/true")
    assert (done.returncode, "for profiles of gprof" in done.stderr) == (2, True)
