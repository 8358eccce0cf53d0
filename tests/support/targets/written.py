# SPDX-License-Identifier: Apache-2.0
"""A program that calls every function with an OUT argument in a way that writes nothing, or less.

It is generated from the declarations in prototypes/, and keeps an account of its own of what
each call has written (tests/targets/written.h). A new declaration needs a line here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from soscope.prototypes.build import read_declarations
from tests.support.targets.build import TARGETS, made_in

PROTOTYPES = Path(__file__).parents[3] / "prototypes"

# O0, O1, … are the OUT arguments in their order; one that is not named is not looked at.
CALLS = {
    "__asprintf_chk": ['(O0, 1, "%ls", bad)'],
    "__confstr_chk": ["(_CS_PATH, O0, 0, 512)", "(-1, O0, 9, 512)"],
    "__fgets_chk": ["(O0, 512, 9, empty)"],
    "__fread_chk": ["(O0, 512, 1, 9, empty)"],
    "__gethostname_chk": ["(O0, 0, 512)"],
    "__getlogin_r_chk": ["(O0, 0, 512)"],
    "__mbstowcs_chk": ["(O0, words[0], 0, 128)"],
    "__pread_chk": ["(null, O0, 9, 0, 512)", "(-1, O0, 9, 0, 512)"],
    "__ptsname_r_chk": ["(-1, O0, 9, 512)"],
    "__read_chk": ["(null, O0, 9, 512)", "(-1, O0, 9, 512)"],
    "__readlink_chk": ['("/nowhere", O0, 9, 512)', '("/proc/self/exe", O0, 1, 512)'],
    "__readlinkat_chk": ['(-1, "x", O0, 9, 512)', '(-1, "/proc/self/exe", O0, 1, 512)'],
    "__recv_chk": ["(datagram(), O0, 4, 512, MSG_TRUNC)", "(-1, O0, 4, 512, 0)"],
    "__recvfrom_chk": ["(datagram(), O0, 4, 512, MSG_TRUNC, NULL, NULL)"],
    "__snprintf_chk": ['(O0, 0, 1, 512, "x=%d", 5)', '(O0, 3, 1, 512, "x=%d", 55)'],
    "__sprintf_chk": ['(O0, 1, 512, "%ls", bad)'],
    "__swprintf_chk": ['(O0, 2, 1, 128, L"%d", 12345)'],
    "__ttyname_r_chk": ["(-1, O0, 9, 512)"],
    "__vasprintf_chk": ['(O0, 1, "%ls", list)'],
    "__vsnprintf_chk": ['(O0, 0, 1, 512, "%ls", list)'],
    "__vsprintf_chk": ['(O0, 1, 512, "%ls", list)'],
    "__wcstombs_chk": ["(O0, bad, 9, 512)"],
    "__xpg_strerror_r": ["(5, O0, 0)"],
    "accept": ["(client(), O0, SIZE(O1, 110))", "(client(), NULL, O1)", "(-1, O0, O1)"],
    "accept4": ["(client(), O0, SIZE(O1, 110), 0)", "(client(), NULL, O1, 0)"],
    "asprintf": ['(O0, "%ls", bad)'],
    "clock_getres": ["(77, O0)"],
    "clock_gettime": ["(77, O0)"],
    "compress": ["(more, LONG(O0, 1), (void *)more, 9)"],
    "compress2": ["(more, LONG(O0, 1), (void *)more, 9, 1)"],
    "confstr": ["(_CS_PATH, O0, 0)", "(-1, O0, 9)"],
    "deflatePending": ["(NULL, O0, O1)"],
    "epoll_pwait": ["(-1, O0, 4, 0, NULL)"],
    "epoll_wait": ["(-1, O0, 4, 0)"],
    "fgets": ["(O0, 9, empty)", "(O0, 0, empty)"],
    "fgetws": ["(O0, 9, wide)"],
    "fgetws_unlocked": ["(O0, 9, wide)"],
    "fgetxattr": ['(null, "user.k", O0, 0)', '(attributed, "user.k", O0, 0)'],
    "forkpty": ["(O0, NULL, NULL, NULL)"],
    "fread": ["(O0, 1, 9, empty)", "(O0, 0, 9, empty)"],
    "fstat": ["(-1, O0)"],
    "fstat64": ["(-1, O0)"],
    "fstatat": ['(-1, "x", O0, 0)'],
    "fstatat64": ['(-1, "x", O0, 0)'],
    "getaddrinfo": ["(NULL, NULL, NULL, O0)"],
    "getdelim": ["(O0, NULL, 10, empty)", "(NULL, O1, 10, empty)"],
    "getdomainname": ["(O0, 0)", "(O0, 2)"],
    "gethostname": ["(O0, 0)"],
    "getifaddrs": ["(O0)"],
    "getitimer": ["(77, O0)"],
    "getline": ["(O0, NULL, empty)", "(NULL, O1, empty)"],
    "getlogin_r": ["(O0, 0)"],
    "getpeername": ["(-1, O0, O1)", "(paired(), O0, SIZE(O1, 110))"],
    "getrandom": ["(O0, 0, 0)", "(O0, 3, 0)", "(O0, 3, -1)"],
    "getrlimit": ["(-1, O0)"],
    "getrlimit64": ["(-1, O0)"],
    "getrusage": ["(77, O0)"],
    "getsockname": ["(-1, O0, O1)", "(paired(), O0, SIZE(O1, 110))", "(bound(), O0, SIZE(O1, 5))"],
    "getsockopt": ["(-1, SOL_SOCKET, SO_TYPE, O0, SIZE(O1, 4))"],
    "getxattr": ['("/nowhere", "user.k", O0, 9)', '(path, "user.k", O0, 0)'],
    "gmtime_r": ["((time_t[]){LONG_MAX}, O0)"],
    "gzerror": ["(NULL, O0)"],
    "gzfread": ["(O0, 1, 9, zipped)"],
    "gzgets": ["(zipped, O0, 9)"],
    "gzread": ["(zipped, O0, 9)"],
    "lgetxattr": ['("/nowhere", "user.k", O0, 9)', '(path, "user.k", O0, 0)'],
    "listxattr": ['("/nowhere", O0, 9)', "(path, O0, 0)"],
    "llistxattr": ['("/nowhere", O0, 9)', "(path, O0, 0)"],
    "localtime_r": ["((time_t[]){LONG_MAX}, O0)"],
    "lstat": ['("/nowhere", O0)'],
    "lstat64": ['("/nowhere", O0)'],
    "mbstowcs": ["(O0, words[0], 0)"],
    "openpty": ["(O0, O1, NULL, NULL, NULL)"],
    "pipe": ["(O0)"],
    "pipe2": ["(O0, -1)"],
    "posix_memalign": ["(O0, 3, 8)"],
    "posix_spawn": ['(O0, "/nowhere", NULL, NULL, words, NULL)'],
    "posix_spawnp": ['(O0, "/nowhere", NULL, NULL, words, NULL)'],
    "pread": ["(null, O0, 9, 0)", "(-1, O0, 9, 0)"],
    "prlimit": ["(0, -1, NULL, O0)"],
    "prlimit64": ["(0, -1, NULL, O0)"],
    "pselect": ["(-1, O0, O1, O2, NULL, NULL)"],
    "pthread_create": ["(O0, &huge, nothing, NULL)"],
    "pthread_getname_np": ["(pthread_self(), O0, 1)"],
    "pthread_key_create": ["(O0, NULL)"],
    "pthread_sigmask": ["(77, (void *)more, O0)"],
    "ptsname_r": ["(-1, O0, 9)"],
    "read": ["(null, O0, 9)", "(-1, O0, 9)"],
    "readlink": ['("/nowhere", O0, 9)', '("/proc/self/exe", O0, 1)'],
    "readlinkat": ['(-1, "x", O0, 9)', '(-1, "/proc/self/exe", O0, 1)'],
    "recv": ["(datagram(), O0, 4, MSG_TRUNC)", "(-1, O0, 4, 0)"],
    "recvfrom": [
        "(datagram(), O0, 4, MSG_TRUNC, O1, SIZE(O2, 110))",
        "(stream(), O0, 4, 0, O1, SIZE(O2, 110))",
        "(datagram(), O0, 4, 0, NULL, O2)",
    ],
    "regerror": ["(1, NULL, O0, 0)", "(1, NULL, O0, 3)"],
    "remquo": ["(1, zero, O0)"],
    "select": ["(-1, O0, O1, O2, NULL)"],
    "sigaction": ["(77, NULL, O0)"],
    "sigaddset": ["(O0, 77)"],
    "sigdelset": ["(O0, 77)"],
    "sigprocmask": ["(77, (void *)more, O0)"],
    "sigtimedwait": ["((void *)-4096, O0, NULL)"],
    "sigwait": ["((void *)-4096, O0)"],
    "sigwaitinfo": ["((void *)-4096, O0)"],
    "snprintf": ['(O0, 0, "x=%d", 5)', '(O0, 3, "x=%d", 55)', '(O0, 9, "%ls", bad)'],
    "socketpair": ["(-1, 1, 0, O0)"],
    "sprintf": ['(O0, "%ls", bad)'],
    "stat": ['("/nowhere", O0)'],
    "stat64": ['("/nowhere", O0)'],
    "strftime": ['(O0, 3, "%Y-%m-%d", &date)', '(O0, 0, "%Y", &date)'],
    "strftime_l": ['(O0, 3, "%Y-%m-%d", &date, newlocale(LC_ALL_MASK, "C", 0))'],
    "strptime": ['("x", "%Y", O0)'],
    "swprintf": ['(O0, 2, L"%d", 12345)', '(O0, 0, L"x")'],
    "timer_create": ["(77, NULL, O0)"],
    "timerfd_gettime": ["(-1, O0)"],
    "timerfd_settime": ["(-1, 0, (void *)more, O0)"],
    "timespec_get": ["(O0, 77)"],
    "ttyname_r": ["(-1, O0, 9)"],
    "uncompress": ["(more, LONG(O0, 9), (void *)more, 9)"],
    "uncompress2": ["(more, LONG(O0, 9), (void *)more, LONG(O1, 9))"],
    "vasprintf": ['(O0, "%ls", list)'],
    "vsnprintf": ['(O0, 0, "%ls", list)'],
    "vsprintf": ['(O0, "%ls", list)'],
    "vswprintf": ['(O0, 2, L"%ls", list)'],
    "wait": ["(O0)"],
    "wait3": ["(O0, WNOHANG, NULL)"],
    "wait4": ["(child, O0, WNOHANG, NULL)", "(-7, O0, 0, NULL)"],
    "waitid": ["(P_PID, child, O0, WEXITED | WNOHANG)", "(77, 0, O0, WEXITED)"],
    "waitpid": ["(child, O0, WNOHANG)", "(-7, O0, 0)"],
    "wcstombs": ["(O0, bad, 9)"],
}
# They want a descriptor and there is none, or no child.
FAMINE = {"forkpty", "getifaddrs", "openpty", "pipe"}
CANNOT = {
    "always written": (
        *("__cxa_demangle", "ecvt", "ecvt_r", "fcvt", "fcvt_r", "frexp", "frexpf", "frexpl"),
        *("gettimeofday", "lgamma_r", "lgammaf_r", "modf", "modff", "modfl", "qecvt", "qecvt_r"),
        *("mktime", "qfcvt", "qfcvt_r", "sigemptyset", "sigfillset", "sigpending"),
        *("sincos", "sincosf", "timegm", "timelocal", "uname"),
    ),
    "what new programs cannot be linked with": (
        *("__fxstat", "__fxstat64", "__fxstatat", "__fxstatat64", "__lxstat", "__lxstat64"),
        *("__xstat", "__xstat64"),
    ),
    "no way to fail that leaves the program alive": (
        *("pthread_attr_getdetachstate", "pthread_attr_getguardsize", "pthread_attr_getstack"),
        *("pthread_attr_getstacksize", "pthread_getschedparam", "sem_getvalue"),
        *("thrd_create", "thrd_join", "timer_gettime", "timer_settime"),
    ),
    "of a library that the program is not linked with": (
        *("PyBytes_AsStringAndSize", "PyDict_Next", "PyLong_AsLongAndOverflow"),
        *("PyLong_AsLongLongAndOverflow", "PyUnicode_AsUTF8AndSize", "SSL_get0_alpn_selected"),
        *("BIO_gets", "BIO_read", "BIO_read_ex", "BIO_write_ex", "EVP_CipherUpdate"),
        *("EVP_DecryptUpdate", "EVP_DigestFinal_ex", "EVP_EncryptUpdate", "RAND_bytes"),
        *("RAND_priv_bytes", "curl_easy_recv", "curl_easy_send", "curl_easy_unescape"),
        *("curl_msnprintf", "curl_msprintf", "curl_multi_perform", "curl_mvsnprintf"),
        "curl_mvsprintf",
        *("PQgetCopyData", "sqlite3_open", "sqlite3_open_v2", "sqlite3_prepare"),
        *("sqlite3_prepare_v2", "sqlite3_prepare_v3", "SSL_peek", "SSL_peek_ex", "SSL_read"),
        *("SSL_read_ex", "SSL_write_ex", "ZSTD_compress", "ZSTD_compressCCtx"),
        *("ZSTD_decompress", "ZSTD_decompressDCtx"),
    ),
}
# Results that look like failures or are such without a reason, after an errno of another call:
# name, arguments, and whether it fails by the program's own knowledge.
REASONS = (
    ("lseek", "(memory, (off_t)0xffffffffff600000, SEEK_SET)", "result == -1"),
    ("lseek", "(-1, 0, SEEK_SET)", "1"),
    ("fcntl", "(owned(), F_GETOWN)", "0"),
    ("fcntl", "(-1, F_GETFD)", "1"),
    ("mktime", "(before_1970())", "0"),
    ("timegm", "(before_1970())", "0"),
    ("setvbuf", "(empty, NULL, 77, 0)", "1"),
    ("gzopen", '(path, "?")', "1"),
    ("gzopen", '("/nowhere", "r")', "1"),
    ("fprintf", '(wide, "x")', "1"),
    ("fputs", '("x", wide)', "1"),
    ("fputs", '("x", full)', "1"),
    ("fputws", '(L"x", full)', "1"),
    ("telldir", "(directory)", "0"),
)

_BEFORE = """
static int null, memory, attributed;
static FILE *empty, *wide, *full;
static DIR *directory;
static gzFile zipped;
static pthread_attr_t huge;
static pid_t child;
static struct tm date = {.tm_year = 99, .tm_mday = 1};
static unsigned char more[64];
static char *words[] = {"x", NULL};
static const wchar_t bad[] = {0xdc80, 0};
static const char *path;
static volatile double zero;

static void *nothing(void *data) { return data; }

static int paired(void)
{
	static int fds[2];
	if (!fds[0])
		(void)syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, fds);
	return fds[0];
}

static int datagram(void) // one of 16 bytes waits there
{
	static int fds[2];
	int error = errno;
	if (!fds[0])
		(void)syscall(SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0, fds);
	(void)send(fds[1], "0123456789abcdef", 16, 0);
	errno = error;
	return fds[0];
}

static int bound(void)
{
	static int fd;
	int error = errno;
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(0x7f000001)}};
	if (!fd) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		(void)bind(fd, (void *)&address, sizeof(address));
		(void)listen(fd, 9);
	}
	errno = error;
	return fd;
}

static int stream(void) // the near end of a TCP connection with 4 bytes in it
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	int error = errno, far = socket(AF_INET, SOCK_STREAM, 0), near;
	(void)syscall(SYS_getsockname, bound(), &address, &size);
	(void)connect(far, (void *)&address, sizeof(address));
	near = (int)syscall(SYS_accept, bound(), NULL, NULL);
	(void)send(far, "data", 4, 0);
	errno = error;
	return near;
}

static int client(void) // somebody without a name waits to be accepted there
{
	static struct sockaddr_un address = {.sun_family = AF_UNIX};
	static int fd;
	int error = errno, other = socket(AF_UNIX, SOCK_STREAM, 0);
	if (!fd) {
		pid_t pid = getpid();
		memcpy(memcpy(address.sun_path + 1, "written", 7) + 7, &pid, sizeof(pid));
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		(void)bind(fd, (void *)&address, sizeof(address));
		(void)listen(fd, 99);
	}
	(void)connect(other, (void *)&address, sizeof(address));
	errno = error;
	return fd;
}

static int owned(void) // F_GETOWN is the negative number of a group
{
	int error = errno;
	(void)syscall(SYS_fcntl, paired(), F_SETOWN, -getpgrp());
	errno = error;
	return paired();
}

static struct tm *before_1970(void)
{
	static struct tm late;
	late = (struct tm){.tm_year = 69, .tm_mon = 11, .tm_mday = 31};
	late.tm_hour = 23, late.tm_min = late.tm_sec = 59;
	return &late;
}
"""
_MAIN = """
int main(int argc, char **argv)
{
	tss_t key;
	path = argv[0];
	account = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
	null = open("/dev/null", O_RDWR);
	memory = open("/proc/self/mem", O_RDONLY);
	attributed = open(path, O_RDONLY);
	(void)setxattr(path, "user.k", "value!", 6, 0);
	empty = fopen("/dev/null", "r+");
	wide = fopen("/dev/null", "w");
	full = fopen("/dev/full", "w");
	setbuf(full, NULL);
	fwide(wide, 1);
	zipped = gzdopen(null, "r");
	directory = opendir("/");
	setenv("TZ", "UTC", 1);
	tzset();
	(void)pthread_attr_init(&huge);
	(void)pthread_attr_setstacksize(&huge, 1ul << 60);
	while (tss_create(&key, NULL) == thrd_success)
		;
	for (int round = 0; round < 2; round++) {
		pattern = round ? 'Z' : 'S';
		calls(0, bad);
	}
	return 0;
}
"""
_INCLUDES = """
arpa/inet dirent fcntl ifaddrs limits locale math net/if netdb pthread pty regex sched semaphore
signal spawn stdarg stdlib sys/epoll sys/random sys/resource sys/select sys/socket sys/stat
sys/syscall sys/time sys/timerfd sys/un sys/wait sys/xattr threads time unistd wchar zlib
""".split()


class Told(NamedTuple):
    """One line of the program's account."""

    call: int
    name: str
    item: int
    address: str
    written: int
    failed: int
    errno: int


def outs() -> dict[str, list[int]]:
    """Return the numbers of the OUT arguments of each function that has some."""
    found = {}
    for function in read_declarations(str(PROTOTYPES)).functions:
        items = [n for n, one in enumerate(function.parameters) if "OUT" in one.words]
        if items:
            found[function.name] = items
    return found


@cache
def in_outs() -> dict[str, list[int]]:
    """Return the numbers of those that are shown as they were at the call, too."""
    return {
        function.name: [n for n, one in enumerate(function.parameters) if "IN" in one.words]
        for function in read_declarations(str(PROTOTYPES)).functions
        if any("OUT" in one.words for one in function.parameters)
    }


def source() -> str:
    """Return the program."""
    lines = ['#include "written.h"', *(f"#include <{name}.h>" for name in _INCLUDES)]
    lines += ['#include "annotations.h"', '#include "types.h"', '#include "libc-chk.h"']
    lines += ["int __xpg_strerror_r(int, char *, size_t);", "#define O3 ((void *)out[3])", _BEFORE]
    body = []
    items = outs()
    for name, calls in CALLS.items():
        for arguments in calls:
            body += _call(name, arguments, items[name])
    for name, arguments, failed in REASONS:
        body += [
            *("{ fill();", f"__auto_type result = {name}{arguments};", "(void)result;"),
            f'tell("{name}", -1, 0, {failed}); }}',
        ]
    lines += ["static void calls(int first, ...)", "{", "va_list list;", *body, "}", _MAIN]
    return "\n".join(lines)


def _call(name: str, arguments: str, items: list[int]) -> list[str]:
    lines = ["{ fill();"]
    if name.startswith("wait"):
        lines.append("int before = errno; child = fork(); errno = before; if (!child) pause();")
    if name == "wait":
        lines.append("kill(child, SIGKILL); syscall(SYS_wait4, child, NULL, 0, NULL);")
    if "list" in arguments:
        lines.append("va_start(list, first);")
    if name in FAMINE:
        lines.append("no_descriptor(1);")
    lines.append(f"__auto_type result = {name}{arguments}; (void)result;")
    if name in FAMINE:
        lines.append("int after = errno; no_descriptor(0); errno = after;")
    if "list" in arguments:
        lines.append("va_end(list);")
    lines += [
        f'tell("{name}", {item}, {number}, -1);'
        for number, item in enumerate(items)
        if f"O{number}" in arguments
    ]
    if name.startswith("wait") and name != "wait":
        lines.append("kill(child, SIGKILL); syscall(SYS_wait4, child, NULL, 0, NULL);")
    return [*lines, "}"]


def built(folder: Path) -> Path:
    """Compile the program in `folder`."""
    file = folder / "written.c"
    file.write_text(source())
    command = ["gcc", "-w", "-std=gnu17", "-fno-builtin", "-O0", "-iquote", str(TARGETS)]
    command += ["-iquote", str(PROTOTYPES), "written.c", "-o", "written"]
    made_in(folder, *command, "-lz", "-lm", "-lutil", "-pthread")
    return folder / "written"


def account(file: Path) -> list[Told]:
    """Read what the program wrote, in the order of its calls."""
    told = []
    for line in file.read_text().splitlines():
        call, name, item, address, *numbers = line.split()
        told.append(Told(int(call), name, int(item), address, *map(int, numbers)))
    return told
