# SPDX-License-Identifier: Apache-2.0
"""Find an interpreter's version in its image, without running it.

Each function takes the image with the interpreter and returns "" if it does not contain the
version. The functions search for the interpreter's texts about itself. A plain number, which
other libraries might have, too, must be the only one of its form.
"""

from __future__ import annotations

import re

from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError
from soscope.inspect.doctor.constants import said

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
