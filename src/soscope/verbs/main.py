# SPDX-License-Identifier: Apache-2.0
"""The main function: choose the verb, run it, and turn errors into an exit status."""

from __future__ import annotations

import errno
import gc
import os
import sys

from soscope import __version__
from soscope.errors import SoscopeError, UsageError
from soscope.report.output import STDOUT, Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import NoReturn

    from soscope.verbs.options import Values, Verb
else:
    import _signal  # signal takes 4 ms, as it imports enum


# Ends soscope as its command ended: with its exit status, or by its signal.


def leave(status: int | None, signal_number: int | None) -> int:
    """Return the exit status of a command, or die of the signal that killed it.

    If its end was not seen, that is soscope's own failure, and the status is 125.
    """
    if signal_number is not None:
        return die(signal_number)
    return 125 if status is None else status


def die(which: int | str) -> int:
    """Die of a signal, by number or name, without a core dump of soscope's own.

    No `atexit` function runs, so everything else must be written and closed. Returns 128 + the
    signal's number only if the signal does not kill.
    """
    import signal

    number = int(signal.Signals[which]) if isinstance(which, str) else which
    _flush()
    _forbid_core()
    try:
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    except (OSError, ValueError, RuntimeError):
        pass  # a real-time signal that Python does not handle
    return 128 + number


def end(status: int) -> NoReturn:
    """End the process at once. The kernel frees its memory faster than the interpreter would.

    No `atexit` function runs.
    """
    _flush()
    os._exit(status)


def _forbid_core() -> None:
    try:
        import resource

        from soscope.entry import ptrace

        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, most))
        # A core_pattern that is a program is started whatever the core limit is.
        ptrace.forbid_dump()
    except (ImportError, AttributeError, OSError, ValueError):
        pass  # at worst there is a core file, and `report` also runs on systems without ptrace


def _flush() -> None:
    """Flush Python's buffers. A stream that fails is given up."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # the descriptor was closed when Python started
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            # Python would report the error once more at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


_COLLECT_AFTER = 100_000
# Errors for lack of descriptors, memory and processes (fork(2): EAGAIN).
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)

FAMILIES = {
    "mem": "show the objects and blocks that stay alive, and where memory went",
    "prof": "show how often functions of shared libraries are called, and how long they take",
}

HELP_WORDS = ("-h", "--help")

# Verb -> (its description in the help, exit status of a usage error). Verbs of a family have two
# words.
VERBS: dict[str, tuple[str, int]] = {
    "trace": ("run a command and show its calls into shared libraries", 125),
    "inject": ("run a command and let calls into shared libraries fail", 125),
    "patch": ("let calls of a process or a command reach other functions", 125),
    "report": ("show a recording", 2),
    "called": ("list the functions of libraries that are called, and the ones that never are", 2),
    "export": ("write a recording for other programs", 2),
    "detach": ("remove everything that soscope keeps in a process or has left there", 2),
    "check": ("find faults in the linking of files", 2),
    "explain": ("show how calls of a symbol go in a process, step by step", 2),
    "map": ("show the slots of files, or of the images of a process", 2),
    "audit-resolver": ("list registers that lazy binding saves, and that it may overwrite", 2),
    "doctor": ("check what works on this machine, and with a process or file", 2),
    "mem attach": ("let a running process count its objects, or record its blocks", 2),
    "mem snapshot": ("show the objects of a running process, or its new blocks", 2),
    "mem refs": ("show who holds the objects of one line in a running process", 2),
    "mem live": ("show which objects or blocks of a running process become more, and where", 2),
    "mem run": ("run a command and show what it leaves alive, and where it was made", 125),
    "mem report": ("show the memory in a recording", 2),
    "mem diff": ("compare two recordings or snapshots: what has grown, and where", 2),
    "mem flame": ("draw the memory that is alive in a recording, by stack or by line", 2),
    "mem leaks": ("show the native blocks that were never freed", 2),
    "prof run": ("run a command and profile its shared libraries", 125),
    "prof attach": ("profile the shared libraries of a running process", 2),
    "prof report": ("show a profile: functions, callers and callees, call paths", 2),
    "prof flame": ("draw a profile: functions below their callers", 2),
    "prof diff": ("compare two profiles: what has become slower, more, new or gone", 2),
    "prof check": ("print how a library is instrumented, and how it can be profiled", 2),
    "resolve": ("find a symbol in a running process, or the symbol at an address", 2),
    "mem where": ("show where the memory of a process is, and whether it leaks", 2),
    "mem trim": ("let malloc of a process return its free memory to the kernel", 2),
}

# What is typed in place of verbs that have become part of others.
FORMER = {
    "run": "patch",
    "mem detach": "detach",
    "mem peak": "mem report --peak",
    "mem temporary": "mem report --temporary",
    "prof detach": "detach",
    "prof ldprofile": "prof report",
}
_OF_COMMANDS = ("run",)  # verbs that run a command, for the exit status of the error

HELP = """\
usage: soscope VERB [options] ...
       soscope --help | --version | help VERB

An oscilloscope for shared objects: what crosses a library's boundary in a live process.

{verbs}

  soscope trace -e 'open*,read' -- cat /etc/hostname
  soscope trace -c --from all -- python3 -c 'import json'

soscope VERB --help tells more; --debug shows tracebacks of soscope's own errors.
"""


class Invocation:
    """One run of soscope: the words behind the verb, and whether tracebacks are wanted.

    `read` sets `debug` as well, as only the verb knows which words are options and which belong to
    a command. `wraps` means that soscope exits with the status of its command, if the verb runs
    commands.
    """

    __slots__ = ("debug", "words", "wraps")

    def __init__(self, words: list[str], *, debug: bool) -> None:
        self.words = words
        self.debug = debug
        self.wraps = True

    def read(self, verb: Verb) -> tuple[Values, list[str]]:
        """Return the values of the options and the arguments, as `Verb.read` does."""
        values, words = verb.read(self.words)
        self.debug |= values.debug
        return values, words


def start() -> NoReturn:
    """Run the command `soscope` and end the process."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        # Before a verb runs there is nothing to clean up, and an import may lose the exception.
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    # The start makes thousands of objects, and none of them is garbage.
    if sys.argv[1:2] == ["resolve"]:
        gc.disable()  # `resolve` keeps its answers until it ends
    else:
        gc.set_threshold(_COLLECT_AFTER)
    from soscope.verbs.onefile import OneFile, guard

    guard()
    modules = OneFile(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.meta_path.insert(0, modules)

    status = main()
    modules.keep()
    end(status)


def main(arguments: list[str] | None = None) -> int:
    """Run soscope with `arguments`, or with the command line. Return the exit status."""
    _Notes.are_hushed = False
    words = sys.argv[1:] if arguments is None else list(arguments)
    debug = bool(os.environ.get("SOSCOPE_DEBUG"))
    while words[:1] == ["--debug"]:
        debug = True
        del words[0]
    if words[:1] == ["help"] and len(words) > 1:
        words = [*words[1:], "--help"]
    verb = words[0] if words else ""
    if verb in FAMILIES and len(words) > 1 and words[1] not in HELP_WORDS:
        verb = f"{verb} {words.pop(1)}"
    invocation = Invocation(words[1:], debug=debug)
    try:
        return _run(verb, invocation)
    except BrokenPipeError:
        return die("SIGPIPE")  # the reader is gone: end as other programs do
    except KeyboardInterrupt:
        return die("SIGINT")
    except SoscopeError as error:
        if invocation.debug:
            _traceback()
        complain(error, in_one_line=verb.split()[:1] == ["prof"] and isinstance(error, UsageError))
        return _status_of(verb, invocation, error)
    except Exception as error:  # noqa: BLE001  said as what it is: a bug
        if invocation.debug:
            _traceback()
        if isinstance(error, MemoryError) or getattr(error, "errno", None) in _SHORTAGES:
            lack = getattr(error, "strerror", None) or os.strerror(errno.ENOMEM)
            complain(SoscopeError(lack.lower()))
            return _status_of(verb, invocation, SoscopeError(lack))
        if isinstance(error, PermissionError):
            from soscope.proc.rights import refused_call

            refused = refused_call(error)
            complain(refused)
            return _status_of(verb, invocation, refused)
        say(f"error: this is a bug in soscope: {type(error).__name__}: {error}")
        if not invocation.debug:
            say("  hint: with SOSCOPE_DEBUG=1 it shows where", prefix="")
        return _status_of(verb, invocation, SoscopeError("bug"))


def _run(verb: str, invocation: Invocation) -> int:
    """Import the verb's module and run it, or print help."""
    if verb in FAMILIES and invocation.words:  # words[0] asks for help
        return _print(_about_family(verb))
    if verb in ("-V", "--version"):
        return _print(version_text())
    if verb in (*HELP_WORDS, "help"):
        return _print(_about())
    if not verb:
        raise UsageError("no verb", hint="soscope --help lists the verbs")
    if verb not in VERBS:
        from difflib import get_close_matches

        if verb in FORMER:
            raise _former(verb, invocation)
        family = verb.partition(" ")[0]
        if verb in FAMILIES:
            raise UsageError(
                f"soscope {verb} needs a verb", hint=f"soscope {verb} --help lists them"
            )
        near = get_close_matches(verb, VERBS, n=1)
        hint = "soscope --help lists the verbs"
        if near:
            hint = f"did you mean soscope {near[0]}?"
        elif family in FAMILIES:
            hint = f"soscope {family} --help lists the verbs"
        elif not verb.startswith("-"):
            hint += f"; to trace a command: soscope trace {verb}"
        raise UsageError(f"'{verb}' is not a verb of soscope", hint=hint)
    name = f"soscope.verbs.{module_name(verb)}"
    __import__(name)  # importlib takes a millisecond
    run = sys.modules[name].run
    if _signal.getsignal(_signal.SIGINT) is _signal.SIG_DFL:  # set by `start`
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    try:
        status: int = run(invocation)
    except SystemExit as asked:  # help was printed
        return _print(getattr(asked, "text", ""))
    return status


def _former(verb: str, invocation: Invocation) -> UsageError:
    """Return the error for a verb that has become part of another one, with the line to type."""
    import shlex

    words = invocation.words
    if verb == "run" and "--" not in words:
        from soscope.verbs.options import command_at
        from soscope.verbs.patch import VERB

        at = command_at(VERB.options, words)
        words = [*words[:at], "--", *words[at:]] if at < len(words) else words
    invocation.wraps = verb in _OF_COMMANDS
    line = f"soscope {FORMER[verb]} {shlex.join(words)}".rstrip()
    return UsageError(f"soscope {verb} is soscope {FORMER[verb]} now", hint=f"type: {line}")


def _print(text: str) -> int:
    """Print what the user has asked for. Return the exit status."""
    return 0 if show(text) else 1


def module_name(verb: str) -> str:
    """Return the name of a verb's module, below `verbs`."""
    return verb.replace("-", "_").replace(" ", ".")


def _about() -> str:
    """Return the help, with all verbs."""
    single = {name: about for name, (about, _) in VERBS.items() if " " not in name}
    lines = [f"  {name:14} {about}" for name, about in (single | FAMILIES).items()]
    return HELP.format(verbs="\n".join(lines))


def _about_family(family: str) -> str:
    """Return the help of a family of verbs."""
    rows = [(name, about) for name, (about, _) in VERBS.items() if name.startswith(f"{family} ")]
    lines = [f"  soscope {name:14} {about}" for name, about in rows]
    return "\n".join([f"usage: soscope {family} VERB [options] ...", "", *lines, ""])


def _status_of(verb: str, invocation: Invocation, error: SoscopeError) -> int:
    """Return the exit status for an error of this verb.

    A command that soscope wraps may end with any status, so soscope's own is one that commands
    hardly use. Shells use 126 and 127 in the same way.
    """
    from soscope.errors import LaunchError

    usage = 125 if verb in _OF_COMMANDS else VERBS.get(verb, ("", 2))[1]
    if usage == 125 and invocation.wraps and not isinstance(error, LaunchError):
        return usage
    return error.exit_status if invocation.wraps or error.exit_status != 125 else 1


class _Notes:
    """Whether a verb wants no notes printed."""

    are_hushed = False


def hush() -> None:
    """Print no notes from now on, until `main` begins anew. Errors are still printed."""
    _Notes.are_hushed = True


def note(*texts: str, prefix: str = "soscope: ") -> None:
    """Print messages of soscope's own, a line each, on standard error, unless notes are hushed."""
    if not _Notes.are_hushed:
        for text in texts:
            say(text, prefix=prefix)


def note_lost(output: Output) -> None:
    """Print how many lines of an output are missing, if it could not be written."""
    if output.error is not None:
        reason = (output.error.strerror or "").lower()
        note(f"cannot write {output.name}: {reason}; {output.lost:,} lines are missing")


def say(text: str, *, prefix: str = "soscope: ") -> None:
    """Print an error in one line on standard error, which may be closed."""
    from soscope.model.call import printable  # not imported if there are no messages

    data = f"{prefix}{printable(text)}\n".encode()
    try:
        os.write(2, data)
    except OSError:
        pass  # standard error is closed


def complain(error: SoscopeError, *, in_one_line: bool = False) -> None:
    """Print an error: what failed, on which object, why, then the hint, below or behind it."""
    if in_one_line and error.hint:
        say(f"error: {error.message}; {' '.join(error.hint.split())}")
        return
    say(f"error: {error.message}")
    if error.hint:
        first, *rest = error.hint.splitlines()
        say(f"  hint: {first}", prefix="")
        for line in rest:
            say(f"        {line}", prefix="")


def _traceback() -> None:
    """Print the traceback of the error that is being handled."""
    import traceback

    for line in traceback.format_exc().rstrip().splitlines():
        say(line, prefix="")


# Messages that are printed while a target runs.

_STDERR = 2
_AT_ONCE = 4096  # bytes that a pipe takes at once if it is writable: PIPE_BUF


class Early:
    """Prints messages at once, or keeps them if printing would wait.

    The target has to be attended to meanwhile.
    """

    def __init__(self) -> None:
        self._kept: list[str] = []

    def __call__(self, text: str) -> None:
        """Print `text` now, if that is possible without waiting."""
        if len(os.fsencode(text)) < _AT_ONCE // 2 and _takes_more(_STDERR):
            note(text)
        else:
            self._kept.append(text)

    def finish(self) -> None:
        """Print the messages that were kept."""
        note(*self._kept)


def _takes_more(fd: int) -> bool:
    """Return whether a small write would not wait."""
    import select

    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))


# How verbs print their result, and report it if that failed.


def show(text: str, path: str | None = None, *, not_over: str = "") -> bool:
    """Print a verb's result. Return whether all of it was written; if not, a note tells why.

    `path` is the file to write, None or `-` for standard output. Raises UsageError if that is the
    file `not_over`, from which the result was made, SoscopeError if the file cannot be opened,
    and BrokenPipeError if the reader is gone.
    """
    if path is not None and not_over and os.path.exists(path) and os.path.samefile(path, not_over):
        raise UsageError("-o names the recording itself")
    output = Output.open(path, STDOUT)
    output.write(text)
    return finish(output)


def finish(output: Output) -> bool:
    """Close an output. Return whether all of it was written; if not, a note tells why.

    Raises BrokenPipeError if the reader is gone.
    """
    output.close()
    if output.error is None:
        return True
    if isinstance(output.error, BrokenPipeError):
        raise output.error
    say(f"cannot write {output.name}: {(output.error.strerror or '').lower()}")
    return False


# The output of `soscope --version`: the version, and the parts of this installation.


def version_text() -> str:
    """Return the version and what this installation can do."""
    from importlib.util import find_spec

    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    agent = os.path.join(package, "_agent", "libsoscope-agent.so")
    python = ".".join(map(str, sys.version_info[:3]))
    system = os.uname()
    has_agent = os.path.exists(agent)
    lines = [
        f"soscope {__version__}",
        f"python {python} on {system.sysname} {system.release} {system.machine}",
        f"agent: {agent if has_agent else _without_agent(system.machine)}",
    ]
    if find_spec("numpy") is None:
        lines.append("missing: numpy")
    return "\n".join(lines) + "\n"


def _without_agent(machine: str) -> str:
    from soscope.entry.native.isa import machine_of
    from soscope.model.arch import arch_here

    here = arch_here()
    if here is None or here.has_agent:
        return "none in this installation: no tracing"
    how = "calls cannot be traced" if machine_of(here) is None else "calls are seen by breakpoints"
    return f"none is made for {machine}: {how}"
