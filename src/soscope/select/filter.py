# SPDX-License-Identifier: Apache-2.0
"""Choose slots: parse `-e`, `--from` and `--to`, and compile them into rules for the agent."""

from __future__ import annotations

from struct import pack

from soscope.errors import UsageError
from soscope.model.record import Record
from soscope.select import patterns
from soscope.select.patterns import (
    Automaton,
    compile_bre,
    compile_glob,
    compile_names,
    either,
    too_complex,
)
from soscope.wire import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Sets = Callable[[], dict[str, Automaton]]


# Other names under which programs call a function of glibc, because its headers rename it.
#
# A program that calls `open` may call `__open_2` (_FORTIFY_SOURCE), `open64` (large files) or
# `__open` (an alias). If the user names `open`, all of these are meant. If the user names
# `__open_2`, only this one is meant. Other libraries may have two different functions `encode` and
# `encode64`, so each rule applies only to the functions of its list.
# `tests/unit/select/test_twins.py` compares the lists with the exports of the machine's C
# libraries.

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


# Parses ltrace's filter expressions (ltrace(1), "FILTER EXPRESSIONS").
#
#     [+-]SYMBOL@CALLER[+-]SYMBOL@CALLER…
#
# A rule without a sign adds calls. If the first rule has a minus, all calls are added before it.
# Both patterns are globs for the whole name, or POSIX basic regular expressions between slashes. A
# `^` in front of a glob and a `$` behind it change nothing, as in ltrace(1). `/x@y/` is short for
# `/x/@/y/`. A missing pattern is `*`. The image is the *caller*. It is matched by its soname, or by
# its file name if it has none. A pattern that begins with a slash and is no regular expression is a
# path. `MAIN` is the program itself.
#
# Beyond ltrace, `%mem` is a set of functions. A comma separates rules like a plus, as in strace,
# and a sign may follow it. Signs, commas and at-signs have no special meaning between slashes, in
# brackets, and after a backslash (`@libstdc\+\+*`). In a path, a sign has no special meaning if a
# slash follows later (`@/usr/lib/x86_64-linux-gnu/libc.so.6`), unless that slash begins the regular
# expression of another rule (`@/lib/libc.so.6-*+/mem.*/`).

MAIN = "MAIN"


class Pattern(Record):
    """One pattern as the user wrote it. `text` has no slashes around a regular expression.

    `members` matches the functions of a set. It is None until the set was looked up.
    """

    text: str
    is_regex: bool = False
    members: Automaton | None = None

    @property
    def is_any(self) -> bool:
        """Return whether the pattern matches every name."""
        return self.text in ("", "*") and not self.is_regex

    @property
    def is_path(self) -> bool:
        """Return whether the pattern, if it is for an image, is matched with the image's path."""
        return self.text.startswith("/") and not self.is_regex

    @property
    def is_main(self) -> bool:
        """Return whether the pattern, if it is for an image, stands for the program itself."""
        return self.text == MAIN and not self.is_regex

    @property
    def is_set(self) -> bool:
        """Return whether the pattern, if it is for a symbol, names a set of functions like %mem."""
        return self.text.startswith("%") and not self.is_regex

    @property
    def is_plain(self) -> bool:
        """Return whether the pattern is one plain name without special characters."""
        return not self.is_regex and not self.is_set and not any(c in self.text for c in "*?[\\")


ANY = Pattern("*")


class Rule(Record, kw_only=True):
    """One rule of a chain. `word` is the text that the user wrote, "" for the implied rule."""

    include: bool
    symbol: Pattern
    caller: Pattern
    word: str


def parse(expression: str) -> list[Rule]:
    """Parse one argument of `-e` into the rules of a chain, in order.

    Raises UsageError for an empty rule (`a++b`) or a regular expression without its second slash.
    Errors in the patterns themselves are not found here.
    """
    rules: list[Rule] = []
    if expression.startswith("-"):
        rules.append(Rule(include=True, symbol=ANY, caller=ANY, word=""))
    at = 0
    while True:
        begin = at
        include = not expression.startswith("-", at)
        if expression[at : at + 1] in ("+", "-"):
            at += 1
        symbol, caller, end = _rule(expression, at)
        if end == at:
            raise UsageError(
                f"filter expression '{expression}': a rule without a pattern at"
                f" {repr(expression[begin:]) if begin < len(expression) else 'its end'}",
                hint=r"a plus or minus that belongs to a name wants a backslash: '@libstdc\+\+*'",
                slug="filter-expression",
            )
        word = expression[begin:end]
        rules.append(
            Rule(include=include, symbol=symbol, caller=caller, word=word.removeprefix("+"))
        )
        if end == len(expression):
            return rules
        at = end
        if expression[at] == ",":
            at += 1


def parse_image(text: str) -> Pattern:
    """Parse an argument of --from or --to as the pattern of an image."""
    if len(text) > 1 and text[0] == text[-1] == "/":
        return Pattern(text[1:-1], is_regex=True)
    return Pattern(text)


def split_commas(text: str) -> list[str]:
    """Split at the commas that are neither in a regular expression nor in brackets."""
    words = []
    at = 0
    while at < len(text):
        regex_end = _slash(text, at + 1) if text[at] == "/" else -1
        if regex_end > 0 and text[regex_end + 1 : regex_end + 2] in ("", ","):
            end = regex_end + 1
        else:
            end = _glob_end(text, at, ",")
        if end > at:
            words.append(text[at:end])
        at = end + 1
    return words


def _rule(text: str, at: int) -> tuple[Pattern, Pattern, int]:
    """Parse SYMBOL@CALLER. Return both patterns and the index of the rule's end."""
    if text.startswith("/", at):
        end = _slash(text, at + 1)
        if end < 0:
            raise UsageError(
                f"filter expression '{text}': a regular expression without its second slash",
                slug="filter-expression",
            )
        inside = text[at + 1 : end]
        both = _glob_end(inside, 0, "@", escapes=False)
        if both < len(inside):
            return (
                _regex_or_any(inside[:both]),
                _regex_or_any(inside[both + 1 :]),
                _must_end(text, end + 1, "+-,"),
            )
        symbol = _regex_or_any(inside)
        at = _must_end(text, end + 1, "@+-,")
    else:
        end = _glob_end(text, at, "@+-,")
        symbol = Pattern(text[at:end] or "*")
        at = end
    if not text.startswith("@", at):
        return symbol, ANY, at
    caller, at = _caller(text, at + 1)
    return symbol, caller, at


def _caller(text: str, at: int) -> tuple[Pattern, int]:
    """Parse the caller behind the at-sign. Return its pattern and the index of its end."""
    if not text.startswith("/", at):
        end = _glob_end(text, at, "+-,")
        return Pattern(text[at:end] or "*"), end
    end = _slash(text, at + 1)
    if end > 0 and text[end + 1 : end + 2] in ("", "+", "-", ","):
        return _regex_or_any(text[at + 1 : end]), end + 1
    end = at
    while True:
        end = _glob_end(text, end, "+-,")
        if end == len(text) or text[end] == "," or not _inside_path(text, end + 1):
            return Pattern(text[at:end]), end
        end += 1


def _inside_path(text: str, at: int) -> bool:
    """Return whether a path continues behind the sign in front of `at`, as a slash follows."""
    slash = text.find("/", at, _glob_end(text, at, "@,"))
    if slash <= at:
        return False
    end = _slash(text, slash + 1) if text[slash - 1] in "+-" else -1
    # A slash right behind another sign begins a regular expression, if that has an end.
    return end < 0 or text[end + 1 : end + 2] not in ("", "@", "+", "-", ",")


def _regex_or_any(text: str) -> Pattern:
    """Return the pattern of a regular expression. An empty one matches every name."""
    return Pattern(text, is_regex=True) if text else ANY


def _must_end(text: str, at: int, enders: str) -> int:
    """Return `at` if a rule, or its symbol, ends there. Otherwise raise UsageError.

    It is called for the index after the closing slash of a regular expression.
    """
    if at < len(text) and text[at] not in enders:
        raise UsageError(
            f"filter expression '{text}': '{text[at:]}' after a regular expression",
            hint=r"a slash that belongs to the expression wants a backslash",
            slug="filter-expression",
        )
    return at


def _slash(text: str, at: int) -> int:
    """Return the index of the next slash that ends a regular expression, -1 if there is none."""
    end = _glob_end(text, at, "/", escapes=False)
    return end if end < len(text) else -1


def _glob_end(text: str, at: int, enders: str, *, escapes: bool = True) -> int:
    """Return the index of the next of `enders` outside brackets and escapes, or the end.

    With `escapes`, a backslash escapes in brackets, too, as in globs.
    """
    size = len(text)
    while at < size:
        char = text[at]
        if char in enders:
            return at
        if char == "\\":
            at += 1
        elif char == "[":
            at = _bracket_end(text, at, escapes=escapes)
        at += 1
    return size


def _without_escapes(text: str, at: int) -> str:
    """Return `text` with `__` for each backslash and the character behind it, from `at` on."""
    while (at := text.find("\\", at)) >= 0:
        text = text[:at] + "__" + text[at + 2 :]
        at += 2
    return text


def _bracket_end(text: str, at: int, *, escapes: bool) -> int:
    """Return the index of the bracket that closes the one at `at`, or `at` if there is none."""
    first = at + 1
    if text[first : first + 1] in ("!", "^"):
        first += 1
    if escapes:  # an escaped bracket closes nothing
        text = _without_escapes(text, first)
    end = text.find("]", first + 1)
    # In [[:alpha:]_] the first ] belongs to the class.
    inner = text.find("[:", first)
    while 0 <= inner < end:
        inner_end = text.find(":]", inner + 2)
        if inner_end < 0:
            break
        end = text.find("]", inner_end + 2)
        inner = text.find("[:", inner_end + 2)
    return end if end > 0 else at


# Selects slots: compiles `-e`, `--from` and `--to` into the rules that the agent runs.
#
# A slot is selected if each option that was given selects it. `-e` selects a slot if one of the
# chains includes it. `--from` selects a slot if its caller is one of the images, and `--to` if its
# callee is one. If none of the three was given, the program's own calls are selected.


if TYPE_CHECKING:
    Compile = Callable[[Pattern], Automaton]


ALL = "all"


Image = tuple[str, str, bool]  # (name, path, whether it is the program)


class Word(Record):
    """The origin of one rule: the option, the text that the user wrote, and the rule's patterns.

    `text` is "" for a rule that is implied.
    """

    option: str
    text: str
    kind: int
    symbol: Pattern
    image: Pattern


class Selection:
    """A compiled filter.

    `patterns` is the content of SEC_PATTERNS, and others may be appended. `rules` is the content
    of SEC_RULES, and `words` has the origin of each of these rules. `names_caller` is set if the
    user mentioned callers or callees, so that a line of text has the caller. `by_image` is set if
    the user asked for all callers, so that a summary has a row for each pair of images and each
    function.
    """

    __slots__ = ("by_image", "names_caller", "patterns", "rules", "words")

    def __init__(self, *, names_caller: bool, by_image: bool) -> None:
        self.patterns: list[Automaton] = []
        self.rules = b""
        self.words: list[Word] = []
        self.names_caller = names_caller
        self.by_image = by_image

    def unmatched(self, matched: Iterable[int]) -> list[Word]:
        """Return the words that matched nothing. `matched` has the matches of each rule."""
        pairs = zip(self.words, matched, strict=False)
        return [word for word, count in pairs if word.text and not count]


def compile_selection(
    select: Sequence[str],
    from_: Sequence[str] | None = None,
    to: Sequence[str] | None = None,
    *,
    sets: Sets | None = None,
    is_exact: bool = False,
) -> Selection:
    """Compile the arguments of all `-e`, `--from` and `--to`, in their order.

    `sets` returns an automaton for the functions of each set that an expression may name. It is
    called only if an expression names a set. With `is_exact`, a name does not also mean its
    twins. Code that needs certain functions by name uses that. Raises UsageError for a faulty
    expression or pattern.
    """
    from_words = [word for text in from_ or () for word in split_commas(text)]
    to_words = [word for text in to or () for word in split_commas(text)]
    chosen = Selection(
        names_caller=bool(select or from_words or to_words), by_image=ALL in from_words
    )
    compiler = _Compiler(chosen, compile_pattern if is_exact else compile_symbol)
    for text in select:
        flags = layout.RULE_FIRST
        for rule in parse(text):
            if rule.symbol.is_set:
                rule.symbol.members = _members(rule.symbol.text, sets)
            compiler.add_rule(rule, flags)
            flags = 0
    if not select:
        everything = Rule(include=True, symbol=ANY, caller=ANY, word="")
        compiler.add_rule(everything, layout.RULE_FIRST)
    if ALL not in from_words:
        for word in from_words:
            compiler.add_image("--from", word, layout.RULE_FROM)
    if ALL not in to_words:
        for word in to_words:
            compiler.add_image("-l", word, layout.RULE_TO)
    if not chosen.names_caller:
        main = Pattern(MAIN)
        compiler.add(Word("--from", "", layout.RULE_FROM, ANY, main), 0)
    chosen.rules = b"".join(compiler.packed)
    return chosen


class _Compiler:
    """Collects rules and patterns, without duplicates of patterns."""

    def __init__(self, chosen: Selection, compile_: Compile) -> None:
        self.chosen = chosen
        self.compile = compile_  # compiles patterns for functions
        self.packed: list[bytes] = []
        self.numbers: dict[tuple[str, bool, Compile], int] = {}

    def add_rule(self, rule: Rule, flags: int) -> None:
        kind = layout.RULE_INCLUDE if rule.include else layout.RULE_EXCLUDE
        self.add(Word("-e", rule.word, kind, rule.symbol, rule.caller), flags)

    def add_image(self, option: str, text: str, kind: int) -> None:
        self.add(Word(option, text, kind, ANY, parse_image(text)), 0)

    def add(self, word: Word, flags: int) -> None:
        image = word.image
        if image.is_path:
            flags |= layout.RULE_PATH
        number = layout.PATTERN_MAIN if image.is_main else self.number(image, compile_pattern)
        symbol = self.number(word.symbol, self.compile)
        self.packed.append(pack("<BBHHH", word.kind, flags, symbol, number, 0))
        self.chosen.words.append(word)

    def number(self, pattern: Pattern, compile_: Compile) -> int:
        if pattern.is_any:
            return layout.PATTERN_ANY
        key = (pattern.text, pattern.is_regex, compile_)
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.chosen.patterns)
            self.chosen.patterns.append(compile_(pattern))
        return number


def compile_symbol(pattern: Pattern) -> Automaton:
    """Compile a pattern for functions.

    `open` also means `__open_2` (select/filter.py), and `Locker::*` also means linked names
    (select/cxx.py).
    """
    if pattern.members is not None:
        return pattern.members
    if pattern.is_regex:
        return compile_bre(pattern.text)
    text = without_anchors(pattern.text)
    if "::" in text:
        from soscope.select import cxx  # few runs need it

        if cxx.is_qualified(text):
            shown = compile_glob(cxx.shown_pattern(text))
            try:
                return either(shown, compile_bre(cxx.linked_pattern(text)))
            except UsageError:
                raise too_complex(text) from None  # not the pattern that the user wrote
    return compile_names_of(text)


def compile_pattern(pattern: Pattern) -> Automaton:
    """Compile a pattern for images. A glob may have the anchors of a regular expression, too."""
    if pattern.is_regex:
        return compile_bre(pattern.text)
    return compile_glob(without_anchors(pattern.text))


def without_anchors(text: str) -> str:
    """Return a glob without `^` and `$` at its ends, because a glob is for whole names anyway.

    As in ltrace(1), ^MAIN is an image with the name MAIN.
    """
    text = text.removeprefix("^")
    if text.endswith("$") and not text.endswith("\\$"):
        text = text[:-1]
    return text


def _members(name: str, sets: Sets | None) -> Automaton:
    known = {} if sets is None else sets()
    members = known.get(name[1:])
    if members is None:
        from difflib import get_close_matches

        near = get_close_matches(name[1:], known, n=1, cutoff=0.4)
        names = ", ".join(f"%{other}" for other in known)
        raise UsageError(
            f"filter expression '{name}': there is no such set of functions",
            hint=f"did you mean %{near[0]}? There are {names}" if near else f"there are {names}",
            slug="filter-expression",
        )
    return members


def chooses(
    selection: Selection,
    symbol: str,
    *,
    caller: str,
    callee: str,
    caller_path: str = "",
    callee_path: str = "",
    caller_is_main: bool = False,
    callee_is_main: bool = False,
) -> bool:
    """Return whether a slot is selected. The agent decides in the same way."""
    matches = rules_matched(
        selection,
        symbol,
        (caller, caller_path, caller_is_main),
        (callee, callee_path, callee_is_main),
    )
    marked, chosen = False, False
    froms: list[bool] = []
    tos: list[bool] = []
    for index, (word, matched) in enumerate(zip(selection.words, matches, strict=True)):
        if word.kind == layout.RULE_TO:
            tos.append(matched)
        elif word.kind == layout.RULE_FROM:
            froms.append(matched)
        else:
            if _packed_rule(selection, index)[1] & layout.RULE_FIRST:
                chosen |= marked
                marked = False
            if matched:
                marked = word.kind == layout.RULE_INCLUDE
    chosen |= marked
    return chosen and (not froms or any(froms)) and (not tos or any(tos))


def rules_matched(selection: Selection, symbol: str, caller: Image, callee: Image) -> list[bool]:
    """Return for each rule whether its patterns match a slot. Its kind does not matter."""
    return [
        _rule_matches(selection, index, symbol, callee if word.kind == layout.RULE_TO else caller)
        for index, word in enumerate(selection.words)
    ]


def _rule_matches(selection: Selection, index: int, symbol: str, image: Image) -> bool:
    _, flags, symbol_number, image_number = _packed_rule(selection, index)
    name, path, is_main = image
    if image_number == layout.PATTERN_MAIN:
        matches = is_main
    else:
        matches = _matches(selection, image_number, path if flags & layout.RULE_PATH else name)
    return matches and _matches(selection, symbol_number, symbol)


def _packed_rule(selection: Selection, index: int) -> tuple[int, int, int, int]:
    """Return kind, flags and the numbers of both patterns of a rule."""
    kind, flags, symbol, image = layout.RULE.struct.unpack_from(
        selection.rules, index * layout.RULE.size
    )[:4]
    return kind, flags, symbol, image


def _matches(selection: Selection, number: int, name: str) -> bool:
    """Return whether a name matches the pattern with this number."""
    if number == layout.PATTERN_ANY:
        return True
    return selection.patterns[number].matches(name.encode("utf-8", "surrogateescape"))


# Finds the names that a user may have meant with a misspelt one.

MOST_MISSES = 3  # near misses that are printed
MOST_NAMES = 20_000  # names that are compared. difflib needs about 5 µs for each


def near_misses(name: str, candidates: list[str]) -> list[str]:
    """Return up to three of the candidates that the user may have meant with `name`.

    First come candidates that differ only in case, that are a C++ name with this identifier, that
    are a name which the headers of a C library substitute (`__isoc99_sscanf`, `__printf_chk`), or
    that begin with it. Then come candidates with similar letters.
    """
    if len(name) < 2:  # a single letter resembles everything
        return []
    folded = name.casefold()
    mangled = f"{len(name)}{name}"
    ranked = []
    for candidate in candidates[:MOST_NAMES]:
        if candidate == name:
            continue
        if candidate.casefold() == folded:
            ranked.append((0, len(candidate), candidate))
        elif (candidate.startswith("_Z") and mangled in candidate) or (
            candidate.startswith("__") and name in candidate.split("_")
        ):
            ranked.append((1, len(candidate), candidate))
        elif candidate.casefold().startswith(folded):
            ranked.append((2, len(candidate), candidate))
        elif f"lib{folded}" == candidate.casefold()[: len(folded) + 3]:
            ranked.append((3, len(candidate), candidate))
    best = [candidate for _, _, candidate in sorted(ranked)[:MOST_MISSES]]
    if len(best) < MOST_MISSES:
        from difflib import get_close_matches  # 4 ms, and only here

        alike = get_close_matches(name, candidates[:MOST_NAMES], n=MOST_MISSES, cutoff=0.7)
        best += [candidate for candidate in alike if candidate not in best and candidate != name]
    return best[:MOST_MISSES]
