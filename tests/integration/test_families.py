# SPDX-License-Identifier: Apache-2.0
"""A private library's function is not shown as the C library's of the same name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes.run import run
from tests.support.targets.accounts import SOSCOPE
from tests.support.targets.build import TARGETS, made_in

OWN = TARGETS / "own"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("same")
    flags = "-O1 -w -fno-builtin"
    library = f"gcc {flags} -shared -fPIC"
    for command in (
        f"{library} {OWN / 'lib_own_same.c'} -o libown_same.so",
        f"{library} {OWN / 'lib_own_before.c'} -o libown_before.so",
        f"gcc {flags} {OWN / 'own_same.c'} -o own_same -L. -lown_same -Wl,-rpath,$ORIGIN",
    ):
        made_in(path, *command.split())
    return path


@pytest.mark.parametrize("linking", ["lazy", "now"])
def test_whose_a_function_is_decides_what_it_is(folder: Path, linking: str) -> None:
    out, recording, program = folder / "out", folder / "run.sosr", folder / "own_same"
    words: list[str | Path] = ["-e", "compress,error,login,strlen,access,printf", "--from", "MAIN"]
    words += ["-s", "256", "-E", f"LD_PRELOAD={folder / 'libown_before.so'}", "--record", recording]
    if linking == "now":
        words += ["-E", "LD_BIND_NOW=1"]
    done = run([*SOSCOPE, "trace", *words, "--json", "-o", out, program])
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"-37 -1 2 {len(str(program))} 0\n"
    report = run([*SOSCOPE, "report", "-s", "256", "--json", recording])
    assert report.stdout == out.read_text()
    lines = [json.loads(line) for line in report.stdout.splitlines()]
    calls = {line["symbol"]: line for line in lines if line["type"] == "call"}
    for name, words_of in {"compress": [7, 9], "error": [7, 8], "login": [1]}.items():
        call = calls[name]
        assert call["callee"] == "libown_same.so"
        assert [one["value"] & 0xFFFF_FFFF for one in call["args"]][: len(words_of)] == words_of
        assert all(one["guess"] and one["type"] == "?" for one in call["args"])
        assert call["result"]["guess"]
        assert call["errno"] is None
        assert "failed" not in call
    # The same everywhere by C's own rule; and what a caller was linked with it may expect.
    assert calls["strlen"]["callee"] == "libown_same.so"
    assert calls["strlen"]["args"][0]["value"] == str(program)
    assert calls["access"]["callee"] == "libown_before.so"
    assert [one["text"] for one in calls["access"]["args"]] == ['"/"', "R_OK"]
    assert calls["printf"]["args"][1]["value"] == -37


@pytest.mark.parametrize("whose", ["library", "caller"])
def test_debug_information_says_what_a_private_one_takes(tmp_path: Path, whose: str) -> None:
    """The C library's function of that name keeps its own declaration in the same program."""
    (tmp_path / "other.c").write_text(
        "#include <unistd.h>\n"
        "int compress(double, const char *);\nint error(char, long);\n"
        'int main(void)\n{\n\taccess("/", R_OK);\n'
        "\treturn compress(2.5, \"text\") != 6 || error('a', -1) != 96;\n}\n"
    )
    (tmp_path / "other_library.c").write_text(
        "int compress(double a, const char *b)\n{\n\treturn (int)a + b[0] - b[0] + 4;\n}\n"
        "int error(char c, long by)\n{\n\treturn c + (int)by;\n}\n"
    )
    library, program = ("-g", "-g0") if whose == "library" else ("-g0", "-g")
    for command in (
        f"gcc -O1 -w -fno-builtin {library} -shared -fPIC other_library.c -o libother.so",
        f"gcc -O1 -w -fno-builtin {program} other.c -o other -L. -lother -Wl,-rpath,$ORIGIN",
    ):
        made_in(tmp_path, *command.split())
    recording, out = tmp_path / "run.sosr", tmp_path / "out"
    words: list[str | Path] = ["-e", "compress,error,access@MAIN", "--record", recording, "-o", out]
    done = run([*SOSCOPE, "trace", *words, tmp_path / "other"])
    assert done.returncode == 0, done.stderr
    lines = [line.partition("->")[2].split() for line in out.read_text().splitlines()[:-1]]
    assert [" ".join(line) for line in lines] == [
        'access("/", R_OK) = 0',
        'compress(2.5, "text") = 6',
        "error('a', -1) = 96",
    ]
    assert run([*SOSCOPE, "report", recording]).stdout == out.read_text()
    told = run([*SOSCOPE, "trace", "--explain", "error", "--json", "--", tmp_path / "other"])
    assert json.loads(told.stdout)["others"]["declaration"].startswith("int error(char")


def test_explain_says_whose_it_is() -> None:
    done = run([*SOSCOPE, "trace", "--explain", "compress", "--json"])
    assert json.loads(done.stdout)["family"] == "zlib"
    text = run([*SOSCOPE, "trace", "--explain", "login"]).stdout
    assert "of libc alone" in text
    assert (
        json.loads(run([*SOSCOPE, "trace", "--explain", "strlen", "--json"]).stdout)["family"]
        is None
    )
