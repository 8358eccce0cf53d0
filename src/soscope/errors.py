# SPDX-License-Identifier: Apache-2.0
"""Every exception that soscope raises on purpose.

    SoscopeError                 something went wrong; message, hint, slug, exit status
    ├── UsageError               the words on the command line, or the arguments of a call
    ├── FormatError              a file is not what its format promises; names field and offset
    ├── AmbiguousError           several answers, where one was asked for; lists them
    ├── RecordingError           a recording cannot be written, or be read
    ├── NoSuchProcess            the process is not there       (also a ProcessLookupError)
    ├── NotPermitted             the kernel says no             (also a PermissionError)
    ├── LaunchError              the command could not be started
    ├── AttachError              a running process could not be traced
    ├── HookError                a function of this process could not be hooked
    ├── RemoteError              a stub of the remote protocol is gone, or answers nonsense
    └── AgentError               the agent could not be put into the process, or gave up
        └── NoSharedMemory       no memory to share with it

The classes follow what a caller can do about it, not where it happened. A message is one
line in lower case without a full stop, `what: object: reason`; the hint says what to do.
"""

from __future__ import annotations


class SoscopeError(Exception):
    """Base of all errors that are not a bug in soscope.

    >>> try:
    ...     soscope.Image.open("/etc/passwd")
    ... except soscope.SoscopeError as error:
    ...     print(error.slug, error.exit_status, error.hint)
    ...     print(error)
    format 1 None
    /etc/passwd: magic at offset 0x0: neither an ELF nor a Mach-O file

    `slug` is a stable word for the error (and the anchor of its paragraph in the
    documentation), `exit_status` what the command line ends with, `errno` the
    system's reason where there was one: it is kept, never flattened into the text.
    `soscope trace CMD` replaces `exit_status` by 125, except for `LaunchError`.
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
        # OSError's own __str__ would print errno and filename, which we do not fill in.
        return self.message


class UsageError(SoscopeError):
    """The user asked for something that has no meaning."""

    slug = "usage"
    exit_status = 2


class FormatError(SoscopeError):
    """A file breaks its format.

    `field` names what was wrong and `offset` is where it lies, in bytes from the start
    of the source that was read; both are in the message already.

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
    """There are several answers where one was asked for; `candidates` are all of them."""

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
    """There is no process of this id, or no longer.

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
    """A stub of the GDB remote protocol is gone, or does not answer as it should."""

    slug = "remote"
    exit_status = 125


class LaunchError(SoscopeError):
    """The command could not be started.

    Exit status 125; `not_executable` and `not_found` make the shell's 126 and 127.
    """

    slug = "launch"
    exit_status = 125

    @classmethod
    def not_found(cls, command: str, *, errno: int | None = None) -> LaunchError:
        """Make the error for a command that no directory of PATH has."""
        return cls(
            f"cannot run '{command}': not found", slug="not-found", exit_status=127, errno=errno
        )

    @classmethod
    def not_executable(cls, command: str, reason: str, *, errno: int | None = None) -> LaunchError:
        """Make the error for a file that is there and that exec refuses; `reason` says why."""
        return cls(
            f"cannot run '{command}': {reason}",
            slug="not-executable",
            exit_status=126,
            errno=errno,
        )


class AttachError(SoscopeError):
    """A running process cannot have the agent; it goes on as if nothing had happened."""

    slug = "attach"
    exit_status = 1


class HookError(SoscopeError):
    """`soscope.hook` cannot lead calls of a function to this callable: nothing was changed."""

    slug = "hook"
    exit_status = 1


class AgentError(SoscopeError):
    """The agent could not be built into the target, or reported a failed start."""

    slug = "agent"
    exit_status = 125


class NoSharedMemory(AgentError):  # noqa: N818  it says what is missing
    """A limit, or the system, allows no memory that the agent and soscope could share.

    A command that was to be traced runs untraced.
    """
