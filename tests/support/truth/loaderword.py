# SPDX-License-Identifier: Apache-2.0
"""What a real loader says: which files it takes, and where it binds each symbol to.

It is asked to trace, as ldd does: everything is mapped and relocated, nothing is run but the
functions that choose an implementation (IFUNC).
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from soscope.linker.paths import Root
from tests.support.processes.run import run

LOADER = "/lib64/ld-linux-x86-64.so.2"
_BINDING = re.compile(
    r"binding file (\S+) \[0\] to (\S+) \[0\]: \w+ symbol `([^']*)'(?: \[(\S+)\])?$", re.MULTILINE
)
_UNDEFINED = re.compile(r"^undefined symbol: (\S+?)(?:, version (\S+))?\s+\((.*)\)$", re.MULTILINE)

# Runs the words behind a root folder in it; the environment comes as for qemu.
_ENTER = """
import os, sys
os.chroot(sys.argv[1])
os.chdir("/")
words = os.environ["QEMU_SET_ENV"].split(",")
os.execve(sys.argv[2], sys.argv[2:], dict(word.split("=", 1) for word in words))
"""
IN_ROOT = (sys.executable, "-c", _ENTER)

Reference = tuple[str, str | None]  # name, version


class Word(NamedTuple):
    """What the loader says of one file by itself.

    `bound`: each of the file's references -> the real paths that it is bound to; `undefined`:
    those that are not; `libraries`: name -> real path, "" for those that it does not find.
    """

    bound: dict[Reference, set[str]]
    undefined: set[Reference]
    libraries: dict[str, str]
    text: str


def ask(
    path: str | Path,
    env: dict[str, str] | None = None,
    *,
    loader: Sequence[str] = (),
    prefix: str = "",
) -> Word:
    """Ask the loader for `path`; as a program that runs itself where `loader` is empty.

    `prefix` is the root of a loader that believes to have another one.
    """
    flags = {
        "LD_TRACE_LOADED_OBJECTS": "1",
        "LD_WARN": "yes",
        "LD_BIND_NOW": "yes",
        "LD_DEBUG": "bindings",
    }
    flags |= env or {}
    if prefix:  # not for the loader of the emulator, or of IN_ROOT
        flags = {"QEMU_SET_ENV": ",".join(f"{name}={value}" for name, value in flags.items())}
    done = run([*loader, str(path)], env=flags)
    text = done.stdout + done.stderr

    @functools.cache  # a loader says the same few paths thousands of times
    def real(name: str) -> str:
        if not prefix:
            return os.path.realpath(name)
        return Root(prefix).host(name.removeprefix(prefix))

    bound: dict[Reference, set[str]] = {}
    for source, target, name, version in _BINDING.findall(text):
        if real(source) == real(str(path)):
            bound.setdefault((name, version or None), set()).add(real(target))
    undefined = {
        (name, version or None)
        for name, version, where in _UNDEFINED.findall(text)
        if real(where) == real(str(path))
    }
    libraries = {
        name: "" if place == "not" else real(place)
        for name, place in re.findall(r"^\t(\S+) => (\S+)", text, re.MULTILINE)
    }
    return Word(bound, undefined, libraries, text)
