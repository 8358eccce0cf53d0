# SPDX-License-Identifier: Apache-2.0
"""Names that no loader finds, of programs that run: what they say themselves of each."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from soscope.live.lookup.answer import Query, parse
from soscope.live.process import Process
from tests.support.files.elffiles import build_id, built, pack, run, split
from tests.support.machines.tools import need, not_here
from tests.support.processes.telling import running
from tests.support.truth.asking import asked

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static __attribute__((noinline)) int hidden(int a) { return a * 3 + 1; }
static int counter = 7, zeros[50];
static __thread int each = 3;
static int chosen_a(void) { return 1; }
static void *choose(void) { return chosen_a; }
static int chosen(void) __attribute__((ifunc("choose")));
int other_twin(void);
static int twin(void) { return 1; }
int (*volatile kept[])(void) = {chosen_a, chosen, twin};
int main(void)
{
	printf("hidden %p\\n", (void *)hidden);
	printf("counter %p\\n", (void *)&counter);
	printf("zeros %p\\n", (void *)zeros);
	printf("each %p\\n", (void *)&each);
	printf("chosen %p\\n", (void *)chosen_a);
	printf("twin %p\\n", (void *)twin);
	printf("twin %p\\n", (void *)(unsigned long)other_twin());
	printf("main %p\\n", (void *)main);
	printf("malloc %p\\n", (void *)malloc);
	printf("end %p\\n", NULL);
	fflush(stdout);
	return hidden(counter + each + chosen()) + pause();
}
"""
TWIN = "static int twin(int a) { return a + 2; } long other_twin(void) { return (long)twin; }"


def program(folder: Path, *flags: str) -> Path:
    """Build the program."""
    twin = folder / "twin.c"
    twin.write_text(TWIN)
    text = PROGRAM.replace("int other_twin", "long other_twin")
    return built(folder, "program", text, str(twin), *flags)


def by_build_id(path: Path) -> Path:
    """Split `path` into itself and a debug file where debuggers look; return that."""
    text = build_id(path).hex()
    place = Path("/usr/lib/debug/.build-id") / text[:2] / f"{text[2:]}.debug"
    if not os.access("/usr/lib/debug" if os.path.exists("/usr/lib/debug") else "/usr", os.W_OK):
        not_here("/usr/lib/debug cannot be written")
    place.parent.mkdir(parents=True, exist_ok=True)
    split(path, path.with_name("debug"), link=False)
    shutil.move(path.with_name("debug"), place)
    return place


def by_link(path: Path) -> None:
    """Split `path` into itself and a debug file beside it."""
    split(path, path.with_name("program.debug"))


def check(pid: int, said: dict[str, list[int]], rule: str) -> None:
    """Ask for all names; every answer is what the program says."""
    with Process(pid) as process:
        for name, addrs in said.items():
            answer = process.resolve(name)
            asked(pid, name, addrs[0] if len(addrs) == 1 else 0, answer.addr)
            if name == "twin":
                assert answer.status == "ambiguous"
                assert answer.addr is None
                assert {one.addr for one in answer.candidates} == set(addrs)
                continue
            assert answer.addr == addrs[0], (name, answer.status, answer.why)
            if name == "malloc":
                assert answer.rule == "dlsym"
            else:
                assert answer.rule == rule
            main = process.resolve(name, image="program")
            assert main.addr == addrs[0], name
        assert process.resolve("each").kind == "tls"
        assert process.resolve("chosen").kind == "ifunc"
        for name, more, kind in (
            ("hidden", 0, "function"),
            ("hidden", 2, "function"),
            ("zeros", 199, "object"),
            ("counter", 3, "object"),
        ):
            place = process.locate(said[name][0] + more)
            assert (place.symbol, place.offset, place.rule, place.kind) == (name, more, rule, kind)
        assert process.resolve("hid").status == "none"


WAYS: list[tuple[str, Callable[[Path], object]]] = [
    ("static", lambda _: None),
    ("minidebug", pack),
    ("debug-file", by_link),
]


@pytest.mark.parametrize("flags", [(), ("-no-pie", "-fno-pie")], ids=["pie", "no-pie"])
@pytest.mark.parametrize(("rule", "change"), WAYS, ids=[rule for rule, _ in WAYS])
def test_every_name_that_the_program_says(
    rule: str, change: Callable[[Path], object], flags: tuple[str, ...], tmp_path: Path
) -> None:
    path = program(tmp_path, *flags)
    change(path)
    with running(path) as (pid, said):
        check(pid, said, rule)


def test_a_debug_file_by_build_id(tmp_path: Path) -> None:
    path = program(tmp_path, f"-Wl,--build-id=0x{'ab' * 16}")
    # one of its own: other tests run the same program at the same time
    path.write_bytes(path.read_bytes().replace(b"\xab" * 16, uuid.uuid4().bytes))
    place = by_build_id(path)
    try:
        with running(path) as (pid, said):
            check(pid, said, "debug-file")
    finally:
        place.unlink()


@pytest.mark.parametrize("flags", [("-static",), ("-static-pie",)], ids=" ".join)
def test_a_program_without_a_loader(flags: tuple[str, ...], tmp_path: Path) -> None:
    path = program(tmp_path, *flags, *(("-fPIE",) if "-static-pie" in flags else ()))
    with running(path) as (pid, said), Process(pid) as process:
        for name in ("hidden", "counter", "zeros", "each", "chosen", "main", "malloc"):
            answer = process.resolve(name)
            assert answer.addr == said[name][0], (name, answer.status, answer.why)
            assert answer.rule == "static"
        assert process.resolve("twin").status == "ambiguous"
        place = process.locate(said["malloc"][0] + 1)
        assert place.offset == 1
        # malloc and its aliases are the same
        assert place.addr == said["malloc"][0] + 1


def test_a_stripped_program_says_that_it_knows_nothing(tmp_path: Path) -> None:
    path = program(tmp_path, "-s")
    with running(path) as (pid, said), Process(pid) as process:
        for name in ("hidden", "counter", "each", "twin", "main"):
            assert process.resolve(name).status == "none"
        place = process.locate(said["hidden"][0])
        assert (place.status, place.symbol, place.addr) == ("none", None, None)
        assert place.image is not None
        assert place.image.is_main


def test_the_file_was_deleted(tmp_path: Path) -> None:
    path = program(tmp_path)
    with running(path) as (pid, said):
        path.unlink()
        path.write_text("another file")
        check(pid, said, "static")


def test_a_debug_file_of_another_build_is_refused(tmp_path: Path) -> None:
    path = program(tmp_path)
    by_link(path)
    with path.with_name("program.debug").open("ab") as file:
        file.write(b"!")
    with running(path) as (pid, _), Process(pid) as process:
        answer = process.resolve("hidden")
        assert answer.status == "none"
        assert any("not the checksum" in line for line in answer.why)


def test_what_only_dwarf_has(tmp_path: Path) -> None:
    path = program(tmp_path, "-g")
    run("objcopy", "-N", "hidden", "-N", "counter", "-N", "zeros", path)
    with running(path) as (pid, said), Process(pid) as process:
        for name, kind in (("hidden", "function"), ("counter", "object"), ("zeros", "object")):
            answer = process.resolve(name)
            assert (answer.addr, answer.rule, answer.kind) == (said[name][0], "dwarf", kind)
            assert process.resolve(name, image="program").addr == answer.addr
        many = process.answers(["hidden", *(f"nosuch{number}" for number in range(9))])
        assert [answer.addr for answer in many] == [said["hidden"][0], *[None] * 9]
        place = process.locate(said["hidden"][0] + 2)
        assert (place.symbol, place.offset, place.rule) == ("hidden", 2, "dwarf")


def test_many_addresses_at_once(tmp_path: Path) -> None:
    path = program(tmp_path)
    with running(path) as (pid, said), Process(pid) as process:
        addrs = [addr + more for addrs in said.values() for addr in addrs for more in range(40)]
        addrs += [0, 8, (1 << 64) - 1, addrs[0]]
        for addr, answer in zip(addrs, process.locate_all(addrs), strict=True):
            one = process.locate(addr)
            for field in ("query", "status", "addr", "symbol", "offset", "rule", "kind", "why"):
                assert getattr(answer, field) == getattr(one, field)
        mixed: list[Query | str] = ["malloc", *map(hex, addrs[:20]), "main", parse(hex(addrs[0]))]
        answers = process.answers(mixed)
        assert [one.query for one in answers] == [*mixed[:-1], hex(addrs[0])]
        assert answers[0].addr == said["malloc"][0]
        assert answers[-2].addr == said["main"][0]
        for addr, answer in zip(
            [*addrs[:20], addrs[0]], [*answers[1:21], answers[-1]], strict=True
        ):
            assert answer.symbol == process.locate(addr).symbol


def test_stubs_are_called_so(tmp_path: Path) -> None:
    path = program(tmp_path, "-Wl,-z,lazy", "-no-pie", "-fno-pie")
    listing = run("objdump", "-d", "-j", ".plt", path)
    addr = next(int(row.split()[0], 16) for row in listing.splitlines() if "<pause@plt>:" in row)
    with running(path) as (pid, _), Process(pid) as process:
        place = process.locate(addr + 6)
        assert (place.symbol, place.kind, place.offset) == ("pause", "plt", 6)
        assert place.image is not None
        assert place.image.is_main


def test_gdb_says_the_same_of_libc(tmp_path: Path) -> None:
    path = program(tmp_path)
    with running(path) as (pid, said), Process(pid) as process:
        start = said["malloc"][0]
        libc = process.locate(start).image
        assert libc is not None
        symbols = ("qsort", "getenv", "printf", "strtol", "fopen", "abort")
        addrs = {process.resolve(name, image=libc.name).addr: name for name in symbols}
        words = [word for addr in addrs for word in ("-ex", f"info symbol {addr}+4")]
        said_by_gdb = run("gdb", "-nx", "-batch", "-p", str(pid), *words)
        names = re.findall(r"^(\w+) \+ 4 in section", said_by_gdb, re.MULTILINE)
        assert len(names) == len(symbols)
        for name, addr in zip(names, addrs, strict=True):
            assert addr is not None
            place = process.locate(addr + 4)
            assert place.offset == 4
            assert process.resolve(name, image=libc.name).addr == addr
            assert process.resolve(place.symbol or "", image=libc.name).addr == addr


CXX = """
#include <cstdio>
#include <unistd.h>
namespace ns {
int f(int a) { return a; }
static __attribute__((noinline)) int f(char const *a) { return a != nullptr; }
struct Thing { virtual int get() const; int value; };
int Thing::get() const { return value; }
}
int main(int argc, char **)
{
	int (*one)(int) = ns::f;
	int (*other)(char const *) = ns::f;
	std::printf("ns::f(int) %p\\n", (void *)one);
	std::printf("ns::f(char const*) %p\\n", (void *)other);
	std::printf("ns::f %p\\nns::f %p\\n", (void *)one, (void *)other);
	std::printf("end %p\\n", (void *)0);
	std::fflush(stdout);
	ns::Thing thing{};
	pause();
	return other("") + thing.get();
}
"""


@pytest.mark.parametrize("flags", [(), ("-rdynamic",)], ids=["static", "dynamic"])
def test_cxx_names(flags: tuple[str, ...], tmp_path: Path) -> None:
    need("g++")
    path = built(tmp_path, "cxx", CXX, *flags, compiler="g++")
    with running(path) as (pid, said), Process(pid) as process:
        rules = {}
        for name in ("ns::f(int)", "ns::f(char const*)", "ns::f( char const * )"):
            answer = process.answer(name)
            wanted = said["ns::f(int)" if name == "ns::f(int)" else "ns::f(char const*)"]
            assert (answer.addr, answer.kind) == (wanted[0], "function"), answer.why
            rules[name] = answer.rule
            assert process.answer(f"cxx!{name}").addr == answer.addr
        assert rules["ns::f(int)"] == ("dlsym" if flags else "static")
        assert rules["ns::f(char const*)"] == "static"
        both = process.answer("ns::f")
        assert both.status == "ambiguous"
        assert {one.addr for one in both.candidates} == set(said["ns::f"])
        assert process.answer("ns::g").status == "none"
        get = process.answer("ns::Thing::get() const")
        assert get.symbol == "_ZNK2ns5Thing3getEv"
        # what is exported by the C++ library, by its own name or by ours
        cout = process.answer("std::cout")
        assert cout.addr == process.resolve("_ZSt4cout").addr
