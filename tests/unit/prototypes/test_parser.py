# SPDX-License-Identifier: Apache-2.0
"""Declarations are read as C reads them, and what is not understood is said."""

from __future__ import annotations

import pytest

from soscope.errors import FormatError
from soscope.prototypes.ctype import Function
from soscope.prototypes.parser import Declarations


def read(text: str) -> Declarations:
    declarations = Declarations()
    declarations.read("typedef unsigned long size_t;\n" + text, "test.h")
    return declarations


def function(text: str) -> Function:
    return read(text).functions[-1]


@pytest.mark.parametrize(
    ("of", "size", "signed", "text"),
    [
        ("int", 4, True, "int"),
        ("unsigned", 4, False, "unsigned"),
        ("unsigned int", 4, False, "unsigned int"),
        ("signed char", 1, True, "signed char"),
        ("short", 2, True, "short"),
        ("long long", 8, True, "long long"),
        ("unsigned long int", 8, False, "unsigned long int"),
        ("size_t", 8, False, "size_t"),
        ("const size_t", 8, False, "size_t"),
        ("double", 8, False, "double"),
        ("long double", 16, False, "long double"),
        ("const char *", 8, False, "const char *"),
        ("char const *", 8, False, "const char *"),
        ("char *const *", 8, False, "char **"),
        ("struct unknown *", 8, False, "struct unknown *"),
        ("unknown_t **", 8, False, "unknown_t **"),
        ("enum tag", 4, False, "enum tag"),
    ],
)
def test_types(of: str, size: int, signed: bool, text: str) -> None:
    parameter = function(f"int f({of} x);").parameters[0]
    assert parameter.name == "x"
    assert (parameter.type.size, parameter.type.signed) == (size, signed)
    assert parameter.type.text == text


def test_what_a_pointer_leads_to_is_known() -> None:
    target = function("int f(const char *const *names);").parameters[0].type.target
    assert target is not None
    assert target.target is not None
    assert target.target.is_char
    assert target.target.is_const


def test_arrays_and_functions_are_pointers() -> None:
    found = function("int f(int fds[2] OUT(always), int (*compare)(const void *a, const void *b));")
    fds, compare = found.parameters
    assert fds.type.text == "int *"
    assert fds.count == 2
    assert "OUT" in fds.words
    assert compare.name == "compare"
    assert compare.type.target is None
    assert compare.type.text == "int (*)(const void *a, const void *b)"


def test_annotations_of_parameters_and_of_functions() -> None:
    found = function(
        "void *f(void *to OUT(always) BYTES(a * b), size_t a, size_t b)\n"
        "\tFAILS(== NULL) ALSO(g, h);"
    )
    assert found.parameters[0].words == {"OUT": ["always"], "BYTES": ["a", "*", "b"]}
    assert found.words == {"FAILS": ["==", "NULL"], "ALSO": ["g", ",", "h"]}
    assert found.source.startswith(
        "void *f(void *to OUT(always) BYTES(a * b), size_t a, size_t b) FAILS"
    )


def test_a_variadic_function_and_its_optional_parameters() -> None:
    found = function(
        "int f(int how, ... OPTIONAL(size_t mode OCTAL, how & A | B) OPTIONAL(long x, 1));"
    )
    assert found.variadic
    mode, always = found.optionals
    (condition,) = mode.conditions
    assert (condition.name, condition.operator, condition.values) == ("how", "&", ["A", "B"])
    assert [one.name for one in mode.parameters] == ["mode"]
    assert mode.parameters[0].words == {"OCTAL": []}
    assert not always.conditions
    found = function(
        "int f(int how, ... OPTIONAL(size_t a, struct b *b, how == A) OPTIONAL(void, how == B));"
    )
    assert [[one.name for one in each.parameters] for each in found.optionals] == [["a", "b"], []]


def test_a_parameter_that_is_another_one_by_the_values_of_others() -> None:
    found = function(
        "int f(void *p AS(const int *p IN, a == A | -1 && n & 4) OCTAL, int a, long n);"
    )
    (other,) = found.parameters[0].others
    assert [one.name for one in other.parameters] == ["p"]
    assert other.parameters[0].words == {"IN": []}
    assert [(one.name, one.operator, one.values) for one in other.conditions] == [
        ("a", "==", ["A", "-1"]),
        ("n", "&", ["4"]),
    ]
    assert found.parameters[0].words == {"OCTAL": []}


def test_typedefs_keep_their_annotations() -> None:
    declarations = read("typedef unsigned int mode_t OCTAL;\nint f(mode_t mode);")
    parameter = declarations.functions[0].parameters[0]
    assert parameter.type.text == "mode_t"
    assert parameter.type.words == {"OCTAL": []}


def test_structures_are_laid_out_as_c_does() -> None:
    declarations = read(
        "struct in { char c; int i; };\nstruct out { char c; struct in in; long l; short s; };"
    )
    fields = {field.name: field.offset for field in declarations.structs["out"].fields}
    assert fields == {"c": 0, "in": 4, "l": 16, "s": 24}
    assert declarations.structs["out"].size == 32


def test_comments_and_directives_are_skipped() -> None:
    text = "#define X \\\n  int nothing(void);\n/* int a(void);\n */ int f(void); // int b(void);\n"
    assert [one.name for one in read(text).functions] == ["f"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("\nint f(int a;", r"test.h:3: ',' expected before ';'"),
        ("int f(unknown_t a);", r"type 'unknown_t' of 'a' is not known"),
        ("unknown_t f(void);", r"type 'unknown_t' of 'f' is not known"),
        ("int f(int OUT", r"',' expected before the end"),
        ("int f(int a) FAILS(< 0;", r"unfinished parenthesis"),
        ("int f(int a, ... OPTIONAL(int b, a < 3));", r"'&' or '==' expected before '<'"),
        ("int f(int a)", r"';' expected before the end"),
        ("struct s { unknown_t a; };", r"type 'unknown_t' of 'a' is not known"),
    ],
)
def test_what_is_not_understood_names_file_and_line(text: str, what: str) -> None:
    with pytest.raises(FormatError, match=what):
        read(text)
