# SPDX-License-Identifier: Apache-2.0
"""The program of tests/targets/mem/stacks.c: it allocates, and says by which stacks it did."""

from __future__ import annotations

from pathlib import Path

from tests.support.targets.build import made

TARGETS = Path(__file__).parents[2] / "targets" / "mem"


def stack_program(compiler: str, *flags: str) -> list[str]:
    """Build it with the libraries that it loads; return the words to run it by."""
    cc = [compiler, *flags, "-fno-optimize-sibling-calls", "-w"]
    library = [*cc, "-shared", "-fPIC", str(TARGETS / "lib_stacks.c")]
    steps = [
        [*library, "-DNAME=through_inner", "-o", "libinner.so"],
        # a caller that keeps frame pointers, or one that keeps none
        [*library, "-DNAME=through_outer", "-fno-omit-frame-pointer", "-o", "libouter.so"],
        [*library, "-DCONSTRUCTOR=701", "-o", "libfirst.so"],
        [*library, "-DCONSTRUCTOR=1702", "-o", "libsecond.so"],
        [
            *[*cc, "-rdynamic", "-pthread", str(TARGETS / "stacks.c"), "-o", "stacks"],
            *["libinner.so", "libouter.so", "-Wl,-rpath,$ORIGIN"],
        ],
    ]
    folder = made({}, *steps, name="stacks")
    # the second one comes to where the first was
    return [str(folder / name) for name in ("stacks", "libfirst.so", "libsecond.so", "libfirst.so")]
