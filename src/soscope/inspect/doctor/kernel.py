# SPDX-License-Identifier: Apache-2.0
"""What the kernel offers, tested by trying each feature in this process."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os

from soscope.errors import NoSharedMemory
from soscope.inspect.doctor.finding import INFO, LIMITED, MISSING, OK, Finding
from soscope.model.arch import arch_here
from soscope.wire import sharedfile

_MADV_POPULATE_WRITE = 23
_NOEXEC = "/proc/sys/vm/memfd_noexec"

_libc = ctypes.CDLL(None, use_errno=True)


def findings() -> list[Finding]:
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
        if _libc.mprotect(ctypes.c_void_p(addr), ctypes.c_size_t(mmap.PAGESIZE), 1):
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
        _libc.mprotect(ctypes.c_void_p(ctypes.addressof(held)), mmap.PAGESIZE, 3)
        del held
        page.close()


def _vm_readv() -> Finding:
    """Read our own memory with process_vm_readv(2)."""
    source, target = ctypes.create_string_buffer(b"soscope"), ctypes.create_string_buffer(8)

    def vector(buffer: ctypes.Array[ctypes.c_char]) -> ctypes.Array[ctypes.c_size_t]:
        return (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)

    call = getattr(_libc, "process_vm_readv", None)
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
    failed = _libc.syscall(
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
