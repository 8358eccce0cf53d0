# SPDX-License-Identifier: Apache-2.0
"""soscope.hook beside threads, children, signals, images that come and go, and the end."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

import soscope
from tests.support.machines.tools import NOT_HERE
from tests.support.processes import attached, hooked
from tests.support.processes.hooked import answer
from tests.support.targets import build
from tests.support.targets.covering import sizes
from tests.support.targets.matrix import Cell
from tests.support.time.patience import limit

# ---- where no Python code can run -------------------------------------------


def test_malloc_neither_recurses_nor_deadlocks() -> None:
    script = """
sizes = []
def take(size, original):
    sizes.append(size)
    return original(size)
with soscope.hook("malloc", take) as hook:
    begin(2, 0)
    threads = [threading.Thread(target=churn, args=(5000,)) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    wrong = end()[2]
    print((len(sizes) >= 20000, wrong, reasons(hook)))
"""
    enough, wrong, reasons = answer(script)
    assert enough
    assert wrong == 0
    assert any("the interpreter uses it" in why for why in reasons.values())


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "symbol", ["pthread_mutex_lock", "pthread_mutex_unlock", "free", "realloc", "memcpy", "strlen"]
)
def test_what_the_interpreter_needs_is_left_to_it(symbol: str) -> None:
    script = f"""
import json
def one(*rest):
    return rest[-1](*rest[:-1])
def work():
    for number in range(200):
        json.dumps(dict.fromkeys(range(number)))
try:
    with soscope.hook({symbol!r}, one) as hook:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        churn(1000)
        for thread in threads: thread.join()
        print(reasons(hook))
except soscope.SoscopeError as error:
    print({{"error": str(error)}})
"""
    assert any("no Python code can run" in why for why in answer(script).values())


def test_the_clock_that_threads_ask_on_their_way_to_the_gil() -> None:
    script = """
sys.setswitchinterval(1e-6)
calls = []
def clock(which, at, original):
    calls.append(which)
    return original(which, at)
def work():
    while len(calls) < 5000:
        time.monotonic()
        sum(range(100))
        time.sleep(0)
with soscope.hook("clock_gettime", clock):
    begin(2, 0)
    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(end()[2])
"""
    assert answer(script) == 0


# ---- many threads, many hooks -----------------------------------------------


def assert_it_comes_and_goes(kind: str, times: int) -> None:
    """Hook and unhook while threads of C call the function all the time."""
    with hooked.told(Cell(binding="now")) as process:
        process("import numpy")
        process("refusal('getpid', lambda original: 1)")
        before = attached.snapshot(process.pid)
        process("begin(4, 4711)")
        again = f"""
for _ in range({times}):
    with soscope.hook("getpid", {kind}) as hook:
        assert ask_pid() == os.getpid() == 4711
        assert hook.slots >= 2
        await_calls(50, other=True)
    assert ask_pid() == os.getpid() != 4711
"""
        process(again, limit=limit(60 + 2 * times))
        calls, others, wrong = process("end()")
        assert (others >= 50 * times, calls > others, wrong) == (True, True, 0)
        assert attached.differences(before, process.pid) == []


KINDS = ["hooking.fixed_pid", "lambda original: 4711"]


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", KINDS)
def test_again_and_again_under_load(kind: str) -> None:
    assert_it_comes_and_goes(kind, 5)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_times_under_load(kind: str) -> None:
    assert_it_comes_and_goes(kind, 1000)


def test_a_hundred_threads_that_are_none_of_pythons() -> None:
    script = """
own = os.getpid()
with soscope.hook("getpid", lambda original: 4711):
    begin(100, 4711)
    await_calls(1000, other=True)
answers = end()
print((answers[0] >= answers[1] >= 1000, answers[2], os.getpid() == own))
"""
    assert answer(script) == (True, 0, True)


def test_malloc_is_counted_by_a_c_function() -> None:
    script = """
with soscope.hook("malloc", hooking.count_malloc, from_="libhooked.so") as hook:
    wrong = []
    threads = [threading.Thread(target=lambda: wrong.append(churn(500000))) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    inside = allocated.value
wrong.append(churn(1000))
print((wrong, inside, allocated.value))
"""
    assert answer(script) == ([0] * 5, 2_000_000, 2_000_000)


def test_the_last_hook_is_called_first() -> None:
    script = """
own = os.getpid()
told = []
first = soscope.hook("getpid", lambda original: original() + 1)
second = soscope.hook("getpid", lambda original: original() * 2)
third = soscope.hook("getpid", hooking.fixed_pid)
with first:
    told.append(ask_pid() - own)
    with second:
        told.append(ask_pid() - 2 * own)
        with third:
            told.append(ask_pid())
        told.append(ask_pid() - 2 * own)
    told.append(ask_pid() - own)
first.__enter__(); second.__enter__()
first.__exit__(None, None, None)
told.append(ask_pid() - 2 * own)
second.__exit__(None, None, None)
told.append(ask_pid() - own)
print(told)
"""
    assert answer(script) == [1, 2, 4711, 2, 1, 0, 0]


def test_what_the_callable_calls_itself_is_not_hooked() -> None:
    script = """
own, calls = os.getpid(), []
def twice(original):
    calls.append(len(calls))
    return os.getpid() + ask_pid() - original()
with soscope.hook("getpid", twice):
    print((os.getpid() == own, ask_pid() == own, calls))
"""
    assert answer(script) == (True, True, [0, 1])


def test_a_hook_begins_once_at_a_time_and_may_begin_again() -> None:
    script = """
hook = soscope.hook("getpid", lambda original: 4711)
assert hook.slots == 0
told = []
for _ in range(2):
    with hook:
        told.append(ask_pid())
        try:
            hook.__enter__()
        except soscope.SoscopeError as error:
            told.append(type(error).__name__)
print(told)
"""
    assert answer(script) == [4711, "UsageError"] * 2


def test_a_ctypes_object_around_python_is_called() -> None:
    script = """
kind = ctypes.CFUNCTYPE(ctypes.c_int)
function = kind(lambda: 4711)
with soscope.hook("getpid", function):
    print((ask_pid(), os.getpid()))
"""
    assert answer(script) == (4711, 4711)


# ---- children, signals, ends ------------------------------------------------


def test_children_of_c_and_of_python() -> None:
    script = """
def in_child():
    child = os.fork()
    if not child:
        os._exit(33 if os.getpid() == 4711 and ask_pid() == 4711 else 44)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
import subprocess
calls = []
with soscope.hook("getpid", lambda original: 4711):
    begin(3, 4711)
    told = [child_pid()]
    told.append(end()[2])
    # beside threads of C that come into Python, a child of CPython up to 3.11 may wait for ever
    # (https://github.com/python/cpython/issues/112275)
    told += [in_child(), child_pid()]
with soscope.hook("getpid", hooking.fixed_pid):
    told += [child_pid(), in_child()]
def count(*rest):
    calls.append(os.getpid())
    return rest[-1](*rest[:-1])
with soscope.hook("dup2", count), soscope.hook("execve", count), soscope.hook("close", count):
    told.append(subprocess.run(["echo", "heard"], stdout=-1).stdout)
    told.append(set(calls) <= {os.getpid()})
print(told)
"""
    # a child that C forks has no interpreter that knows of it: the original answers
    assert answer(script) == [22, 0, 33, 22, 11, 33, b"heard\n", True]


def test_a_handler_of_c_may_call_it() -> None:
    script = """
with soscope.hook("getpid", lambda original: 4711):
    print([pid_in_handler() for _ in range(3)])
"""
    assert answer(script) == [4711] * 3


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("os._exit(4)", 4),
        ("raise SystemExit(5)", 5),
        ("import atexit; atexit.register(ask_pid)", 0),
    ],
)
def test_an_interpreter_that_ends_inside(end: str, status: int) -> None:
    for kind in ("lambda original: 4711", "hooking.fixed_pid"):
        done = hooked.run(f"""
hook = soscope.hook("getpid", {kind})
hook.__enter__()
begin(4, 4711)
thread = threading.Thread(target=lambda: [ask_pid() for _ in iter(int, 1)], daemon=True)
thread.start()
print(ask_pid(), flush=True)
{end}
""")
        assert (done.returncode, done.stdout, done.stderr) == (status, "4711\n", "")


def test_an_image_that_is_closed_meanwhile() -> None:
    script = f"""
import _ctypes
path = {str(build.library("hooked", Cell(binding="now", opt="O0")))!r}
told = []
for _ in range(3):
    other = ctypes.CDLL(path)
    with soscope.hook("getpid", lambda original: 4711):
        told.append(other.ask_pid())
        _ctypes.dlclose(other._handle)
    other = ctypes.CDLL(path)
    told.append(other.ask_pid() == os.getpid())
    _ctypes.dlclose(other._handle)
print(told)
"""
    assert answer(script) == [4711, True] * 3


@pytest.mark.parametrize("hooks", sizes(10, 60))
def test_images_come_and_go_meanwhile(hooks: int) -> None:
    script = f"""
import _ctypes
path = {str(build.library("hooked", Cell(binding="now", opt="O0")))!r}
stop = False
def load():
    while not stop:
        _ctypes.dlclose(ctypes.CDLL(path)._handle)
threads = [threading.Thread(target=load, daemon=True) for _ in range(2)]
for thread in threads: thread.start()
for _ in range({hooks}):
    with soscope.hook("getpid", hooking.fixed_pid) as hook:
        assert ask_pid() == 4711
    assert ask_pid() == os.getpid()
stop = True
for thread in threads: thread.join()
print(True)
"""
    assert answer(script) is True


def test_slots_that_threads_are_binding() -> None:
    script = f"""
import shutil, tempfile
first = {str(build.library("hooked"))!r}
with tempfile.TemporaryDirectory() as folder:
    for number in range(25):
        path = shutil.copy(first, f"{{folder}}/lib{{number}}.so")
        assert ctypes.CDLL(None).dlopen(os.fsencode(path), os.RTLD_LAZY)
        other = ctypes.CDLL(path)
        ready = threading.Barrier(3)
        def call():
            ready.wait()
            return other.ask_pid()
        threads = [threading.Thread(target=call) for _ in range(2)]
        for thread in threads: thread.start()
        hook = soscope.hook("getpid", hooking.fixed_pid)
        ready.wait()
        with hook:
            assert other.ask_pid() == 4711
            for thread in threads: thread.join()
            assert other.ask_pid() == 4711
        assert other.ask_pid() == os.getpid() != 4711
print(True)
"""
    assert answer(script) is True


def test_a_slot_that_a_thread_binds_behind_us() -> None:
    """A thread that comes too late for that, as others have its processor, tries once more."""
    script = f"""
import shutil, tempfile
sys.setswitchinterval(1e-6)
first = {str(build.library("hooked"))!r}
with soscope.Process(os.getpid()) as process:
    definition = process.resolve("getpid").addr
def is_bound_behind_us(path):
    assert ctypes.CDLL(None).dlopen(os.fsencode(path), os.RTLD_LAZY)
    other = ctypes.CDLL(path)
    with soscope.Process(os.getpid()) as process:
        slot = process.bindings(image=os.path.basename(path), symbol="getpid")[0]
    assert slot.state == "unbound"
    word = ctypes.c_uint64.from_address(slot.addr)
    own, found = os.getpid(), []
    def bind():
        while word.value == slot.value:
            time.sleep(0)
        found.append(word.value)
        word.value = definition  # as the loader does, which has begun before
    thread = threading.Thread(target=bind)
    thread.start()
    with soscope.hook("getpid", hooking.fixed_pid):
        thread.join()
        left = word.value
        assert found[0] != definition
        assert other.ask_pid() == (own if left == definition else 4711)
    assert word.value == (definition if left == definition else slot.value)
    return left != definition
with tempfile.TemporaryDirectory() as folder:
    number = 0
    while not is_bound_behind_us(shutil.copy(first, f"{{folder}}/lib{{number}}.so")):
        number += 1
    print(True)
"""
    assert answer(script) is True


# of the functions below every fourth, or all
@pytest.mark.parametrize("step", sizes(4, 1))
def test_all_that_a_program_works_with_at_once(step: int) -> None:
    script = f"""
import asyncio, json, multiprocessing, socket, subprocess
names = (
    "read write close poll epoll_wait select stat fstat lseek dup2 pipe2 socketpair recv send "
    "getpid getppid kill getrandom strerror clock_gettime clock_nanosleep nanosleep execve "
    "opendir readdir closedir sigaction isatty strtod floor pow exp log malloc free sem_post "
    "pthread_cond_wait pthread_mutex_lock waitpid wait4 chdir getcwd readlink setlocale "
)
def through(*rest):
    return rest[-1](*rest[:-1])
hooks = []
for name in names.split()[::{step}]:
    try:
        hooks.append(soscope.hook(name, through).__enter__())
    except soscope.SoscopeError:
        pass  # this C library has no such function, or soscope leaves it alone
async def child():
    process = await asyncio.create_subprocess_exec("echo", "x", stdout=-1)
    return (await process.communicate())[0]
sys.setswitchinterval(1e-5)
def dumps():
    return [json.dumps(list(range(500))) for _ in range(50)]
threads = [threading.Thread(target=dumps) for _ in range(3)]
for thread in threads: thread.start()
told = [len(hooks) > 20 / {step}, asyncio.run(child())]
told.append(subprocess.run(["echo", "y"], stdout=-1).stdout)
with multiprocessing.get_context("fork").Pool(2) as pool:
    told.append(sum(pool.map(abs, range(10))))
one, other = socket.socketpair()
one.send(b"z")
told += [other.recv(1), float("1.5") ** 2, "root" in open("/etc/passwd").read()]
one.close(), other.close()
for thread in threads: thread.join()
for hook in hooks:
    hook.end()
print(told)
"""
    assert answer(script) == [True, b"x\n", b"y\n", 45, b"z", 2.25, True]


def test_a_thread_that_stays_in_the_callable_when_the_interpreter_ends() -> None:
    done = hooked.run("""
inside = threading.Event()
def stay(original):
    inside.set()
    threading.Event().wait()
hook = soscope.hook("getpid", stay).__enter__()
threading.Thread(target=ask_pid, daemon=True).start()
inside.wait()
print("end")
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_callable_may_end_its_own_hook() -> None:
    script = """
def once(original):
    hook.end()
    return 4711
hook = soscope.hook("getpid", once)
with hook:
    print((ask_pid(), ask_pid() == os.getpid() != 4711, hook.slots))
"""
    assert answer(script) == (4711, True, 0)


def test_a_process_that_has_no_descriptor_left() -> None:
    script = """
import resource
def with_no_descriptors(function):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        function()
    except soscope.SoscopeError as error:
        return error.errno
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
hook = soscope.hook("getpid", lambda original: 4711)
with hook: pass
told = [with_no_descriptors(hook.__enter__), ask_pid() == os.getpid()]
hook.__enter__()
told += [ask_pid(), with_no_descriptors(hook.end), ask_pid() == os.getpid(), hook.slots > 0]
hook.end()
print([*told, hook.slots, ask_pid() == os.getpid()])
"""
    assert answer(script) == [errno.EMFILE, True, 4711, errno.EMFILE, True, True, 0, True]


def test_other_interpreters() -> None:
    """The system's own, outside any environment, which is a program at fixed addresses."""
    python = Path("/usr/bin/python3")
    if not python.exists() or python.resolve() != Path(sys.executable).resolve():
        pytest.skip(f"{NOT_HERE}the interpreter is not the system's")
    folders = [str(Path(soscope.__file__).parents[1]), *sys.path[1:]]
    done = hooked.run(
        "with soscope.hook('getpid', lambda original: 4711): print((ask_pid(), os.getpid()))",
        python=["/usr/bin/env", "PYTHONPATH=" + os.pathsep.join(folders), str(python)],
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "(4711, 4711)\n", "")
