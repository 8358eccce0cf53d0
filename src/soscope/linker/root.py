# SPDX-License-Identifier: Apache-2.0
"""Paths as a program sees them, and where they lie here: the same without a sysroot."""

from __future__ import annotations

import os

_MAX_LINKS = 40  # as the kernel


class Root:
    """The root folder of a target: "" for this system's own.

    Paths that a file names are taken below it, and links inside it stay inside it, whether they
    are absolute or climb up. All methods give and take paths of this system unless they say
    otherwise.
    """

    __slots__ = ("_given", "prefix")

    def __init__(self, sysroot: str) -> None:
        self._given = os.path.abspath(sysroot) if sysroot else ""
        self.prefix = os.path.realpath(sysroot) if sysroot else ""
        if self.prefix == "/":
            self.prefix = ""

    def host(self, path: str) -> str:
        """Return where the target's absolute path `path` lies; others are the caller's own."""
        if not self.prefix or not path.startswith("/"):
            return path
        return self._followed(path)

    def resolve(self, path: str) -> str:
        """Return what the path leads to; a path outside of the sysroot is left to the kernel."""
        if not self.prefix or not path.startswith(self.prefix + "/"):
            return path
        return self._followed(path[len(self.prefix) :])

    def absolute(self, path: str) -> str:
        """Return the absolute path of a file; where it lies in the sysroot, it begins so."""
        path = os.path.abspath(path)
        if self.prefix and path.startswith(self._given + "/"):
            return self.prefix + path[len(self._given) :]
        return path

    def is_inside(self, path: str) -> bool:
        """Return whether the target sees the absolute path `path` at all."""
        return not self.prefix or path.startswith(self.prefix + "/")

    def inner(self, path: str) -> str:
        """Return how the target calls `path`; one that it does not see keeps its name."""
        return path[len(self.prefix) :] if self.is_inside(path) else path

    def _followed(self, inner: str) -> str:
        todo = inner.split("/")[::-1]
        done = [self.prefix]
        links = 0
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del done[max(1, len(done) - 1) :]  # above the root is the root
                continue
            done.append(part)
            try:
                target = os.readlink("/".join(done))
            except OSError:  # no link, or nothing at all
                continue
            links += 1
            if links > _MAX_LINKS:
                break  # the kernel will refuse it, too
            done = [self.prefix] if target.startswith("/") else done[:-1]
            todo += target.split("/")[::-1]
        return "/".join(done)
