// SPDX-License-Identifier: Apache-2.0
// Structures whose content is shown where a parameter says IN or OUT, or that
// are passed by value. This file is not compiled with the system's headers, but
// the tests compare every offset with theirs.

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

struct rlimit {
	rlim_t rlim_cur;
	rlim_t rlim_max;
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
