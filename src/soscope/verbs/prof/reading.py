# SPDX-License-Identifier: Apache-2.0
"""Read a profile from a recording, or from a file of another profiler."""

from __future__ import annotations

import os
import stat

from soscope.errors import SoscopeError, UsageError
from soscope.instruments.prof.model import Profile
from soscope.instruments.prof.report import profile_of
from soscope.recording.reader import RecordingFile
from soscope.verbs.options import Option, Values, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from soscope.instruments.prof.names import ImageFunctions


# Options for profiles of other profilers: the profiled file, and its load address.

_GROUP = "profiles of gprof and LD_PROFILE"


def parse_addr(text: str) -> int:
    """Return a hexadecimal address, with or without 0x. Raises UsageError."""
    try:
        value = int(text, 16)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 64:
        raise UsageError(f"'{text}' is not an address", hint="for example 0x7f3a5c000000")
    return value


IMAGE = Option(
    "--image", metavar="IMAGE", group=_GROUP, help="the program or library that FILE is of"
)


BIASES = table(
    _GROUP,
    Option(
        "--load-bias",
        metavar="ADDR",
        convert=parse_addr,
        help="where a library lay in the process: its lowest address in /proc/PID/maps",
    ),
    Option(
        "--program-bias",
        metavar="ADDR",
        convert=parse_addr,
        help="where the program lay, if it was a PIE: glibc has taken that off all addresses",
    ),
)


# Reads and shows profiles that other profilers have written.

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


def read_foreign(path: str, values: Values) -> Profile:
    """Read a file of gprof or LD_PROFILE, by the options IMAGE and BIASES.

    Without IMAGE, the profiled file is found by the name of a file of LD_PROFILE. For the biases
    see `gmon_profile`. Raises SoscopeError.
    """
    image: str | None = values.image
    from soscope.binfmt.profiles import is_ldprofile, read_gmon, read_ldprofile
    from soscope.binfmt.source import READING, FileSource
    from soscope.instruments.prof.gmon import gmon_profile, ldprofile_profile

    try:
        descriptor = os.open(path, READING)
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
            raise UsageError(f"{path} does not name its program", hint="name it: --image PROGRAM")
        functions = _functions(image)
        gmon = read_gmon(source, None if functions.elf is None else functions.elf.encoding.bits)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise SoscopeError(f"{path}: {reason}", errno=error.errno) from error
    finally:
        os.close(descriptor)
    return gmon_profile(
        gmon, functions, load_bias=values.load_bias or 0, program_bias=values.program_bias or 0
    )


def _library(path: str) -> str:
    from soscope.instruments.prof.views import library_of

    library = library_of(path)
    if library is None:
        raise SoscopeError(f"{path}: its library is not known", hint="name it: --image LIB")
    return library


def _functions(image: str) -> ImageFunctions:
    from soscope.instruments.prof.names import ImageFunctions

    functions = ImageFunctions(image)
    if functions.elf is None:
        raise SoscopeError(functions.notes[0].partition(": its functions")[0])
    return functions


def profile_at(path: str, values: Values, *, sample_lines: bool = True) -> Profile:
    """Return the profile in a file, by the options IMAGE and BIASES.

    `sample_lines` is the same as for `profile_of`.

    Raises RecordingError, FormatError or SoscopeError if there is none, and UsageError if the
    options do not fit the file.
    """
    if is_foreign(path):
        return read_foreign(path, values)
    with RecordingFile.open(path) as recording:
        if any(each is not None for each in (values.image, values.load_bias, values.program_bias)):
            raise UsageError("--image and --load-bias are for profiles of gprof and LD_PROFILE")
        return profile_of(recording, sample_lines=sample_lines)
