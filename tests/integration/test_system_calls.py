# SPDX-License-Identifier: Apache-2.0
"""Functions of the C library that are system calls (-S), against strace."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.machines.tools import need
from tests.support.processes.run import run
from tests.support.targets.accounts import SOSCOPE, built

# One call of each, between two of umask; the arguments hardly matter.
PROGRAM = """
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
int main(void)
{
    char b[256] = "";
    struct stat s;
    struct statfs fs;
    struct iovec v = {b, 1};
    struct timeval no_time = {0};
    struct timespec nothing = {0};
    struct rusage usage;
    struct rlimit limit;
    struct utsname uts;
    struct tms tms;
    struct pollfd fd = {-1, 0, 0};
    sigset_t set;
    int two[2], gid = 0;
    umask(077);
    open("/none", O_RDONLY); openat(AT_FDCWD, "/none", O_RDONLY); creat("/none/none", 0);
    read(-1, b, 1); write(-1, b, 1); pread(-1, b, 1, 0); pwrite(-1, b, 1, 0);
    readv(-1, &v, 1); writev(-1, &v, 1); preadv(-1, &v, 1, 0); pwritev(-1, &v, 1, 0);
    close(-1); lseek(-1, 0, SEEK_SET); fsync(-1); fdatasync(-1); truncate("/none/none", 0);
    ftruncate(-1, 0); fallocate(-1, 0, 0, 1); pipe2(two, O_CLOEXEC); dup(-1); dup3(-1, -2, 0);
    fcntl(-1, F_GETFD); flock(-1, LOCK_UN); ioctl(-1, FIONREAD, &gid);
    stat("/none", &s); fstat(99, &s); lstat("/none", &s); fstatat(-1, "none", &s, 0);
    statfs("/none", &fs); fstatfs(-1, &fs); access("/none", 0); link("/none", "/none/none");
    symlink("/none", "/none/none"); unlink("/none"); rename("/none", "/none/none");
    readlink("/none", b, 9); mkdir("/none/none", 0); rmdir("/none");
    mknod("/none/none", S_IFIFO, 0); chmod("/none", 0); fchmod(-1, 0); chown("/none", 0, 0);
    fchown(-1, 0, 0); lchown("/none", 0, 0);
    utimensat(-1, "none", NULL, 0); utimes("/none", NULL); chdir("/none"); fchdir(-1);
    getxattr("/none", "user.a", b, 1); setxattr("/none", "user.a", b, 1, 0);
    listxattr("/none", b, 1); removexattr("/none", "user.a");
    inotify_init1(-1); inotify_add_watch(-1, "/none", 0); inotify_rm_watch(-1, 0);
    mmap(NULL, 0, 0, MAP_PRIVATE, -1, 0); munmap(b, 0); mremap(b, 0, 0, 0); mprotect(b, 0, -1);
    madvise(b, 0, -1); msync(b, 0, -1); mlock(b, 0); munlock(b, 0);
    socket(-1, 0, 0); socketpair(-1, 0, 0, two); bind(-1, NULL, 0); listen(-1, 0);
    accept(-1, NULL, NULL); accept4(-1, NULL, NULL, 0); connect(-1, NULL, 0); shutdown(-1, 0);
    send(-1, b, 1, 0); sendto(-1, b, 1, 0, NULL, 0); sendmsg(-1, NULL, 0); recv(-1, b, 1, 0);
    recvfrom(-1, b, 1, 0, NULL, NULL); recvmsg(-1, NULL, 0); getsockopt(-1, 0, 0, NULL, NULL);
    setsockopt(-1, 0, 0, NULL, 0); getsockname(-1, NULL, NULL); getpeername(-1, NULL, NULL);
    poll(&fd, 1, 0); ppoll(&fd, 1, &nothing, NULL); select(0, NULL, NULL, NULL, &no_time);
    pselect(0, NULL, NULL, NULL, &nothing, NULL); epoll_create1(-1); epoll_ctl(-1, 0, 0, NULL);
    epoll_wait(-1, NULL, 1, 0); eventfd(0, -1); timerfd_create(-1, 0); timerfd_gettime(-1, NULL);
    waitpid(-1, NULL, 0); wait4(-1, NULL, 0, NULL); waitid(-1, 0, NULL, 0); setpgid(-1, -1);
    getpid(); getppid(); getpgid(-1); getsid(-1); getuid(); geteuid(); getgid(); getegid();
    getgroups(-1, NULL); getpriority(-1, 0); sched_yield(); sched_getscheduler(-1);
    getrlimit(-1, &limit); setrlimit(-1, &limit); getrusage(-1, &usage); times(&tms); uname(&uts);
    getrandom(b, 1, -1); kill(-1, -1); sigemptyset(&set); sigprocmask(-1, &set, NULL);
    sigaction(SIGUSR1, NULL, NULL); sigpending(&set); alarm(0); setitimer(-1, NULL, NULL);
    getitimer(-1, NULL); nanosleep(&nothing, NULL); usleep(0); execve("/none", NULL, NULL);
    umask(022);
    return 0;
}
"""
# The kernel's names, where glibc's function is of another one.
KERNEL = {
    "accept4": "accept4",
    "alarm": "setitimer|alarm",
    "creat": "creat|openat",
    "eventfd": "eventfd2",
    "fstat": "newfstatat|fstat",
    "fstatat": "newfstatat",
    "getrlimit": "prlimit64",
    "lstat": "newfstatat|lstat",
    "mknod": "mknodat|mknod",
    "nanosleep": "clock_nanosleep|nanosleep",
    "open": "openat",
    "pread": "pread64",
    "pselect": "pselect6",
    "pwrite": "pwrite64",
    "recv": "recvfrom",
    "select": "pselect6|select",
    "send": "sendto",
    "setrlimit": "prlimit64",
    "sigaction": "rt_sigaction",
    "sigpending": "rt_sigpending",
    "sigprocmask": "rt_sigprocmask",
    "stat": "newfstatat|stat",
    "usleep": "clock_nanosleep|nanosleep",
    "utimes": "utimensat|utimes|futimesat",
    "waitpid": "wait4",
}


def between(lines: list[str]) -> list[str]:
    """Return the functions of the lines between those of umask."""
    names = [match[1] for line in lines if (match := re.match(r"(?:\S+->)?(\w+)\(", line))]
    first = names.index("umask")
    return names[first + 1 : names.index("umask", first + 1)]


def test_each_of_them_is_one_system_call(tmp_path: Path) -> None:
    program = built("system_calls.c", PROGRAM)
    files = [tmp_path / "strace", tmp_path / "soscope"]
    done = run([need("strace"), "-o", str(files[0]), program])
    assert done.returncode == 0, done.stderr
    done = run([*SOSCOPE, "trace", "-S", "-e", "umask", "-o", str(files[1]), "--", program])
    assert done.returncode == 0, done.stderr
    truth, seen = (between(file.read_text().splitlines()) for file in files)
    assert len(seen) > 100
    expected = [KERNEL.get(name, name) for name in seen]
    for name, mine in zip(truth, expected, strict=False):
        assert name in mine.split("|"), (name, mine)
    assert len(truth) == len(seen)


def test_they_come_beside_the_programs_own_calls(tmp_path: Path) -> None:
    file = tmp_path / "calls"
    words = [*SOSCOPE, "trace", "-S", "-o", str(file), "--"]
    done = run([*words, need("cat"), "/etc/hostname"])
    assert done.returncode == 0, done.stderr
    text = file.read_text()
    assert "cat->setlocale(" in text
    assert "cat->read(" in text
    assert "that the kernel sees" in done.stderr
    assert "strace" in done.stderr
    done = run([*SOSCOPE, "trace", "-e", "strlen", "-o", str(file), "--", need("true")])
    assert "strace" not in done.stderr
