# SPDX-License-Identifier: Apache-2.0
"""Patterns for names of C++ as they are shown: c++filt says what each linked name is called."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from soscope.select.expression import Pattern
from soscope.select.filter import compile_symbol
from tests.support.files.elffiles import run
from tests.support.machines.tools import need
from tests.support.time.patience import limit

_PLAIN = re.compile(r"[\w:~]+")  # no template, no operator, no function's return type


@pytest.fixture(scope="module")
def names() -> dict[str, str]:
    """Names of functions of the C++ library: linked -> shown, without parameters."""
    library = Path(run("gcc", "-print-file-name=libstdc++.so.6").strip()).resolve()
    rows = [line.split() for line in run("nm", "-D", "--defined-only", library).splitlines()]
    linked = sorted({row[-1].partition("@")[0] for row in rows if row[1] in "TW"})
    linked = [name for name in linked if name.startswith("_Z")]
    done = subprocess.run(
        [need("c++filt"), "-p"],
        input="\n".join(linked),
        capture_output=True,
        text=True,
        timeout=limit(),
        check=True,
    )
    shown = done.stdout.splitlines()
    assert len(shown) == len(linked) > 3000
    return dict(zip(linked, shown, strict=True))


def _chosen(text: str, names: dict[str, str]) -> set[str]:
    automaton = compile_symbol(Pattern(text))
    return {name for name in names if automaton.matches(name.encode())}


def test_a_name_as_it_is_shown_chooses_all_that_are_called_so(names: dict[str, str]) -> None:
    by_name: dict[str, set[str]] = {}
    for name, shown in names.items():
        if _PLAIN.fullmatch(shown) and "::" in shown:
            by_name.setdefault(shown, set()).add(name)
    assert len(by_name) > 300
    for shown, linked in sorted(by_name.items())[::7]:
        got = _chosen(shown, names)
        assert linked <= got, (shown, linked - got)
        # `std::string::f` is what c++filt calls it where the class is named by its short form
        for other in got - linked:
            assert _without_arguments(names[other]).endswith(shown.rpartition("::")[2]), other


@pytest.mark.parametrize(
    "text",
    ["std::thread::*", "std::locale::*", "std::ctype_byname*::*", "std::filesystem::*", "std::_*"],
)
def test_a_scope_chooses_what_is_in_it(text: str, names: dict[str, str]) -> None:
    expression = re.compile(re.escape(text).replace(r"\*", ".*"))
    wanted = {
        linked
        for linked, shown in names.items()
        if not shown.startswith(("non-virtual thunk", "virtual thunk", "vtable", "typeinfo"))
        and expression.fullmatch(shown.removeprefix("bool "))
        and " " not in shown.partition("<")[0]
    }
    got = _chosen(text, names)
    assert wanted
    assert wanted <= got, sorted(names[name] for name in wanted - got)[:5]
    for other in got - wanted:
        assert expression.search(names[other]), (other, names[other])


def _without_arguments(shown: str) -> str:
    while (shorter := re.sub(r"<[^<>]*>", "", shown)) != shown:
        shown = shorter
    return shown.removesuffix("[abi:cxx11]")


def test_names_by_hand() -> None:
    for text, linked, others in (
        ("Locker::is_at_point", ["_ZN6Locker11is_at_pointEi"], ["_ZN6Locker5depthEv"]),
        ("Locker::*", ["_ZN6Locker11is_at_pointEi", "_ZNK6Locker5depthElPKc"], ["_Z6Lockerv"]),
        ("outer::twice*", ["_ZN5outer5twiceIdEET_S1_"], ["_ZN5outer4onceEv", "_ZN5other5twiceEv"]),
        ("outer::twice", ["_ZN5outer5twiceIdEET_S1_", "_ZN5outer5twiceEi"], ["_ZN5outer6twicexEi"]),
        ("Box::Box", ["_ZN3BoxC1Ei", "_ZN3BoxC2Ev", "_ZN3BoxIiEC1Ev"], ["_ZN3BoxD1Ev"]),
        ("Box::~Box", ["_ZN3BoxD0Ev", "_ZN3BoxIiED2Ev"], ["_ZN3BoxC1Ev"]),
        ("a::b::c", ["_ZN1a1b1cEv"], ["_ZN1a1b1c1dEv", "_ZN1a1bEv"]),
        ("*::depth", ["_ZNK6Locker5depthElPKc", "_ZN1a1b5depthEv"], ["_Z5depthv"]),
        ("Lock*::d?pth", ["_ZNK6Locker5depthElPKc"], ["_ZN6Locker6depthsEv"]),
        ("core::fmt::write", ["_ZN4core3fmt5write17h0123456789abcdefE"], ["_ZN4core3fmt5writeb"]),
        ("::outer::twice", ["_ZN5outer5twiceEi"], ["_ZN1a5outer5twiceEi"]),
    ):
        automaton = compile_symbol(Pattern(text))
        for name in linked:
            assert automaton.matches(name.encode()), (text, name)
        for name in [*others, "open", "_Z"]:
            assert not automaton.matches(name.encode()), (text, name)
