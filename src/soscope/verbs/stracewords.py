# SPDX-License-Identifier: Apache-2.0
"""strace's `-e`: `trace=open,%file`, `!close`, `signal=none`, `status=failed`.

What soscope does not have is an error with a hint. The name of a function has no equals sign, so
no filter expression is mistaken for strace's.
"""

from __future__ import annotations

import re

from soscope.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.verbs.options import Values


_QUALIFIER = re.compile(r"([a-z][a-z-]*)=(.*)", re.DOTALL)
# strace's classes of system calls, and soscope's sets.
_CLASSES = {
    "file": "%file", "desc": "%desc", "process": "%process", "network": "%net", "net": "%net",
    "signal": "%signal", "memory": "%mem", "clock": "%time",
    "stat": "stat,stat64", "lstat": "lstat,lstat64", "fstat": "fstat,fstat64,fstatat,fstatat64",
    "%stat": "*stat,*stat64,*statx", "statfs": "statfs,statfs64", "fstatfs": "fstatfs,fstatfs64",
    "%statfs": "*statfs*",
}  # fmt: skip
# Qualifier -> what to use instead.
_OTHERS = {
    "abbrev": "flags, structures and strings are always decoded; -s and -A say how much is shown",
    "verbose": "flags, structures and strings are always decoded; -s and -A say how much is shown",
    "raw": "--json has the values beside the texts",
    "read": "-s N shows more of what is read",
    "write": "-s N shows more of what is written",
    "fault": "soscope inject -e fault=FUNCTION -- COMMAND",
    "inject": "soscope inject -e inject=FUNCTION:error=ERRNO:when=N -- COMMAND",
    "quiet": "-q leaves out soscope's notes",
    "kvm": "soscope sees calls of functions, not what a virtual machine does",
    "decode-fds": "-y shows paths of descriptors",
    "decode-pids": "names of processes are not shown with their numbers",
}
_SHORT = {"t": "trace", "s": "signal", "signals": "signal", "v": "verbose", "a": "abbrev",
          "x": "raw", "r": "read", "reads": "read", "w": "write", "writes": "write",
          "q": "quiet", "silent": "quiet", "silence": "quiet", "decode-fd": "decode-fds",
          "decode-pid": "decode-pids"}  # fmt: skip


def are_in(words: list[str]) -> bool:
    """Return whether one of the arguments of -e looks like strace's."""
    return any(word.startswith("!") or _QUALIFIER.match(word) for word in words)


def translate(values: Values) -> None:
    """Replace strace's words by their meaning. Raises UsageError if there is none."""
    select = []
    for word in values.select:
        matched = _QUALIFIER.match(word)
        if matched is None:
            select.append(_trace(word, word) if word.startswith("!") else word)
            continue
        qualifier = _SHORT.get(matched[1], matched[1])
        if qualifier == "trace":
            select.append(_trace(matched[2], word))
        elif qualifier == "signal":
            if matched[2] not in ("none", "!all", "all", "!none"):
                raise _error(word, "there is no choice among signals; -b shows none of them")
            values.no_signals |= matched[2] in ("none", "!all")
        elif qualifier == "status":
            _status(values, matched[2], word)
        elif qualifier in _OTHERS:
            raise _error(word, _OTHERS[qualifier])
        else:
            raise _error(word, "no function is called so, and strace has no such word")
    values.select = select


def _status(values: Values, what: str, word: str) -> None:
    if what in ("successful", "!failed"):
        values.successes = True
    elif what in ("failed", "!successful"):
        values.failures = True
    else:
        raise _error(word, "-z: calls that succeed; -Z: that fail; --where \"ended == 'unwound'\"")
    if values.successes and values.failures:
        raise _error(word, "a call cannot both succeed and fail")


def _trace(names: str, word: str) -> str:
    """Return the filter expression for strace's list of system calls."""
    is_not = names.startswith("!")
    parts = [part for name in names.removeprefix("!").split(",") for part in _name(name, word)]
    return "".join(f"-{part}" for part in parts) if is_not else ",".join(parts)


def _name(name: str, word: str) -> list[str]:
    plain = name.removeprefix("?").partition("@")[0]
    if plain.startswith("/"):
        raise _error(word, f"-e '/.*{plain[1:]}.*/' is a regular expression for the whole name")
    if plain == "all":
        return ["*"]
    if plain in ("none", ""):
        raise _error(word, "nothing would be shown; --record FILE shows nothing and keeps all")
    if plain.startswith("%") or plain in ("file", "desc", "process", "network", "ipc", "memory"):
        wanted = _CLASSES.get(plain) or _CLASSES.get(plain.removeprefix("%"))
        if wanted is None:
            return [plain]  # a set of soscope's, or an error lists all sets
        return wanted.split(",")
    return [plain]


def _error(word: str, what: str) -> UsageError:
    return UsageError(f"-e '{word}' is strace's: {what}")
