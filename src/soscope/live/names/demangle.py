# SPDX-License-Identifier: Apache-2.0
"""Demangle C++ names with the demangler of the machine's own C++ library."""

from __future__ import annotations

import os
import re
import resource
import select
import struct

from soscope.live.images.image import LoadedImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


# Demangle C++ names that may have very long texts, in a separate process.
#
# A mangled name refers back to its parts (Itanium C++ ABI, "Compression"), and a part may consist
# of references to earlier ones: 230 characters can stand for gigabytes. No demangler has a limit.
# So a separate process with limits for memory and processor time demangles such names. It is not a
# child of soscope, because soscope waits for all of its children. It ends when soscope does.

LONGEST_TEXT = 8192  # bytes of the longest demangled name
_MOST = 4096  # parts of a name that is safe to demangle
_REFERENCE = re.compile(rb"[ST][0-9A-Z]*_")
_LONGEST = 1 << 15  # bytes of a name that fits into a pipe
_SIZE = struct.Struct("<I")
_NONE = 0xFFFF_FFFF
_PATIENCE = 0.5  # seconds
_ROOM, _SECONDS = 256 << 20, 2  # limits of the process: bytes, and seconds of processor time
_MOST_LOST = 4  # processes that may fail before no more are started


def may_be_long(mangled: bytes) -> bool:
    """Return whether a name may stand for more than a few thousand parts.

    >>> from soscope.live.names.demangle import may_be_long
    >>> may_be_long(b"_ZN3foo3barEii"), may_be_long(b"_Z1f1AIiiE" + 20 * b"S_IS0_S0_E")
    (False, True)
    """
    parts, end = 0, 0
    for reference in _REFERENCE.finditer(mangled):
        parts += reference.start() - end
        parts *= 2  # at most it refers to everything before it
        end = reference.end()
        if parts > _MOST:
            return True
    return parts + len(mangled) - end > _MOST


class DemangledApart:
    """A process that calls `demangle` for names that may be long."""

    def __init__(self, demangle: Callable[[bytes], bytes | None]) -> None:
        self._demangle = demangle
        self._pipes: tuple[int, int] | None = None  # pipe to the process, pipe from it
        self._owner = 0
        self._lost = 0

    def __call__(self, mangled: bytes) -> bytes | None:
        """Return a demangled name; None if it is not mangled, or takes too much time or memory."""
        if self._owner != os.getpid():  # a forked child starts a process of its own
            self._pipes = None
        if len(mangled) > _LONGEST:
            return None
        if self._pipes is None and self._lost < _MOST_LOST:
            self._begin()
        if self._pipes is None:
            return None
        to, back = self._pipes
        try:
            os.write(to, _SIZE.pack(len(mangled)) + mangled)
            (size,) = _SIZE.unpack(_read(back, _SIZE.size, _PATIENCE))
            return None if size == _NONE else _read(back, size, _PATIENCE)
        except (OSError, TimeoutError):
            self._lose()
            return None

    def close(self) -> None:
        """Close the pipes, so that the process ends."""
        if self._pipes is not None and self._owner == os.getpid():
            self._lose()

    __del__ = close

    def _lose(self) -> None:
        """Abandon the process, which its limits will end soon."""
        assert self._pipes is not None
        for descriptor in self._pipes:
            os.close(descriptor)
        self._pipes = None
        self._lost += 1

    def _begin(self) -> None:
        asked, to = os.pipe2(os.O_CLOEXEC)
        back, answer = os.pipe2(os.O_CLOEXEC)
        try:
            child = os.fork()
        except OSError:
            child = -1
            self._lost = _MOST_LOST
        if not child:
            try:
                if not os.fork():
                    self._serve(asked, answer)
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answer)
        self._owner, self._pipes = os.getpid(), (to, back)
        if child < 0:
            self._lose()
            return
        try:
            os.waitpid(child, 0)
        except ChildProcessError:
            pass  # another part of soscope has waited for it

    def _serve(self, asked: int, answer: int) -> None:
        os.setsid()  # signals of a terminal are for soscope
        os.dup2(asked, 0)
        os.dup2(answer, 1)
        os.closerange(2, 1 << 20)
        with open("/proc/self/statm", "rb") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + _ROOM, used + _ROOM))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        while True:
            # each name has its own limit of time
            spent = int(sum(os.times()[:2]))
            resource.setrlimit(resource.RLIMIT_CPU, (spent + _SECONDS, resource.RLIM_INFINITY))
            (size,) = _SIZE.unpack(_read(0, _SIZE.size, None))
            text = self._demangle(_read(0, size, None))
            if text is None:
                os.write(1, _SIZE.pack(_NONE))
            else:
                os.write(1, _SIZE.pack(len(text)) + text)


def _read(descriptor: int, size: int, patience: float | None) -> bytes:
    """Read `size` bytes. Raises TimeoutError, EOFError, OSError."""
    data = b""
    while len(data) < size:
        if not select.select([descriptor], [], [], patience)[0]:
            raise TimeoutError
        piece = os.read(descriptor, size - len(data))
        if not piece:
            raise BrokenPipeError
        data += piece
    return data


# Demangle C++ names with the demangler of this machine's own C++ library.

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


# Find the mangled names in a process that a demangled C++ name stands for.


def mangled_names(query: str, where: list[LoadedImage], why: list[str]) -> list[str]:
    """Return the mangled names in these images that `query` stands for, in order.

    These names are added to `why`, or a note that this machine has no demangler.
    """
    part = part_of(query)
    texts: dict[bytes, str] = {}
    demangler: Demangler | None = None
    for image in where:
        for _, symbols in image.locator.parts:
            for _, name in symbols.names(part):
                mangled = name.partition(b"@")[0]
                if mangled in texts or not mangled.startswith(b"_Z"):
                    continue
                if demangler is None:
                    try:
                        demangler = Demangler()
                    except NoDemangler as error:
                        why.append(str(error))
                        return []
                text = demangler(mangled)
                if text is not None and is_meant(query, text):
                    texts[mangled] = text
    why += [f"{text} is {os.fsdecode(mangled)}" for mangled, text in texts.items()]
    return [os.fsdecode(mangled) for mangled in texts]
