// SPDX-License-Identifier: Apache-2.0
// A target's own account of what it did, one line per fact, written to the file
// named by SOSC_TRUTH, else to descriptor SOSC_TRUTH_FD, else to stderr:
//
//	calls NAME N PID ROLE       exactly N calls of NAME went through a slot
//	range NAME LO HI PID ROLE   between LO and HI, where a cancellation or a
//	                            signal may cut between counting and calling
//
// Facts of one name add up. ROLE says who made the calls (see truth_role).
// Only raw system calls and no libc: these functions run in signal handlers, in
// threads without a thread pointer of their own, and after seccomp.
#ifndef SOSC_TRUTH_H
#define SOSC_TRUTH_H

#ifdef __cplusplus
extern "C" {
#endif
extern char **environ;
#ifdef __cplusplus
}
#endif

#define TRUTH_FN static inline __attribute__((unused))

enum { TRUTH_WRITE = 1, TRUTH_OPEN = 2, TRUTH_CLOSE = 3, TRUTH_GETPID = 39, TRUTH_EXIT = 231 };

TRUTH_FN long truth_sys(long number, long a, long b, long c)
{
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

// main: the process soscope started. child: a forked one. vfork: a child on its
// parent's memory. exec: a program image after an exec.
static const char *truth_role __attribute__((unused)) = "main";
static int truth_held __attribute__((unused)) = -1;
static long truth_pid __attribute__((unused));

TRUTH_FN const char *truth_env(const char *name)
{
	for (char **e = environ; e && *e; e++) {
		const char *n = name, *p = *e;
		while (*n && *n == *p)
			n++, p++;
		if (!*n && *p == '=')
			return p + 1;
	}
	return 0;
}

TRUTH_FN int truth_open(void)
{
	const char *path = truth_env("SOSC_TRUTH");
	if (path) // O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC
		return (int)truth_sys(TRUTH_OPEN, (long)path, 1 | 0100 | 02000 | 02000000, 0600);
	const char *number = truth_env("SOSC_TRUTH_FD");
	int fd = 0;
	for (; number && *number; number++)
		fd = fd * 10 + (*number - '0');
	return number ? fd : 2;
}

// Keep descriptor and pid from here on: for targets that give up system calls.
TRUTH_FN void truth_hold(void)
{
	truth_held = truth_open();
	truth_pid = truth_sys(TRUTH_GETPID, 0, 0, 0);
}

TRUTH_FN char *truth_text(char *to, const char *text)
{
	while (*text)
		*to++ = *text++;
	*to++ = ' ';
	return to;
}

TRUTH_FN char *truth_number(char *to, unsigned long value)
{
	char digits[24];
	int n = 0;
	do
		digits[n++] = (char)('0' + value % 10);
	while (value /= 10);
	while (n)
		*to++ = digits[--n];
	*to++ = ' ';
	return to;
}

TRUTH_FN void truth_line(const char *kind, const char *name, const long *numbers, int count)
{
	char line[512], *p = line;
	p = truth_text(p, kind);
	p = truth_text(p, name);
	for (int i = 0; i < count; i++)
		p = truth_number(p, (unsigned long)numbers[i]);
	p = truth_number(p,
			 (unsigned long)(truth_pid ? truth_pid : truth_sys(TRUTH_GETPID, 0, 0, 0)));
	p = truth_text(p, truth_role);
	p[-1] = '\n';
	int fd = truth_held >= 0 ? truth_held : truth_open();
	truth_sys(TRUTH_WRITE, fd, (long)line, p - line);
	if (truth_held < 0 && fd > 2 && truth_env("SOSC_TRUTH"))
		truth_sys(TRUTH_CLOSE, fd, 0, 0);
}

TRUTH_FN void truth_calls(const char *name, long n)
{
	truth_line("calls", name, &n, 1);
}

TRUTH_FN void truth_range(const char *name, long lo, long hi)
{
	long both[2] = {lo, hi};
	truth_line("range", name, both, 2);
}

// Counting at the call: COUNTED(f) once, CALL(f, arguments), REPORT(f) at the end.
#define COUNTED(name) static long calls_of_##name __attribute__((unused))
#define COUNT(name) ((void)__atomic_fetch_add(&calls_of_##name, 1, __ATOMIC_RELAXED))
#define CALL(name, ...) (COUNT(name), name(__VA_ARGS__))
#define REPORT(name) truth_calls(#name, calls_of_##name)
#define RESET(name) (calls_of_##name = 0)

// A wrong result ends the target with status 99 and says where.
TRUTH_FN void truth_fail(const char *file, int line, const char *what)
{
	char text[512], *p = text;
	p = truth_text(p, "wrong:");
	p = truth_text(p, file);
	p = truth_number(p, (unsigned long)line);
	p = truth_text(p, what);
	p[-1] = '\n';
	truth_sys(TRUTH_WRITE, 2, (long)text, p - text);
	truth_sys(TRUTH_EXIT, 99, 0, 0);
}

#define CHECK(condition) ((condition) ? (void)0 : truth_fail(__FILE__, __LINE__, #condition))

#endif
