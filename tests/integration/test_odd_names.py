# SPDX-License-Identifier: Apache-2.0
"""A library whose name a terminal would obey, and that is neither text nor one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.processes.run import soscope
from tests.support.targets import build

ODD = b'lib\x1b[31m<&"\xff\nsoscope: .so'
SHOWN = 'lib\\x1b[31m<&"\\xff\\x0asoscope: .so'
LIBRARY = '#include <stdlib.h>\nint f(void) { return getenv("A") != 0; }\n'
PROGRAM = "int f(void);\nint main(void) { return f(); }\n"


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = os.fsdecode(ODD)
    place = build.made(
        {"f.c": LIBRARY, "main.c": PROGRAM},
        ["gcc", "-shared", "-fPIC", "-o", library, f"-Wl,-soname,{library}", "f.c"],
        ["gcc", "-o", "main", "main.c", f"./{library}", "-Wl,-rpath,$ORIGIN"],
    )
    record = tmp_path_factory.mktemp("odd") / "run.sosr"
    soscope("trace", "--record", str(record), "-k", "-e", "getenv,f", "--", "./main", cwd=place)
    return record


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "words", ["-i", "-n 2", "-k", "--tree", "--tree -c", "-c --by caller", "--histogram --from all",
              "--graph", "--format md", "-c --format md"],
)  # fmt: skip
def test_names_are_one_line_and_no_commands(words: str, odd: Path) -> None:
    done = soscope("report", *words.split(), str(odd))
    for text in (done.stdout, done.stderr):
        assert all(line.isprintable() for line in text.splitlines())
    assert SHOWN in done.stdout


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "form", ["perfetto", "chrome", "firefox", "speedscope", "folded", "parquet", "csv", "jsonl"]
)
def test_every_export_has_a_place_for_them(form: str, odd: Path, tmp_path: Path) -> None:
    done = soscope("export", str(odd), "--format", form, "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
