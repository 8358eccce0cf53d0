# SPDX-License-Identifier: Apache-2.0
"""Files with stubs for tests: built for many processors, read, run, and shown by objdump."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from soscope.binfmt.elf.filemap import ElfMap
from soscope.binfmt.elf.image import ElfImage
from soscope.inspect.check import emulate
from tests.support.files.elffiles import run
from tests.support.machines.tools import need
from tests.support.targets.build import made_in
from tests.support.time.patience import limit

# calls functions of libc, one of them also by its address
PROGRAM = """
extern int puts(const char *), abs(int), toupper(int), atoi(const char *);
extern void *malloc(unsigned long);
extern void free(void *);
int main(int argc, char **argv)
{
	void *p = malloc(argc);
	int (*f)(int) = argc > 1 ? abs : toupper;
	free(p);
	puts(argv[0]);
	return f(argc) + abs(argc) + atoi(argv[0]);
}
"""


@contextmanager
def opened(path: Path) -> Iterator[ElfMap]:
    """Open a file as `soscope map` does."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield ElfMap(ElfImage.from_descriptor(descriptor, str(path)))
    finally:
        os.close(descriptor)


def differences(mapped: ElfMap) -> list[str]:
    """Run every stub under Unicorn; return what differs from what the file says."""
    slots = {one.vaddr: one for one in mapped.slots}
    found = []
    for ran in emulate.run_stubs(mapped):
        slot = slots.get(ran.stub.slot)
        why = "leads to no slot" if slot is None else emulate.disagreement(slot, ran)
        if why:
            found.append(f"{slot.symbol if slot else '?'}: {ran.stub}: {why}")
    return found


def named_by_objdump(path: Path, objdump: str, *words: str) -> dict[int, str]:
    """Return what `objdump -d` calls foo@plt: address -> foo."""
    need(objdump)
    done = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", *words, str(path)],
        capture_output=True,
        text=True,
        timeout=limit(120),
        check=False,
    )
    rows = re.finditer(r"^([0-9a-f]+) <(.+)@plt>:$", done.stdout, re.MULTILINE)
    return {int(row[1], 16): row[2].partition("@")[0] for row in rows}


# architecture -> (clang's --target, GNU's prefix of tools, mold's and LLD's -m)
FOREIGN = {
    "aarch64": ("aarch64-linux-gnu", "aarch64-linux-gnu-", "aarch64linux"),
    "arm": ("armv7-linux-gnueabihf", "arm-linux-gnueabihf-", "armelf_linux_eabi"),
    "riscv64": ("riscv64-linux-gnu", "riscv64-linux-gnu-", "elf64lriscv"),
    "s390x": ("s390x-linux-gnu", "s390x-linux-gnu-", "elf64_s390"),
    "riscv32": ("riscv32-linux-gnu", "riscv64-linux-gnu-", "elf32lriscv"),
    "mips": ("mips-linux-gnu", "mips-linux-gnu-", "elf32btsmip"),
    "mipsel": ("mipsel-linux-gnu", "mips-linux-gnu-", "elf32ltsmip"),
    "mips64": ("mips64-linux-gnuabi64", "mips-linux-gnu-", "elf64btsmip"),
    "mips64el": ("mips64el-linux-gnuabi64", "mips-linux-gnu-", "elf64ltsmip"),
    "ppc": ("powerpc-linux-gnu", "powerpc64-linux-gnu-", "elf32ppclinux"),
    "ppc64": ("powerpc64-linux-gnu", "powerpc64-linux-gnu-", "elf64ppc"),
    "ppc64le": ("powerpc64le-linux-gnu", "powerpc64-linux-gnu-", "elf64lppc"),
}
LIBRARY = """
int puts(const char *s) { return s != 0; }
int abs(int x) { return x; }
int toupper(int x) { return x; }
int atoi(const char *s) { return s[0]; }
void *malloc(unsigned long n) { return (void *)n; }
void free(void *p) { (void)p; }
"""


# what the linkers call the stubs that they put among the functions
_STUB_NAMES = re.compile(
    r"^([0-9a-f]+) \w (?:[0-9a-f]{8}\.(?:got2\.)?plt_(?:call|pic32)\.|__plt_(?:pcrel_)?)([^@+\n]+)",
    re.MULTILINE,
)


def named_by_linker(path: Path) -> dict[int, str]:
    """Return what GNU ld or LLD says of its stubs in the symbol table: address -> function."""
    rows = _STUB_NAMES.findall(run("powerpc64-linux-gnu-nm", path))
    return {int(vaddr, 16): name for vaddr, name in rows}


def assembled(folder: Path, arch: str, text: str, *, name: str = "calls") -> Path:
    """Assemble for another processor."""
    source, result = folder / f"{name}.s", folder / f"{name}.o"
    source.write_text(text)
    made_in(folder, "clang", f"--target={FOREIGN[arch][0]}", "-c", "-o", result, source)
    return result


def linker(arch: str, name: str) -> list[str]:
    """Return the command of a linker ("bfd", "gold", "lld", "mold") for an architecture."""
    _, prefix, emulation = FOREIGN[arch]
    if name in {"bfd", "gold"}:
        own = ["-m", emulation] if prefix.startswith(("mips", "powerpc")) else []
        return [need(f"{prefix}ld.{name}"), *own]
    return [need({"lld": "ld.lld", "mold": "mold"}[name]), "-m", emulation]


def compiled(folder: Path, arch: str, text: str, *flags: str, name: str = "calls") -> Path:
    """Compile C for another processor, without its C library."""
    source, result = folder / f"{name}.c", folder / f"{name}.o"
    source.write_text(text)
    words = ("-O1", "-ffreestanding", "-fno-builtin", "-fno-stack-protector", *flags)
    made_in(folder, "clang", f"--target={FOREIGN[arch][0]}", *words, "-c", "-o", result, source)
    return result


def linked(
    folder: Path, arch: str, by: str, objects: list[Path], *flags: str, name: str = "calls"
) -> Path:
    """Link objects for another processor."""
    made_in(folder, *linker(arch, by), "-o", name, *objects, *flags)
    return folder / name


def program(
    folder: Path, arch: str, by: str, *flags: str, compiling: tuple[str, ...] = ("-fPIC",)
) -> Path:
    """Build PROGRAM, and the library that it needs, for another processor."""
    abi = [one for one in compiling if one.startswith("-mabi=")]
    library = compiled(folder, arch, LIBRARY, "-fPIC", *abi, name="lib")
    shared = linked(folder, arch, by, [library], "-shared", "-soname=libcalls.so", name="lib.so")
    unit = compiled(folder, arch, PROGRAM, *compiling)
    words = ("-e", "main", "-dynamic-linker=/lib/ld.so.1", *flags)
    return linked(folder, arch, by, [unit, shared], *words)


def joined(mapped: ElfMap, *left_out: str) -> list[tuple[object, ...]]:
    """Return the slots with their stubs, but for those whose kind ends with `left_out`."""
    return [
        (
            *(one.vaddr, one.symbol, one.binding, one.helper, one.resolver_argument),
            *((stub.vaddr, stub.slot, stub.kind) for stub in one.stubs),
        )
        for one in mapped.slots
        if not (left_out and one.kind.endswith(left_out))
    ]


def without_sections(path: Path, folder: Path | None = None) -> Path:
    """Make a copy of an ELF file that has no section headers, in its own folder or another."""
    data = bytearray(path.read_bytes())
    order = "<" if data[5] == 1 else ">"
    if data[4] == 2:
        struct.pack_into(order + "Q", data, 40, 0)
        struct.pack_into(order + "HHH", data, 58, 0, 0, 0)
    else:
        struct.pack_into(order + "I", data, 32, 0)
        struct.pack_into(order + "HHH", data, 46, 0, 0, 0)
    bare = (folder or path.parent) / f"{path.name}.bare"
    bare.write_bytes(data)
    return bare
