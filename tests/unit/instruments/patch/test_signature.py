# SPDX-License-Identifier: Apache-2.0
"""Which functions cannot stand in the place of which: pairs in C, by two compilers."""

from __future__ import annotations

from pathlib import Path

import pytest

from soscope.errors import UsageError
from soscope.instruments.patch.comparison import misfit
from soscope.instruments.patch.spec import check_replacements, parse_replacement
from soscope.prototypes import load
from tests.support.files.elffiles import built
from tests.support.machines.tools import need
from tests.support.processes.run import imported
from tests.support.targets.described import described

HEAD = """
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>
struct words { long a, b; };
struct reals { double a, b; };
struct large { long a[3]; };
struct larger { long a[4]; };
struct four { int a; };
enum colour { RED };
typedef int number;
"""
# What is called, what stands in its place, and what is wrong with that.
PAIRS = [
    ("int (int a)", "int (int b)", ""),
    ("int (int a)", "unsigned (number b)", ""),
    ("int (int a)", "number (enum colour b)", ""),
    ("void *(size_t a)", "char *(long b)", ""),
    ("int (const char *a, void *b)", "int (struct words *a, long b)", ""),
    ("int (char *restrict a)", "int (const volatile char *const a)", ""),
    ("int (int a[3])", "int (int *a)", ""),
    ("int (int (*a)(void))", "int (void *a)", ""),
    ("int (va_list a)", "int (va_list b)", ""),
    ("int (const char *a, ...)", "int (const void *a, ...)", ""),
    ("void (int a)", "int (int a)", ""),
    ("struct words (void)", "__int128 (void)", ""),
    ("int (struct four a)", "int (int a)", ""),
    ("int (struct large a)", "int (struct large a)", ""),
    ("int (int a)", "int (int a, int b)", "2 arguments for 1"),
    ("int (int a)", "int (void)", "0 arguments for 1"),
    ("int (int a, int b)", "int (int a)", "1 argument for 2"),
    ("int (int a)", "int (long a)", "argument 1 is long (8 bytes) for int (4 bytes)"),
    ("int (long a)", "int (int a)", "argument 1 is int (4 bytes) for long (8 bytes)"),
    ("int (long a, short b)", "int (long a, bool b)", "argument 2 is bool (1 byte) for short"),
    ("int (int a)", "int (char a)", "argument 1 is char (1 byte) for int (4 bytes)"),
    ("int (int a)", "int (float a)", "argument 1 is float (floating) for int (an integer)"),
    ("int (double a)", "int (long a)", "argument 1 is long (an integer) for double (floating)"),
    ("int (double a)", "int (float a)", "argument 1 is float (4 bytes) for double (8 bytes)"),
    ("int (double a)", "int (long double a)", "argument 1 is long double (16 bytes) for double"),
    ("int (double a)", "int (_Complex float a)", " (complex) for double (floating)"),
    (
        "int (struct words a)",
        "int (struct words *a)",
        "struct words * (8 bytes) for struct words",
    ),
    (
        "int (struct words a)",
        "int (struct reals a)",
        "struct reals (a structure: SSE+SSE) for struct words (a structure: INTEGER+INTEGER)",
    ),
    (
        "int (struct large a)",
        "int (struct larger a)",
        "struct larger (32 bytes) for struct large",
    ),
    ("int (const char *a, ...)", "int (const char *a)", "symbol has '...', mine has not"),
    ("int (const char *a)", "int (const char *a, ...)", "mine has '...', symbol has not"),
    ("int (int a, ...)", "int (int a, int b, ...)", "2 arguments for 1"),
    ("int (int a)", "void (int a)", "mine returns void, symbol returns int"),
    ("void *(int a)", "int (int a)", "mine returns int, symbol returns void *: int (4 bytes) for "),
    ("int (int a)", "long (int a)", "mine returns long, symbol returns int"),
    ("double (int a)", "long (int a)", "long (an integer) for double (floating)"),
    ("void (int a)", "struct large (int a)", "mine returns struct large, symbol returns void"),
    ("struct words (int a)", "struct large (int a)", "struct large (24 bytes) for struct words ("),
]


def defined(name: str, text: str) -> str:
    """Return the definition of a function of the type `text`."""
    result, _, arguments = text.partition("(")
    body = "" if result.strip() == "void" else f"static {result} none; return none;"
    return f"{result}{name}({arguments} {{ {body} }}\n"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_pairs(compiler: str, tmp_path: Path) -> None:
    need(compiler)
    text = HEAD
    for number, (symbol, mine, _) in enumerate(PAIRS):
        text += defined(f"symbol_{number}", symbol) + defined(f"mine_{number}", mine)
    path = built(
        tmp_path, "lib.so", text, "-g", "-fPIC", "-shared", "-fno-builtin", compiler=compiler
    )
    with described(path) as library:
        for number, (symbol, mine, wrong) in enumerate(PAIRS):
            theirs, ours = library[f"symbol_{number}"], library[f"mine_{number}"]
            assert theirs.is_known, symbol
            assert ours.is_known, mine
            said = misfit("mine", ours, "symbol", theirs)
            if not wrong:
                assert not said, (symbol, mine)
                continue
            assert wrong in said.replace("_Bool", "bool")


DECLARED = [
    ("open", "int (const char *a, int b, mode_t c)", ""),
    ("open", "int (const char *a, int b, ...)", ""),
    ("open", "int (const char *a, int b)", "open has '...'"),
    ("open", "int (const char *a, int b, double c)", "open has '...'"),
    ("fcntl", "int (int a, int b, long c)", ""),
    ("fcntl", "int (int a, int b, void *c)", ""),
    ("ioctl", "int (int a, unsigned long b, void *c)", ""),
    ("syscall", "long (long a, long b, long c, long d, long e, long f)", ""),
    ("printf", "int (const char *a, long b)", "printf has '...'"),
    ("printf", "int (const char *a, ...)", ""),
    ("malloc", "void *(size_t a)", ""),
    ("malloc", "int (int a, int b)", "mine takes (int, int), malloc takes (size_t): 2 arguments"),
    ("sin", "double (double a)", ""),
    ("sin", "float (float a)", "argument 1 is float (4 bytes) for double"),
    ("free", "int (void *a)", ""),
    ("fabsl", "long double (long double a)", ""),
    ("fabsl", "double (double a)", "double (8 bytes) for long double (16 bytes)"),
    ("inet_ntoa", "char *(struct four a)", ""),
    ("qsort", "void (void *a, size_t b, size_t c, int (*d)(const void *, const void *))", ""),
]


def test_against_declarations(tmp_path: Path) -> None:
    text = HEAD
    for number, (_, mine, _) in enumerate(DECLARED):
        text += defined(f"mine_{number}", mine)
    known = load()
    with described(built(tmp_path, "lib.so", text, "-g", "-fPIC", "-shared")) as library:
        for number, (symbol, mine, wrong) in enumerate(DECLARED):
            theirs = known.signature(symbol)
            assert theirs is not None
            said = misfit("mine", library[f"mine_{number}"], symbol, theirs)
            assert (wrong in said) if wrong else not said, (symbol, mine, said)


def test_a_library_without_types_costs_nothing(tmp_path: Path) -> None:
    path = built(tmp_path, "lib.so", "int mine(int a) { return a; }", "-fPIC", "-shared")
    modules = imported(
        "from soscope.instruments.patch.spec import check_replacements as check\n"
        "from soscope.instruments.patch.spec import parse_replacement as parse\n"
        f"check([parse('malloc={path}:mine')], pid=1)"
    )
    assert "soscope.instruments.patch.spec" in modules
    assert not {name for name in modules if name.startswith("elftools")}
    assert "soscope.instruments.patch.comparison" not in modules
    assert not {name for name in modules if name.startswith("soscope.live")}


@pytest.mark.parametrize("symbol", ["setjmp", "_setjmp", "vfork", "swapcontext"])
def test_what_returns_twice(symbol: str, tmp_path: Path) -> None:
    path = built(tmp_path, "lib.so", "int mine(void *a) { return 0; }", "-fPIC", "-shared")
    with pytest.raises(UsageError, match=f"{symbol} returns several times"):
        check_replacements([parse_replacement(f"{symbol}={path}:mine")])


@pytest.mark.parametrize("symbol", ["mcount", "__fentry__", "__x86_indirect_thunk_rax"])
def test_what_is_no_call_of_c(symbol: str, tmp_path: Path) -> None:
    path = built(tmp_path, "lib.so", "int mine(void *a) { return 0; }", "-fPIC", "-shared")
    with pytest.raises(UsageError, match="not called as C calls"):
        check_replacements([parse_replacement(f"{symbol}={path}:mine")])
