# SPDX-License-Identifier: Apache-2.0
"""Registers, system calls and code of x86-64, as needed to insert an agent."""

from __future__ import annotations

import ctypes
from struct import Struct

from soscope.entry import ptrace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MACHINE = 62  # as in model/arch.py, which a trace's start does not import
BITS = 64
AUDIT_ARCH = 0xC000_003E  # <linux/audit.h>

BREAKPOINT = b"\xcc"  # int3
BREAKPOINT_SIZE = 1  # pc is behind it after a hit
SYSCALL = b"\x0f\x05"
SYSCALL_AND_RETURN = b"\x0f\x05\xc3"

NR_CLOSE = 3
NR_MMAP = 9
NR_MPROTECT = 10
NR_MUNMAP = 11
NR_MREMAP = 25
NR_OPENAT = 257
NR_MEMFD_CREATE = 319
NR_PIDFD_OPEN = 434
NR_PIDFD_GETFD = 438

# System calls that soscope itself makes, and some that a thread may be in.
KCMP = 312
VFORK = 58
SIGPROCMASK = 14
RECVFROM = 45

# System calls that are made in a process with an agent, by name, including NR_….
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

# System calls by which a loader loads a library, and by which malloc gets memory for it.
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

# System calls that return EINTR after a stop. number -> (register of the time-out, its kind)
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
# System calls that return ERESTART_RESTARTBLOCK: the kernel goes on with restart_syscall(2).
RESTARTED = {
    7: ("rdx", MILLISECONDS),  # poll
    35: ("rdi", TIMESPEC),  # nanosleep
    202: ("r10", TIMESPEC),  # futex
    230: ("rdx", TIMESPEC),  # clock_nanosleep
}

# System calls in which a thread waits for something from outside. Neither an allocator nor a
# loader makes them. For a futex, `waits_outside` decides.
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
# Of these, calls by which code without other means waits for a lock. Which call restart_syscall
# continues is not known.
_PAUSES = frozenset((35, 230, 202, 219))
# Of these, calls that only a signal ends: pause, rt_sigsuspend.
FOR_SIGNALS = frozenset((34, 130))
_FUTEX = 202
_FUTEX_OPERATION = 0x7F
_FUTEX_WAIT, _FUTEX_WAIT_BITSET = 0, 9
_FUTEX_TIMED = frozenset((9, 0x80, 0x89))  # the last two with FUTEX_PRIVATE_FLAG
# The end of musl's __syscall_cp_asm, which makes the calls that pthread_cancel may end: mov
# %r11,8(%rsp); syscall
_CANCELLABLE = bytes.fromhex("4c895c2408 0f05")
# Code to which a signal handler returns: mov $15,%rax; syscall
RESTORER = bytes.fromhex("48c7c00f000000 0f05")
_RESTORER_SHORT = bytes.fromhex("b80f000000 0f05")  # mov $15,%eax; syscall
RESTORERS = (RESTORER, _RESTORER_SHORT)
# Offsets in `struct rt_sigframe`, from its pointer to the restorer: rsp, cs.
FRAME_SP, FRAME_CS, FRAME_SIZE = 168, 192, 200
SIGRETURN = 15
CONTEXT_BEHIND = 16  # bytes behind pc: flags and segments
_USER_CS = 0x33
_SAVED = 144  # bytes of registers and flags before them
_SEGMENTS = bytes.fromhex("3300 0000 0000 2b00")  # cs, gs, fs, ss
SLEEPS = {35: 0, 230: 2}  # -> index of the duration argument

_NT_PRFPREG, _NT_X86_XSTATE = 2, 0x202
_MOST_VECTORS = 1 << 15  # bytes; with AMX they are 11008
_LEGACY, _XSTATE_BV = 512, 512  # bytes of FXSAVE's area, offset of XSTATE_BV
_X87_AND_SSE = 3
_PROTECTION_KEYS = 1 << 9
_FCW, _MXCSR = 0x37F, 0x1F80  # psABI x86-64 §3.4.1
_MXCSR_AT = 24
# <asm/sigcontext.h>: struct _fpx_sw_bytes in the FXSAVE area, and the word behind the state
_SOFTWARE_AT, _SOFTWARE = 464, Struct("<IIQI28x")
_MAGIC1, _MAGIC2 = 0x4650_5853, (0x4650_5845).to_bytes(4, "little")
_TILE_DATA, _TILE_DATA_AT = 1 << 18, 2816  # AMX's state, which a thread may be forbidden to have

_COLUMNS = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip".split()
FP_COLUMN, SP_COLUMN, PC_COLUMN = 6, 7, 16

# For perf_event_open(2): the mask of wanted registers in its own numbers, and their columns in its
# order.
PERF_EVENT_OPEN = 298
PERF_MASK = 0x1FF | 0xFF << 16  # ax … ip, r8 … r15: <asm/perf_regs.h>
PERF_COLUMNS = (0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15)

RED_ZONE = 128  # psABI x86-64 §3.2.2
_DIRECTION_FLAG = 1 << 10
_ENDBR64 = b"\xf3\x0f\x1e\xfa"
_RET = b"\xc3"
_BREAK = b"\xcc"
_JUMP_SIZE = 5

EMPTY_FUNCTION_SIZE = 24  # bytes needed to recognize one, with the padding behind it


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
        """Return the values of all registers."""
        return memoryview(bytes(self)).cast("Q").tolist()

    def columns(self) -> dict[int, int | None]:
        """Return the values by the columns of unwind tables: psABI x86-64, figure 3.36."""
        return {number: int(getattr(self, name)) for number, name in enumerate(_COLUMNS)}

    def copy(self) -> Registers:
        """Return a copy."""
        return Registers.from_buffer_copy(self)

    # Names that every architecture has.

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
        """The thread pointer, from which a thread's own variables are addressed."""
        return int(self.fs_base)

    @property
    def result(self) -> int:
        """The signed result of a function or a system call."""
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


def set_syscall(
    registers: Registers, at: int, number: int, arguments: tuple[int, ...], stack: int = 0
) -> None:
    """Set the registers so that the next step is a system call. `at` is its instruction.

    With `stack`, a return instruction behind it takes its address from there.
    """
    registers.rip = at
    registers.rsp = stack or int(registers.rsp)
    registers.rax = number
    registers.orig_rax = 0xFFFF_FFFF_FFFF_FFFF  # else the kernel may restart an older call
    for name, value in zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), arguments, strict=False):
        setattr(registers, name, value & 0xFFFF_FFFF_FFFF_FFFF)


def is_entering(registers: Registers, number: int) -> bool:
    """Return whether a thread is stopped at the begin of this system call, not at its end."""
    return int(registers.orig_rax) == number and registers.result == -_ENOSYS


# The code by which qemu enters translated code (tcg_target_qemu_prologue): push %rbp, %rbx, %r12 …
# %r15
EMULATOR_ENTRY = bytes.fromhex("5553 4154 4155 4156 4157")

# Offsets in `struct user` of <sys/user.h>: u_debugreg[0] and [1] are addresses, [7] is the control
# register.
_DEBUG_ADDRS, _DEBUG_CONTROL = (848, 856), 904
_EXECUTED_HERE = (1, 4)  # Intel SDM 3B, 18.2.4: in this thread, an instruction


def stop_at(tid: int, *addrs: int) -> None:
    """Let a stopped thread stop at up to two instructions, by debug registers.

    It stops before the instruction, each time that it gets there. Its memory does not change, and
    children and threads that it makes do not stop. Raises OSError.
    """
    for place, addr in zip(_DEBUG_ADDRS, addrs, strict=False):
        ptrace.request(ptrace.POKEUSER, tid, place, addr)
    control = sum(_EXECUTED_HERE[: len(addrs)])
    ptrace.request(ptrace.POKEUSER, tid, _DEBUG_CONTROL, control)


def interrupted(stack: bytes) -> list[tuple[int, int, list[int]]]:
    """Return (pc, sp, all registers) of contexts that signal handlers on a stack interrupted.

    A signal frame has the registers, of which the last are rsp and rip, then the flags and a word
    with the segments (the kernel's `struct sigcontext_64`), by which it is recognized. Other data
    may match, too.
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
    """Return the lowest used addresses of these stacks, red zones included."""
    return [sp - RED_ZONE for _, sp, _ in interrupted(stack)]


def is_behind_syscall(code: bytes) -> bool:
    """Return whether the code before a thread's pc ends with a system call instruction."""
    return code.endswith(SYSCALL)


def branch_targets(code: bytes, addr: int) -> set[int]:
    """Return the targets of calls and jumps in the code at `addr`, and of bytes that look so.

    Only 32-bit displacements count, because nearer targets are in the same function.
    """
    targets = set()
    for at in range(len(code) - 4):
        if code[at] in (0xE8, 0xE9) or (at and code[at - 1] == 0x0F and code[at] >> 4 == 8):
            distance = int.from_bytes(code[at + 1 : at + 5], "little", signed=True)
            targets.add(addr + at + 5 + distance)
    return targets


def scratch(registers: Registers, size: int) -> int:
    """Return the address of `size` free bytes of stack, 64-aligned, below all used memory."""
    return (int(registers.rsp) - RED_ZONE - 4096 - size) & -64


def set_call(registers: Registers, function: int, argument: int, stack: int) -> None:
    """Set the registers so that the thread enters `function(argument)`, returning via `stack`.

    `stack` is the address of the return address. It must be 8 below a multiple of 16, as after a
    call instruction.
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
_ERESTARTNOHAND = 514  # linux/errno.h: EINTR if a handler runs, else a restart
_ERESTART_RESTARTBLOCK = 516
_WAITED = frozenset((-_EINTR, -512, -513, -_ERESTARTNOHAND, -_ERESTART_RESTARTBLOCK))
# Calls that must not be repeated: their EINTR means that the work is done.
_ONCE = frozenset((NR_CLOSE,))


def is_in_call(registers: Registers) -> bool:
    """Return whether a system call has brought a stopped thread into the kernel.

    Else an interrupt or an exception has (Linux, arch/x86/entry/entry_64.S: orig_ax is -1).
    """
    return int(registers.orig_rax) < 1 << 31


def waits(registers: Registers) -> bool:
    """Return whether a thread was in a system call that its stop has interrupted."""
    return int(registers.orig_rax) < 1 << 31 and registers.result in _WAITED


def waits_for_signal(registers: Registers) -> bool:
    """Return whether a stopped thread was in a system call that only a signal ends."""
    return waits(registers) and int(registers.orig_rax) in FOR_SIGNALS


def is_interrupted(registers: Registers) -> bool:
    """Return whether a stopped thread is at the end of a system call with result EINTR."""
    number = int(registers.orig_rax)
    return number < 1 << 31 and number not in _ONCE and registers.result == -_EINTR


def is_restarting(registers: Registers) -> bool:
    """Return whether a stopped thread will go on with restart_syscall(2)."""
    return int(registers.orig_rax) < 1 << 31 and registers.result == -_ERESTART_RESTARTBLOCK


def restart(registers: Registers) -> None:
    """Let the kernel restart an interrupted call, unless a signal handler runs first."""
    registers.rax = -_ERESTARTNOHAND & 0xFFFF_FFFF_FFFF_FFFF


def forget_restart(registers: Registers) -> None:
    """Prevent restart_syscall(2): the thread repeats its own call instead.

    If the call is not known, it returns EINTR.
    """
    if int(registers.orig_rax) == CALLS["restart_syscall"]:
        registers.rax = -_EINTR & 0xFFFF_FFFF_FFFF_FFFF
        registers.orig_rax = 0xFFFF_FFFF_FFFF_FFFF  # else the kernel would restart it
    else:
        restart(registers)


# Calls that a stop ends after a part of their work: the registers of the buffer, of its size in
# bytes, and of the position in the file.
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

    Return False if there is no rest, or if the rest needs more than other register values.
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
    """Set the result of a call whose rest was made: the parts' sum, even if the rest failed."""
    registers.rax = done + max(rest, 0)
    registers.orig_rax = 0xFFFF_FFFF_FFFF_FFFF


def waits_outside(registers: Registers, before: bytes, *, lends_pauses: bool = True) -> bool:
    """Return whether a stopped thread waits in a way in which no allocator or loader waits.

    `before` are the bytes before its program counter. With `lends_pauses`, a thread that only
    lets time pass counts, too.
    """
    number = int(registers.orig_rax)
    if not waits(registers):
        return False
    if number == _FUTEX:
        operation = int(registers.rsi) & _FUTEX_OPERATION
        # glibc's locks of malloc, stdio and loader use FUTEX_WAIT, and musl uses it for
        # everything.
        is_wait = operation == _FUTEX_WAIT_BITSET or (
            operation == _FUTEX_WAIT and before.endswith(_CANCELLABLE)
        )
        return is_wait and lends_pauses
    return number in _OUTSIDE and (lends_pauses or number not in _PAUSES)


def lock_waited_for(registers: Registers) -> int:
    """Return the address at which a waiting thread may wait for another one, 0 if it does not.

    It is the address of a futex, with or without a time-out.
    """
    if int(registers.orig_rax) == _FUTEX:
        return int(registers.rdi)
    # restart_syscall(2) does not tell which call it continues, but the arguments are still in the
    # registers.
    is_timed = is_restarting(registers) and int(registers.rsi) in _FUTEX_TIMED
    return int(registers.rdi) if is_timed else 0


def interrupted_sp(frame: bytes) -> int:
    """Return the stack pointer that a signal interrupted, 0 if this is no signal frame.

    `frame` are `FRAME_SIZE` bytes from the address of a restorer on.
    """
    if len(frame) < FRAME_SIZE:
        return 0
    if int.from_bytes(frame[FRAME_CS : FRAME_CS + 2], "little") != _USER_CS:
        return 0
    return int.from_bytes(frame[FRAME_SP : FRAME_SP + 8], "little")


def is_behind_interrupted_pc(behind: bytes) -> bool:
    """Return whether these bytes may follow the program counter in a signal frame.

    They are the flags, and then %cs, %gs, %fs and %ss (Linux, asm/sigcontext.h).
    """
    return behind[8:14] == _USER_CS.to_bytes(6, "little")


class Vectors:
    """A thread's state of x87, SSE, AVX and other extensions, in the kernel's layout."""

    __slots__ = ("_data", "_kind")

    def __init__(self, kind: int, data: bytes) -> None:
        self._kind = kind
        self._data = data

    @classmethod
    def of(cls, tid: int) -> Vectors:
        """Read the state of a stopped thread. Raises OSError."""
        try:
            return cls(_NT_X86_XSTATE, ptrace.register_set(tid, _NT_X86_XSTATE, _MOST_VECTORS))
        except ProcessLookupError:
            raise
        except OSError:  # a processor without XSAVE
            return cls(_NT_PRFPREG, ptrace.register_set(tid, _NT_PRFPREG, _LEGACY))

    def give(self, tid: int) -> None:
        """Give this state to a stopped thread. Raises OSError."""
        ptrace.set_register_set(tid, self._kind, self._data)

    def in_frame(self) -> bytes:
        """Return the state as the kernel wants it in a signal frame."""
        data = bytearray(self._data)
        if self._kind == _NT_PRFPREG:
            data[_SOFTWARE_AT:_LEGACY] = bytes(_LEGACY - _SOFTWARE_AT)
            return bytes(data)
        features = int.from_bytes(data[_SOFTWARE_AT : _SOFTWARE_AT + 8], "little")
        if not int.from_bytes(data[_XSTATE_BV : _XSTATE_BV + 8], "little") & _TILE_DATA:
            del data[_TILE_DATA_AT:]
            features &= ~_TILE_DATA
        size = len(data)
        data[_SOFTWARE_AT:_LEGACY] = _SOFTWARE.pack(_MAGIC1, size + len(_MAGIC2), features, size)
        return bytes(data) + _MAGIC2

    def fresh(self) -> Vectors:
        """Return the state in which a program starts, with the same protection keys."""
        data = bytearray(self._data)
        data[:_LEGACY] = bytes(_LEGACY)
        data[:2] = _FCW.to_bytes(2, "little")
        data[_MXCSR_AT : _MXCSR_AT + 4] = _MXCSR.to_bytes(4, "little")
        data[_MXCSR_AT + 4 : _MXCSR_AT + 8] = self._data[_MXCSR_AT + 4 : _MXCSR_AT + 8]
        if self._kind == _NT_X86_XSTATE:
            # The kernel's own data is at the end of the FXSAVE area.
            data[464:_LEGACY] = self._data[464:_LEGACY]
            had = int.from_bytes(data[_XSTATE_BV : _XSTATE_BV + 8], "little")
            has = _X87_AND_SSE | had & _PROTECTION_KEYS
            data[_XSTATE_BV : _XSTATE_BV + 8] = has.to_bytes(8, "little")
        return Vectors(self._kind, bytes(data))


# `struct rt_sigframe` of the kernel's asm/sigframe.h, by which rt_sigreturn(2) restores registers:
# the return address, then `struct ucontext` with its flags, no link, an invalid alternate stack
# (which leaves the thread's own as it is), the registers, the state's address and the signal mask.
_FRAME = Struct("<Q QQ QIIQ 18Q HHHH 4Q Q 64x Q")
_FRAME_FLAGS = 7  # UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS
_NO_STACK = 4  # ss_flags that sigaltstack(2) refuses
_IN_FRAME = "r8 r9 r10 r11 r12 r13 r14 r15 rdi rsi rbp rbx rdx rax rcx rsp rip eflags".split()


class SignalFrame:
    """A signal frame with which a thread goes on as if it had never been stopped.

    A system call that the stop has interrupted begins again, with the whole time-out. `registers`
    are those that the thread gets, and `size` is the number of bytes that a frame needs.
    """

    __slots__ = ("_mask", "_vectors", "registers", "size")

    def __init__(self, registers: Registers, mask: int, vectors: Vectors) -> None:
        self.registers = _begun_again(registers)
        self._mask = mask
        self._vectors = vectors.in_frame()
        self.size = _FRAME.size + 64 + len(self._vectors)

    def at(self, addr: int, returns_to: int) -> bytes:
        """Return the bytes of a frame at `addr`, which is 8 below a multiple of 16.

        A function that is called with this as its stack returns to `returns_to`. The code there
        has to call rt_sigreturn.
        """
        own = self.registers
        state = addr + _FRAME.size + 63 & -64
        words = [int(getattr(own, name)) for name in _IN_FRAME]
        segments = int(own.cs), 0, 0, int(own.ss)
        head = returns_to, _FRAME_FLAGS, 0, 0, _NO_STACK, 0, 0
        frame = _FRAME.pack(*head, *words, *segments, 0, 0, 0, 0, state, self._mask)
        return frame.ljust(state - addr, b"\0") + self._vectors


def _begun_again(registers: Registers) -> Registers:
    """Return the registers with which an interrupted call begins again, without the kernel."""
    own = registers.copy()
    if not waits(own) or int(own.orig_rax) in _ONCE:
        return own
    if int(own.orig_rax) == CALLS["restart_syscall"]:
        forget_restart(own)  # what it continued is not known
    else:
        own.rip = int(own.rip) - len(SYSCALL)
        own.rax = int(own.orig_rax)
    return own


# How the agent's `sosc_trap` stops a thread, if not by a signal.
TRAP_AT_SIGRETURN, TRAP_AT_BREAKPOINT = 0, -1


def set_trap(registers: Registers, how: int) -> None:
    """Set how the agent's `sosc_trap` stops: by a signal's number or a TRAP_ constant."""
    registers.r12 = how & 0xFFFF_FFFF


_TRAP_SIZE = 64  # bytes of `sosc_trap` at most


def is_at_trap(registers: Registers, trap: int) -> bool:
    """Return whether a thread is stopped in `sosc_trap`, or behind a breakpoint there."""
    return 0 < registers.pc - trap < _TRAP_SIZE


def result_at_trap(registers: Registers, trap: int) -> int:
    """Return the signed result of the function that has returned to `sosc_trap`."""
    value = registers.copy()
    if registers.pc - trap > BREAKPOINT_SIZE:
        value.rax = int(registers.rbx)
    return value.result


def leave_sigreturn(registers: Registers, trap: int) -> None:
    """At the begin of `sosc_trap`'s rt_sigreturn, make the kernel skip it, and come back to it."""
    skip_syscall(registers)
    registers.rip = trap
    set_trap(registers, TRAP_AT_SIGRETURN)


def skip_syscall(registers: Registers) -> None:
    """At the begin of a system call, make the kernel skip it."""
    registers.orig_rax = 0xFFFF_FFFF_FFFF_FFFF


def set_result(registers: Registers, value: int) -> None:
    """Set the result of a system call or function to `value`."""
    registers.rax = value & 0xFFFF_FFFF_FFFF_FFFF


def arguments(registers: Registers) -> tuple[int, ...]:
    """Return the arguments of the system call that a stopped thread is in."""
    return tuple(int(getattr(registers, name)) for name in ("rdi", "rsi", "rdx", "r10"))


def is_empty_function(code: bytes) -> bool:
    """Return whether `code` only returns. No other function may be replaced."""
    return code.startswith((_RET, _ENDBR64 + _RET))


def _nop_size(code: bytes) -> int:
    """Return the size of the padding instruction at the start of `code`, 0 if it is none."""
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
    """Return the 8 bytes that make the empty function at `at` jump to `to`, or None.

    `old` are the `EMPTY_FUNCTION_SIZE` bytes there now. Return None if the jump does not reach,
    if it would overwrite more than the function and the padding behind it, or if the 8 bytes are
    not one aligned word, because they could not be written at once.
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

    `code` are the bytes at run-time address `at`, and `word` reads 8 bytes at an address. The
    known forms are the four in which glibc and musl have been compiled. Return None for any other
    code.
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
