# SPDX-License-Identifier: Apache-2.0
"""Programs with more slots than fit: what fits is hooked, and the rest is named.

The libraries are made of assembler text. Each calls functions that the linker has given one
address, so that the program says by itself how many calls went through how many slots.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from soscope.wire import layout
from tests.support.processes import tracing
from tests.support.processes.run import run
from tests.support.processes.tracing import is_whole
from tests.support.targets.build import made_in
from tests.support.time.patience import limit

EACH = 30_000  # slots of a library
MORE_THAN_16_BITS = 22_500  # of three libraries
_STACK = '.section .note.GNU-stack,"",@progbits\n'


def made(folder: Path, libraries: int, each: int = EACH) -> Path:
    """Make a program that calls each of `each` functions of so many libraries once."""
    names: list[str] = []
    for at in range(libraries):
        functions = [f"many_{at}_{index}" for index in range(each)]
        aliases = "".join(
            f".globl {one}\n.type {one},@function\n.set {one},plus_one\n" for one in functions
        )
        calls = "".join(f" call {one}@PLT\n mov %eax,%edi\n" for one in functions)
        parts = {
            f"provider{at}": f"plus_one: endbr64\n lea 1(%rdi),%eax\n ret\n{aliases}",
            f"user{at}": f".globl use_{at}\n.type use_{at},@function\nuse_{at}: push %rbx\n"
            f" xor %edi,%edi\n{calls} pop %rbx\n ret\n",
        }
        for name, text in parts.items():
            (folder / f"{name}.s").write_text(f".text\n{text}{_STACK}")
            words = ["-shared", "-nostdlib", "-o", f"lib{name}.so", f"{name}.s"]
            made_in(folder, "gcc", *words, f"-Wl,-soname,lib{name}.so")
            names.insert(0, f"-l{name}")
    uses = [f"use_{at}" for at in range(libraries)]
    (folder / "main.c").write_text(
        "#include <stdio.h>\n"
        + "".join(f"int {one}(void);\n" for one in uses)
        + f'int main(void) {{ printf("%d\\n", {" + ".join(f"{one}()" for one in uses)}); }}\n'
    )
    made_in(folder, "gcc", "-o", "many", "main.c", "-L.", *names, "-Wl,-rpath,$ORIGIN,-z,now")
    return folder / "many"


def traced(folder: Path, program: Path) -> tuple[dict[str, int], str, str]:
    """Count all calls; return the document's figures by library, the output and the notes."""
    output = folder / "output.json"
    words = [*tracing.SOSCOPE, "--count-only", "--json", "--from", "libuser*", "-o", str(output)]
    done = run([*words, "--", str(program)], timeout=limit(240))
    assert done.returncode == 0, done.stderr
    document = json.loads(output.read_text())
    figures = {
        image["name"]: image["hooked_slots"]
        for image in document["images"]
        if image["name"].startswith("libuser")
    }
    rows = [row["calls"] for row in document["rows"] if row["symbol"].startswith("many_")]
    assert set(rows) == {1}
    figures["calls"] = sum(rows)
    figures["without room"] = sum(image["without_room"] for image in document["images"])
    return figures, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("libraries", "each"),
    [(3, MORE_THAN_16_BITS), pytest.param(5, EACH, marks=pytest.mark.soak)],
)
def test_a_program_with_many_slots_is_hooked_all_over(
    libraries: int, each: int, tmp_path: Path
) -> None:
    figures, output, notes = traced(tmp_path, made(tmp_path, libraries, each))
    assert output == f"{libraries * each}\n"
    assert figures["calls"] == libraries * each
    assert figures["without room"] == 0
    assert is_whole(notes)
    assert "not complete" not in notes


@pytest.mark.soak
def test_what_finds_no_room_is_named(tmp_path: Path) -> None:
    count = layout.MAX_SLOTS // EACH + 1
    figures, output, notes = traced(tmp_path, made(tmp_path, count))
    assert output == f"{count * EACH}\n"
    hooked = sum(figures[f"libuser{at}.so"] for at in range(count))
    assert hooked == figures["calls"] < count * EACH
    assert hooked + figures["without room"] == count * EACH
    assert figures["without room"] < EACH
    assert "not complete" in notes.splitlines()[-1]
    missing = [at for at in range(count) if figures[f"libuser{at}.so"] < EACH]
    line = next(one for one in notes.splitlines() if "no room" in one)
    assert all(f"libuser{at}.so" in line for at in missing)
    assert "--from" in line
