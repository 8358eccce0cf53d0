# SPDX-License-Identifier: Apache-2.0
"""The execution contexts of threads: a Ruby thread's own, or its running fiber's."""

from __future__ import annotations

import time
from struct import unpack_from

from soscope.binfmt.source import ByteSource
from soscope.live.ruby.interpreter import Ruby
from soscope.live.ruby.isa import arch

# offsets in 2.7: a context's thread, a thread's context and thread pointer
_THREAD, _OWN_CONTEXT, _POINTER = 56, 32, 72
_MOST = 1 << 12  # threads, as their list may change during the read
_PAUSE = 0.1  # seconds between searches for unknown threads


class RubyContexts:
    """Finds the execution context that a thread of one process is running."""

    def __init__(self, memory: ByteSource, ruby: Ruby) -> None:
        self._memory = memory
        self._ruby = ruby
        index, self._offset = ruby.variable
        self._module = 0
        if index:
            self._module, self._offset = self._word(index), self._word(index + 8)
        self._threads: dict[int, int] = {}
        self._next = 0.0

    def of(self, thread_pointer: int) -> int:
        """Return the address of a stopped thread's context, 0 if it has none."""
        if self._ruby.current:
            return self._of_listed(thread_pointer)
        if not self._module:
            return self._word(thread_pointer + self._offset)
        # glibc has two words for each module, and -1 if its block is not allocated yet
        size = 8 if self._ruby.is_musl else 16
        block = self._word(self._word(thread_pointer + arch.DTV) + size * self._module)
        return self._word(block + self._offset)

    def _of_listed(self, pointer: int) -> int:
        thread = self._threads.get(pointer, 0)
        context = self._context(thread, pointer) if thread else 0
        if context:
            return context
        now = time.monotonic()
        if not thread and now < self._next:
            return 0
        self._next = now + _PAUSE
        self._find_threads()
        thread = self._threads.get(pointer, 0)
        return self._context(thread, pointer) if thread else 0

    def _find_threads(self) -> None:
        """Walk the circular list of threads, from its head (no thread) or from any thread."""
        self._threads.clear()
        first = at = self._word(self._word(self._ruby.current) + _THREAD)
        for _ in range(_MOST):
            data = self._memory.read(at, _POINTER + 8)
            if len(data) < _POINTER + 8:
                return
            context = unpack_from("<Q", data, _OWN_CONTEXT)[0]
            if self._word(context + _THREAD) == at:
                self._threads[unpack_from("<Q", data, _POINTER)[0]] = at
            at = unpack_from("<Q", data)[0]
            if at == first:
                return

    def _context(self, thread: int, pointer: int) -> int:
        data = self._memory.read(thread, _POINTER + 8)
        if len(data) < _POINTER + 8 or unpack_from("<Q", data, _POINTER)[0] != pointer:
            return 0
        context = int(unpack_from("<Q", data, _OWN_CONTEXT)[0])
        return context if self._word(context + _THREAD) == thread else 0

    def _word(self, addr: int) -> int:
        data = self._memory.read(addr, 8)
        return int.from_bytes(data, "little") if len(data) == 8 else 0
