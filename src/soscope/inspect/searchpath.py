# SPDX-License-Identifier: Apache-2.0
"""Folders in which a file has its libraries looked for, and into which anybody may put one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from soscope.binfmt.elf.filemap import ElfMap
from soscope.errors import FormatError
from soscope.inspect.fault import FAULT, Fault
from soscope.linker.search import own_folders


def check_search_path(found: ElfMap, path: str) -> Iterator[Fault]:
    """Give a fault for each folder of DT_RPATH and DT_RUNPATH that others can fill."""
    try:
        folders = own_folders(found.image, path)
    except FormatError:
        return
    for folder in dict.fromkeys(folders):
        why = _who_may_write(folder)
        if why:
            message = f"libraries are looked for in '{folder}': {why}"
            yield Fault("writable-search-path", FAULT, message)


def _who_may_write(folder: str) -> str:
    """Say why anybody may put a library there, "" where not everybody may."""
    if not os.path.isabs(folder):
        return "it depends on the folder that the program is started in"
    at = os.path.normpath(folder)
    is_there = True
    while True:
        try:
            mode = os.stat(at).st_mode
            break
        except OSError:
            is_there = False
            if at == "/":
                return ""
            at = os.path.dirname(at)
    if not stat.S_ISDIR(mode) or not mode & stat.S_IWOTH:
        return ""
    if is_there:
        return "anybody may write there"
    return f"it is not there, and anybody may make it in {at}"
