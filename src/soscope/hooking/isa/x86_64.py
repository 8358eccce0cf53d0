# SPDX-License-Identifier: Apache-2.0
"""Machine code of x86-64 for hooked slots: bytes, and the instructions that they encode.

A slot leads to a *thunk* of its own, which jumps to the address in its data. The data is
exchanged, but the code never changes. A thread that still has a thunk's address goes to the
original after the hook has ended. All thunks share the code in `TEXT`. A test assembles the
instructions and compares the bytes.

While a thread is in a Python callable, its thread pointer (`fs:0`) is in a place of a row of the
table. Calls of such a thread go straight to the originals, also the calls of the interpreter on
its way to the callable or back. While the callable calls an original, the word in the place is
the thread pointer plus one, so that no other thread takes the place. Each place has a companion:
the address of the data of the thunk that was called.
"""

from __future__ import annotations

from struct import pack

PAGE = 4096
WORD = 8
UNAME = "x86_64"  # the processor, as in uname(2)

# Fields of the data of a thunk: offsets of 8-byte words.
TARGET = 0  # address that the thunk jumps to
ORIGINAL = 8  # address for calls that the callable does not get
CLOSURE = 16  # address of the ctypes callback of the Python callable
ACTIVE = 24  # 0: the hook has ended
IN_FLIGHT = 32  # number of threads between `entry` and its end
CHECK = 40  # 1: only threads that hold the GIL call the callable
STACK_WORDS = 48  # words of arguments on the stack, rounded up to an even number
HOOK = 56  # number of the hook
SESSION_AT = 64  # address of the count of the tracer's sessions
SESSION = 72  # the count of sessions when the hook began
TRACED = 80  # address of the tracer's trampoline
UNTRACED = 88  # address for calls if the count of sessions has changed
DATA_SIZE = 128

# A chunk of thunks: a page of code, then their data.
THUNK_SIZE = 64
THUNKS = PAGE // THUNK_SIZE
CHUNK_SIZE = PAGE + THUNKS * DATA_SIZE
WAY = 16  # offset in a thunk of the code that calls a tracer's trampoline

# Data of the shared code, behind its page.
PID = PAGE  # pid of the process whose interpreter this is
CROWDED = PAGE + 8  # number of calls that found no place in the table
HOLDS_GIL = PAGE + 16  # address of PyGILState_Check
TABLE = 2 * PAGE  # rows of thread pointers, then as many companions
ROWS, PLACES = 256, 16
COMPANIONS = ROWS * PLACES * 8  # distance from a place to its companion
TEXT_SIZE = TABLE + 2 * COMPANIONS

# A request to `write`: bias of the image, address, old word, new word, the word before the store,
# page, whether to make the page writable, and its protection afterwards.
REQUEST = "<6Q2I"

TEXT = """
# ---- entry: into a Python callable, unless this thread is in one already. r11 is the data
# of the thunk. What fails a look goes to the original as if there were no thunk.
                       entry:
f30f1efa               endbr64
55                     push rbp
4889e5                 mov rbp, rsp
53                     push rbx
4154                   push r12
4155                   push r13
4151                   push r9
4150                   push r8
51                     push rcx
52                     push rdx
56                     push rsi
57                     push rdi
50                     push rax
4c89db                 mov rbx, r11
f048ff4320             lock inc qword ptr [rbx + 32]
48837b1800             cmp qword ptr [rbx + 24], 0
0f84dc000000           je pass
b827000000             mov eax, 39
0f05                   syscall
4c8d2dc90f0000         lea r13, [rip + common]
413b4500               cmp eax, dword ptr [r13]
0f85c4000000           jne pass
64488b142500000000     mov rdx, qword ptr fs:[0]
49bc157c4a7fb979379e   movabs r12, 0x9e3779b97f4a7c15
4c0fafe2               imul r12, rdx
49c1ec38               shr r12, 56
49c1e407               shl r12, 7
488d05991f0000         lea rax, [rip + table]
4901c4                 add r12, rax
b910000000             mov ecx, 16
493954ccf8             1: cmp qword ptr [r12 + rcx*8 - 8], rdx
0f848b000000           je pass
ffc9                   dec ecx
75f1                   jne 1b
b910000000             mov ecx, 16
31c0                   2: xor eax, eax
f0490fb154ccf8         lock cmpxchg qword ptr [r12 + rcx*8 - 8], rdx
740b                   je 3f
ffc9                   dec ecx
75f1                   jne 2b
f049ff4508             lock inc qword ptr [r13 + 8]
eb6c                   jmp pass
4d8d64ccf8             3: lea r12, [r12 + rcx*8 - 8]
49899c2400800000       mov qword ptr [r12 + 0x8000], rbx
48837b2800             cmp qword ptr [rbx + 40], 0
7408                   je 4f
41ff5510               call qword ptr [r13 + 16]
85c0                   test eax, eax
7448                   je undo
488b4b30               4: mov rcx, qword ptr [rbx + 48]
eb07                   jmp 6f
ff74cd08               5: push qword ptr [rbp + rcx*8 + 8]
48ffc9                 dec rcx
4885c9                 6: test rcx, rcx
75f4                   jne 5b
488b7db8               mov rdi, qword ptr [rbp - 72]
488b75c0               mov rsi, qword ptr [rbp - 64]
488b55c8               mov rdx, qword ptr [rbp - 56]
488b4dd0               mov rcx, qword ptr [rbp - 48]
4c8b45d8               mov r8, qword ptr [rbp - 40]
4c8b4de0               mov r9, qword ptr [rbp - 32]
ff5310                 call qword ptr [rbx + 16]
49c7042400000000       mov qword ptr [r12], 0
f048ff4b20             lock dec qword ptr [rbx + 32]
4c8b6de8               mov r13, qword ptr [rbp - 24]
4c8b65f0               mov r12, qword ptr [rbp - 16]
488b5df8               mov rbx, qword ptr [rbp - 8]
c9                     leave
c3                     ret
49c7042400000000       undo: mov qword ptr [r12], 0
4c8b5b08               pass: mov r11, qword ptr [rbx + 8]
f048ff4b20             lock dec qword ptr [rbx + 32]
58                     pop rax
5f                     pop rdi
5e                     pop rsi
5a                     pop rdx
59                     pop rcx
4158                   pop r8
4159                   pop r9
415d                   pop r13
415c                   pop r12
5b                     pop rbx
5d                     pop rbp
41ffe3                 jmp r11

# ---- leave: out of a Python callable to the original, which is no part of it. r11 is the
# data of the hook's way out; the call that the thread is in knows its slot's original.
                       .p2align 4
                       leave:
f30f1efa               endbr64
55                     push rbp
4889e5                 mov rbp, rsp
53                     push rbx
4154                   push r12
4155                   push r13
4151                   push r9
4150                   push r8
51                     push rcx
52                     push rdx
56                     push rsi
57                     push rdi
50                     push rax
4c89db                 mov rbx, r11
64488b142500000000     mov rdx, qword ptr fs:[0]
49bc157c4a7fb979379e   movabs r12, 0x9e3779b97f4a7c15
4c0fafe2               imul r12, rdx
49c1ec38               shr r12, 56
49c1e407               shl r12, 7
488d05a11e0000         lea rax, [rip + table]
4901c4                 add r12, rax
b910000000             mov ecx, 16
493954ccf8             1: cmp qword ptr [r12 + rcx*8 - 8], rdx
741a                   je 2f
ffc9                   dec ecx
75f5                   jne 1b
4c8b5b08               mov r11, qword ptr [rbx + 8]
58                     pop rax
5f                     pop rdi
5e                     pop rsi
5a                     pop rdx
59                     pop rcx
4158                   pop r8
4159                   pop r9
415d                   pop r13
415c                   pop r12
5b                     pop rbx
5d                     pop rbp
41ffe3                 jmp r11
4d8d64ccf8             2: lea r12, [r12 + rcx*8 - 8]
498b842400800000       mov rax, qword ptr [r12 + 0x8000]
488b4838               mov rcx, qword ptr [rax + 56]
483b4b38               cmp rcx, qword ptr [rbx + 56]
480f45c3               cmovne rax, rbx
4c8b6808               mov r13, qword ptr [rax + 8]
49ff0424               inc qword ptr [r12]
488b4b30               mov rcx, qword ptr [rbx + 48]
eb07                   jmp 4f
ff74cd08               3: push qword ptr [rbp + rcx*8 + 8]
48ffc9                 dec rcx
4885c9                 4: test rcx, rcx
75f4                   jne 3b
488b7db8               mov rdi, qword ptr [rbp - 72]
488b75c0               mov rsi, qword ptr [rbp - 64]
488b55c8               mov rdx, qword ptr [rbp - 56]
488b4dd0               mov rcx, qword ptr [rbp - 48]
4c8b45d8               mov r8, qword ptr [rbp - 40]
4c8b4de0               mov r9, qword ptr [rbp - 32]
488b45b0               mov rax, qword ptr [rbp - 80]
41ffd5                 call r13
49ff0c24               dec qword ptr [r12]
4c8b6de8               mov r13, qword ptr [rbp - 24]
4c8b65f0               mov r12, qword ptr [rbp - 16]
488b5df8               mov rbx, qword ptr [rbp - 8]
c9                     leave
c3                     ret

# ---- write: dl_iterate_phdr's callback, so that no thread unloads the image meanwhile, and no
# tracer stops the process in between. rdi is the struct dl_phdr_info, rdx a request.
0f1f4000               .p2align 4
                       write:
f30f1efa               endbr64
488b07                 mov rax, qword ptr [rdi]
483b02                 cmp rax, qword ptr [rdx]
755b                   jne 9f
53                     push rbx
4889d3                 mov rbx, rdx
837b3000               cmp dword ptr [rbx + 48], 0
741a                   je 1f
488b7b28               mov rdi, qword ptr [rbx + 40]
be00100000             mov esi, 4096
ba03000000             mov edx, 3
b80a000000             mov eax, 10
0f05                   syscall
4885c0                 test rax, rax
7835                   js 3f
488b5308               1: mov rdx, qword ptr [rbx + 8]
488b4310               mov rax, qword ptr [rbx + 16]
488b4b18               mov rcx, qword ptr [rbx + 24]
f0480fb10a             lock cmpxchg qword ptr [rdx], rcx
48894320               mov qword ptr [rbx + 32], rax
837b3000               cmp dword ptr [rbx + 48], 0
7413                   je 2f
488b7b28               mov rdi, qword ptr [rbx + 40]
be00100000             mov esi, 4096
8b5334                 mov edx, dword ptr [rbx + 52]
b80a000000             mov eax, 10
0f05                   syscall
b801000000             2: mov eax, 1
5b                     pop rbx
c3                     ret
5b                     3: pop rbx
c3                     ret
31c0                   9: xor eax, eax
c3                     ret

# ---- exchange(addr, old, new): returns what stood there
660f1f440000           .p2align 4
                       exchange:
f30f1efa               endbr64
4889f0                 mov rax, rsi
f0480fb117             lock cmpxchg qword ptr [rdi], rdx
c3                     ret
"""


def _assembled() -> tuple[bytes, dict[str, int]]:
    """Return the code of TEXT, and the offsets of its names."""
    code, names = bytearray(), {}
    for line in TEXT.splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith(" "):
            names[line.strip().removesuffix(":")] = len(code)
            continue
        code += bytes.fromhex(line.split(None, 1)[0])
    return bytes(code), names


def thunks() -> bytes:
    """Return the code of a chunk of thunks. Each thunk has its entry, and its code at `WAY`."""
    return b"".join(_thunk(index) for index in range(THUNKS))


def _thunk(index: int) -> bytes:
    data = PAGE + index * DATA_SIZE - index * THUNK_SIZE  # relative to the thunk's start

    def at(field: int, end: int) -> bytes:
        return pack("<i", data + field - end)

    entry = b"\xf3\x0f\x1e\xfa"  # endbr64
    entry += b"\x4c\x8d\x1d" + at(TARGET, 11)  # lea r11, [rip + data]
    entry += b"\x41\xff\x23"  # jmp [r11]
    entry += b"\xcc" * (WAY - len(entry))
    way = b"\xf3\x0f\x1e\xfa"  # endbr64
    way += b"\x4c\x8b\x1d" + at(SESSION_AT, WAY + 11)  # mov r11, [rip + session_at]
    way += b"\x4d\x8b\x1b"  # mov r11, [r11]
    way += b"\x4c\x3b\x1d" + at(SESSION, WAY + 21)  # cmp r11, [rip + session]
    way += b"\x75\x06"  # jne to the second jmp
    way += b"\xff\x25" + at(TRACED, WAY + 29)  # jmp [rip + traced]
    way += b"\xff\x25" + at(UNTRACED, WAY + 35)  # jmp [rip + untraced]
    return (entry + way).ljust(THUNK_SIZE, b"\xcc")


def row_of(thread_pointer: int) -> int:
    """Return the row of the table for a thread."""
    return (thread_pointer * 0x9E37_79B9_7F4A_7C15 & (1 << 64) - 1) >> 56


CODE, NAMES = _assembled()
