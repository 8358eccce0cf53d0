#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write declarations of a library's functions, with the types of the system's headers.

    python3 scripts/declare.py [options] LIBRARY HEADER...

LIBRARY is a shared object, or its name in the linker's path; HEADER what `#include` names. Prints
what prototypes/*.h do not have yet, in their language, on standard output: types alone, as the
meaning (FLAGS, OUT, FAILS...) is for people to add. Functions that the language cannot express are
named on standard error. Needs a C compiler and pycparser.
"""

from __future__ import annotations

import argparse
import operator
import re
import subprocess
import sys
import textwrap
from ctypes.util import find_library
from pathlib import Path

from pycparser import c_ast, c_generator, c_parser

from soscope.prototypes import build
from soscope.prototypes.ctype import STRUCT
from soscope.prototypes.parser import ANNOTATIONS, Declarations

DIRECTORY = Path(__file__).parents[1] / "prototypes"
FOLDERS = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64")
# What pycparser does not know of GNU C.
QUIET = """
#define __attribute__(x)
#define __extension__
#define __inline inline
#define __inline__ inline
#define __restrict restrict
#define __restrict__ restrict
#define __asm__(x)
#define __asm(x)
#define __const const
#define __volatile__ volatile
#define __signed__ signed
#define _Noreturn
#define __builtin_va_list va_list
#define __float128 long double
#define __int128_t long
#define __uint128_t long
#define __int128 long
#define _Float128 long double
#define _Float64x long double
#define _Float64 double
#define _Float32x double
#define _Float32 float
#define _Static_assert(...)
#define __typeof__(x) int
#define __alignof__(x) 1
"""
_OF_A_WIDTH = re.compile(r"f(32|64|128)x?(_l|_r)?$|f(32|64|128)x?(add|sub|mul|div|fma|sqrt)")
_UNARY = {"-": operator.neg, "+": operator.pos, "~": operator.invert}
_BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<<": operator.lshift,
    "|": operator.or_,
    "&": operator.and_,
}
WORDS = {"void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "_Bool"}
Names = dict[str, c_ast.Node]


class Unsaid(Exception):  # noqa: N818  no error: the language has no word for it
    """The language cannot express a type."""


def preprocessed(headers: list[str], defines: list[str], includes: list[str]) -> str:
    """Return what the compiler makes of some headers, without what is behind functions' bodies."""
    source = QUIET + "".join(f"#include <{header}>\n" for header in headers)
    words = ["gcc", "-E", "-std=gnu17", "-D_GNU_SOURCE", "-O0", "-xc", "-"]
    flags = [f"-D{one}" for one in defines] + [f"-I{one}" for one in includes]
    done = subprocess.run(
        [*words, *flags], input=source, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return "typedef void *va_list;\n" + done.stdout


def exported(library: str) -> set[str]:
    """Return the names of a library's functions."""
    path = library
    if "/" not in library:
        name = find_library(library) or library
        path = next((f"{folder}/{name}" for folder in FOLDERS if Path(folder, name).exists()), name)
    words = ["nm", "-D", "--defined-only", "--format=posix", path]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[0].partition("@")[0] for line in lines if line.split()[1] in "TWi"}


class Writer:
    """Writes types in the language, and keeps the typedefs that it needs for that."""

    def __init__(self, known: Declarations, names: Names) -> None:
        self.known = known
        self.names = names
        self.typedefs: dict[str, str] = {}  # lines that a compiler may see behind the headers
        self.sizes: dict[str, str] = {}  # lines that only we read
        self.enums: dict[str, str] = {}  # sets of names
        self._text = c_generator.CGenerator()

    def function(self, name: str, declared: c_ast.FuncDecl) -> str:
        """Return the declaration of a function. Raises Unsaid."""
        parameters = []
        taken: set[str] = set()
        for number, parameter in enumerate(declared.args.params if declared.args else []):
            if isinstance(parameter, c_ast.EllipsisParam):
                parameters.append("...")
                continue
            of = parameter.type
            if isinstance(of, c_ast.TypeDecl) and self._is_void(of):
                parameters.append("void")
                continue
            called = self._named(parameter.name, number, taken)
            parameters.append(self._declared(of, called))
        if not declared.args:
            parameters.append("void")
        if parameters == ["..."]:
            raise Unsaid("it has no fixed parameter")
        if isinstance(declared.type, c_ast.PtrDecl) and isinstance(
            declared.type.type, c_ast.FuncDecl
        ):
            raise Unsaid("it gives a function")
        result = self._declared(declared.type, name)
        return f"{result}({', '.join(parameters)});"

    @staticmethod
    def _is_void(of: c_ast.TypeDecl) -> bool:
        return isinstance(of.type, c_ast.IdentifierType) and of.type.names == ["void"]

    @staticmethod
    def _named(name: str | None, number: int, taken: set[str]) -> str:
        called = (name or "").strip("_") or f"arg{number + 1}"
        if called in ANNOTATIONS or called in WORDS or called in taken:
            called += "_"
        taken.add(called)
        return called

    def _declared(self, of: c_ast.Node, name: str) -> str:
        """Return a declaration of `name`; what has a value needs a known size."""
        if isinstance(of, c_ast.ArrayDecl):
            of = c_ast.PtrDecl([], of.type)
        if isinstance(of, c_ast.FuncDecl):
            of = c_ast.PtrDecl([], of)
        if isinstance(of, c_ast.PtrDecl):
            target = of.type
            if isinstance(target, c_ast.FuncDecl):
                return self._pointer_to_function(target, name)
            if isinstance(target, c_ast.ArrayDecl):
                raise Unsaid("a pointer to an array")
            const = " const " if "const" in of.quals else ""
            return self._declared_target(target, f"*{const}{name}")
        if not isinstance(of, c_ast.TypeDecl):
            raise Unsaid(type(of).__name__)
        return f"{self._value(of)} {name}"

    def _declared_target(self, of: c_ast.Node, name: str) -> str:
        if isinstance(of, c_ast.PtrDecl):
            if isinstance(of.type, c_ast.FuncDecl):
                raise Unsaid("a pointer to a pointer to a function")
            const = " const " if "const" in of.quals else ""
            return self._declared_target(of.type, f"*{const}{name}")
        if not isinstance(of, c_ast.TypeDecl):
            raise Unsaid("a pointer to an array or a function")
        return f"{self._base(of)} {name}"

    def _pointer_to_function(self, of: c_ast.FuncDecl, name: str) -> str:
        text = " ".join(self._text.visit(c_ast.PtrDecl([], of)).split())
        head = re.fullmatch(r"([^()]*)\(\* ?\w*\)\(([^()]*)\)", text)
        if head is None:
            raise Unsaid("a function that takes or gives a function")
        return f"{head[1].strip()} (*{name})({head[2]})"

    def _base(self, of: c_ast.TypeDecl) -> str:
        """Return a type that is only pointed to."""
        kind = of.type
        quals = "".join(f"{one} " for one in of.quals if one != "_Atomic")
        if isinstance(kind, c_ast.IdentifierType):
            return quals + " ".join(kind.names)
        if isinstance(kind, (c_ast.Struct, c_ast.Union, c_ast.Enum)):
            if not kind.name:
                raise Unsaid("a structure without a name")
            return f"{quals}{type(kind).__name__.lower()} {kind.name}"
        raise Unsaid(type(kind).__name__)

    def _value(self, of: c_ast.TypeDecl) -> str:
        """Return a type that has a value, and see to its being known."""
        kind = of.type
        text = self._base(of)
        if isinstance(kind, (c_ast.Struct, c_ast.Union)):
            struct = self.known.structs.get(kind.name)
            if struct is None:
                raise Unsaid(f"{text} by value")
        if isinstance(kind, c_ast.IdentifierType) and "_Complex" in kind.names:
            raise Unsaid("a complex number")
        if isinstance(kind, c_ast.IdentifierType) and not WORDS.issuperset(kind.names):
            self._know(kind.names[-1])
        return text

    def _know(self, name: str) -> None:
        """Make a typedef known that a declaration uses by value."""
        known = self.known.types.get(name)
        if (known is not None and (known.kind != STRUCT or known.size)) or name in self.typedefs:
            return
        if name in self.sizes:
            return
        node = self.names.get(name)
        if node is None:
            raise Unsaid(f"type {name}, which no header says")
        of = node.type
        if isinstance(of, c_ast.TypeDecl) and isinstance(of.type, c_ast.Enum):
            self._know_enum(name, of.type)
            return
        if isinstance(of, c_ast.TypeDecl) and isinstance(of.type, (c_ast.Struct, c_ast.Union)):
            raise Unsaid(f"structure {name} by value")
        if isinstance(of, c_ast.PtrDecl) and isinstance(of.type, c_ast.TypeDecl):
            inner = of.type.type
            if isinstance(inner, (c_ast.Struct, c_ast.Union)) and not inner.name:
                raise Unsaid(f"{name}, which points to a structure without a name")
        self.typedefs[name] = f"typedef {self._declared(of, name)};"

    def _know_enum(self, name: str, of: c_ast.Enum) -> None:
        """Make an enumeration known, and the names of its values."""
        values = _enumerators(of) if of.values else {}
        sign = "" if any(value < 0 for value in values.values()) else "unsigned "
        words = f" ENUM({name})" if values else ""
        if of.name:
            self.typedefs[name] = f"typedef enum {of.name} {name}{words};"
        else:
            self.sizes[name] = f"typedef {sign}int {name}{words};"
        if values:
            parts = [f"{one}={value}" for one, value in _first(values).items()]
            self.enums[name] = f"enum {name}\n" + textwrap.fill(
                " ".join(parts), 78, initial_indent="    ", subsequent_indent="    "
            )


def _enumerators(of: c_ast.Enum) -> dict[str, int]:
    """Return the values of an enumeration."""
    values: dict[str, int] = {}
    latest = -1
    for one in of.values.enumerators:
        latest = latest + 1 if one.value is None else _number(one.value, values)
        values[one.name] = latest
    return values


def _number(node: c_ast.Node, values: dict[str, int]) -> int:
    """Return the value of a constant expression."""
    if isinstance(node, c_ast.Constant):
        return ord(node.value[1]) if node.type == "char" else int(node.value.rstrip("uUlL"), 0)
    if isinstance(node, c_ast.ID):
        return values[node.name]
    if isinstance(node, c_ast.UnaryOp) and node.op in _UNARY:
        return _UNARY[node.op](_number(node.expr, values))
    if isinstance(node, c_ast.BinaryOp) and node.op in _BINARY:
        return _BINARY[node.op](_number(node.left, values), _number(node.right, values))
    if isinstance(node, c_ast.Cast):
        return _number(node.expr, values)
    raise Unsaid("a value that is no plain expression")


def _first(values: dict[str, int]) -> dict[str, int]:
    """Leave out further names of one value, and those that only count."""
    seen: set[int] = set()
    kept = {}
    for name, value in values.items():
        if value not in seen and not re.search(r"_(LAST|OBSOLETE\d*|MAX)$", name):
            seen.add(value)
            kept[name] = value
    return kept


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-D", dest="defines", action="append", default=[])
    parser.add_argument("-I", dest="includes", action="append", default=[])
    parser.add_argument("--only", default="", help="names that match this regular expression")
    parser.add_argument("--sizes", action="store_true", help="print the types that only we read")
    parser.add_argument("--enums", action="store_true", help="print the names of enumerations")
    parser.add_argument("library")
    parser.add_argument("headers", nargs="+")
    options = parser.parse_args()

    known = build.read_declarations(str(DIRECTORY))
    there = set()
    for function in known.functions:
        there |= {function.name, *(word for word in function.words.get("ALSO", []) if word != ",")}
    text = preprocessed(options.headers, options.defines, options.includes)
    tree = c_parser.CParser().parse(text)
    names: Names = {one.name: one for one in tree.ext if isinstance(one, c_ast.Typedef)}
    functions: dict[str, c_ast.FuncDecl] = {}
    for one in tree.ext:
        declared = one.decl if isinstance(one, c_ast.FuncDef) else one
        if isinstance(declared, c_ast.Decl) and isinstance(declared.type, c_ast.FuncDecl):
            functions.setdefault(declared.name, declared.type)

    writer = Writer(known, names)
    lines, left = [], []
    for name in sorted(exported(options.library) & functions.keys()):
        if name in there or not re.search(options.only, name):
            continue
        try:
            if _OF_A_WIDTH.search(name):
                raise Unsaid("a floating-point type of a width (ISO/IEC TS 18661-3)")
            lines.append(writer.function(name, functions[name]))
        except Unsaid as why:
            left.append(f"{name}: {why}")
    wanted = [*writer.typedefs.values(), "", *lines]
    if options.sizes or options.enums:
        wanted = list((writer.sizes if options.sizes else writer.enums).values())
    sys.stdout.writelines(f"{line}\n" for line in wanted)
    said = f"{len(lines)} functions, {len(left)} that the language has no words for"
    sys.stderr.writelines(f"declare: {line}\n" for line in [*left, said])
    return 0


if __name__ == "__main__":
    sys.exit(main())
