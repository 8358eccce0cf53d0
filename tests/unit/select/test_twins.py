# SPDX-License-Identifier: Apache-2.0
"""Names of glibc's functions that mean one: what the C libraries of this machine export."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from soscope.select.automaton import compile_glob
from soscope.select.filter import chooses, compile_selection
from soscope.select.listed import compile_names, either
from soscope.select.twins import compile_names_of, twins
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
