# SPDX-License-Identifier: Apache-2.0
"""Where no Python code can run: functions that no Python callable can stand for, and slots.

The interpreter takes memory in the middle of its own work, and locks while it waits for the
GIL. A Python callable there would run in the middle of that, or wait for ever. So for these
functions its own slots, and those of extension modules, are left to it.
"""

from __future__ import annotations

from soscope.errors import HookError
from soscope.live.images.loadedimage import LoadedImage
from soscope.prototypes import Prototypes
from soscope.wire import layout

# They end the process, and need no return.
_LAST = frozenset("exit _exit _Exit quick_exit abort".split())
# The child has an interpreter that does not know of it.
_FORKS = frozenset("fork __fork _Fork __libc_fork forkpty daemon".split())
# Taken in the middle of the interpreter's work.
_INNER = frozenset(
    "malloc calloc realloc free reallocarray posix_memalign aligned_alloc memalign valloc pvalloc "
    "malloc_usable_size mmap mmap64 munmap mremap madvise mprotect brk sbrk cfree "
    "__libc_malloc __libc_calloc __libc_realloc __libc_free __libc_memalign".split()
)
_INNER_PREFIXES = ("pthread_", "__pthread_", "sem_", "mtx_", "cnd_", "tss_", "thrd_")
# Asked on the way to the GIL, and elsewhere: there a thread that holds it may go in.
_ON_THE_WAY = frozenset(
    "clock_gettime __clock_gettime clock_getres gettimeofday time sched_yield gettid".split()
)

ANYWHERE, HOLDING, NOWHERE = range(3)


def refuse(prototypes: Prototypes, symbol: str) -> None:
    """Raise HookError where no Python callable can stand for a function."""
    flags = prototypes.flags(symbol)
    why = ""
    if symbol in _FORKS:
        why = "the child would have an interpreter that does not know of it"
    elif flags & layout.FN_NEVER:
        why = "it is not called as C calls functions"
    elif flags & layout.FN_TWICE:
        why = "it returns twice"
    elif flags & layout.FN_ENTRY_ONLY and symbol not in _LAST:
        why = "it looks at its caller, or leaves by another way than a return"
    if why:
        raise HookError(
            f"{symbol}: no Python callable can stand for it: {why}",
            hint="a C function pointer can",
        )


def within_interpreter(prototypes: Prototypes, symbol: str) -> int:
    """Say where calls of the interpreter itself may be led to a Python callable."""
    if symbol in _ON_THE_WAY:
        return HOLDING
    is_inner = symbol in _INNER or symbol.startswith(_INNER_PREFIXES)
    return NOWHERE if is_inner or prototypes.flags(symbol) & layout.FN_BRIEF else ANYWHERE


def is_interpreters(image: LoadedImage) -> bool:
    """Return whether an image is the interpreter, an extension module, or ctypes' way to C."""
    if image.name.startswith("libffi."):
        return True
    array = image.symbols.array
    for row in array.rows():
        name = array.bytes_at(row[0]) or b""
        if name.startswith((b"PyGILState_", b"PyModuleDef_Init", b"PyModule_Create")):
            return True
    return False


def is_libc(image: LoadedImage) -> bool:
    """Return whether an image is the C library, or its threads'."""
    return image.name.startswith(("libc.so", "libc.musl", "libpthread.so", "ld-musl"))
