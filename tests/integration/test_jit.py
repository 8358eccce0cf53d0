# SPDX-License-Identifier: Apache-2.0
"""Code that programs made while they ran: perf maps and GDB's interface."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from soscope.live.process import Process
from tests.support.files.elffiles import built, nm, run
from tests.support.machines.tools import need, not_here
from tests.support.processes import attached
from tests.support.processes.run import soscope
from tests.support.processes.telling import running
from tests.support.targets import build
from tests.support.truth.asking import asked

PERF = """
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
	char *code = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char name[64];
	sprintf(name, "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(name, "w");
	fprintf(map, "%lx 40 old\\n", (long)code);
	fprintf(map, "%lx 20 py::work:/a b/file.py\\n", (long)code);
	fprintf(map, "%lx 10 plain\\n", (long)code + 256);
	fclose(map);
	printf("py::work:/a b/file.py %p\\n", code);
	printf("plain %p\\n", code + 256);
	printf("rest of old %p\\n", code + 32);
	printf("nothing %p\\n", code + 512);
	printf("end %p\\n", NULL);
	fflush(stdout);
	return pause();
}
"""


@pytest.fixture
def perf(tmp_path: Path) -> Path:
    """Build the program with a perf map."""
    return built(tmp_path, "perf", PERF)


@contextlib.contextmanager
def mapped(number: int) -> Iterator[Path]:
    """Give the perf map of the process that calls itself `number`; afterwards it goes.

    No other one: tests of other workers have theirs in the same folder.
    """
    path = Path(f"/tmp/perf-{number}.map")
    assert path.exists()
    try:
        yield path
    finally:
        path.unlink()


def check_perf(pid: int, said: dict[str, list[int]]) -> None:
    """Ask for what the map says, by name and by address."""
    with Process(pid) as process:
        for name in ("py::work:/a b/file.py", "plain"):
            answer = process.answer(name)
            asked(pid, name, said[name][0], answer.addr)
            assert (answer.addr, answer.rule) == (said[name][0], "perf-map")
            for more in (0, 15):
                place = process.locate(said[name][0] + more)
                assert (place.symbol, place.offset, place.rule) == (name, more, "perf-map")
                assert place.kind == "function"
        place = process.locate(said["rest of old"][0])
        assert (place.symbol, place.offset) == ("old", 32)
        assert process.answer("old").status == "none"
        place = process.locate(said["nothing"][0])
        assert (place.status, place.addr) == ("none", None)
        assert place.why[-1] == "in no image: memory without a file, rwxp"


def test_a_perf_map(perf: Path) -> None:
    with running(perf) as (pid, said), mapped(pid):
        check_perf(pid, said)


def test_a_perf_map_in_a_container(perf: Path) -> None:
    words = [need("unshare"), "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*words, "true"], check=False).returncode:
        not_here("no user namespaces")
    with running(*words, perf) as (pid, said), mapped(1):
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        check_perf(int(child), said)


def test_a_perf_map_of_somebody_else(perf: Path) -> None:
    if os.geteuid():
        not_here("only root can give files away")
    with running(perf) as (pid, said), mapped(pid) as path, Process(pid) as process:
        os.chown(path, 12345, 12345)
        answer = process.answer("plain")
        assert answer.status == "none"
        assert any("belongs to user 12345" in line for line in answer.why)
        assert process.locate(said["plain"][0]).status == "none"


REGISTERED = """
#define _GNU_SOURCE
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct entry { struct entry *next, *before; const char *file; uint64_t size; };
struct { uint32_t version, action; struct entry *relevant, *first; }
	__jit_debug_descriptor = {1, 0, 0, 0};
__attribute__((noinline)) void __jit_debug_register_code(void)
{
	__asm__ volatile("" ::: "memory");
}

static void add(const char *path)
{
	FILE *file = fopen(path, "r");
	char *data = malloc(1 << 20);
	size_t size = fread(data, 1, 1 << 20, file);
	Elf64_Ehdr *head = (void *)data;
	Elf64_Shdr *sections = (void *)(data + head->e_shoff);
	for (int i = 0; i < head->e_shnum; i++) {
		if (!(sections[i].sh_flags & SHF_EXECINSTR) || !sections[i].sh_size)
			continue;
		void *want = (void *)(sections[i].sh_addr & ~4095UL);
		char *code = mmap(want, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC,
					MAP_PRIVATE | MAP_ANONYMOUS | (want ? MAP_FIXED : 0), -1, 0);
		char *text = code + (sections[i].sh_addr & 4095);
		memcpy(text, data + sections[i].sh_offset, sections[i].sh_size);
		if (head->e_type == ET_REL)
			sections[i].sh_addr = (long)text;
		printf("%s %p\\n", path, text);
	}
	fclose(file);
	struct entry *entry = calloc(1, sizeof(*entry));
	entry->file = data;
	entry->size = size;
	entry->next = __jit_debug_descriptor.first;
	if (entry->next)
		entry->next->before = entry;
	__jit_debug_descriptor.relevant = __jit_debug_descriptor.first = entry;
	__jit_debug_descriptor.action = 1;
	__jit_debug_register_code();
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		add(argv[i]);
	printf("end %p\\n", NULL);
	fflush(stdout);
	return pause();
}
"""

MADE = """
int made_%(n)s(int a) { return a * %(n)s + 5; }
static __attribute__((noinline)) int inner(int a) { return a + 3; }
int made_too_%(n)s(int a) { return inner(a) * 2; }
"""


@pytest.mark.every(2)
@pytest.mark.parametrize("exported", [True, False], ids=["exported", "static"])
def test_files_that_are_registered(exported: bool, tmp_path: Path) -> None:
    path = built(tmp_path, "registered", REGISTERED, *(["-rdynamic"] if exported else []))
    relative = built(tmp_path, "relative.o", MADE % {"n": 7}, "-c")
    fixed = built(
        tmp_path, "fixed", MADE % {"n": 9}, "-nostdlib", "-static", "-Wl,-Ttext=0x50000000,-e0"
    )
    with running(path, relative, fixed) as (pid, said), Process(pid) as process:
        wanted = {}
        for file in (relative, fixed):
            start = said[str(file)][0] if file == relative else 0
            for value, size, letter, name in nm(file):
                if letter in "tT" and size:
                    wanted[name, start + value] = size
        assert {"made_7", "made_too_9", "inner"} <= {name for name, _ in wanted}
        for (name, addr), size in wanted.items():
            for more in (0, size - 1):
                place = process.locate(addr + more)
                assert (place.symbol, place.offset, place.rule) == (name, more, "jit")
            answer = process.answer(name)
            if name == "inner":
                assert answer.status == "ambiguous"
                assert {one.rule for one in answer.candidates} == {"jit"}
                continue
            assert (answer.addr, answer.rule, answer.kind) == (addr, "jit", "function")
        told = run(
            need("gdb"), "-nx", "-batch", "-p", str(pid),
            *(word for _, addr in wanted for word in ("-ex", f"info symbol {addr}")),
        )  # fmt: skip
        names = re.findall(r"^(\w+) in section", told, re.MULTILINE)
        assert names == [name for name, _ in wanted]


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    path = built(tmp_path, "registered", REGISTERED)
    good = built(tmp_path, "good.o", MADE % {"n": 7}, "-c")
    bad = tmp_path / "bad.o"
    shutil.copy(good, bad)
    data = bytearray(bad.read_bytes())
    data[4] = 9  # EI_CLASS
    bad.write_bytes(data)
    with running(path, bad, good) as (pid, said), Process(pid) as process:
        assert process.answer("made_7").addr == said[str(good)][0] + next(
            value for value, _, _, name in nm(good) if name == "made_7"
        )
        answer = process.answer("made_9")
        assert answer.status == "none"
        assert any("EI_CLASS" in line for line in answer.why)


def test_a_list_that_is_too_long_is_read_in_part() -> None:
    """A name that is not found is one that was perhaps not read: soscope says so."""
    source = build.TARGETS / "hostile" / "many_names.c"
    program = build.compiled("many_names", ["gcc", "-O1", "-rdynamic"], [source])
    with attached.running([program]) as process:
        done = soscope("resolve", "--why", "-p", str(process.pid), "nothing")
        assert done.returncode == 1
        assert "not all names were read" in done.stderr
        assert "the rest of its JIT files is not read" in done.stdout + done.stderr
        assert attached.finish(process)[0] == 7
