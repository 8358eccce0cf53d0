# SPDX-License-Identifier: Apache-2.0
"""Headers in plain C are read as a compiler reads them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from soscope.errors import FormatError
from soscope.prototypes import load, sources
from soscope.prototypes.parser import Declarations
from soscope.prototypes.sources import USER, SourceText
from soscope.wire import layout
from tests.support.targets.build import made_in
from tests.support.time.patience import limit
from tests.unit.prototypes.calls import at_entry, at_exit, slot

HEADER = """\
#ifndef HEADER_H
#define HEADER_H
#include <stdint.h>
#define SIDES 2
#define LENGTH (SIDES * 4 + 1) /* nine */
#define LONGER \\
        (LENGTH + 1)
#define MACRO(x) x x x
#ifdef __cplusplus
extern "C" {
#endif
#if SIDES > 3 || defined(NOTHING)
nothing_of_this(
#elif defined __x86_64__
struct first { char c; long l; short s[SIDES]; };
#else
nor_of_this(
#endif
struct bits { unsigned a : 3, b : 7; int : 0; unsigned char c : 2, d : 7; long e : 33; };
struct holes { char a; struct { char b; double c; }; union { int i; char s[LENGTH]; } u; };
union any { struct first f; char *s; long double x; };
typedef struct node { struct node *next, **all; int (*visit)(struct node *, int); } node;
typedef enum __attribute__((packed_not)) { ONE = 1, TWO, TEN = LENGTH + 1, NEXT } number;
struct matrix { float m[2][3]; number n; node *nodes[4]; };
struct tight { char a; struct first b; short c[3]; long d; } __attribute__((__packed__));
union __attribute__((packed)) tied { long l; struct tight t; char s[90]; };
struct { int x; } a_variable;
extern int variables[], *pointers, other;
static int counted[2] = {(1), 2};
#undef SIDES
_Static_assert(sizeof(int) == 4, "int");
typedef int callback(void *, int), (*pointed)(void);
#endif
"""
STRUCTS = ["struct first", "struct bits", "struct holes", "union any", "node", "struct matrix"]
STRUCTS += ["struct tight", "union tied"]


def read(text: str) -> Declarations:
    declarations = Declarations()
    declarations.read(text, "own.h")
    return declarations


def test_the_compiler_lays_structures_out_alike(tmp_path: Path) -> None:
    declarations = read(HEADER)
    lines = []
    for name in STRUCTS:
        struct = declarations.structs[name.split()[-1]]
        lines.append(f'printf("%zu %zu", sizeof({name}), _Alignof({name}));')
        lines += [
            f'printf(" %zu", __builtin_offsetof({name}, {field.name}));'
            for field in struct.fields
            if field.bits is None
        ]
        lines.append('puts("");')
    body = HEADER.replace("packed_not", "unused")
    source = f"#include <stdio.h>\n{body}\nint main(void) {{ {' '.join(lines)} }}\n"
    (tmp_path / "layout.c").write_text(source)
    made_in(tmp_path, "gcc", "-w", "layout.c", "-o", "layout")
    said = subprocess.run(
        [tmp_path / "layout"], capture_output=True, text=True, check=True, timeout=limit()
    )
    for name, line in zip(STRUCTS, said.stdout.splitlines(), strict=True):
        struct = declarations.structs[name.split()[-1]]
        offsets = [field.offset for field in struct.fields if field.bits is None]
        assert [struct.size, struct.alignment, *offsets] == list(map(int, line.split())), name


def test_constants_are_known_by_name() -> None:
    known = read(HEADER).constants
    assert (known["LENGTH"], known["LONGER"], known["TEN"], known["NEXT"]) == (9, 10, 10, 11)
    assert "MACRO" not in known


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("int f(int, double);", ["int", "double"]),
        ("int f();", []),
        ("extern inline int f(register const char *restrict s);", ["const char *"]),
        ("int f(int v[], char *a[3]);", ["int *", "char **"]),
        ("int f(int (*g)(int), int h(int));", ["int (*)(int)", "int (*)()"]),
        ("void (*f(int a))(int);", ["int"]),
        ("__attribute__((const)) int f(int a) __attribute__((nonnull(1)));", ["int"]),
        ("static inline int f(int a) { return a ? (1) : 2; }", ["int"]),
        ("int (f)(int a);", ["int"]),
        ('int f(int a) __asm__("" "other");', ["int"]),
        ("int f(struct s { int a; } *p, enum { A, B } e);", ["struct s *", "enum {…}"]),
        ("long long f(unsigned long long int a);", ["unsigned long long int"]),
        ("int f(float _Complex a);", ["float _Complex"]),
    ],
)
def test_declarations(text: str, types: list[str]) -> None:
    function = read(text).functions[0]
    assert function.name == "f"
    assert [parameter.type.text for parameter in function.parameters] == types


def test_several_functions_in_one_declaration() -> None:
    assert [one.name for one in read("int f(int a), *g(void), h;").functions] == ["f", "g"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("\n\nint f(foo_t a);", "own.h:3: type 'foo_t' of 'a' is not known"),
        ("int f(struct s a);", "own.h:1: type 'struct s' of 'a' is not known"),
        ("struct s { foo_t a; };", "own.h:1: type 'foo_t' of 'a' is not known"),
        ("#define A\nint f(int a) B;", "own.h:2: ';' expected before 'B'"),
        ("struct s { int a; } __attribute__((aligned(16)));", "own.h:1: 'struct s' is aligned"),
        ("struct __attribute__((aligned(16))) s { int a; };", "own.h:1: 'struct s' is aligned"),
        ("struct s { int a : 3; } __attribute__((packed));", "own.h:1: bit-fields of 'struct s'"),
        ("int a[N];", "own.h:1: 'N' is no known constant"),
        ("#if 1\n", "own.h:2: #endif is missing"),
        ("#endif\n", "own.h:1: #endif without #if"),
        ("#if f(1)\n#endif", "own.h:1: #if: "),
        ("int f(int a", "own.h:1: ',' expected before the end"),
        ('# 7 "other.h"\nint f(foo_t a);', "other.h:7: type 'foo_t'"),
        ("class c { };", "own.h:1: ';' expected before '{'"),
        ("struct s {", "own.h:1: name expected before the end"),
        ("int f(", "own.h:1: name expected before the end"),
        ("enum e { A", "own.h:1: '}' expected before the end"),
        ("}", "own.h:1: name expected before '}'"),
        # the line of what is wrong, not of what comes behind it
        ("int f(foo x\n", "own.h:1: type 'foo' of 'x' is not known"),
        ("int f(\n  foo x\n  );\n", "own.h:2: type 'foo' of 'x' is not known"),
        ("int f(void)\nint g(void);", "own.h:1: ';' expected before 'int'"),
        ("foo\nf\n(void);", "own.h:2: type 'foo' of 'f' is not known"),
    ],
)
def test_what_is_not_understood_names_file_and_line(text: str, what: str) -> None:
    with pytest.raises(FormatError, match=re.escape(what)):
        read(text)


def test_any_text_ends_in_declarations_or_an_error() -> None:
    words = HEADER.replace("#", "\n#").split(" ")
    refusals = []
    texts = [" ".join(words[number:] + words[:number]) for number in range(0, len(words), 3)]
    for text in texts:
        try:
            read(text)
        except FormatError as error:
            refusals.append(str(error))
    assert 0 < len(refusals) < len(texts)
    assert all(refusal.startswith("own.h:") for refusal in refusals)


def test_a_users_declaration_counts_before_the_table() -> None:
    prototypes = load()
    prototypes.add(
        SourceText(USER, "own.h", "enum how { FAST = 7 };\nlong\nclose(enum how a, size_t b);")
    )
    assert prototypes.source("close") == (USER, "own.h", "own.h:2")
    assert prototypes.declaration("close") == "long close(enum how a, size_t b)"
    shown = prototypes.format_call(slot("close"), at_entry(7, 9), 32)
    assert [one.text for one in shown] == ["FAST", "9"]
    kind, _, where = prototypes.source("open") or ("", "", "")
    assert (kind, where.split(":")[0]) == (sources.TABLE, "libc-file.h")
    assert prototypes.source("frobnicate") is None


def test_files_know_the_types_of_those_before_them() -> None:
    prototypes = load()
    prototypes.add(SourceText(USER, "a.h", "typedef struct { int a; } own_t; int f(int a);"))
    prototypes.add(SourceText(USER, "b.h", "int g(own_t a); int f(own_t a, int b);"))
    shown = prototypes.format_call(slot("f"), at_entry(3, 2), 32)
    assert [each.text for each in shown] == ["{a=3}", "2"]
    assert prototypes.source("f") == (USER, "b.h", "b.h:1")


def test_constants_by_a_prefix() -> None:
    prototypes = load()
    text = """
        #define OWN_A 1
        #define OWN_B 2
        int f(int how FLAGS(OWN_*), int one ENUM(OWN_*), int fd FLAGS(open)) ENUM(OWN_*);
    """
    prototypes.add(SourceText(USER, "own.h", text))
    shown = prototypes.format_call(slot("f"), at_entry(3, 2, 0o100), 32)
    assert [one.text for one in shown] == ["OWN_A|OWN_B", "OWN_B", "O_RDONLY|O_CREAT"]
    result = prototypes.format_result(slot("f"), at_exit(1), None)
    assert result is not None
    assert result.text == "OWN_A"
    with pytest.raises(FormatError, match=r"own.h:1: no constant begins with 'OTHER_'"):
        prototypes.add(SourceText(USER, "own.h", "int f(int how FLAGS(OTHER_*));"))


def test_what_a_recording_keeps_reads_back() -> None:
    text = SourceText(USER, 'folder/own".h', "\nint f(foo_t a);")
    packed = SourceText.unpacked(text.packed())
    assert packed is not None
    assert packed.kind == USER
    with pytest.raises(FormatError, match=r"^folder/own'\.h:2: type 'foo_t'"):
        load().add(packed)
    assert SourceText.unpacked("int f(void);") is None
    assert SourceText.unpacked("#pragma soscope prototypes: other\n") is None


def test_what_special_says_is_not_for_compilers_to_know() -> None:
    prototypes = load()
    declared = "int unw_getcontext(void *a); int own(void *a);"
    prototypes.add(SourceText(sources.CALLER, "prog", declared))
    assert not prototypes.is_known("unw_getcontext")
    assert prototypes.is_known("own")
    prototypes.add(SourceText(USER, "own.h", declared))
    assert prototypes.source("unw_getcontext") == (USER, "own.h", "own.h:1")


def test_a_name_tells_the_arguments_of_what_does_not_return() -> None:
    prototypes = load()
    name = "_ZSt24__throw_invalid_argumentPKc"
    flags = prototypes.flags(name)
    declared = f"long {name}(const char *_1) GUESSED(result);"
    prototypes.add(SourceText(sources.MANGLED, "the name itself", declared))
    assert prototypes.is_known(name)
    assert prototypes.flags(name) == flags == layout.FN_ENTRY_ONLY


def test_what_was_added_can_be_forgotten() -> None:
    prototypes = load()
    prototypes.add(SourceText(USER, "own.h", "int own(int a);"))
    before = prototypes.state()
    prototypes.add(SourceText(sources.DWARF, "own.so", "int other(int a);"))
    prototypes.restore(before)
    assert (prototypes.is_known("own"), prototypes.is_known("other")) == (True, False)
    assert [each.file for each in prototypes.texts] == ["own.h"]
