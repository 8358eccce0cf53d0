// SPDX-License-Identifier: Apache-2.0
// Calls functions with values of many types, and writes each call down as a trace is to show it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "crossed_values.h"

static char lines[16384], *end = lines;
static int file; // the program's own

// The lines are written down at the end: printf is traced as well.
#define TELL(...) (end += sprintf(end, __VA_ARGS__))

static void numbers(void)
{
	short s = narrow(-3, 60000, -70000, 4000000000U, 1);
	unsigned short u = narrow_unsigned(65535);
	long l = longs(-1, 4000000000UL, 3, -4, 5, 6, -7, 2147483648UL, -9);
	long long p = pairs(1, -5000000000LL, 3, 18000000000000000000ULL, -5, -6, 7);
	unsigned long long q = pair_last(1, 2, 3, 18000000000000000000ULL, 5);

	TELL("narrow(-3, 60000, -70000, 4000000000, true) = %d\n", s);
	TELL("narrow_unsigned(65535) = %d\n", u);
	TELL("longs(-1, 4000000000, 3, -4, 5, 6, -7, 2147483648, -9) = %ld\n", l);
	TELL("pairs(1, -5000000000, 3, 18000000000000000000, -5, -6, 7) = %lld\n", p);
	TELL("pair_last(1, 2, 3, 18000000000000000000, 5) = %llu\n", q);
}

static void floating(void)
{
	double d = doubles(1.5, 2.25, -3, 4, 5, 6, 7, 8.5, 9, 10, 11, 12, 13.25, -14, 15.5);
	float f = floats(0.5f, 1, 2, 3, 4, 5, 6, 7, 8, 9.5f, 10, 11, 12, 13, 14.5f, -15, 16.25f);
	double m = mixed(-1, 2.5, -3, 4.5f, -5000000000LL, 6.5, -7, 8.5f, 9, 10.5, 11.5f, -12);
	float s = single_last(1, 2, 3, 4, 5, 6, 7, 8, 9.5f, -10.25);

	TELL("doubles(1.5, 2.25, -3, 4, 5, 6, 7, 8.5, 9, 10, 11, 12, 13.25, -14, 15.5) = %g\n", d);
	TELL("floats(0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9.5, 10, 11, 12, 13, 14.5, -15, 16.25) = %g\n",
	     (double)f);
	TELL("mixed(-1, 2.5, -3, 4.5, -5000000000, 6.5, -7, 8.5, 9, 10.5, 11.5, -12) = %.10g\n", m);
	TELL("single_last(1, 2, 3, 4, 5, 6, 7, 8, 9.5, -10.25) = %g\n", (double)s);
}

static void long_doubles(void)
{
	long double x = extended(1.5L, 2, -3.25L);

	TELL("extended(1.5, 2, -3.25) = %Lg\n", x);
}

static void structures(void)
{
	struct named named = {"some name", -3, 4.5, -70000};
	struct tiny t = tiny((struct tiny){-5}, 2);
	struct pair p = swap((struct pair){1, -2}, 3);
	struct one o = one(1, (struct one){2.5f}, 3.5);
	struct point q = point((struct point){1.5, -2.5}, 0.25, 7);
	struct three h = three(4, (struct three){1.5f, 2, -3.5f}, 0.5f);
	struct part r = part(8, (struct part){-9, 1.25f}, 10);
	struct large l = large((struct large){1, 2.5f, -3, 4, 5}, 6, 7.5);
	int sum = many(1, 2, 3, 4, 5, 6, 7, (struct pair){8, 9}, 10,
		       (struct large){11, 12.5f, 13, 14, 15}, 16);

	TELL("tiny({a=-5}, 2) = {a=%d}\n", t.a);
	TELL("swap({a=1, b=-2}, 3) = {a=%d, b=%d}\n", p.a, p.b);
	TELL("one(1, {f=2.5}, 3.5) = {f=%g}\n", (double)o.f);
	TELL("point({x=1.5, y=-2.5}, 0.25, 7) = {x=%g, y=%g}\n", q.x, q.y);
	TELL("three(4, {x=1.5, y=2, z=-3.5}, 0.5) = {x=%g, y=%g, z=%g}\n", (double)h.x, (double)h.y,
	     (double)h.z);
	TELL("part(8, {i=-9, f=1.25}, 10) = {i=%d, f=%g}\n", r.i, (double)r.f);
	TELL("large({a=1, b=2.5, c=-3, d=4, e=5}, 6, 7.5) = {a=%d, b=%g, c=%d, d=%d, e=%d}\n", l.a,
	     (double)l.b, l.c, l.d, l.e);
	TELL("many(1, 2, 3, 4, 5, 6, 7, {a=8, b=9}, 10, {a=11, b=12.5, c=13, d=14, e=15}, 16) = %d\n",
	     sum);
	TELL("weighed({name=ADDRESS, k=-3, weight=4.5, n=-70000}, 6) = %d\n", weighed(&named, 6));
	TELL("passed(5, {name=ADDRESS, k=-3, weight=4.5, n=-70000}, 6) = %d\n",
	     passed(5, named, 6));
}

// More than registers have room for.
static void many_numbers(void)
{
	int sum = quads(1, 2, (struct quad){3, 4, 5, 6.5}, (struct quad){7, 8, 9, 10},
			(struct quad){11, -12, 13, 14}, 15, 16);
	int filling = filled(1, 2.5, (struct three){3, 4, 5}, 6, 7, (union small){{8, 9}},
			     (struct three){10, 11, 12}, (struct three){13, 14, 15.5f}, 16,
			     (struct one){17});

	TELL("quads(1, 2, {a=3, b=4, c=5, d=6.5}, {a=7, b=8, c=9, d=10}, {a=11, b=-12, c=13, d=14}, "
	     "15, 16) = %d\n",
	     sum);
	TELL("filled(1, 2.5, {x=3, y=4, z=5}, 6, 7, {f=[8, 9], p={x=8, y=9}}, {x=10, y=11, z=12}, "
	     "{x=13, y=14, z=15.5}, 16, {f=17}) = %d\n",
	     filling);
}

static void unions(void)
{
	union either e = either(1, (union either){.f = 2.5f}, 0.25f), given = {.f = 2.5f};
	union small s = small((union small){{1.5f, -2}}, 3, 0.5);
	struct tagged t = tagged(4, (struct tagged){-5, {.f = 1.5f}}), told = {-5, {.f = 1.5f}};
	union wide w = wide(2, (union wide){.d = -2.5}, 8.25), wide_given = {.d = -2.5};

	TELL("either(1, {i=%d, f=%g}, 0.25) = {i=%d, f=%g}\n", given.i, (double)given.f, e.i,
	     (double)e.f);
	TELL("small({f=[1.5, -2], p={x=1.5, y=-2}}, 3, 0.5) = {f=[%g, %g], p={x=%g, y=%g}}\n",
	     (double)s.f[0], (double)s.f[1], (double)s.p.x, (double)s.p.y);
	TELL("tagged(4, {kind=-5, value={i=%d, f=%g}}) = {kind=%d, value={i=%d, f=%g}}\n",
	     told.value.i, (double)told.value.f, t.kind, t.value.i, (double)t.value.f);
	TELL("wide(2, {d=%g, f=%g}, 8.25) = {d=%g, f=%g}\n", wide_given.d, (double)wide_given.f,
	     w.d, (double)w.f);
}

#define COMPLEX(type, real, imaginary)     \
	({                                 \
		type _Complex made;        \
		__real__ made = real;      \
		__imag__ made = imaginary; \
		made;                      \
	})

static void complex_numbers(void)
{
	float _Complex z = turned(1, COMPLEX(float, 2.5f, -3.5f), 0.25f);
	double _Complex y = turned_wide(2, COMPLEX(double, -4.5, 5.25), 8.5);
	int n = complexes(COMPLEX(float, 1, 2), 3, COMPLEX(double, 4, 5), 6, COMPLEX(float, 7, 8),
			  COMPLEX(double, 9, -10), COMPLEX(double, 11.5, 12),
			  COMPLEX(float, 13, 14), COMPLEX(float, 15, 16.5f),
			  COMPLEX(double, -17, 18), 19, COMPLEX(float, 20, -21), 22.25);

	TELL("turned(1, 2.5-3.5i, 0.25) = %g%+gi\n", (double)__real__ z, (double)__imag__ z);
	TELL("turned_wide(2, -4.5+5.25i, 8.5) = %g%+gi\n", __real__ y, __imag__ y);
	TELL("complexes(1+2i, 3, 4+5i, 6, 7+8i, 9-10i, 11.5+12i, 13+14i, 15+16.5i, -17+18i, 19, "
	     "20-21i, 22.25) = %d\n",
	     n);
}

static void formats(void)
{
	char line[256];
	int n = snprintf(line, sizeof(line), "%d %s %lld %g %ld %x %llu %g %c %u %hhd %5.2f|%*d",
			 -1, "two", -3000000000LL, 4.5, -5L, 0xabcU, 18000000000000000000ULL, 8.25,
			 'c', 4000000000U, -7, 11.5, 4, 13);

	TELL("snprintf(\"%s\", 256, \"%%d %%s %%lld %%g %%ld %%x %%llu %%g %%c %%u %%hhd "
	     "%%5.2f|%%*d\", -1, \"two\", -3000000000, 4.5, -5, 0xabc, 18000000000000000000, 8.25, "
	     "'c', 4000000000, -7, 11.5, 4, 13) = %d\n",
	     line, n);
}

static void failures(void)
{
	int found = open("/none/none", O_RDONLY);

	TELL("open(\"/none/none\", O_RDONLY) = %d ENOENT (%s)\n", found, strerror(errno));
	found = close(-1);
	TELL("close(-1) = %d EBADF (%s)\n", found, strerror(errno));
	found = setenv("", "", 1);
	TELL("setenv(\"\", \"\", 1) = %d EINVAL (%s)\n", found, strerror(errno));
}

static void times(void)
{
	struct timespec wait = {0, 1000};
	struct itimerval timer = {{7, 8}, {900, 10}};
	time_t when = 86400L * 365;
	struct tm date;

	TELL("nanosleep({tv_sec=0, tv_nsec=1000}, nil) = %d\n", nanosleep(&wait, NULL));
	TELL("setitimer(ITIMER_REAL, {it_interval={tv_sec=7, tv_usec=8}, it_value={tv_sec=900, "
	     "tv_usec=10}}, nil) = %d\n",
	     setitimer(ITIMER_REAL, &timer, NULL));
	gmtime_r(&when, &date);
	TELL("gmtime_r([%ld], {tm_sec=%d, tm_min=%d, tm_hour=%d, tm_mday=%d, tm_mon=%d, tm_year=%d, "
	     "tm_wday=%d, tm_yday=%d, tm_isdst=%d, tm_gmtoff=%ld, tm_zone=ADDRESS}) = ADDRESS\n",
	     (long)when, date.tm_sec, date.tm_min, date.tm_hour, date.tm_mday, date.tm_mon,
	     date.tm_year, date.tm_wday, date.tm_yday, date.tm_isdst, date.tm_gmtoff);
}

static void heard(int number)
{
	(void)number;
}

static void signals(void)
{
	struct sigaction action = {.sa_handler = heard, .sa_flags = SA_RESTART | SA_NODEFER};
	sigset_t set;

	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGUSR2);
	TELL("sigaction(SIGUSR1, {sa_handler=ADDRESS, sa_mask=[USR2], "
	     "sa_flags=SA_RESTART|SA_NODEFER}, nil) = %d\n",
	     sigaction(SIGUSR1, &action, NULL));
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, 40);
	TELL("sigprocmask(SIG_BLOCK, [INT RT_8], nil) = %d\n", sigprocmask(SIG_BLOCK, &set, NULL));
}

static void files(void)
{
	struct stat status;
	struct rlimit limit = {0, 0};
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 5, .l_len = 7};
	int ends[2] = {0, 0}, found = fstat(file, &status);
	struct iovec parts[] = {{"ab", 2}, {"cde", 3}};

	TELL("fstat(%d, {st_mode=S_IFREG|0%o, st_size=%ld, ...}) = %d\n", file,
	     status.st_mode & 07777, (long)status.st_size, found);
	found = pipe(ends);
	TELL("pipe([%d, %d]) = %d\n", ends[0], ends[1], found);
	TELL("writev(%d, [{iov_base=ADDRESS, iov_len=2}, {iov_base=ADDRESS, iov_len=3}], 2) = %d\n",
	     ends[1], (int)writev(ends[1], parts, 2));
	found = getrlimit(RLIMIT_NOFILE, &limit);
	TELL("getrlimit(RLIMIT_NOFILE, {rlim_cur=%lu, rlim_max=%lu}) = %d\n",
	     (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max, found);
	found = fcntl(file, F_SETLK, &lock);
	TELL("fcntl(%d, F_SETLK, {l_type=F_RDLCK, l_whence=SEEK_SET, l_start=5, l_len=7, l_pid=0}) = "
	     "%d\n",
	     file, found);
	TELL("wcslen(L\"wide \u20ac\") = %d\n", (int)wcslen(L"wide \u20ac"));
}

static void waits(void)
{
	struct pollfd polled[2] = {{-1, POLLIN, 0}, {-1, POLLOUT | POLLPRI, 0}};
	struct timeval none = {0, 5};
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
	int epoll = epoll_create1(0), ends[2] = {0, 0};
	fd_set reads;

	TELL("poll([{fd=-1, events=POLLIN, ...}, {fd=-1, events=POLLPRI|POLLOUT, ...}], 2, 0) = %d\n",
	     poll(polled, 2, 0));
	socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
	FD_ZERO(&reads);
	FD_SET(file, &reads);
	FD_SET(ends[0], &reads);
	TELL("select(%d, [%d %d] => [%d], nil, nil, {tv_sec=0, tv_usec=5}) = %d\n", ends[0] + 1,
	     file, ends[0], file, select(ends[0] + 1, &reads, NULL, NULL, &none));
	event.data.fd = 9;
	TELL("epoll_ctl(%d, EPOLL_CTL_ADD, %d, {events=EPOLLIN, data={ptr=0x9, fd=9}}) = %d\n",
	     epoll, ends[0], epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event));
}

static void sockets(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/none/socket"};
	int made = socket(AF_UNIX, SOCK_STREAM, 0);
	int found = connect(made, (struct sockaddr *)&address, sizeof(address));

	TELL("connect(%d, {AF_UNIX, \"/none/socket\"}, 110) = %d ENOENT (No such file or directory)\n",
	     made, found);
}

int main(int argc, char **argv)
{
	if (argc > 1) { // somebody is to come first
		puts("ready");
		fflush(stdout);
		getchar();
	}
	file = fileno(fopen(argv[0], "r"));
	numbers();
	floating();
	structures();
	many_numbers();
	unions();
	complex_numbers();
	formats();
	failures();
	times();
	signals();
	files();
	waits();
	sockets();
	long_doubles();
	fputs(lines, stdout);
	return 0;
}
