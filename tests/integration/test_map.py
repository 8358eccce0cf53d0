# SPDX-License-Identifier: Apache-2.0
"""The map of a process: what dladdr and dlsym say inside of it, and gdb from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.support.machines.tools import need, not_here
from tests.support.processes import launching
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.targets.mapped import (
    BUILDS,
    MAP_WORDS,
    caller,
    libc_of,
    read,
    rows_of,
    slots,
    started,
)
from tests.support.targets.matrix import Cell
from tests.support.time.patience import limit, until
from tests.support.time.progress import reads_input

SVG = "{http://www.w3.org/2000/svg}"

# Answers a slot's address with what it holds, and what dladdr and dlsym say of it.
INSIDE = """
import ctypes, json, sys
class Info(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("addr", ctypes.c_void_p)]
libc = ctypes.CDLL(None)
libc.dlsym.restype = ctypes.c_void_p
libc.dlsym.argtypes = ctypes.c_void_p, ctypes.c_char_p
for name in json.loads(sys.argv[1]):
    __import__(name)
print("ready", flush=True)
for line in sys.stdin:
    answers = []
    for addr, symbol in json.loads(line):
        value = ctypes.c_uint64.from_address(addr).value
        info = Info()
        known = libc.dladdr(ctypes.c_void_p(value), ctypes.byref(info))
        answers.append([value, info.file.decode() if known else None,
                        libc.dlsym(None, symbol.encode())])
    print(json.dumps(answers), flush=True)
"""


class Inside:
    """A Python program that can be asked about its own slots."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid

    def ask(self, slots: list[dict[str, Any]]) -> list[tuple[int, str | None, int | None]]:
        """Return (value, file that dladdr names, what dlsym says of the name) for each slot."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        question = [[int(one["addr"], 16), one["symbol"]] for one in slots]
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return [tuple(row) for row in json.loads(self.process.stdout.readline())]


@contextlib.contextmanager
def inside(*modules: str, env: Mapping[str, str] | None = None) -> Iterator[Inside]:
    python = need("/usr/bin/python3")
    with started(python, "-c", INSIDE, json.dumps(modules), env=env) as process:
        yield Inside(process)


# ---- against the process itself ------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize("now", ["", "1"], ids=["lazy", "bind-now"])
def test_slots_lead_where_dladdr_says(now: str) -> None:
    modules = "ssl", "sqlite3", "zlib", "_curses", "_decimal"
    with inside(*modules, env={"LD_BIND_NOW": now} if now else None) as program:
        document = read(program.pid)
        names = {one["name"]: os.path.realpath(one["path"]) for one in document["images"]}
        bound = [one for one in slots(document, "bound") if one["to_image"] is not None]
        assert len(bound) > 3000
        answers = program.ask(bound)
    assert not slots(document, "hooked")
    for slot, (value, file, _) in zip(bound, answers, strict=True):
        assert value == int(slot["value"], 16)
        if slot["to_image"] == "linux-vdso.so.1":
            assert file == "linux-vdso.so.1"
        else:
            assert file is not None
            assert os.path.realpath(file) == names[slot["to_image"]], slot
    assert bool(slots(document, "unbound")) == (not now)


def test_an_unbound_slot_is_bound_by_its_first_call_where_it_was_expected() -> None:
    source = """
        #include <stdio.h>
        #include <stdlib.h>
        int main(void)
        {
            puts("ready");
            fflush(stdout);
            getchar();
            printf("%d\\n", abs(-12));
            fflush(stdout);
            getchar();
        }"""
    flags = "-Wl,-z,lazy", "-fplt", "-fcf-protection=none", "-fno-builtin"
    program = launching.compiled("later.c", *flags, text=source)
    with started(program) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        (before,) = slots(read(process.pid, "-e", "abs", "--from", "MAIN"))
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "12\n"
        (after,) = slots(read(process.pid, "-e", "abs", "--from", "MAIN"))
    assert (before["state"], after["state"]) == ("unbound", "bound")
    assert before["to_image"] is None
    assert before["expected_image"] == after["to_image"] == after["expected_image"]
    assert after["to_symbol"] == "abs"
    assert before["addr"] == after["addr"]


def test_images_are_those_of_the_link_map_in_its_order() -> None:
    listing = """
import ctypes, json
found = []
class Info(ctypes.Structure):
    _fields_ = [("addr", ctypes.c_void_p), ("name", ctypes.c_char_p)]
@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p)
def see(info, size, data):
    found.append([info.contents.addr or 0, info.contents.name.decode()])
    return 0
ctypes.CDLL(None).dl_iterate_phdr(see, None)
print(json.dumps(found), flush=True)
input()
"""
    words = [need("/usr/bin/python3"), "-c", listing]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        document = read(process.pid)
        process.kill()
    images = document["images"]
    assert [int(one["load_bias"], 16) for one in images] == [addr for addr, _ in told]
    names = [os.path.basename(name) for _, name in told]
    assert [one["name"] for one in images][1:] == names[1:]
    assert all(one["namespace"] == 0 for one in images)
    for one in images:
        starts = [int(mapping["start"], 16) for mapping in one["mappings"]]
        assert starts == sorted(starts)
        assert starts


# ---- interposed ----------------------------------------------------------------------


def interposer(*flags: str) -> Path:
    text = """
        extern void *__libc_malloc(unsigned long);
        void *malloc(unsigned long size) { return __libc_malloc(size); }"""
    return launching.compiled("interposer.c", "-shared", "-fPIC", *flags, text=text)


@pytest.mark.every(2)
@pytest.mark.parametrize("binding", BUILDS)
def test_what_is_preloaded_interposes(binding: str) -> None:
    library = interposer()
    with started(caller(binding), env={"LD_PRELOAD": str(library)}) as process:
        document = read(process.pid)
        changed = read(process.pid, "--changed")
    libc = libc_of(document)
    found = [one for one in slots(document) if one["symbol"] == "malloc"]
    assert found
    assert not [one for one in found if one["state"] == "hooked"]
    own = [one for one in slots(document, image="caller") if one["symbol"] == "malloc"]
    if binding == "not-pie":  # the program's own stub stands for it; its slot is interposed
        assert {one["to_image"] for one in own} == {library.name}
    for one in own:
        assert (one["state"], one["to_image"]) == ("interposed", library.name)
        assert (one["to_symbol"], one["expected_image"]) == ("malloc", libc)
    assert {one["symbol"] for one in slots(document, "interposed")} == {"malloc"}
    assert slots(changed) == []


def test_a_definition_in_the_program_interposes_and_copies_do_not() -> None:
    text = """
        #include <stdio.h>
        #include <stdlib.h>
        void free(void *memory) { (void)memory; }
        int main(void)
        {
            fputs("ready\\n", stdout);
            fflush(stdout);
            getchar();
            free(stderr);
        }"""
    flags = "-fno-pie", "-no-pie", "-fno-builtin", "-rdynamic"
    program = launching.compiled("defines.c", *flags, text=text)
    with started(program) as process:
        document = read(process.pid)
    libc = libc_of(document)
    assert {(one["symbol"], one["to_image"]) for one in slots(document, "interposed")} == {
        ("free", "defines")
    }
    copied = [one for one in slots(document, image=libc) if one["symbol"] == "stdout"]
    assert [(one["state"], one["to_image"]) for one in copied] == [("bound", "defines")]


def test_what_no_needed_promises_is_simply_bound() -> None:
    """Extension modules take their functions from the program that loads them."""
    with inside("_ctypes") as program:
        document = read(program.pid)
    (name,) = [one["name"] for one in document["images"] if one["name"].startswith("_ctypes.")]
    found = [one for one in slots(document, image=name) if one["symbol"].startswith("Py")]
    main = document["images"][0]["name"]
    assert len(found) > 50
    states = {(one["state"], one["expected_image"]) for one in found}
    assert states <= {("bound", main), ("unbound", main)}
    assert not slots(document, "interposed")


# ---- hooked --------------------------------------------------------------------------


def gdb(pid: int, *commands: str) -> str:
    words = [need("gdb"), "-nx", "-batch", "-p", str(pid)]
    for command in ("set debuginfod enabled off", *commands):
        words += ["-ex", command]
    return run(words).stdout


@pytest.mark.every(5)
@pytest.mark.parametrize("binding", BUILDS)
def test_a_hook_made_by_another_tool_is_found(binding: str) -> None:
    with started(caller(binding)) as process:
        pid = process.pid
        before = read(pid)
        (slot,) = rows_of(before, "strdup", "caller")
        assert slot["state"] == "bound"
        libc = slot["to_image"]
        heap = next(
            line.split("-")[0]
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines()
            if line.endswith("[heap]")
        )
        wrong = {"puts": libc, f"0x{heap}": "[heap]", "main": "caller", "0x10": "unmapped memory"}
        for target, owner in wrong.items():
            value = target if target.startswith("0x") else f"(long)&{target}"
            gdb(pid, f"set *(long *){slot['addr']} = {value}")
            after = read(pid, "--changed")
            (hooked,) = slots(after)
            assert (hooked["addr"], hooked["state"]) == (slot["addr"], "hooked")
            assert (hooked["to_image"], hooked["expected_image"]) == (owner, libc)
            if not target.startswith("0x"):
                assert hooked["to_symbol"] in (target, None, "_IO_puts")
            said = gdb(pid, f"x/gx {slot['addr']}")
            content = re.search(r":\s+(0x[0-9a-f]+)$", said, re.MULTILINE)
            assert content is not None
            assert content[1] == f"0x{int(hooked['value'], 16):016x}"
        gdb(pid, f"set *(long *){slot['addr']} = {slot['value']}")
        assert read(pid) == before


REAIMED = """
    #include <stdio.h>
    #include <stdlib.h>
    long spare[2];
    int main(void)
    {
        void *(*volatile taken)(size_t) = malloc;
        char *a = malloc(9), *b = taken(3);
        puts(a && b ? "ready" : "");
        fflush(stdout);
        getchar();
    }"""


@pytest.mark.every(4)
@pytest.mark.parametrize("binding", ["lazy", "now", "no-plt", "ibt"])
def test_code_that_another_tool_has_re_aimed_is_found(binding: str) -> None:
    """The address of malloc is taken: what calls it does so by .plt.got, or in the open."""
    program = launching.compiled("reaimed.c", "-fno-builtin", *BUILDS[binding], text=REAIMED)
    with started(program) as process:
        pid = process.pid
        before = read(pid)
        (slot,) = rows_of(before, "malloc", "reaimed")
        words = [sys.executable, "-m", "soscope", "explain", "--json", "-p", str(pid), "malloc"]
        (way,) = json.loads(run([*words, "--from", "MAIN"]).stdout)["ways"]
        code = [one for one in way["uses"] if one["kind"] in ("stub", "call")]
        assert len(code) == 1
        end = int(code[0]["displacement"], 16) + 4
        place = f"*(int *)({end} - 4)"
        gdb(pid, "set spare[1] = (long)&calloc", f"set {place} = (int)((long)&spare[1] - {end})")
        (hooked,) = slots(read(pid, "--changed"))
        assert (hooked["addr"], hooked["symbol"]) == (slot["addr"], "malloc")
        assert hooked["to_image"] == slot["to_image"]
        assert hooked["to_symbol"] in ("calloc", "__libc_calloc")  # one address, two names
        assert hooked["value"] == slot["value"]  # the slot itself is what it was
        text = run([*MAP_WORDS, "--changed", "-p", str(pid)]).stdout
        assert f"{slot['to_image']} {hooked['to_symbol']} (0x" in text
        assert "through 1 re-aimed instruction, not" in text
        gdb(pid, f"set {place} = (int)({slot['addr']} - {end})")
        assert not slots(read(pid, "--changed"))


@pytest.mark.covering(1)
@pytest.mark.parametrize("binding", ["lazy", "now", "no-plt", "ibt"])
@pytest.mark.parametrize("target", ["calls", "pointers"])
def test_slots_of_a_traced_program_are_hooked_by_the_agent(target: str, binding: str) -> None:
    """As many as the agent itself says it hooked, image by image, re-aimed code included."""
    program = build.program(target, Cell(binding=binding))
    words = [sys.executable, "-m", "soscope", "trace", "-q", "-c", "--json", "--from", "all"]
    gate = launching.compiled("gate.c", "-shared", "-fPIC", text=GATE)
    output = program.parent / f"map-{os.getpid()}.json"
    process = subprocess.Popen(
        [*words, "-o", str(output), "--", str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "LD_PRELOAD": str(gate), "GATE_OF": str(program)},
    )
    with process:
        assert process.stdin is not None
        traced = waiting_below(process.pid, program)
        document = read(traced)
        changed = read(traced, "--changed")
        process.stdin.close()
        process.wait(limit())
    summary = json.loads(output.read_text())
    output.unlink()
    said = {one["name"]: one["hooked_slots"] for one in summary["images"] if one["hooked_slots"]}
    hooked = Counter(
        one["name"]
        for one in document["images"]
        for slot in one["slots"]
        if slot["state"] == "hooked"
    )
    assert hooked == said
    assert {one["to_image"] for one in slots(changed)} == {"soscope's agent"}
    assert len(slots(changed)) == sum(said.values())


@pytest.mark.every(3)
@pytest.mark.parametrize("binding", BUILDS)
def test_what_an_attached_soscope_hooks_is_as_before_afterwards(binding: str) -> None:
    with started(caller(binding)) as process:
        pid = str(process.pid)
        before = read(process.pid)
        words = [sys.executable, "-m", "soscope", "trace", "-c", "-o", "/dev/null"]
        tracer = subprocess.Popen(
            [*words, "--from", "all", "-p", pid], stderr=subprocess.PIPE, text=True
        )
        try:

            def changed() -> list[dict[str, Any]]:
                found = slots(read(process.pid, "--changed"))
                return found if len(found) > 10 else []

            hooked = until(changed, "slots are hooked", running=tracer)
            assert {one["to_image"] for one in hooked} == {"soscope's agent"}
            assert {one["state"] for one in hooked} == {"hooked"}
        finally:
            tracer.terminate()
            tracer.communicate(timeout=limit())
        after = read(process.pid)
    assert slots(after) == slots(before)


# Reads its standard input before main, behind the agent's start.
GATE = """
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    __attribute__((constructor)) static void wait(void)
    {
        char byte, path[4096] = {0}, *program = getenv("GATE_OF");
        if (program && readlink("/proc/self/exe", path, 4095) > 0 && !strcmp(path, program))
            (void)!read(0, &byte, 1);
    }"""


def waiting_below(pid: int, program: Path) -> int:
    """Return the child of `pid` that runs `program` and waits for input."""

    def waiting() -> int:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in map(int, children):
            with contextlib.suppress(OSError):  # it has just ended
                if os.readlink(f"/proc/{child}/exe") == str(program) and reads_input(child)():
                    return child
        return 0

    return until(waiting, f"{program} waits for input")


# ---- words ---------------------------------------------------------------------------


def test_filters_choose_slots() -> None:
    with started(caller("now")) as process:
        whole = read(process.pid)
        libc = libc_of(whole)
        some = read(process.pid, "-e", "str*+puts", "--from", "MAIN")
        assert {one["symbol"] for one in slots(some)} == {"strdup", "puts"}
        assert len(slots(some)) == len(slots(some, image="caller"))
        to = read(process.pid, "--to", libc)
        assert {one["to_image"] or one["expected_image"] for one in slots(to)} == {libc}
        wanted = [one for one in slots(whole) if (one["to_image"] or one["expected_image"]) == libc]
        assert slots(to) == wanted
        assert [one["name"] for one in to["images"]] == [one["name"] for one in whole["images"]]
        read(process.pid, "-e", "no_such_symbol", status=1)


def test_the_text_has_every_slot() -> None:
    with started(caller("now")) as process:
        document = read(process.pid)
        done = run([*MAP_WORDS, "-p", str(process.pid)])
    assert (done.returncode, done.stderr) == (0, "")
    rows = re.findall(r"^  ([0-9a-f]{12}) (\w+) +(\S+)", done.stdout, re.MULTILINE)
    expected = [
        (
            f"{int(one['addr'], 16):012x}",
            one["state"],
            one["symbol"] + (f"@{one['version']}" if one["version"] else ""),
        )
        for one in slots(document)
    ]
    assert rows == expected


def test_images_are_where_the_kernel_says() -> None:
    """Of a program that is linked for its place the load bias is 0: it does not lie there."""
    text = '#include <stdio.h>\nint main(void) { puts("ready"); fflush(stdout); return getchar(); }'
    for flag, is_fixed in (("-no-pie", True), ("-pie", False)):
        program = launching.compiled("placed.c", "-fPIE", flag, text=text)
        with started(program) as process:
            maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
            done = run([*MAP_WORDS, "-p", str(process.pid)])
        first: dict[str, int] = {}
        for line in maps:
            first.setdefault(os.path.basename(line.split()[-1]), int(line.split("-")[0], 16))
        heads = re.findall(r"^(\S+) at (0x[0-9a-f]+)(.*): /", done.stdout, re.MULTILINE)
        assert len(heads) == 3
        assert all(int(at, 16) == first[name] for name, at, _ in heads)
        assert heads[0][2] == (" (load bias 0x0)" if is_fixed else "")
        assert not heads[1][2]


def test_pictures_have_every_image_that_calls_or_is_called(tmp_path: Path) -> None:
    svg, dot = tmp_path / "map.svg", tmp_path / "map.dot"
    library = interposer()
    with started(caller("lazy"), env={"LD_PRELOAD": str(library)}) as process:
        done = run([*MAP_WORDS, "-p", str(process.pid), "--svg", svg, "--dot", dot])
        document = read(process.pid)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    root = ET.parse(svg).getroot()
    texts = {element.text for element in root.iter(f"{SVG}text")}
    pairs = Counter(
        (one["name"], slot["to_image"] or slot["expected_image"])
        for one in document["images"]
        for slot in one["slots"]
    )
    edges = {pair: n for pair, n in pairs.items() if pair[1] and pair[0] != pair[1]}
    assert {name for pair in edges for name in pair} <= texts
    lines = root.findall(f".//{SVG}path[@fill='none']")
    assert len(lines) == len(edges)
    tips = " ".join(element.text or "" for element in root.iter(f"{SVG}title"))
    assert f"caller → {library.name}: 1 interposed" in tips
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.findall(f".//{SVG}g/{SVG}rect"):
        x, y = float(box.attrib["x"]), float(box.attrib["y"])
        assert 0 <= x <= x + float(box.attrib["width"]) <= width
        assert 0 <= y <= y + float(box.attrib["height"]) <= height
    graph = dot.read_text()
    assert graph.count(" -> ") == len(edges)
    names = dict(re.findall(r'^  (n\d+) \[label="([^"]*)"', graph, re.MULTILINE))
    found = re.findall(r'^  (n\d+) -> (n\d+) \[label="(\d+)"', graph, re.MULTILINE)
    assert {(names[a], names[b]): int(n) for a, b, n in found} == edges


def test_a_picture_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with started(caller("lazy")) as process:
        svg = tmp_path / "no" / "map.svg"
        done = run([*MAP_WORDS, "-p", str(process.pid), "--svg", svg])
    assert done.returncode == 1
    assert "cannot write" in done.stderr


def test_wrong_words_and_processes_that_are_not_there() -> None:
    for words in ([], ["-p", "x"], ["-p", "1", "file"], ["--nosuch"]):
        done = run([*MAP_WORDS, *words])
        assert (done.returncode, done.stdout) == (2, "")
    child = subprocess.Popen(["true"])
    child.wait()
    done = run([*MAP_WORDS, "-p", str(child.pid)])
    assert (done.returncode, done.stderr) == (4, f"soscope: error: no process {child.pid}\n")


def test_a_process_of_somebody_else_is_refused(public_path: Path) -> None:
    if os.geteuid():
        not_here("needs root")
    from tests.support.processes.others import as_nobody, assert_refused

    soscope = as_nobody(public_path)
    with started(caller("lazy")) as process:
        done = run([*soscope, "map", "-p", str(process.pid)])
    assert done.stdout == ""
    assert_refused(done, "it belongs to user root")
