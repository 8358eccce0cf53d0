# SPDX-License-Identifier: Apache-2.0
"""Names of C++ functions are shown as people write them."""

from __future__ import annotations

import pytest

from soscope.live.names.demangle import Demangler, NoDemangler
from soscope.report.trace.display import Display, FunctionNames


@pytest.fixture(autouse=True)
def _demangler() -> None:
    try:
        Demangler()
    except NoDemangler as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize(
    ("symbol", "short", "full"),
    [
        ("printf", "printf", "printf"),
        ("_Zero", "_Zero", "_Zero"),
        ("_Znam", "operator new[]", "operator new[](unsigned long)"),
        ("_ZdlPv", "operator delete", "operator delete(void*)"),
        ("_ZN2ns3Foo3barEiPKc", "ns::Foo::bar", "ns::Foo::bar(int, char const*)"),
        ("_ZNK2ns3Foo3barEv", "ns::Foo::bar", "ns::Foo::bar() const"),
        ("_ZN2ns3FooC1Ev", "ns::Foo::Foo", "ns::Foo::Foo()"),
        ("_ZNSolsEd", "std::ostream::operator<<", "std::ostream::operator<<(double)"),
        (
            "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKc",
            "std::string::append",
            "std::string::append(char const*)",
        ),
        (
            "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc",
            "std::operator<< <std::char_traits<char> >",
            "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
        ),
        ("_Z3maxIiET_S0_S0_", "max<int>", "int max<int>(int, int)"),
        ("_ZN3FoocvbEv", "Foo::operator bool", "Foo::operator bool()"),
    ],
)
def test_names(symbol: str, short: str, full: str) -> None:
    names = FunctionNames(Display())
    assert names.short(symbol) == short
    assert names.shown(symbol) == full


def test_they_stay_as_they_are_linked_where_that_is_wanted() -> None:
    names = FunctionNames(Display(demangles=False))
    assert names.short("_Znam") == names.shown("_Znam") == "_Znam"
    assert names.full("_Znam") == "operator new[](unsigned long)"


def test_without_a_demangler_it_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soscope.live.names.demangle._LIBRARIES", ("libnone.so",))
    display = Display()
    names = FunctionNames(display)
    assert names.short("_Znam") == names.shown("_Znam") == "_Znam"
    assert names.full("_ZdlPv") is None
    assert display.remarks == [
        "names of C++ stay mangled: C++ names need libnone.so on this machine"
    ]
