# SPDX-License-Identifier: Apache-2.0
"""Visits of running Python processes: each goes on as if nobody had come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.machines.pythons import DISTRIBUTION, few_pythons, pythons
from tests.support.machines.tools import missing
from tests.support.processes import attached
from tests.support.processes.run import run
from tests.support.targets import build
from tests.support.targets.covering import sizes
from tests.support.targets.survivors import soscope
from tests.support.time.patience import limit

# A program that executes the lines that it is sent, one at a time.
_SERVANT = """
import sys
for line in sys.stdin:
    exec(line)
    print("did", line.strip(), flush=True)
print("the end", flush=True)
"""
_BUSY = """
import sys, threading
lines = iter(sys.stdin.readline, "")
reader = threading.Thread(target=lambda: [None for line in lines])
reader.start()
print("busy", flush=True)
while reader.is_alive():
    kept = [str(number) for number in range(100)]
print("the end", flush=True)
"""


class Servant:
    """A Python process that waits for lines to execute."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = str(process.pid)

    def do(self, line: str) -> list[str]:
        """Have it execute a line; return what it prints meanwhile."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        said: list[str] = []
        for text in self.process.stdout:
            if text.strip() == f"did {line}":
                return said
            said.append(text.strip())
        raise AssertionError(f"it has ended: {self.process.wait(limit())}")

    def visit(self, *words: str, status: int = 0) -> str:
        """Visit it with a verb of `soscope mem`, or with `detach`; return what that says."""
        verb = words[:1] if words[0] == "detach" else ("mem", words[0])
        done = soscope(*verb, "-p", self.pid, *words[1:])
        assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr
        return done.stdout + done.stderr


@contextmanager
def servant(python: str, source: str = _SERVANT, *arguments: str) -> Iterator[Servant]:
    """Run a program for a while; it has to end of itself, in its own way."""
    words = [python, "-c", source, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield Servant(process)
            said, errors = process.communicate(timeout=limit())
            assert (process.returncode, said.splitlines()[-1:], errors) == (0, ["the end"], "")
        finally:
            process.kill()


@pytest.mark.every(2)
@pytest.mark.parametrize("python", few_pythons())
def test_detach_without_attach(python: str) -> None:
    with servant(python) as waiting:
        waiting.do("pass")
        assert "nothing to undo" in waiting.visit("detach")
        assert waiting.do("print(len(['x'] * 1000))") == ["1000"]
    with servant(python, _BUSY) as busy:
        said = json.loads(busy.visit("detach", "--json"))
        assert (said["schema"], said["pid"]) == ("soscope/detach/1", int(busy.pid))
        assert (said["agents"], said.get("was_counting")) == ([], None)


@pytest.mark.every(2)
@pytest.mark.parametrize("python", few_pythons())
def test_detach_finds_all_that_is_there(python: str) -> None:
    with servant(python) as process:
        process.visit("attach")
        words = [sys.executable, "-m", "soscope", "trace", "-c", "-p", process.pid]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tracer:
            attached.wait_for_hooks(tracer)
            tracer.kill()
        document = json.loads(process.visit("detach", "--json"))
        assert document["was_counting"] is True
        assert sum(agent["restored"] for agent in document["agents"]) > 0
        assert "nothing to undo" in process.visit("detach")
        assert process.do("print(len(['x'] * 1000))") == ["1000"]


def test_what_was_done_is_said_in_every_form() -> None:
    with servant(few_pythons()[0]) as process:
        first = json.loads(process.visit("attach", "--json"))
        assert (first["schema"], first["did_before"]) == ("soscope/mem-attach/1", False)
        assert all("waited" in note for note in first["notes"])
        page = process.visit("attach", "--format", "md").splitlines()
        assert "- did before: yes" in page
        assert page[-1] == f"- `soscope mem snapshot -p {process.pid}`"
        page = process.visit("detach", "--format", "md").splitlines()
        assert page[0] == "# soscope detach"
        assert "- was counting: yes" in page


_TABLE = """
import ctypes
class Allocator(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free")]
def allocators():
    said = []
    for domain in range(3):
        now = Allocator()
        ctypes.pythonapi.PyMem_GetAllocator(domain, ctypes.byref(now))
        said.append(bytes(now).hex())
    return said
def code(name, size=64):
    at = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    return ctypes.string_at(at, size).hex()
"""
_STANDS = "print(allocators(), code('_Py_NewReference'), tracemalloc.is_tracing())"


def _tell(servant: Servant) -> list[str]:
    return servant.do(_STANDS)


@pytest.mark.every(3)
@pytest.mark.parametrize("python", few_pythons())
def test_tracemalloc_that_starts_between_visits(python: str) -> None:
    with servant(python, _TABLE + "import tracemalloc\n" + _SERVANT) as process:
        untouched = _tell(process)
        process.visit("attach")
        process.do("tracemalloc.start()")
        process.do("kept = [str(number) for number in range(2000)]")
        process.visit("detach")
        process.do("bytes(1000)")
        for _ in range(2):
            process.visit("attach")
            process.do("later = [complex(number) for number in range(1234)]")
            rows = json.loads(process.visit("snapshot", "--json"))["survivors"]
            assert 1234 in [row["count"] for row in rows if row["type"] == "complex"]
            process.visit("detach")
            process.do("del later")
        assert process.do("print(tracemalloc.get_traced_memory()[0] > 50_000)") == ["True"]
        process.do("tracemalloc.stop()")
        assert _tell(process) == untouched


_ON_TOP = """
before = Allocator()
ctypes.pythonapi.PyMem_GetAllocator(2, ctypes.byref(before))
Free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
# a thunk in machine code: jump to the one below
thunk = mmap.mmap(-1, 4096, prot=7)
thunk.write(b"\\x48\\xb8" + before.free.to_bytes(8, "little") + b"\\xff\\xe0")
on_top = Allocator.from_buffer_copy(before)
on_top.free = ctypes.addressof(ctypes.c_char.from_buffer(thunk))
ctypes.pythonapi.Py_IncRef(ctypes.py_object(thunk))
ctypes.pythonapi.PyMem_SetAllocator(2, ctypes.byref(on_top))
"""


@pytest.mark.every(3)
@pytest.mark.parametrize("python", few_pythons())
def test_an_allocator_that_is_put_on_top_of_ours(python: str) -> None:
    with servant(python, _TABLE + "import mmap\n" + _SERVANT) as process:
        process.visit("attach")
        process.do(f"exec({_ON_TOP!r})")
        process.visit("detach")
        process.do("bytes(1000)")
        process.visit("attach")
        process.do("later = [complex(number) for number in range(1234)]; gone = bytes(1000)")
        process.do("del gone")
        rows = json.loads(process.visit("snapshot", "--json"))["survivors"]
        assert 1234 in [row["count"] for row in rows if row["type"] == "complex"]
        process.visit("detach")
        assert process.do("print(len([bytes(600) for _ in range(1000)]))") == ["1000"]


_THREADS = """
import select, sys, threading, time
is_over = False
def work():
    while not is_over:
        kept = [str(number) for number in range(50)]
        time.sleep(0.0005)
workers = [threading.Thread(target=work) for _ in range(2)]
for thread in workers:
    thread.start()
while not select.select([sys.stdin], [], [], 0)[0]:
    kept = [number for number in range(100_000)]
is_over = True
for thread in workers:
    thread.join()
print("the end", flush=True)
"""


@pytest.mark.every(3)
@pytest.mark.parametrize("times", sizes(1, 3))
@pytest.mark.parametrize("python", few_pythons())
def test_threads_that_wait_for_the_lock_of_the_interpreter(python: str, times: int) -> None:
    with servant(python, _THREADS) as busy:
        for _ in range(times):
            done = soscope("mem", "snapshot", "--json", "-p", busy.pid)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["survivors"]


# A first thread that waits for others, which compute until SIGTERM says so.
_WAITING = """
import queue, signal, sys, threading
from concurrent.futures import ThreadPoolExecutor
over = []
signal.signal(signal.SIGTERM, lambda *_: over.append(1))
results = queue.Queue()
def work():
    print("busy", flush=True)
    while not over:
        sum(range(1000))
    results.put(4711)
    return 4711
def worker():
    thread = threading.Thread(target=work)
    thread.start()
    return thread
if sys.argv[1] == "join":
    worker().join()
elif sys.argv[1] == "turns":
    thread = worker()
    while thread.is_alive():
        thread.join(0.2)
elif sys.argv[1] == "queue":
    worker()
    assert results.get() == 4711
else:
    with ThreadPoolExecutor(2) as pool:
        assert pool.submit(work).result() == 4711
print("the end", flush=True)
"""


@pytest.mark.every(6)
@pytest.mark.parametrize(
    ("way", "python"),
    [
        *((way, DISTRIBUTION) for way in ("join", "turns", "queue", "future")),
        *(("join", python) for python in few_pythons()[1:]),
    ],
)
def test_a_first_thread_that_waits_for_others(way: str, python: str) -> None:
    with servant(python, _WAITING, way) as busy:
        assert busy.process.stdout is not None
        assert busy.process.stdout.readline() == "busy\n"
        for _ in range(2):
            done = soscope("mem", "snapshot", "--json", "-p", busy.pid)
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["survivors"]
        busy.process.terminate()


# A first thread that is in code of a library without the lock of the interpreter, for minutes.
_ELSEWHERE = """
import hashlib, threading
def work():
    print("busy", flush=True)
    while True:
        sum(range(1000))
threading.Thread(target=work, daemon=True).start()
hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 30)
"""
# The command, with less patience: what is to be seen is how it ends.
_IMPATIENT = """
import sys
from soscope.control import interpreter
interpreter._WAITING = 0.5
from soscope.verbs.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_first_thread_that_is_elsewhere_is_named() -> None:
    words = [DISTRIBUTION, "-c", _ELSEWHERE]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as busy:
        try:
            assert busy.stdout is not None
            assert busy.stdout.readline() == "busy\n"
            done = run([sys.executable, "-c", _IMPATIENT, "mem", "snapshot", "-p", str(busy.pid)])
        finally:
            busy.kill()
    assert done.returncode == 1
    assert "its first thread runs no code of its interpreter while others work" in done.stderr


_LIBRARY = """
import os, sysconfig
print(os.path.join(*map(sysconfig.get_config_var, ("LIBDIR", "INSTSONAME"))))
"""


def libraries() -> list[str]:
    """Return the Pythons of this machine that are libraries."""
    said = [run([python, "-c", _LIBRARY]).stdout.strip() for python in pythons()]
    return [path for path in said if ".so" in path and os.path.exists(path)]


@pytest.mark.every(3)
@pytest.mark.parametrize("minor", [12, 13])
@pytest.mark.parametrize("way", ["closed", "ended", "dropped"])
def test_a_python_that_ends_between_visits_and_begins_again(way: str, minor: int) -> None:
    found = [path for path in libraries() if f"python3.{minor}" in path]
    if not found:
        missing(f"libpython3.{minor}.so")
    source = build.TARGETS / "hostile" / "embeds.c"
    host = build.compiled("embeds", ["gcc", "-O1", "-ldl"], [source])
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [host, found[0], way], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            visited = Servant(process)
            visited.do("kept = [str(number) for number in range(2000)]")
            visited.visit("attach")
            visited.do("over")
            visited.do("first = [str(number) for number in range(2000)]")
            visited.visit("attach")
            visited.do("later = [complex(number) for number in range(1234)]")
            rows = json.loads(visited.visit("snapshot", "--json"))["survivors"]
            visited.visit("detach")
            said, errors = process.communicate("over\n", timeout=limit())
        finally:
            process.kill()
    assert (process.returncode, said.splitlines()[-1:], errors) == (0, ["the end"], "")
    assert 1234 in [row["count"] for row in rows if row["type"] == "complex"]
