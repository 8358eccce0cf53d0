# SPDX-License-Identifier: Apache-2.0
"""A file that the user asked about: it is read but never run, and its loader is not, either."""

from __future__ import annotations

import errno
import os
import shutil
import stat

from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.source import LONGEST, kind_of
from soscope.control.command import is_text, reason_without_agent
from soscope.entry.agent import put_in
from soscope.errors import FormatError, NotPermitted, SoscopeError
from soscope.inspect.doctor import images as looks
from soscope.inspect.doctor.finding import INFO, MISSING, OK
from soscope.inspect.doctor.images import ImageReport
from soscope.inspect.doctor.subject import PARTIAL, Subject
from soscope.linker.library import open_image
from soscope.linker.search import Needed, closure
from soscope.proc import status

_HEAD = 256
_MAX_SCRIPTS = 5

_SAID = {
    status.SETUID: (
        "set-user-id, set-group-id or with capabilities: tracing would take its rights away;"
        " soscope trace runs it untraced"
    ),
    status.STATIC: "static: it has no slots; soscope prof run shows its functions by samples",
    status.UNREADABLE: "not readable: soscope trace runs it untraced",
}


def examine(path: str) -> Subject:
    """Examine the file at `path`; a name without a slash is also searched for in PATH.

    Raises SoscopeError if it does not exist (slug no-such-file), is a folder, is neither an ELF
    file nor a script, is damaged (FormatError), or is not readable (NotPermitted).
    """
    if "/" not in path and not os.path.lexists(path):
        path = shutil.which(path) or path
    subject = Subject("file", path)
    image = _open(subject, path)
    path = subject.path
    try:
        subject.take_program(image)
    except FormatError as error:
        raise _damaged(path, error) from error
    subject.say("program", INFO, f"{subject.linkage}, {subject.made_for}")
    hindrance = _hindrance(image, path)
    listed = closure(image, path, os.environ.get("LD_LIBRARY_PATH", ""))
    reports = [_report(needed, index, image) for index, needed in enumerate(listed)]
    subject.take_images([(report, listed[index].image) for index, report in enumerate(reports)])
    _missing(subject, listed)
    if hindrance is not None:
        subject.say("agent", MISSING, hindrance)
    elif "library" in subject.linkage:
        text = "a library is traced in the programs that load it: soscope trace --from or -l"
        subject.say("agent", INFO, f"{text} {os.path.basename(path)}")
    else:
        subject.say("agent", OK, "soscope trace can put it in")
    subject.judge(hindrance)
    return subject


def _open(subject: Subject, path: str) -> ElfImage:
    """Open the program at `path`; for a script, the program of its interpreter."""
    for _ in range(_MAX_SCRIPTS):
        subject.path = path
        head = _head(path)
        if not head.startswith(b"#!"):
            break
        words = head[2:].split(b"\n", 1)[0].split(b"\0", 1)[0].split()  # as the kernel splits it
        if not words:
            break
        program = os.fsdecode(words[0])
        if os.path.basename(program) == "env" and len(words) > 1:
            rest = [word for word in words[1:] if not word.startswith(b"-") and b"=" not in word]
            program = shutil.which(os.fsdecode(rest[0])) or program if rest else program
        subject.say("script", INFO, f"{path}: it is run by {program}")
        path = program
    if not head.startswith(b"\x7fELF"):
        hint = None
        if head and is_text(head):
            what = "a text, neither ELF file nor script with #!"
        else:
            kind, hint = kind_of(head[:LONGEST], path)
            what = f"{kind}, not an ELF file" if hint else kind or "not an ELF file"
        raise FormatError(f"'{path}': {what}", field="e_ident", offset=0, hint=hint)
    try:
        return open_image(path)
    except FormatError as error:
        raise _damaged(path, error) from error


def _damaged(path: str, error: FormatError) -> FormatError:
    text = str(error).removeprefix(f"{path}: ")
    return FormatError(f"'{path}': damaged: {text}", field=error.field, offset=error.offset)


def _head(path: str) -> bytes:
    try:
        # opening a pipe or a terminal must not block
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except PermissionError as error:
        raise NotPermitted(
            f"cannot read '{path}': permission denied", hint="sudo soscope …", errno=error.errno
        ) from error
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise SoscopeError(
            f"cannot open '{path}': {reason}", slug="no-such-file", errno=error.errno
        ) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
            raise SoscopeError(f"'{path}' is {kind}", slug="no-such-file", errno=errno.EISDIR)
        return os.read(descriptor, _HEAD)
    finally:
        os.close(descriptor)


def _hindrance(image: ElfImage, path: str) -> str | None:
    """Return why the agent cannot be put into this program, None if it can."""
    assert image.header is not None
    linkage = looks.linkage(image)
    if not looks.is_native(image):
        return looks.foreign(image)
    if "core dump" in linkage or "object file" in linkage:
        return f"{linkage}: it cannot be run"
    reason = reason_without_agent(os.fsencode(path))
    if "library" in linkage and reason in (None, status.STATIC, status.BY_LOADER):
        return None
    if reason is None and put_in.would_fail(os.getpid(), image):
        return "it may call mlockall, and `ulimit -l` is too low for the agent's memory, too"
    return None if reason is None else _SAID.get(reason, reason)


def _report(needed: Needed, index: int, program: ElfImage) -> ImageReport:
    name = os.path.basename(needed.path or needed.name)
    if needed.image is None:
        return ImageReport(name, needed.path, looks.NOT_HOOKED, needed.why)
    is_loader = index == 1 and program.interpreter is not None
    return looks.report(needed.image, name, needed.path, is_loader=is_loader)


def _missing(subject: Subject, listed: list[Needed]) -> None:
    lacking = [needed for needed in listed if needed.image is None]
    for needed in lacking:
        asker = os.path.basename(needed.by.path) if needed.by is not None else ""
        repair = "add its folder to LD_LIBRARY_PATH" if not needed.path else None
        subject.say(needed.name, MISSING, f"{needed.why}; {asker} needs it", repair)
    if lacking:
        subject.fall_short(PARTIAL)
    elif subject.loader is not None and len(listed) > 1:
        text = f"{len(listed) - 1} found; what it loads later (dlopen) is not in its file"
        subject.say("libraries", INFO, text)
