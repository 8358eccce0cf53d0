# SPDX-License-Identifier: Apache-2.0
"""The environment of a started program: exactly the one that soscope was given.

Python changes its own environment: in the C locale it sets LC_CTYPE (PEP 538), and `os.environb`
drops entries without `=` and repeated names. The kernel still has what exec passed.
"""

from __future__ import annotations

import os

_COERCED = (b"C.UTF-8", b"C.utf8", b"UTF-8")


def _mapping(entries: list[bytes]) -> dict[bytes, bytes]:
    """Return the mapping that Python makes of the entries: the first entry of a name counts."""
    mapping: dict[bytes, bytes] = {}
    for entry in entries:
        at = entry.find(b"=", 1)
        if at > 0:
            mapping.setdefault(entry[:at], entry[at + 1 :])
    return mapping


def entries(given: bytes | None, current: dict[bytes, bytes]) -> list[bytes]:
    """Return the environment entries for the new program.

    `given` is the content of /proc/self/environ, or None if it cannot be read. `current` is
    Python's environment. If the calling program has changed its environment, its changes count.
    """
    if given is not None:
        raw = given.split(b"\0")[:-1]
        before = _mapping(raw)
        if b"LC_CTYPE" not in before and current.get(b"LC_CTYPE") in _COERCED:
            current = {name: value for name, value in current.items() if name != b"LC_CTYPE"}
        if before == current:
            return raw
    return [name + b"=" + value for name, value in current.items()]


def packed(environ: dict[str, str]) -> list[bytes]:
    """Return the entries of an environment that the caller has made."""
    return [os.fsencode(name) + b"=" + os.fsencode(value) for name, value in environ.items()]


def inherited() -> list[bytes]:
    """Return the entries that an untraced program would inherit from soscope's parent."""
    given = None
    try:
        with open("/proc/self/environ", "rb", buffering=0) as file:
            given = file.read()
    except OSError:
        pass  # no /proc: use Python's environment
    return entries(given, dict(os.environb))
