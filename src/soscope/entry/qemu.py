# SPDX-License-Identifier: Apache-2.0
"""qemu's user-mode emulator, and how it is started with its stub waiting."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time

from soscope.errors import LaunchError, RemoteError
from soscope.model.arch import Arch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SOON = 0.002  # seconds between two attempts to connect
_LONGEST = 20.0


def emulator_of(arch: Arch, given: str | None) -> str:
    """Return the path of the emulator for programs of `arch`. `given` is the user's option.

    Raises LaunchError if there is none.
    """
    name = f"qemu-{arch.emulator}"
    wanted = given or name
    path = shutil.which(wanted)
    if not path and not given:
        path = shutil.which(f"{name}-static")
    if not path:
        raise LaunchError(
            f"{wanted} is not here, which runs programs of {arch.name}",
            hint="Debian's package is called qemu-user; --qemu PATH names another one",
            slug="no-qemu",
        )
    return path


# The stub reads so many bytes at once, and reads acknowledgements behind them one by one:
# gdb_handlesig() and gdb_get_char() of gdbstub.c.
PIECE = 256


class Socket:
    """A path for the stub's socket that other users cannot reach."""

    __slots__ = ("_folder", "path")

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="soscope-")
        self.path = os.path.join(self._folder, "stub")

    def words(self, emulator: str, sysroot: str, program: str, command: list[str]) -> list[str]:
        """Return the command that runs `program` with the words of `command`, and then waits."""
        return [emulator, "-g", self.path, "-L", sysroot, "-0", command[0], program, *command[1:]]

    def connect(self, ended: Callable[[], str]) -> socket.socket:
        """Connect to the stub as soon as it is there.

        `ended` returns how the emulator has ended, "" while it runs. Raises RemoteError if the
        stub never comes.
        """
        end = time.monotonic() + _LONGEST
        while True:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connected.connect(self.path)
            except OSError as error:
                connected.close()
                how = ended()
                if how or time.monotonic() >= end:
                    behind = f", and has ended with {how}" if how else ""
                    raise RemoteError(
                        f"the emulator has not opened its stub{behind}", slug="remote-gone"
                    ) from error
                time.sleep(_SOON)
                continue
            self.close()
            return connected

    def close(self) -> None:
        """Remove the path. May be called twice."""
        shutil.rmtree(self._folder, ignore_errors=True)
