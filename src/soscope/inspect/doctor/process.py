# SPDX-License-Identifier: Apache-2.0
"""The findings of `soscope doctor` about one process or file: images, libc, support."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat

from soscope.binfmt.elf import constants as c
from soscope.binfmt.elf.image import ElfImage
from soscope.binfmt.elf.sections import features
from soscope.binfmt.elf.slots import slot_relocations
from soscope.binfmt.source import LONGEST, READING, kind_of
from soscope.control.command import is_text, reason_without_agent
from soscope.entry.agent import put_in, resident
from soscope.entry.agent.visit import Visit
from soscope.entry.isa import arch
from soscope.entry.ptrace import RemoteMemory
from soscope.errors import FormatError, NoSuchProcess, NotPermitted, SoscopeError
from soscope.inspect.doctor import system
from soscope.inspect.doctor.languages import Language, languages, pieces_of
from soscope.inspect.doctor.system import INFO, LIMITED, MISSING, OK, Cost, Finding, PagePart, costs
from soscope.linker.collect import in_path
from soscope.linker.library import open_image
from soscope.linker.search import Needed, closure
from soscope.model.record import Record
from soscope.proc import maps, status
from soscope.proc.maps import Mapping
from soscope.proc.status import Refused, in_full
from soscope.prototypes import load

# One image of a program: how it was linked, and whether its slots can be hooked.

_ET_REL, _ET_CORE = 1, 4
_NOTYPE = 0
_DF_BIND_NOW = 8
_DF_1_NOW = 1
_DF_1_PIE = 0x08000000

# What the agent can do with an image.
HOOKED = "hookable"
NOTHING = "nothing to hook"
NOT_HOOKED = "not hookable"
FOREIGN = "made for"

# weak symbols that hardly ever have a definition: hooks of tools, and start files
_NOWHERE = {
    "",
    "__gmon_start__",
    "_ITM_deregisterTMCloneTable",
    "_ITM_registerTMCloneTable",
    "_Jv_RegisterClasses",
}


class ImageReport:
    """The report on one image.

    `relro` is "none", "partial" or "full". `binding` is "lazy", "now", or "none" if the image has
    no slot for which it matters. `features` are "IBT" and "SHSTK". `calls` counts the functions
    called through a stub, `loads` the functions whose address is loaded (both are slots).
    `functions` are their names. `untyped` are functions whose address is loaded and whose
    import is not marked as a function. `state` is one of the constants of this module, `why` its
    reason.
    """

    __slots__ = (
        "binding",
        "build_id",
        "calls",
        "features",
        "functions",
        "loads",
        "name",
        "path",
        "relro",
        "state",
        "untyped",
        "why",
    )

    def __init__(self, name: str, path: str, state: str, why: str) -> None:
        self.name = name
        self.path = path
        self.state = state
        self.why = why
        self.relro = self.binding = "none"
        self.features: list[str] = []
        self.build_id = ""
        self.calls = self.loads = 0
        self.functions: set[str] = set()
        self.untyped: set[str] = set()


def machine_name(image: ElfImage) -> str:
    """Return the name of the machine that an image was made for."""
    return "e_machine 0" if image.header is None else image.header.arch_name


def made_for(image: ElfImage) -> str:
    """Return the machine as text: "x86-64", "i386", "mips, big-endian", ..."""
    encoding = image.encoding
    name = machine_name(image)
    if encoding.bits != 64 and "64" in name:
        name += ", 32 bits"
    return name if encoding.order == "<" else f"{name}, big-endian"


def is_native(image: ElfImage) -> bool:
    """Return whether the agent exists for the image's machine."""
    header = image.header
    return header is not None and (image.encoding.bits, header.machine) == (arch.BITS, arch.MACHINE)


def foreign(image: ElfImage) -> str:
    """Return the text for an image of a machine without an agent."""
    return f"{FOREIGN} {made_for(image)}: there is no agent for it"


def linkage_of(image: ElfImage) -> str:
    """Return the kind of file, as text."""
    header = image.header
    assert header is not None
    if header.type == _ET_REL:
        return "object file, not linked yet"
    if header.type == _ET_CORE:
        return "core dump"
    has_dynamic = any(segment.type == c.PT_DYNAMIC for segment in image.segments)
    if header.type == c.ET_EXEC:
        if image.interpreter is None:
            return "static program"
        return "dynamic program, not position-independent"
    if image.interpreter is not None:
        is_program = (image.dynamic.get(c.DT_FLAGS_1) or 0) & _DF_1_PIE
        is_library = image.dynamic.get(c.DT_SONAME) is not None and not is_program
        if is_library:
            return "shared library that can be executed"
        return "dynamic program, position-independent"
    if not has_dynamic:
        return "static program"
    if (image.dynamic.get(c.DT_FLAGS_1) or 0) & _DF_1_PIE:
        return "static program, position-independent"
    return "shared library"


def binds_now(image: ElfImage) -> bool:
    """Return whether the loader binds all slots at load time."""
    dynamic = image.dynamic
    return (
        dynamic.get(c.DT_BIND_NOW) is not None
        or bool((dynamic.get(c.DT_FLAGS) or 0) & _DF_BIND_NOW)
        or bool((dynamic.get(c.DT_FLAGS_1) or 0) & _DF_1_NOW)
    )


def report(image: ElfImage, name: str, path: str, *, is_loader: bool = False) -> ImageReport:
    """Make the report on an image from its file. Never raises, whatever the file contains."""
    if not is_native(image):
        return ImageReport(name, path, NOT_HOOKED, foreign(image))
    report = ImageReport(name, path, HOOKED, "")
    try:
        _fill(report, image)
    except FormatError as error:
        return ImageReport(name, path, NOT_HOOKED, f"damaged: {error}")
    slots = report.calls + report.loads
    if is_loader:
        report.state, report.why = NOT_HOOKED, "the dynamic loader: its own calls are left alone"
    elif linkage_of(image).startswith("static") or image.dynamic.get(c.DT_SYMTAB) is None:
        report.state, report.why = NOT_HOOKED, "static: it has no slots"
    elif not slots:
        report.state, report.why = NOTHING, "it imports no function"
    return report


def _fill(report: ImageReport, image: ElfImage) -> None:
    has_relro = any(segment.type == c.PT_GNU_RELRO for segment in image.segments)
    is_now = binds_now(image)
    if has_relro:
        report.relro = "full" if is_now else "partial"
    report.features = features(image)
    report.build_id = image.build_id.hex()
    if image.dynamic.get(c.DT_SYMTAB) is None:
        return
    called: set[int] = set()
    loaded: set[int] = set()
    for relocation in slot_relocations(image):
        if relocation.symbol:
            (called if relocation.is_call else loaded).add(relocation.symbol)
    if called:
        report.binding = "now" if is_now else "lazy"
    names = {symbol.index: symbol for symbol in image.symbols} if called or loaded else {}
    called = {index for index in called if index in names and names[index].name}
    # a symbol without a type is a function, unless it is marked as data
    loaded = {
        index
        for index in loaded
        if index in names and names[index].type not in (c.STT_OBJECT, c.STT_TLS)
    }
    loaded = {index for index in loaded if names[index].name not in _NOWHERE}
    report.calls, report.loads = len(called), len(loaded)
    report.functions = {names[index].name for index in called | loaded}
    report.untyped = {
        names[index].name for index in loaded - called if names[index].type == _NOTYPE
    }


def settle(listed: list[tuple[ImageReport, ElfImage | None]]) -> None:
    """Remove names that are not functions from the reports, by the definitions of all images.

    An import may have no type: it can be data, or a weak symbol without a definition.
    """
    images = [image for _, image in listed if image is not None]
    known: dict[str, bool] = {}
    for report, _ in listed:
        for name in report.untyped:
            if name not in known:
                known[name] = _is_function(images, name)
        others = {name for name in report.untyped if not known[name]}
        report.loads -= len(others)
        report.functions -= others
        if report.state == HOOKED and not report.calls + report.loads:
            report.state, report.why = NOTHING, "it imports no function"


def _is_function(images: list[ElfImage], name: str) -> bool:
    """Return whether the first definition of a name is a function."""
    for image in images:
        try:
            symbol = image.symbol(name)
        except FormatError:
            continue  # damaged; others may define it
        if symbol is not None:
            return symbol.type not in (c.STT_OBJECT, c.STT_TLS)
    return False


# Recognise a C library and its version, by texts in the image.

GLIBC, MUSL = "glibc", "musl"

_GLIBC = re.compile(rb"GNU C Library \((?P<build>[^)]*)\)[^\0]{0,40}version (?P<version>[0-9.]+)")
_MUSL = re.compile(rb"musl libc \([^)]*\)\nVersion %s\n")
_MUSL_VERSION = re.compile(rb"\0(\d+\.\d+\.\d+(?:-git[^\0]*)?)\0")
_UCLIBC = re.compile(rb"\0uClibc(?:-ng)?[^\0]*\0")

OLDEST_GLIBC = (2, 31)


class Libc(Record):
    """A C library; `version` is "" if not known, `build` the distributor's own text."""

    name: str
    version: str
    build: str = ""

    @property
    def text(self) -> str:
        """Name, version and build as a short text."""
        said = f"{self.name} {self.version}".rstrip()
        return f"{said} ({self.build})" if self.build else said

    @property
    def is_supported(self) -> bool:
        """Return whether soscope supports this library."""
        if self.name == MUSL:
            return True
        numbers = tuple(int(part) for part in self.version.split(".") if part.isdigit())
        return self.name == GLIBC and (not numbers or numbers >= OLDEST_GLIBC)


def libc_of(image: ElfImage, name: str) -> Libc | None:
    """Return the C library that `image` is or contains, None if there is none.

    `name` is its file name. A static program is searched as a whole.
    """
    is_libc = name.startswith(("libc.so", "libc-", "libc.musl", "ld-musl"))
    is_static = not name.startswith("lib") and image.interpreter is None
    if not (is_libc or is_static):
        return None
    for data in pieces_of(image):
        match = _GLIBC.search(data)
        if match:
            build = match["build"].decode("utf-8", "replace")
            version = match["version"].rstrip(b".").decode()
            return Libc(GLIBC, version, "" if build == "GNU libc" else build)
        if _MUSL.search(data):
            said = _MUSL_VERSION.search(data)
            return Libc(MUSL, said[1].decode() if said else "")
        if _UCLIBC.search(data):
            return Libc("uClibc", "")
    return None


# The process or file that the user asked about, with all findings on it.

FINE, PARTIAL, NOT_PERMITTED = 0, 1, 3


class Subject:
    """The findings on a process or a file.

    `kind` is "process" or "file"; `pid` is None for a file. `path` is the program's file,
    `loader` the dynamic loader that it asks for, None for a static program. `status` is one of
    the constants of this module: it tells whether everything could be examined, and if not, why.
    `costs` are the costs of the instruments that can be used on it, empty if none can.
    """

    __slots__ = (
        "costs",
        "findings",
        "images",
        "kind",
        "languages",
        "libc",
        "linkage",
        "loader",
        "machine",
        "made_for",
        "path",
        "pid",
        "status",
    )

    def __init__(self, kind: str, path: str, pid: int | None = None) -> None:
        self.kind = kind
        self.path = path
        self.pid = pid
        self.machine = self.made_for = self.linkage = ""
        self.loader: str | None = None
        self.libc: Libc | None = None
        self.languages: list[Language] = []
        self.images: list[ImageReport] = []
        self.findings: list[Finding] = []
        self.costs: list[Cost] = []
        self.status = FINE

    def say(self, name: str, state: str, text: str, repair: str | None = None) -> None:
        """Add a finding."""
        self.findings.append(Finding(name, state, text, repair))

    def fall_short(self, status: int) -> None:
        """Record that not everything could be examined; the first reason counts."""
        self.status = self.status or status

    def take_program(self, program: ElfImage) -> None:
        """Take over the findings from the program's own file."""
        self.machine = machine_name(program)
        self.made_for = made_for(program)
        self.linkage = linkage_of(program)
        if is_native(program) or program.encoding.bits == 64:
            self.loader = program.interpreter

    def take_images(self, listed: list[tuple[ImageReport, ElfImage | None]]) -> None:
        """Take over the findings from all images; the program comes first."""
        settle(listed)
        self.images = [report for report, _ in listed]
        readable = [(report.name, image) for report, image in listed if image is not None]
        self.languages = languages(readable)
        for name, image in readable:
            libc = libc_of(image, name)
            if libc is not None:
                self.libc = libc
                break

    # ---- conclusions

    def judge(self, hindrance: str | None, command: str = "soscope trace") -> None:
        """Add the conclusions and the costs.

        `hindrance` is why the agent cannot be in this program, None if it can. `command` would
        put the agent in.
        """
        self._judge_libc()
        self._judge_images()
        if hindrance is not None:
            return
        hookable = [image for image in self.images if image.state == HOOKED]
        functions = set().union(*(image.functions for image in hookable))
        if functions:
            text = f"up to {len(functions):,} functions with --from all{_typed(functions)}"
            self.say("what can be seen", OK, text)
            self.costs = costs(command)

    def _judge_libc(self) -> None:
        if self.libc is None:
            if self.images and self.loader is not None:
                self.say("C library", INFO, "none recognised")
        elif self.libc.is_supported:
            self.say("C library", OK, self.libc.text)
        else:
            text = f"{self.libc.text}: soscope is made for glibc 2.31 and newer, and for musl"
            self.say("C library", LIMITED, text)
        for language in self.languages:
            what = (
                f"{language.name} {language.version}"
                if language.version
                else f"{language.name}, version unknown"
            )
            how = "it is" if language.is_main else "it embeds"
            self.say("interpreter", INFO, f"{how} {what} (in {language.image})")

    def _judge_images(self) -> None:
        if not self.images or self.linkage.startswith("static"):
            return
        hookable = [image for image in self.images if image.state == HOOKED]
        slots = sum(image.calls + image.loads for image in hookable)
        text = f"{len(hookable)} of {len(self.images)} can be hooked: {slots:,} function slots"
        self.say("images", OK if hookable else MISSING, text)


def _typed(functions: set[str]) -> str:
    """Return a text on how many functions have known argument types, "" if not known."""
    try:
        known = load()
        declared = sum(known.declaration(name) is not None for name in functions)
    except SoscopeError:  # reported elsewhere on the page
        return ""
    return f", {declared:,} of them with typed arguments"


# A file that the user asked about: it is read but never run, and its loader is not, either.

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


def examine_file(path: str) -> Subject:
    """Examine the file at `path`; a name without a slash is also searched for in PATH.

    Raises SoscopeError if it does not exist (slug no-such-file), is a folder, is neither an ELF
    file nor a script, is damaged (FormatError), or is not readable (NotPermitted).
    """
    path = in_path(path)
    subject = Subject("file", path)
    image = _open_file(subject, path)
    path = subject.path
    try:
        subject.take_program(image)
    except FormatError as error:
        raise _damaged(path, error) from error
    subject.say("program", INFO, f"{subject.linkage}, {subject.made_for}")
    hindrance = _file_hindrance(image, path)
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


def _open_file(subject: Subject, path: str) -> ElfImage:
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
        descriptor = os.open(path, READING)
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


def _file_hindrance(image: ElfImage, path: str) -> str | None:
    """Return why the agent cannot be put into this program, None if it can."""
    assert image.header is not None
    linkage = linkage_of(image)
    if not is_native(image):
        return foreign(image)
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
        return ImageReport(name, needed.path, NOT_HOOKED, needed.why)
    is_loader = index == 1 and program.interpreter is not None
    return report(needed.image, name, needed.path, is_loader=is_loader)


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


# A process that the user asked about: it is read through /proc, and never stopped.

_STATES = {"T": "stopped", "t": "stopped by its tracer", "D": "waiting for a device"}
_AGENT = "/memfd:soscope"
_DELETED = " (deleted)"


def examine_process(pid: int) -> Subject:
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
            listed.append((ImageReport(name, path, NOT_HOOKED, why), None))
            subject.fall_short(PARTIAL)
            continue
        if listed:  # the program is known by its file name
            name = _soname(image) or name
        is_loader = bool(base) and any(
            part.start <= base < part.end and part.inode == mapping.inode for part in mappings
        )
        listed.append((report(image, name, path, is_loader=is_loader), image))
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


# All findings of `soscope doctor`, about this system and about one process or file.


class Diagnosis(Record):
    """All findings: about this system, by parts, and about the `subject`, None without one."""

    parts: list[PagePart]
    subject: Subject | None

    @property
    def status(self) -> int:
        """The exit status: 0, 1 if something does not work, 3 if it is not permitted."""
        findings = [finding for part in self.parts for finding in part.findings]
        if self.subject is not None:
            if self.subject.status != FINE:
                return self.subject.status
            findings += self.subject.findings
        return PARTIAL if any(finding.state == MISSING for finding in findings) else FINE


def diagnose(*, pid: int | None = None, path: str | None = None) -> Diagnosis:
    """Examine this system, and process `pid` or the file at `path`.

    Raises NoSuchProcess, and SoscopeError for a file that cannot be examined.
    """
    subject = None
    if pid is not None:
        subject = examine_process(pid)
    elif path is not None:
        subject = examine_file(path)
    parts = [
        PagePart("installation", [*system.installation_findings(), *system.trial_findings()]),
        PagePart("rights", system.rights_findings()),
        PagePart("kernel", system.kernel_findings()),
        PagePart("processor", system.processor_findings()),
    ]
    return Diagnosis(parts, subject)
