// SPDX-License-Identifier: Apache-2.0
// Structures and sets whose content is shown where a parameter says IN or OUT, or
// that are passed by value. This file is not compiled with the system's headers, but
// the tests compare every offset with theirs.

typedef unsigned long sigset_t[16] SIGNALS;
typedef sigset_t __sigset_t;
typedef unsigned long fd_set[16];

struct timespec {
	time_t tv_sec;
	long tv_nsec;
};

struct timeval {
	time_t tv_sec;
	suseconds_t tv_usec;
};

struct timezone {
	int tz_minuteswest;
	int tz_dsttime;
};

struct itimerval {
	struct timeval it_interval;
	struct timeval it_value;
};

struct itimerspec {
	struct timespec it_interval;
	struct timespec it_value;
};

struct tm {
	int tm_sec;
	int tm_min;
	int tm_hour;
	int tm_mday;
	int tm_mon;
	int tm_year;
	int tm_wday;
	int tm_yday;
	int tm_isdst;
	long tm_gmtoff;
	const char *tm_zone;
};

union sigval { // which of them, the program alone knows
	int sival_int;
	void *sival_ptr;
};

struct sigevent { // its beginning
	union sigval sigev_value;
	int sigev_signo ENUM(signal) WHEN(sigev_notify == SIGEV_SIGNAL | SIGEV_THREAD_ID);
	int sigev_notify ENUM(signal_event);
	union {
		pid_t sigev_notify_thread_id WHEN(sigev_notify == SIGEV_THREAD_ID);
		struct {
			void (*sigev_notify_function)(union sigval);
			void *sigev_notify_attributes;
		} WHEN(sigev_notify == SIGEV_THREAD);
	};
};

typedef struct siginfo { // its beginning
	int si_signo ENUM(signal);
	int si_errno ENUM(errno);
	int si_code ENUM(signal_code);
	int : 32;
	union {
		struct {
			pid_t si_pid;
			uid_t si_uid;
			union sigval si_value WHEN(si_code == SI_QUEUE | SI_MESGQ);
		} WHEN(si_code == SI_USER | SI_QUEUE | SI_MESGQ | SI_TKILL);
		struct {
			pid_t si_pid;
			uid_t si_uid;
			int si_status;
			long si_utime;
			long si_stime;
		} WHEN(si_signo == SIGCHLD && si_code == 1 | 2 | 3 | 4 | 5 | 6);
		struct {
			int si_timerid;
			int si_overrun;
			union sigval si_value;
		} WHEN(si_code == SI_TIMER);
		void *si_addr WHEN(si_signo == SIGSEGV | SIGBUS | SIGILL | SIGFPE | SIGTRAP
				   && si_code == 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | SI_KERNEL);
		struct {
			long si_band;
			int si_fd;
		} WHEN(si_signo == SIGIO && si_code == 1 | 2 | 3 | 4 | 5 | 6 | SI_SIGIO);
	};
} siginfo_t;

struct sigaction { // its beginning
	sighandler_t sa_handler;
	sigset_t sa_mask;
	int sa_flags FLAGS(sigaction);
};

union epoll_data { // which of them, the program alone knows
	void *ptr;
	int fd;
};

struct epoll_event {
	uint32_t events FLAGS(epoll_events);
	union epoll_data data;
} __attribute__((packed));

struct rlimit {
	rlim_t rlim_cur ENUM(rlim);
	rlim_t rlim_max ENUM(rlim);
};

struct rlimit64 {
	rlim_t rlim_cur ENUM(rlim);
	rlim_t rlim_max ENUM(rlim);
};

struct rusage { // its beginning
	struct timeval ru_utime;
	struct timeval ru_stime;
	long ru_maxrss;
};

struct winsize {
	unsigned short ws_row;
	unsigned short ws_col;
	unsigned short ws_xpixel;
	unsigned short ws_ypixel;
};

struct in_addr {
	in_addr_t s_addr;
};

struct linger {
	int l_onoff BOOL;
	int l_linger;
};

struct utimbuf {
	time_t actime;
	time_t modtime;
};

struct flock {
	short l_type ENUM(lease);
	short l_whence ENUM(whence);
	off_t l_start;
	off_t l_len;
	pid_t l_pid;
};

struct f_owner_ex {
	int type;
	pid_t pid;
};

struct ucred {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

struct ip_mreq {
	struct in_addr imr_multiaddr;
	struct in_addr imr_interface;
};

struct stat {
	dev_t st_dev HIDDEN;
	ino_t st_ino HIDDEN;
	unsigned long st_nlink HIDDEN;
	mode_t st_mode FLAGS(file_type);
	uid_t st_uid HIDDEN;
	gid_t st_gid HIDDEN;
	int __pad0 HIDDEN;
	dev_t st_rdev HIDDEN;
	off_t st_size;
	long st_blksize HIDDEN;
	long st_blocks HIDDEN;
	struct timespec st_atim HIDDEN;
	struct timespec st_mtim HIDDEN;
	struct timespec st_ctim HIDDEN;
	long __glibc_reserved[3] HIDDEN;
};

struct stat64 {
	dev_t st_dev HIDDEN;
	ino_t st_ino HIDDEN;
	unsigned long st_nlink HIDDEN;
	mode_t st_mode FLAGS(file_type);
	uid_t st_uid HIDDEN;
	gid_t st_gid HIDDEN;
	int __pad0 HIDDEN;
	dev_t st_rdev HIDDEN;
	off_t st_size;
	long st_blksize HIDDEN;
	long st_blocks HIDDEN;
	struct timespec st_atim HIDDEN;
	struct timespec st_mtim HIDDEN;
	struct timespec st_ctim HIDDEN;
	long __glibc_reserved[3] HIDDEN;
};

struct dirent {
	ino_t d_ino HIDDEN;
	off_t d_off HIDDEN;
	unsigned short d_reclen HIDDEN;
	unsigned char d_type ENUM(file_kind);
	char d_name[256];
};

struct dirent64 {
	ino_t d_ino HIDDEN;
	off_t d_off HIDDEN;
	unsigned short d_reclen HIDDEN;
	unsigned char d_type ENUM(file_kind);
	char d_name[256];
};

struct pollfd {
	int fd;
	short events FLAGS(poll);
	short revents FLAGS(poll) HIDDEN;
};

struct utsname {
	char sysname[65];
	char nodename[65];
	char release[65];
	char version[65] HIDDEN;
	char machine[65];
	char domainname[65] HIDDEN;
};

struct iovec {
	void *iov_base;
	size_t iov_len;
};
