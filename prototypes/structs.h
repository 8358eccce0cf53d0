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
