# SPDX-License-Identifier: Apache-2.0
"""Recognise the language that a program interprets, by symbols of its images, not by names.

A program that only embeds an interpreter (an editor with Python in it) is recognised, too: the
interpreter's own program defines or calls the interpreter's main function, the other does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from soscope.binfmt.elf.image import ElfImage
from soscope.errors import FormatError
from soscope.inspect.doctor import languageversion as read


class Language:
    """An interpreter or virtual machine in a program.

    `image` is the name of the image that contains it. `is_main` is true if the program is the
    interpreter itself, false if the program embeds it. `version` is "" if the image does not
    contain it.
    """

    __slots__ = ("image", "is_main", "name", "version")

    def __init__(self, name: str, version: str, image: str, *, is_main: bool) -> None:
        self.name = name
        self.version = version
        self.image = image
        self.is_main = is_main


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
    _Kind("PyPy", ("pypy_execute_source",), ("pypy_main_startup",), read.pypy, family="Python"),
    _Kind(
        "Python",
        ("Py_InitializeFromConfig", "Py_Initialize"),
        ("Py_BytesMain", "Py_Main", "_Py_UnixMain"),
        read.python,
    ),
    _Kind("Ruby", ("ruby_init",), ("ruby_run_node",), read.ruby),
    _Kind("Perl", ("perl_construct",), ("perl_run",), read.perl),
    _Kind("Node.js", ("_ZN4node5StartEiPPc",), ("_ZN4node5StartEiPPc",), read.node),
    _Kind("Java", ("JNI_CreateJavaVM", "JLI_Launch"), ("JLI_Launch",), read.java),
    _Kind("PHP", ("php_module_startup",), ("php_module_startup",), read.php),
    _Kind("LuaJIT", ("luaJIT_setmode",), ("luaL_newstate",), read.luajit, family="Lua"),
    _Kind("Lua", ("lua_newstate",), ("luaL_newstate",), read.lua),
    _Kind("Tcl", ("Tcl_CreateInterp",), ("Tcl_MainEx", "Tcl_Main"), read.tcl),
    _Kind("R", ("Rf_initialize_R",), ("Rf_initialize_R",)),
    _Kind("Guile", ("scm_boot_guile",), ("scm_boot_guile", "scm_shell"), read.guile),
    _Kind("OCaml", ("caml_startup",), ("caml_startup", "caml_main")),
    _Kind("Erlang", ("erl_start",), ("erl_start",), read.erlang),
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
