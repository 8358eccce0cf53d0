# SPDX-License-Identifier: Apache-2.0
"""Options of ltrace and strace that soscope lacks, with the alternative to each.

Each one has a sentence with the alternative. This table is not used for options that a verb has.
"""

from __future__ import annotations

from soscope.errors import UsageError

_SYSTEM_CALLS = "-S shows functions that are system calls; strace shows what the kernel sees"
_PROTOTYPES = "soscope trace -F FILE shows functions by declarations of one's own: C, or ltrace's"
_STACK = "-k shows the stack of each call, --stack-depth N so many frames of it"
_DEMANGLE = "names of C++ are demangled without it; --no-demangle: as they are linked"
_ALWAYS_ALL = "flags, structures and strings are always decoded; -s and -A say how much is shown"
_DAEMON = (
    "the command is a child of soscope, and a process (-p PID) no relative of it: soscope ... &"
)
_SIGNALS = "Ctrl-C reaches the command, as if soscope were not there; with -p, it ends the trace"
_INJECT = "soscope inject -e inject=FUNCTION:error=ERRNO:when=N -- COMMAND"
_OWN_COST = "what soscope adds to nested calls is taken out without being told how much it is"
_SETS = "sets of functions are -e %file, %net, %mem ..."

# Option -> what to use instead, in alphabetical order, for ltrace and strace together.
HABITS = {
    "-d": "--debug shows tracebacks of soscope's own errors",
    "-D": f"-D of ltrace: --debug shows tracebacks of our own errors; -D of strace: {_DAEMON}",
    "-F": _PROTOTYPES,
    "-I": _SIGNALS,
    "-L": "--from all shows the calls of every image, -e chooses among all of them",
    "-N": "names of arguments are not shown",
    "-O": _OWN_COST,
    "-V": "soscope --version",
    "-w": f"-w of ltrace: {_STACK}; -w of strace: times of -c are wall-clock times anyway",
    "-X": "constants are shown by name; --json has their values, too",
    "-Y": "names of processes are not shown with their numbers",
    "--abbrev": _ALWAYS_ALL,
    "--absolute-timestamps": "-t, -tt, -ttt",
    "--argv0": "exec -a NAME of the shell: soscope trace -- bash -c 'exec -a NAME COMMAND'",
    "--attach": "-p PID",
    "--config": _PROTOTYPES,
    "--const-print-style": "constants are shown by name; --json has their values, too",
    "--daemonize": _DAEMON,
    "--decode-pids": "names of processes are not shown with their numbers",
    "--demangle": _DEMANGLE,
    "--detach-on": "-b of strace; without -f, a process that executes another program is let go of",
    "--failed-syscalls-only": "-Z",
    "--fault": _INJECT,
    "--filter": "-e EXPR",
    "--follow": "-f",
    "--inject": _INJECT,
    "--interruptible": _SIGNALS,
    "--kill-on-exit": "the command goes on where soscope is killed",
    "--kvm": _SYSTEM_CALLS,
    "--library": "-l IMAGE",
    "--max-depth": "--depth N",
    "--no-abbrev": _ALWAYS_ALL,
    "--output-append-mode": "-o -, and >> FILE of the shell: soscope trace -o - ... >> FILE",
    "--output-separately": "-ff -o FILE",
    "--raw": "--json has the values beside the texts",
    "--read": "-s N shows more of what is read",
    "--relative-timestamps": "-r",
    "--seccomp-bpf": "what is not chosen costs nothing",
    "--signal": "-b shows no signals; there is no choice among them",
    "--silent": "-q",
    "--status": "-z: calls that succeed; -Z: that fail; --where \"ended == 'unwound'\"",
    "--strings-in-hex": "bytes that are no text are always escaped",
    "--summary-columns": "-U COLUMNS",
    "--summary-only": "-c",
    "--summary-sort-by": "--sort KEY",
    "--summary-syscall-overhead": _OWN_COST,
    "--summary-wall-clock": "times of -c are wall-clock times anyway",
    "--syscall-number": _SYSTEM_CALLS,
    "--syscall-times": "-T",
    "--syscalls": _SYSTEM_CALLS,
    "--tips": "soscope trace --help",
    "--trace": f"-e EXPR; {_SETS}",
    "--trace-path": "-P PATH",
    "--verbose-structs": _ALWAYS_ALL,
    "--version": "soscope --version",
    "--write": "-s N shows more of what is written",
}


def explained(flag: str, verb: str) -> UsageError | None:
    """Return the error for an option that `verb` lacks, None if it is not a known one."""
    usage = f"soscope {verb} --help lists the options"
    sentence = HABITS.get(flag)
    if sentence is None and verb != "trace":
        from soscope.verbs.trace import VERB

        if any(flag in option.flags for option in VERB.options):
            sentence = "soscope trace has it, for the command or the moment of recording"
    if sentence is None:
        return None
    return UsageError(f"there is no {flag}: {sentence}", hint=usage)
