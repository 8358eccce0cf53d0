# SPDX-License-Identifier: Apache-2.0
"""scripts/declare.py: declarations out of headers, which our own parser reads."""

from __future__ import annotations

import sys
from pathlib import Path

from soscope.prototypes.parser import Declarations
from tests.support.processes.run import run
from tests.support.targets.build import made_in
from tests.support.targets.matrix import REPOSITORY
from tests.support.time.patience import limit

HEADER = """
#include <stddef.h>
#include <stdint.h>
typedef enum { SHADE_LIGHT, SHADE_DARK = 7, SHADE_LAST } shade;
typedef struct lamp lamp;
typedef uint32_t lumen;
struct volts { int whole; };
extern __attribute__((nonnull)) lamp *lamp_new(const char *name, size_t, shade __shade);
int lamp_each(lamp *, int (*visit)(lamp *, void *), void *context);
double lamp_light(const lamp *lamp, lumen bright, int steps[4], long long int at, ...);
void lamp_off(void);
struct volts lamp_volts(lamp *lamp);
int lamp_elsewhere(void);
static inline int lamp_inline(void) { return 1; }
"""
SOURCE = """
struct lamp *lamp_new() { return 0; }
int lamp_each() { return 0; }
double lamp_light() { return 0; }
void lamp_off() {}
void lamp_volts() {}
"""


def declared(tmp_path: Path, *options: str) -> tuple[str, str]:
    (tmp_path / "lamp.h").write_text(HEADER)
    (tmp_path / "lamp.c").write_text(SOURCE)
    library = tmp_path / "liblamp.so"
    made_in(tmp_path, "gcc", "-shared", "-o", library, "lamp.c")
    script = REPOSITORY / "scripts" / "declare.py"
    words = [sys.executable, str(script), f"-I{tmp_path}", *options, str(library), "lamp.h"]
    done = run(words, timeout=limit(120))
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_types_are_those_of_the_header(tmp_path: Path) -> None:
    out, said = declared(tmp_path)
    assert out.splitlines() == [
        "typedef uint32_t lumen;",
        "",
        "int lamp_each(lamp *arg1, int (*visit)(lamp *, void *), void *context);",
        "double lamp_light(const lamp *lamp, lumen bright, int *steps, long long int at, ...);",
        "lamp *lamp_new(const char *name, size_t arg2, shade shade);",
        "void lamp_off(void);",
    ]
    assert "lamp_volts: struct volts by value" in said
    assert "4 functions, 1 that the language has no words for" in said

    declarations = Declarations()
    types = (REPOSITORY / "prototypes" / "types.h").read_text()
    declarations.read(types, "types.h")
    declarations.read(declared(tmp_path, "--sizes")[0].replace("ENUM(shade)", ""), "sizes")
    declarations.read(out, "lamp.h")
    assert [function.name for function in declarations.functions] == [
        "lamp_each",
        "lamp_light",
        "lamp_new",
        "lamp_off",
    ]


def test_enumerations_have_names(tmp_path: Path) -> None:
    sizes, _ = declared(tmp_path, "--sizes")
    assert sizes == "typedef unsigned int shade ENUM(shade);\n"
    names, _ = declared(tmp_path, "--enums")
    assert names == "enum shade\n    SHADE_LIGHT=0 SHADE_DARK=7\n"
