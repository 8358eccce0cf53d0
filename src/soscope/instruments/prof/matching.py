# SPDX-License-Identifier: Apache-2.0
"""Functions of a profile by a pattern: NAME or NAME@IMAGE, either of them a glob."""

from __future__ import annotations

from difflib import get_close_matches

from soscope.errors import RecordingError, UsageError
from soscope.instruments.prof.contexts import Matches
from soscope.instruments.prof.flat import frame_of, function_name, image_name
from soscope.instruments.prof.model import Profile
from soscope.live.names.demangle import plain_name
from soscope.model.stackframe import StackFrame
from soscope.select.automaton import Automaton, compile_glob

_NEAR = 3  # names that are proposed


def matcher(pattern: str) -> Matches:
    """Return what says whether a function is meant; of C++, with its parameters or without.

    An image that stands for all its functions is meant by its own name, too. What is no glob is
    a name.
    """
    name, at, image = pattern.rpartition("@") if "@" in pattern else (pattern, "", "*")
    wanted, where = _compiled(name), _compiled(image)

    def matches(frame: StackFrame) -> bool:
        if frame.symbol == "":
            return not (at and name) and _is(where if at else wanted, image_name(frame))
        called = function_name(frame)
        if called == pattern:
            return True
        if not _is(where, image_name(frame)):
            return False
        is_cxx = called.endswith(")")
        return _is(wanted, called) or (is_cxx and _is(wanted, plain_name(called)))

    return matches


def _compiled(glob: str) -> Automaton | str:
    try:
        return compile_glob(glob)
    except UsageError:
        return glob  # `operator[]` is no pattern: it is a name


def _is(pattern: Automaton | str, name: str) -> bool:
    if isinstance(pattern, str):
        return pattern == name
    return pattern.matches(name.encode("utf-8", "surrogateescape"))


def nothing_called(profile: Profile, pattern: str) -> RecordingError:
    """Return the error that no function is called so; its hint has names that are near."""
    frames = [frame_of(function) for function in profile.functions]
    frames += [frame for sample in profile.samples for frame in sample.frames]
    names = {frame.symbol or image_name(frame) for frame in frames} - {""}
    near = get_close_matches(pattern.rpartition("@")[0] or pattern, sorted(names), n=_NEAR)
    return RecordingError(
        f"no function of the profile is called '{pattern}'",
        hint=f"there is {', '.join(near)}" if near else None,
    )
