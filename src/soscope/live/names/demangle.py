# SPDX-License-Identifier: Apache-2.0
"""Demangle C++ names with the demangler of this machine's own C++ library."""

from __future__ import annotations

import re

from soscope.live.names.demangledapart import LONGEST_TEXT, DemangledApart, may_be_long

LONGEST = 4096  # characters of a mangled name that is demangled in this process

_LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1")
_PREFIX = b"_Z"
_ABI_TAG = re.compile(r"\[abi:\w+\]")
# Long names for which there are usual short ones.
_TRAITS = "char, std::char_traits<char>"
_USUAL = (
    (f"std::__cxx11::basic_string<{_TRAITS}, std::allocator<char> >", "std::string"),
    (f"std::basic_string<{_TRAITS}, std::allocator<char> >", "std::string"),
    (f"std::basic_ostream<{_TRAITS} >", "std::ostream"),
    (f"std::basic_istream<{_TRAITS} >", "std::istream"),
)
# These names and the members of `std` have short forms in mangled names (Itanium C++ ABI,
# "Compression"). So a mangled name need not contain them.
_SHORT = frozenset(
    """std allocator basic_string string istream ostream iostream basic_istream basic_ostream
    basic_iostream operator""".split()
)


class NoDemangler(Exception):  # noqa: N818  it is an answer, not a mistake
    """This machine has no C++ library with a demangler."""


class Demangler:
    """`__cxa_demangle`; it returns no text that is longer than `LONGEST_TEXT` bytes.

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
                continue  # try the next library
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
        """Return the demangled name; None if it is not mangled or its text is too long."""
        if not mangled.startswith(_PREFIX):
            return None
        if mangled not in self._known:
            is_long = len(mangled) > LONGEST or may_be_long(mangled)
            text = self._apart(mangled) if is_long else self._demangle(mangled)
            self._known[mangled] = None if text is None else text.decode("utf-8", "replace")
        return self._known[mangled]

    def close(self) -> None:
        """End the process that demangles long names."""
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
    """Return bytes that the mangled name of `query` must contain: its last plain identifier.

    A mangled name spells each identifier once. If a short form may replace the identifier, only
    the prefix of all mangled names is certain.
    """
    head = query.replace("(anonymous namespace)", "").partition("(")[0]
    names = re.findall(r"[A-Za-z_]\w*", re.sub(r"<.*", "", head) or head)
    for name in reversed(names):
        if name not in _SHORT and "operator" not in head:
            return f"{len(name)}{name}".encode()
    return _PREFIX


def is_meant(query: str, demangled: str) -> bool:
    """Return whether `query` names this function, with its parameters or without any."""
    wanted, given = _plain(query), _plain(demangled)
    if wanted == given:
        return True
    head = _without_parameters(given)
    if head is None:
        return False
    # demangled names of templates begin with their return type
    start = _return_type(head)
    return wanted in {head, head[start:], given[start:]}


def plain_name(demangled: str) -> str:
    """Return the name of a demangled function, without its result and parameters."""
    head = _without_parameters(demangled)
    if head is None:
        return demangled
    # the name of an operator may contain any characters
    before = re.split(r"\boperator\b", head, maxsplit=1)[0]
    return _ABI_TAG.sub("", head[_return_type(before) :])


def usual_name(demangled: str) -> str:
    """Return a name with the usual short names of std's strings and streams."""
    for long, short in _USUAL:
        demangled = demangled.replace(long, short)
    return demangled


def _plain(text: str) -> str:
    """Remove blanks that have no meaning, and ABI tags."""
    text = _ABI_TAG.sub("", text.strip())
    text = re.sub(r"\s+", " ", text)
    return re.sub(r"(?<!operator) ?([<>,()*&]) ?", r"\1", text)


def _without_parameters(text: str) -> str | None:
    """Return the text before the parameter list, None if there is none."""
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
    """Return the index at which the name begins, behind a return type."""
    if "operator" in head:
        return 0
    depth, start = 0, 0
    for at, letter in enumerate(head):
        depth += letter in "<("
        depth -= letter in ">)"
        if letter == " " and not depth:
            start = at + 1
    return start
