# SPDX-License-Identifier: Apache-2.0
"""Which language a program interprets: by what its images define, not by their names.

A program that only embeds an interpreter (an editor with Python in it) is told apart by
whether the program itself defines or calls the function that is the interpreter's main.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError


class Language:
    """An interpreter or virtual machine in a program.

    `image` is the name of the image that holds it, `is_main` says whether the program is it
    (else it embeds it). `version` is "" where the image does not say.
    """

    __slots__ = ("image", "is_main", "name", "version")

    def __init__(self, name: str, version: str, image: str, *, is_main: bool) -> None:
        self.name = name
        self.version = version
        self.image = image
        self.is_main = is_main


# (what it is, a symbol that only it defines, its main functions, how to read the version)
_Version = Callable[[ElfImage], str]

_KINDS: list[tuple[str, str, tuple[str, ...], str]] = [
    ("Python", "Py_InitializeFromConfig", ("Py_BytesMain", "Py_Main"), "python"),
    ("Python", "Py_Initialize", ("Py_BytesMain", "Py_Main", "_Py_UnixMain"), "python"),
    ("PyPy", "pypy_execute_source", ("pypy_main_startup",), ""),
    ("Ruby", "ruby_init", ("ruby_run_node",), "ruby"),
    ("Perl", "perl_construct", ("perl_run",), "perl"),
    ("Node.js", "_ZN4node5StartEiPPc", ("_ZN4node5StartEiPPc",), ""),
    ("Java", "JLI_Launch", ("JLI_Launch",), ""),
    ("Java", "JNI_CreateJavaVM", ("JLI_Launch",), ""),
    ("PHP", "php_module_startup", ("php_module_startup",), ""),
    ("Lua", "lua_newstate", ("luaL_newstate",), ""),
    ("Tcl", "Tcl_CreateInterp", ("Tcl_MainEx", "Tcl_Main"), ""),
    ("R", "Rf_initialize_R", ("Rf_initialize_R",), ""),
    ("Guile", "scm_boot_guile", ("scm_boot_guile", "scm_shell"), ""),
    ("OCaml", "caml_startup", ("caml_startup", "caml_main"), ""),
    ("Erlang", "erl_start", ("erl_start",), ""),
    (".NET", "coreclr_initialize", ("hostfxr_main", "coreclr_initialize"), ""),
    ("Mono", "mono_jit_init", ("mono_main",), ""),
    ("GHC Haskell", "hs_init", ("hs_main",), ""),
]


def languages(images: Iterable[tuple[str, ElfImage]]) -> list[Language]:
    """Return the interpreters among `images`, pairs of (name, image), the program first."""
    found: list[Language] = []
    listed = list(images)
    if not listed:
        return []
    program = listed[0][1]
    for name, image in listed:
        for language, mark, mains, how in _KINDS:
            if any(one.name == language for one in found):
                continue
            if not _defines(image, mark):
                continue
            is_main = image is program or any(_mentions(program, main) for main in mains)
            version = _VERSIONS[how](image) if how else ""
            found.append(Language(language, version, name, is_main=is_main))
    return found


def _defines(image: ElfImage, name: str) -> bool:
    try:
        return image.symbol(name) is not None
    except FormatError:
        return False


def _mentions(image: ElfImage, name: str) -> bool:
    """Say whether an image defines or imports a symbol."""
    try:
        return any(symbol.name == name for symbol in image.symbols)
    except FormatError:
        return False


def _bytes_of(image: ElfImage, name: str, size: int) -> bytes:
    """Return the first bytes of an exported constant, b"" where there is none."""
    try:
        symbol = image.symbol(name)
        return b"" if symbol is None else image.read(symbol.value, size, name)
    except FormatError:
        return b""


def _python(image: ElfImage) -> str:
    """Py_Version is in 3.11 and newer: a hexadecimal digit pair for each number."""
    data = _bytes_of(image, "Py_Version", 8)
    if data:
        word = int.from_bytes(data, "little")
        return f"{word >> 24 & 255}.{word >> 16 & 255}.{word >> 8 & 255}"
    for name in (image.soname or "",):
        if name.startswith("libpython"):
            return name.removeprefix("libpython").partition(".so")[0]
    return ""


def _ruby(image: ElfImage) -> str:
    text = _bytes_of(image, "ruby_version", 12).split(b"\0", 1)[0]
    return text.decode("ascii", "replace")


def _perl(image: ElfImage) -> str:
    numbers = [_bytes_of(image, f"PL_{name}", 1) for name in ("revision", "version", "subversion")]
    return ".".join(str(one[0]) for one in numbers) if all(numbers) else ""


_VERSIONS: dict[str, _Version] = {"python": _python, "ruby": _ruby, "perl": _perl}
