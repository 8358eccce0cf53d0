# SPDX-License-Identifier: Apache-2.0
"""C++ names: what people write finds what compilers write."""

from __future__ import annotations

import ctypes

import pytest

from soscope.live.names.demangle import Demangler, NoDemangler, is_meant, part_of
from tests.support.files.elffiles import built, nm, run
from tests.support.machines.tools import need

TEXT = """
#include <string>
#include <vector>
namespace ns {
struct Thing { Thing(); explicit Thing(int); ~Thing(); int get() const; operator bool();
	virtual void call(); static int shared; };
Thing::Thing() {} Thing::Thing(int) {} Thing::~Thing() {}
int Thing::get() const { return 1; } Thing::operator bool() { return true; }
void Thing::call() {} int Thing::shared;
Thing operator+(Thing const &a, Thing const &) { return a; }
bool operator<(Thing const &, Thing const &) { return true; }
int f(int) { return 1; } int f(char const *) { return 2; } int f() { return 3; }
template <typename T> T g(T a) { return a; } template int g<int>(int);
template std::vector<int> g<std::vector<int>>(std::vector<int>);
std::string text(std::string const &a, std::vector<std::string> *) { return a; }
int variable;
}
namespace { int local(int a) { static int counter; return counter += a; } }
int (*way)(int) = local;
template <typename T> struct Box { T value; Box(T a) : value(a) {} T take(); };
template <typename T> T Box<T>::take() { return value; }
template struct Box<std::string>;
auto lambda = [](int a) { return a + 1; };
int (*other)(int) = lambda;
int main() { return ns::f(1); }
"""


@pytest.fixture(scope="module")
def mangled(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the mangled names in a program."""
    need("g++")
    path = built(tmp_path_factory.mktemp("cxx"), "names", TEXT, "-O0", compiler="g++")
    names = [row[3] for row in nm(path) if row[3].startswith("_Z")]
    assert len(names) > 30
    return names


def test_the_text_is_that_of_cxxfilt(mangled: list[str]) -> None:
    need("c++filt")
    wanted = run("c++filt", *mangled).splitlines()
    demangler = Demangler()
    assert [demangler(name.encode()) for name in mangled] == wanted
    for no_name in (b"main", b"_Z", b"_ZN", b""):
        assert demangler(no_name) is None


def test_what_is_printed_is_what_may_be_asked(mangled: list[str]) -> None:
    demangler = Demangler()
    for name in mangled:
        text = demangler(name.encode())
        assert text is not None
        assert part_of(text) in name.encode(), text
        assert is_meant(text, text)
        assert is_meant(text.replace(", ", ",").replace(" >", ">"), text)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("ns::f", 3),
        ("ns::f(int)", 1),
        ("ns::f()", 1),
        ("ns::f( char const * )", 1),
        ("ns::f(long)", 0),
        ("f", 0),
        ("ns::g", 0),
        ("ns::g<int>", 1),
        ("ns::g<int>(int)", 1),
        ("int ns::g<int>(int)", 1),
        ("ns::Thing::get", 1),
        ("ns::Thing::get() const", 1),
        ("ns::Thing::operator bool", 1),
        ("ns::Thing::operator bool()", 1),
        ("ns::operator+", 1),
        ("ns::operator<", 1),
        ("ns::operator+(ns::Thing const&, ns::Thing const&)", 1),
        ("ns::variable", 1),
        ("ns::Thing::shared", 1),
        ("vtable for ns::Thing", 1),
        ("(anonymous namespace)::local", 1),
        ("(anonymous namespace)::local(int)", 1),
        ("ns::text", 1),
    ],
)
def test_what_people_write(query: str, count: int, mangled: list[str]) -> None:
    demangler = Demangler()
    found = []
    for name in mangled:
        text = demangler(name.encode())
        if text is not None and part_of(query) in name.encode() and is_meant(query, text):
            found.append(text)
    assert len(found) == count, found


def test_all_constructors_are_meant(mangled: list[str]) -> None:
    demangler = Demangler()
    texts = [demangler(name.encode()) or "" for name in mangled]
    found = {text for text in texts if is_meant("ns::Thing::Thing", text)}
    copied = "ns::Thing::Thing(ns::Thing const&)"
    assert found == {"ns::Thing::Thing()", "ns::Thing::Thing(int)", copied}


def test_without_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(NoDemangler, match=r"libstdc\+\+\.so\.6"):
        Demangler()
