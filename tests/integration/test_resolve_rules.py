# SPDX-License-Identifier: Apache-2.0
"""What a loader takes for a definition: each field of a symbol, changed, and dlsym asked."""

from __future__ import annotations

import json
import shutil
import struct
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource
from soscope.inspect.explain.process import explain_process
from soscope.linker.image import Image
from soscope.linker.library import open_image
from soscope.linker.providers import Providers
from soscope.live.images.image import LoadedImage
from soscope.live.process import Process
from tests.support.processes.resolving import LIBRARY, Teller, made, teller
from tests.support.processes.run import run
from tests.support.targets import mapped

PLAIN = ("-pie", "-fPIE")

# st_info, st_other, st_shndx, st_value, version; None leaves what is there
Change = tuple[int | None, int | None, int | None, int | None, int | None]

# Every value of each field that a loader looks at, one field at a time.
CHANGES: list[Change] = [
    (None, None, None, None, None),
    *((c.STB_GLOBAL << 4 | kind, None, None, None, None) for kind in range(16)),
    *((binding << 4 | c.STT_FUNC, None, None, None, None) for binding in range(16)),
    *((None, other, None, None, None) for other in (1, 2, 3, 4, 8, 0x10, 0x60, 0x80, 0x82, 0x83)),
    *((None, None, section, None, None) for section in (0, 0xFF00, 0xFFF1, 0xFFF2, 0xFFFF)),
    (None, None, None, 0, None),
    (None, None, 0, 0, None),
    (None, None, 0xFFF1, 0, None),
    *((None, None, None, None, number) for number in (0, 1, 0x8000, 0x8001)),
    # the version that is asked for, another one of the library's, and one without a name
    *((None, None, None, None, number) for number in (2, 0x8002, 3, 0x8003, 4, 0x8004)),
]
# A function that an IFUNC's resolver may be: what it returns is a function of the same library.
BODY = "static void {name}_own(void) {{ }} void *{name}(void) {{ return (void *){name}_own; }}"
VERSIONS = {"v.map": "V1 { global: rule_*; }; V2 { global: second; }; V3 { global: third; };"}


def function(number: int) -> str:
    """Return the name of the function with one of the changes; those of TLS cannot be called."""
    info = CHANGES[number][0]
    return f"rule_{'tls_' if info is not None and info & 15 == c.STT_TLS else ''}{number}"


NAMES = [function(number) for number in range(len(CHANGES))]
CASES = dict(zip(NAMES, CHANGES, strict=True))
TEXT = "\n".join(BODY.format(name=name) for name in NAMES)
TEXT += "\nvoid second(void) { } void third(void) { }\n"


def without_third_version(data: bytearray) -> None:
    """Give V2 another number: then its old one is in the range of numbers, and has no name."""
    image = ElfImage.from_source(BufferSource(bytes(data), "library"))
    at = image.locate_pointer(c.DT_VERDEF)
    assert at is not None
    while struct.unpack_from("<H", data, at + 4)[0] != 4:
        at += struct.unpack_from("<I", data, at + 16)[0]
    struct.pack_into("<H", data, at + 4, 5)


def patch(data: bytearray, image: ElfImage, index: int, change: Change) -> None:
    """Change the dynamic symbol at `index` of a library."""
    symbols, versions = image.locate_pointer(c.DT_SYMTAB), image.locate_pointer(c.DT_VERSYM)
    assert symbols is not None
    assert versions is not None
    info, other, section, value, version = change
    at = symbols + 24 * index
    for offset, code, new in (
        (4, "B", info),
        (5, "B", other),
        (6, "H", section),
        (8, "Q", value),
    ):
        if new is not None:
            struct.pack_into("<" + code, data, at + offset, new)
    if version is not None:
        struct.pack_into("<H", data, versions + 2 * index, version)


def changed(library: Path, changes: dict[str, Change], target: Path) -> None:
    """Copy a library; change the dynamic symbols of these names."""
    data = bytearray(library.read_bytes())
    image = ElfImage.from_source(BufferSource(bytes(data), library.name))
    indices = {one.name: one.index for one in image.symbols}
    for name, change in changes.items():
        patch(data, image, indices[name], change)
    without_third_version(data)
    target.write_bytes(data)
    shutil.copymode(library, target)


@pytest.mark.covering(1)
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
@pytest.mark.parametrize("compiler", ["gcc", "musl-gcc"])
def test_every_field_of_a_symbol(style: str, compiler: str, tmp_path: Path) -> None:
    library = made(
        "librules.so",
        TEXT,
        # no static symbols: they would be the answer where dlsym has none
        *(*LIBRARY, "-s", "-Wl,--version-script=v.map", f"-Wl,--hash-style={style}"),
        compiler=compiler,
        files=VERSIONS,
    )
    copy = tmp_path / "librules.so"
    changed(library, CASES, copy)
    with Teller(teller(*PLAIN, compiler=compiler)) as running:
        handle = running.open(copy, "now,global")
        found = 0
        for name in NAMES:
            info = CASES[name][0]
            if name.startswith("rule_tls"):
                continue  # nobody's variable: glibc's dlsym does not survive it
            if info is not None and info & 15 == c.STT_GNU_IFUNC and compiler == "gcc":
                continue  # glibc asks the resolver; nothing is bound to it yet
            truth = running.tell("default", name)
            found += bool(truth)
            running.check(name, truth)
            if compiler == "gcc":
                running.check(f"{name}@V1", running.tell("default", name, "V1"))
                running.check(f"librules.so!{name}@V1", running.tell("handle", handle, name, "V1"))
        assert 0 < found < len(NAMES)


@pytest.mark.parametrize("style", ["gnu", "sysv"])
def test_two_default_versions_are_none(style: str, tmp_path: Path) -> None:
    text = "int old_way(void) { return 1; } int new_way(void) { return 2; }"
    text += '__asm__(".symver old_way, way@V1"); __asm__(".symver new_way, way@@V2");'
    library = made(
        "libtwo.so",
        text,
        *(*LIBRARY, "-Wl,--version-script=v.map", f"-Wl,--hash-style={style}"),
        files={"v.map": "V1 { global: way; local: *; }; V2 { } V1;"},
    )
    data = bytearray(library.read_bytes())
    image = ElfImage.from_source(BufferSource(bytes(data), "libtwo.so"))
    versions = image.locate_pointer(c.DT_VERSYM)
    assert versions is not None
    for one in image.symbols:
        if one.name == "way" and not one.is_default:
            data[versions + 2 * one.index + 1] &= 0x7F
    copy = tmp_path / "libtwo.so"
    copy.write_bytes(data)
    with Teller(teller(*PLAIN)) as running:
        running.open(copy, "now,global")
        running.check("way", running.tell("default", "way"))
        for version in ("V1", "V2"):
            running.check(f"way@{version}", running.tell("default", "way", version))


@pytest.mark.every(2)
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_who_only_uses_a_name_does_not_define_it(style: str) -> None:
    """DT_HASH has what is undefined, too: thread-local variables, weak ones, data."""
    need = made(
        "libdefines.so",
        "__thread int local = 1; int data = 2; int code(void) { return 3; }",
        *LIBRARY,
        f"-Wl,--hash-style={style}",
    )
    text = "extern __thread int local; extern int data; int code(void); "
    text += "extern int absent __attribute__((weak)); "
    text += "int *a(void) { return &local; } int *b(void) { return &data; } "
    text += "void *d(void) { return (void *)code; } int *e(void) { return &absent; }"
    library = made("libuses.so", text, *LIBRARY, f"-Wl,--hash-style={style}", links=[need])
    with Teller(teller(*PLAIN)) as running:
        handle = running.open(library, "now,global")
        # here dlsym itself is wrong: it takes an undefined variable of this kind for a definition
        running.check("local", running.tell("call", handle, "a"))
        for name in ("data", "code", "absent"):
            running.check(name, running.tell("default", name))
            running.check(f"libuses.so!{name}", running.tell("handle", handle, name))


# Prints, for each function that it calls: the name, the image that its own slot leads into as
# its loader says (the value itself where that is in none), and dlsym's answer likewise.
TELLS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
extern Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));
extern char __ehdr_start[] __attribute__((visibility("hidden")));
static void *table(long tag)
{
    for (Elf64_Dyn *one = _DYNAMIC; one->d_tag; one++)
        if (one->d_tag == tag) {
            unsigned long at = one->d_un.d_val;
            int is_size = tag == DT_PLTRELSZ;
            return (void *)(is_size || at > (unsigned long)__ehdr_start ? at
                            : at + (unsigned long)__ehdr_start);
        }
    return 0;
}
static void where(void *addr)
{
    Dl_info info;
    if (dladdr(addr, &info) && info.dli_fname)
        printf("\t%s", strrchr(info.dli_fname, '/') ? strrchr(info.dli_fname, '/') + 1
                                                    : info.dli_fname);
    else
        printf("\t%p", addr);
}
int main(void)
{
    Elf64_Rela *rows = table(DT_JMPREL);
    Elf64_Sym *symbols = table(DT_SYMTAB);
    char *strings = table(DT_STRTAB);
    for (unsigned long i = 0; i < (unsigned long)table(DT_PLTRELSZ) / sizeof *rows; i++) {
        char *name = strings + symbols[ELF64_R_SYM(rows[i].r_info)].st_name;
        if (strncmp(name, "rule_", 5))
            continue;
        printf("%s", name);
        where(*(void **)(__ehdr_start + rows[i].r_offset));
        if (strncmp(name, "rule_tls", 8)) // nobody's variable: glibc does not survive it
            where(dlsym(RTLD_DEFAULT, name));
        else
            printf("\\t-");
        puts("");
    }
    puts("ready");
    fflush(stdout);
    getchar();
    return CALLS;
}
"""


def unversioned(path: Path) -> None:
    """Take the versions of a library away: their tags become some that nobody reads."""
    data = bytearray(path.read_bytes())
    image = ElfImage.from_source(BufferSource(bytes(data), path.name))
    at = next(one.offset for one in image.segments if one.type == c.PT_DYNAMIC)
    for place in range(at, at + 16 * len(image.dynamic.entries), 16):
        (tag,) = struct.unpack_from("<q", data, place)
        if tag in (c.DT_VERSYM, c.DT_VERDEF, c.DT_VERDEFNUM, c.DT_VERNEED, c.DT_VERNEEDNUM):
            struct.pack_into("<q", data, place, 0x6FFFFE00)
    path.write_bytes(data)


def two_providers(
    compiler: str, style: str, folder: Path, *, asks_version: bool, has_versions: bool = True
) -> Path:
    """Return a program whose functions two libraries define, the first of them changed.

    Its references have a version, or none: then it was linked with older libraries.
    """
    words = (*LIBRARY, "-s", "-Wl,--version-script=v.map", f"-Wl,--hash-style={style}")
    both = ("libfirst.so", "libsecond.so")
    libraries = [
        made(name, TEXT, *words, f"-Wl,-soname,{name}", compiler=compiler, files=VERSIONS)
        for name in both
    ]
    older = [made(name, TEXT, *LIBRARY, f"-Wl,-soname,{name}", compiler=compiler) for name in both]
    declared = "".join(f"int {name}(void);" for name in NAMES)
    program = made(
        "calls",
        declared + TELLS.replace("CALLS", " + ".join(f"{name}()" for name in NAMES)),
        *("-pie", "-fPIE", "-fplt", "-fcf-protection=none", "-Wl,-z,now", "-Wl,--no-as-needed"),
        "-Wl,-rpath,$ORIGIN",
        compiler=compiler,
        links=libraries if asks_version else older,
    )
    for one in (program, libraries[1]):
        shutil.copy(one, folder)
    changed(libraries[0], CASES, folder / "libfirst.so")
    if not has_versions:
        unversioned(folder / "libfirst.so")
    return folder / program.name


@pytest.mark.covering(1)
@pytest.mark.parametrize("asks_version", [True, False])
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
@pytest.mark.parametrize("compiler", ["gcc", "musl-gcc"])
def test_every_verb_takes_the_definition_that_the_loader_takes(
    compiler: str, style: str, tmp_path: Path, *, asks_version: bool
) -> None:
    assert_every_verb_agrees(two_providers(compiler, style, tmp_path, asks_version=asks_version))


def test_every_verb_takes_the_definition_of_a_library_that_has_lost_its_versions(
    tmp_path: Path,
) -> None:
    program = two_providers("gcc", "gnu", tmp_path, asks_version=False, has_versions=False)
    assert_every_verb_agrees(program)


def assert_every_verb_agrees(program: Path, cases: Mapping[str, object] = CASES) -> None:
    """Run a program of `two_providers`; compare what it says of itself with what we say.

    `cases` has what was changed for each function.
    """
    told: dict[str, tuple[str, str]] = {}
    wrong: list[str] = []
    with mapped.said(program) as (process, lines):
        for line in lines:
            name, slot, symbol = line.split("\t")
            told[name] = slot, symbol
        assert {one for ends in told.values() for one in ends} >= {"libfirst.so", "libsecond.so"}
        assert told.keys() == set(cases)
        soscope = (sys.executable, "-m", "soscope")
        live = mapped.read(process.pid)
        file = json.loads(run([*soscope, "map", "--json", program]).stdout)["images"][0]
        query = run([*soscope, "resolve", "--json", "-p", str(process.pid), *told])
        answers = {one["query"]: one for one in json.loads(query.stdout)["results"]}
        with Process(process.pid) as looked_at, closing(Image.open(program)) as image:
            bindings = {one.symbol: one for one in looked_at.bindings(image=program.name)}
            for name, ends in told.items():
                (row,) = mapped.rows_of(live, name, program.name)
                (planned,) = [one for one in file["slots"] if one["symbol"] == name]
                (way,) = explain_process(process.pid, name).images[0].ways
                answer = looked_at.resolve(name)
                said = {
                    "resolve -p": answers[name]["image"],
                    "Process.resolve": answer.image and answer.image.name,
                    "map -p": row["to_image"],
                    "map -p, state": row["state"],
                    "Process.bindings": name_of(bindings[name].to_image),
                    "explain -p": way.process and way.process.to_image,
                    "explain -p, state": way.process and way.process.state,
                    "map FILE": planned["provider"],
                    "Image": image.slots[name].provider,
                    # what the file names itself says nothing of the look-up: ask that, too
                    "Image, by its libraries": search(image, name, planned["version"]),
                }
                # an absolute symbol is in no image: the one that defines it is the answer
                slot, symbol = (one if one.startswith("lib") else "libfirst.so" for one in ends)
                # a version requirement names a file, which is the answer then
                named = "libfirst.so" if planned["version"] else slot
                truth = {
                    **dict.fromkeys(said, slot),
                    **dict.fromkeys(("resolve -p", "Process.resolve"), symbol),
                    **dict.fromkeys(("map -p, state", "explain -p, state"), "bound"),
                    **dict.fromkeys(("map FILE", "Image"), named),
                }
                if name.startswith("rule_tls"):
                    del truth["resolve -p"], truth["Process.resolve"]
                wrong += [
                    f"{cases[name]}: {who}: {said[who]}, truth {right}"
                    for who, right in truth.items()
                    if said[who] != right
                ]
    assert not wrong, "\n".join(wrong)


def name_of(image: LoadedImage | None) -> str | None:
    """Return the name of an image, None for none."""
    return None if image is None else image.name


def search(image: Image, name: str, version: str | None) -> str | None:
    """Return the library that a search finds, whatever the file itself names."""
    found = Providers(open_image(image.path), image.path).find(name, version)
    return found.name


# Two symbols of one name in one image: the first that a loader accepts decides for the image.
OLD, NEW = (0x8002, 2), (3, 0x8003)
PAIRS: list[tuple[Change, Change]] = [
    ((info, other, section, value, old), (None, None, None, None, new))
    for old in OLD
    for new in NEW
    for info, other, section, value in (
        (None, None, None, None),
        (c.STB_GLOBAL << 4 | 9, None, None, None),
        (3 << 4 | c.STT_FUNC, None, None, None),
        (None, c.STV_HIDDEN, None, None),
        (None, None, 0, None),
        (None, None, None, 0),
    )
]


@pytest.mark.covering(1)
@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("style", ["gnu", "sysv"])
@pytest.mark.parametrize("compiler", ["gcc", "musl-gcc"])
def test_of_two_symbols_of_one_name_one_decides(
    compiler: str, style: str, tmp_path: Path, *, is_new: bool
) -> None:
    """The older version of each name is changed, or the newer one."""
    names = [f"rule_{number}" for number in range(len(PAIRS))]
    text = "".join(
        f"void *old_{one}(void) {{ return 0; }} void *new_{one}(void) {{ return 0; }}"
        f'__asm__(".symver old_{one}, {one}@V1"); __asm__(".symver new_{one}, {one}@@V2");'
        for one in names
    )
    files = {"v.map": "V1 { global: rule_*; local: *; }; V2 { } V1;"}
    words = (*LIBRARY, "-s", "-Wl,--version-script=v.map", f"-Wl,--hash-style={style}")
    plain = "".join(f"void *{one}(void) {{ return 0; }}" for one in names)
    both = ("libfirst.so", "libsecond.so")
    older = [made(name, plain, *LIBRARY, f"-Wl,-soname,{name}", compiler=compiler) for name in both]
    first = made(both[0], text, *words, f"-Wl,-soname,{both[0]}", compiler=compiler, files=files)
    data = bytearray(first.read_bytes())
    image = ElfImage.from_source(BufferSource(bytes(data), first.name))
    indices = {(one.name, one.version): one.index for one in image.symbols}
    for name, pair in zip(names, PAIRS, strict=True):
        for version, change in zip(("V1", "V2"), pair, strict=True):
            is_changed = (version == "V2") is is_new
            kept = pair[0][:4] if is_changed else (None, None, None, None)
            patch(data, image, indices[name, version], (*kept, change[4]))
    (tmp_path / "libfirst.so").write_bytes(data)
    program = made(
        "calls",
        "".join(f"int {name}(void);" for name in names)
        + TELLS.replace("CALLS", " + ".join(f"{name}()" for name in names)),
        *("-pie", "-fPIE", "-fplt", "-fcf-protection=none", "-Wl,-z,now", "-Wl,--no-as-needed"),
        "-Wl,-rpath,$ORIGIN",
        compiler=compiler,
        links=older,
    )
    for one in (program, older[1]):
        shutil.copy(one, tmp_path)
    assert_every_verb_agrees(tmp_path / "calls", dict(zip(names, PAIRS, strict=True)))
