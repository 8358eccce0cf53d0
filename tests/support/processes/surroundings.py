# SPDX-License-Identifier: Apache-2.0
"""What a run of the tests inherits, and what it makes of that: the same everywhere.

Who starts the tests decides about signals that are ignored, the mask of new files, limits and
the environment, and all programs that tests start inherit that in turn. `settle` and
`settle_environment` are called once in each process of pytest, before any test is read.
"""

from __future__ import annotations

import contextlib
import ctypes
import locale
import os
import resource
import signal
import sys
import time

# What stays of the environment; a `*` ends a name of which the beginning is enough. All else
# goes: LD_PRELOAD, LC_ALL, PYTHON…, GIT_DIR in a hook, MAKEFLAGS, CFLAGS, http_proxy and names
# that nobody thinks of would change what programs do, print or allocate.
KEPT = (
    *("PATH", "HOME", "USER", "LOGNAME", "PWD"),  # where programs are, whose files
    "TMPDIR",  # where there is room
    *("CI", "SOSCOPE_TEST_*", "SOSCOPE_MATRIX", "SOSCOPE_REQUIRE_TOOLS"),  # orders to the tests
    *("SOSCOPE_PYTHONS", "SOSCOPE_RUBIES", "SOSCOPE_RUBY"),  # what to test with
    *("SOSCOPE_ZIG", "SOSCOPE_MACHO_WHEELS", "PYENV_ROOT"),
    *("PYTEST_*", "COVERAGE_*", "COV_CORE_*"),  # of pytest and its plugins
    *("PIP_*", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),  # how pip finds its index
    *("CARGO_HOME", "RUSTUP_*"),  # without them there is no rustc
)
# What everybody has, the same for all.
GIVEN = {
    "LANG": "C.UTF-8",  # messages of programs are compared
    "TZ": "UTC",  # times are
    "TERM": "xterm",  # soscope writes in colours to a terminal that can show them
    "SHELL": "/bin/sh",  # gdb starts its programs by it
    "OPENBLAS_NUM_THREADS": "1",  # numpy's other threads spin for 0.1 s when it is imported
}

_DESCRIPTORS = 4096  # more than any test opens at once
_STACK = 8 << 20  # what Linux gives; without a limit, mappings lie elsewhere
# Python ignores these by itself; subprocess puts them back for its children.
_PYTHONS_OWN = {signal.SIGPIPE, signal.SIGXFSZ}
_FREE = (  # limits that a program of a test shall not meet
    *(resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_FSIZE),
    *(resource.RLIMIT_MEMLOCK, resource.RLIMIT_NPROC),
)


def settle() -> None:
    """Make of this process what all tests begin with, but for the environment."""
    _settle_signals()
    _settle_descriptors()
    _settle_limits()
    os.umask(0o022)
    ctypes.CDLL(None).personality(0)  # setarch -R would go on in all programs
    # assertions are rewritten once, not by each process of each run
    sys.dont_write_bytecode = False


def _settle_signals() -> None:
    """Ignore no signal, and block none."""
    for number in signal.valid_signals() - _PYTHONS_OWN:
        if signal.getsignal(number) != signal.SIG_IGN:
            continue
        if number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)
        elif number == signal.SIGHUP:
            signal.signal(number, _outlive)
        else:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _outlive(number: int, _frame: object) -> None:
    """Let the run go on after its terminal is closed: it was started by nohup.

    Programs that tests start do not: a function is no longer the action after an exec.
    """


def _settle_descriptors() -> None:
    """Have descriptors 0, 1 and 2, the first readable, and hand no others on."""
    for number in range(3):
        try:
            flags = _flags(number)
        except OSError:  # it is closed
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one
            assert opened == number
            os.set_inheritable(number, True)
            continue
        if number == 0 and flags & os.O_ACCMODE == os.O_WRONLY:  # by nohup
            with open(os.devnull, "rb") as null:
                os.dup2(null.fileno(), 0)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the one that lists them
                os.set_inheritable(int(name), False)


def _flags(number: int) -> int:
    import fcntl

    return fcntl.fcntl(number, fcntl.F_GETFL)


def _settle_limits() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _DESCRIPTORS:
        with contextlib.suppress(ValueError, PermissionError):  # only CAP_SYS_RESOURCE raises it
            resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
    _limit(resource.RLIMIT_NOFILE, _DESCRIPTORS)
    _limit(resource.RLIMIT_CORE, 0)  # programs crash in folders of tests, and on purpose
    _limit(resource.RLIMIT_STACK, _STACK)
    for which in _FREE:
        _limit(which, resource.RLIM_INFINITY)


def _limit(which: int, soft: int) -> None:
    """Set a limit; it is never more than the hard one."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft > hard):
        soft = hard
    resource.setrlimit(which, (soft, hard))


def settle_environment() -> None:
    """Leave what is in KEPT, and add what is in GIVEN.

    pytest itself has been told by then whether to write in colours, and how wide.
    """
    path = _path_of_soscope()
    for name in set(os.environ) - set(GIVEN):
        if not any(name == kept or _begins(name, kept) for kept in KEPT):
            del os.environ[name]
    os.environ.update(GIVEN)
    if path:
        os.environ["PYTHONPATH"] = path
    time.tzset()
    locale.setlocale(locale.LC_CTYPE, "")


def _begins(name: str, kept: str) -> bool:
    return kept.endswith("*") and name.startswith(kept[:-1])


def _path_of_soscope() -> str:
    """Return what PYTHONPATH must say for programs to find soscope, "" where it is installed."""
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    found = [folder for folder in folders if os.path.isfile(f"{folder}/soscope/__init__.py")]
    return os.pathsep.join(map(os.path.abspath, filter(None, found)))
