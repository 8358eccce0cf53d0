# SPDX-License-Identifier: Apache-2.0
"""The blob: the file that is mapped into a target, made from the agent's ELF file.

It has the ELF file, padded to a page. The page at symbol `sosc_entry_page` follows BLOB_REPEAT
times, then the pages at `sosc_site_page` and `sosc_counter_page`, as often each. Trampolines are
mapped from these, many pages with one system call. The file is in memory and has no name.
"""

from __future__ import annotations

import errno
import mmap
import os

from soscope import errors
from soscope.binfmt.elf import constants as elf
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import BufferSource
from soscope.errors import AgentError, FormatError
from soscope.model.arch import arch_here
from soscope.wire import layout, sharedfile


def agent_path() -> str:
    """Return the path at which the agent's ELF file should be, beside this package's code."""
    return os.path.join(os.path.dirname(errors.__file__), "_agent", "libsoscope-agent.so")


class Blob:
    """A blob, and the addresses that are needed to start it.

    `fd` is its file. If it is mapped from offset 0, its code is at its link-time addresses.
    `start`, `hook`, `load`, `unload`, `objects`, `trap` and `loader_event` are such addresses.
    `pages_offset` is the offset of the trampolines' pages in the file.
    """

    __slots__ = (
        "_content",
        "build_id",
        "fd",
        "hook",
        "load",
        "loader_event",
        "objects",
        "pages_offset",
        "size",
        "start",
        "trap",
        "unload",
    )

    _content: list[bytes]
    fd: int
    size: int
    pages_offset: int
    start: int
    trap: int
    hook: int
    load: int
    unload: int
    objects: int
    loader_event: int
    build_id: bytes

    @classmethod
    def build(cls, path: str | None = None) -> Blob:
        """Make the file for the agent at `path`, still without content.

        Raises AgentError if there is no agent at `path` or the file is not one, and
        NoSharedMemory if there is no memory for it.
        """
        path = path or agent_path()
        try:
            with open(path, "rb", buffering=0) as file:
                data = file.read()
        except OSError as error:
            here = arch_here()
            if here is not None and not here.has_agent:
                raise AgentError(
                    f"no agent is made for {here.name}",
                    hint="'soscope trace' sees calls by breakpoints there",
                    errno=error.errno,
                ) from error
            raise AgentError(
                f"no agent at '{path}': {error.strerror}",
                hint="this soscope was installed without one; install it for this machine",
                errno=error.errno,
            ) from error
        try:
            return cls._of(ElfImage.from_source(BufferSource(data, path)), data)
        except FormatError as error:
            raise AgentError(f"the agent is damaged: {error}") from error

    @classmethod
    def _of(cls, image: ElfImage, data: bytes) -> Blob:
        def address(name: str) -> int:
            symbol = image.symbol(name)
            if symbol is None:
                raise AgentError(f"the agent is damaged: {image.source.name} has no {name}")
            return symbol.value

        blob = cls()
        _check_text(image)
        blob.start = address("soscope_agent_start")
        blob.hook = address("soscope_agent_hook")
        blob.load = address("soscope_agent_load")
        blob.unload = address("soscope_agent_unload")
        blob.objects = address("soscope_agent_objects")
        blob.trap = address("sosc_trap")
        blob.loader_event = address("sosc_loader_event")
        blob.build_id = image.build_id
        pages = [
            image.read(address(name), layout.PAGE, name)
            for name in ("sosc_entry_page", "sosc_site_page", "sosc_counter_page")
        ]
        blob.pages_offset = len(data) + -len(data) % layout.PAGE
        blob.size = blob.pages_offset + layout.BLOB_REPEAT * sum(map(len, pages))
        blob._content = [data.ljust(blob.pages_offset, b"\0"), *pages]
        blob.fd = sharedfile.create(blob.size, seals=0)
        return blob

    def fill(self) -> None:
        """Write the content, once. This comes after `build`, while other processes are at work.

        The file is sealed, so that no program that has it can change the code of the next
        program.
        """
        if self._content:
            data, *pages = self._content
            self._content = []
            whole = b"".join([data, *(page * layout.BLOB_REPEAT for page in pages)])
            # Not by a mapping: the content cannot be sealed while a process that was forked
            # meanwhile has a writable mapping.
            try:
                done = 0
                while done < len(whole):
                    done += os.pwrite(self.fd, whole[done:], done)
            except OSError as error:
                if error.errno != errno.EFBIG:
                    raise
                # Stores through a mapping are not subject to the limit of file sizes.
                with mmap.mmap(self.fd, self.size) as mapping:
                    mapping[:] = whole
            sharedfile.seal_content(self.fd)

    def close(self) -> None:
        """Close the file. Mappings of it stay."""
        os.close(self.fd)
        self.fd = -1


def _check_text(image: ElfImage) -> None:
    """Check that the code can be mapped from the file's start."""
    for segment in image.segments:
        if segment.type == elf.PT_LOAD and segment.flags & elf.PF_X:
            end = segment.vaddr + segment.memsz
            if segment.vaddr == segment.offset == 0 and end <= layout.BLOB_TEXT_MAX:
                return
            break
    raise AgentError(f"the agent is damaged: {image.source.name} has no code at its start")
