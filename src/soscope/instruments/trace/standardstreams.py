# SPDX-License-Identifier: Apache-2.0
"""The C library's stdin, stdout and stderr, which no call opens."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.model.image import TracedImage
    from soscope.recording.names import Programs

# the objects themselves, exported by all versions of glibc
_OBJECTS = ("_IO_2_1_stdin_", "_IO_2_1_stdout_", "_IO_2_1_stderr_")
NAMES = ("stdin", "stdout", "stderr")


class StandardStreams:
    """Recognises the three streams by address. `programs` has the images of each program."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        # By path, identity and load bias of an image: its streams by address.
        self._known: dict[tuple[str, bytes, int], dict[int, int]] = {}

    def descriptor(self, process: int, pointer: int) -> int | None:
        """Return 0, 1 or 2 if `pointer` is such a stream in a program, else None."""
        for image in self._programs[process].files_at(pointer):
            key = image.path, image.identity, image.load_bias
            if key not in self._known:
                self._known[key] = _objects_of(image)
            if pointer in self._known[key]:
                return self._known[key][pointer]
        return None


def _objects_of(image: TracedImage) -> dict[int, int]:
    """Return an image's streams by address, none if its path has another file by now."""
    import os

    from soscope.binfmt.elf.image import ElfImage
    from soscope.binfmt.source import FileSource
    from soscope.errors import SoscopeError
    from soscope.live.names.staticnames import open_regular

    descriptor = open_regular(image.path)
    if descriptor is None:
        return {}
    try:
        file = ElfImage.from_source(FileSource(descriptor, image.path))
        if image.identity and file.identity != image.identity:
            return {}
        addrs = [file.symbols.addr(name) for name in _OBJECTS]
    except (SoscopeError, OSError):
        return {}  # then streams are shown as other pointers are
    finally:
        os.close(descriptor)
    return {image.load_bias + addr: fd for fd, addr in enumerate(addrs) if addr}
