# SPDX-License-Identifier: Apache-2.0
"""Every shape of stubs and slots that compilers and linkers of this machine make for x86.

All are made of one source. A shape says in words of the compiler's driver how it is built; what
no linker of today makes is rewritten out of what one does.
"""

from __future__ import annotations

import itertools
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import Sections
from soscope.binfmt.source import BufferSource
from soscope.model.filemap import PLT, PLT_SEC, RETPOLINE
from tests.support.machines.tools import need
from tests.support.targets.build import made_in
from tests.support.targets.matrix import LINKERS
from tests.support.time.patience import limit

SOURCE = """
extern int puts(const char *), atoi(const char *), abs(int), toupper(int), rand(void);
extern char *getenv(const char *);
extern void *malloc(unsigned long);
extern void free(void *);
extern int weak_one(int) __attribute__((weak));
extern void *stdout;
#ifdef TLS
__thread int own_thread_local;
extern __thread int thread_local_of_others;
#endif
int own(int x) { return x * 3; }  /* of this file, and yet bound by the loader in a library */
static int one(int x) { return x + 1; }
#ifndef NO_IFUNC
static void *choose(void) { return (void *)one; }
static void *choose_open(void) { return (void *)one; }
int chosen(int) __attribute__((ifunc("choose"), visibility("hidden")));
int open_chosen(int) __attribute__((ifunc("choose_open")));
#else
static int chosen(int x) { return one(x); }
static int open_chosen(int x) { return one(x); }
#endif
int run(int n)
{
    int (*volatile taken)(const char *) = puts;  /* called and taken */
    int (*volatile only_taken)(void) = rand;
    void *memory = malloc(n);
    int sum = toupper(n) + own(n) + chosen(n) + open_chosen(n) + (stdout != 0);
    sum += abs(atoi(getenv("HOME") ? "1" : "2"));
    if (weak_one)
        sum += weak_one(n);
    free(memory);
#ifdef TLS
    sum += own_thread_local + thread_local_of_others;
#endif
    return sum + puts("called") + taken("taken") + (only_taken != 0);
}
#ifdef PROGRAM
int main(int argc, char **argv) { return run(argc) == 0; }
#endif
"""

# nothing but functions that choose their implementation
ALONE = """
static int one(int x) { return x + 1; }
static void *choose(void) { return (void *)one; }
static void *choose_other(void) { return (void *)one; }
int chosen(int) __attribute__((ifunc("choose"), visibility("hidden")));
int other(int) __attribute__((ifunc("choose_other"), visibility("hidden")));
void _start(void) { chosen(1); other(2); for (;;); }
"""

_PIE = ("-DPROGRAM", "-fPIE", "-pie")
_NOPIE = ("-DPROGRAM", "-fno-pie", "-no-pie")
_SHARED = ("-fPIC", "-shared")
_JUMP_SLOT = 7  # on both processors
_PLAIN = ("-fcf-protection=none", "-fplt")
_IBT = ("-fcf-protection=full", "-fplt")
_STATIC = ("-DPROGRAM", "-fno-pie", "-no-pie", "-static")
_TLS = "-DTLS", "-mtls-dialect=gnu2"
_LAZY, _NOW = ("-Wl,-z,lazy",), ("-Wl,-z,now",)


class Shape(NamedTuple):
    """One way to build; `kind` is that of malloc's stub, "" where it has none.

    `bits` are 32, 64 or 0 for x32; `rewrite` changes the file behind the linker.
    """

    name: str
    words: tuple[str, ...]
    kind: str = PLT
    linker: str = "bfd"
    bits: int = 64
    compiler: str = "gcc"
    source: str = SOURCE
    rewrite: Callable[[Path], None] | None = None

    @property
    def id(self) -> str:
        """A word for test names."""
        size = {64: "64", 32: "32", 0: "x32"}[self.bits]
        return f"{self.name}-{size}-{self.compiler}-{self.linker}"


def build(shape: Shape, folder: Path) -> Path:
    """Make a file of this shape; return its path."""
    if shape.compiler != "musl-gcc":
        need(LINKERS[shape.linker])
    path = folder / "made"
    words = [
        shape.compiler,
        {64: "-m64", 32: "-m32", 0: "-mx32"}[shape.bits],
        "-O1",
        "-fno-builtin",
    ]
    words += ["-w", "-o", path.name, *shape.words]
    words += ["-x", "c", "-"] if shape.compiler == "musl-gcc" else []
    if shape.compiler != "musl-gcc":
        words += [f"-fuse-ld={shape.linker}", "-x", "c", "-"]
    made_in(folder, *words, text=shape.source)
    if shape.rewrite is not None:
        shape.rewrite(path)
    return path


# ---- rewriting ----


def _sections(path: Path) -> tuple[bytearray, ElfImage, Sections]:
    data = bytearray(path.read_bytes())
    image = ElfImage.from_source(BufferSource(bytes(data), str(path)))
    return data, image, Sections.read(image)


def to_bnd(path: Path) -> None:
    """Turn an IBT file into one with `bnd jmp` as binutils made them until 2.39.

    endbr64; jmp *d(%rip); nopw 0(%rax,%rax) becomes endbr64; bnd jmp *d(%rip); nopl
    0(%rax,%rax), and push; jmp PLT0; xchg becomes push; bnd jmp PLT0; nop.
    """
    data, _, sections = _sections(path)
    changed = 0
    for one in sections.all:
        if not one.name.startswith(".plt"):
            continue
        for at in range(one.offset, one.offset + one.size - 15, 16):
            code = bytes(data[at : at + 16])
            if code[:6] == b"\xf3\x0f\x1e\xfa\xff\x25":
                (distance,) = struct.unpack_from("<i", code, 6)
                new = code[:4] + b"\xf2\xff\x25" + struct.pack("<i", distance - 1)
                data[at : at + 16] = new + b"\x0f\x1f\x44\0\0"
                changed += 1
            elif code[:5] == b"\xf3\x0f\x1e\xfa\x68" and code[9:10] == b"\xe9":
                (distance,) = struct.unpack_from("<i", code, 10)
                data[at : at + 16] = (
                    code[:9] + b"\xf2\xe9" + struct.pack("<i", distance - 1) + b"\x90"
                )
                changed += 1
            elif code[:2] == b"\xff\x35" and code[6:8] == b"\xff\x25":
                (distance,) = struct.unpack_from("<i", code, 8)
                new = code[:6] + b"\xf2\xff\x25" + struct.pack("<i", distance - 1)
                data[at : at + 16] = new + b"\x0f\x1f\0"
                changed += 1
    assert changed > 5
    path.write_bytes(data)


def to_prelinked(path: Path) -> None:
    """Put final addresses into the slots, and DT_GNU_PRELINKED where DT_NULL was."""
    data, image, _ = _sections(path)
    coding = image.encoding
    dynamic = next(one for one in image.segments if one.type == c.PT_DYNAMIC)
    at = dynamic.offset
    while coding.dynamic.unpack_from(data, at)[0] != c.DT_NULL:
        at += coding.dynamic.size
    assert at + 2 * coding.dynamic.size <= dynamic.offset + dynamic.filesz
    coding.dynamic.pack_into(data, at, c.DT_GNU_PRELINKED, 0x4A5B6C7D)
    start = image.locate_pointer(c.DT_JMPREL)
    size = image.dynamic.get(c.DT_PLTRELSZ)
    assert start is not None
    assert size
    layout = coding.rela if image.dynamic.get(c.DT_PLTREL) == c.DT_RELA else coding.rel
    for place in range(start, start + size, layout.size):
        slot, info, *_ = layout.unpack_from(data, place)
        if info & 0xFF != _JUMP_SLOT:
            continue
        coding.word.pack_into(data, image.locate(slot), 0x41000000 + slot)
    path.write_bytes(data)


def _header(path: Path, shoff: int | None, shnum: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    is_64 = data[4] == 2
    if shoff is not None:
        struct.pack_into("<Q" if is_64 else "<I", data, 40 if is_64 else 32, shoff)
    if shnum is not None:
        struct.pack_into("<H", data, 60 if is_64 else 48, shnum)
    path.write_bytes(data)


def without_headers(path: Path) -> None:
    """Say that there are no section headers; they stay in the file."""
    _header(path, 0, 0)


def with_headers_outside(path: Path) -> None:
    """Say that the section headers lie behind the end of the file."""
    _header(path, path.stat().st_size + 4096)


def with_headers_astray(path: Path) -> None:
    """Say that the section headers lie in the middle of something else."""
    _header(path, 0x100)


def truncated(path: Path) -> None:
    """Cut off what no segment holds: the section headers, and all that only they lead to."""
    data = path.read_bytes()
    image = ElfImage.from_source(BufferSource(data, str(path)))
    end = max(one.offset + one.filesz for one in image.segments)
    path.write_bytes(data[:end])


def stripped(path: Path) -> None:
    """Run strip."""
    subprocess.run([need("strip"), str(path)], check=True, timeout=limit())


VARIANTS: dict[str, Callable[[Path], None]] = {
    "stripped": stripped,
    "no-headers": without_headers,
    "headers-outside": with_headers_outside,
    "headers-astray": with_headers_astray,
    "truncated": truncated,
}


# ---- the list ----


def _of_every_linker() -> Iterator[Shape]:
    for bits, linker in itertools.product((64, 32), LINKERS):
        for name, words, kind in (
            ("pie", (*_PLAIN, *_PIE, *_LAZY), PLT),
            ("pie-now", (*_PLAIN, *_PIE, *_NOW), PLT),
            ("nopie", (*_PLAIN, *_NOPIE, *_LAZY), PLT),
            ("shared", (*_PLAIN, *_SHARED, *_LAZY), PLT),
            ("shared-now", (*_PLAIN, *_SHARED, *_NOW), PLT),
            ("no-plt", (_PLAIN[0], "-fno-plt", *_SHARED, *_NOW), ""),
            ("static", (*_PLAIN, *_STATIC), ""),
            ("tlsdesc", (*_PLAIN, *_TLS, *_SHARED, *_LAZY), PLT),
        ):
            yield Shape(name, tuple(words), kind, linker, bits)
        # ld.bfd refuses clang's calls of an IFUNC of the same file on i386
        defined = ("-DNO_IFUNC",) if bits == 32 else ()
        words = (*_PLAIN, *_SHARED, *_LAZY, *defined)
        yield Shape("shared", words, PLT, linker, bits, "clang")


def _of_some_linkers() -> Iterator[Shape]:
    lazy, now = (*_SHARED, *_LAZY), (*_SHARED, *_NOW)
    for bits in (64, 32):
        for linker, asked, kind in (
            ("bfd", ["-Wl,-z,ibtplt"], PLT_SEC),
            ("lld", ["-Wl,-z,force-ibt"], PLT_SEC),
            ("mold", [], PLT),
        ):
            for name, form in (("", lazy), ("-now", now), ("-nopie", (*_NOPIE, *_LAZY))):
                yield Shape(f"ibt{name}", (*_IBT, *form, *asked), kind, linker, bits)
        for name, form in (("", lazy), ("-now", now), ("-nopie", (*_NOPIE, *_LAZY))):
            words = (*_PLAIN, *form, "-Wl,-z,retpolineplt")
            yield Shape(f"retpoline{name}", words, RETPOLINE, "lld", bits)
        for linker in ("bfd", "lld", "mold"):
            words = (*_PLAIN, "-fPIE", "-static-pie")
            yield Shape("static-pie", (*words, "-DPROGRAM"), "", linker, bits)
            words = (*words, "-nostdlib")
            yield Shape("ifunc-alone", words, "", linker, bits, source=ALONE)
        for linker, asked in (
            ("bfd", ["-Wl,-z,pack-relative-relocs"]),
            ("lld", ["-Wl,--pack-dyn-relocs=relr"]),
            ("mold", ["-Wl,-z,pack-relative-relocs"]),
        ):
            yield Shape("relr", (*_PLAIN, *_PIE, *_LAZY, *asked), PLT, linker, bits)
        for linker, flag in (
            ("bfd", "-Ttext-segment"),
            ("gold", "-Ttext"),
            ("lld", "--image-base"),
        ):
            words = (*_PLAIN, *lazy, f"-Wl,{flag}=0x7650000")
            yield Shape("based", words, PLT, linker, bits)
        for linker, at in itertools.product(("bfd", "mold"), ("0x7654", "0x7658")):
            words = (*_PLAIN, *_SHARED, *_LAZY, f"-Wl,--section-start=.plt={at}")
            yield Shape(f"odd-{at}", words, PLT, linker, bits)


def _of_one_linker() -> Iterator[Shape]:
    lazy = (*_PLAIN, *_SHARED, *_LAZY)
    nopie = (*_PLAIN, *_NOPIE, *_LAZY)
    for bits in (64, 32):
        yield Shape("tlsdesc-now", (*_PLAIN, *_TLS, *_SHARED, *_NOW), PLT, bits=bits)
        for style in ("gnu", "sysv"):
            yield Shape(f"hash-{style}", (*lazy, f"-Wl,--hash-style={style}"), PLT, bits=bits)
        for name, flag in (("auxiliary", "-f"), ("filter", "-F")):
            yield Shape(name, (*lazy, f"-Wl,{flag},libother.so"), PLT, bits=bits)
        yield Shape("prelinked", lazy, PLT, bits=bits, rewrite=to_prelinked)
        for name, how in (
            ("large-pages", "max-page-size=0x200000"),
            ("no-separate-code", "noseparate-code"),
            ("no-relro", "norelro"),
        ):
            yield Shape(name, (*nopie, f"-Wl,-z,{how}"), PLT, bits=bits)
    musl = "-fcf-protection=none", "-DNO_IFUNC", "-fplt"
    for name, form in (("musl", _PIE), ("musl-shared", _SHARED), ("musl-nopie", _NOPIE)):
        yield Shape(name, (*musl, *form), PLT, compiler="musl-gcc")
    bnd = (*_IBT, *_SHARED, "-Wl,-z,ibtplt")
    yield Shape("bnd", (*bnd, *_LAZY), PLT_SEC, rewrite=to_bnd)
    yield Shape("bnd-now", (*bnd, *_NOW), PLT_SEC, rewrite=to_bnd)
    for linker in ("bfd", "gold"):
        for name, form in (("pie", _PIE), ("shared", _SHARED), ("nopie", _NOPIE)):
            yield Shape(f"x32-{name}", (*_PLAIN, *form, *_LAZY), PLT, linker, 0)
    yield Shape("x32-ibt", (*_IBT, *_SHARED, *_LAZY, "-Wl,-z,ibtplt"), PLT_SEC, "bfd", 0)


SHAPES = [*_of_every_linker(), *_of_some_linkers(), *_of_one_linker()]
