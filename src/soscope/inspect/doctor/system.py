# SPDX-License-Identifier: Apache-2.0
"""The findings of `soscope doctor` about this system: kernel, processor, rights, trial."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import pwd
import shutil
import sys
import time
from importlib import metadata
from importlib.util import find_spec

from soscope.control.command import Command
from soscope.control.launch import launch
from soscope.entry import ptrace
from soscope.entry.agent import install
from soscope.entry.native.isa import machine_of
from soscope.entry.ptrace import libc
from soscope.errors import AgentError, NoSharedMemory, NoSuchProcess, SoscopeError
from soscope.model.arch import ARCHES, arch_here
from soscope.model.record import Record
from soscope.proc import status
from soscope.proc.rights import missing_right
from soscope.prototypes import load
from soscope.select.patterns import Automaton, pack_patterns
from soscope.wire import layout, sharedfile
from soscope.wire.block import ControlBlock
from soscope.wire.plan import InstrumentPlan, Plan

# The cost of each way to observe a program: rounded figures from benchmarks/RESULTS.md.
#
# The figures are nanoseconds a call on one machine of 2023, in a loop that does nothing else. They
# show the order of magnitude and promise nothing for another machine. A test compares them with the
# table.


class Cost(Record):
    """One way to observe: the command, what it shows, and about how many ns a call takes."""

    command: str
    shows: str
    ns: int


# (options of `soscope trace`, what it shows, ns a call)
_ROWS = (
    ("--count-only", "how often each function is called", 1),
    ("-c", "calls, errors and times by function", 22),
    ("--entry-only", "each call with its arguments, no result", 12),
    ("", "each call with arguments, result and time", 29),
)


def costs(command: str = "soscope trace") -> list[Cost]:
    """Return the ways to observe, the cheapest first."""
    rows = sorted(_ROWS, key=lambda row: row[2])
    return [Cost(f"{command} {options}".rstrip(), shows, ns) for options, shows, ns in rows]


# A finding of the doctor: one thing that was examined, and its state.

OK = "ok"  # works
LIMITED = "limited"  # works partly, or with disadvantages
MISSING = "missing"  # does not work
INFO = "info"  # neither good nor bad


class Finding(Record):
    """One thing that was examined.

    `name` is the thing, `state` one of the constants above, `text` one line for users. `repair`
    is the line to type, or the thing to do, None if nothing needs to be, or can be, done.
    """

    name: str
    state: str
    text: str
    repair: str | None = None


class PagePart(Record):
    """Findings that belong together, under a `title`."""

    title: str
    findings: list[Finding]


# The installed parts: the agent, the prototypes, the packages for parts of soscope.

# required packages, then the extras: distribution -> (module, extra)
_CORE = {"numpy": "numpy"}
_EXTRAS = {
    "capstone": ("capstone", "disasm"),
    "unicorn": ("unicorn", "emulate"),
    "pandas": ("pandas", "data"),
    "pyarrow": ("pyarrow", "data"),
}


def installation_findings() -> list[Finding]:
    """Examine this installation."""
    return [_agent(), _prototypes(), _core(), _extras()]


def _agent() -> Finding:
    """Build the agent's file as targets get it, and map it as they do."""
    path = install.agent_path()
    repair = f"{sys.executable} -m pip install --force-reinstall soscope"
    try:
        built = install.Blob.build(path)
    except AgentError as error:
        here = arch_here()
        if here is not None and not here.has_agent:
            return Finding("agent", INFO, error.message)
        return Finding("agent", MISSING, error.message, repair)
    try:
        built.fill()
        flags, protection = mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC
        with mmap.mmap(built.fd, built.size, flags=flags, prot=protection) as mapped:
            is_whole = mapped[:4] == b"\x7fELF"
    except OSError as error:
        reason = (error.strerror or "").lower()
        return Finding("agent", MISSING, f"{path}: cannot be mapped: {reason}", repair)
    finally:
        built.close()
    if not is_whole:
        return Finding("agent", MISSING, f"{path}: not whole when mapped", repair)
    built_as = built.build_id.hex()[:16] or "none"
    text = f"{path}; build-id {built_as}…, wire version {layout.WIRE_VERSION}"
    return Finding("agent", OK, text)


def _prototypes() -> Finding:
    """Check whether the declarations of functions are installed."""
    try:
        known = load().declaration("malloc") is not None
    except (OSError, SoscopeError) as error:
        return Finding("prototypes", MISSING, str(error))
    if not known:
        return Finding("prototypes", LIMITED, "without malloc: arguments are shown as numbers")
    return Finding("prototypes", OK, "arguments and results of known functions are shown in full")


def version_of(distribution: str, module: str) -> str | None:
    """Return the version of an installed package, "?" if it has none, None if it is missing."""
    try:
        if find_spec(module) is None:
            return None
    except (ImportError, ValueError):
        return None
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "?"


def _core() -> Finding:
    versions = {name: version_of(name, module) for name, module in _CORE.items()}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        text = f"missing: {', '.join(missing)}"
        repair = f"{sys.executable} -m pip install {' '.join(missing)}"
        return Finding("packages", LIMITED, text, repair)
    return Finding("packages", OK, ", ".join(f"{name} {versions[name]}" for name in versions))


def _extras() -> Finding:
    has, lacks = [], []
    for name, (module, extra) in _EXTRAS.items():
        version = version_of(name, module)
        if version is None:
            lacks += [] if extra in lacks else [extra]
        else:
            has.append(f"{name} {version}")
    text = f"{', '.join(has) or 'none'}; not installed: {', '.join(lacks) or 'none'}"
    repair = f"{sys.executable} -m pip install 'soscope[{','.join(lacks)}]'" if lacks else None
    return Finding("extras", INFO, text, repair)


# The features of the kernel, tested by trying each feature in this process.

_MADV_POPULATE_WRITE = 23
_NOEXEC = "/proc/sys/vm/memfd_noexec"


def kernel_findings() -> list[Finding]:
    """Try the kernel features that soscope uses."""
    findings = [_proc(), _memory_file(), _prefault(), _forced_write(), _vm_readv(), _robust_list()]
    return [*findings, _map_files()]


def _why(number: int) -> str:
    return os.strerror(number).lower()


def _proc() -> Finding:
    """Check whether /proc shows other processes: hidepid hides other users' processes."""
    if not os.path.exists("/proc/self/maps"):
        return Finding("/proc", MISSING, "not mounted", "mount -t proc proc /proc")
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        rows = []
    # mountinfo's fifth field is the mount point; the file system's options come last
    options = next((row[-1] for row in reversed(rows) if row[4:5] == ["/proc"]), "")
    if "hidepid=" in options and "hidepid=0" not in options and "hidepid=off" not in options:
        text = f"mounted with {options}: processes of others are not to be seen"
        return Finding("/proc", LIMITED, text, "sudo mount -o remount,hidepid=0 /proc")
    return Finding("/proc", OK, "mounted, all processes are to be seen")


def _memory_file() -> Finding:
    """Make a memory file and map it executable, as the agent is mapped."""
    name = "executable memory files"
    try:
        descriptor = sharedfile.create(mmap.PAGESIZE)
    except NoSharedMemory as error:
        return Finding(name, MISSING, str(error), "mount -t tmpfs tmpfs /dev/shm")
    try:
        is_memfd = "/memfd:" in os.readlink(f"/proc/self/fd/{descriptor}")
        mmap.mmap(
            descriptor,
            mmap.PAGESIZE,
            flags=mmap.MAP_PRIVATE,
            prot=mmap.PROT_READ | mmap.PROT_EXEC,
        ).close()
    except OSError as error:
        repair = f"sudo sysctl vm.memfd_noexec=0 (now {_setting(_NOEXEC) or 'unknown'})"
        return Finding(name, MISSING, f"cannot be mapped: {_why(error.errno or 0)}", repair)
    finally:
        os.close(descriptor)
    if not is_memfd:
        return Finding(name, LIMITED, "no memfd_create; /dev/shm stands in for it")
    return Finding(name, OK, "memfd_create, mapped executable")


def _setting(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _prefault() -> Finding:
    """Try MADV_POPULATE_WRITE (Linux 5.14)."""
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        try:
            page.madvise(_MADV_POPULATE_WRITE)
        except OSError as error:
            text = f"{_why(error.errno or 0)}: the first calls take a page fault each 16 KiB"
            return Finding("MADV_POPULATE_WRITE", LIMITED, text)
    return Finding("MADV_POPULATE_WRITE", OK, "the ring is in memory before the target starts")


def _forced_write() -> Finding:
    """Write to a read-only page through /proc/self/mem, as soscope writes breakpoints."""
    name = "writing through /proc/PID/mem"
    page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    held = ctypes.c_char.from_buffer(page)
    try:
        addr = ctypes.addressof(held)
        if libc.mprotect(ctypes.c_void_p(addr), ctypes.c_size_t(mmap.PAGESIZE), 1):
            return Finding(name, INFO, "could not be tried")
        try:
            descriptor = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            return Finding(name, MISSING, _why(error.errno or 0))
        try:
            os.pwrite(descriptor, b"x", addr)
        except OSError as error:
            text = f"read-only pages are refused ({_why(error.errno or 0)}); ptrace writes instead"
            return Finding(name, LIMITED, text)
        finally:
            os.close(descriptor)
        return Finding(name, OK, "read-only pages, too")
    finally:
        libc.mprotect(ctypes.c_void_p(ctypes.addressof(held)), mmap.PAGESIZE, 3)
        del held
        page.close()


def _vm_readv() -> Finding:
    """Read our own memory with process_vm_readv(2)."""
    source, target = ctypes.create_string_buffer(b"soscope"), ctypes.create_string_buffer(8)

    def vector(buffer: ctypes.Array[ctypes.c_char]) -> ctypes.Array[ctypes.c_size_t]:
        return (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)

    call = getattr(libc, "process_vm_readv", None)
    if call is None:
        return Finding("process_vm_readv", LIMITED, "this C library has none")
    ctypes.set_errno(0)
    size = call(
        os.getpid(),
        vector(target),
        ctypes.c_ulong(1),
        vector(source),
        ctypes.c_ulong(1),
        ctypes.c_ulong(0),
    )
    if size != 8 or target.value != b"soscope":
        text = f"{_why(ctypes.get_errno())}: pointers that may be bad are not followed"
        return Finding("process_vm_readv", LIMITED, text)
    return Finding("process_vm_readv", OK, "pointers that may be bad are followed safely")


def _robust_list() -> Finding:
    """Get our own robust list, by which soscope finds a thread's variables without ptrace."""
    head, size = ctypes.c_void_p(), ctypes.c_size_t()
    here = arch_here()
    number = -1 if here is None else here.calls.get("get_robust_list", -1)  # -1: no such call
    ctypes.set_errno(0)
    failed = libc.syscall(
        ctypes.c_long(number),
        ctypes.c_long(0),
        ctypes.byref(head),
        ctypes.byref(size),
    )
    if failed:
        text = f"{_why(ctypes.get_errno())}: thread-local variables need ptrace"
        return Finding("get_robust_list", LIMITED, text)
    return Finding("get_robust_list", OK, "thread-local variables can be found without ptrace")


def _map_files() -> Finding:
    """Open a mapped file through map_files, as deleted and replaced files need."""
    name = "/proc/PID/map_files"
    try:
        entry = min(os.listdir("/proc/self/map_files"))
        os.close(os.open(f"/proc/self/map_files/{entry}", os.O_RDONLY | os.O_CLOEXEC))
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None) or errno.ENOENT
        text = f"{_why(number)}: files that were deleted or replaced are not seen"
        return Finding(name, LIMITED, text, "run as root, or with CAP_CHECKPOINT_RESTORE")
    return Finding(name, OK, "files that were deleted or replaced are still seen")


# The processor: its clock, and the registers that matter for calls.

_PR_GET_TSC = 25
_PR_TSC_SIGSEGV = 2
_CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


def processor_findings() -> list[Finding]:
    """Examine the processor."""
    machine = os.uname().machine
    here = arch_here()
    if here is None or not here.has_agent:
        known = " and ".join(arch.name for arch in ARCHES if arch.has_agent)
        text = f"{machine}: the agent exists only for {known}; recordings can be read"
        if here is None or machine_of(here) is None:
            return [Finding("processor", MISSING, text)]
        return [Finding("processor", LIMITED, f"{text}, and calls be traced by breakpoints")]
    flags = _flags()
    return [Finding("processor", OK, _name() or machine), _clock(flags), _cet(flags), _wide(flags)]


def _flags() -> set[str]:
    """Return the words of the first line `flags` of /proc/cpuinfo."""
    return set(_line("flags").split())


def _name() -> str:
    return _line("model name")


def _line(name: str) -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == name:
                    return value.strip()
    except OSError:
        pass  # no /proc
    return ""


def clock_source() -> str:
    """Return the clock source of the kernel, "" if it is not known."""
    try:
        with open(_CLOCK, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _clock(flags: set[str]) -> Finding:
    """Judge the time-stamp counter, with which soscope times every call."""
    name = "time-stamp counter"
    mode = ctypes.c_int()
    if not libc.prctl(_PR_GET_TSC, ctypes.byref(mode), 0, 0, 0) and (mode.value == _PR_TSC_SIGSEGV):
        return Finding(name, MISSING, "switched off for this process (PR_SET_TSC): no times")
    source = clock_source()
    steady = {"constant_tsc", "nonstop_tsc"} <= flags
    if source and source != "tsc":
        text = f"the kernel does not trust it (its clock is {source}): times may be wrong"
        return Finding(name, LIMITED, text)
    if not steady:
        text = "its rate is not said to be constant: durations may be wrong"
        return Finding(name, LIMITED, text)
    return Finding(name, OK, "steady (constant_tsc, nonstop_tsc); the kernel's clock, too")


def _cet(flags: set[str]) -> Finding:
    """Report which control-flow enforcement the processor has."""
    has = [word for word in ("ibt", "user_shstk", "shstk") if word in flags]
    if not has:
        return Finding("CET", INFO, "not offered: neither shadow stacks nor IBT")
    text = f"offered ({', '.join(has)}); trampolines begin with endbr64, and pair calls and returns"
    return Finding("CET", INFO, text)


def _wide(flags: set[str]) -> Finding:
    """Report which wide registers the processor has."""
    names = [
        name
        for word, name in (("avx2", "AVX2"), ("avx512f", "AVX-512"), ("amx_tile", "AMX"))
        if word in flags
    ]
    text = f"{', '.join(names) or 'SSE alone'}; the agent touches none at a call"
    return Finding("vector registers", INFO, text)


# The rights of this process over other processes: ptrace, and everything that can forbid it. The
# kernel checks, in this order (ptrace(2), "Ptrace access mode checking"): same user in all ids, or
# CAP_SYS_PTRACE; the target is dumpable; its capabilities do not exceed soscope's; then Yama and
# other security modules. Reading /proc/PID/mem takes the same checks as attaching.

CAP_SYS_PTRACE = 19
_INTERESTING = {19: "CAP_SYS_PTRACE", 21: "CAP_SYS_ADMIN", 40: "CAP_CHECKPOINT_RESTORE"}
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"
_YAMA_SAYS = {
    0: "any process of yours",
    1: "only your own children; processes that run already are refused",
    2: "administrators alone",
    3: "no process, until the next start of the system",
}
YAMA_REPAIR = "sudo sysctl kernel.yama.ptrace_scope=0"
CONTAINER_REPAIR = "start the container with --cap-add=SYS_PTRACE"


def rights_findings() -> list[Finding]:
    """Examine the rights of this process."""
    try:
        own = status.read_status(os.getpid())
    except NoSuchProcess:
        return [Finding("rights", MISSING, "not known without /proc", "mount -t proc proc /proc")]
    findings = [_child(), _yama(own), _capabilities(own), _user_namespace(), _pid_namespace()]
    return [*findings, _seccomp(own)]


def yama_scope() -> int | None:
    """Return Yama's ptrace_scope, None if the kernel does not have Yama."""
    try:
        with open(_YAMA, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def capabilities(fields: dict[str, str], which: str = "CapEff") -> int:
    """Return a capability set in /proc/PID/status as bits, 0 if it is missing."""
    try:
        return int(fields.get(which, "0"), 16)
    except ValueError:
        return 0


def in_first_namespace(kind: str) -> bool | None:
    """Return whether we are in the system's first namespace of a kind, None if not known.

    The kernel gives the first namespaces fixed numbers (include/linux/proc_ns.h).
    """
    first = {"user": 0xEFFFFFFD, "pid": 0xEFFFFFFC}[kind]
    try:
        return os.readlink(f"/proc/self/ns/{kind}") == f"{kind}:[{first}]"
    except OSError:
        return None


def user_name(uid: int) -> str:
    """Return a user's name, or "user" and the number if it has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _child() -> Finding:
    """Trace a child of soscope as a test."""
    name = "ptrace of own children"
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(write)
            os.read(read, 1)
        finally:
            os._exit(0)
    os.close(read)
    try:
        ptrace.seize(child, ptrace.O_EXITKILL)
    except OSError as error:
        traced = status.read_status(child).get("TracerPid", "0")
        who = f"process {traced} traces it" if traced != "0" else (error.strerror or "").lower()
        text = f"refused: {who}; the agent goes in through LD_PRELOAD, without -f and signals"
        repair = None if traced != "0" else _repair_of_ptrace()
        return Finding(name, LIMITED, text, repair)
    finally:
        os.close(write)
        os.waitpid(child, 0)
    return Finding(name, OK, "tried and allowed: soscope trace COMMAND can put the agent in")


def _repair_of_ptrace() -> str:
    if (yama_scope() or 0) >= 2:
        return YAMA_REPAIR
    if in_container():
        return "start the container with --cap-add=SYS_PTRACE --security-opt seccomp=unconfined"
    return "allow the system call ptrace in the seccomp filter or security module"


def in_container() -> bool:
    """Return whether this looks like a container, by marker files and the pid namespace."""
    marks = ("/.dockerenv", "/run/.containerenv")
    return any(map(os.path.exists, marks)) or in_first_namespace("pid") is False


def _yama(own: dict[str, str]) -> Finding:
    scope = yama_scope()
    if scope is None:
        return Finding("Yama", OK, "not in this kernel")
    text = f"ptrace_scope {scope}: {_YAMA_SAYS.get(scope, 'unknown')}"
    if scope == 0:
        return Finding("Yama", OK, text)
    if capabilities(own) >> CAP_SYS_PTRACE & 1 and scope < 3:
        return Finding("Yama", OK, f"{text}; you have CAP_SYS_PTRACE, which passes")
    repair = YAMA_REPAIR if scope < 3 else "set kernel.yama.ptrace_scope in sysctl.d and reboot"
    return Finding("Yama", LIMITED, text, repair)


def _capabilities(own: dict[str, str]) -> Finding:
    has = capabilities(own)
    names = [name for bit, name in _INTERESTING.items() if has >> bit & 1]
    name = "capabilities"
    if has >> CAP_SYS_PTRACE & 1:
        where = "" if in_first_namespace("user") is not False else " of this user namespace"
        return Finding(name, OK, f"{', '.join(names)}: processes of every user{where}")
    who = user_name(os.geteuid())
    text = f"without CAP_SYS_PTRACE: only processes of {who} that are dumpable"
    repair = CONTAINER_REPAIR if not os.geteuid() else "sudo soscope …"
    return Finding(name, INFO, text, repair)


def _user_namespace() -> Finding:
    name = "user namespace"
    first = in_first_namespace("user")
    if first is None:
        return Finding(name, INFO, "not known: /proc/self/ns cannot be read")
    if first:
        return Finding(name, OK, "the system's first")
    text = "a nested one: processes outside of it are refused, even to its root"
    return Finding(name, INFO, text)


def _pid_namespace() -> Finding:
    name = "PID namespace"
    first = in_first_namespace("pid")
    if first is None:
        return Finding(name, INFO, "not known: /proc/self/ns cannot be read")
    if first:
        return Finding(name, OK, "the system's first: every process has a number here")
    return Finding(name, INFO, "a nested one: processes outside of it have no number here")


def _seccomp(own: dict[str, str]) -> Finding:
    name = "seccomp"
    mode = own.get("Seccomp", "0")
    if mode == "0":
        return Finding(name, OK, "no filter on this process")
    count = own.get("Seccomp_filters", "?")
    text = f"{count} filter(s) on this process: what it forbids shows above and below"
    return Finding(name, INFO, text)


# ---- rights to one process -----------------------------------------------------------


def why_refused(pid: int) -> tuple[str, str | None]:
    """Return why the kernel refuses access to process `pid`, and a command that helps."""
    error = missing_right(pid, "the memory", None)
    why = error.message.partition(": ")[2]
    if "Yama" in why:
        return why, YAMA_REPAIR
    return why, "sudo soscope …" if os.geteuid() else error.hint


def other_namespace(pid: int, kind: str) -> bool:
    """Return whether a process is known to be in another namespace of a kind than soscope."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
    except OSError:
        return False


# The final test: start a small program of this system with the agent in it.

_LIMIT = 20.0  # seconds; normally it takes twenty milliseconds
_NAME = "trial run"


def trial_findings() -> list[Finding]:
    """Run the program, and judge the result."""
    command = _command()
    if command is None:
        return [Finding(_NAME, LIMITED, "no dynamic program found to try it with")]
    began = time.perf_counter()
    try:
        ended, hooked, calls, why, note = _run(command)
    except (SoscopeError, OSError) as error:
        return [Finding(_NAME, MISSING, str(error))]
    took = (time.perf_counter() - began) * 1000
    program = os.path.basename(command[0])
    if why is not None:
        return [Finding(_NAME, MISSING, f"{program} ran without the agent: {why}")]
    if ended != 0:
        return [Finding(_NAME, MISSING, f"{program} ended with {ended} instead of 0")]
    text = f"{program} ran with the agent: {hooked} slots hooked, {calls} calls, {took:.0f} ms"
    if not calls:
        return [Finding(_NAME, MISSING, f"{text}; no call was seen")]
    if note is not None:
        return [Finding(_NAME, LIMITED, f"{text}; {note}")]
    return [Finding(_NAME, OK, text)]


def _command() -> list[str] | None:
    """Return a command that prints nothing, exits with 0, and can have an agent; None if none."""
    for words in ([shutil.which("true") or ""], [sys.executable, "-I", "-S", "-c", ""]):
        try:
            if words[0] and Command(words).reason is None:
                return words
        except SoscopeError:
            continue  # cannot be run; try the next
    return None


def _make_block(path: str, descriptors: tuple[int, ...] | None, _: int) -> ControlBlock:
    """Make a control block that counts all calls of the program itself."""
    patterns: list[Automaton] = []
    functions = load().function_table(patterns, entry_only=True, want_arguments=False)
    rule = layout.RULE.struct.pack(
        layout.RULE_INCLUDE,
        layout.RULE_FIRST,
        layout.PATTERN_ANY,
        layout.PATTERN_MAIN,
        *[0] * (len(layout.RULE.fields) - 4),
    )
    plan = Plan(
        instruments=[InstrumentPlan(layout.INSTRUMENT_COUNT, rules=rule, functions=functions)],
        patterns=pack_patterns(patterns),
        main_path=path,
        count_arrays=4,
    )
    return ControlBlock.create(plan, descriptors)


def _run(command: list[str]) -> tuple[int | str, int, int, str | None, str | None]:
    """Return (status or signal, slots hooked, calls, why there is no agent, a note)."""
    target = launch(command, _make_block)
    until = time.monotonic() + _LIMIT

    def tick() -> float:
        if time.monotonic() > until:
            os.kill(target.pid, 9)
        return 0.002

    try:
        ended = target.run(tick)
    finally:
        target.leave()
    program = target.programs[0]
    how: int | str = ended.status if ended.status is not None else f"signal {ended.signal}"
    block = program.block
    if block is None:
        return how, 0, 0, program.reason or "no reason is known", program.note
    if block.state != layout.STATE_RUNNING:
        reason = program.reason or (os.strerror(-block.error) if block.error else "not started")
        block.close()
        return how, 0, 0, reason, program.note
    hooked = sum(image.slots_hooked for image in block.images(0))
    calls = sum(block.counts().values())
    block.close()
    return how, hooked, calls, None, program.note
