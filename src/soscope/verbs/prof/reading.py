# SPDX-License-Identifier: Apache-2.0
"""Reads and shows profiles that other profilers have written."""

from __future__ import annotations

import os
import stat

from soscope.errors import SoscopeError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.model import Profile
    from soscope.instruments.prof.names import ImageFunctions
    from soscope.report.output import Form


_MAGIC = b"gmon"


def is_foreign(path: str) -> bool:
    """Return whether a file comes from gprof or LD_PROFILE. Only regular files are read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return False
        with open(path, "rb", buffering=0) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        return False  # opening it will report why


def read_foreign(
    path: str, image: str | None, *, load_bias: int = 0, program_bias: int = 0
) -> Profile:
    """Read a file of gprof or LD_PROFILE.

    `image` is the profiled file, None to find it by the name of a file of LD_PROFILE. For the
    biases see `fromgmon.gmon_profile`. Raises SoscopeError.
    """
    from soscope.binfmt.profiles import is_ldprofile, read_gmon, read_ldprofile
    from soscope.binfmt.source import FileSource
    from soscope.instruments.prof.gmon import gmon_profile, ldprofile_profile

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise SoscopeError(f"{path}: {reason}", errno=error.errno) from error
    try:
        source = FileSource(descriptor, path)
        if is_ldprofile(source):
            return ldprofile_profile(read_ldprofile(source), _functions(image or _library(path)))
        if image is None:
            if not is_foreign(path):
                raise SoscopeError(f"{path}: not a file of gprof's or LD_PROFILE's")
            raise UsageError(
                f"{path} does not say which program it is of", hint="name it: --image PROGRAM"
            )
        functions = _functions(image)
        gmon = read_gmon(source, _bits(functions))
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise SoscopeError(f"{path}: {reason}", errno=error.errno) from error
    finally:
        os.close(descriptor)
    return gmon_profile(gmon, functions, load_bias=load_bias, program_bias=program_bias)


def _library(path: str) -> str:
    from soscope.instruments.prof.views import library_of

    library = library_of(path)
    if library is None:
        raise SoscopeError(
            f"{path}: which library it is of is not known", hint="name it: --image LIB"
        )
    return library


def _functions(image: str) -> ImageFunctions:
    from soscope.instruments.prof.names import ImageFunctions

    functions = ImageFunctions(image)
    if functions.elf is None:
        raise SoscopeError(functions.notes[0].partition(": its functions")[0])
    return functions


def _bits(functions: ImageFunctions) -> int | None:
    return None if functions.elf is None else functions.elf.encoding.bits


def show(
    profile: Profile, form: Form, limit: int | None, output: str | None, *, not_over: str
) -> bool:
    """Write a profile to a file, or standard output if None. Return whether that succeeded.

    Text has `limit` rows, or the default if it is None. Raises UsageError if the file is
    `not_over`, the profile itself.
    """
    from soscope.cli.output import finish
    from soscope.report.output import STDOUT, Output

    if output is not None and os.path.exists(output) and os.path.samefile(output, not_over):
        raise UsageError("-o names the profile itself")
    if form:
        from soscope.report.prof import document

        shown = form.shaped(document(profile))
    else:
        from soscope.report.prof import text

        shown = text(profile, limit)
    opened = Output.open(output, STDOUT)
    opened.begin()
    opened.write(shown)
    return finish(opened)
