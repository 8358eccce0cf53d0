# SPDX-License-Identifier: Apache-2.0
"""Run a command for which a system call fails with EPERM, as under a container's seccomp filter.

python -m tests.support.processes.forbid SYSTEM_CALL COMMAND…
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBERS = {  # x86-64
    "ptrace": 101,
    "perf_event_open": 298,
    "process_vm_readv": 310,
    "wait4": 61,
    "rt_sigtimedwait": 128,
    "rt_sigprocmask": 14,
}


def main() -> None:
    """Install the filter and execute the command."""
    instructions = (
        (_LOAD, 0, 0, 0),  # seccomp_data.nr
        (_JUMP_EQUAL, 0, 1, _NUMBERS[sys.argv[1]]),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    )
    code = b"".join(struct.pack("=HBBI", *one) for one in instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(instructions), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, program, 0, 0):
        sys.exit(f"no seccomp filter: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
