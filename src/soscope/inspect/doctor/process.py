# SPDX-License-Identifier: Apache-2.0
"""A process that the user asked about: it is read through /proc, and never stopped."""

from __future__ import annotations

import os

from soscope.binfmt.elf.image import ElfImage
from soscope.entry.agent import resident
from soscope.entry.agent.visit import Visit
from soscope.entry.ptrace import RemoteMemory
from soscope.errors import FormatError, NoSuchProcess
from soscope.inspect.doctor import images as looks
from soscope.inspect.doctor import system
from soscope.inspect.doctor.finding import INFO, LIMITED, MISSING, OK
from soscope.inspect.doctor.images import ImageReport
from soscope.inspect.doctor.subject import NOT_PERMITTED, PARTIAL, Subject
from soscope.linker.library import open_image
from soscope.proc import maps, status
from soscope.proc.maps import Mapping
from soscope.proc.status import Refused, in_full

_STATES = {"T": "stopped", "t": "stopped by its tracer", "D": "waiting for a device"}
_AGENT = "/memfd:soscope"
_DELETED = " (deleted)"


def examine(pid: int) -> Subject:
    """Examine process `pid`.

    Raises NoSuchProcess.
    """
    facts = status.read_stat(pid)
    fields = status.read_status(pid)
    pid = _leader(pid, fields)
    zombie = None
    try:
        tid = status.living_thread(pid)  # if the leader has ended, any thread will do
    except NoSuchProcess as error:
        tid, zombie = pid, error
    subject = Subject("process", status.program_path(tid), pid)
    name = fields.get("Name", "")
    subject.say("process", INFO, _who(pid, name, fields))
    if zombie is not None:
        subject.say("agent", MISSING, f"{zombie}: {zombie.hint}")
        subject.fall_short(PARTIAL)
        return subject
    if facts.flags & status.PF_KTHREAD:
        subject.say("agent", MISSING, "a thread of the kernel: it has no memory of its own")
        subject.fall_short(PARTIAL)
        return subject
    if facts.state in _STATES:
        subject.say("state", INFO, _STATES[facts.state])
    may = _rights(subject, tid)
    mappings = _mappings(tid)
    if mappings is None:
        return subject
    _look_into(subject, tid, mappings, may=may)
    if not may:
        subject.judge("not permitted")
        return subject
    subject.say("reading", OK, f"soscope resolve, map and explain -p {pid} work")
    _residents(subject, tid, mappings)
    hindrance = _hindrance(pid)
    if hindrance is not None:
        subject.say("agent", MISSING, hindrance)
    else:
        subject.say("agent", OK, f"soscope trace -p {pid} can put it in, and take it out again")
    subject.judge(hindrance, command=f"soscope trace -p {pid}")
    return subject


def _leader(pid: int, fields: dict[str, str]) -> int:
    """Return the process of a thread."""
    try:
        return int(fields.get("Tgid", pid))
    except ValueError:
        return pid


def _who(pid: int, name: str, fields: dict[str, str]) -> str:
    uid = fields.get("Uid", "0").split()[0]
    threads = fields.get("Threads", "1")
    more = "" if threads == "1" else f", {threads} threads"
    return f"{pid} ({name}), of {system.user_name(int(uid))}{more}"


def _rights(subject: Subject, pid: int) -> bool:
    """Return whether its memory may be read; the kernel makes the same checks for an attach."""
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError:
        why, repair = system.why_refused(pid)
        subject.say("permission", MISSING, why, repair)
        subject.fall_short(NOT_PERMITTED)
        return False
    except OSError as error:
        raise NoSuchProcess(f"no process {pid}", errno=error.errno) from error
    subject.say("permission", OK, "its memory can be read, and it can be traced")
    for kind, what in (("mnt", "mount"), ("pid", "PID"), ("user", "user")):
        if system.other_namespace(pid, kind):
            subject.say("namespace", INFO, f"it has another {what} namespace (a container)")
            break
    return True


def _mappings(tid: int) -> list[Mapping] | None:
    """Return the mappings, None if they may not be read."""
    try:
        return maps.read(tid)
    except OSError:
        return None


def _look_into(subject: Subject, pid: int, mappings: list[Mapping], *, may: bool) -> None:
    """Examine the files of all images with executable pages."""
    exe = _stat(f"/proc/{pid}/exe")
    seen: dict[tuple[int, str], Mapping] = {}
    first: dict[tuple[int, str], Mapping] = {}
    for mapping in mappings:
        key = mapping.inode, mapping.path
        if not mapping.inode or mapping.path.startswith(_AGENT):
            continue
        first.setdefault(key, mapping)
        if "x" in mapping.flags:
            seen.setdefault(key, first[key])
    ordered = sorted(seen.values(), key=lambda mapping: exe is None or mapping.inode != exe.st_ino)
    base = _base(pid) if may else 0
    listed: list[tuple[ImageReport, ElfImage | None]] = []
    for mapping in ordered:
        path = mapping.path.removesuffix(_DELETED)
        name = os.path.basename(path)
        image = _open(pid, mapping)
        if image is None:
            why = "its file cannot be opened"
            listed.append((ImageReport(name, path, looks.NOT_HOOKED, why), None))
            subject.fall_short(PARTIAL)
            continue
        if listed:  # the program is known by its file name
            name = _soname(image) or name
        is_loader = bool(base) and any(
            part.start <= base < part.end and part.inode == mapping.inode for part in mappings
        )
        listed.append((looks.report(image, name, path, is_loader=is_loader), image))
    if listed and listed[0][1] is not None:
        try:
            subject.take_program(listed[0][1])
        except FormatError as error:
            subject.say("program", LIMITED, str(error))
        else:
            subject.say("program", INFO, f"{subject.linkage}, {subject.made_for}")
    subject.take_images(listed)
    deleted = [mapping for mapping in ordered if mapping.path.endswith(_DELETED)]
    if deleted:
        text = f"{len(deleted)} of its files were deleted or replaced since it started"
        subject.say("files", INFO, text)


def _soname(image: ElfImage) -> str | None:
    try:
        return image.soname
    except FormatError:
        return None


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _base(pid: int) -> int:
    """Return the address at which the kernel mapped the loader, 0 for a static program."""
    try:
        return maps.read_auxv(pid).get(maps.AT_BASE, 0)
    except (OSError, FormatError):
        return 0


def _open(pid: int, mapping: Mapping) -> ElfImage | None:
    """Open the file of a mapping, None if it cannot be opened."""
    places = [
        f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}",
        f"/proc/{pid}/exe",
        f"/proc/{pid}/root{mapping.path}",
        mapping.path,
    ]
    for place in places:
        status = _stat(place)
        if status is None or status.st_ino != mapping.inode:
            continue
        try:
            return open_image(place)
        except (OSError, FormatError):
            continue  # try another path
    return None


def _hindrance(pid: int) -> str | None:
    """Return why the agent cannot be put into the process now, None if it can.

    An attachment begins with the same checks. They do not stop the process.
    """
    try:
        visit = Visit(pid)
    except Refused as refused:
        return in_full(refused.reason)
    try:
        visit.check_seccomp()
    except Refused as refused:
        return in_full(refused.reason)
    finally:
        visit.close()
    return None


def _residents(subject: Subject, tid: int, mappings: list[Mapping]) -> None:
    """Report the agents that are in the process already, and their owners."""
    try:
        memory = RemoteMemory(tid)
    except OSError:
        return
    try:
        for agent in resident.find(memory, mappings):
            owner = agent.owner
            if owner:
                subject.say("soscope", INFO, f"soscope {owner} has its agent in it")
            elif agent.is_hooked:
                text = "a soscope that has ended has left its hooks in it"
                subject.say("soscope", LIMITED, text, f"soscope detach -p {subject.pid}")
            elif agent.has_patches:
                names = ", ".join(patch.symbol for patch in agent.patches().standing())
                text = f"soscope patch has functions in the place of {names}"
                subject.say("soscope", INFO, text, f"soscope patch -p {subject.pid} --undo")
            else:
                subject.say(
                    "soscope", INFO, "an agent lies in it, without hooks: for the next time"
                )
    finally:
        memory.close()
