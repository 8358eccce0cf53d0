# SPDX-License-Identifier: Apache-2.0
"""select.c against the same decision in Python: random filters, names and images."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from soscope.errors import UsageError
from soscope.prototypes.catalog import load
from soscope.prototypes.sources import DWARF, SourceText
from soscope.select.filter import Selection, chooses, compile_selection
from soscope.select.patterns import compile_glob, pack_patterns
from soscope.wire import layout
from tests.agent import hosted

SYMBOLS = ["open", "open64", "openat", "read", "write", "malloc", "free", "_Znwm", "f0", "xopen"]
IMAGES = [
    ("prog", "/usr/bin/prog", True),
    ("libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6", False),
    ("libm.so.6", "/lib/x86_64-linux-gnu/libm.so.6", False),
    ("libplug.so", "/opt/prog/libplug.so", False),
    ("ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2", False),
]
NAMES = [
    "open*",
    "read",
    "*",
    "?rite",
    "[fm]*",
    "[!a-n]*",
    "/^open/",
    "/e$/",
    "/o.*n/",
    "f0",
    "_Z*",
]
PLACES = [
    "libc*",
    "MAIN",
    "libc.so.6",
    "/opt/prog/*",
    "/lib/*/libm.so*",
    "*",
    "lib[cm].so.6",
    "nobody",
]
UNKNOWN = ("-", "-", False)


def expression(source: random.Random) -> str:
    """Return one argument of -e."""
    words = []
    for number in range(source.randint(1, 4)):
        name = source.choice(NAMES)
        place = f"@{source.choice(PLACES)}" if source.random() < 0.4 else ""
        sign = source.choice("+-") if number else source.choice(["", "", "!"])
        words.append(sign + name + place)
    return source.choice(["", ","]).join(words) if source.random() < 0.3 else "".join(words)


def selection(source: random.Random) -> tuple[Selection, str] | None:
    """Return a random filter, and its words; None where they are none."""
    select = [expression(source) for _ in range(source.randint(0, 3))]
    from_ = [source.choice(PLACES) for _ in range(source.choice([0, 0, 1, 2]))]
    to = [source.choice(PLACES) for _ in range(source.choice([0, 0, 1, 2]))]
    try:
        return compile_selection(select, from_, to), f"{select} {from_} {to}"
    except UsageError:
        return None


def ask(folder: Path, chosen: Selection, functions: bytes, queries: list[str]) -> list[str]:
    """Return the lines of tests/agent/host/select.c."""
    (folder / "patterns").write_bytes(pack_patterns(chosen.patterns))
    (folder / "rules").write_bytes(chosen.rules)
    (folder / "functions").write_bytes(functions)
    (folder / "queries").write_text("\n".join(queries) + "\n")
    files = [folder / name for name in ("patterns", "rules", "functions", "queries")]
    return hosted.check("select", *files).splitlines()


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(4))
def test_the_agent_chooses_as_python_does(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    made = 0
    while made < 25:
        found = selection(source)
        if found is None:
            continue
        made += 1
        chosen, words = found
        functions = load().function_table(chosen.patterns, entry_only=False, want_arguments=False)
        queries, wanted = [], []
        for _ in range(80):
            symbol = source.choice(SYMBOLS)
            caller = source.choice(IMAGES)
            callee = source.choice([*IMAGES, UNKNOWN])
            rows = [(name, path, str(int(main))) for name, path, main in (caller, callee)]
            queries.append("\t".join([symbol, "-", *rows[0], *rows[1]]))
            known = callee is not UNKNOWN
            wanted.append(
                chooses(
                    chosen,
                    symbol,
                    caller=caller[0],
                    caller_path=caller[1],
                    caller_is_main=caller[2],
                    callee=callee[0] if known else "",
                    callee_path=callee[1] if known else "",
                    callee_is_main=callee[2],
                )
            )
        lines = ask(tmp_path, chosen, functions, queries)
        got = [line[0] == "1" for line in lines[: len(queries)]]
        wrong = [query for query, a, b in zip(queries, got, wanted, strict=True) if a != b]
        assert not wrong, words
        assert len(lines) == len(queries) + len(chosen.words)


def test_patterns_of_every_kind(tmp_path: Path) -> None:
    # names with bytes of every kind, the longest that a symbol table is likely to have
    source = random.Random(7)
    chosen = compile_selection(["/^a[^b]*\\(cd\\)\\+$/", "*zz?", "[[:digit:]]*", "é*", "a?*"])
    functions = load().function_table(chosen.patterns, entry_only=False, want_arguments=False)
    alphabet = "aabcdz0é_"
    names = ["".join(source.choices(alphabet, k=source.randint(1, 12))) for _ in range(2000)]
    names += ["a" + "c" * 3000 + "cd", "z" * 4000]
    caller, callee = IMAGES[0], IMAGES[1]
    row = "\t".join(["-", caller[0], caller[1], "1", callee[0], callee[1], "0"])
    lines = ask(tmp_path, chosen, functions, [f"{name}\t{row}" for name in names])
    wanted = [
        chooses(chosen, name, caller=caller[0], callee=callee[0], caller_is_main=True)
        for name in names
    ]
    assert [line[0] == "1" for line in lines[: len(names)]] == wanted
    assert any(wanted)
    assert not all(wanted)


def test_functions_are_found_by_name_and_by_glob(tmp_path: Path) -> None:
    chosen = compile_selection([])
    chosen.rules = b""  # everything
    chosen.words.clear()
    functions = load().function_table(chosen.patterns, entry_only=False, want_arguments=True)
    names = ["printf", "setjmp", "_setjmp", "longjmp", "exit", "read", "no_such_function", "vfork"]
    row = "-\tprog\t/prog\t1\tlibc.so.6\t/libc.so.6\t0"
    lines = ask(tmp_path, chosen, functions, [f"{name}\t{row}" for name in names])
    flags = {name: int(line.split()[1]) for name, line in zip(names, lines, strict=False)}
    numbers = {name: int(line.split()[2]) for name, line in zip(names, lines, strict=False)}
    assert numbers["no_such_function"] == 0xFFFFFFFF
    assert len({numbers["printf"], numbers["read"], numbers["exit"]}) == 3
    assert flags["printf"] != flags["no_such_function"]
    assert compile_glob("x").matches(b"x")


@pytest.mark.parametrize(
    ("symbol", "version", "provider", "is_known"),
    [
        ("error", "-", "libc.so.6", True),
        ("error", "-", "libplug.so", False),
        ("error", "GLIBC_2.2.5", "libplug.so", True),  # it stands in for libc
        ("error", "PLUG_1.0", "libplug.so", False),
        ("error", "-", "-", True),
        ("compress", "-", "libz.so.1", True),
        ("compress", "-", "libplug.so", False),
        ("malloc", "-", "libplug.so", True),
        ("sqlite3_open", "-", "libplug.so", True),
    ],
)
def test_a_name_is_known_in_its_own_library(
    symbol: str, version: str, provider: str, is_known: bool, tmp_path: Path
) -> None:
    chosen = compile_selection([])
    chosen.rules = b""  # everything
    chosen.words.clear()
    functions = load().function_table(chosen.patterns, entry_only=False, want_arguments=True)
    query = f"{symbol}\t{version}\tprog\t/prog\t1\t{provider}\t/{provider}\t0"
    (line,) = ask(tmp_path, chosen, functions, [query])
    assert (int(line.split()[2]) != 0xFFFFFFFF) == is_known


def test_functions_that_came_later_are_found_behind_the_others(tmp_path: Path) -> None:
    """The newest table counts, and a name that nobody knows is as unknown as before."""
    chosen = compile_selection([])
    chosen.rules = b""  # everything
    chosen.words.clear()
    prototypes = load()
    more = SourceText(DWARF, "own.so", "void paint(const char *a); void error(const char *a);\n")
    functions = prototypes.function_table(chosen.patterns, entry_only=False, want_arguments=True)
    prototypes.add(more, [])
    before = 0
    for known, asked in ([], ["paint", "nothing"]), (["paint", "error"], ["none"]):
        functions += bytes(-len(functions) % 8)
        start = len(functions)
        functions += prototypes.later_table(
            known, asked, start, before, entry_only=False, want_arguments=True
        )
        before = start
        at = layout.FUNCTION_TABLE.offset("more")
        functions = functions[:at] + start.to_bytes(4, "little") + functions[at + 4 :]
    names = ["paint", "nothing", "none", "frobnicate"]
    row = "-\tprog\t/prog\t1\tlibplug.so\t/libplug.so\t0"
    lines = ask(tmp_path, chosen, functions, [f"{name}\t{row}" for name in [*names, "error"]])
    flags = [int(line.split()[1]) for line in lines]
    assert flags[0] & layout.FN_PROGRAM
    assert flags[1:4] == [layout.FN_SIX] * 3
    assert flags[4] & layout.FN_PROGRAM  # of this library, not of libc
    assert flags[4] & layout.FN_FOREIGN
    (line,) = ask(tmp_path, chosen, functions, [f"error\t{row.replace('plug', 'c')}"])
    assert not int(line.split()[1]) & layout.FN_FOREIGN
