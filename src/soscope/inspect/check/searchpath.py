# SPDX-License-Identifier: Apache-2.0
"""Check what the loader searches outside of a file: libraries, and the symbols in them.

Other users must not be able to write to a folder in which the loader searches for a file's
libraries. A symbol that is in no library ends the program, at its start or when it calls the
function.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from soscope.binfmt.elf.filemap import ElfMap
from soscope.errors import FormatError
from soscope.inspect.check.fault import FAULT, Fault
from soscope.linker.providers import Providers
from soscope.linker.search import own_folders


def check_search_path(mapped: ElfMap, path: str) -> Iterator[Fault]:
    """Yield a fault for each folder of DT_RPATH and DT_RUNPATH that other users can write to."""
    try:
        folders = own_folders(mapped.image, path)
    except FormatError:
        return
    for folder in dict.fromkeys(folders):
        why = _who_may_write(folder)
        if why:
            message = f"libraries are looked for in '{folder}': {why}"
            yield Fault("writable-search-path", FAULT, message)


def check_providers(mapped: ElfMap, path: str) -> Iterator[Fault]:
    """Yield a fault for each symbol that the loader would not find."""
    library_path = os.environ.get("LD_LIBRARY_PATH", "")
    for lack in Providers(mapped.image, path, library_path=library_path).lacks():
        symbol = lack.symbol if lack.version is None else f"{lack.symbol}@{lack.version}"
        message = f"no library has {symbol}, which {lack.path} needs"
        if lack.other:
            message += f": {lack.taken} is loaded, and not {lack.other}, which has it"
        yield Fault("no-provider", FAULT, message, symbol=lack.symbol)


def _who_may_write(folder: str) -> str:
    """Return why every user may put a library into a folder, "" if that is not so."""
    if not os.path.isabs(folder):
        return "it depends on the folder that the program is started in"
    try:
        real = os.path.realpath(folder)
    except OSError:
        return ""
    at = real
    while not os.path.lexists(at):
        at = os.path.dirname(at)
    if at != real and _is_open(at, even_sticky=True):
        return f"it is not there, and anybody may make it in {at}"
    if at == real and _is_open(at, even_sticky=True):
        return "anybody may write there"
    # a user who may rename entries of a parent folder can put another folder, or link, in its
    # place
    for way in (real, os.path.normpath(folder)):
        at = way
        while at not in ("/", "//"):
            at = os.path.dirname(at)
            if _is_open(at, even_sticky=False):
                return f"anybody may put another folder in its place, in {at}"
    return ""


def _is_open(folder: str, *, even_sticky: bool) -> bool:
    """Return whether every user may write to a folder; sticky folders only if `even_sticky`."""
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return False
    is_sticky = bool(mode & stat.S_ISVTX)
    return stat.S_ISDIR(mode) and bool(mode & stat.S_IWOTH) and (even_sticky or not is_sticky)
