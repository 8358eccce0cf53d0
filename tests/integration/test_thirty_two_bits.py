# SPDX-License-Identifier: Apache-2.0
"""Programs of 32 bits with a C library: what they, the loader and objdump say of themselves."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.machines.tools import need, not_here
from tests.support.processes import launching
from tests.support.processes.attached import detach
from tests.support.processes.resolving import Teller, teller
from tests.support.processes.run import run
from tests.support.targets import mapped
from tests.support.truth import bound

SOSCOPE = [sys.executable, "-m", "soscope"]
CALLER = """
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <time.h>
    void (*volatile taken)(void *, size_t, size_t, int (*)(const void *, const void *)) = qsort;
    int main(void)
    {
        char *copy = strdup("x");
        taken(copy, 1, 1, (int (*)(const void *, const void *))strcmp);
        puts(copy && time(NULL) ? "ready" : "");
        fflush(stdout);
        getchar();
        qsort(copy, 1, 1, (int (*)(const void *, const void *))strcmp);
        return abs(copy[0]);
    }"""
PIE = ("-fPIE", "-pie")
NO_PIE = ("-fno-pie", "-no-pie")
BUILDS = {
    "lazy": (*PIE, "-fplt", "-Wl,-z,lazy"),
    "now": (*PIE, "-fplt", "-Wl,-z,now"),
    "no-plt": (*PIE, "-fno-plt"),
    "not-pie": (*NO_PIE, "-fplt", "-Wl,-z,lazy"),
    "not-pie-no-plt": (*NO_PIE, "-fno-plt"),
    "ibt": (*PIE, "-fcf-protection=full", "-Wl,-z,lazy", "-Wl,-z,ibtplt"),
    "lld": (*PIE, "-fuse-ld=lld", "-Wl,-z,lazy"),
    "lld-not-pie": (*NO_PIE, "-fuse-ld=lld", "-Wl,-z,lazy"),
    "gold": (*PIE, "-fuse-ld=gold", "-Wl,-z,lazy"),
    "mold": (*PIE, "-fuse-ld=mold", "-Wl,-z,lazy"),
    "mold-not-pie": (*NO_PIE, "-fuse-ld=mold", "-Wl,-z,lazy"),
}
SYMBOLS = ("strdup", "puts", "abs", "qsort", "time")


def caller(build: str) -> Path:
    need("/usr/lib32/libc.so")
    linker = build.split("-", maxsplit=1)[0]
    if linker in {"lld", "gold"}:
        need(f"ld.{linker}")
    elif linker == "mold":
        need("mold")
    return launching.compiled(
        "small.c", "-m32", "-fno-builtin", "-fno-stack-protector", *BUILDS[build], text=CALLER
    )


@pytest.mark.every(6)
@pytest.mark.parametrize("build", BUILDS)
def test_a_slot_is_bound_when_its_loader_says_so(build: str, tmp_path: Path) -> None:
    program = caller(build)
    try:
        running = mapped.started(program, env=bound.debugging(tmp_path))
        with running as process:
            document = mapped.read(process.pid)
            said = bound.told(tmp_path, process.pid, str(program))
    except OSError as error:
        not_here(f"no programs of 32 bits: {error}")
    paths = {one["name"]: os.path.realpath(one["path"]) for one in document["images"]}
    assert not mapped.slots(document, "hooked")
    assert not mapped.slots(document, "interposed")
    checked = 0
    for image in document["images"]:
        for slot in image["slots"]:
            path = os.path.realpath(image["path"])
            told = [one for one in said if (one.importer, one.symbol) == (path, slot["symbol"])]
            twins = [one for one in image["slots"] if one["symbol"] == slot["symbol"]]
            if slot["state"] == "unbound" or slot["to_image"] is None:
                # bound all the same where the address is taken, too: in data, or in a slot for it
                assert not told or slot["symbol"] == "qsort" or len(twins) > 1, slot
            elif told:
                assert paths[slot["to_image"]] in {one.provider for one in told}, slot
                checked += 1
            else:  # bound to itself before it was relocated, by the loader that starts
                assert image["name"].startswith("ld-linux"), slot
    assert checked > 20


def through(program: Path, symbol: str) -> tuple[int, set[tuple[str, int]]]:
    """Return where a symbol's slot is, and what goes through it: (call or jmp, address)."""
    rows = run([need("readelf"), "-rW", str(program)]).stdout
    (slot,) = (
        int(row[0], 16)
        for row in re.findall(
            r"^([0-9a-f]+) .* R_386_(?:JUMP_SLOT|GLOB_DAT) .* (\w+)@", rows, re.MULTILINE
        )
        if row[1] == symbol
    )
    code = run([need("objdump"), "-d", "--no-show-raw-insn", str(program)]).stdout
    # what code puts into %ebx: the address behind a call, and a distance from there
    base = re.search(r"call .*thunk\.bx.*\n *([0-9a-f]+):\tadd +\$(0x[0-9a-f]+),%ebx", code)
    got = int(base[1], 16) + int(base[2], 16) if base else 0
    found = set()
    for at, what, number, register in re.findall(
        r"^ *([0-9a-f]+):\t(?:bnd |notrack )?(call|jmp) +\*(-?0x[0-9a-f]+)(\(%e..\))?",
        code,
        re.MULTILINE,
    ):
        if int(number, 16) + (got if register else 0) == slot:
            found.add((what, int(at, 16)))
    return slot, found


@pytest.mark.every(6)
@pytest.mark.parametrize("build", BUILDS)
def test_the_way_of_a_call(build: str) -> None:
    program = caller(build)
    words = [*SOSCOPE, "explain", "-p"]
    with mapped.started(program) as process:
        for symbol in SYMBOLS:
            slot, code = through(program, symbol)
            done = run([*words, str(process.pid), symbol, "--json", "--from", "MAIN"])
            assert (done.returncode, done.stderr) == (0, "")
            (way,) = json.loads(done.stdout)["ways"]
            bias = int(way["load_bias"], 16)
            assert int(way["slot"]["addr"], 16) == slot + bias
            found = {
                (
                    "call" if one["kind"] == "call" else "jmp",
                    int(one["displacement"], 16) - bias - 2,
                )
                for one in way["uses"]
                if one["kind"] != "load"
            }
            assert found == code, symbol
            if symbol == "strdup":
                assert code
            if "jmp" in {kind for kind, _ in code}:  # stubs begin where the linker says
                assert all(
                    int(one["addr"], 16) % 8 == 0 for one in way["uses"] if one["kind"] == "stub"
                )
            # what a hook would do is not said where there can be none
            assert way["hook"] == ["none: soscope has no agent for programs of this kind"]
            text = run([*words, str(process.pid), symbol]).stdout
            assert text.count(" *") == len(code), text


@pytest.mark.every(3)
@pytest.mark.parametrize("build", ["lazy", "ibt", "lld", "gold", "mold", "mold-not-pie"])
def test_what_a_stub_is_for(build: str) -> None:
    program = caller(build)
    with mapped.started(program) as process:
        map_ = mapped.read(process.pid)
        bias = int(map_["images"][0]["load_bias"], 16)
        _, code = through(program, "strdup")
        ((_, at),) = code
        done = run([*SOSCOPE, "resolve", "-p", str(process.pid), "--json", f"{at + bias:#x}"])
    (answer,) = json.loads(done.stdout)["results"]
    assert (answer["status"], answer["kind"], answer["symbol"]) == ("ok", "plt", "strdup")


def test_the_doctor_and_detach_know_that_there_is_no_agent() -> None:
    program = caller("lazy")
    with mapped.started(program) as process:
        done = detach(process.pid)
        assert (done.returncode, done.stdout) == (0, f"process {process.pid}: nothing to undo\n")
        said = run([*SOSCOPE, "doctor", "-p", str(process.pid)])
        assert said.returncode == 1
        assert "it is made for another architecture" in said.stdout
        assert "glibc 2." in said.stdout


@pytest.mark.every(2)
@pytest.mark.parametrize("flags", [PIE, NO_PIE, (*PIE, "-fno-plt")], ids=" ".join)
def test_names_are_where_dlsym_finds_them(flags: tuple[str, ...]) -> None:
    need("/usr/lib32/libc.so")
    with Teller(teller("-m32", *flags)) as running:
        for name in ("malloc", "puts", "stdout", "environ", "nosuch", "pthread_create", "dlopen"):
            running.check(name, running.tell("default", name))
        for name in ("strlen", "memcpy"):  # IFUNCs: known where something is bound to them
            answer = running.process.answer(name)
            assert answer.addr in (None, running.tell("default", name))
            assert answer.status in ("ok", "unbound")
        running.check("own_tls", running.tell("own", "own_tls"))
        tid, truth = running.in_thread("own-in-thread", "own_tls")
        running.check("own_tls", truth, thread=tid)
        version = "GLIBC_2.0"
        running.check(f"puts@{version}", running.tell("default", "puts", version))
        assert not running.process.picture.scope_is_guessed


STATIC = """
    #include <errno.h>
    #include <stdio.h>
    #include <stdlib.h>
    int main(void)
    {
        puts("ready");
        printf("%p %p %p\\n", (void *)puts, (void *)qsort, (void *)&errno);
        fflush(stdout);
        getchar();
    }"""


def test_a_static_program_says_what_it_knows() -> None:
    need("/usr/lib32/libc.so")
    program = launching.compiled("statically.c", "-m32", "-static", *NO_PIE, text=STATIC)
    with mapped.started(program) as process:
        assert process.stdout is not None
        truth = process.stdout.readline().split()
        words = [*SOSCOPE, "resolve", "-p", str(process.pid), "--json", "puts", "qsort", "errno"]
        found = json.loads(run(words).stdout)["results"]
        assert not mapped.slots(mapped.read(process.pid))
    assert [one["addr"] for one in found[:2]] == truth[:2]
    # its only thread's variables have an address where something leads to them
    assert found[2]["addr"] in (None, truth[2])
