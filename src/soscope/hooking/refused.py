# SPDX-License-Identifier: Apache-2.0
"""Functions that no Python callable can replace, and slots whose calls cannot run Python code.

The interpreter allocates memory in the middle of its own work, and uses locks while it waits for
the GIL. A Python callable there would run in the middle of that work, or wait for ever. For such
functions the slots of the interpreter and of extension modules are not hooked.
"""

from __future__ import annotations

from soscope.errors import HookError
from soscope.live.images.image import LoadedImage
from soscope.prototypes import Prototypes
from soscope.wire import layout

# These functions end the process, and need not return.
_LAST = frozenset("exit _exit _Exit quick_exit abort".split())
# In the child of these functions, the interpreter would not know that it was forked.
_FORKS = frozenset("fork __fork _Fork __libc_fork forkpty daemon".split())
# The interpreter calls these functions in the middle of its work.
_INNER = frozenset(
    "malloc calloc realloc free reallocarray posix_memalign aligned_alloc memalign valloc pvalloc "
    "malloc_usable_size mmap mmap64 munmap mremap madvise mprotect brk sbrk cfree "
    "__libc_malloc __libc_calloc __libc_realloc __libc_free __libc_memalign".split()
)
_INNER_PREFIXES = ("pthread_", "__pthread_", "sem_", "mtx_", "cnd_", "tss_", "thrd_")
# The interpreter calls these functions while it waits for the GIL, and at other times. A thread
# that holds the GIL can run a Python callable there.
_ON_THE_WAY = frozenset(
    "clock_gettime __clock_gettime clock_getres gettimeofday time sched_yield gettid".split()
)

ANYWHERE, HOLDING, NOWHERE = range(3)


def refuse(prototypes: Prototypes, symbol: str) -> None:
    """Raise HookError if no Python callable can replace a function."""
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
    """Return which calls of the interpreter itself may be redirected to a Python callable.

    It is ANYWHERE for all calls, HOLDING for the calls of threads that hold the GIL, and NOWHERE
    for none.
    """
    if symbol in _ON_THE_WAY:
        return HOLDING
    is_inner = symbol in _INNER or symbol.startswith(_INNER_PREFIXES)
    return NOWHERE if is_inner or prototypes.flags(symbol) & layout.FN_BRIEF else ANYWHERE


def is_interpreters(image: LoadedImage) -> bool:
    """Return whether an image is the interpreter, an extension module, or libffi of ctypes."""
    if image.name.startswith("libffi."):
        return True
    array = image.symbols.array
    for row in array.rows():
        name = array.bytes_at(row[0]) or b""
        if name.startswith((b"PyGILState_", b"PyModuleDef_Init", b"PyModule_Create")):
            return True
    return False


def is_libc(image: LoadedImage) -> bool:
    """Return whether an image is the C library or its thread library."""
    return image.name.startswith(("libc.so", "libc.musl", "libpthread.so", "ld-musl"))
