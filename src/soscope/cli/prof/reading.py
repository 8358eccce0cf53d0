# SPDX-License-Identifier: Apache-2.0
"""Reads a profile from any file that has one: a recording, or from gprof or LD_PROFILE."""

from __future__ import annotations

from soscope.errors import UsageError
from soscope.instruments.prof.model import Profile
from soscope.instruments.prof.run import profile_of
from soscope.options.prof.image import ProfFile
from soscope.recording.reader import RecordingFile
from soscope.verbs.prof.reading import is_foreign, read_foreign


def profile_at(file: ProfFile, *, sample_lines: bool = True) -> Profile:
    """Return the profile in a file. `sample_lines` is the same as for `profile_of`.

    Raises RecordingError, FormatError or SoscopeError if there is none, and UsageError if the
    options do not fit the file.
    """
    if is_foreign(file.path):
        return read_foreign(
            file.path,
            file.image,
            load_bias=file.load_bias or 0,
            program_bias=file.program_bias or 0,
        )
    with RecordingFile.open(file.path) as recording:
        if file.is_said_to_be_foreign:
            raise UsageError("--image and --load-bias are for profiles of gprof and LD_PROFILE")
        return profile_of(recording, sample_lines=sample_lines)
