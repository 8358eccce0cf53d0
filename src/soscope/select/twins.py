# SPDX-License-Identifier: Apache-2.0
"""Other names under which programs call a function of glibc, because its headers rename it.

A program that calls `open` may call `__open_2` (_FORTIFY_SOURCE), `open64` (large files) or
`__open` (an alias). If the user names `open`, all of these are meant. If the user names
`__open_2`, only this one is meant. Other libraries may have two different functions `encode` and
`encode64`, so each rule applies only to the functions of its list.
`tests/unit/select/test_twins.py` compares the lists with the exports of the machine's C
libraries.
"""

from __future__ import annotations

from soscope.select import patterns
from soscope.select.automaton import Automaton, compile_glob, compile_names, either

_LARGE = """
    aio_cancel aio_error aio_fsync aio_read aio_return aio_suspend aio_write alphasort creat
    fallocate fcntl fgetpos fopen freopen fseeko fsetpos fstat fstatat fstatfs fstatvfs ftello
    ftruncate ftw getdirentries getrlimit glob globfree lio_listio lockf lseek lstat mkostemp
    mkostemps mkstemp mkstemps mmap nftw open openat posix_fadvise posix_fallocate pread preadv
    prlimit pwrite pwritev readdir scandir scandirat sendfile setrlimit stat statfs statvfs
    tmpfile truncate versionsort
"""

_TIME = """
    adjtime aio_suspend clock_adjtime clock_getres clock_gettime clock_nanosleep clock_settime
    cnd_timedwait ctime difftime epoll_pwait2 fcntl fseeko fstat fstatat ftello fts64_children
    fts64_close fts64_open fts64_read fts64_set ftw futimens futimes futimesat gai_suspend
    getitimer getrusage getsockopt gettimeofday glob globfree gmtime ioctl localtime lstat
    lutimes mktime mq_timedreceive mq_timedsend msgctl mtx_timedlock nanosleep nftw ntp_gettime
    ntp_gettimex open ppoll prctl pread pselect pthread_clockjoin_np pthread_cond_clockwait
    pthread_cond_timedwait pthread_mutex_clocklock pthread_mutex_timedlock
    pthread_rwlock_clockrdlock pthread_rwlock_clockwrlock pthread_rwlock_timedrdlock
    pthread_rwlock_timedwrlock pthread_timedjoin_np pwrite recvmmsg recvmsg
    sched_rr_get_interval select sem_clockwait sem_timedwait semctl semtimedop sendmmsg sendmsg
    setitimer setsockopt settimeofday shmctl sigtimedwait stat thrd_sleep time timegm
    timer_gettime timer_settime timerfd_gettime timerfd_settime timespec_get timespec_getres
    utime utimensat utimes wait3 wait4
"""

_CHECKED = """
    asprintf confstr dprintf explicit_bzero fgets fgets_unlocked fgetws fgetws_unlocked fprintf
    fread fread_unlocked fwprintf getcwd getdomainname getgroups gethostname getlogin_r gets
    getwd longjmp mbsnrtowcs mbsrtowcs mbstowcs memcpy memmove mempcpy memset obstack_printf
    obstack_vprintf poll ppoll pread pread64 printf ptsname_r read readlink readlinkat realpath
    recv recvfrom snprintf sprintf stpcpy stpncpy strcat strcpy strlcat strlcpy strncat strncpy
    swprintf syslog ttyname_r vasprintf vdprintf vfprintf vfwprintf vprintf vsnprintf vsprintf
    vswprintf vsyslog vwprintf wcpcpy wcpncpy wcrtomb wcscat wcscpy wcslcat wcslcpy wcsncat
    wcsncpy wcsnrtombs wcsrtombs wcstombs wctomb wmemcpy wmemmove wmempcpy wmemset wprintf
"""

_SCANF = """
    fscanf fwscanf scanf sscanf swscanf vfscanf vfwscanf vscanf vsscanf vswscanf vwscanf wscanf
"""

_NUMBERS = """
    strtoimax strtol strtol_l strtoll strtoll_l strtoul strtoul_l strtoull strtoull_l strtoumax
    wcstoimax wcstol wcstol_l wcstoll wcstoll_l wcstoul wcstoul_l wcstoull wcstoull_l wcstoumax
"""

_LONG_DOUBLE = """
    argp_error argp_failure asprintf dprintf err error error_at_line errx fprintf fscanf
    fwprintf fwscanf obstack_printf obstack_vprintf printf printf_size scanf snprintf sprintf
    sscanf strfmon strfmon_l swprintf swscanf syslog vasprintf vdprintf verr verrx vfprintf
    vfscanf vfwprintf vfwscanf vprintf vscanf vsnprintf vsprintf vsscanf vswprintf vswscanf
    vsyslog vwarn vwarnx vwprintf vwscanf warn warnx wprintf wscanf
"""

_FINITE = """
    acos acosf acosf128 acosh acoshf acoshf128 acoshl acosl asin asinf asinf128 asinl atan2
    atan2f atan2f128 atan2l atanh atanhf atanhf128 atanhl cosh coshf coshf128 coshl exp exp10
    exp10f exp10f128 exp10l exp2 exp2f exp2f128 exp2l expf expf128 expl fmod fmodf fmodf128
    fmodl hypot hypotf hypotf128 hypotl j0 j0f j0f128 j0l j1 j1f j1f128 j1l jn jnf jnf128 jnl
    lgamma_r lgammaf128_r lgammaf_r lgammal_r log log10 log10f log10f128 log10l log2 log2f
    log2f128 log2l logf logf128 logl pow powf powf128 powl remainder remainderf remainderf128
    remainderl scalb scalbf scalbl sinh sinhf sinhf128 sinhl sqrt sqrtf sqrtf128 sqrtl y0 y0f
    y0f128 y0l y1 y1f y1f128 y1l yn ynf ynf128 ynl
"""

_INTERNAL = """
    strtod strtof strtof128 strtol strtold strtoll strtoq strtoul strtoull strtouq wcstod wcstof
    wcstof128 wcstol wcstold wcstoll wcstoul wcstoull
"""

_UNDERSCORED = """
    adjtimex arch_prctl argz_count argz_next argz_stringify asprintf backtrace backtrace_symbols
    backtrace_symbols_fd bzero clock_gettime clog10 clog10f clog10l clone close connect
    dcgettext dgettext dn_comp dn_expand dn_skipname dup2 duplocale endmntent expl expm1l fcntl
    ffs finite finitef finitel fork freelocale fseeko64 fstat64 ftello64 getauxval getdelim
    getmntent_r getpagesize getpgid getpid getrlimit gettimeofday gmtime_r isalnum_l isalpha_l
    isblank_l iscntrl_l isctype isdigit_l isgraph_l isinf isinff isinfl islower_l isnan isnanf
    isnanl isprint_l ispunct_l isspace_l isupper_l iswalnum_l iswalpha_l iswblank_l iswcntrl_l
    iswctype iswctype_l iswdigit_l iswgraph_l iswlower_l iswprint_l iswpunct_l iswspace_l
    iswupper_l iswxdigit_l isxdigit_l lseek madvise mbrlen mbrtowc mempcpy mktemp mmap
    modify_ldt monstartup mprotect munmap nanosleep newlocale nl_langinfo_l ns_get16 ns_get32
    ns_name_compress ns_name_ntop ns_name_pack ns_name_pton ns_name_skip ns_name_uncompress
    ns_name_unpack open open64 pipe poll pread64 pthread_getspecific pthread_key_create
    pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock pthread_mutex_trylock
    pthread_mutex_unlock pthread_mutexattr_destroy pthread_mutexattr_init
    pthread_mutexattr_settype pthread_once pthread_rwlock_destroy pthread_rwlock_init
    pthread_rwlock_rdlock pthread_rwlock_tryrdlock pthread_rwlock_trywrlock
    pthread_rwlock_unlock pthread_rwlock_wrlock pthread_setspecific pwrite64 rawmemchr read recv
    res_dnok res_hnok res_init res_mailok res_mkquery res_nmkquery res_nquery res_nquerydomain
    res_nsearch res_nsend res_ownok res_query res_querydomain res_search res_send sbrk
    sched_get_priority_max sched_get_priority_min sched_getparam sched_getscheduler
    sched_setscheduler sched_yield secure_getenv select send sendmmsg setmntent setpgid
    sigaction sigaddset sigdelset sigismember sigsuspend sigtimedwait snprintf socket statfs
    stpcpy stpncpy strcasecmp strcasecmp_l strcasestr strcoll_l strdup strerror_r strfmon_l
    strftime_l strncasecmp_l strndup strtod_l strtof_l strtok_r strtol_l strtold_l strtoll_l
    strtoul_l strtoull_l strverscmp strxfrm_l sysconf sysctl sysv_signal tdelete tfind tolower_l
    toupper_l towctrans towctrans_l towlower_l towupper_l tsearch twalk twalk_r uname uselocale
    vfork vfscanf vsnprintf vsscanf wait waitpid wcscasecmp_l wcscoll_l wcsftime_l wcsncasecmp_l
    wcstod_l wcstof_l wcstol_l wcstold_l wcstoll_l wcstoul_l wcstoull_l wcsxfrm_l wctrans_l
    wctype_l write
"""

_OF_LIBC = """
    calloc clntudp_bufcreate dn_expand dn_skipname fcntl64 fork free mallinfo malloc mallopt
    memalign msgrcv msgsnd pread pvalloc pwrite realloc reallocarray res_dnok res_hnok
    secure_getenv sigaction system valloc
"""

_OF_STDIO = """
    fclose fdopen feof ferror fflush fgetpos fgetpos64 fgets flockfile fopen fprintf fputs fread
    fsetpos fsetpos64 ftell ftrylockfile funlockfile fwrite getc gets popen printf putc
    puts setbuffer setvbuf sprintf sscanf ungetc vfprintf vfscanf vsprintf
"""

_RULES = (
    ("{}64", _LARGE),
    ("__{}64", _TIME),  # on 32 bits, like the next rule
    (
        "__{}_time64",
        _TIME + "fstat64 fstatat64 ftw64 glob64 globfree64 lstat64 nftw64 stat64",
    ),
    ("__{}_chk", _CHECKED),
    ("__{}_2", "mq_open open openat open64 openat64"),
    ("__isoc99_{}", _SCANF),
    ("__isoc23_{}", _SCANF + _NUMBERS),
    ("__{}_internal", _INTERNAL),
    ("__{}_finite", _FINITE),
    ("__{}ieee128", _LONG_DOUBLE),  # PowerPC, like the next three rules
    ("__{}_chkieee128", _LONG_DOUBLE),
    ("__isoc99_{}ieee128", _SCANF),
    ("__isoc23_{}ieee128", _SCANF),
    ("__nldbl_{}", _LONG_DOUBLE),  # -mlong-double-64, like the next two rules
    ("__nldbl___{}_chk", _LONG_DOUBLE),
    ("__nldbl___isoc99_{}", _SCANF),
    ("__{}", _UNDERSCORED),
    ("__libc_{}", _OF_LIBC),
    ("_IO_{}", _OF_STDIO),
    ("_{}", "longjmp setjmp"),
    ("__{}", "sigpause sigsetjmp"),
    ("__x{}", "mknod mknodat stat stat64"),  # before glibc 2.33
    ("__xpg_{}", "basename sigpause strerror_r"),
    ("__posix_{}", "getopt"),
    ("__bsd_{}", "getpgrp"),
    ("__sysv_{}", "signal"),
)
_OTHERS = {
    "adjtimex": "___adjtimex64",  # on 32 bits, like all names here with _ in front and 64
    "at_quick_exit": "__cxa_at_quick_exit",  # in libc_nonshared.a, like pthread_atfork
    "ctime_r": "__ctime64_r",
    "fcntl64": "__fcntl_time64",
    "fstat": "__fxstat",  # before glibc 2.33, like all stat functions
    "fstat64": "__fxstat64",
    "fstatat": "__fxstatat",
    "fstatat64": "__fxstatat64",
    "fts_children": "fts64_children",
    "fts_close": "fts64_close",
    "fts_open": "fts64_open",
    "fts_read": "fts64_read",
    "fts_set": "fts64_set",
    "getline": "__getdelim",  # bits/stdio.h, with optimisation
    "gmtime_r": "__gmtime64_r",
    "localtime_r": "__localtime64_r",
    "lstat": "__lxstat",
    "lstat64": "__lxstat64",
    "ntp_adjtime": "___adjtimex64",
    "ntp_gettime": "ntp_gettimex",
    "preadv2": "preadv64v2",
    "pthread_atfork": "__register_atfork",
    "pthread_mutex_consistent_np": "pthread_mutex_consistent",
    "pthread_mutexattr_getrobust_np": "pthread_mutexattr_getrobust",
    "pthread_mutexattr_setrobust_np": "pthread_mutexattr_setrobust",
    "pthread_yield": "sched_yield",
    "pwritev2": "pwritev64v2",
    "readdir_r": "readdir64_r",
    "siglongjmp": "__longjmp_chk",  # _FORTIFY_SOURCE
    "timelocal": "__mktime64",
}


def _table() -> dict[str, list[str]]:
    table = {name: [other] for name, other in _OTHERS.items()}
    for form, names in _RULES:
        for name in names.split():
            table.setdefault(name, []).append(form.format(name))
    return table


_TABLE = _table()


def twins(name: str) -> list[str]:
    """Return the other names that a name means, [] if it means only itself."""
    return _with_twins([name])[1:]


def compile_names_of(text: str) -> Automaton:
    """Compile a glob for names of functions. It matches these names and their twins.

    A glob that does not begin with a letter matches only the names themselves: `_*`, `[o]pen`.
    """
    if not text[:1].isalpha():
        return compile_glob(text)
    name = patterns.glob_literal(text)
    if name is not None:
        names = _with_twins([text])
        return compile_glob(text) if len(names) == 1 else compile_names(names, text)
    says = compile_glob(text)
    matching = [name for name in _TABLE if says.matches(name.encode())]
    more = [name for name in _with_twins(matching) if not says.matches(name.encode())]
    return either(says, compile_names(more)) if more else says


def _with_twins(names: list[str]) -> list[str]:
    """Return names, their twins, and the twins of these: open, open64, __open64_2."""
    seen = dict.fromkeys(names)
    rest = list(seen)
    for name in rest:  # the list grows meanwhile
        for other in _TABLE.get(name, ()):
            if other not in seen:
                seen[other] = None
                rest.append(other)
    return rest
