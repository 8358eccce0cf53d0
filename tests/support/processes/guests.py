# SPDX-License-Identifier: Apache-2.0
"""Have a running process load libraries, by a few bytes of code put into it."""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct

from soscope.entry import loader
from soscope.entry.agent.visit import Visit
from soscope.entry.guest.call import call
from soscope.entry.isa import arch
from soscope.entry.tracee import Borrowed
from tests.support.time import patience

_PAGE = 4096
_CODE_AT = 16
_REQUEST = Struct("<QQQQ")  # dlopen, its flags, dlclose or 0, the handle
RTLD_NOW = 2

# push %rbx; mov %rdi,%rbx; lea 32(%rbx),%rdi; mov 8(%rbx),%esi; call *(%rbx);
# mov %rax,24(%rbx); test %rax,%rax; je 1f; mov 16(%rbx),%rax; test %rax,%rax; je 1f;
# mov 24(%rbx),%rdi; call *%rax; 1: mov 24(%rbx),%rax; pop %rbx; ret
_CODE = bytes.fromhex(
    "53 4889fb 488d7b20 8b7308 ff13 48894318 4885c0 740f 488b4310 4885c0 7406"
    "488b7b18 ffd0 488b4318 5b c3"
)


class Guests:
    """Loads and unloads libraries in process `pid`, until `close`."""

    def __init__(self, pid: int) -> None:
        self.visit = Visit(pid)
        self.page = self._map()
        self.visit.memory.write(self.page, arch.BREAKPOINT)
        self.write(_CODE)
        self.addrs = {name: self.symbol(name) for name in ("dlopen", "dlclose")}

    def close(self) -> None:
        self.visit.close()

    def write(self, code: bytes) -> None:
        """Put in other code."""
        self.visit.memory.write(self.page + _CODE_AT, code)

    def _map(self) -> int:
        visit = self.visit
        visit.stop(limit=patience.limit())  # some load all the time
        try:
            with Borrowed(visit.worker()) as tracee:
                assert tracee.find_syscall(visit.facts.syscall_places())
                page = tracee.syscall(arch.NR_MMAP, 0, _PAGE, 7, 0x22, -1, 0)
        finally:
            visit.threads.resume()
        assert page > 0
        return page

    def symbol(self, name: str) -> int:
        """Return where the process has a function."""
        memory = self.visit.memory
        debug = loader.read_debug(memory, self.visit.facts.r_debug)
        assert debug is not None
        for entry in loader.walk(memory, debug.first):
            if not entry.path(memory) and entry.dynamic >> 40 == 0x7F:
                continue  # the vDSO
            try:
                symbol = entry.image(memory).symbol(name)
            except Exception:  # noqa: BLE001  the vDSO of some kernels
                continue
            if symbol is not None:
                return entry.load_bias + symbol.value
        raise AssertionError(f"no {name} in it")

    def call(self, argument: bytes = b"", *, limit: float | None = None) -> tuple[int, bytes]:
        """Call the code that was put in."""
        limit = patience.limit() if limit is None else limit
        return call(self.visit, self.page + _CODE_AT, argument, self.page, limit=limit)

    def load(self, path: Path | str, *, closes: bool = True, limit: float | None = None) -> int:
        """Load a library, and unload it at once if wished; return its handle."""
        fields = self.addrs["dlopen"], RTLD_NOW, self.addrs["dlclose"] if closes else 0, 0
        request = _REQUEST.pack(*fields) + os.fsencode(path) + b"\0"
        handle, after = self.call(request, limit=limit)
        assert len(after) == len(request)
        assert _REQUEST.unpack_from(after)[3] == handle & 0xFFFF_FFFF_FFFF_FFFF
        return handle
