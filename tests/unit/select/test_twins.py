# SPDX-License-Identifier: Apache-2.0
"""Names of glibc's functions that mean one: what the C libraries of this machine export."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from soscope.select.filter import chooses, compile_names_of, compile_selection, twins
from soscope.select.patterns import compile_glob, compile_names, either
from tests.support.machines.tools import need

_LIBRARIES = ("libc.so.6", "libm.so.6", "librt.so.1")
_FOLDERS = (
    *sorted(Path("/usr").glob("*-linux-gnu*/lib")),
    Path("/usr/lib32"),
    Path("/lib/x86_64-linux-gnu"),
)
_FILES = [path for folder in _FOLDERS for name in _LIBRARIES if (path := folder / name).exists()]
# What headers make of a name, as their own comments say (features.h, cdefs.h, fcntl2.h).
_FORMS = {
    re.compile(form)
    for form in (
        r"__(?P<name>\w+)_chk",
        r"__(?P<name>\w+)_2",
        r"__isoc(99|23)_(?P<name>\w+)",
        r"__(?P<name>\w+)_time64",
        r"__(?P<name>\w+)_finite",
        r"__xpg_(?P<name>\w+)",
    )
}


_SYMBOL = re.compile(
    r" *\d+: (?P<value>\w+) +(?P<size>\w+) I?FUNC +\w+ +\w+ +(\[.*?\] +)?"
    r"(?P<section>\w+) (?P<name>\w+)"
)


def _exports(library: str) -> list[tuple[str, dict[str, tuple[str, str]]]]:
    """Return each copy of a library with its functions: value and size, by name."""
    need("readelf")
    exports = []
    for path in _FILES:
        if path.name == library:
            words = ["readelf", "-W", "--dyn-syms", str(path)]
            lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            symbols = filter(None, map(_SYMBOL.match, lines.splitlines()))
            functions = {
                symbol["name"]: (symbol["value"], symbol["size"])
                for symbol in symbols
                if symbol["section"] != "UND" and not symbol["name"].startswith("__nldbl")
            }
            exports.append((str(path), functions))
    assert sum(len(functions) for _, functions in exports) > 10
    return exports


@pytest.mark.parametrize("library", _LIBRARIES)
def test_each_export_that_headers_make_of_a_name_is_its_twin(library: str) -> None:
    missing = {
        (match["name"], export)
        for _, exports in _exports(library)
        for export in exports
        for form in _FORMS
        if (match := form.fullmatch(export)) and match["name"] in exports
        if not match["name"].startswith("_") and export not in twins(match["name"])
    }
    assert missing == set()


def test_aliases_of_one_address_are_twins() -> None:
    missing = {
        (name, other)
        for _, exports in _exports("libc.so.6")
        for name, place in exports.items()
        for other in (f"__{name}", f"{name}64", f"__libc_{name}")
        if exports.get(other) == place and not name.startswith("_") and other not in twins(name)
    }
    # Types of 64 and 128 bits that are one on some machines are two functions.
    assert {pair for pair in missing if not re.search(r"f\d+x?$", pair[1])} == set()


_HEADERS = (
    "aio.h dirent.h errno.h fcntl.h fts.h ftw.h glob.h inttypes.h mqueue.h poll.h pthread.h"
    " sched.h semaphore.h setjmp.h signal.h spawn.h stdio.h stdlib.h string.h sys/file.h"
    " sys/ioctl.h sys/mman.h sys/prctl.h sys/resource.h sys/select.h sys/sem.h sys/sendfile.h"
    " sys/shm.h sys/socket.h sys/stat.h sys/statfs.h sys/statvfs.h sys/time.h sys/timerfd.h"
    " sys/timex.h sys/uio.h sys/wait.h threads.h time.h unistd.h utime.h wchar.h"
).split()
_NAME = re.compile(r"REDIRECT\w* *\(+(?P<name>[a-z]\w+),")


def _imports(folder: Path, source: str, flags: list[str]) -> dict[str, str]:
    """Return what a compiler writes for each variable p_NAME that holds a function's address."""
    includes = "".join(f"#include <{name}>\n" for name in _HEADERS)
    file = folder / "names.c"
    file.write_text(f"#define _GNU_SOURCE\n{includes}{source}")
    words = [need("gcc"), "-w", "-S", *flags, "-o", "-", str(file)]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    pointer = re.compile(r"^p_(?P<name>\w+):\n\t\.(quad|long)\t(?P<symbol>\w+)$", re.MULTILINE)
    return {match["name"]: match["symbol"] for match in pointer.finditer(text)}


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["-D_FILE_OFFSET_BITS=64"],
        ["-m32"],
        ["-m32", "-D_FILE_OFFSET_BITS=64"],
        ["-m32", "-D_FILE_OFFSET_BITS=64", "-D_TIME_BITS=64"],
    ],
    ids=" ".join,
)
def test_what_a_compiler_writes_for_a_name_is_its_twin(tmp_path: Path, flags: list[str]) -> None:
    words = [need("gcc"), *flags, "-E", "-dD", "-M", "-x", "c", "-"]
    text = "#define _GNU_SOURCE\n" + "".join(f"#include <{name}>\n" for name in _HEADERS)
    made = subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout
    headers = [Path(word) for word in made.split() if word.endswith(".h")]
    names = {
        match["name"]
        for header in headers
        for match in _NAME.finditer(header.read_text("utf-8", "replace"))
    }
    pointers = "".join(
        f"extern __typeof__({name}) {name};\nvoid *p_{name} = (void *){name};\n"
        for name in sorted(names - {"name", "nexttoward", "nexttowardf", "nexttowardl"})
        if not name.endswith(("_noreturn", "_nulldst"))
    )
    pairs = _imports(tmp_path, pointers, flags).items()
    assert {(name, symbol) for name, symbol in pairs if symbol not in (name, *twins(name))} == set()
    assert len(pairs) > 100


def test_what_headers_and_archives_call_for_a_name_is_its_twin(tmp_path: Path) -> None:
    for name, call in {
        "getline": "char *line = 0; size_t size = 0; return getline(&line, &size, stdin)",
        "siglongjmp": "static sigjmp_buf at; siglongjmp(at, 1)",
        "pthread_atfork": "return pthread_atfork(0, 0, 0)",
        "at_quick_exit": "return at_quick_exit(main)",
    }.items():
        file = tmp_path / f"{name}.c"
        headers = "stdio.h", "stdlib.h", "setjmp.h", "pthread.h"
        includes = "".join(f"#include <{header}>\n" for header in headers)
        file.write_text(f"#define _GNU_SOURCE\n{includes}int main() {{ {call}; }}\n")
        program = tmp_path / name
        words = [need("gcc"), "-w", "-O2", "-D_FORTIFY_SOURCE=2", str(file), "-o", str(program)]
        subprocess.run(words, check=True)
        words = [need("nm"), "-D", "--undefined-only", "--without-symbol-versions", str(program)]
        lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        imports = set(lines.split())
        assert name not in imports
        assert imports & set(twins(name)), (name, imports)


def test_a_name_takes_its_twins_and_they_take_none_back() -> None:
    assert set(twins("open")) >= {"open64", "__open_2", "__open64_2", "__open"}
    assert "__isoc23_strtol" in twins("strtol")
    assert "__isoc99_sscanf" in twins("sscanf")
    assert "__stat64_time64" in twins("stat")
    assert {"__xpg_strerror_r"} <= set(twins("strerror_r"))
    for name in ("__open_2", "encode", "__isoc99_sscanf", "_exit"):
        assert twins(name) == []
    assert "_exit" not in twins("exit")
    assert "acosf64" not in twins("acosf")


def test_a_filter_takes_them_and_an_exact_one_does_not() -> None:
    def chosen(words: list[str], symbol: str, *, is_exact: bool = False) -> bool:
        selection = compile_selection(words, ["all"], is_exact=is_exact)
        return chooses(selection, symbol, caller="a", callee="b")

    assert chosen(["open"], "__open_2")
    assert chosen(["open*"], "__open_2")
    assert chosen(["open"], "open")
    assert not chosen(["open-__open_2"], "__open_2")
    assert not chosen(["-open"], "__open_2")
    assert not chosen(["__open_2"], "open")
    assert not chosen(["/open/"], "__open_2")
    assert not chosen(["[o]pen"], "__open_2")
    assert not chosen(["open"], "__open_2", is_exact=True)
    assert not chosen(["open"], "openat")


def test_an_image_has_no_twins() -> None:
    selection = compile_selection([], ["stat"])
    assert chooses(selection, "f", caller="stat", callee="")
    assert not chooses(selection, "f", caller="stat64", callee="")


@pytest.mark.parametrize("pattern", ["mem*", "str?cpy", "*64", "s[a-c]*", "x"])
def test_either_accepts_what_one_of_both_does(pattern: str) -> None:
    names = ["memcpy", "strncpy", "__memcpy_chk", "open64", "scanf", "x", "", "y", "__open_2"]
    listed = ["__memcpy_chk", "x", "__open_2"]
    both = either(compile_glob(pattern), compile_names(listed))
    for name in names:
        assert both.matches(name.encode()) == (fnmatchcase(name, pattern) or name in listed), name


def test_a_pattern_that_matches_no_function_of_glibc_stays_what_it_is() -> None:
    for pattern in ("foo", "foo*", "*"):
        assert compile_names_of(pattern).pack() == compile_glob(pattern).pack()
