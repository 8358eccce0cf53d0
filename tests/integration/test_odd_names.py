# SPDX-License-Identifier: Apache-2.0
"""A library whose name a terminal would obey, and that is neither text nor one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from soscope import open as open_recording
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


TEXTS = ("folded", "csv", "jsonl")  # what people look at on a terminal


@pytest.mark.every(3, always=TEXTS)
@pytest.mark.parametrize(
    "form", ["perfetto", "chrome", "firefox", "speedscope", "folded", "parquet", "csv", "jsonl"]
)
def test_every_export_has_a_place_for_them(form: str, odd: Path, tmp_path: Path) -> None:
    done = soscope("export", str(odd), "--format", form, "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    if form in TEXTS:
        lines = (tmp_path / "out").read_bytes().decode().splitlines()
        assert all(map(str.isprintable, lines))


CAFE = 'int cafe(void) __asm__("caf\\351");\n'


@pytest.fixture(scope="module")
def cafe() -> Path:
    """A program with debug information that calls a function whose name is no UTF-8."""
    return build.made(
        {
            "f.c": CAFE + "int cafe(void) { return 7; }\n",
            "main.c": CAFE + "int main(void) { return cafe(); }\n",
        },
        "gcc -g -O1 -shared -fPIC f.c -o libcafe.so",
        "gcc -g -O1 main.c -L. -lcafe -Wl,-rpath,$ORIGIN -o main",
    )


@pytest.mark.parametrize("options", [[], ["-k"], ["--json"], ["-c"]], ids=" ".join)
def test_a_function_whose_name_is_no_utf8(options: list[str], cafe: Path) -> None:
    done = soscope("trace", "-e", "caf*", *options, "--", "./main", cwd=cafe)
    assert done.returncode == 7
    assert "bug" not in done.stderr
    assert "caf" in done.stdout + done.stderr


def test_columns_of_a_function_whose_name_is_no_utf8(cafe: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.sosr"
    soscope("trace", "--record", record, "-e", "caf*", "--", "./main", cwd=cafe)
    frame = open_recording(record).calls.to_pandas()
    assert frame.symbol.tolist() == ["caf\\xe9"]
