# SPDX-License-Identifier: Apache-2.0
"""Random C functions that call `callee` and look at its address, or do not.

Each function is one expression of calls and arithmetic in random control flow; it always
ends, and its result depends on every address that it looked at.
"""

from __future__ import annotations

from random import Random

HEAD = """\
#define EXPORT __attribute__((visibility("default"), noinline))
extern long callee(long x);
extern long other(long x);
extern long take(long (*function)(long), long x);
extern long (*sink)(long);
extern volatile long noise;
"""
CALLS = ("callee(%s)", "callee(%s)", "callee(%s)", "other(%s)")
LOOKS = (
    "v += take(callee, v);",
    "sink = callee; v += sink == callee;",
    "v ^= (long)callee;",
    "v += ~(long)callee & v;",
    "v += ((long)callee >> 3) * 5;",
    "if (sink == callee) v++;",
    "v += (short)(long)callee;",
    "{ long (*f)(long) = noise & 1 ? callee : other; v += take(f, f(v)); }",
    "{ long (*volatile f)(long) = callee; v += f(v) + (long)f; }",
    '__asm__ volatile("" : : "r"(callee)); v += (long)callee;',
)
CONDITIONS = ("v & 1", "noise & 2", "v > x", "callee(v) & 4", "x == 3", "w < v")


def random_source(random: Random, functions: int) -> str:
    """Return the text of a file with that many functions."""
    return HEAD + "".join(_function(random, number) for number in range(functions))


def _function(random: Random, number: int) -> str:
    looks = random.random() < 0.5
    body = _block(random, 3, looks)
    kind = "any" if looks else "only"
    return (
        f"\nEXPORT long {kind}_{number}(long x)\n{{\n\tlong v = x, w = callee(x);\n"
        f"{body}\treturn v + w;\n}}\n"
    )


def _block(random: Random, depth: int, looks: bool) -> str:
    return "".join(_statement(random, depth, looks) for _ in range(random.randint(1, 4)))


def _statement(random: Random, depth: int, looks: bool) -> str:
    choice = random.random()
    if looks and choice < 0.12:
        return f"\t{random.choice(LOOKS)}\n"
    if depth and choice < 0.3:
        rest = f"else {{\n{_block(random, depth - 1, looks)}}}\n" if random.random() < 0.5 else ""
        inside = _block(random, depth - 1, looks)
        return f"\tif ({random.choice(CONDITIONS)}) {{\n{inside}}} {rest}\n"
    if depth and choice < 0.4:
        name = f"i{random.randrange(10**6)}"
        inside = _block(random, depth - 1, looks)
        leave = f"\tif (v & {1 << random.randrange(6)}) break;\n" if random.random() < 0.5 else ""
        return f"\tfor (long {name} = 0; {name} < 3; {name}++) {{\n{inside}{leave}}}\n"
    if depth and choice < 0.45:
        cases = "".join(
            f"\tcase {at}:\n{_block(random, depth - 1, looks)}\tbreak;\n"
            for at in range(random.randint(4, 9))
        )
        return f"\tswitch (v & 15) {{\n{cases}\tdefault: w++; }}\n"
    if choice < 0.5:
        return "\tif (w == 77) return v;\n"
    to = random.choice(("v", "w"))
    sign = random.choice(("+=", "^=", "-="))
    return f"\t{to} {sign} {random.choice(CALLS) % random.choice(('v', 'w', 'v + 1', 'x'))};\n"
