# SPDX-License-Identifier: Apache-2.0
"""Every name that the C libraries export, with every version: dlsym in the process, and soscope."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.loaders import SUITES, Loader
from tests.integration.test_resolve_loaders import linking
from tests.support.files.elffiles import run
from tests.support.processes.resolving import Teller, teller
from tests.support.targets.build import need_linking

PLAIN = ("-pie", "-fPIE")


def exported(path: str) -> set[tuple[str, ...]]:
    """Return (name,) and (name, version) of what nm lists."""
    found: set[tuple[str, ...]] = set()
    for line in run("nm", "-D", "--defined-only", path).splitlines():
        name, _, version = line.split()[-1].partition("@")
        found.add((name,))
        if version:
            found.add((name, version.lstrip("@")))
    return found


def program(kind: str) -> Path:
    if kind == "here":
        return teller(*PLAIN)
    if kind == "musl":
        return teller(*PLAIN, compiler="musl-gcc")
    if kind == "32 bits":
        need_linking("gcc", "-m32")
        return teller("-m32", *PLAIN)
    loader = Loader(kind)
    return teller(*PLAIN, *linking(loader), f"-Wl,--dynamic-linker={loader.interpreter}")


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", ["here", "32 bits", "musl", *SUITES])
def test_every_name(kind: str) -> None:
    with Teller(program(kind)) as running:
        names: set[tuple[str, ...]] = set()
        for image in running.process.images:
            if image.file is not None:
                names |= exported(f"/proc/{running.pid}/root{image.path}")
        wrong, unknown = [], []
        for words in sorted(names):
            truth = running.tell("default", *words)
            answer = running.process.answer("@".join(words))
            if answer.addr is None and truth:
                unknown.append((words, answer))
            elif (answer.addr or 0) != truth:
                wrong.append((words, answer, hex(truth)))
        assert len(names) > 1000
        assert not wrong
        # only what a function is chosen for, and nobody has called, cannot be known
        assert [one for one in unknown if one[1].kind != "ifunc"] == []
        assert len(unknown) < len(names) // 50
