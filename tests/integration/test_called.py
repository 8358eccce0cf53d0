# SPDX-License-Identifier: Apache-2.0
"""`soscope called`: the functions of a library whose program says which of them it has called."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import attached
from tests.support.processes.run import run
from tests.support.targets.build import made, made_in
from tests.support.time.patience import limit, until
from tests.support.time.progress import has_switched

CALLED = [sys.executable, "-m", "soscope", "called"]
LIBRARY = """
static int inner(void) { return 1; }
int direct(void) { return inner(); }
int inside(void) { return 2; }
int outside(void) { return inside(); }
int given(void) { return 3; }
int nobody(void) { return 4; }
int by_name(void) { return 5; }
int twice(void) { return 6; }
extern int other_name(void) __attribute__((alias("twice")));
int variable = 7;
"""
PROGRAM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int direct(void), outside(void), given(void), other_name(void);
int (*volatile pointer)(void);
int main(int argc, char **argv)
{
	int (*named)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "by_name");
	for (int i = 0; i < 5; i++)
		direct();
	outside();
	other_name();
	pointer = given;
	pointer();
	named();
	puts("done");
	fflush(stdout);
	if (argc > 1)
		while (getppid() != 1) {
			direct();
			usleep(1000);
		}
	return 3;
}
"""


@pytest.fixture(scope="module")
def program() -> Path:
    library = "gcc -shared -fPIC -Wl,-Bsymbolic-functions -Wl,-soname,liblamp.so.1 lamp.c"
    folder = made(
        {"lamp.c": LIBRARY, "main.c": PROGRAM},
        f"{library} -o liblamp.so.1",
        "gcc -fno-builtin -Wl,-rpath,$ORIGIN -o main main.c liblamp.so.1 -ldl",
    )
    return folder / "main"


def asked(*words: str | Path) -> tuple[int, dict[str, Any], str]:
    done = run([*CALLED, "--json", *map(str, words)])
    document: dict[str, Any] = json.loads(done.stdout.removeprefix("done\n"))
    assert document["schema"] == "soscope/called/1"
    return done.returncode, document, done.stderr


def names(functions: list[dict[str, Any]]) -> set[str]:
    return {one["symbol"] for one in functions}


def test_all_functions_of_a_library(program: Path) -> None:
    status, document, said = asked("liblamp.so.1", "--", program)
    (image,) = document["images"]
    assert (image["name"], image["path"]) == (
        "liblamp.so.1",
        str(program.with_name("liblamp.so.1")),
    )
    calls = {one["symbol"]: one["calls"] for one in image["called"]}
    assert calls == {"direct": 5, "outside": 1, "other_name": 1}
    (twice,) = [one for one in image["called"] if one["symbol"] == "other_name"]
    assert twice["aliases"] == ["twice"]
    assert names(image["uncertain"]) == {"given"}
    assert names(image["never"]) == {"inside", "nobody", "by_name"}
    assert document["exit"]["status"] == 3
    assert status == 0
    assert "the command ended with status 3" in said
    assert "not seen: calls through pointers that dlsym gave to main" in said


def test_whether_a_function_is_reached(program: Path) -> None:
    for functions, status in (("direct", 1), ("no*", 0), ("no*,out*", 1), ("twice", 1)):
        assert asked("-e", functions, "--", program)[0] == status, functions
    _, document, _ = asked("-e", "direct,nobody", "--", program)
    (image,) = document["images"]
    assert names(image["called"]) == {"direct"}
    assert names(image["never"]) == {"nobody"}
    _, document, said = asked("-e", "nowhere_to_be_found", "--", program)
    assert document["images"] == []
    assert "no library that was loaded exports nowhere_to_be_found" in said


def test_text(program: Path) -> None:
    done = run([*CALLED, "-q", "liblamp*", "--", str(program)])
    assert done.stdout.splitlines() == [
        "done",
        "liblamp.so.1: 3 of 7 exported functions called",
        "               5  direct",
        "               1  other_name (twice)",
        "               1  outside",
        "               ?  given",
        "           never  3 others (--never names them)",
    ]
    assert done.stderr == ""
    done = run([*CALLED, "-q", "--never", "liblamp", "--", str(program)])
    assert done.stdout.splitlines()[-3:] == [
        "           never  by_name",
        "           never  inside",
        "           never  nobody",
    ]
    everything = run([*CALLED, "-q", "--", str(program)]).stdout
    assert "libc.so.6: " in everything
    assert "  puts" in everything


def test_a_process_that_runs(program: Path) -> None:
    process = subprocess.Popen([program, "on"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "done\n"
        words = [*CALLED, "--json", "-p", str(process.pid), "-e", "direct,outside"]
        soscope = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        attached.wait_for_hooks(soscope)
        until(has_switched(process.pid), "it calls direct", running=soscope)
        soscope.send_signal(signal.SIGINT)
        (image,) = json.loads(soscope.communicate(timeout=limit())[0])["images"]
        assert names(image["called"]) == {"direct"}
        assert names(image["never"]) == {"outside"}
        assert soscope.returncode == 1
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_program_that_cannot_be_watched(tmp_path: Path) -> None:
    """That a function was not called would be no answer."""
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    static = tmp_path / "static"
    made_in(tmp_path, "gcc", "-static", "-o", static, "main.c")
    done = run([*CALLED, "-e", "malloc", "--", str(static)])
    assert (done.returncode, done.stdout) == (2, "")
    assert "static ran untraced: it is statically linked" in done.stderr


def test_a_real_program() -> None:
    code = "import zlib; zlib.decompress(zlib.compress(b'x' * 999))"
    status, document, _ = asked("libz.so.1", "--", "/usr/bin/python3", "-c", code)
    (image,) = document["images"]
    assert {"deflate", "inflate", "inflateEnd"} <= names(image["called"])
    assert {"gzopen", "inflateBack"} <= names(image["never"])
    assert status == 0


def test_what_cannot_be_asked() -> None:
    for words, why in (
        ([], "no command to run"),
        (["libz.so.1"], "no command to run"),
        (["-p", "1", "--", "true"], "-p PID cannot be combined with a command"),
    ):
        done = run([*CALLED, *words])
        assert done.returncode == 2, done.stderr
        assert why in done.stderr
    done = run([*CALLED, "libnope.so.9", "--", "true"])
    assert done.stdout == ""
    assert "no image is called 'libnope.so.9'" in done.stderr


def test_names_of_cxx(tmp_path: Path) -> None:
    (tmp_path / "shop.cc").write_text(
        "namespace shop { int add(int n, const char *) { return n; } int none(long) { return 0; } }"
    )
    (tmp_path / "main.cc").write_text(
        'namespace shop { int add(int, const char *); } int main() { return shop::add(0, ""); }'
    )
    made_in(tmp_path, "g++", "-shared", "-fPIC", "-o", "libshop.so", "shop.cc")
    made_in(tmp_path, "g++", "-o", "main", "main.cc", "libshop.so", "-Wl,-rpath,$ORIGIN")
    _, document, _ = asked("libshop.so", "--", tmp_path / "main")
    (image,) = document["images"]
    shown = [(one["symbol"], one["demangled"]) for one in image["called"] + image["never"]]
    assert shown == [
        ("_ZN4shop3addEiPKc", "shop::add(int, char const*)"),
        ("_ZN4shop4noneEl", "shop::none(long)"),
    ]
    words = [*CALLED, "libshop.so", "--never", "--", str(tmp_path / "main")]
    text = run(words).stdout
    assert "  1  shop::add(int, char const*)\n" in text
    assert "  never  shop::none(long)\n" in text
    markdown = run([*words[:4], "--format", "md", *words[4:]]).stdout
    assert "shop::add(int, char const*)" in markdown
    assert "soscope trace -i -e _ZN4shop3addEiPKc" in markdown
