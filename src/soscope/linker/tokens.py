# SPDX-License-Identifier: Apache-2.0
"""$ORIGIN, $LIB and $PLATFORM, and the lists of folders that contain them.

glibc: is_dst, _dl_dst_substitute and fillin_rpath of elf/dl-load.c; musl: fixup_rpath of
ldso/dynlink.c, which only knows $ORIGIN.
"""

from __future__ import annotations

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
