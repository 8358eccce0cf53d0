# SPDX-License-Identifier: Apache-2.0
"""What going into a process must know about x86-64."""

from __future__ import annotations

import ctypes

from soscope.entry import ptrace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MACHINE = 62  # as model/arch.py has it, which the start of a trace can do without
BITS = 64
AUDIT_ARCH = 0xC000_003E  # <linux/audit.h>

BREAKPOINT = b"\xcc"  # int3
BREAKPOINT_SIZE = 1  # the program counter stands behind it when it was hit
SYSCALL = b"\x0f\x05"

NR_CLOSE = 3
NR_MMAP = 9
NR_MPROTECT = 10
NR_MUNMAP = 11
NR_MREMAP = 25
NR_OPENAT = 257
NR_MEMFD_CREATE = 319
NR_PIDFD_OPEN = 434
NR_PIDFD_GETFD = 438

# what soscope calls itself, and what a thread may be in
KCMP = 312
VFORK = 58
SIGPROCMASK = 14
RECVFROM = 45

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
    "access": 21,
    "mremap": 25,
    "madvise": 28,
    "getpid": 39,
    "fcntl": 72,
    "gettid": 186,
    "getrusage": 98,
    "futex": 202,
    "restart_syscall": 219,
    "clock_gettime": 228,
    "openat": 257,
    "process_vm_readv": 310,
    "memfd_create": 319,
    "pidfd_open": 434,
    "pidfd_getfd": 438,
}

# what a loader calls to load a library, and malloc for it
LOADER_CALLS = {
    "read": 0,
    "close": 3,
    "fstat": 5,
    "mmap": 9,
    "mprotect": 10,
    "munmap": 11,
    "brk": 12,
    "pread64": 17,
    "getcwd": 79,
    "futex": 202,
    "openat": 257,
    "newfstatat": 262,
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

# Calls in which a thread waits for something from outside: neither an allocator nor a loader
# makes them. A futex is one of them only where `waits_outside` says so.
_OUTSIDE = frozenset(
    (
        # read poll pread64 readv select pause nanosleep accept recvfrom recvmsg wait4
        *(0, 7, 17, 19, 23, 34, 35, 43, 45, 47, 61),
        # semop msgrcv flock rt_sigtimedwait rt_sigsuspend io_getevents restart_syscall
        *(65, 70, 73, 128, 130, 208, 219),
        # semtimedop clock_nanosleep epoll_wait mq_timedreceive waitid pselect6 ppoll
        *(220, 230, 232, 243, 247, 270, 271),
        # epoll_pwait accept4 preadv recvmmsg io_pgetevents epoll_pwait2
        *(281, 288, 295, 299, 333, 441),
    )
)
# Of them, those by which a lock is waited for where nothing else is at hand; the number of what
# restart_syscall goes on with is not known.
_PAUSES = frozenset((35, 230, 202, 219))
# Of them, those that only a signal ends: pause, rt_sigsuspend.
FOR_SIGNALS = frozenset((34, 130))
_FUTEX = 202
_FUTEX_OPERATION = 0x7F
_FUTEX_WAIT, _FUTEX_WAIT_BITSET = 0, 9
_FUTEX_TIMED = frozenset((9, 0x80, 0x89))  # the last two with FUTEX_PRIVATE_FLAG
# the end of musl's __syscall_cp_asm, by which it makes calls that pthread_cancel may end:
# mov %r11,8(%rsp); syscall
_CANCELLABLE = bytes.fromhex("4c895c2408 0f05")
# what a signal handler returns to: mov $15,%rax; syscall
RESTORER = bytes.fromhex("48c7c00f000000 0f05")
_RESTORER_SHORT = bytes.fromhex("b80f000000 0f05")  # mov $15,%eax; syscall
RESTORERS = (RESTORER, _RESTORER_SHORT)
# `struct rt_sigframe` from the word that leads to the restorer: rsp, cs
FRAME_SP, FRAME_CS, FRAME_SIZE = 168, 192, 200
CONTEXT_BEHIND = 16  # bytes: flags and segments, behind the program counter
_USER_CS = 0x33
_SAVED = 144  # bytes of registers and flags in front of them
_SEGMENTS = bytes.fromhex("3300 0000 0000 2b00")  # cs, gs, fs, ss
SLEEPS = {35: 0, 230: 2}  # nanosleep, clock_nanosleep -> the argument that says how long

_NT_PRFPREG, _NT_X86_XSTATE = 2, 0x202
_MOST_VECTORS = 1 << 15  # bytes; with AMX they are 11008
_LEGACY, _XSTATE_BV = 512, 512  # bytes of the area that FXSAVE knows, place of XSTATE_BV
_X87_AND_SSE = 3
_PROTECTION_KEYS = 1 << 9
_FCW, _MXCSR = 0x37F, 0x1F80  # psABI x86-64 §3.4.1
_MXCSR_AT = 24

_COLUMNS = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()
FP_COLUMN, SP_COLUMN, PC_COLUMN = 6, 7, 16

# what perf_event_open(2) is asked for, by its own numbers, and the columns in its order
PERF_EVENT_OPEN = 298
PERF_MASK = 0x1FF | 0xFF << 16  # ax … ip, r8 … r15: <asm/perf_regs.h>
PERF_COLUMNS = (0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15)

RED_ZONE = 128  # psABI x86-64 §3.2.2
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

    def columns(self) -> dict[int, int | None]:
        """Return the values by the columns of unwind tables: psABI x86-64, figure 3.36."""
        return {number: int(getattr(self, name)) for number, name in enumerate(_COLUMNS)}

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
    def thread_pointer(self) -> int:
        """The address from which a thread's own variables are counted."""
        return int(self.fs_base)

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


def is_entering(registers: Registers, number: int) -> bool:
    """Return whether a thread has stopped at the beginning of this system call, not at its end."""
    return int(registers.orig_rax) == number and registers.result == -_ENOSYS


# how translated code of qemu is entered (tcg_target_qemu_prologue): push %rbp, %rbx, %r12 … %r15
EMULATOR_ENTRY = bytes.fromhex("5553 4154 4155 4156 4157")

# `struct user` of <sys/user.h>: u_debugreg[0] and [1] are addresses, [7] says what they are
_DEBUG_ADDRS, _DEBUG_CONTROL = (848, 856), 904
_EXECUTED_HERE = (1, 4)  # Intel SDM 3B, 18.2.4: in this thread, an instruction


def stop_at(tid: int, *addrs: int) -> None:
    """Have a stopped thread stop at up to two instructions, by its processor, and at no others.

    It stops before the instruction, once for each time that it gets there. Its memory does not
    change, and children and threads that it makes do not stop. Raises OSError.
    """
    for place, addr in zip(_DEBUG_ADDRS, addrs, strict=False):
        ptrace.request(ptrace.POKEUSER, tid, place, addr)
    control = sum(_EXECUTED_HERE[: len(addrs)])
    ptrace.request(ptrace.POKEUSER, tid, _DEBUG_CONTROL, control)


def interrupted(stack: bytes) -> list[tuple[int, int, list[int]]]:
    """Return (pc, sp, all registers) of what signal handlers on a stack have interrupted.

    And others. A frame has the registers, of which the last are rsp and rip, the flags, and a word
    with the segments (the kernel's `struct sigcontext_64`): that tells it.
    """
    contexts = []
    at = stack.find(_SEGMENTS)
    while at >= 0:
        if at % 8 == 0 and at >= 24:
            words = memoryview(stack)[max(at % 8, at - _SAVED) : at - 8].cast("Q").tolist()
            contexts.append((words[-1], words[-2], words))
        at = stack.find(_SEGMENTS, at + 1)
    return contexts


def interrupted_stacks(stack: bytes) -> list[int]:
    """Return where these stacks are in use from, red zones included."""
    return [sp - RED_ZONE for _, sp, _ in interrupted(stack)]


def is_behind_syscall(code: bytes) -> bool:
    """Return whether the code in front of a thread's pc ends in a system call's instruction."""
    return code.endswith(SYSCALL)


def branch_targets(code: bytes, addr: int) -> set[int]:
    """Return where calls and jumps in the code at `addr` lead, and what else looks like these.

    Those whose distance has 32 bits: nearer places are in the same function.
    """
    targets = set()
    for at in range(len(code) - 4):
        if code[at] in (0xE8, 0xE9) or (at and code[at - 1] == 0x0F and code[at] >> 4 == 8):
            distance = int.from_bytes(code[at + 1 : at + 5], "little", signed=True)
            targets.add(addr + at + 5 + distance)
    return targets


def scratch(registers: Registers, size: int) -> int:
    """Return the address of `size` free bytes of stack, 64-aligned, below anything in use."""
    return (int(registers.rsp) - RED_ZONE - 4096 - size) & -64


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


_EINTR, _ENOSYS = 4, 38
_ERESTARTNOHAND = 514  # linux/errno.h: EINTR if a handler runs, else the call is made again
_ERESTART_RESTARTBLOCK = 516
_WAITED = frozenset((-_EINTR, -512, -513, -_ERESTARTNOHAND, -_ERESTART_RESTARTBLOCK))
# A call that must not be made twice: its EINTR says that it has done its work.
_ONCE = frozenset((NR_CLOSE,))


def waits(registers: Registers) -> bool:
    """Return whether a stopped thread has been in a system call that the stop has interrupted."""
    return int(registers.orig_rax) < 1 << 31 and registers.result in _WAITED


def waits_for_signal(registers: Registers) -> bool:
    """Return whether a stopped thread has been in a system call that only a signal ends."""
    return waits(registers) and int(registers.orig_rax) in FOR_SIGNALS


def is_interrupted(registers: Registers) -> bool:
    """Return whether a stopped thread is at the end of a system call that says EINTR."""
    number = int(registers.orig_rax)
    return number < 1 << 31 and number not in _ONCE and registers.result == -_EINTR


def is_restarting(registers: Registers) -> bool:
    """Return whether a stopped thread is to go on with restart_syscall(2)."""
    return int(registers.orig_rax) < 1 << 31 and registers.result == -_ERESTART_RESTARTBLOCK


def restart(registers: Registers) -> None:
    """Let the kernel make an interrupted call again, unless a handler runs first."""
    registers.rax = -_ERESTARTNOHAND & 0xFFFF_FFFF_FFFF_FFFF


def forget_restart(registers: Registers) -> None:
    """Let a thread not go on with restart_syscall(2): it makes its own call again.

    Where that is not known the call says EINTR.
    """
    if int(registers.orig_rax) == CALLS["restart_syscall"]:
        registers.rax = -_EINTR & 0xFFFF_FFFF_FFFF_FFFF
        registers.orig_rax = 0xFFFF_FFFF_FFFF_FFFF  # or it would be mended
    else:
        restart(registers)


# Calls that a stop ends when they have done a part: the registers of a buffer and of its size in
# bytes, and of a place in the file.
_PARTIAL = {
    1: ("rsi", "rdx", ""),  # write
    18: ("rsi", "rdx", "r10"),  # pwrite64
    40: ("", "r10", ""),  # sendfile
    44: ("rsi", "rdx", ""),  # sendto
    45: ("rsi", "rdx", ""),  # recvfrom, with MSG_WAITALL
    275: ("", "r8", ""),  # splice
    318: ("rdi", "rsi", ""),  # getrandom
    326: ("", "r8", ""),  # copy_file_range
}
_MSG_WAITALL = 0x100


def set_rest(registers: Registers) -> bool:
    """Let a stopped thread make the rest of a call of which it has done a part.

    False: there is none, or its rest cannot be made by registers alone.
    """
    number, done = int(registers.orig_rax), registers.result
    if number not in _PARTIAL or done <= 0:
        return False
    if number == RECVFROM and not int(registers.r10) & _MSG_WAITALL:
        return False
    buffer, size, place = _PARTIAL[number]
    if done >= int(getattr(registers, size)):
        return False
    setattr(registers, size, int(getattr(registers, size)) - done)
    for name in filter(None, (buffer, place)):
        setattr(registers, name, int(getattr(registers, name)) + done)
    registers.rip = int(registers.rip) - len(SYSCALL)
    registers.rax = number
    registers.orig_rax = 0xFFFF_FFFF_FFFF_FFFF
    return True


def join(registers: Registers, done: int, rest: int) -> None:
    """Give the result of a call whose rest has been made: what was done stays done."""
    registers.rax = done + max(rest, 0)
    registers.orig_rax = 0xFFFF_FFFF_FFFF_FFFF


def waits_outside(registers: Registers, before: bytes, *, lends_pauses: bool = True) -> bool:
    """Return whether a stopped thread waits as no allocator and no loader does.

    `before` are the bytes in front of its program counter. `lends_pauses`: who only lets time
    go by is such a one, too.
    """
    number = int(registers.orig_rax)
    if not waits(registers):
        return False
    if number == _FUTEX:
        operation = int(registers.rsi) & _FUTEX_OPERATION
        # glibc's locks of malloc, stdio and loader use FUTEX_WAIT; musl does so for everything
        is_wait = operation == _FUTEX_WAIT_BITSET or (
            operation == _FUTEX_WAIT and before.endswith(_CANCELLABLE)
        )
        return is_wait and lends_pauses
    return number in _OUTSIDE and (lends_pauses or number not in _PAUSES)


def lock_waited_for(registers: Registers) -> int:
    """Return where a thread that waits may wait for another thread; 0: it does not.

    That is the address of a futex, with a time-out or without.
    """
    if int(registers.orig_rax) == _FUTEX:
        return int(registers.rdi)
    # restart_syscall(2) does not say what it goes on with; its arguments are still there
    is_timed = is_restarting(registers) and int(registers.rsi) in _FUTEX_TIMED
    return int(registers.rdi) if is_timed else 0


def interrupted_sp(frame: bytes) -> int:
    """Return the stack pointer that a handler was called with; 0: this is no signal frame.

    `frame` are the `FRAME_SIZE` bytes where an address of a restorer stands.
    """
    if len(frame) < FRAME_SIZE:
        return 0
    if int.from_bytes(frame[FRAME_CS : FRAME_CS + 2], "little") != _USER_CS:
        return 0
    return int.from_bytes(frame[FRAME_SP : FRAME_SP + 8], "little")


def is_behind_interrupted_pc(behind: bytes) -> bool:
    """Return whether these bytes can stand behind the program counter in a signal frame.

    They are the flags, and then %cs, %gs, %fs and %ss (Linux, asm/sigcontext.h).
    """
    return behind[8:14] == _USER_CS.to_bytes(6, "little")


class Vectors:
    """The state of x87, SSE, AVX and whatever else a thread has, in the kernel's layout."""

    __slots__ = ("_data", "_kind")

    def __init__(self, kind: int, data: bytes) -> None:
        self._kind = kind
        self._data = data

    @classmethod
    def of(cls, tid: int) -> Vectors:
        """Read it of a stopped thread. Raises OSError."""
        try:
            return cls(_NT_X86_XSTATE, ptrace.register_set(tid, _NT_X86_XSTATE, _MOST_VECTORS))
        except ProcessLookupError:
            raise
        except OSError:  # a processor without XSAVE
            return cls(_NT_PRFPREG, ptrace.register_set(tid, _NT_PRFPREG, _LEGACY))

    def give(self, tid: int) -> None:
        """Let a stopped thread have this state. Raises OSError."""
        ptrace.set_register_set(tid, self._kind, self._data)

    def fresh(self) -> Vectors:
        """Return the state in which a program starts, with the same protection keys."""
        data = bytearray(self._data)
        data[:_LEGACY] = bytes(_LEGACY)
        data[:2] = _FCW.to_bytes(2, "little")
        data[_MXCSR_AT : _MXCSR_AT + 4] = _MXCSR.to_bytes(4, "little")
        data[_MXCSR_AT + 4 : _MXCSR_AT + 8] = self._data[_MXCSR_AT + 4 : _MXCSR_AT + 8]
        if self._kind == _NT_X86_XSTATE:
            # what the kernel says of itself lies at the end of the old area
            data[464:_LEGACY] = self._data[464:_LEGACY]
            had = int.from_bytes(data[_XSTATE_BV : _XSTATE_BV + 8], "little")
            has = _X87_AND_SSE | had & _PROTECTION_KEYS
            data[_XSTATE_BV : _XSTATE_BV + 8] = has.to_bytes(8, "little")
        return Vectors(self._kind, bytes(data))


def skip_syscall(registers: Registers) -> None:
    """At the beginning of a system call: let the kernel make none."""
    registers.orig_rax = 0xFFFF_FFFF_FFFF_FFFF


def set_result(registers: Registers, value: int) -> None:
    """Let a system call, or a function, have returned `value`."""
    registers.rax = value & 0xFFFF_FFFF_FFFF_FFFF


def arguments(registers: Registers) -> tuple[int, ...]:
    """Return the arguments of the system call that a stopped thread is in."""
    return tuple(int(getattr(registers, name)) for name in ("rdi", "rsi", "rdx", "r10"))


def is_empty_function(code: bytes) -> bool:
    """Return whether `code` does nothing but return: the only thing we dare to replace."""
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
