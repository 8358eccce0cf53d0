# SPDX-License-Identifier: Apache-2.0
"""Convert a program's paths to paths of this system; expand $ORIGIN, $LIB, $PLATFORM."""

from __future__ import annotations

import os

# Paths as a program sees them, and as this system sees them: equal without a sysroot.

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


# $ORIGIN, $LIB and $PLATFORM, and the lists of folders that contain them.
#
# glibc: is_dst, _dl_dst_substitute and fillin_rpath of elf/dl-load.c; musl: fixup_rpath of
# ldso/dynlink.c, which only knows $ORIGIN.

MAX_FOLDERS = 256
_WORD = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")


def expand(text: str, values: dict[str, str]) -> str | None:
    """Replace $NAME and ${NAME} for each name in `values`; other names are unchanged.

    Return None if the value of one that occurs is "", which means unknown: then the whole text is
    invalid.
    """
    parts = text.split("$")
    done = [parts[0]]
    for part in parts[1:]:
        name, rest = _token(part, values)
        if name is None:
            done.append("$" + part)
        elif not values[name]:
            return None
        else:
            done.append(values[name] + rest)
    return "".join(done)


def _token(part: str, values: dict[str, str]) -> tuple[str | None, str]:
    """Return the known name at the start of `part`, None if there is none, and the rest."""
    for name in values:
        if part.startswith("{" + name + "}"):
            return name, part[len(name) + 2 :]
        if part.startswith(name) and (part[len(name) : len(name) + 1] or "/") not in _WORD:
            return name, part[len(name) :]
    return None, part


def folders(text: str, values: dict[str, str], separators: str = ":") -> list[tuple[str, bool]]:
    """Split a list of folders; return (folder, does it begin with $ORIGIN) of each, once.

    An empty entry is the working directory, and an empty list has no folders. At most
    `MAX_FOLDERS` are returned.
    """
    if not text:
        return []
    for separator in separators[1:]:
        text = text.replace(separator, separators[0])
    folders: dict[str, bool] = {}
    for part in text.split(separators[0], MAX_FOLDERS)[:MAX_FOLDERS]:
        if not part:
            folders.setdefault(".", False)
            continue
        folder = expand(part, values)
        if folder:
            stripped = folder.rstrip("/") or "/"
            folders.setdefault(stripped, part.startswith(("$ORIGIN", "${ORIGIN}")))
    return list(folders.items())


def musl_folders(text: str, origin: str) -> list[tuple[str, bool]]:
    """Split a list as musl does: it is ignored if it contains another token than $ORIGIN."""
    for part in text.split("$")[1:]:
        if not part.startswith(("ORIGIN", "{ORIGIN}")):
            return []
    folders = []
    for part in text.replace("\n", ":").split(":", MAX_FOLDERS)[:MAX_FOLDERS]:
        if part:
            folder = part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
            folders.append((folder, part.startswith("$")))
    return folders
