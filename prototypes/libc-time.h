// SPDX-License-Identifier: Apache-2.0
// libc: clocks, dates, sleeping, timers; terminals.

// Clocks.
time_t time(time_t *seconds) FAILS(< 0);
int gettimeofday(struct timeval *time OUT(success), void *zone) FAILS(< 0);
int settimeofday(const struct timeval *time IN, const struct timezone *zone IN) FAILS(< 0);
int clock_gettime(clockid_t clock, struct timespec *time OUT(success)) FAILS(< 0)
	ALSO(__clock_gettime);
int clock_getres(clockid_t clock, struct timespec *resolution OUT(success)) FAILS(< 0);
int clock_settime(clockid_t clock, const struct timespec *time IN) FAILS(< 0);
int clock_nanosleep(clockid_t clock, int flags FLAGS(timer), const struct timespec *time IN,
		    struct timespec *left) FAILS(!= 0) ERRNO(result);
int timespec_get(struct timespec *time OUT(success), int base) FAILS(== 0) ERRNO(none);
clock_t clock(void) FAILS(< 0);
clock_t times(struct tms *usage) FAILS(== -1);
int nanosleep(const struct timespec *time IN, struct timespec *left)
	FAILS(< 0) ALSO(__nanosleep);
unsigned int sleep(unsigned int seconds);
int usleep(useconds_t microseconds) FAILS(< 0);
unsigned int alarm(unsigned int seconds);
useconds_t ualarm(useconds_t first, useconds_t interval);
int setitimer(__itimer_which_t which ENUM(itimer), const struct itimerval *value IN,
	      struct itimerval *old) FAILS(< 0);
int getitimer(__itimer_which_t which ENUM(itimer), struct itimerval *value OUT(success)) FAILS(< 0);
int timer_create(clockid_t clock, struct sigevent *event IN, timer_t *timer OUT(success))
	FAILS(< 0);
int timer_settime(timer_t timer, int flags FLAGS(timer), const struct itimerspec *value IN,
		  struct itimerspec *old OUT(success)) FAILS(< 0);
int timer_delete(timer_t timer) FAILS(< 0);
int timerfd_create(clockid_t clock, int flags FLAGS(timerfd)) FAILS(< 0);
int timerfd_settime(int fd, int flags FLAGS(timerfd_set), const struct itimerspec *value IN,
		    struct itimerspec *old OUT(success)) FAILS(< 0);
int timerfd_gettime(int fd, struct itimerspec *value OUT(success)) FAILS(< 0);

// Dates.
struct tm *gmtime(const time_t *time IN FOLLOW) FAILS(== NULL);
struct tm *localtime(const time_t *time IN FOLLOW) FAILS(== NULL);
struct tm *gmtime_r(const time_t *time IN FOLLOW, struct tm *date OUT(success)) FAILS(== NULL);
struct tm *localtime_r(const time_t *time IN FOLLOW, struct tm *date OUT(success)) FAILS(== NULL);
time_t mktime(struct tm *date IN OUT(always)); // -1 is the second before 1970, too: no rule
time_t timegm(struct tm *date IN OUT(always));
time_t timelocal(struct tm *date IN OUT(always));
double difftime(time_t end, time_t start);
char *asctime(const struct tm *date IN);
char *asctime_r(const struct tm *date IN, char *buffer);
char *ctime(const time_t *time IN FOLLOW);
char *ctime_r(const time_t *time IN FOLLOW, char *buffer);
size_t strftime(char *to OUT(result > 0) LIMIT(size), size_t size, const char *format FOLLOW,
		const struct tm *date IN FIELDS_BY(format));
size_t strftime_l(char *to OUT(result > 0) LIMIT(size), size_t size, const char *format FOLLOW,
		  const struct tm *date IN FIELDS_BY(format), locale_t locale) ALSO(__strftime_l);
char *strptime(const char *s, const char *format FOLLOW,
	       struct tm *date OUT(result != NULL) FIELDS_BY(format));
void tzset(void);

// Terminals.
int isatty(int fd) FAILS(== 0);
char *ttyname(int fd) FAILS(== NULL);
int ttyname_r(int fd, char *name OUT(success) LIMIT(size), size_t size) FAILS(!= 0) ERRNO(result);
char *ctermid(char *name);
int tcgetattr(int fd, struct termios *settings) FAILS(< 0);
int tcsetattr(int fd, int when ENUM(tcsetattr), const struct termios *settings) FAILS(< 0);
int tcflush(int fd, int queue ENUM(tcflush)) FAILS(< 0);
int tcdrain(int fd) FAILS(< 0);
int tcsendbreak(int fd, int duration) FAILS(< 0);
pid_t tcgetpgrp(int fd) FAILS(< 0);
int tcsetpgrp(int fd, pid_t group) FAILS(< 0);
void cfmakeraw(struct termios *settings);
speed_t cfgetospeed(const struct termios *settings);
speed_t cfgetispeed(const struct termios *settings);
int cfsetospeed(struct termios *settings, speed_t speed) FAILS(< 0);
int cfsetispeed(struct termios *settings, speed_t speed) FAILS(< 0);
int posix_openpt(int flags FLAGS(open)) FAILS(< 0);
int grantpt(int fd) FAILS(< 0);
int unlockpt(int fd) FAILS(< 0);
char *ptsname(int fd) FAILS(== NULL);
int ptsname_r(int fd, char *name OUT(success) LIMIT(size), size_t size) FAILS(!= 0) ERRNO(result);
int openpty(int *controller OUT(success), int *terminal OUT(success), char *name,
	    const struct termios *settings, const struct winsize *size IN) FAILS(< 0);
pid_t forkpty(int *controller OUT(result > 0), char *name, const struct termios *settings,
	      const struct winsize *size IN) FAILS(< 0);
int login_tty(int fd) FAILS(< 0);
char *getpass(const char *prompt) POINTER FAILS(== NULL);
char *crypt(const char *phrase POINTER, const char *salt POINTER) POINTER FAILS(== NULL);
