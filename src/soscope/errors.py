# SPDX-License-Identifier: Apache-2.0
"""Every exception that soscope raises on purpose.

    SoscopeError                 something went wrong; message, hint, slug, exit status
    ├── UsageError               the words on the command line, or the arguments of a call
    ├── FormatError              a file does not follow its format; names field and offset
    ├── AmbiguousError           several answers to a question for one; lists them
    ├── RecordingError           a recording cannot be written, or be read
    ├── NoSuchProcess            the process does not exist     (also a ProcessLookupError)
    ├── NotPermitted             the kernel refused             (also a PermissionError)
    ├── LaunchError              the command could not be started
    ├── AttachError              a running process could not be traced
    ├── HookError                a function of this process could not be hooked
    ├── RemoteError              a GDB stub is gone, or its answers make no sense
    └── AgentError               the agent could not be put into the process, or gave up
        └── NoSharedMemory       no memory that soscope and the agent can share

There is a class for each thing that a caller can do about an error, not for each place that
raises one. A message is one line in lower case without a full stop, `what: object: reason`. The
hint says what the user can do.
"""

from __future__ import annotations


class SoscopeError(Exception):
    """Base class of all errors that are not a bug in soscope.

    >>> try:
    ...     soscope.Image.open("/etc/passwd")
    ... except soscope.SoscopeError as error:
    ...     print(error.slug, error.exit_status, error.hint)
    ...     print(error)
    format 1 None
    /etc/passwd: magic at offset 0x0: neither an ELF nor a Mach-O file

    `slug` is a stable word for the error (and the anchor of its paragraph in the documentation).
    `exit_status` is the exit status of the command line. `errno` is the errno of the system call
    that failed, if there was one. It is kept as a number, beside the text of the message.
    `soscope trace CMD` exits with 125 in place of `exit_status`, except for `LaunchError`.
    """

    slug = "error"
    exit_status = 1

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        slug: str | None = None,
        exit_status: int | None = None,
        errno: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.errno = errno
        if slug is not None:
            self.slug = slug
        if exit_status is not None:
            self.exit_status = exit_status

    def __str__(self) -> str:
        # OSError.__str__ would print errno and filename, and soscope does not set the filename.
        return self.message


class UsageError(SoscopeError):
    """The user asked for something that makes no sense."""

    slug = "usage"
    exit_status = 2


class FormatError(SoscopeError):
    """A file does not follow its format.

    `field` is the name of the wrong field and `offset` is its position, in bytes from the start
    of the source that was read. Both are in the message already.

    >>> from soscope.errors import FormatError
    >>> try:
    ...     soscope.open("/etc/passwd")
    ... except FormatError as error:
    ...     (error.field, error.offset)
    ('magic', 0)
    """

    slug = "format"
    exit_status = 1

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        offset: int | None = None,
        hint: str | None = None,
        slug: str | None = None,
        exit_status: int | None = None,
        errno: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint, slug=slug, exit_status=exit_status, errno=errno)
        self.field = field
        self.offset = offset


class AmbiguousError(SoscopeError, LookupError):
    """There are several answers, but the caller asked for one; `candidates` are all of them."""

    slug = "ambiguous"
    exit_status = 1

    def __init__(self, message: str, candidates: tuple[object, ...]) -> None:
        super().__init__(message)
        self.candidates = candidates


class RecordingError(SoscopeError):
    """A recording cannot be created, written or read."""

    slug = "recording"
    exit_status = 1


class NoSuchProcess(SoscopeError, ProcessLookupError):  # noqa: N818  named as psutil's is
    """No process has this id, or the process has ended.

    >>> try:
    ...     soscope.Process(1 << 30)
    ... except ProcessLookupError as error:
    ...     print(error)
    no process 1073741824
    """

    slug = "no-such-process"
    exit_status = 4


class NotPermitted(SoscopeError, PermissionError):  # noqa: N818  pairs with NoSuchProcess
    """The kernel refuses what soscope needs to do."""

    slug = "not-permitted"
    exit_status = 3


class RemoteError(SoscopeError):
    """A stub of the GDB remote protocol is gone, or its answers do not follow the protocol."""

    slug = "remote"
    exit_status = 125


class LaunchError(SoscopeError):
    """The command could not be started.

    The exit status is 125; for `not_executable` and `not_found` it is 126 and 127, as in a shell.
    """

    slug = "launch"
    exit_status = 125

    @classmethod
    def not_found(cls, command: str, *, errno: int | None = None) -> LaunchError:
        """Make the error for a command that is in no directory of PATH."""
        return cls(
            f"cannot run '{command}': not found", slug="not-found", exit_status=127, errno=errno
        )

    @classmethod
    def not_executable(cls, command: str, reason: str, *, errno: int | None = None) -> LaunchError:
        """Make the error for a file that exists, but that exec refuses; `reason` tells why."""
        return cls(
            f"cannot run '{command}': {reason}",
            slug="not-executable",
            exit_status=126,
            errno=errno,
        )


class AttachError(SoscopeError):
    """The agent cannot be put into a running process; the process goes on unchanged."""

    slug = "attach"
    exit_status = 1


class HookError(SoscopeError):
    """`soscope.hook` cannot redirect a function's calls to this callable; nothing was changed."""

    slug = "hook"
    exit_status = 1


class AgentError(SoscopeError):
    """The agent could not be loaded into the target, or reported that it failed to start."""

    slug = "agent"
    exit_status = 125


class NoSharedMemory(AgentError):  # noqa: N818  it says what is missing
    """A limit, or the system, allows no memory that the agent and soscope could share.

    The command runs all the same, but is not traced.
    """
