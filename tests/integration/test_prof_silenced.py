# SPDX-License-Identifier: Apache-2.0
"""While hooks are quiet, code that calls them by a slot has no-operations there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from soscope.proc import status
from soscope.wire.layout import PAGE
from tests.integration.test_prof_hazards import said
from tests.integration.test_prof_patchable import busy, code_of
from tests.support.machines.tools import need
from tests.support.processes import attached, reported
from tests.support.processes.launching import environment
from tests.support.processes.run import run
from tests.support.targets.build import made
from tests.support.targets.covering import sizes
from tests.support.time.patience import limit, until

# by the size of a call: through a slot, or of the linker's stub
NOTHING = {6: bytes.fromhex("660f1f440000"), 5: bytes.fromhex("0f1f440000")}
WAYS = [
    ("gcc", "pg"),
    ("gcc", "fentry", "-fcf-protection"),
    ("gcc", "cyg", "-fno-plt"),
    ("gcc", "cyg", "-O2", "-fcf-protection"),
    ("gcc", "cyg", "-Os", "-Wl,-z,lazy"),
    ("gcc", "pg", "-O2", "-fuse-ld=gold"),
    ("gcc", "cyg", "-O2", "-fcf-protection", "-fuse-ld=mold", "-Wl,-z,lazy"),
    ("clang", "pg", "-fcf-protection"),
    ("clang", "pg", "-O2", "-Wl,-z,lazy"),
    ("clang", "cyg", "-Os"),
    ("clang", "cyg", "-O2", "-fuse-ld=lld"),
    ("clang", "fentry", "-fno-plt"),
]
HOOK = re.compile(r"<(?:mcount|__fentry__|__cyg_profile_func_\w+)(?:@|\$plt)")


def call_sites(library: Path) -> dict[int, int]:
    """Return the sizes of calls of hooks as objdump sees them, by the place in the code's pages."""
    listing = run([need("objdump"), "-dw", str(library)]).stdout
    found = re.findall(r"^ *([0-9a-f]+):\t((?:ff 15|e8) [0-9a-f ]+)\t(.*)$", listing, re.MULTILINE)
    headers = run([need("readelf"), "-lW", str(library)]).stdout
    (start,) = re.findall(r"LOAD +0x[0-9a-f]+ 0x([0-9a-f]+) .* R E ", headers)
    return {
        int(at, 16) - (int(start, 16) & -PAGE): len(code.split())
        for at, code, text in found
        if HOOK.search(text)
    }


@contextmanager
def attached_to(pid: int) -> Iterator[subprocess.Popen[str]]:
    """Give a soscope that keeps a process quiet, until the end of the block or of the test."""
    words = [sys.executable, "-m", "soscope", "prof", "attach", "-p", str(pid), "--mode", "quiet"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as soscope:
        try:
            attached.assert_it_profiles(soscope, pid)
            yield soscope
            soscope.wait(limit())
        finally:
            soscope.kill()


@pytest.mark.every(9)
@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_calls_become_no_operations_and_come_back(way: tuple[str, ...]) -> None:
    with busy(*way) as (pid, library):
        before, sites = code_of(pid, library), call_sites(library)
        assert len(sites) >= 5
        quiet = bytearray(before)
        for at, size in sites.items():
            quiet[at : at + size] = NOTHING[size]
        with attached_to(pid) as soscope:
            assert code_of(pid, library) == quiet
            soscope.send_signal(signal.SIGINT)
        assert code_of(pid, library) == before


def program_of(soscope: int, program: str) -> int:
    """Return the process of a program that a soscope runs."""

    def found() -> int:
        for pid in status.descendants(soscope):
            with suppress(FileNotFoundError):  # one that is over, or not there yet
                if os.readlink(f"/proc/{pid}/exe") == program:
                    return pid
        return 0

    return until(found, f"{program} runs")


@pytest.mark.covering(1)
@pytest.mark.parametrize("bind", ["", "1"], ids=["lazy", "bound"])
@pytest.mark.parametrize("way", [("gcc", "cyg"), ("clang", "pg")], ids=" ".join)
def test_a_program_that_is_started_makes_no_calls(way: tuple[str, str], bind: str) -> None:
    compiler, hooks = way
    program, *_ = reported.program("reported", hooks, compiler, "-O0", "-Wl,-z,lazy")
    library = Path(program).with_name("libreported.so")
    words = [sys.executable, "-m", "soscope", "prof", "run", "-q", "--mode", "quiet", "--"]
    with subprocess.Popen(
        [*words, program, "0", "2"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**environment(), "LD_BIND_NOW": bind},
    ) as soscope:
        try:
            pid = program_of(soscope.pid, program)
            reported.until_loaded(pid, str(library))
            sites = call_sites(library)

            def are_quiet() -> bool:
                code = code_of(pid, library)
                return all(code[at:][:size] == NOTHING[size] for at, size in sites.items())

            until(are_quiet, "no-operations are in the place of calls", running=soscope)
        finally:
            soscope.communicate(b"\n", timeout=limit())
    assert len(sites) >= 5
    assert soscope.returncode == 3


@pytest.mark.parametrize("times", sizes(10, 40))
def test_it_comes_and_goes_often_while_threads_call(times: int) -> None:
    with busy("gcc", "pg", threads=4) as (pid, library):
        before = code_of(pid, library)
        for _ in range(times):
            reported.looked(pid, "quiet", cpu=0.03)
            assert code_of(pid, library) == before


def test_what_a_killed_soscope_has_left_is_put_back() -> None:
    with busy("gcc", "fentry") as (pid, library):
        before = code_of(pid, library)
        with attached_to(pid) as soscope:
            assert code_of(pid, library) != before
            soscope.kill()
        assert code_of(pid, library) != before
        # another one that counts, and sees each call
        calls = reported.looked(pid, "count")
        assert sum(node.calls for thread in calls.threads for node in thread.nodes)
        assert code_of(pid, library) == before


@pytest.mark.covering(1)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("hooks", ["pg", "fentry", "cyg"])
@pytest.mark.parametrize("opt", ["-O0", "-O2 -fno-plt", "-Os -fcf-protection"])
def test_a_program_finds_what_it_finds(opt: str, hooks: str, compiler: str) -> None:
    """Signals, coroutines, vfork, aligned frames, nested functions: see the target."""
    command = reported.program("hazards", hooks, compiler, *opt.split())
    plain = run(command, timeout=limit())
    account = reported.observe("quiet", command)
    assert account.status == plain.returncode == 5
    assert said(account.out)[0] == said(plain.stdout)[0]
    assert not account.calls("libhazards.so")


COMES = """
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        unsigned char *(*code)(void) = library ? dlsym(library, "code") : 0;
        int hooks = 0, at;
        if (argc < 2 || !code || code()[0] == 0)
            return 1;
        for (at = 0; at < 32; at++)
            hooks += !memcmp(code() + at, "\\x66\\x0f\\x1f\\x44\\0\\0", 6);
        printf("%d\\n", hooks);
        dlclose(library);
    }
    return 7;
}
"""
CODE = "unsigned char *code(void) { return (unsigned char *)code; }\n"


def test_a_library_that_comes_and_goes(tmp_path: Path) -> None:
    there = made(
        {"comes.c": COMES, "code.c": CODE},
        "gcc -O1 -o comes comes.c -ldl",
        "gcc -O1 -pg -mfentry -fPIC -shared -fcf-protection -o libcode.so code.c",
    )
    program, library = str(there / "comes"), str(there / "libcode.so")
    words = [sys.executable, "-m", "soscope", "prof", "run", "-q", "--mode", "quiet"]
    done = run([*words, "-o", str(tmp_path / "r.sosr"), program, library])
    assert (done.returncode, done.stdout) == (7, "1\n1\n1\n")
    assert run([program, library]).stdout == "0\n0\n0\n"
