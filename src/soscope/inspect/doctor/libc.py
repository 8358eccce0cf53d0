# SPDX-License-Identifier: Apache-2.0
"""Recognise a C library and its version, by texts in the image."""

from __future__ import annotations

import re

from soscope.binfmt.elf.image import ElfImage
from soscope.inspect.doctor.constants import pieces_of

GLIBC, MUSL = "glibc", "musl"

_GLIBC = re.compile(rb"GNU C Library \((?P<build>[^)]*)\)[^\0]{0,40}version (?P<version>[0-9.]+)")
_MUSL = re.compile(rb"musl libc \([^)]*\)\nVersion %s\n")
_MUSL_VERSION = re.compile(rb"\0(\d+\.\d+\.\d+(?:-git[^\0]*)?)\0")
_UCLIBC = re.compile(rb"\0uClibc(?:-ng)?[^\0]*\0")

OLDEST_GLIBC = (2, 31)


class Libc:
    """A C library; `version` is "" if not known, `build` the distributor's own text."""

    __slots__ = ("build", "name", "version")

    def __init__(self, name: str, version: str, build: str = "") -> None:
        self.name = name
        self.version = version
        self.build = build

    @property
    def text(self) -> str:
        """Name, version and build as a short text."""
        said = f"{self.name} {self.version}".rstrip()
        return f"{said} ({self.build})" if self.build else said

    @property
    def is_supported(self) -> bool:
        """Return whether soscope supports this library."""
        if self.name == MUSL:
            return True
        numbers = tuple(int(part) for part in self.version.split(".") if part.isdigit())
        return self.name == GLIBC and (not numbers or numbers >= OLDEST_GLIBC)


def libc_of(image: ElfImage, name: str) -> Libc | None:
    """Return the C library that `image` is or contains, None if there is none.

    `name` is its file name. A static program is searched as a whole.
    """
    is_libc = name.startswith(("libc.so", "libc-", "libc.musl", "ld-musl"))
    is_static = not name.startswith("lib") and image.interpreter is None
    if not (is_libc or is_static):
        return None
    for data in pieces_of(image):
        match = _GLIBC.search(data)
        if match:
            build = match["build"].decode("utf-8", "replace")
            version = match["version"].rstrip(b".").decode()
            return Libc(GLIBC, version, "" if build == "GNU libc" else build)
        if _MUSL.search(data):
            said = _MUSL_VERSION.search(data)
            return Libc(MUSL, said[1].decode() if said else "")
        if _UCLIBC.search(data):
            return Libc("uClibc", "")
    return None
