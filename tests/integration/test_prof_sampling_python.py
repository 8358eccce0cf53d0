# SPDX-License-Identifier: Apache-2.0
"""Frames of Python whose code comes and goes, against what the program says."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from soscope.live.images.images import find_images
from soscope.live.images.space import Space
from soscope.live.python.interpreter import find_interpreter
from soscope.live.python.stacks import PythonStacks
from tests.support.machines.pythons import few_pythons
from tests.support.processes.leftovers import at_end
from tests.support.processes.stopped import thread_pointer
from tests.support.time.patience import limit

# Functions of the same size end and begin, so that code is where other code was; and the same
# function is called again and again, from other lines.
CHANGING = """
import gc, os, signal

def told():
    print(number, id(code), flush=True); os.kill(os.getpid(), signal.SIGSTOP)

def twice(function):
    function()
    function()  # again

for number in range(12):
    names = {"told": told}
    exec("\\n" * number + f"def made_{number:02}():\\n told()\\n", names)
    code = names[f"made_{number:02}"].__code__
    twice(names[f"made_{number:02}"])
    del names, code
    gc.collect()
"""
LINES = CHANGING.splitlines()


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(LINES, 1) if line.strip().startswith(text))


@pytest.mark.parametrize("python", few_pythons())
def test_code_that_comes_and_goes(python: str) -> None:
    places: set[int] = set()
    with subprocess.Popen([python, "-c", CHANGING], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        stacks = None
        try:
            for turn, line in enumerate(program.stdout):
                number, place = map(int, line.split())
                places.add(place)
                os.waitpid(program.pid, os.WUNTRACED)
                if stacks is None:
                    space = Space(program.pid)
                    at_end(space.close)
                    interpreter = find_interpreter(find_images(space))
                    assert interpreter is not None
                    stacks = PythonStacks(space, interpreter)
                    pointer = thread_pointer(program.pid)
                assert [(name, line) for (name, _, line), _ in stacks.frames(pointer, 512)] == [
                    ("told", line_of("print(")),
                    (f"made_{number:02}", number + 2),
                    ("twice", line_of("function()") + turn % 2),
                    ("<module>", line_of("twice(")),
                ]
                program.send_signal(signal.SIGCONT)
            assert program.wait(timeout=limit()) == 0
        finally:
            program.kill()
    assert len(places) < 12, "code was where other code had been"
