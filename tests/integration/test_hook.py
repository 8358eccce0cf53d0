# SPDX-License-Identifier: Apache-2.0
"""soscope.hook: a process that leads its own calls elsewhere. Each script runs in a process."""

from __future__ import annotations

import errno

import pytest

from tests.support.processes import hooked
from tests.support.processes.hooked import answer
from tests.support.targets import build
from tests.support.targets.matrix import Cell

CELLS = [
    Cell(binding="lazy"),
    Cell(binding="now"),
    Cell(binding="no-plt"),
    Cell(binding="ibt", linker="lld"),
    Cell(compiler="clang", linker="gold"),
    Cell(linker="mold"),
]


# ---- arguments and results --------------------------------------------------


@pytest.mark.every(3)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_a_c_library_hears_what_the_callable_says(cell: Cell) -> None:
    script = """
seen = []
def ask(name, original):
    seen.append(name)
    return b"mine" if name == b"SOSCOPE_HOOKED" else original(name)
os.environ["SOSCOPE_OTHER"] = "theirs"
names = (b"SOSCOPE_HOOKED", b"SOSCOPE_OTHER", b"SOSCOPE_NONE", None)
def all_of():
    return [lib.ask(name) for name in names[:3]]
before = all_of()
with soscope.hook("getenv", ask) as hook:
    during = all_of()
print((before, during, all_of(), seen, hook.slots))
"""
    before, during, after, seen, slots = answer(script, cell)
    assert before == after == [None, b"theirs", None]
    assert during == [b"mine", b"theirs", None]
    assert seen == [b"SOSCOPE_HOOKED", b"SOSCOPE_OTHER", b"SOSCOPE_NONE"]
    assert slots == 0  # it has ended


def test_python_itself_is_a_caller() -> None:
    script = """
def clock(which, at, original):
    result = original(which, at)
    if which == time.CLOCK_REALTIME:
        ctypes.c_long.from_address(at).value = 1000
    return result
def day(at, zone, original):
    ctypes.c_long.from_address(at).value = 2000
    return 0
real = time.time()
with soscope.hook("getpid", lambda original: 4711), soscope.hook("clock_gettime", clock):
    with soscope.hook("gettimeofday", day):
        print((os.getpid(), int(time.time()), now(), real > 3000, time.monotonic() < 3e9))
assert time.time() >= real and os.getpid() != 4711
"""
    assert answer(script) == (4711, 1000, 2000, True, True)


def test_a_string_that_goes_through_is_the_same_pointer() -> None:
    script = """
found = []
def search(text, sign, original):
    found.append((text, sign))
    return original(text, sign)
with soscope.hook("strchr", search, from_="libhooked.so"):
    print((find(b"abcdef", ord("d")), find(b"abc", ord("z")), found))
"""
    text = [(b"abcdef", ord("d")), (b"abc", ord("z"))]
    assert answer(script) == (3, -1, text)


def test_a_returned_string_lives_until_the_threads_next_call() -> None:
    script = """
lib.ask.restype = ctypes.c_void_p
import gc
with soscope.hook("getenv", lambda name, original: b"answer " + name):
    first = lib.ask(b"one")
    other = []
    thread = threading.Thread(target=lambda: other.extend(lib.ask(b"two") for _ in range(1000)))
    thread.start(); thread.join(); gc.collect()
    said = ctypes.string_at(first)
print((said, ctypes.string_at(other[-1])))
"""
    assert answer(script) == (b"answer one", b"answer two")


def test_errno_is_what_the_function_left() -> None:
    script = """
def own(path, original):
    ctypes.set_errno(errno.EPERM)
    return -1
def busy(path, original):
    result = original(path)
    try:
        os.stat("/nowhere/else")
        os.listdir("/proc/1/fd")
    except OSError:
        pass  # errno is what it is for
    os.read(os.open("/dev/null", 0), 1)
    return result
told = []
for function in (lambda path, original: original(path), busy, own):
    with soscope.hook("chdir", function, from_="libhooked.so"):
        told.append(lib.failure())
with soscope.hook("getpid", lambda original: original()):
    told.append(lib.success())
print(told)
"""
    assert answer(script) == [errno.ENOENT, errno.ENOENT, errno.EPERM, errno.EDOM]


def test_floating_point_and_arguments_on_the_stack() -> None:
    script = """
import math
seen = []
def both(*rest):
    seen.append(rest[:-1])
    return rest[-1](*rest[:-1])
lib.power.restype, lib.power.argtypes = ctypes.c_longdouble, [ctypes.c_longdouble] * 2
text = ctypes.create_string_buffer(64)
with soscope.hook("pow", lambda x, y, original: original(x, y) + 0.5, from_="MAIN"):
    told = [math.pow(2.0, 10.0), math.pow(3.0, 2.0)]
with soscope.hook("powl", both):
    told.append(lib.power(2.0, 12.0))
with soscope.hook("getnameinfo", both, from_="libhooked.so"):
    told += [lib.name_of(text, len(text)), text.value]
    told += [seen[0], seen[1][1:2] + seen[1][3:], seen[1][2] == ctypes.addressof(text)]
with soscope.hook("getnameinfo", lambda *rest: -2, from_="libhooked.so"):
    told.append(lib.name_of(text, len(text)))
print(told)
"""
    told = [1024.5, 9.5, 4096.0, 0, b"127.0.0.1", (2.0, 12.0), (16, 64, None, 0, 1), True, -2]
    assert answer(script) == told


def test_exceptions_are_told_and_the_original_is_called() -> None:
    script = """
told = []
sys.unraisablehook = lambda what: told.append((what.exc_type.__name__, what.object.__name__))
os.environ["SOSCOPE_OTHER"] = "theirs"
def fails(name, original):
    raise KeyboardInterrupt
def lies(name, original):
    return 1.5
def text(name, original):
    return "str"
answers = []
for function in (fails, lies, text):
    with soscope.hook("getenv", function):
        answers.append(lib.ask(b"SOSCOPE_OTHER"))
def too_few(original):
    return None
with soscope.hook("getenv", too_few):
    answers.append(lib.ask(b"SOSCOPE_OTHER"))
print((answers, told))
"""
    answers, told = answer(script)
    assert answers == [b"theirs"] * 4
    assert told == [
        ("KeyboardInterrupt", "fails"),
        ("TypeError", "lies"),
        ("TypeError", "text"),
        ("TypeError", "too_few"),
    ]


def test_the_interpreters_own_hook_prints_an_exception() -> None:
    done = hooked.run("""
with soscope.hook("getpid", lambda original: 1 // 0):
    print(ask_pid() == os.getpid())
""")
    assert (done.returncode, done.stdout) == (0, "True\n")
    assert done.stderr.count("ZeroDivisionError") == 2


# ---- which slots ------------------------------------------------------------


def test_the_original_is_what_dlsym_says() -> None:
    script = """
libc = ctypes.CDLL("libc.so.6")
told = []
for name in ("getpid", "getenv", "strchr", "gettimeofday"):
    with soscope.hook(name, lambda *rest: rest[-1](*rest[:-1]), from_="libhooked.so") as hook:
        told.append(hook.original == ctypes.cast(libc[name], ctypes.c_void_p).value)
print(told)
"""
    for cell in CELLS[:3]:
        assert answer(script, cell) == [True] * 4


def test_callers_are_chosen_as_elsewhere() -> None:
    script = """
own = os.getpid()
told = []
for from_ in ("MAIN", "libhooked.so", "libhook*", ["MAIN", "libhooked.so"], "MAIN,libhooked.so"):
    with soscope.hook("getpid", hooking.fixed_pid, from_=from_):
        told.append((os.getpid() == 4711, ask_pid() == 4711))
print(told)
"""
    yes, no = True, False
    assert answer(script) == [(yes, no), (no, yes), (no, yes), (yes, yes), (yes, yes)]


def test_an_address_that_is_taken_is_left_and_told() -> None:
    script = f"""
address = ctypes.CDLL({str(build.library("address", Cell(binding="now")))!r})
with soscope.hook("malloc", hooking.count_malloc) as hook:
    print(reasons(hook))
"""
    told = answer(script)
    assert told["libhooking.so"] == "the function that is to be called lies in the same image"
    assert told["libc.so.6"] == "the function's address is taken there"


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("'nobody_has_it', len", "for it"),
        ("'getpit', len", "for it"),
        ("'fork', len", "the child would have an interpreter that does not know of it"),
        ("'dlopen', len", "it looks at its caller"),
        ("'longjmp', len", "leaves by another way"),
        ("'open', len", "a variadic function cannot be a Python callable"),
        ("'getpid', None", "None cannot be called"),
        ("'getpid', 'x'", "'x' cannot be called"),
        ("'getpid', True", "True cannot be called"),
        ("'getpid', 16", "0x10 is no address of code"),
        ("'getpid', -1", "is no address of code"),
        ("'getpid', ctypes.CFUNCTYPE(ctypes.c_int)()", "NULL"),
        ("'fork', ctypes.CFUNCTYPE(ctypes.c_int)(len)", "no Python callable can stand for it"),
        ("'getpid', ctypes.CFUNCTYPE(None, Pair)(len)", "a structure cannot be given"),
        ("'', len", "is a name"),
        ("None, len", "is a name"),
        ("'getpid', len, from_='libnobody*'", "no image of this process is called libnobody*"),
        ("'getpid', len, from_=[]", "from_"),
        ("'getpid', len, from_=3", "from_"),
        ("'PyObject_CallOneArg', len, from_='_ctypes*'", "no prototype"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(words: str, message: str) -> None:
    name, text, _ = answer(f"print(refusal({words}))")
    assert name in {"HookError", "UsageError"}
    assert message in text


def test_a_symbol_without_a_prototype() -> None:
    script = f"""
mid = ctypes.CDLL({str(build.library("mid"))!r})
print(refusal("f0", lambda x, original: 1))
"""
    name, text, hint = answer(script)
    assert (name, "f0: no prototype" in text, "needs no prototype" in hint) == (
        "HookError",
        True,
        True,
    )


def test_a_misspelt_name_is_told() -> None:
    _, _, hint = answer("print(refusal('getpit', len))")
    assert "getpid" in hint
