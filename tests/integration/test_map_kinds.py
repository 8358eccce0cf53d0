# SPDX-License-Identifier: Apache-2.0
"""Maps of processes of every kind, and in every state."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.machines.tools import need, not_here, yama
from tests.support.processes import launching
from tests.support.processes.run import run, soscope
from tests.support.targets.build import made, made_in
from tests.support.targets.covering import sizes
from tests.support.targets.mapped import (
    CALLER,
    MAP_WORDS,
    caller,
    libc_of,
    linked,
    read,
    rows_of,
    slots,
    started,
)
from tests.support.time import progress
from tests.support.time.patience import limit, until
from tests.support.truth import bound

# ---- kinds of processes --------------------------------------------------------------


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "words",
    [
        ("/usr/bin/python3", "-c", "import ctypes, ssl; print('ready', flush=1); input()"),
        ("ruby", "-rjson", "-e", "$stdout.sync = true; puts 'ready'; gets"),
        ("node", "-e", "console.log('ready'); process.stdin.resume()"),
    ],
    ids=lambda words: Path(words[0]).name,
)
def test_every_bound_slot_is_where_its_loader_has_bound_it(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    with started(need(words[0]), *words[1:], env=bound.debugging(tmp_path)) as process:
        document = read(process.pid)
        main = os.path.realpath(document["images"][0]["path"])
        said = bound.told(tmp_path, process.pid, main)
    providers: dict[tuple[str, str], set[str]] = {}
    for one in said:
        providers.setdefault((one.importer, one.symbol), set()).add(one.provider)
    paths = {one["name"]: os.path.realpath(one["path"]) for one in document["images"]}
    assert not slots(document, "hooked")
    checked = 0
    for image in document["images"]:
        for slot in image["slots"]:
            if slot["state"] == "unbound" or slot["to_image"] == "linux-vdso.so.1":
                continue
            told = providers.get((os.path.realpath(image["path"]), slot["symbol"]), set())
            if slot["to_image"] is None:
                assert not told, slot
            else:
                assert paths[slot["to_image"]] in told, slot
                checked += 1
    assert checked > 1000


def test_namespaces_are_told_apart() -> None:
    text = """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdio.h>
        int main(void)
        {
            puts(dlmopen(LM_ID_NEWLM, "libz.so.1", RTLD_NOW) ? "ready" : dlerror());
            fflush(stdout);
            getchar();
        }"""
    program = launching.compiled("namespaces.c", "-ldl", text=text)
    with started(program) as process:
        document = read(process.pid)
    spaces: dict[int, list[str]] = {}
    for one in document["images"]:
        spaces.setdefault(one["namespace"], []).append(one["name"])
    assert set(spaces) == {0, 1}
    assert "libz.so.1" not in spaces[0]
    assert spaces[1][0] == "libz.so.1"
    libcs = [one for one in document["images"] if one["name"] == "libc.so.6"]
    assert len(libcs) == 2
    libz = next(one for one in document["images"] if one["name"] == "libz.so.1")
    ranges = [(int(m["start"], 16), int(m["end"], 16)) for m in libcs[1]["mappings"]]
    found = [one for one in libz["slots"] if one["to_image"] == "libc.so.6"]
    assert len(found) > 5
    for one in found:
        assert any(start <= int(one["value"], 16) < end for start, end in ranges)
    assert not slots(document, "hooked")
    assert not slots(document, "interposed")


def test_musl_programs_have_a_map() -> None:
    folder = made(
        {"caller.c": CALLER, "strdup.c": "char *strdup(const char *s) { return (char *)s; }"},
        "musl-gcc -fno-builtin -o caller caller.c",
        "musl-gcc -shared -fPIC -fno-builtin -o interposer.so strdup.c",
    )
    program, library = folder / "caller", folder / "interposer.so"
    with started(program) as process:
        document = read(process.pid)
    assert {one["state"] for one in slots(document)} == {"bound"}
    with started(program, env={"LD_PRELOAD": str(library)}) as process:
        found = slots(read(process.pid), "interposed")
    assert {(one["symbol"], one["to_image"]) for one in found} == {("strdup", library.name)}


def test_a_static_program_has_one_image_and_no_slot() -> None:
    program = launching.compiled("caller.c", "-static", text=CALLER)
    with started(program) as process:
        document = read(process.pid)
        said = soscope("map", "-p", str(process.pid)).stderr
    assert linked(document)[0] == str(program)
    assert slots(document) == []
    assert "it is statically linked, so its calls go through no slots: strace shows" in said


def test_a_deleted_program_has_a_map(tmp_path: Path) -> None:
    program = tmp_path / "caller"
    program.write_bytes(caller("lazy").read_bytes())
    program.chmod(0o755)
    with started(program) as process:
        before = read(process.pid)
        program.unlink()
        assert read(process.pid) == before


UNIQUE = """
    template <class T> struct Counter { static int value; };
    template <class T> int Counter<T>::value = 3;
    extern "C" int *counter(void) { return &Counter<int>::value; }"""


def plugin(folder: Path, name: str, source: str, compiler: str = "g++") -> Path:
    source_file = folder / f"{name}.{'cc' if compiler == 'g++' else 'c'}"
    source_file.write_text(source)
    made_in(folder, compiler, source_file, "-shared", "-fPIC", "-O1", "-o", f"{name}.so")
    return folder / f"{name}.so"


def test_a_symbol_that_there_is_once_is_bound_to_the_first_one(tmp_path: Path) -> None:
    """STB_GNU_UNIQUE: the second plugin uses the first one's, out of its scope."""
    one, two = (plugin(tmp_path, name, UNIQUE) for name in ("one", "two"))
    program = "import ctypes, sys\nfor path in sys.argv[1:]:\n    ctypes.CDLL(path)\n"
    program += "print('ready', flush=True)\ninput()\n"
    with started(need("/usr/bin/python3"), "-c", program, one, two) as process:
        document = read(process.pid)
    symbol = "_ZN7CounterIiE5valueE"
    for name in ("one.so", "two.so"):
        (slot,) = rows_of(document, symbol, name)
        assert (slot["state"], slot["to_image"], slot["to_symbol"]) == ("bound", "one.so", symbol)
    assert not slots(document, "hooked")


def test_a_slot_that_leads_to_another_plugins_unique_symbol_is_hooked(tmp_path: Path) -> None:
    """Its own plugin has an ordinary symbol of the same name."""
    symbol = "_ZN7CounterIiE5valueE"
    source = f"""
        int {symbol} = 4;
        int *own(void) {{ return &{symbol}; }}
        void aim(void *to)
        {{
            void **slot;
            __asm__("lea {symbol}@GOTPCREL(%%rip), %0" : "=r"(slot));
            *slot = to;
        }}"""
    one = plugin(tmp_path, "one", UNIQUE)
    two = tmp_path / "two.so"
    (tmp_path / "two.c").write_text(source)
    flags = ("-shared", "-fPIC", "-O1", "-Wl,-z,norelro")
    made_in(tmp_path, "gcc", "two.c", *flags, "-o", two)
    program = "import ctypes, sys\none, two = map(ctypes.CDLL, sys.argv[1:])\n"
    program += "one.counter.restype = ctypes.c_void_p\n"
    program += "two.aim(ctypes.c_void_p(one.counter()))\nprint('ready', flush=True)\ninput()\n"
    with started(need("/usr/bin/python3"), "-c", program, one, two) as process:
        document = read(process.pid)
    (slot,) = rows_of(document, symbol, "two.so")
    assert (slot["state"], slot["to_image"]) == ("hooked", "one.so")


def test_deepbind_prefers_the_plugins_own_libraries(tmp_path: Path) -> None:
    """Unlike a plugin that was opened without: there the program's libraries come first."""
    source = "int rand(void); int own(void) { return rand(); } int rand(void) { return 4; }"
    plain = plugin(tmp_path, "plain", source, "gcc")
    deep = plugin(tmp_path, "deep", source, "gcc")
    program = "import ctypes, os, sys\nctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)\n"
    program += "ctypes.CDLL(sys.argv[2], mode=os.RTLD_NOW | os.RTLD_DEEPBIND)\n"
    program += "print('ready', flush=True)\ninput()\n"
    with started(need("/usr/bin/python3"), "-c", program, plain, deep) as process:
        document = read(process.pid)
    (slot,) = rows_of(document, "rand", "deep.so")
    assert (slot["state"], slot["to_image"]) == ("bound", "deep.so")
    (slot,) = rows_of(document, "rand", "plain.so")
    assert (slot["state"], slot["to_image"]) == ("interposed", libc_of(document))
    assert slot["expected_image"] == "plain.so"


def test_a_32_bit_program_has_a_map(tmp_path: Path) -> None:
    libc, loader = Path("/lib32/libc.so.6"), "/lib32/ld-linux.so.2"
    if not libc.exists() or not os.path.exists(loader):
        not_here("no 32-bit C library")
    source = """
        extern int puts(const char *), getchar(void), fflush(void *);
        extern void _exit(int);
        void _start(void) { puts("ready"); fflush(0); getchar(); _exit(0); }"""
    program = tmp_path / "small"
    flags = "-m32", "-fno-stack-protector", "-fplt", "-fPIE", "-pie", "-nostdlib", "-O1"
    (tmp_path / "small.c").write_text(source)
    command = ["gcc", "small.c", *flags, "-o", "small"]
    made_in(tmp_path, *command, libc, f"-Wl,--dynamic-linker={loader}", "-Wl,-z,lazy")
    with started(program) as process:
        document = read(process.pid)
    found = {one["symbol"]: one["state"] for one in slots(document, image="small")}
    assert found == {"puts": "bound", "fflush": "bound", "getchar": "bound", "_exit": "unbound"}
    assert not slots(document, "hooked")


@pytest.mark.parametrize("times", sizes(7, 20))
def test_where_libraries_come_and_go_those_that_stay_are_right(times: int, tmp_path: Path) -> None:
    source = "int puts(const char *); int say(void) { return puts(0); }"
    one, two = (plugin(tmp_path, name, source, "gcc") for name in ("one", "two"))
    text = """
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int count, char **arguments)
        {
            puts("ready");
            fflush(stdout);
            for (;;) {
                void *one = dlopen(arguments[1], RTLD_NOW);
                void *two = dlopen(arguments[count - 1], RTLD_LAZY);
                dlclose(two);
                dlclose(one);
            }
        }"""
    program = launching.compiled("comes.c", "-ldl", "-fno-builtin", text=text)
    with started(program, one, two, rests=False) as process:
        for _ in range(times):
            done = run([*MAP_WORDS, "--json", "-p", str(process.pid)])
            assert done.returncode in (0, 1)
            assert not done.stderr or "come and go" in done.stderr or "may be wrong" in done.stderr
            document = json.loads(done.stdout)
            assert not slots(document, "hooked") or "may be wrong" in done.stderr
            names = {one["name"] for one in document["images"]}
            assert {"comes", libc_of(document)} <= names
            if done.returncode:
                assert not names & {"one.so", "two.so"}
            (slot,) = rows_of(document, "dlopen", "comes")
            assert slot["to_image"] == libc_of(document)


@pytest.mark.parametrize("state", ["stopped", "traced", "without-leader"])
def test_processes_in_every_state_have_a_map(state: str) -> None:
    text = """
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        static void *other(void *unused)
        {
            puts("ready");
            fflush(stdout);
            for (;;)
                pause();
        }
        int main(void)
        {
            pthread_t thread;
            pthread_create(&thread, NULL, other, NULL);
            pthread_exit(NULL);
        }"""
    program = launching.compiled("leaderless.c", text=text)
    if state != "without-leader":
        program = caller("lazy")
    with started(program) as process:
        if state == "without-leader":
            until(lambda: progress.state(process.pid) == "Z", "the leader has ended")
        before = read(process.pid)
        if state == "stopped":
            os.kill(process.pid, signal.SIGSTOP)
            until(lambda: progress.state(process.pid) == "T", "it stops")
        tracer = None
        if state == "traced":
            words = [need("strace"), "-o", "/dev/null", "-p", str(process.pid)]
            tracer = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
            assert tracer.stderr is not None
            tracer.stderr.readline()
        try:
            assert read(process.pid) == before
        finally:
            if tracer is not None:
                tracer.terminate()
                tracer.communicate(timeout=limit())
    assert slots(before)


def test_slots_that_only_the_file_knows_are_said_to_be_missing(public_path: Path) -> None:
    """An agent aims the relocations of lazy slots elsewhere; without the file nobody can tell."""
    if os.geteuid():
        not_here("needs root")
    from tests.support.processes.others import as_nobody

    soscope = as_nobody(public_path)
    library = public_path / "library.so"
    source = "char *getenv(const char *); char *ask(void) { return getenv(0); }"
    (public_path / "ask.c").write_text(source)
    command = ["gcc", "-shared", "-fPIC", "-fplt", "-Wl,-z,lazy", "ask.c"]
    made_in(public_path, *command, "-o", library)
    program = public_path / "caller"
    program.write_bytes(caller("now").read_bytes())
    for path in (library, program):
        path.chmod(0o755)
    words = [*soscope, "trace", "-q", "--from", "all", "-o", os.devnull, "--", str(program)]
    env = {**os.environ, "LD_PRELOAD": str(library)}
    tracer = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )
    with tracer:
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == "ready\n"
        child = Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children").read_text().split()[0]
        whole = run([*soscope, "map", "-p", child])
        library.unlink()
        done = run([*soscope, "map", "-p", child])
        tracer.communicate("\n", timeout=limit())
    if yama():  # not even his own, as it is no child of this soscope
        assert (whole.returncode, done.returncode) == (3, 3)
        return
    assert (whole.returncode, done.returncode) == (0, 1)
    assert (
        "library.so: not all of its slots could be read: relocations that name no slot of it: 1"
        in done.stdout
    )
    assert whole.stdout.count(" getenv@") == done.stdout.count(" getenv@") + 1
