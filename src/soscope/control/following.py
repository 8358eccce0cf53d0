# SPDX-License-Identifier: Apache-2.0
"""Receive what soscope's helper reports about the programs that it follows (see `helper`)."""

from __future__ import annotations

import _socket
import marshal
import os
import time

from soscope.control import helper
from soscope.control.events import SessionEvents
from soscope.control.exitstatus import ExitStatus
from soscope.control.program import Program
from soscope.errors import AttachError
from soscope.wire.block import ControlBlock
from soscope.wire.sharedfile import PlanFile

_INT = 4  # bytes of a descriptor
_FILES = 2  # descriptors that come with one packet, at most
_END = 5.0  # seconds that the helper may take to detach
_PAUSE = 0.002
# soscope's ends of all links. A helper must not hold another helper's link, whose end tells that
# helper that soscope has ended.
_links: list[_socket.socket] = []

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from collections.abc import Callable
    from typing import Any


class Following:
    """The helper of one process, as soscope sees it.

    `programs` are those that were executed since the attach, and `pids` the living processes that
    were forked since. `exit` is the exit status of the first process, None before its end.
    `is_over` is set if no process is traced any more, and `was_killed` if the helper was killed.
    `most_to_begin` is the time in seconds in which the helper must have begun to trace.
    """

    most_to_begin = 5.0

    def __init__(
        self, program: Program, events: SessionEvents, live: Callable[[_socket.socket], object]
    ) -> None:
        """Fork the helper, which runs `live` with its end of the link and follows the process.

        Raises AttachError.
        """
        self.pid = program.pid
        self.programs: list[Program] = []
        self.pids: set[int] = set()
        self.exit: ExitStatus | None = None
        self.is_over = self.was_killed = False
        self._began = False
        self._is_polling = False
        self._pieces: list[bytes] = []
        self._known = {0: program}
        self._events = events
        try:
            self._link, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
            self._child = os.fork()
        except OSError as error:
            raise AttachError(f"cannot follow process {self.pid}: {error.strerror}") from error
        if not self._child:
            for link in (self._link, *_links):
                link.close()
            _be_the_helper(live, theirs)
        theirs.close()
        _links.append(self._link)
        self._await_begin()

    def _await_begin(self) -> None:
        end = time.monotonic() + self.most_to_begin
        while not self._began and not self.is_over and time.monotonic() < end:
            if not self.poll():
                time.sleep(_PAUSE)
        if not self._began:
            self.stop()
            raise self._not_begun()

    def _not_begun(self) -> AttachError:
        return AttachError(f"cannot follow process {self.pid}: it may not be traced")

    def hear(self) -> bool:
        """Take all reports of the helper. Return False if an outer call is taking them already."""
        if self._is_polling:
            return False
        self.poll()
        return True

    def poll(self) -> bool:
        """Take the reports of the helper. Return whether there were any."""
        if self._is_polling:
            return False
        self._is_polling = True
        try:
            return self._take_all()
        finally:
            self._is_polling = False

    def _take_all(self) -> bool:
        has_taken = False
        while not self.is_over:
            try:
                data, rights, _, _ = self._link.recvmsg(
                    len(helper.LAST) + helper.PIECE,
                    _socket.CMSG_SPACE(_FILES * _INT),
                    _socket.MSG_DONTWAIT | _socket.MSG_CMSG_CLOEXEC,
                )
            except BlockingIOError:
                return has_taken
            except ConnectionResetError:
                continue  # the helper ended before it read our message; its last reports come next
            except OSError:
                data, rights = b"", []
            if not data:
                self.is_over = self.was_killed = True
                return has_taken
            has_taken = True
            self._pieces.append(data[len(helper.LAST) :])
            if data.startswith(helper.MORE):
                continue
            files = [
                int.from_bytes(numbers[at : at + _INT], "little")
                for _, _, numbers in rights
                for at in range(0, len(numbers) - len(numbers) % _INT, _INT)
            ]
            whole = b"".join(self._pieces)
            self._pieces.clear()
            self._take(marshal.loads(whole), files)  # noqa: S302  our own child wrote it
        return has_taken

    def stop(self) -> None:
        """Make the helper detach from all processes, and wait until it has. May be called twice."""
        if not self._child:
            return
        try:
            self._link.send(helper.STOP, _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL)
        except OSError:
            pass  # the process or thread has ended
        end = time.monotonic() + _END
        while not self.is_over and time.monotonic() < end:
            if not self.poll():
                time.sleep(_PAUSE)
        _links.remove(self._link)
        self._link.close()  # that ends the helper if it still runs
        self.is_over = True
        child, self._child = self._child, 0
        end = time.monotonic() + _END
        try:
            while not os.waitpid(child, os.WNOHANG)[0] and time.monotonic() < end:
                time.sleep(_PAUSE)  # a helper held up by a stopped process ends later
        except ChildProcessError:
            pass  # another handler of SIGCHLD has waited for it

    # ---- packets ----

    def _take(self, packet: tuple[Any, ...], files: list[int]) -> None:
        kind, *rest = packet
        if kind == helper.PROCESS:
            self._process(files, *rest)
        elif kind == helper.INNER_PID:
            self._events.on_inner_pid(*rest)
        elif kind == helper.SIGNAL:
            self._events.on_signal(*rest)
        elif kind == helper.EXIT:
            self._ended(*rest)
        else:
            self._began = True
            self.is_over = bool(rest[0])

    def _process(
        self,
        files: list[int],
        event: str,
        pid: int,
        parent: int | None,
        about: tuple[int, int, str, str | None, str | None],
        how: tuple[str, str],
        time_ns: int,
        place: int,
    ) -> None:
        index, owner, path, reason, note = about
        program = self._known.get(index)
        if program is None:
            program = self._known[index] = Program(index, owner, path, time_ns)
            program.arch, program.engine = how
            self.programs.append(program)
        program.reason = program.reason or reason
        program.note = program.note or note
        if files:
            block, plan = files
            program.block = ControlBlock(block, PlanFile(plan, (self._child, place)))
            program.block.take_over()
        self.pids.add(pid)
        self._events.on_process(event, pid, parent, program, time_ns)

    def _ended(self, pid: int, code: int | None, number: int | None, time_ns: int) -> None:
        self.pids.discard(pid)
        if pid == self.pid:
            self.exit = ExitStatus(code, number)
        self._events.on_exit(pid, code, number, time_ns)


def _be_the_helper(live: Callable[[_socket.socket], object], link: _socket.socket) -> None:
    try:
        os.setpgid(0, 0)  # signals of a terminal are for soscope
        live(link)
    except BaseException:  # noqa: BLE001, S110  the end of the socket tells soscope
        pass
    finally:
        os._exit(0)
