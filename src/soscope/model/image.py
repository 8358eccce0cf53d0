# SPDX-License-Identifier: Apache-2.0
"""An image: one file as the loader mapped it into one process."""

from __future__ import annotations

from soscope.model.record import Record

# Flags of an image, with the values of `enum sosc_image_flag`.
IMAGE_MAIN = 1
IMAGE_LOADER = 2
IMAGE_STARTUP = 4  # loaded before any code of the program ran
IMAGE_UNREADABLE = 8  # its headers were not found, so it is not hooked
IMAGE_LATE = 16  # hooked when its constructors may have run already
IMAGE_CLOSED = 32  # closed by dlclose
IMAGE_WRITE_REFUSED = 64  # its slots could not be written
IMAGE_METHODS_UNSEEN = 256  # it may have method tables, but soscope did not look for them


class TracedImage(Record):
    """One file as loaded (program, shared object, vDSO).

    `index` counts the images of one traced program. `process` is the index of that program: one
    exec with its control block, which forked children share. `load_bias`, `start` and `end` are
    run-time addresses; `end` is exclusive. `build_id` is empty if the file has none; then
    `checksum` (see `ElfImage`) tells the file apart, if it is known. `slots_left` counts the
    function slots that the filter does not want, `slots_refused` those that it wants and that
    cannot be hooked. `pid` is the process that loaded the image. `namespace` is 0 for the
    program's namespace; for images loaded by dlmopen or LD_AUDIT it is the loader's number for
    theirs.
    """

    __slots__ = (
        "build_id",
        "checksum",
        "end",
        "flags",
        "index",
        "load_bias",
        "name",
        "namespace",
        "path",
        "pid",
        "process",
        "slots_hooked",
        "slots_left",
        "slots_refused",
        "start",
    )

    def __init__(
        self,
        index: int,
        process: int,
        name: str,
        path: str,
        load_bias: int,
        start: int,
        end: int,
        build_id: bytes,
        flags: int,
        slots_hooked: int,
        slots_left: int,
        slots_refused: int,
        pid: int,
        namespace: int = 0,
        checksum: bytes = b"",
    ) -> None:
        self.index = index
        self.process = process
        self.name = name
        self.path = path
        self.load_bias = load_bias
        self.start = start
        self.end = end
        self.build_id = build_id
        self.flags = flags
        self.slots_hooked = slots_hooked
        self.slots_left = slots_left
        self.slots_refused = slots_refused
        self.pid = pid
        self.namespace = namespace
        self.checksum = checksum

    def __repr__(self) -> str:
        """Show name, address and process, and the number of hooked slots."""
        slots = f"{self.slots_hooked:,} slot{'s' * (self.slots_hooked != 1)}"
        return f"<{self.label} at {self.start:#x} of process {self.pid}: {slots} hooked>"

    @property
    def identity(self) -> bytes:
        """The bytes that identify its file, as `ElfImage.identity`; empty if they are not known."""
        return self.build_id or self.checksum

    @property
    def is_main(self) -> bool:
        """Return whether this is the program itself."""
        return bool(self.flags & IMAGE_MAIN)

    @property
    def label(self) -> str:
        """The image's name, followed by its namespace's number if that is not the program's."""
        return f"{self.name}[{self.namespace}]" if self.namespace else self.name
