# SPDX-License-Identifier: Apache-2.0
"""C++ names as people write them, through the demangler of the machine's own C++ library."""

from __future__ import annotations

import re

from soscope.live.names.demangledapart import LONGEST_TEXT, DemangledApart, may_be_long

LONGEST = 4096  # characters of a mangled name that is worth asking for, where there are many

_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1")
_PREFIX = b"_Z"
_ABI_TAG = re.compile(r"\[abi:\w+\]")
# What everybody calls by another name.
_TRAITS = "char, std::char_traits<char>"
_USUAL = (
    (f"std::__cxx11::basic_string<{_TRAITS}, std::allocator<char> >", "std::string"),
    (f"std::basic_string<{_TRAITS}, std::allocator<char> >", "std::string"),
    (f"std::basic_ostream<{_TRAITS} >", "std::ostream"),
    (f"std::basic_istream<{_TRAITS} >", "std::istream"),
)
# These and the members of `std` have short forms in mangled names (Itanium C++ ABI,
# "Compression"): their names need not be in there.
_SHORT = frozenset(
    """std allocator basic_string string istream ostream iostream basic_istream basic_ostream
    basic_iostream operator""".split()
)


class NoDemangler(Exception):  # noqa: N818  it is an answer, not a mistake
    """This machine has no C++ library that could be asked."""


class Demangler:
    """`__cxa_demangle`. It gives no text that is longer than `LONGEST_TEXT` bytes.

    Raises NoDemangler.
    """

    __slots__ = ("_apart", "_call", "_free", "_known")

    def __init__(self) -> None:
        try:
            import ctypes
        except ImportError as error:
            raise NoDemangler("this Python has no ctypes") from error
        for name in _LIBRARIES:
            try:
                self._call = ctypes.CDLL(name)["__cxa_demangle"]
            except (OSError, AttributeError):
                continue  # the next library
            break
        else:
            raise NoDemangler(f"C++ names need {' or '.join(_LIBRARIES)} on this machine")
        self._call.restype = ctypes.c_void_p
        self._call.argtypes = (ctypes.c_char_p, *[ctypes.c_void_p] * 3)
        self._free = ctypes.CDLL(None)["free"]
        self._free.argtypes = (ctypes.c_void_p,)
        self._known: dict[bytes, str | None] = {}
        self._apart = DemangledApart(self._demangle)

    def __call__(self, mangled: bytes) -> str | None:
        """Return what a mangled name means; None if it is no such name, or its text is too long."""
        if not mangled.startswith(_PREFIX):
            return None
        if mangled not in self._known:
            is_long = len(mangled) > LONGEST or may_be_long(mangled)
            text = self._apart(mangled) if is_long else self._demangle(mangled)
            self._known[mangled] = None if text is None else text.decode("utf-8", "replace")
        return self._known[mangled]

    def close(self) -> None:
        """Let go of the process that demangles long names."""
        self._apart.close()

    def _demangle(self, mangled: bytes) -> bytes | None:
        import ctypes

        text = self._call(mangled, None, None, None)
        if not text:
            return None
        data = ctypes.string_at(text)
        self._free(text)
        return data if len(data) <= LONGEST_TEXT else None


def part_of(query: str) -> bytes:
    """Return what the mangled name of `query` must contain: its last plain identifier.

    A mangled name spells each identifier once: nothing to rely on is left where it may be
    spelt by one of the short forms.
    """
    head = query.replace("(anonymous namespace)", "").partition("(")[0]
    names = re.findall(r"[A-Za-z_]\w*", re.sub(r"<.*", "", head) or head)
    for name in reversed(names):
        if name not in _SHORT and "operator" not in head:
            return f"{len(name)}{name}".encode()
    return _PREFIX


def is_meant(query: str, demangled: str) -> bool:
    """Return whether `query` names this: with its parameters, or without any for all."""
    wanted, given = _plain(query), _plain(demangled)
    if wanted == given:
        return True
    head = _without_parameters(given)
    if head is None:
        return False
    # those of templates begin with the type that they return
    start = _return_type(head)
    return wanted in {head, head[start:], given[start:]}


def plain_name(demangled: str) -> str:
    """Return the name of a demangled function alone, without result and parameters."""
    head = _without_parameters(demangled)
    if head is None:
        return demangled
    # what an operator is called may look like anything
    before = re.split(r"\boperator\b", head, maxsplit=1)[0]
    return _ABI_TAG.sub("", head[_return_type(before) :])


def usual_name(demangled: str) -> str:
    """Return a name with the usual ones for the strings and streams of std."""
    for long, short in _USUAL:
        demangled = demangled.replace(long, short)
    return demangled


def _plain(text: str) -> str:
    """Leave out blanks that mean nothing, and tags of the ABI."""
    text = _ABI_TAG.sub("", text.strip())
    text = re.sub(r"\s+", " ", text)
    return re.sub(r"(?<!operator) ?([<>,()*&]) ?", r"\1", text)


def _without_parameters(text: str) -> str | None:
    """Return what stands before the parameter list, None where there is none."""
    text = re.sub(r"\)( ?(const|volatile|&|&&))*$", ")", text)
    if not text.endswith(")"):
        return None
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if not depth:
            return text[:at] if at else None
    return None


def _return_type(head: str) -> int:
    """Return where the name begins behind a return type."""
    if "operator" in head:
        return 0
    depth, start = 0, 0
    for at, letter in enumerate(head):
        depth += letter in "<("
        depth -= letter in ">)"
        if letter == " " and not depth:
            start = at + 1
    return start
