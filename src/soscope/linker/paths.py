# SPDX-License-Identifier: Apache-2.0
"""Paths as a program sees them, and as this system sees them: equal without a sysroot."""

from __future__ import annotations

import os

_MAX_LINKS = 40  # as in the kernel


class Root:
    """The root folder of a target; "" for this system's own root.

    Paths in files are below it. Links inside it stay inside, both absolute ones and those that
    climb up with "..". All methods take and return paths of this system, unless they state
    otherwise.
    """

    __slots__ = ("_given", "prefix")

    def __init__(self, sysroot: str) -> None:
        self._given = os.path.abspath(sysroot) if sysroot else ""
        self.prefix = os.path.realpath(sysroot) if sysroot else ""
        if self.prefix == "/":
            self.prefix = ""

    def host(self, path: str) -> str:
        """Return the target's absolute path `path` as a path of this system; others unchanged."""
        if not self.prefix or not path.startswith("/"):
            return path
        return self._followed(path)

    def resolve(self, path: str) -> str:
        """Return the target of links in a path; outside of the sysroot the kernel follows them."""
        if not self.prefix or not path.startswith(self.prefix + "/"):
            return path
        return self._followed(path[len(self.prefix) :])

    def absolute(self, path: str) -> str:
        """Return the absolute path of a file; if it is in the sysroot, with the root's prefix."""
        path = os.path.abspath(path)
        if self.prefix and path.startswith(self._given + "/"):
            return self.prefix + path[len(self._given) :]
        return path

    def is_inside(self, path: str) -> bool:
        """Return whether the absolute path `path` is visible to the target."""
        return not self.prefix or path.startswith(self.prefix + "/")

    def inner(self, path: str) -> str:
        """Return the target's name for `path`; a path that it does not see is unchanged."""
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
                del done[max(1, len(done) - 1) :]  # the parent of the root is the root
                continue
            done.append(part)
            try:
                target = os.readlink("/".join(done))
            except OSError:  # not a link, or missing
                continue
            links += 1
            if links > _MAX_LINKS:
                break  # the kernel will refuse it, too
            done = [self.prefix] if target.startswith("/") else done[:-1]
            todo += target.split("/")[::-1]
        return "/".join(done)
