# SPDX-License-Identifier: Apache-2.0
"""Images in places where one would not look for them, and programs of 32 bits with a C library."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from soscope.live.process import Process
from tests.integration.loaders import Loader
from tests.integration.test_resolve_loaders import linking
from tests.support.machines.tools import namespaces, not_here
from tests.support.processes.resolving import LIBRARY, Teller, made, teller
from tests.support.targets.build import need_linking
from tests.support.truth.asking import asked

PLAIN = ("-pie", "-fPIE")
TEXT = """
int data = 1; int code(void) { return data; }
static int inner(void) { return 2; }
void *ask(void) { return (void *)inner; }
"""
# Copies the pages of the library that holds an address to memory without a file.
UNFILED = """
#define _GNU_SOURCE
#include <link.h>
#include <sys/mman.h>
static int copy_image(struct dl_phdr_info *info, size_t size, void *wanted)
{
	char *base = (char *)info->dlpi_addr;
	int is_it = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *one = info->dlpi_phdr + i;
		is_it |= one->p_type == PT_LOAD && (char *)wanted - base - one->p_vaddr < one->p_memsz;
	}
	for (int i = 0; is_it && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *one = info->dlpi_phdr + i;
		if (one->p_type != PT_LOAD)
			continue;
		char *start = (char *)((long)(base + one->p_vaddr) & -4096L);
		long length = (base + one->p_vaddr + one->p_memsz - start + 4095) & -4096L;
		char *new = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		memcpy(new, start, length);
		int rights = PROT_READ | (one->p_flags & PF_W ? PROT_WRITE : 0);
		mprotect(new, length, rights | (one->p_flags & PF_X ? PROT_EXEC : 0));
		mremap(new, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, start);
	}
	return is_it;
}
static const void *own_more(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);
	dl_iterate_phdr(copy_image, found);
	return found;
}
"""


def assert_looked_up(running: Teller, handle: str) -> None:
    """Compare exported symbols and a static one."""
    for name in ("data", "code"):
        truth = running.tell("handle", handle, name)
        running.check(name, truth)
        assert running.process.locate(truth).symbol == name
    running.check("inner", running.tell("call", handle, "ask"))


def test_a_library_whose_pages_belong_to_no_file() -> None:
    """As packers and those who want huge pages leave it: the loader's list alone names it."""
    library = made("libfile.so", TEXT, *LIBRARY)
    with Teller(teller(*PLAIN, more=UNFILED)) as running:
        handle = running.open(library, "now,global")
        running.check("code", running.tell("default", "code"))
        truth = running.tell("own", "code")
        maps = Path(f"/proc/{running.pid}/maps").read_text()
        assert str(library) not in maps
        running.check("code", truth)
        running.check("data", running.tell("handle", handle, "data"))
        with Process(running.pid) as process:
            place = process.locate(truth)
            assert (place.symbol, place.offset) == ("code", 0)
            image = process.resolve("code").image
            assert image is not None
            assert image.file is None
        running.check("inner", 0)  # its name was in the file alone


def test_a_library_on_an_overlay(tmp_path: Path) -> None:
    """The device of its mapping is not that of its file."""
    if os.geteuid() != 0:
        not_here("mounting is for root")
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    shutil.copy(made("libfile.so", TEXT, *LIBRARY), tmp_path / "lower" / "libfile.so")
    options = ",".join(f"{name}dir={tmp_path / name}" for name in ("lower", "upper", "work"))
    script = f"mount -t overlay overlay -o '{options}' '{tmp_path / 'merged'}' && exec "
    words = (*namespaces("-m"), "/bin/sh", "-c")
    tried = subprocess.run([*words, script + "true"], capture_output=True, check=False)
    if tried.returncode:
        not_here("no overlay can be mounted")
    with Teller(*words, script + f"'{teller(*PLAIN)}'") as running:
        handle = running.open(tmp_path / "merged" / "libfile.so")
        assert_looked_up(running, handle)
        # written to, it is copied up: what is mapped is another file than its name now is
        path = Path(f"/proc/{running.pid}/root{tmp_path}/merged/libfile.so")
        with path.open("ab") as file:
            file.write(b"more")
        assert_looked_up(running, handle)


def test_a_container_with_a_root_and_ids_of_its_own(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        not_here("namespaces are for root")
    library = made("libfile.so", TEXT, *LIBRARY)
    program = teller(*PLAIN)
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in {*re.findall(r"/\S+", listed), str(program), str(library)}:
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    # another library has its name outside
    outside = tmp_path.parent / "libfile.so"
    shutil.copy(
        made("libfile.so", f"int pad[99] = {{1}}; int more(void) {{ return 3; }} {TEXT}", *LIBRARY),
        outside,
    )
    (tmp_path / outside.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
    shutil.copy(library, tmp_path / outside.relative_to("/"))
    words = (*namespaces("--mount", "--pid", "--fork", "--kill-child"), "chroot")
    with Teller(*words, tmp_path, program) as running:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        running.pid = int(children[0])
        handle = running.open(outside)
        assert_looked_up(running, handle)
        running.check("malloc", running.tell("default", "malloc"))
        running.check("own_private", running.tell("own", "own_private"))


def test_a_library_at_the_address_that_it_was_linked_to() -> None:
    """An old loader puts prelinked libraries there, if the program is not moved either."""
    oldest = Loader("bullseye")
    flags = ("-Wl,-Ttext-segment=0x7123450000", *linking(oldest))
    library = made("libfixed.so", TEXT, *LIBRARY, *flags)
    interpreter = f"-Wl,--dynamic-linker={oldest.interpreter}"
    with Teller(teller("-no-pie", "-fno-pie", *linking(oldest), interpreter)) as running:
        handle = running.open(library)
        assert_looked_up(running, handle)
        image = running.process.resolve("data").image
        assert image is not None
        if image.load_bias:
            not_here("the kernel had no room at that address")


def test_another_program_after_exec() -> None:
    with Teller(teller(*PLAIN)) as running:
        running.check("malloc", running.tell("default", "malloc"))
        running.give("exec", str(teller("-no-pie", "-fno-pie")), "x")
        running.wait_ready()
        with Process(running.pid) as process:
            for name in ("malloc", "stdout"):
                assert process.resolve(name).addr == running.tell("default", name)
            for name in ("own_private", "own_data", "own_tls"):
                assert process.resolve(name).addr == running.tell("own", name)


IFUNC = """
static int one(void) { return 1; }
static int two(void) { return 2; }
static void *choose(void) { return two; }
int pick(void) __attribute__((ifunc("choose")));
int (*volatile kept)(void) = one;
static const void *own_more(const char *n)
{
	return n[0] == 'p' ? (void *)pick : (void *)(long)pick();
}
"""


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "flags",
    [
        (*PLAIN, "-rdynamic"),
        ("-no-pie", "-fno-pie", "-rdynamic"),
        ("-no-pie", "-fno-pie"),
        ("-static", "-DWITHOUT_DL"),
        ("-static-pie", "-DWITHOUT_DL"),
    ],
    ids=" ".join,
)
def test_an_ifunc_of_the_program(flags: tuple[str, ...]) -> None:
    """Where the program takes its address, that may be a stub; what it calls is the function."""
    with Teller(teller(*flags, more=IFUNC)) as running:
        stands_for = running.tell("own", "pick")
        with Process(running.pid) as process:
            answer = process.resolve("pick")
            target = process.resolve("two").addr
            assert answer.addr in (None, stands_for, target)
            if answer.addr is None:
                assert answer.status == "unbound"
            elif "-DWITHOUT_DL" not in flags and "-rdynamic" in flags:
                assert answer.addr == running.tell("default", "pick")


@pytest.fixture(scope="module")
def narrow() -> Path:
    need_linking("gcc", "-m32")
    program = teller("-m32", *PLAIN, "-rdynamic")
    if subprocess.run([program], input="", capture_output=True, text=True, check=False).returncode:
        not_here("no programs of 32 bits")
    return program


def test_a_program_of_32_bits_and_its_c_library(narrow: Path) -> None:
    library = made(
        "libnarrow.so",
        TEXT + "__thread int local = 4; void *local_addr(void) { return &local; }",
        *LIBRARY,
        "-m32",
    )
    with Teller(narrow) as running:
        for name in ("malloc", "puts", "environ", "stdout", "nosuch", "own_public"):
            running.check(name, running.tell("default", name))
        copy = running.process.resolve("memcpy")  # an IFUNC: only a slot would say which
        asked(running.pid, "memcpy", running.tell("default", "memcpy"), copy.addr)
        assert copy.addr in (None, running.tell("default", "memcpy"))
        assert copy.status in ("ok", "unbound")
        for name, version in (("pthread_cond_wait", "GLIBC_2.0"), ("fopen", "GLIBC_2.0")):
            running.check(f"{name}@{version}", running.tell("default", name, version))
        for name in ("own_private", "own_data", "own_tls", "own_tls_public"):
            running.check(name, running.tell("own", name))
        tid, truth = running.in_thread("own-in-thread", "own_tls")
        running.check("own_tls", truth, thread=tid)
        handle = running.open(library)
        assert_looked_up(running, handle)
        assert running.check("local", 0).status == "not-allocated"
        running.check("local", running.tell("call", handle, "local_addr"))
        space = running.say("space", library)
        running.check("data", running.tell("handle", space, "data"), namespace=1)
        assert running.say("close", handle) == "0"
        running.check("data", running.tell("handle", space, "data"), namespace=1)


@pytest.mark.every(2)
@pytest.mark.parametrize("linkage", ["-static", "-static-pie", "-no-pie"])
def test_programs_of_32_bits_of_every_linkage(linkage: str, narrow: Path) -> None:
    assert narrow.exists()  # whether there are any is known
    flags = ("-no-pie", "-fno-pie") if linkage == "-no-pie" else (linkage, "-DWITHOUT_DL")
    with Teller(teller("-m32", *flags)) as running:
        for name in ("own_private", "own_public", "own_data", "own_tls", "own_tls_public"):
            running.check(name, running.tell("own", name))
        tid, truth = running.in_thread("own-in-thread", "own_tls")
        running.check("own_tls", truth, thread=tid)
