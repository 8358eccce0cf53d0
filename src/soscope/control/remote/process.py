# SPDX-License-Identifier: Apache-2.0
"""A program that a stub holds, with the interface of a process (`soscope resolve --remote`)."""

from __future__ import annotations

from soscope.control.qemu.memory import RemoteSpace
from soscope.entry.remote.packets import RemoteAddress
from soscope.entry.remote.stub import RemoteStub
from soscope.live.images.images import find_images
from soscope.live.images.watch import Watch
from soscope.live.process import Process


class RemoteProcess(Process):
    """A program that is stopped meanwhile. `close` resumes it."""

    __slots__ = ()

    def __init__(self, space: RemoteSpace) -> None:
        """Find its images. Raises RemoteError, NoSuchProcess."""
        self.pid = space.pid
        self._space = space
        self._known = None
        try:
            self._images = find_images(space)
            self._watch = Watch(self._images)
        except BaseException:
            space.close()
            raise


def open_remote(address: RemoteAddress, program: str | None, sysroot: str | None) -> RemoteSpace:
    """Connect to a waiting stub, and examine its program.

    `program` is the program's file, or None if the stub has to tell it. `sysroot` is the
    directory with its libraries. Raises RemoteError, LaunchError.
    """
    stub = RemoteStub(address.connect(), "<")
    try:
        return RemoteSpace(stub, program, sysroot)
    except BaseException:
        stub.let_go()
        raise
