# SPDX-License-Identifier: Apache-2.0
"""Functions of a profile by a pattern, NAME or NAME@IMAGE, with globs in both parts."""

from __future__ import annotations

from difflib import get_close_matches

from soscope.errors import RecordingError, UsageError
from soscope.instruments.prof.contexts import Matches
from soscope.instruments.prof.model import Profile
from soscope.instruments.prof.views import frame_of, function_name, image_name
from soscope.live.names.demangle import plain_name
from soscope.model.call import StackFrame
from soscope.select.automaton import Automaton, compile_glob

_NEAR = 3  # similar names in a hint


def matcher(pattern: str) -> Matches:
    """Return a function that tells whether a frame matches. C++ parameters may be left out.

    An image that stands for all its functions also matches by its own name. A pattern that is no
    glob is a name.
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
        return glob  # `operator[]` is a name, no pattern


def _is(pattern: Automaton | str, name: str) -> bool:
    if isinstance(pattern, str):
        return pattern == name
    return pattern.matches(name.encode("utf-8", "surrogateescape"))


def nothing_called(profile: Profile, pattern: str) -> RecordingError:
    """Return the error that no function matches, with similar names as hint."""
    frames = [frame_of(function) for function in profile.functions]
    frames += [frame for sample in profile.samples for frame in sample.frames]
    names = {frame.symbol or image_name(frame) for frame in frames} - {""}
    near = get_close_matches(pattern.rpartition("@")[0] or pattern, sorted(names), n=_NEAR)
    return RecordingError(
        f"no function of the profile is called '{pattern}'",
        hint=f"there is {', '.join(near)}" if near else None,
    )
