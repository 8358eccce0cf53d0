# SPDX-License-Identifier: Apache-2.0
"""`--replace` with a function of other types: refused before anything starts or is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.files.elffiles import built, split
from tests.support.processes import attached
from tests.support.processes.run import soscope

pytestmark = pytest.mark.shares

MINE = """
#include <stddef.h>
#include <sys/types.h>
struct point { double x, y; };
size_t (*strlen_original)(const char *);
size_t length(const char *s) { return strlen_original ? strlen_original(s) : 0; }
int two(int a, int b) { return a + b; }
long good(int a, struct point *p) { return 42; }
long flat(int a, struct point p) { return 42; }
int narrow(int a, struct point *p) { return 42; }
char *line(char *buffer, int size) { return buffer; }
int old(a) int a; { return a; }
"""
WORK = """
struct point { double x, y; };
long work(int a, struct point *p) { return a + (long)p->x; }
char *getline(char *buffer, int size) { return buffer; }
"""
PROGRAM = """
struct point { double x, y; };
long work(int a, struct point *p);
char *getline(char *buffer, int size);
int puts(const char *);
int printf(const char *, ...);
int fflush(void *);
int getchar(void);
int main(void)
{
	struct point p = {1, 2};
	char text[1] = "";
	puts("ready");
	fflush(0);
	getchar();
	printf("%ld %d\\n", work(3, &p), getline(text, 1) == text);
	return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("types")
    built(made, "mine.so", MINE, "-g", "-std=gnu17", "-w", "-fPIC", "-shared")
    shutil.copy(made / "mine.so", made / "split.so")
    split(made / "split.so", made / "split.debug")
    built(made, "bare.so", MINE, "-std=gnu17", "-w", "-fPIC", "-shared")
    for name, flags in (("described", ("-g",)), ("plain", ())):
        (made / name).mkdir()
        built(made / name, "libwork.so", WORK, *flags, "-fPIC", "-shared", "-fno-builtin")
        link = ("-L.", "-lwork", "-Wl,-rpath,$ORIGIN", "-fno-builtin", "-w")
        built(made / name, "program", PROGRAM, *link)
    return made


def refused(done: subprocess.CompletedProcess[str], status: int) -> str:
    """Return what is said of the replacement that was refused."""
    assert done.returncode == status
    assert done.stdout == ""
    assert done.stderr.startswith("soscope: error: --replace '"), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.partition("': ")[2].strip()


# ---- run ----

WRONG = [
    ("malloc", "two", "two takes (int, int), malloc takes (size_t): 2 arguments for 1"),
    (
        "strlen",
        "old",
        "old returns int, strlen returns size_t: int (4 bytes) for size_t (8 bytes)",
    ),
    (
        "read",
        "good",
        "good takes (int, struct point *), read takes (int, void *, size_t): 2 arguments for 3",
    ),
]


@pytest.mark.every(7)
@pytest.mark.parametrize("library", ["mine.so", "split.so"])
@pytest.mark.parametrize("asked", [(), ("--check-types",)])
@pytest.mark.parametrize(("symbol", "function", "text"), WRONG)
def test_run_refuses_what_cannot_fit(
    symbol: str, function: str, text: str, asked: tuple[str, ...], library: str, folder: Path
) -> None:
    words = [*asked, "--replace", f"{symbol}={folder / library}:{function}"]
    done = soscope("patch", *words, "--", "touch", folder / "started")
    assert refused(done, 125) == text
    assert f"'{symbol}={folder / library}:{function}'" in done.stderr
    assert not (folder / "started").exists()


@pytest.mark.parametrize("asked", [(), ("--check-types",)])
def test_run_takes_what_fits(asked: tuple[str, ...], folder: Path) -> None:
    words = [*asked, "-q", "--replace", f"strlen={folder / 'mine.so'}:length"]
    done = soscope("patch", *words, "--", "sort", "--version")
    assert done.returncode == 0
    assert done.stdout.startswith("sort ")


def test_all_are_compared(folder: Path) -> None:
    words = ["--replace", f"strlen={folder / 'mine.so'}:length"]
    words += ["--replace", f"free={folder / 'mine.so'}:two"]
    text = refused(soscope("patch", *words, "--", "true"), 125)
    assert text == "two takes (int, int), free takes (void *): 2 arguments for 1"


NOT_KNOWN = "the types of 'length' are not known: "
UNKNOWN = [
    (
        *("strlen", "bare.so:length"),
        f"{NOT_KNOWN}bare.so has no debug information (compile it with -g)",
    ),
    (
        *("nobody_declares_this", "mine.so:two"),
        "the types of 'nobody_declares_this' are not known: soscope has no declaration of it",
    ),
    (*("abs", "mine.so:old"), "the types of 'old' are not known: it has no prototype"),
]


@pytest.mark.parametrize(("symbol", "where", "text"), UNKNOWN)
def test_run_refuses_what_is_not_known_if_asked(
    symbol: str, where: str, text: str, folder: Path
) -> None:
    words = ["--replace", f"{symbol}={folder}/{where}"]
    done = soscope("patch", "--check-types", *words, "--", "touch", folder / "started")
    assert refused(done, 125) == text
    assert not (folder / "started").exists()
    done = soscope("patch", "-q", *words, "--", "true")
    assert "types" not in done.stderr
    assert "takes" not in done.stderr


@pytest.mark.parametrize("symbol", ["setjmp", "vfork", "getcontext"])
def test_what_returns_twice_is_refused(symbol: str, folder: Path) -> None:
    done = soscope("patch", "--replace", f"{symbol}={folder / 'bare.so'}:two", "--", "true")
    assert refused(done, 125).startswith(f"{symbol} returns several times from one call")


@pytest.mark.parametrize("asked", [(), ("--check-types",)])
def test_run_compares_with_what_the_program_will_load(asked: tuple[str, ...], folder: Path) -> None:
    words = [*asked, "--replace", f"work={folder / 'mine.so'}:flat"]
    text = refused(soscope("patch", *words, "--", folder / "described" / "program"), 125)
    assert text.startswith("flat takes (int, struct point), work takes (int, struct point *): ")
    words = [*asked, "--replace", f"work={folder / 'mine.so'}:good"]
    # not that of libc, which is declared: the program's own
    words += ["--replace", f"getline={folder / 'mine.so'}:line"]
    done = soscope("patch", *words, "--", folder / "described" / "program")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n42 1\n", "")


# ---- patch ----

FLAT = "flat takes (int, struct point), work takes (int, struct point *): "


@pytest.mark.covering(1)
@pytest.mark.parametrize("asked", [(), ("--check-types",)])
@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            "work=mine.so:flat",
            f"{FLAT}argument 2 is struct point (16 bytes) for struct point * (8 bytes)",
        ),
        (
            "work=mine.so:narrow",
            "narrow returns int, work returns long: int (4 bytes) for long (8 bytes)",
        ),
        ("puts=mine.so:two", "two takes (int, int), puts takes (const char *): 2 arguments for 1"),
    ],
)
def test_patch_refuses_and_changes_nothing(
    spec: str, text: str, asked: tuple[str, ...], folder: Path
) -> None:
    symbol, _, where = spec.partition("=")
    program = folder / "described" / "program"
    with attached.running([program]) as process:
        before = attached.snapshot(process.pid)
        words = ["-p", str(process.pid), *asked, "--replace", f"{symbol}={folder}/{where}"]
        assert refused(soscope("patch", *words), 2) == text
        assert attached.differences(before, process.pid) == []
        assert "mine.so" not in Path(f"/proc/{process.pid}/maps").read_text()
        assert attached.finish(process) == (0, "4 1\n", "")


@pytest.mark.parametrize("asked", [(), ("--check-types",)])
def test_patch_takes_what_fits(asked: tuple[str, ...], folder: Path) -> None:
    with attached.running([folder / "described" / "program"]) as process:
        words = ["-p", str(process.pid), *asked]
        words += ["--replace", f"work={folder / 'mine.so'}:good"]
        # not that of libc, which is declared: the program's own
        words += ["--replace", f"getline={folder / 'mine.so'}:line"]
        done = soscope("patch", *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert attached.finish(process) == (0, "42 1\n", "")


def test_patch_without_debug_information(folder: Path) -> None:
    with attached.running([folder / "plain" / "program"]) as process:
        words = ["-p", str(process.pid), "--replace", f"work={folder / 'mine.so'}:good"]
        text = refused(soscope("patch", "--check-types", *words), 2)
        assert text == "the types of 'work' are not known: libwork.so has no debug information"
        assert soscope("patch", *words).returncode == 0
        assert attached.finish(process) == (0, "42 1\n", "")


def test_patch_of_nobody(folder: Path) -> None:
    words = ["-p", str(1 << 30), "--replace", f"work={folder / 'mine.so'}:good"]
    for asked in ((), ("--check-types",)):
        done = soscope("patch", *asked, *words)
        assert (done.returncode, done.stderr) == (4, "soscope: error: no process 1073741824\n")


def test_check_goes_with_replace() -> None:
    done = soscope("patch", "-p", str(os.getpid()), "--undo", "--check-types")
    assert done.returncode == 2
    assert "--check-types is for --replace" in done.stderr


def test_a_function_of_the_programs_own_has_its_own_types(folder: Path) -> None:
    # libc's getline is declared, but this is not libc's, and nothing says what it takes
    spec = f"getline={folder / 'mine.so'}:line"
    program = folder / "plain" / "program"
    done = soscope("patch", "--replace", spec, "--", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n4 1\n", "")
    text = refused(soscope("patch", "--check-types", "--replace", spec, "--", program), 125)
    assert text == "the types of 'getline' are not known: libwork.so has no debug information"
    with attached.running([program]) as process:
        words = ["-p", str(process.pid), "--replace", spec]
        assert refused(soscope("patch", "--check-types", *words), 2) == text
        assert soscope("patch", *words).returncode == 0
        assert attached.finish(process) == (0, "4 1\n", "")
