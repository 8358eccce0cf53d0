# SPDX-License-Identifier: Apache-2.0
"""Find the interpreter of a program and its version by the images of the program."""

from __future__ import annotations

import re

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError
from soscope.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Strings in an image: in its constants, and in the first bytes of its data.

_PIECE = 1 << 22
_OVERLAP = 256


def pieces_of(image: ElfImage) -> Iterator[bytes]:
    """Yield the loaded parts, as they are in the file.

    Large parts come in pieces that overlap, so that no short string is cut.
    """
    for segment in image.segments:
        if segment.type != c.PT_LOAD:
            continue
        for at in range(0, segment.filesz, _PIECE):
            size = min(_PIECE + _OVERLAP, segment.filesz - at)
            try:
                yield image.source.read(segment.offset + at, size)
            except (OSError, FormatError):
                break  # the file is shorter than its program headers tell


def said(image: ElfImage, pattern: re.Pattern[bytes]) -> str:
    """Return the text that the pattern's first group matches in an image.

    Return "" if nothing matches, or if there are different matches, because a choice would be a
    guess.
    """
    names: set[bytes] = set()
    for data in pieces_of(image):
        names.update(pattern.findall(data))
        if len(names) > 1:
            return ""
    return names.pop().decode("ascii", "replace") if names else ""


# Find an interpreter's version in its image, without running it.
#
# Each function takes the image with the interpreter and returns "" if it does not contain the
# version. The functions search for the interpreter's texts about itself. A plain number, which
# other libraries might have, too, must be the only one of its form.

_JVM = re.compile(rb" VM \(([^()\0]{1,60})\) for [a-z]")
_JAVA = re.compile(rb"\0(\d+(?:\.\d+)*[+_]\d[\w.+~-]{0,50})\0")  # a launcher's FULL_VERSION
_NODE = re.compile(rb"(?<![\w.])v(\d+\.\d+\.\d+(?:-rc\.\d+|-[a-z]+\w{0,40})?)\0")
_PHP = re.compile(rb"X-Powered-By: PHP/([\w.+~-]{1,40})\0")
_LUA = re.compile(rb"\$Lua(?:Version)?: Lua (\d+\.\d+(?:\.\d+)?)")
_LUAJIT = re.compile(rb"\0LuaJIT (\d[\w.-]{0,40})\0")
_PYPY = re.compile(rb"PyPy (\d[\w.-]{0,40}) with ")
_ERLANG = re.compile(rb"Erlang/OTP (\d[\w.-]{0,20})(?:%s)? \[erts-")
_ANY_PYTHON = rb"[23]\.\d+"


def python(image: ElfImage) -> str:
    """Read Py_Version (3.11 and newer: two hex digits for each number), else the version string."""
    data = _bytes_of(image, "Py_Version", 8)
    if data:
        word = int.from_bytes(data, "little")
        return f"{word >> 24 & 255}.{word >> 16 & 255}.{word >> 8 & 255}"
    minor = _in_soname(image, r"libpython(\d+\.\d+)")
    exact = _number(image, minor, _ANY_PYTHON, rb"(?:(?:a|b|rc)\d+)?\+?")
    return exact or minor


def ruby(image: ElfImage) -> str:
    """Read the constant that is exported for extensions."""
    return _bytes_of(image, "ruby_version", 12).split(b"\0", 1)[0].decode("ascii", "replace")


def perl(image: ElfImage) -> str:
    """Read the three exported numbers."""
    numbers = [_bytes_of(image, f"PL_{name}", 1) for name in ("revision", "version", "subversion")]
    return ".".join(str(number[0]) for number in numbers) if all(numbers) else ""


def java(image: ElfImage) -> str:
    """Read the build version of the virtual machine, or of a launcher."""
    return said(image, _JVM) or said(image, _JAVA)


def tcl(image: ElfImage) -> str:
    """Read TCL_PATCH_LEVEL; the library's name has the first two numbers."""
    minor = _in_soname(image, r"libtcl(\d+\.\d+)")
    return (_number(image, minor, rb"[89]\.\d+", b"") if minor else "") or minor


def guile(image: ElfImage) -> str:
    """Read the version whose first two numbers are in the library's name."""
    minor = _in_soname(image, r"libguile-(\d+\.\d+)")
    return (_number(image, minor, rb"\d\.\d+", b"") if minor else "") or minor


def node(image: ElfImage) -> str:
    """Read NODE_VERSION, which process.version returns."""
    return said(image, _NODE)


def php(image: ElfImage) -> str:
    """Read the version in the text that it sends to clients of a web server."""
    return said(image, _PHP)


def lua(image: ElfImage) -> str:
    """Read the identification text that is in every Lua."""
    return said(image, _LUA)


def luajit(image: ElfImage) -> str:
    """Read LUAJIT_VERSION."""
    return said(image, _LUAJIT)


def pypy(image: ElfImage) -> str:
    """Read PyPy's own version, not the version of the language."""
    return said(image, _PYPY)


def erlang(image: ElfImage) -> str:
    """Read the release in the line that Erlang prints at its start."""
    return said(image, _ERLANG)


def _number(image: ElfImage, minor: str, pattern: bytes, rest: bytes) -> str:
    """Return the only string that ends with three numbers, beginning with `minor` or `pattern`."""
    head = re.escape(minor.encode()) if minor else pattern
    # the linker may have made it the end of a longer string, such as a path
    return said(image, re.compile(rb"(?<![\d.])(" + head + rb"\.\d+" + rest + rb")(?=\0)"))


def _in_soname(image: ElfImage, pattern: str) -> str:
    try:
        match = re.match(pattern, image.soname or "")
    except FormatError:
        return ""
    return "" if match is None else match[1]


def _bytes_of(image: ElfImage, name: str, size: int) -> bytes:
    """Return the first bytes of an exported constant, b"" if there is none."""
    try:
        symbol = image.symbol(name)
        return b"" if symbol is None else image.read(symbol.value, size, name)
    except FormatError:
        return b""


# Recognise the language that a program interprets, by symbols of its images, not by names.
#
# A program that only embeds an interpreter (an editor with Python in it) is recognised, too: the
# interpreter's own program defines or calls the interpreter's main function, the other does not.


class Language(Record):
    """An interpreter or virtual machine in a program.

    `image` is the name of the image that contains it. `is_main` is true if the program is the
    interpreter itself, false if the program embeds it. `version` is "" if the image does not
    contain it.
    """

    name: str
    version: str
    image: str
    is_main: bool


class _Kind:
    """A language: `marks` are symbols that only its interpreter has.

    `mains` are functions that the interpreter's own program calls. `version` reads the version.
    Other languages of the same `family` are not searched for in the same image.
    """

    __slots__ = ("family", "mains", "marks", "name", "version")

    def __init__(
        self,
        name: str,
        marks: tuple[str, ...],
        mains: tuple[str, ...],
        version: Callable[[ElfImage], str] | None = None,
        *,
        family: str = "",
    ) -> None:
        self.name = name
        self.marks = marks
        self.mains = mains
        self.version = version
        self.family = family or name


_KINDS = [
    _Kind("PyPy", ("pypy_execute_source",), ("pypy_main_startup",), pypy, family="Python"),
    _Kind(
        "Python",
        ("Py_InitializeFromConfig", "Py_Initialize"),
        ("Py_BytesMain", "Py_Main", "_Py_UnixMain"),
        python,
    ),
    _Kind("Ruby", ("ruby_init",), ("ruby_run_node",), ruby),
    _Kind("Perl", ("perl_construct",), ("perl_run",), perl),
    _Kind("Node.js", ("_ZN4node5StartEiPPc",), ("_ZN4node5StartEiPPc",), node),
    _Kind("Java", ("JNI_CreateJavaVM", "JLI_Launch"), ("JLI_Launch",), java),
    _Kind("PHP", ("php_module_startup",), ("php_module_startup",), php),
    _Kind("LuaJIT", ("luaJIT_setmode",), ("luaL_newstate",), luajit, family="Lua"),
    _Kind("Lua", ("lua_newstate",), ("luaL_newstate",), lua),
    _Kind("Tcl", ("Tcl_CreateInterp",), ("Tcl_MainEx", "Tcl_Main"), tcl),
    _Kind("R", ("Rf_initialize_R",), ("Rf_initialize_R",)),
    _Kind("Guile", ("scm_boot_guile",), ("scm_boot_guile", "scm_shell"), guile),
    _Kind("OCaml", ("caml_startup",), ("caml_startup", "caml_main")),
    _Kind("Erlang", ("erl_start",), ("erl_start",), erlang),
    _Kind(".NET", ("coreclr_initialize",), ("hostfxr_main", "coreclr_initialize")),
    _Kind("Mono", ("mono_jit_init",), ("mono_main",)),
    _Kind("GHC Haskell", ("hs_init",), ("hs_main",)),
]


def languages(images: Iterable[tuple[str, ElfImage]]) -> list[Language]:
    """Return the interpreters among `images`, pairs (name, image) with the program first."""
    listed = list(images)
    languages: list[Language] = []
    taken: set[tuple[str, str]] = set()  # (image, family)
    for kind in _KINDS:
        holders = [
            (name, image)
            for name, image in listed
            if (name, kind.family) not in taken
            and any(_defines(image, mark) for mark in kind.marks)
        ]
        if not holders:
            continue
        taken.update((name, kind.family) for name, _ in holders)
        program = listed[0][1]
        is_main = any(image is program for _, image in holders) or any(
            _mentions(program, main) for main in kind.mains
        )
        # a launcher may not contain the machine itself: take the image that has the version
        name, version = holders[0][0], ""
        asked = [*holders, listed[0]] if is_main else holders
        for place, (candidate, image) in enumerate(asked):
            version = kind.version(image) if kind.version is not None else ""
            if version:
                name = candidate if place < len(holders) else name
                break
        languages.append(Language(kind.name, version, name, is_main=is_main))
    order = {name: place for place, (name, _) in reversed(list(enumerate(listed)))}
    return sorted(languages, key=lambda language: order[language.image])


def _defines(image: ElfImage, name: str) -> bool:
    try:
        return image.symbol(name) is not None
    except FormatError:
        return False


def _mentions(image: ElfImage, name: str) -> bool:
    """Return whether an image defines or imports a symbol."""
    try:
        return any(symbol.name == name for symbol in image.symbols)
    except FormatError:
        return False
