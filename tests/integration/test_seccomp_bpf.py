# SPDX-License-Identifier: Apache-2.0
"""The verdict of a seccomp filter, as soscope works it out and as the kernel gives it."""

from __future__ import annotations

import errno
import random
import struct
import sys

import pytest

from soscope.entry import seccomp
from soscope.entry.isa import arch
from tests.support.processes.run import run

_NUMBER = 1000  # no system call has it
_ALLOW = (0x06, 0, 0, seccomp.ALLOW)
_REFUSED = 1099  # no call gives it

# BPF_ALU with a constant and with X, loads of the call's words, memory, moves
_ALU = [0x04, 0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0x94, 0xA4]
_JUMPS = [0x15, 0x25, 0x35, 0x45]


def packed(code: seccomp.Code) -> bytes:
    return b"".join(struct.pack("=HBBI", *one) for one in code)


def random_code(chance: random.Random) -> seccomp.Code:
    """Make a filter that calculates something of a call's words, and answers with it."""
    body: seccomp.Code = []
    for _ in range(chance.randint(1, 25)):
        k = chance.choice([0, 1, 2, 31, 32, 255, 0xFFFF, 1 << 31, 0xFFFF_FFFF])
        kind = chance.randrange(7)
        if kind == 0:
            body.append((0x20, 0, 0, chance.choice([0, 4, *range(16, 64, 4)])))
        elif kind == 1:
            op = chance.choice(_ALU)
            if op in (0x34, 0x94):
                k = max(k, 1)
            body.append((op, 0, 0, k % 32 if op in (0x64, 0x74) else k))
        elif kind == 2:
            # not by X: the kernel ends the filter where that is 0
            body.append((chance.choice([0x0C, 0x1C, 0x2C, 0x4C, 0x5C, 0xAC]), 0, 0, 0))
        elif kind == 3:
            body.append((chance.choice([0x07, 0x87, 0x84]), 0, 0, 0))
        elif kind == 4:
            place = chance.randrange(16)
            body += [(chance.choice([0x02, 0x03]), 0, 0, place)]
            body += [(chance.choice([0x60, 0x61]), 0, 0, place)]
        elif kind == 5:
            body.append((chance.choice([0x00, 0x01, 0x80, 0x81]), 0, 0, k))
        else:
            body += [(chance.choice(_JUMPS), 1, 0, k), (0x87, 0, 0, 0), (0x04, 0, 0, 7)]
    end = [(0x54, 0, 0, 0xFF), (0x04, 0, 0, 1), (0x44, 0, 0, seccomp.ERRNO), (0x16, 0, 0, 0)]
    return [(0x20, 0, 0, 0), (0x15, 1, 0, _NUMBER), _ALLOW, *body, *end]


# Reads lines of a filter in hexadecimal and six arguments; prints the error that a call gets under
# each filter, REFUSED where the kernel takes none. Each one is for a child, which it ends with. The
# children are forked here because a process that runs tests is large, and is slow to fork.
ASKS = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
for line in sys.stdin:
    code, *arguments = line.split()
    data = bytes.fromhex(code)
    child = os.fork()
    if not child:
        buffer = ctypes.create_string_buffer(data)
        program = struct.pack("=HxxxxxxQ", len(data) // 8, ctypes.addressof(buffer))
        words = [ctypes.c_uint64(int(one)) for one in arguments]
        answer = "REFUSED"
        libc.prctl(38, 1, 0, 0, 0)
        if libc.prctl(22, 2, program) == 0:
            libc.syscall(NUMBER, *words)
            answer = str(ctypes.get_errno())
        os.write(1, answer.encode() + b"\\n")
        os._exit(0)
    os.waitpid(child, 0)
"""


def kernel_says(asked: list[tuple[seccomp.Code, list[int]]]) -> list[int]:
    """Return the errors that calls get under filters; _REFUSED where a filter is none."""
    script = ASKS.replace("NUMBER", str(_NUMBER)).replace("REFUSED", str(_REFUSED))
    lines = [" ".join([packed(code).hex(), *map(str, words)]) for code, words in asked]
    done = run([sys.executable, "-I", "-S", "-c", script], input="\n".join(lines))
    assert (done.returncode, done.stderr) == (0, "")
    return [int(line) for line in done.stdout.splitlines()]


def test_the_kernel_agrees() -> None:
    chance = random.Random(5)
    asked = [(random_code(chance), [chance.getrandbits(64) for _ in range(6)]) for _ in range(150)]
    compared = 0
    for (code, arguments), truth in zip(asked, kernel_says(asked), strict=True):
        if truth == _REFUSED:
            continue
        words = seccomp.seccomp_data(_NUMBER, arch.AUDIT_ARCH, dict(enumerate(arguments)))
        assert seccomp.verdicts_of(seccomp.parse(packed(code)), words) == {seccomp.ERRNO | truth}
        compared += 1
        some = dict(list(enumerate(arguments))[:2])
        assert seccomp.ERRNO | truth in _verdicts(code, some)
        assert seccomp.ERRNO | truth in _verdicts(code, {})
    assert compared > 120


def _verdicts(code: seccomp.Code, known: dict[int, int]) -> set[int]:
    """Return what may be said where only some arguments are known; all where nobody knows."""
    try:
        return seccomp.verdicts_of(code, seccomp.seccomp_data(_NUMBER, arch.AUDIT_ARCH, known))
    except seccomp.TooLong:
        return set(range(seccomp.ERRNO, seccomp.ERRNO + 4096))


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ([_ALLOW], None),
        ([(0x06, 0, 0, seccomp.LOG)], None),
        ([(0x06, 0, 0, 0x8000_0000)], "kills its process for open"),
        ([(0x06, 0, 0, 0x7FF0_0000)], "asks its tracer for open"),
        ([(0x06, 0, 0, 0x1234_0000)], "kills it for open"),
        ([(0x20, 0, 0, 0)], "too complicated"),  # has no end
        ([(0x20, 0, 0, 16), (0x16, 0, 0, 0)], "too complicated"),
        (
            [(0x20, 0, 0, 16), (0x15, 0, 1, 5), (0x06, 0, 0, 0), _ALLOW],
            "may depend on arguments, and kills its thread for open",
        ),
        ([(0x20, 0, 0, 32), (0x15, 0, 1, 7), (0x06, 0, 0, 0), _ALLOW], "open"),
    ],
)
def test_what_is_said_of_a_filter(code: seccomp.Code, said: str | None) -> None:
    found = seccomp.objection([packed([_ALLOW]), packed(code)])
    assert (found is None) == (said is None)
    if said is not None:
        assert found is not None
        assert said in found


def test_an_argument_that_is_known_decides() -> None:
    """mmap is never asked for memory that is writable and executable."""
    head = [(0x20, 0, 0, 0), (0x15, 0, 3, 9), (0x20, 0, 0, 32)]
    assert seccomp.objection([packed([*head, (0x15, 0, 1, 7), (0x06, 0, 0, 0), _ALLOW])]) is None
    found = seccomp.objection([packed([*head, (0x15, 0, 1, 3), (0x06, 0, 0, 0), _ALLOW])])
    assert found == "its seccomp filter kills its thread for mmap"


def test_errors_that_do_no_harm() -> None:
    def answers(number: int, error: int) -> str | None:
        end = [(0x06, 0, 0, seccomp.ERRNO | error), _ALLOW]
        return seccomp.objection([packed([(0x20, 0, 0, 0), (0x15, 0, 1, number), *end])])

    assert answers(310, errno.EPERM) is None
    assert answers(310, errno.EIO) is not None
    assert answers(319, errno.EIO) is None
    assert answers(219, errno.EPERM) == "its seccomp filter answers restart_syscall with EPERM"
