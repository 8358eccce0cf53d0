# SPDX-License-Identifier: Apache-2.0
"""Extensions of a program, whose undefined symbols are in the program that loads them.

Each kind is recognised by the function that its program looks up in it. The program's own
functions have a common prefix.
"""

from __future__ import annotations

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.reader import ElfReader

_MAX_STRINGS = 1 << 28
# (name in its string table, prefixes of the program's functions, the program)
_HOSTS = (
    (b"\0PyInit_", ("Py", "_Py"), "a Python extension"),
    (b"\0boot_", ("Perl", "PL_", "perl"), "a Perl extension"),
    (b"\0Init_", ("rb_", "ruby_", "onig"), "a Ruby extension"),
    (b"\0luaopen_", ("lua",), "a Lua module"),
    (b"\0Pg_magic_func\0", ("",), "a PostgreSQL module"),
    (b"\0get_module\0", ("zend", "php", "_e", "_z", "std_", "core_", "sapi"), "a PHP extension"),
    (b"\0napi_register_module_v1\0", ("napi_", "node_", "uv_"), "a Node.js addon"),
    (b"\0nif_init\0", ("enif_",), "an Erlang NIF"),
    (b"\0R_init_", ("R", "Rf_", "SET", "Rprintf"), "an R package"),
    (b"\0plugin_is_GPL_compatible\0", ("",), "a plugin of GCC"),
)


def extension_of(image: ElfReader) -> tuple[str, tuple[str, ...]] | None:
    """Return (program of an extension, prefixes of that program's names), None for other images.

    Raises FormatError, OSError.
    """
    at, size = image.locate_pointer(c.DT_STRTAB), image.dynamic.get(c.DT_STRSZ)
    if at is None or not size:
        return None
    strings = b"\0" + image.source.read(at, min(size, _MAX_STRINGS))
    for mark, names, what in _HOSTS:
        if mark in strings:
            return what, names
    return None
