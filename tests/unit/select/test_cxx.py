# SPDX-License-Identifier: Apache-2.0
"""Patterns for names of C++ as they are shown: c++filt says what each linked name is called."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from soscope.errors import UsageError
from soscope.select.filter import Pattern, compile_symbol
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
        for other in got - linked:
            assert _without_arguments(names[other]) == shown, other


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
    return shown.replace("[abi:cxx11]", "")


def test_operators_are_those_that_are_called_so(names: dict[str, str]) -> None:
    """Of classes that have no short form in linked names."""
    by_name: dict[str, set[str]] = {}
    for name, shown in names.items():
        scope, operator, sign = shown.rpartition("::operator")
        is_simple = scope.count("::") < 4  # else it needs more states than a pattern may have
        if is_simple and re.fullmatch(r"[\w:]+", scope) and re.fullmatch(r"[^\w ]+", sign):
            by_name.setdefault(scope + operator + sign, set()).add(name)
    assert len(by_name) > 10
    for shown, linked in by_name.items():
        for text in (shown.replace("*", r"\*"), re.sub(r"[-+,*]", r"\\\g<0>", shown)):
            got = _chosen(text, names)
            assert linked <= got, (text, linked - got)
            for other in got - linked:
                plain = _without_arguments(names[other].replace("operator<", "operator"))
                assert plain.strip() == shown.replace("operator<", "operator"), (text, other)


def test_a_pattern_is_named_as_it_was_written() -> None:
    text = "*a?b?c::" * 9 + "d"
    with pytest.raises(UsageError, match=re.escape(f"'{text}': too complex")):
        compile_symbol(Pattern(text))


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
        ("Box<int>::Box", ["_ZN3BoxIiEC1Ev", "_ZN3BoxIdEC1Ev"], ["_ZN3BoxD1Ev"]),
        ("Box<a::b<c>, d>::get", ["_ZN3BoxIiE3getEv"], ["_ZN1a1bE3getEv"]),
        ("std::vector<int, std::allocator<int> >::at", ["_ZNSt6vectorIdE2atEm"], ["_ZNSt2atE"]),
        ("A::[!]x]*", ["_ZN1A3oneEv"], ["_ZN1A3xneEv", "_ZN1A3]neEv"]),
        ("A::operator=", ["_ZN1AaSERKS_"], ["_ZN1AeqERKS_", "_ZN1A9operator_Ev"]),
        ("A<b>::operator<", ["_ZNK1AIcEltERKS_"], ["_ZN1AlsEi", "_ZN1AIcEleEi"]),
        ("A::operator*", ["_ZN1AmlEi", "_ZN1AdeEv", "_ZN1AaSEi"], ["_ZN1A1fEv", "_ZN1AC1Ev"]),
        (r"A::operator\*", ["_ZN1AmlEi", "_ZN1AdeEv"], ["_ZN1AaSEi"]),
        ("A::operator[]", ["_ZN1AixEi"], ["_ZN1AclEi"]),
        ("A::operator()", ["_ZN1AclEi"], ["_ZN1AixEi"]),
        ("A::operator new", ["_ZN1AnwEm"], ["_ZN1AnaEm"]),
        ("A::operator new[]", ["_ZN1AnaEm"], ["_ZN1AnwEm"]),
        ("A::operators", ["_ZN1A9operatorsEv"], ["_ZN1AaSEv"]),
        ("::outer::twice", ["_ZN5outer5twiceEi"], ["_ZN1a5outer5twiceEi"]),
    ):
        automaton = compile_symbol(Pattern(text))
        for name in linked:
            assert automaton.matches(name.encode()), (text, name)
        for name in [*others, "open", "_Z"]:
            assert not automaton.matches(name.encode()), (text, name)
