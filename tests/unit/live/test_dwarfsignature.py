# SPDX-License-Identifier: Apache-2.0
"""What functions take and give by DWARF, by the compiler's sizes and registers, and by gdb."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from soscope.binfmt.dwarf.names import DwarfError
from soscope.model.call import INTEGER, MEMORY, SSE
from tests.support.files.elffiles import built, run, split
from tests.support.machines.tools import need
from tests.support.targets.build import made_in
from tests.support.targets.described import described

HEAD = """
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <wchar.h>
#include <xmmintrin.h>
enum colour { RED, GREEN };
enum wide { WIDE = 0x100000000 };
typedef enum colour colour_t;
typedef int (*callback)(void *);
struct one_char { char a; };
struct three { char a[3]; };
struct ints { int a, b; };
struct longs { long a, b; };
struct floats { float a[3]; };
struct doubles { double a, b; };
struct mixed { double a; long b; };
struct turned { long a; double b; };
struct together { int a; float b; };
struct apart { float a, b; int c; };
struct sixteen { char a[16]; };
struct large { char a[17]; };
struct huge { char a[4000]; };
struct grid { short a[2][3]; };
struct __attribute__((packed)) odd { char a; int b; };
struct __attribute__((packed)) even { int a; char b; };
struct bits { int a : 3; long b : 40; };
struct more_bits { float a, b; unsigned c : 9; };
struct nested { struct ints a; struct { float a; } b; };
struct extended { long double a; };
struct whole { __int128 a; };
struct complex_one { float a; _Complex float b; };
struct array { struct together a[2]; };
union number { int a; float b; };
union pair { double a[2]; long b; };
union both { long double a; long b; };
typedef const struct mixed *const mixed_t;
"""
TYPES = [
    *("char", "signed char", "unsigned char", "bool", "short", "unsigned short", "int"),
    *("unsigned", "long", "unsigned long", "long long", "size_t", "ssize_t", "wchar_t", "mode_t"),
    *("int8_t", "uint64_t", "ptrdiff_t", "__int128", "unsigned __int128"),
    *("float", "double", "long double", "__float128"),
    *("_Complex float", "_Complex double", "_Complex long double"),
    *("void *", "const char *", "char **", "FILE *", "callback", "mixed_t", "volatile int"),
    *("enum colour", "enum wide", "colour_t", "_Atomic int", "__m64", "__m128", "__m128i"),
    *(
        f"struct {name}"
        for name in re.findall(r"struct (?:__attribute__\(\(packed\)\) )?(\w+) \{", HEAD)
    ),
    *("union number", "union pair", "union both"),
]
FLAGS = [
    ("gcc", "-g"),
    ("gcc", "-g3", "-gdwarf-5"),
    ("gcc", "-gdwarf-4"),
    ("gcc", "-gdwarf-3", "-gstrict-dwarf"),
    ("gcc", "-g", "-O2", "-fno-ipa-icf"),
    ("gcc", "-g", "-gz=zlib"),
    ("gcc", "-g", "-fdebug-types-section"),
    ("gcc", "-g", "-O2", "-fno-ipa-icf", "-flto"),
    ("clang", "-gdwarf-5"),
    ("clang", "-gdwarf-4"),
    ("clang", "-g", "-O2"),
    ("clang", "-g3", "-flto", "-fuse-ld=lld"),
]
LIBRARY = ("-shared", "-fPIC")


def functions() -> str:
    """Return a function for each type that takes one and returns it."""
    lines = [f"{of} take_{at}({of} a) {{ return a; }}" for at, of in enumerate(TYPES)]
    return HEAD + "\n".join(lines) + "\n"


def sizes(folder: Path, compiler: str) -> list[int]:
    """Have the compiler say how large each type is."""
    lines = [f'printf("%zu\\n", sizeof({of}));' for of in TYPES]
    text = f"{HEAD}int main(void) {{ {' '.join(lines)} return 0; }}\n"
    return list(map(int, run(built(folder, "sizes", text, compiler=compiler)).split()))


def registers(folder: Path, compiler: str) -> list[tuple[int, int]]:
    """Return how many integer and vector registers the compiler passes each type in.

    That is told by where it looks for the argument behind.
    """
    lines = [
        f"void word_{at}({of} a, long b) {{ words = b; }}\n"
        f"void real_{at}({of} a, double b) {{ reals = b; }}"
        for at, of in enumerate(TYPES)
    ]
    text = f"{HEAD}long words; double reals;\n" + "\n".join(lines) + "\n"
    made = built(folder, "code.s", text, "-S", "-O2", "-fno-pic", compiler=compiler).read_text()
    order = ["rdi", "rsi", "rdx", "rcx"]
    counts = []
    for at in range(len(TYPES)):
        word = re.search(rf"^word_{at}:.*?%(r\w+), words", made, re.MULTILINE | re.DOTALL)
        real = re.search(rf"^real_{at}:.*?%xmm(\d), reals", made, re.MULTILINE | re.DOTALL)
        assert word
        assert real
        counts.append((order.index(word[1]), int(real[1])))
    return counts


@pytest.mark.parametrize("how", FLAGS, ids=" ".join)
def test_sizes_and_registers_are_the_compilers(how: tuple[str, ...], tmp_path: Path) -> None:
    compiler, *flags = how
    need(compiler)
    if "-fuse-ld=lld" in flags:
        need("ld.lld")
    path = built(tmp_path, "lib.so", functions(), *LIBRARY, *flags, compiler=compiler)
    told = zip(TYPES, sizes(tmp_path, compiler), registers(tmp_path, compiler), strict=True)
    unknown = []
    with described(path) as library:
        for at, (of, size, (words, reals)) in enumerate(told):
            signature = library[f"take_{at}"]
            assert signature.arguments is not None, of
            (argument,) = signature.arguments
            if not signature.is_known:
                unknown.append(of)
                continue
            assert (argument.size, signature.result.size) == (size, size), of
            counts = Counter(argument.classes)
            assert (counts[INTEGER], counts[SSE]) == (words, reals), (of, argument)
            assert argument.classes == signature.result.classes, of
            if size > 16 and "_Complex" not in of:
                assert argument.classes == (MEMORY,), of
    # clang calls all complex numbers of 32 bytes the same
    assert unknown == (["_Complex long double"] if compiler == "clang" else [])


PLAIN = """
#include <stddef.h>
#include <stdio.h>
struct point { int x, y; };
int nothing(void) { return 0; }
void silent(void) { }
long several(int, const char *restrict b, struct point *c, unsigned long d, double e)
{ return (long)d; }
int many(const char *format, ...) { return 0; }
void *allocate(size_t size) { return 0; }
struct point by_value(struct point p, float f) { return p; }
int stream(FILE *f, char **names, const int *const *deep) { return 0; }
int again(int, long) __attribute__((alias("first")));
int first(int a, long b) { return a; }
static inline __attribute__((always_inline)) int body(int a, long b) { return a + (int)b; }
int copied(int a, long b) { return body(a, b); }
int unused(int a, int b, int c) { return a; }
"""
NAMES = "nothing silent several many allocate by_value stream first copied unused".split()


@pytest.mark.parametrize("how", FLAGS, ids=" ".join)
def test_signatures_are_gdbs(how: tuple[str, ...], tmp_path: Path) -> None:
    compiler, *flags = how
    need(compiler)
    need("gdb")
    if "-fuse-ld=lld" in flags:
        need("ld.lld")
    path = built(tmp_path, "lib.so", PLAIN, *LIBRARY, *flags, compiler=compiler)
    words = [word for name in NAMES for word in ("-ex", f"whatis {name}")]
    said = run("gdb", "-batch", "-nx", *words, path)
    rows = re.findall(r"^type = (.*?) ?\((.*)\)$", said, re.MULTILINE)
    with described(path) as library:
        for name, (result, arguments) in zip(NAMES, rows, strict=True):
            signature = library[name]
            assert signature.is_known
            assert signature.taken == f"({arguments.replace(' restrict', '')})", name
            assert signature.result.text == result, name
        assert library["again"].taken == "(int, long)"


UNKNOWN = [
    ("gcc", ("-g1",), "no types"),
    ("clang", ("-g1",), None),
    ("gcc", ("-g", "-gsplit-dwarf"), r"\.dwo files"),
    ("clang", ("-g", "-gsplit-dwarf"), r"\.dwo files"),
    ("gcc", ("-g0",), "no DWARF"),
]


@pytest.mark.parametrize(("compiler", "flags", "reason"), UNKNOWN)
def test_what_has_no_types(
    compiler: str,
    flags: tuple[str, ...],
    reason: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need(compiler)
    monkeypatch.chdir(tmp_path)  # clang leaves its .dwo files here
    path = built(tmp_path, "lib.so", PLAIN, *LIBRARY, *flags, compiler=compiler)
    with described(path) as library:
        for name in ("silent", "nothing", "first"):
            if reason is None:
                assert library.found(name) is None
                continue
            with pytest.raises(DwarfError, match=reason):
                library.found(name)
    # of C++, nothing but the unit's own types tells -g1 from a function without arguments
    if "-g1" in flags and compiler == "gcc":
        path = built(
            tmp_path, "cxx.so", 'extern "C" void silent() { }', *LIBRARY, *flags, compiler="g++"
        )
        with described(path) as library, pytest.raises(DwarfError, match="no types"):
            library.found("silent")


DOUBTFUL = """
int old(a, b) int a; long b; { return a + (int)b; }
int empty() { return 0; }
struct hollow { };
int takes_hollow(struct hollow a, int b) { return b; }
typedef float wide __attribute__((vector_size(32)));
void takes_wide(wide *a) { }
__attribute__((ms_abi)) int foreign(int a) { return a; }
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_what_says_too_little(compiler: str, tmp_path: Path) -> None:
    need(compiler)
    path = built(
        tmp_path, "lib.so", DOUBTFUL, *LIBRARY, "-g", "-std=gnu11", "-w", compiler=compiler
    )
    with described(path) as library:
        for name in ("old", "empty"):
            signature = library[name]
            assert signature.arguments is None
            assert (signature.result.text, signature.result.size) == ("int", 4)
            assert not signature.is_known
        hollow = library["takes_hollow"].arguments
        assert hollow is not None
        assert [argument.is_known for argument in hollow] == [False, True]
        assert library["takes_wide"].is_known
        if compiler == "clang":  # gcc says nothing of it
            with pytest.raises(DwarfError, match="calling convention"):
                library.found("foreign")


def test_assembly_is_not_known(tmp_path: Path) -> None:
    source = tmp_path / "a.S"
    source.write_text(
        ".globl plain\n.type plain, @function\nplain: ret\n.size plain, . - plain\n"
        '.section .note.GNU-stack, "", @progbits\n'
    )
    made_in(tmp_path, "gcc", "-g", *LIBRARY, "-o", "lib.so", source)
    with described(tmp_path / "lib.so") as library:
        try:
            assert library.found("plain") is None
        except DwarfError as error:
            assert "not written in C" in str(error)  # noqa: PT017  an older assembler describes no function


CXX = """
#include <string>
struct Plain { int x; double y; };
struct Careful { ~Careful(); int a; };
struct Method { int a; int twice() const; static int none(int a); };
struct Virtual { virtual ~Virtual(); virtual long call(short s); int a; };
struct Base { float a; };
struct Derived : Base { float b; };
Careful::~Careful() { }
int Method::twice() const { return 2 * a; }
int Method::none(int a) { return a; }
Virtual::~Virtual() { }
long Virtual::call(short s) { return s; }
extern "C" int references(int &a, const std::string &b, Plain &&c) { return a; }
extern "C" Plain plain(Plain p, Derived d) { return p; }
extern "C" Careful careful(Careful c) { return c; }
extern "C" int text(std::string s) { return 0; }
extern "C" int null(decltype(nullptr) p, bool b, char16_t c) { return 0; }
namespace space { int inside(long a) { return (int)a; } }
"""


@pytest.mark.parametrize("how", [("g++", "-g"), ("clang++", "-g"), ("g++", "-gdwarf-4", "-O2")])
def test_cxx(how: tuple[str, ...], tmp_path: Path) -> None:
    compiler, *flags = how
    need(compiler)
    path = built(tmp_path, "lib.so", CXX, *LIBRARY, *flags, compiler=compiler)
    with described(path) as library:
        sizes = {
            "references": [8, 8, 8],
            "plain": [16, 8],
            "null": [8, 1, 2],
            "_ZNK6Method5twiceEv": [8],
            "_ZN6Method4noneEi": [4],
            "_ZN7Virtual4callEs": [8, 2],
            "_ZN5space6insideEl": [8],
        }
        for name, wanted in sizes.items():
            signature = library[name]
            assert signature.is_known, name
            assert [each.size for each in signature.arguments or ()] == wanted, name
        assert library["plain"].result.classes == (INTEGER, SSE)
        assert [each.classes for each in library["plain"].arguments or ()][1] == (SSE,)
        for name in ("careful", "text"):  # an address, or not known: never the value
            (argument,) = library[name].arguments or ()
            assert not argument.is_known or (argument.size, argument.classes) == (8, (INTEGER,))


def test_in_a_debug_file(tmp_path: Path) -> None:
    path = built(tmp_path, "lib.so", PLAIN, *LIBRARY, "-g")
    split(path, tmp_path / "lib.debug")
    with described(path) as library:
        assert library.names.own is None
        assert library["first"].taken == "(int, long)"
    (tmp_path / "lib.debug").unlink()
    with described(path) as library:
        assert not library.dwarf.is_there


def test_equal_code_of_two_functions_in_one_place(tmp_path: Path) -> None:
    need("ld.lld")
    text = "int left(int a) { return a; } unsigned right(unsigned a) { return a; }"
    flags = ("-g", "-O2", "-ffunction-sections", "-fuse-ld=lld", "-Wl,--icf=all")
    path = built(tmp_path, "lib.so", text, *LIBRARY, *flags, compiler="clang")
    with described(path) as library:
        left, right = library.image.symbol("left"), library.image.symbol("right")
        assert left is not None
        assert right is not None
        assert left.value == right.value
        assert library["left"].taken == "(int)"
        assert library["right"].taken == "(unsigned int)"


def test_it_ends_in_time(tmp_path: Path) -> None:
    path = built(tmp_path, "lib.so", PLAIN, *LIBRARY, "-g")
    with described(path) as library:
        symbol = library.image.symbol("first")
        assert symbol is not None
        with pytest.raises(DwarfError, match="too much"):
            library.dwarf.signature(symbol.value, "first", -1.0)
