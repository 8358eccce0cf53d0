# SPDX-License-Identifier: Apache-2.0
"""Profiles that were written by hand, with what each way of theirs has."""

from __future__ import annotations

from soscope.instruments.prof.model import (
    NOBODY,
    ProfArc,
    ProfFunction,
    Profile,
    ProfNode,
    ProfSample,
    ProfSums,
    ProfThread,
)
from soscope.model.call import StackFrame

COMMAND = ["/usr/bin/python3", "run.py"]
WORK, MATH = "/usr/lib/libwork.so", "/usr/lib/libmath.so"
CALL, PARSE, STEP, FIB, MUL = range(5)
MAIN, WORKER = 0, 1
TIDS = {MAIN: 100, WORKER: 101}

Stacks = dict[tuple[int, tuple[str, ...]], tuple[int, int]]

# of trees(): thread and stack, the outermost function first, with its calls and their self time
WAYS: Stacks = {
    (100, ("PyObject_Call", "parse")): (3, 2_500),
    (100, ("PyObject_Call", "parse", "step")): (30, 4_500),
    (100, ("PyObject_Call", "parse", "step", "mul")): (60, 3_000),
    (100, ("PyObject_Call", "fib")): (1, 1_000),
    (100, ("PyObject_Call", "fib", "fib")): (8, 4_000),
    (101, ("parse",)): (2, 6_000),
}
# of sampled(): the same, with samples and their time
SEEN: Stacks = {
    (100, ("main", "run", "parse")): (5, 50_000_000),
    (100, ("main", "run")): (2, 20_000_000),
    (101, ("0x1234",)): (7, 70_000_000),
}


def functions() -> list[ProfFunction]:
    """Return the functions of all profiles: one outside, three of one library, one of another."""
    return [
        ProfFunction("python3.11", "PyObject_Call"),
        ProfFunction("libwork.so", "parse", 0x1139, 40, WORK, "work.c", 12),
        ProfFunction("libwork.so", "step", 0x1170, 32, WORK, "work.c", 30),
        ProfFunction("libwork.so", "fib", 0x11A0, 60, WORK),
        ProfFunction("libmath.so", "mul", 0x2000, 16, MATH),
    ]


def threads() -> list[ProfThread]:
    """Return the two threads of all profiles."""
    return [ProfThread(100, 100, "python3"), ProfThread(100, 101, "worker")]


def trees() -> Profile:
    """Return what --mode time knows: nodes with times, by thread; `fib` calls itself."""
    profile = Profile(COMMAND, status=0, mode="time")
    profile.functions = functions()
    profile.threads = threads()
    profile.nodes = [
        ProfNode(NOBODY, CALL, MAIN, 0, None, None),
        ProfNode(0, PARSE, MAIN, 3, 10_000, 2_500),
        ProfNode(1, STEP, MAIN, 30, 7_500, 4_500),
        ProfNode(2, MUL, MAIN, 60, 3_000, 3_000),
        ProfNode(0, FIB, MAIN, 1, 5_000, 1_000),
        ProfNode(4, FIB, MAIN, 8, 4_000, 4_000),
        ProfNode(NOBODY, PARSE, WORKER, 2, 6_000, 6_000),
    ]
    profile.arcs = [
        ProfArc(CALL, PARSE, 3, 10_000, 2_500),
        ProfArc(NOBODY, PARSE, 2, 6_000, 6_000),
        ProfArc(PARSE, STEP, 30, 7_500, 4_500),
        ProfArc(STEP, MUL, 60, 3_000, 3_000),
        ProfArc(CALL, FIB, 1, 5_000, 1_000),
        ProfArc(FIB, FIB, 8, 0, 4_000),
    ]
    profile.sums = [
        ProfSums(),
        ProfSums(5, 16_000, 8_500),
        ProfSums(30, 7_500, 4_500),
        ProfSums(9, 5_000, 5_000),
        ProfSums(60, 3_000, 3_000),
    ]
    profile.calls = 104
    return profile


def counted() -> Profile:
    """Return what --mode count knows: how often one function calls another."""
    profile = Profile(COMMAND, status=0, mode="count")
    profile.functions = functions()
    profile.threads = threads()
    profile.arcs = [
        ProfArc(CALL, PARSE, 3),
        ProfArc(PARSE, STEP, 10_000_000_000),
        ProfArc(STEP, MUL, 60),
        ProfArc(NOBODY, FIB, 1),
        ProfArc(FIB, FIB, 8),
    ]
    profile.sums = [
        ProfSums(),
        ProfSums(3),
        ProfSums(10_000_000_000),
        ProfSums(9),
        ProfSums(60),
    ]
    profile.calls = 10_000_000_072
    return profile


def sampled() -> Profile:
    """Return what --sample 100 knows: stacks of native and Python frames, the innermost first."""
    profile = Profile(COMMAND, status=0, sample_ns=10_000_000)
    profile.functions = functions()
    profile.sums = [ProfSums() for _ in profile.functions]
    profile.threads = threads()
    main = StackFrame(None, "main", None, "run.py", 7)
    run = StackFrame("libpython3.11.so", "run", 0x40)
    profile.samples = [
        ProfSample(MAIN, (StackFrame("libwork.so", "parse", 0x10), run, main), 4),
        ProfSample(MAIN, (run, main), 2),
        ProfSample(MAIN, (StackFrame("libwork.so", "parse", 0x18), run, main), 1),
        ProfSample(WORKER, (StackFrame("libwork.so", None, 0x1234),), 7),
    ]
    return profile


def both() -> Profile:
    """Return what a library's times and samples of all threads know together."""
    profile, seen = trees(), sampled()
    profile.samples, profile.sample_ns = seen.samples, seen.sample_ns
    return profile
