# SPDX-License-Identifier: Apache-2.0
"""Another user than soscope's, as which the command will run."""

from __future__ import annotations

import os

from soscope.errors import LaunchError


class User:
    """A user of the system, by name: id, group, and all groups."""

    __slots__ = ("_gid", "_groups", "_uid")

    def __init__(self, name: str) -> None:
        """Look the user up here, not in a forked process. Raises LaunchError."""
        import pwd

        try:
            entry = pwd.getpwnam(name)
        except (KeyError, ValueError):
            raise LaunchError(f"-u: there is no user '{name}'") from None
        self._uid, self._gid = entry.pw_uid, entry.pw_gid
        self._groups = os.getgrouplist(name, entry.pw_gid)
        if os.geteuid() and (self._uid, self._gid) != (os.getuid(), os.getgid()):
            raise LaunchError(f"-u {name}: only root may run a command as another user")

    def become(self) -> None:
        """Become that user. Raises OSError."""
        if not os.geteuid():
            os.setgroups(self._groups)
        os.setresgid(self._gid, self._gid, self._gid)
        os.setresuid(self._uid, self._uid, self._uid)
