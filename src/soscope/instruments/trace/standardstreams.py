# SPDX-License-Identifier: Apache-2.0
"""Where the C library has stdin, stdout and stderr: streams that no call is seen to open."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.model.image import TracedImage
    from soscope.recording.names import Programs

# the objects themselves, which all of glibc's versions export
_OBJECTS = ("_IO_2_1_stdin_", "_IO_2_1_stdout_", "_IO_2_1_stderr_")
NAMES = ("stdin", "stdout", "stderr")


class StandardStreams:
    """Tells them by their addresses; `programs` has the images of each program."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        # by the path, identity and load bias of an image: what lies where
        self._known: dict[tuple[str, bytes, int], dict[int, int]] = {}

    def descriptor(self, process: int, pointer: int) -> int | None:
        """Return 0, 1 or 2 where `pointer` is one of them in a program, None where it is none."""
        for image in self._programs[process].files_at(pointer):
            key = image.path, image.identity, image.load_bias
            if key not in self._known:
                self._known[key] = _objects_of(image)
            if pointer in self._known[key]:
                return self._known[key][pointer]
        return None


def _objects_of(image: TracedImage) -> dict[int, int]:
    """Return the streams that an image has, by address; none where its file is another by now."""
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
        return {}  # streams are then shown as other pointers are
    finally:
        os.close(descriptor)
    return {image.load_bias + addr: fd for fd, addr in enumerate(addrs) if addr}
