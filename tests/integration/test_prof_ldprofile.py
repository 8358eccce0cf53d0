# SPDX-License-Identifier: Apache-2.0
"""Files that LD_PROFILE writes, beside what the program itself has counted.

Each function of the library counts its own calls; the program prints them at its end.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from soscope.binfmt.profiles import read_ldprofile
from soscope.binfmt.source import BufferSource, FileSource
from soscope.instruments.prof.gmon import ldprofile_profile
from soscope.instruments.prof.names import ImageFunctions
from tests.support.files import elffiles, gmonmade
from tests.support.processes.run import soscope
from tests.support.time.patience import limit

LIBRARY = """\
#define FAR __attribute__((aligned(64), noinline))
#define COUNTED(name) __attribute__((visibility("hidden"))) int name##_calls; \\
    FAR int name##_made(void) { return name##_calls; }
COUNTED(outer) COUNTED(inner) COUNTED(worker) COUNTED(left) COUNTED(right)
#define COUNT(name) __atomic_fetch_add(&name##_calls, 1, __ATOMIC_RELAXED)
FAR int inner(int a) { return COUNT(inner) + a; }
FAR int outer(int a) { COUNT(outer); return inner(a) + inner(a + 1); }
FAR int worker(int a)
{
    COUNT(worker);
    for (volatile int i = 0; i < a; i++)
        ;
    return a;
}
__asm__(".globl left, right; .type left, @function; .type right, @function; .balign 32\\n"
        "left: lock incl left_calls(%rip); ret; .size left, . - left; .balign 16\\n"
        "right: lock incl right_calls(%rip); ret; .size right, . - right; .balign 64");
"""
PROGRAM = """\
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
int inner(int), outer(int), worker(int), left(void), right(void);
int inner_made(void), outer_made(void), worker_made(void), left_made(void), right_made(void);
static void *work(void *count)
{
    for (long i = 0; i < (long)count; i++)
        outer(i);
    return NULL;
}
int main(int argc, char **argv)
{
    pthread_t threads[4];
    long each = atol(argv[1]);
    (void)argc;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, (void *)each);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    inner(1);
    for (int i = 0; i < atoi(argv[2]); i++)
        worker(1000000);
    for (int i = 0; i < atoi(argv[3]); i++)
        left();
    for (int i = 0; i < atoi(argv[4]); i++)
        right();
    printf("{\\"inner\\": %d, \\"outer\\": %d, \\"worker\\": %d, ", inner_made(), outer_made(),
           worker_made());
    printf("\\"left\\": %d, \\"right\\": %d}\\n", left_made(), right_made());
}
"""
NAME = "libcounted.so"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("counted")
    lazy = "-Wl,-z,lazy"
    elffiles.built(path, NAME, LIBRARY, "-shared", "-fPIC", lazy, f"-Wl,-soname,{NAME}")
    words = ["-L.", "-lcounted", "-Wl,-rpath,$ORIGIN", lazy, "-pthread"]
    elffiles.built(path, "counting", PROGRAM, *words)
    return path


def _profiled(folder: Path, output: Path, *words: int, name: str = NAME) -> dict[str, int]:
    """Run the program under LD_PROFILE; return the calls that it counted itself."""
    output.mkdir(exist_ok=True)
    done = subprocess.run(
        [folder / "counting", *map(str, words)],
        env=os.environ | {"LD_PROFILE": name, "LD_PROFILE_OUTPUT": str(output)},
        capture_output=True,
        text=True,
        timeout=limit(),
        check=True,
    )
    assert done.stderr == ""
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def _shown(*words: str | Path) -> dict[str, Any]:
    done = soscope("prof", "report", "--json", *words)
    assert (done.returncode, done.stderr) == (0, "")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def _calls(said: dict[str, Any]) -> dict[str, int | None]:
    return {row["symbol"]: row["calls"] for row in said["functions"]}


def test_counts_of_four_threads(folder: Path, tmp_path: Path) -> None:
    made = _profiled(folder, tmp_path / "out", 5000, 400, 0, 0)
    said = _shown(tmp_path / "out" / f"{NAME}.profile", "--image", folder / NAME)
    calls = _calls(said)
    assert {name: calls[name] for name in ("inner", "outer", "worker")} == {
        name: made[name] for name in ("inner", "outer", "worker")
    }
    arcs = {(row["caller"], row["callee"]): row["calls"] for row in said["arcs"]}
    assert arcs["outer", "inner"] == made["inner"] - 1
    assert (arcs[None, "inner"], arcs[None, "outer"]) == (1, made["outer"])
    assert all(row["callee_image"] == NAME for row in said["arcs"])
    assert said["totals"]["calls"] == sum(row["calls"] for row in said["arcs"])
    assert (said["schema"], said["boundary"]) == ("soscope/prof-report/1", "count")
    named = {name: value for value, _, _, name in elffiles.nm(folder / NAME)}
    rows = [row for row in said["functions"] if not row["symbol"].endswith("@plt")]  # of a tick
    assert all(int(row["addr"], 16) == named[row["symbol"]] for row in rows)
    # it looped for some tenths of a second, the others for thousandths
    assert said["functions"][0]["symbol"] == "worker"
    assert said["functions"][0]["self_ns"] % 10_000_000 == 0


def test_functions_that_share_32_bytes_have_no_number(folder: Path, tmp_path: Path) -> None:
    made = _profiled(folder, tmp_path / "out", 0, 0, 300, 20)
    said = _shown(tmp_path / "out" / f"{NAME}.profile", "--image", folder / NAME)
    calls = _calls(said)
    assert (calls["left"], calls["right"]) == (None, None)
    assert calls["inner"] == made["inner"] == 1
    (note,) = [note for note in said["notes"] if "tell apart" in note]
    assert note == f"{NAME}: LD_PROFILE does not tell apart left, right: 320 calls in all"
    (arc,) = [row for row in said["arcs"] if row["callee"] == "left"]
    assert arc["calls"] is None


def test_several_runs_add_up_and_that_is_said(folder: Path, tmp_path: Path) -> None:
    first = _profiled(folder, tmp_path / "out", 100, 0, 0, 0)
    second = _profiled(folder, tmp_path / "out", 200, 0, 0, 0)
    said = _shown(tmp_path / "out" / f"{NAME}.profile", "--image", folder / NAME)
    assert _calls(said)["inner"] == first["inner"] + second["inner"]
    assert any("several runs" in note for note in said["notes"])


CHAINS = """\
__asm__(".text; .globl near, first, far; .type near, @function; .type first, @function;"
        ".type far, @function; .balign 4096; near: ret; .size near, . - near; .skip 63;"
        "first: ret; .size first, . - first; .skip 0xe000 - 65; far: ret; .size far, . - far;"
        ".skip 63");
void inside(void) {}
void outside(void) { inside(); }
"""
CALLER = """\
#include <stdlib.h>
void near(void), first(void), far(void);
int main(int argc, char **argv)
{
    (void)argc;
    for (int i = 0; i < atoi(argv[1]); i++)
        near();
    for (int i = 0; i < atoi(argv[2]); i++)
        first();
    for (int i = 0; i < atoi(argv[3]); i++)
        far();
}
"""


def test_a_later_run_counts_for_a_function_at_an_eighth(tmp_path: Path) -> None:
    words = ["-shared", "-fPIC", "-Wl,-z,lazy", "-Wl,-soname,libchains.so"]
    library = elffiles.built(tmp_path, "libchains.so", CHAINS, *words)
    named = {name: value - 0x1000 for value, _, _, name in elffiles.nm(library)}
    assert (named["near"], named["far"]) == (0x2000, 0x10000)
    words = ["-L.", "-lchains", "-Wl,-rpath,$ORIGIN", "-Wl,-z,lazy"]
    program = elffiles.built(tmp_path, "caller", CALLER, *words)
    env = os.environ | {"LD_PROFILE": "libchains.so", "LD_PROFILE_OUTPUT": str(tmp_path)}
    for counts in (["3", "4", "0"], ["0", "0", "50"]):
        subprocess.run([program, *counts], env=env, timeout=limit(), check=True)
    profile = tmp_path / "libchains.so.profile"
    with profile.open("rb") as file:
        arcs = read_ldprofile(FileSource(file.fileno(), "")).arcs
    assert (0, 0x2000, 3 + 50) in arcs  # as it stands there
    assert len(arcs) == 2
    said = _shown(profile)
    calls = _calls(said)
    assert (calls["near"], calls["far"], calls["first"]) == (None, None, 4)
    assert "does not tell apart near, far: 53 calls in all" in "".join(said["notes"])


def test_the_library_is_found_by_the_name_of_the_file(folder: Path, tmp_path: Path) -> None:
    made = _profiled(folder, folder, 10, 0, 0, 0)
    assert _calls(_shown(folder / f"{NAME}.profile"))["outer"] == made["outer"]  # beside it
    below = tmp_path / "out" / str(folder).lstrip("/")
    below.mkdir(parents=True)
    made = _profiled(folder, tmp_path / "out", 20, 0, 0, 0, name=str(folder / NAME))
    assert _calls(_shown(below / f"{NAME}.profile"))["outer"] == made["outer"]
    done = soscope("report", "--json", below / f"{NAME}.profile")
    assert (done.returncode, _calls(json.loads(done.stdout))["outer"]) == (0, made["outer"])


def test_libraries_that_it_is_not_of(folder: Path, tmp_path: Path) -> None:
    _profiled(folder, tmp_path, 10, 0, 0, 0)
    lost = tmp_path / f"{NAME}.profile"
    done = soscope("prof", "report", lost)
    assert done.returncode == 1
    assert done.stderr == (
        f"soscope: error: {lost}: its library is not known\n  hint: name it: --image LIB\n"
    )
    other = elffiles.built(
        tmp_path,
        "libbig.so",
        "char *x(int a){return 0;}",
        "-shared",
        "-fPIC",
        "-Wl,-z,noseparate-code",
    )
    done = soscope("prof", "report", lost, "--image", other)
    assert (done.returncode, done.stderr.count("\n")) == (1, 2)
    assert (
        "not the library that was profiled: of that, the code lies at 0x1000-0x2000" in done.stderr
    )
    done = soscope("prof", "report", lost, "--image", folder / "nothing.so")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_what_is_no_such_file(tmp_path: Path) -> None:
    cut = tmp_path / "libz.so.1.profile"
    cut.write_bytes(b"gmon\xff\xff\1\0" + bytes(14))
    for path, said in (
        (Path("/etc/hostname"), "is a text, not a recording of soscope"),
        (cut, "tag at offset 0x14: 4 bytes expected, 2 found"),
        (tmp_path / "none", "no such file or directory"),
        (tmp_path, "not a regular file"),
    ):
        done = soscope("prof", "report", path, "--image", "/bin/true")
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
        assert said in done.stderr.lower()
    done = soscope("prof", "report", "/etc/hostname")
    said = "soscope: error: '/etc/hostname' is a text, not a recording of soscope\n"
    assert (done.returncode, done.stderr) == (1, said)
    assert soscope("prof", "report").returncode == 2


def test_whatever_stands_in_a_file_no_call_is_lost(folder: Path) -> None:
    functions = ImageFunctions(str(folder / NAME), with_lines=False)
    symbols = elffiles.nm(folder / NAME)
    starts = [value - 0x1000 for value, size, kind, _ in symbols if size and kind == "T"]
    chosen = random.Random(16)
    for _ in range(200):
        places = [*starts, *(chosen.randrange(0x1000) for _ in range(5))]
        arcs = [
            (chosen.choice([0, *places]), chosen.choice(places), chosen.choice([0, 1, 1 << 31]))
            for _ in range(chosen.randrange(60))
        ]
        data = gmonmade.ldprofile(0x1000, 0x1000, arcs, ticks={chosen.randrange(0x400): 3})
        profile = ldprofile_profile(read_ldprofile(BufferSource(data)), functions)
        total = sum(count for _, _, count in arcs)
        known = sum(arc.calls for arc in profile.arcs if arc.calls is not None)
        mixed = [re.search(r": ([\d,]+) calls in all$", note) for note in profile.notes]
        together = sum(int(match[1].replace(",", "")) for match in mixed if match)
        assert profile.calls == known + together == total
        assert sum(sums.self_ns or 0 for sums in profile.sums) == 30_000_000
