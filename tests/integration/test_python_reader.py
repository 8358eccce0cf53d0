# SPDX-License-Identifier: Apache-2.0
"""Types and sizes of objects, and frames, of every Python of this machine, read from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soscope.binfmt.source import ByteSource
from soscope.errors import SoscopeError
from soscope.live.heap.memory import BlockPages
from soscope.live.process import Process
from soscope.live.python.few import FewReader, StillMemory
from soscope.live.python.interpreter import Interpreter, find_interpreter
from soscope.live.python.lines import line_of
from soscope.live.python.objects import ObjectReader, Objects
from soscope.live.python.offsets import AGENT_FIELDS, BYTE_INDEX, NOTHING, POINTER, PythonLayout
from soscope.live.python.values import read_bytes, read_str
from tests.support.machines.pythons import DISTRIBUTION, pythons
from tests.support.machines.tools import need
from tests.support.time.patience import limit

TARGETS = Path(__file__).parents[1] / "targets"
# Types with a `__sizeof__` in C that is not told from outside.
UNTOLD = {
    "_struct.Struct",
    "builtins.StgDict",
    "numpy.float64",
    "numpy.int8",
    "__main__.Counts",
    "__main__.CountsToo",
}


@contextmanager
def standing(python: str, target: str, *words: str) -> Iterator[tuple[Process, Any]]:
    """Run a target that tells something in one line and then waits for its input's end."""
    argv = [python, str(TARGETS / target), *words]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            said = json.loads(child.stdout.readline())
            with Process(child.pid) as process:
                yield process, said
        finally:
            child.stdin.close()
            assert child.wait(limit()) == 0  # nobody disturbed it


def interpreter_of(process: Process) -> Interpreter:
    interpreter = find_interpreter(process.picture)
    assert interpreter is not None
    return interpreter


def check_few(memory: ByteSource, layout: PythonLayout, objects: Objects, addrs: list[int]) -> None:
    """Compare objects that were looked at all at once with looking at one after the other."""
    reader = FewReader(StillMemory(memory), layout)
    pages, all_pages = BlockPages(), BlockPages()
    all_pages.add(objects.starts, objects.own)
    all_pages.add(objects.buffers, np.maximum(objects.sizes, objects.own) - objects.own)
    for addr, kind, size in zip(addrs, objects.types.tolist(), objects.sizes.tolist(), strict=True):
        seen = reader.look(addr)
        assert seen is not None
        assert seen[:2] == (kind, size)
        pages.add_each(seen[2])
    assert pages.plain()[0] == all_pages.plain()[0]
    assert sorted(pages.plain()[1]) == sorted(all_pages.plain()[1])


def check_objects(python: str, *words: str) -> int:
    """Compare all that the target says of its objects; return how many sizes were compared."""
    with standing(python, "python_objects.py", *words) as (process, said):
        interpreter = interpreter_of(process)
        assert list(interpreter.version) == said["version"]
        rows = said["objects"]
        reader = ObjectReader(process.space.memory, interpreter.layout)
        objects = reader.look(np.array([row[0] for row in rows], np.uint64))
        names = reader.type_names(objects.types)
        check_few(process.space.memory, interpreter.layout, objects, [row[0] for row in rows])
    assert objects.alive.all()
    wrong = [(row, name) for row, name in zip(rows, names, strict=True) if name != (row[1], row[2])]
    assert wrong == []
    told = ~objects.shallow
    sizes = [
        (row[2], row[3], int(size))
        for row, size, is_told in zip(rows, objects.sizes, told, strict=True)
        if is_told and size != row[3]
    ]
    assert sizes == []
    untold = {row[2] for row, is_told in zip(rows, told, strict=True) if not is_told}
    assert {
        name for name in untold - UNTOLD if not name.startswith(("_ctypes.", "ctypes."))
    } == set()
    return int(told.sum())


@pytest.mark.every(4)
@pytest.mark.parametrize("python", pythons())
def test_objects_of_every_type(python: str) -> None:
    assert check_objects(python) > 2500


@pytest.mark.every(6)
@pytest.mark.parametrize("python", pythons())
def test_all_objects_of_a_program(python: str) -> None:
    assert check_objects(python, "heap") > 40_000


def test_arrays() -> None:
    need("/usr/lib/python3/dist-packages/numpy")
    assert check_objects(DISTRIBUTION, "numpy") > 2500


def test_arrays_of_the_numpy_here() -> None:
    assert check_objects(sys.executable, "numpy") > 2500


def test_a_program_without_python() -> None:
    with subprocess.Popen([need("sleep"), "600"]) as child:
        try:
            with Process(child.pid) as process:
                assert find_interpreter(process.picture) is None
        finally:
            child.kill()


@pytest.mark.every(3)
@pytest.mark.parametrize("python", pythons())
def test_the_interpreter_is_found(python: str) -> None:
    question = (
        "import json, sys, sysconfig; is_shared = sysconfig.get_config_var('Py_ENABLE_SHARED');"
        "print(json.dumps([sys.version_info[:3], is_shared]))"
    )
    truth = subprocess.run(
        [python, "-c", question], capture_output=True, check=True, timeout=limit(30)
    )
    version, is_shared = json.loads(truth.stdout)
    with standing(python, "python_objects.py") as (process, _):
        interpreter = interpreter_of(process)
    assert list(interpreter.version) == version
    # Debian's interpreters are static although libpython is there, too
    is_library = "libpython" in interpreter.image.name
    assert interpreter.is_shared == is_library
    assert is_shared or not is_library
    assert interpreter.linkage == ("shared" if is_library else "static")


# ---- frames, as the agent walks them ----


def walked(process: Process, interpreter: Interpreter, tstate: int) -> list[list[Any]]:
    """Walk the frames by the agent's words alone; strings and lines are read as reports do."""
    at = dict(zip(AGENT_FIELDS, interpreter.layout.agent_words(), strict=True))
    memory = process.space.memory
    version = interpreter.version[:2]
    frame = word(memory, tstate + at["tstate_frame"])
    if at["cframe_frame"] != NOTHING:
        frame = word(memory, frame + at["cframe_frame"])
    rows: list[list[Any]] = []
    while frame:
        owner = 0
        if at["frame_owner"] != NOTHING:
            owner = memory.read(frame + at["frame_owner"], 1)[0]
        if owner < at["owner_shim"]:
            code = word(memory, frame + at["frame_code"]) & ~7
            lasti = word(memory, frame + at["frame_instr"])
            if at["instr_kind"] == POINTER:
                lasti -= code + at["code_bytecode"]
            else:
                lasti &= 0xFFFF_FFFF
                lasti *= 1 if at["instr_kind"] == BYTE_INDEX else 2
            names = [
                read_str(memory, interpreter.layout, word(memory, code + at[field]))
                if at[field] != NOTHING
                else None
                for field in ("code_filename", "code_name", "code_qualname")
            ]
            table = read_bytes(
                memory, interpreter.layout, word(memory, code + at["code_linetable"])
            )
            assert table is not None
            first = word(memory, code + at["code_firstlineno"]) & 0xFFFF_FFFF
            rows.append([*names, line_of(table, first, lasti, version)])
        frame = word(memory, frame + at["frame_previous"])
    return rows


def word(memory: ByteSource, addr: int) -> int:
    return int.from_bytes(memory.read(addr, 8), "little")


@pytest.mark.every(2)
@pytest.mark.parametrize("python", pythons())
def test_the_frames_of_a_thread(python: str) -> None:
    with standing(python, "python_frames.py") as (process, said):
        interpreter = interpreter_of(process)
        assert len(said["frames"]) > 8
        assert walked(process, interpreter, said["tstate"]) == said["frames"]


def test_a_debug_build_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from soscope.binfmt.elf.lookup import Name
    from soscope.live.python import interpreter

    # a release build that seems to have what debug builds alone have
    monkeypatch.setattr(interpreter, "_DEBUG_BUILD", Name(b"Py_GetVersion"))
    with (
        standing(DISTRIBUTION, "python_objects.py") as (process, _),
        pytest.raises(SoscopeError, match="it is a debug build"),
    ):
        find_interpreter(process.picture)
