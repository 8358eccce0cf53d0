# SPDX-License-Identifier: Apache-2.0
"""Functions of one's own, where libraries come and go, are built anew, or others meddle."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import attached
from tests.support.processes.launching import environment
from tests.support.processes.patching import (
    ask,
    instead,
    is_mapped,
    patch,
    say,
    soscope,
    target,
    undo,
)
from tests.support.targets import build
from tests.support.targets.build import made_in
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_run

OWN, INSTEAD = 2, 1002

ADDS = """
int (*patchee_original)(int);
int own(int x) {{ return patchee_original(x) + {}; }}
"""
LOADS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
	char line[64];
	void *handle = 0;
	int (*asks)(int) = 0;

	(void)argc;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "load\n")) {
			handle = dlopen(argv[1], RTLD_NOW);
			asks = handle ? (int (*)(int))dlsym(handle, "asks") : 0;
			puts(asks ? "loaded" : dlerror());
		} else if (!strcmp(line, "unload\n")) {
			asks = 0;
			printf("%d\n", dlclose(handle));
			for (int i = 1; i < 64; i++) // what comes next lies elsewhere
				mmap(0, i * 4096UL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		} else {
			printf("%d\n", asks ? asks(1) : 0);
		}
		fflush(stdout);
	}
	return 5;
}
"""
HOOKS = r"""
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
int patchee(int x);
static int (*kept)(int);
static int hook(int x) { return kept(x) + 10; }
static void **slot(void)
{
	const Elf64_Rela *at = 0;
	const Elf64_Sym *symbols = 0;
	const char *names = 0;
	unsigned long size = 0;

	for (const Elf64_Dyn *dyn = _r_debug.r_map->l_ld; dyn->d_tag; dyn++) {
		if (dyn->d_tag == DT_JMPREL)
			at = (const void *)dyn->d_un.d_ptr;
		if (dyn->d_tag == DT_PLTRELSZ)
			size = dyn->d_un.d_val;
		if (dyn->d_tag == DT_SYMTAB)
			symbols = (const void *)dyn->d_un.d_ptr;
		if (dyn->d_tag == DT_STRTAB)
			names = (const void *)dyn->d_un.d_ptr;
	}
	while (strcmp(names + symbols[ELF64_R_SYM(at->r_info)].st_name, "patchee") != 0)
		at++, size -= sizeof *at;
	return (void **)(_r_debug.r_map->l_addr + at->r_offset);
}
int main(void)
{
	char line[64];
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "hook\n")) {
			kept = (int (*)(int))*slot();
			*slot() = (void *)hook;
			puts("hooked");
		} else {
			printf("%d\n", patchee(1));
		}
		fflush(stdout);
	}
	return 5;
}
"""
# is loaded when somebody has opened the fifo
SLOW = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void slow(void) { close(open("FIFO", O_RDONLY)); }
"""
STARTS = """
#include <dlfcn.h>
#include <pthread.h>
static void *work(void *unused) { (void)unused; return dlopen("SLOW", RTLD_NOW); }
__attribute__((constructor)) static void start(void)
{
	pthread_t thread;
	pthread_create(&thread, 0, work, 0);
}
"""
RESOLVED = """
#include <unistd.h>
extern int ends[2];
static int calls;
static int real(int x) { return 2 * x; }
static void *resolve(void)
{
	char byte;
	if (!calls++ && write(1, "begun\\n", 6) == 6)
		while (read(ends[0], &byte, 1) < 0)
			;
	return real;
}
int patchee(int x) __attribute__((ifunc("resolve")));
"""
BINDS = r"""
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int patchee(int x);
int ends[2];
static pthread_t thread;
static void *work(void *unused) { (void)unused; patchee(1); return 0; }
int main(void)
{
	char line[64];
	if (pipe(ends))
		return 2;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(line, "begin\n")) {
			pthread_create(&thread, 0, work, 0);
		} else {
			if (!strcmp(line, "join\n") && write(ends[1], "", 1) == 1)
				pthread_join(thread, 0);
			printf("%d\n", patchee(1));
		}
		fflush(stdout);
	}
	return 5;
}
"""
DEFINES = "int patchee(int x) { return 2 * x; }\n"
ASKS = "int patchee(int x); int asks(int x) { return patchee(x) + 0; }\n"
EXPORTS = """
int (*patchee_original)(int);
int patchee(int x) { return patchee_original(x) + 4000; }
"""


def library(path: Path, text: str, *options: str | Path) -> Path:
    """Build a shared library with a new inode."""
    path.unlink(missing_ok=True)
    source = path.with_suffix(".c")
    source.write_text(text)
    made_in(path.parent, "gcc", "-shared", "-fPIC", "-o", path, source, *options)
    return path


@pytest.fixture
def loading(tmp_path: Path) -> list[str | Path]:
    """Make a program that loads and unloads a library, and with it the one with patchee."""
    (tmp_path / "loads.c").write_text(LOADS)
    program = tmp_path / "loads"
    made_in(tmp_path, "gcc", "-o", program, "loads.c")
    defines = library(tmp_path / "libdefines.so", DEFINES)
    return [program, library(tmp_path / "libasks.so", ASKS, defines, "-Wl,-rpath,$ORIGIN")]


# ---- one in the place of another ----


def test_callers_that_the_second_leaves_out_get_the_original_back(tmp_path: Path) -> None:
    """The first one's library is closed: nothing may lead there."""
    other = library(tmp_path / "libother.so", ADDS.format(3000))
    with attached.running(target()) as process:
        pid = process.pid
        ask(process)
        before = attached.snapshot(pid)
        patch(pid, instead())
        assert ask(process)[:2] == [INSTEAD, INSTEAD]
        done = patch(pid, f"patchee={other}:own", options=("--from", "MAIN"))
        assert done["replaced"][0]["slots"] == 1
        assert not is_mapped(pid, "libinstead")
        assert ask(process)[:2] == [3002, OWN]
        undo(pid)
        assert attached.differences(before, pid) == []
        assert attached.finish(process) == (5, "wrong 0\n", "")


def test_a_library_whose_own_calls_were_led_elsewhere_gets_the_original(tmp_path: Path) -> None:
    """It calls by name, stood there for another symbol, and now stands for this one."""
    text = "int patchee(int x); int inside(int x) { return x; }\n"
    text += "int own(int x) { return patchee(x) + 3000; }\n"
    other = library(tmp_path / "libother.so", text)
    with attached.running(target()) as process:
        ask(process)
        patch(process.pid, f"patchee_inside={other}:inside")
        patch(process.pid, instead())
        patch(process.pid, f"patchee={other}:own")
        assert ask(process)[:2] == [3002, 1]
        assert attached.finish(process) == (5, "wrong 0\n", "")


def test_a_library_that_was_built_anew_is_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "libanew.so"
    with attached.running(target()) as process:
        pid = process.pid
        for add in (1000, 2000, 3000):
            library(path, ADDS.format(add))
            for _ in range(2):  # the same file again stays the same
                done = patch(pid, f"patchee={path}:own")
                assert done["replaced"][0]["library"] == str(path)
                assert ask(process)[:2] == [OWN + add, OWN + add]
        assert undo(pid)["left_loaded"] == []
        assert ask(process)[:2] == [OWN, OWN]
        assert not is_mapped(pid, "libanew")


# ---- originals that come and go ----


def test_an_original_that_goes_and_comes_back_elsewhere(
    loading: list[str | Path], tmp_path: Path
) -> None:
    own = library(tmp_path / "libown.so", ADDS.format(1000))
    with attached.running(loading) as process:
        assert say(process, "load") == "loaded"
        patch(process.pid, f"patchee={own}:own")
        for _ in range(3):
            assert say(process, "ask") == "1002"
            assert say(process, "unload") == "0"
            assert say(process, "load") == "loaded"
        assert say(process, "ask") == "1002"
        undo(process.pid)
        assert say(process, "ask") == "2"


def test_the_original_is_none_of_another_patchs_library(
    loading: list[str | Path], tmp_path: Path
) -> None:
    """The first one's library exports the symbol itself, and comes before the true one by now."""
    first = library(tmp_path / "libfirst.so", EXPORTS)
    second = library(tmp_path / "libsecond.so", ADDS.format(1000))
    with attached.running(loading) as process:
        assert say(process, "load") == "loaded"
        patch(process.pid, f"patchee={first}:patchee")
        assert say(process, "unload") == "0"
        assert say(process, "load") == "loaded"
        assert say(process, "ask") == "4002"
        patch(process.pid, f"patchee={second}:own")
        assert not is_mapped(process.pid, "libfirst")
        assert say(process, "ask") == "1002"


# ---- half done ----


def test_a_loader_that_stays_busy_leaves_nothing_dangling(tmp_path: Path) -> None:
    """Slots could not be led to the second: the library of the first stays, and that is said."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    slow = library(tmp_path / "libslow.so", SLOW.replace("FIFO", str(fifo)))
    text = ADDS.format(3000) + STARTS.replace("SLOW", str(slow))
    other = library(tmp_path / "libother.so", text, "-pthread")
    assert any(_is_busy_in_time(fifo, other) for _ in range(20))


def _is_busy_in_time(fifo: Path, other: Path) -> bool:
    """Return whether the thread of `other` came to its dlopen before soscope led slots there."""
    with attached.running(target()) as process:
        ask(process)
        before = attached.snapshot(process.pid)
        patch(process.pid, instead())
        done = soscope("patch", "-p", str(process.pid), "--replace", f"patchee={other}:own")
        if done.returncode == 0:
            fifo.write_text("")
            return False
        assert done.returncode == 1
        assert "its loader is busy" in done.stdout
        assert is_mapped(process.pid, "libinstead")
        assert ask(process)[:2] == [INSTEAD, INSTEAD]
        fifo.write_text("")
        tasks = f"/proc/{process.pid}/task"
        until(lambda: len(os.listdir(tasks)) == 1, "the library is loaded", running=process)
        undo(process.pid)
        assert ask(process)[:2] == [OWN, OWN]
        assert attached.differences(before, process.pid) == []
    return True


def test_a_slot_that_was_being_bound_is_right_after_undoing(tmp_path: Path) -> None:
    """Its thread stands in the function's resolver, and the loader binds it afterwards."""
    slow = library(tmp_path / "libresolved.so", RESOLVED)
    own = library(tmp_path / "libown.so", ADDS.format(1000))
    program = tmp_path / "binds"
    (tmp_path / "binds.c").write_text(BINDS)
    words = ["gcc", "-Wl,-z,lazy", "-pthread", "-o", "binds", "binds.c"]
    made_in(tmp_path, *words, slow, "-Wl,-rpath,$ORIGIN")
    with attached.running([program]) as process:
        assert say(process, "begin") == "begun"
        patch(process.pid, f"patchee={own}:own")
        assert say(process, "join") == "2"
        assert undo(process.pid)["left"] == 0
        assert say(process, "ask") == "2"


# ---- others meddle ----


def test_who_has_taken_a_slot_over_keeps_what_it_held(tmp_path: Path) -> None:
    """A program with hooks of its own goes on to call our function: its library stays."""
    program = tmp_path / "hooks"
    (tmp_path / "hooks.c").write_text(HOOKS)
    patchee = build.library("patchee")
    words = ["gcc", "-Wl,-z,lazy", "-o", "hooks", "hooks.c"]
    made_in(tmp_path, *words, patchee, f"-Wl,-rpath,{patchee.parent}")
    with attached.running([program]) as process:
        assert say(process, "ask") == "2"
        patch(process.pid, instead(), instead("instead_by_name", "patchee_inside"))
        assert say(process, "hook") == "hooked"
        assert say(process, "ask") == "1012"
        for _ in range(2):
            done = soscope("patch", "-p", str(process.pid), "--undo")
            assert say(process, "ask") == "1012"
            assert is_mapped(process.pid, "libinstead")
            if done.returncode:
                assert "1 word restored" in done.stdout  # of its library's two
                assert "left unchanged" in done.stdout
                assert "libinstead.so stays loaded" in done.stdout


# ---- several at once ----


@pytest.mark.long
def test_several_at_once_never_harm_the_process(tmp_path: Path) -> None:
    other = library(tmp_path / "libother.so", ADDS.format(2000))
    wanted = [["--replace", instead()], ["--replace", f"patchee={other}:own"], ["--undo"]]
    chance = random.Random(4)
    with attached.running(target(2)) as process:
        pid = process.pid
        ask(process)
        before = attached.snapshot(pid)
        for _ in range(12):
            working = []
            for words in chance.sample(wanted, 3):
                command = [sys.executable, "-m", "soscope", "patch", "-p", str(pid), *words]
                working.append(
                    subprocess.Popen(
                        command,
                        env=environment(),
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                    )
                )
                ran = has_run(working[-1].pid, cpu=chance.random() * 0.1)
                until(lambda: ran() or working[-1].poll() is not None, "it is somewhere")  # noqa: B023
            for each in working:
                _, error = each.communicate(timeout=limit())
                assert each.returncode in (0, 1), error
                assert "Traceback" not in error
            assert ask(process)[0] in (OWN, OWN + 1000, OWN + 2000)
        undo(pid)
        assert attached.differences(before, pid) == []
        assert attached.finish(process) == (5, "wrong 0\n", "")
