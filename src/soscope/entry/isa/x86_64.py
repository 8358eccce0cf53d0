# SPDX-License-Identifier: Apache-2.0
"""What going into a process must know about x86-64."""

from __future__ import annotations

import ctypes
from _collections_abc import Callable

from soscope.entry import ptrace

MACHINE = 62  # as model/arch.py has it, which the start of a trace can do without
BITS = 64
AUDIT_ARCH = 0xC000_003E  # <linux/audit.h>

BREAKPOINT = b"\xcc"  # int3
BREAKPOINT_SIZE = 1  # the program counter stands behind it when it was hit
SYSCALL = b"\x0f\x05"

NR_CLOSE = 3
NR_MMAP = 9
NR_MUNMAP = 11
NR_OPENAT = 257
NR_MEMFD_CREATE = 319
NR_PIDFD_OPEN = 434
NR_PIDFD_GETFD = 438

# what soscope calls itself, and what a thread may be in
KCMP = 312
VFORK = 58

# what is called in a process with an agent, by name; NR_… are among them
CALLS = {
    "read": 0,
    "open": 2,
    "close": 3,
    "mmap": 9,
    "mprotect": 10,
    "munmap": 11,
    "rt_sigprocmask": 14,
    "pread64": 17,
    "pwrite64": 18,
    "mremap": 25,
    "madvise": 28,
    "getpid": 39,
    "fcntl": 72,
    "gettid": 186,
    "futex": 202,
    "restart_syscall": 219,
    "clock_gettime": 228,
    "openat": 257,
    "process_vm_readv": 310,
    "memfd_create": 319,
    "pidfd_open": 434,
    "pidfd_getfd": 438,
}

# A stop makes these return EINTR. number -> (register of the time-out, its kind)
MILLISECONDS, TIMESPEC = "ms", "timespec"
TIMED = {
    232: ("r10", MILLISECONDS),  # epoll_wait
    281: ("r10", MILLISECONDS),  # epoll_pwait
    441: ("r10", TIMESPEC),  # epoll_pwait2
    220: ("r10", TIMESPEC),  # semtimedop
    128: ("rdx", TIMESPEC),  # rt_sigtimedwait
    208: ("r8", TIMESPEC),  # io_getevents
    333: ("r8", TIMESPEC),  # io_pgetevents
}
# These say ERESTART_RESTARTBLOCK: the kernel goes on with restart_syscall(2).
RESTARTED = {
    7: ("rdx", MILLISECONDS),  # poll
    35: ("rdi", TIMESPEC),  # nanosleep
    202: ("r10", TIMESPEC),  # futex
    230: ("rdx", TIMESPEC),  # clock_nanosleep
}

_RED_ZONE = 128  # psABI x86-64 §3.2.2
_DIRECTION_FLAG = 1 << 10
_ENDBR64 = b"\xf3\x0f\x1e\xfa"
_RET = b"\xc3"
_BREAK = b"\xcc"
_JUMP_SIZE = 5

EMPTY_FUNCTION_SIZE = 24  # bytes to look at to know one, and the padding behind it


class Registers(ctypes.Structure):
    """`struct user_regs_struct` of <sys/user.h>."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags "
            "rsp ss fs_base gs_base ds es fs gs"
        ).split()
    ]

    def words(self) -> list[int]:
        """Return the values of all of them."""
        return memoryview(bytes(self)).cast("Q").tolist()

    def copy(self) -> Registers:
        """Return a copy."""
        return Registers.from_buffer_copy(self)

    # What every architecture has, under one name.

    @property
    def pc(self) -> int:
        """The program counter."""
        return int(self.rip)

    @pc.setter
    def pc(self, value: int) -> None:
        self.rip = value

    @property
    def sp(self) -> int:
        """The stack pointer."""
        return int(self.rsp)

    @property
    def result(self) -> int:
        """What a function or a system call returned, signed."""
        value = int(self.rax)
        return value - (1 << 64) if value >> 63 else value


def get_registers(tid: int) -> Registers:
    """Read the registers of a stopped thread.

    Raises OSError.
    """
    registers = Registers()
    ptrace.request(ptrace.GETREGS, tid, None, ctypes.byref(registers))
    return registers


def set_registers(tid: int, registers: Registers) -> None:
    """Replace the registers of a stopped thread.

    Raises OSError.
    """
    ptrace.request(ptrace.SETREGS, tid, None, ctypes.byref(registers))


def set_syscall(registers: Registers, at: int, number: int, arguments: tuple[int, ...]) -> None:
    """Let the next step make a system call; `at` is the address of a syscall instruction."""
    registers.rip = at
    registers.rax = number
    registers.orig_rax = 0xFFFF_FFFF_FFFF_FFFF  # or the kernel may restart an older call
    for name, value in zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), arguments, strict=False):
        setattr(registers, name, value & 0xFFFF_FFFF_FFFF_FFFF)


def scratch(registers: Registers, size: int) -> int:
    """Return the address of `size` free bytes of stack, 64-aligned, below anything in use."""
    return (int(registers.rsp) - _RED_ZONE - 4096 - size) & -64


def set_call(registers: Registers, function: int, argument: int, stack: int) -> None:
    """Let the thread enter `function(argument)` with its return address at `stack`.

    `stack` must be 8 below a multiple of 16, as it is behind a call instruction.
    """
    registers.rip = function
    registers.rdi = argument
    registers.rsp = stack
    registers.rax = 0
    registers.orig_rax = 0xFFFF_FFFF_FFFF_FFFF
    registers.eflags &= ~_DIRECTION_FLAG


def set_return(registers: Registers, return_addr: int) -> None:
    """Do what the return instruction does, at a function's first instruction."""
    registers.rip = return_addr
    registers.rsp += 8


_EINTR = 4
_ERESTARTNOHAND = 514  # linux/errno.h: EINTR if a handler runs, else the call is made again
_ERESTART_RESTARTBLOCK = 516
_WAITED = frozenset((-_EINTR, -512, -513, -_ERESTARTNOHAND, -_ERESTART_RESTARTBLOCK))
# A call that must not be made twice: its EINTR says that it has done its work.
_ONCE = frozenset((NR_CLOSE,))


def waits(registers: Registers) -> bool:
    """Say whether a stopped thread has been in a system call that the stop has interrupted."""
    return int(registers.orig_rax) < 1 << 31 and registers.result in _WAITED


def is_interrupted(registers: Registers) -> bool:
    """Say whether a stopped thread is at the end of a system call that says EINTR."""
    number = int(registers.orig_rax)
    return number < 1 << 31 and number not in _ONCE and registers.result == -_EINTR


def is_restarting(registers: Registers) -> bool:
    """Say whether a stopped thread is to go on with restart_syscall(2)."""
    return int(registers.orig_rax) < 1 << 31 and registers.result == -_ERESTART_RESTARTBLOCK


def restart(registers: Registers) -> None:
    """Let the kernel make an interrupted call again, unless a handler runs first."""
    registers.rax = -_ERESTARTNOHAND & 0xFFFF_FFFF_FFFF_FFFF


def is_empty_function(code: bytes) -> bool:
    """Say whether `code` does nothing but return: the only thing we dare to replace."""
    return code.startswith((_RET, _ENDBR64 + _RET))


def _nop_size(code: bytes) -> int:
    """Return the size of the padding instruction that `code` starts with, 0 for another one."""
    if code[:1] in (b"\x90", _BREAK):
        return 1
    prefixes = len(code) - len(code.lstrip(b"\x66\x2e"))
    rest = code[prefixes:]
    if prefixes and rest[:1] == b"\x90":
        return prefixes + 1
    if rest[:2] != b"\x0f\x1f":
        return 0
    # By ModRM: (%rax), 8(%rax), 8(%rax,%rax), 32(%rax), 32(%rax,%rax).
    size = {0x00: 3, 0x40: 4, 0x44: 5, 0x80: 7, 0x84: 8}.get(rest[2] if len(rest) > 2 else -1, 0)
    return prefixes + size if size else 0


def jump(at: int, to: int, old: bytes) -> bytes | None:
    """Return the 8 bytes that make the empty function at `at` jump to `to`.

    `old` are the `EMPTY_FUNCTION_SIZE` bytes there now. None where the jump does not reach,
    where it would overwrite more than the function and the padding behind it, and where the
    8 bytes are not one aligned word, which could not be written at once.
    """
    distance = to - (at + _JUMP_SIZE)
    if at % 8 or not is_empty_function(old) or not -(1 << 31) <= distance < 1 << 31:
        return None
    end = len(_RET) if old.startswith(_RET) else len(_ENDBR64 + _RET)
    while end < _JUMP_SIZE:
        size = _nop_size(old[end:])
        if not size:
            return None
        end += size
    return b"\xe9" + distance.to_bytes(4, "little", signed=True) + old[5:8]


def errno_offset(code: bytes, at: int, word: Callable[[int], int]) -> int | None:
    """Return errno's offset from the thread pointer, from the code of `__errno_location`.

    `code` are the bytes at run-time address `at`, `word` reads 8 bytes at an address. Known
    are the four ways in which glibc and musl have been compiled; None for anything else.
    """
    skip = 4 if code.startswith(_ENDBR64) else 0
    code, at = code[skip:], at + skip
    fs_add = bytes.fromhex("64480304 25 00000000")  # add %fs:0,%rax
    fs_load = bytes.fromhex("64488b04 25 00000000")  # mov %fs:0,%rax

    def number(piece: bytes) -> int:
        return int.from_bytes(piece, "little", signed=True)

    def signed_word(addr: int) -> int:
        return number(word(addr).to_bytes(8, "little"))

    if code[:3] == b"\x48\x8b\x05" and code[7:17] == fs_add + _RET:
        return signed_word(at + 7 + number(code[3:7]))  # mov off(%rip),%rax; add
    if code[:3] == b"\x48\xc7\xc0" and code[7:17] == fs_add + _RET:
        return number(code[3:7])  # mov $off,%rax; add
    if code[:9] == fs_load:
        tail = code[9:]
        if tail[:3] == b"\x48\x03\x05" and tail[7:8] == _RET:
            return signed_word(at + 16 + number(tail[3:7]))  # add off(%rip),%rax
        if tail[:3] in (b"\x48\x83\xc0", b"\x48\x8d\x40") and tail[4:5] == _RET:
            return number(tail[3:4])  # add $off,%rax; lea off(%rax),%rax
        if tail[:2] == b"\x48\x05" and tail[6:7] == _RET:
            return number(tail[2:6])  # add $off,%rax
        if tail[:3] == b"\x48\x8d\x80" and tail[7:8] == _RET:
            return number(tail[3:7])  # lea off(%rax),%rax
    return None
