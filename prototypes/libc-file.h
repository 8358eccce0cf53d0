// SPDX-License-Identifier: Apache-2.0
// libc: descriptors, files, directories, file systems.

// Descriptors.
int open(const char *path, int flags FLAGS(open), ...
	 OPTIONAL(mode_t mode, flags & O_CREAT | __O_TMPFILE)) FAILS(< 0)
	ALSO(open64, __open, __open64);
int openat(int dir ENUM(at_fd), const char *path, int flags FLAGS(open), ...
	   OPTIONAL(mode_t mode, flags & O_CREAT | __O_TMPFILE)) FAILS(< 0) ALSO(openat64);
int __open_2(const char *path, int flags FLAGS(open)) FAILS(< 0) ALSO(__open64_2);
int __openat_2(int dir ENUM(at_fd), const char *path, int flags FLAGS(open))
	FAILS(< 0) ALSO(__openat64_2);
int creat(const char *path, mode_t mode) FAILS(< 0) ALSO(creat64);
int close(int fd) FAILS(< 0) ALSO(__close);
int close_range(unsigned int first, unsigned int last, int flags FLAGS(close_range)) FAILS(< 0);
void closefrom(int first);
ssize_t read(int fd, void *buffer OUT(success) BYTES(result), size_t size) FAILS(< 0) ALSO(__read);
ssize_t write(int fd, const void *buffer BYTES(size), size_t size) FAILS(< 0) ALSO(__write);
ssize_t pread(int fd, void *buffer OUT(success) BYTES(result), size_t size, off_t offset)
	FAILS(< 0) ALSO(pread64);
ssize_t pwrite(int fd, const void *buffer BYTES(size), size_t size, off_t offset)
	FAILS(< 0) ALSO(pwrite64);
ssize_t readv(int fd, const struct iovec *buffers IN ELEMENTS(count), int count) FAILS(< 0);
ssize_t writev(int fd, const struct iovec *buffers IN ELEMENTS(count), int count) FAILS(< 0);
ssize_t preadv(int fd, const struct iovec *buffers IN ELEMENTS(count), int count, off_t offset)
	FAILS(< 0) ALSO(preadv64);
ssize_t pwritev(int fd, const struct iovec *buffers IN ELEMENTS(count), int count, off_t offset)
	FAILS(< 0) ALSO(pwritev64);
off_t lseek(int fd, off_t offset, int whence ENUM(whence)) FAILS(== -1) ALSO(lseek64);
int dup(int fd) FAILS(< 0);
int dup2(int fd, int new_fd) FAILS(< 0);
int dup3(int fd, int new_fd, int flags FLAGS(new_fd)) FAILS(< 0);
int pipe(int fds[2] OUT(success)) FAILS(< 0);
int pipe2(int fds[2] OUT(success), int flags FLAGS(new_fd)) FAILS(< 0);
// F_GETOWN of a process group is its negative number.
int fcntl(int fd, int command ENUM(fcntl), ... WORDS(1)
	  OPTIONAL(void, command == F_GETFD | F_GETFL | F_GETOWN | F_GETSIG | F_GETLEASE |
		   F_GETPIPE_SZ | F_GET_SEALS)
	  OPTIONAL(int flags FLAGS(fd), command == F_SETFD)
	  OPTIONAL(int flags FLAGS(open), command == F_SETFL)
	  OPTIONAL(int number, command == F_DUPFD | F_DUPFD_CLOEXEC | F_SETOWN | F_SETPIPE_SZ)
	  OPTIONAL(int signal ENUM(signal), command == F_SETSIG)
	  OPTIONAL(int lease ENUM(lease), command == F_SETLEASE)
	  OPTIONAL(unsigned int events FLAGS(notify), command == F_NOTIFY)
	  OPTIONAL(unsigned int seals FLAGS(seals), command == F_ADD_SEALS)
	  OPTIONAL(struct flock *lock IN OUT(success), command == F_GETLK | F_OFD_GETLK)
	  OPTIONAL(struct flock *lock IN, command == F_SETLK | F_SETLKW | F_OFD_SETLK |
		   F_OFD_SETLKW)
	  OPTIONAL(struct f_owner_ex *owner IN, command == F_SETOWN_EX)
	  OPTIONAL(struct f_owner_ex *owner OUT(success), command == F_GETOWN_EX)
	  OPTIONAL(void *hint, command == F_GET_RW_HINT | F_SET_RW_HINT | F_GET_FILE_RW_HINT |
		   F_SET_FILE_RW_HINT))
	FAILS(== -1) ALSO(fcntl64, __fcntl);
int flock(int fd, int operation FLAGS(flock)) FAILS(< 0);
int lockf(int fd, int command, off_t size) FAILS(< 0) ALSO(lockf64);
int fsync(int fd) FAILS(< 0);
int fdatasync(int fd) FAILS(< 0);
void sync(void);
int syncfs(int fd) FAILS(< 0);
int ftruncate(int fd, off_t size) FAILS(< 0) ALSO(ftruncate64);
int truncate(const char *path, off_t size) FAILS(< 0) ALSO(truncate64);
int fallocate(int fd, int mode HEX, off_t offset, off_t size) FAILS(< 0) ALSO(fallocate64);
int posix_fallocate(int fd, off_t offset, off_t size)
	FAILS(!= 0) ERRNO(result) ALSO(posix_fallocate64);
int posix_fadvise(int fd, off_t offset, off_t size, int advice ENUM(fadvise))
	FAILS(!= 0) ERRNO(result) ALSO(posix_fadvise64);
ssize_t sendfile(int to, int from, off_t *offset, size_t size) FAILS(< 0) ALSO(sendfile64);
ssize_t copy_file_range(int from, off_t *from_offset, int to, off_t *to_offset, size_t size,
			unsigned int flags) FAILS(< 0);
ssize_t splice(int from, off_t *from_offset, int to, off_t *to_offset, size_t size,
	       unsigned int flags HEX) FAILS(< 0);
int ioctl(int fd, unsigned long request ENUM(ioctl), ...
	  OPTIONAL(struct winsize *size OUT(success), request == TIOCGWINSZ)
	  OPTIONAL(struct winsize *size IN, request == TIOCSWINSZ)
	  OPTIONAL(int *count OUT(success), request == FIONREAD | TIOCOUTQ)
	  OPTIONAL(int *value IN, request == FIONBIO | FIOASYNC)
	  OPTIONAL(pid_t *group OUT(success), request == TIOCGPGRP | TIOCGSID)
	  OPTIONAL(pid_t *group IN, request == TIOCSPGRP)
	  OPTIONAL(unsigned long *size OUT(success), request == BLKGETSIZE64)
	  OPTIONAL(int fd, request == FICLONE)
	  OPTIONAL(void, request == FIOCLEX | FIONCLEX | TIOCNOTTY)
	  OPTIONAL(void *argument, 1)) FAILS(< 0);

// What a file is. The __x family is what programs for glibc before 2.33 call.
int stat(const char *path, struct stat *status OUT(success)) FAILS(< 0);
int lstat(const char *path, struct stat *status OUT(success)) FAILS(< 0);
int fstat(int fd, struct stat *status OUT(success)) FAILS(< 0);
int fstatat(int dir ENUM(at_fd), const char *path, struct stat *status OUT(success), int flags FLAGS(at))
	FAILS(< 0);
int stat64(const char *path, struct stat64 *status OUT(success)) FAILS(< 0);
int lstat64(const char *path, struct stat64 *status OUT(success)) FAILS(< 0);
int fstat64(int fd, struct stat64 *status OUT(success)) FAILS(< 0);
int fstatat64(int dir ENUM(at_fd), const char *path, struct stat64 *status OUT(success), int flags FLAGS(at))
	FAILS(< 0);
int __xstat(int version, const char *path, struct stat *status OUT(success)) FAILS(< 0);
int __lxstat(int version, const char *path, struct stat *status OUT(success)) FAILS(< 0);
int __fxstat(int version, int fd, struct stat *status OUT(success)) FAILS(< 0);
int __fxstatat(int version, int dir ENUM(at_fd), const char *path, struct stat *status OUT(success),
	       int flags FLAGS(at)) FAILS(< 0);
int __xstat64(int version, const char *path, struct stat64 *status OUT(success)) FAILS(< 0);
int __lxstat64(int version, const char *path, struct stat64 *status OUT(success)) FAILS(< 0);
int __fxstat64(int version, int fd, struct stat64 *status OUT(success)) FAILS(< 0);
int __fxstatat64(int version, int dir ENUM(at_fd), const char *path, struct stat64 *status OUT(success),
		 int flags FLAGS(at)) FAILS(< 0);
int __xmknod(int version, const char *path, mode_t mode, dev_t *device) FAILS(< 0);
int statx(int dir ENUM(at_fd), const char *path, int flags FLAGS(at), unsigned int mask HEX,
	  struct statx *status) FAILS(< 0);
int access(const char *path, int mode FLAGS(access)) FAILS(< 0);
int eaccess(const char *path, int mode FLAGS(access)) FAILS(< 0) ALSO(euidaccess);
int faccessat(int dir ENUM(at_fd), const char *path, int mode FLAGS(access),
	      int flags FLAGS(at_access)) FAILS(< 0);
int chmod(const char *path, mode_t mode) FAILS(< 0);
int fchmod(int fd, mode_t mode) FAILS(< 0);
int fchmodat(int dir ENUM(at_fd), const char *path, mode_t mode, int flags FLAGS(at)) FAILS(< 0);
int chown(const char *path, uid_t user, gid_t group) FAILS(< 0);
int fchown(int fd, uid_t user, gid_t group) FAILS(< 0);
int lchown(const char *path, uid_t user, gid_t group) FAILS(< 0);
int fchownat(int dir ENUM(at_fd), const char *path, uid_t user, gid_t group, int flags FLAGS(at))
	FAILS(< 0);
mode_t umask(mode_t mask);
int utime(const char *path, const struct utimbuf *times IN) FAILS(< 0);
int utimes(const char *path, const struct timeval times[2] IN) FAILS(< 0);
int futimens(int fd, const struct timespec times[2] IN) FAILS(< 0);
int utimensat(int dir ENUM(at_fd), const char *path, const struct timespec times[2] IN,
	      int flags FLAGS(at)) FAILS(< 0);
int statfs(const char *path, struct statfs *status) FAILS(< 0);
int fstatfs(int fd, struct statfs *status) FAILS(< 0);
int statfs64(const char *path, struct statfs64 *status) FAILS(< 0);
int fstatfs64(int fd, struct statfs64 *status) FAILS(< 0);
int statvfs(const char *path, struct statvfs *status) FAILS(< 0);
int fstatvfs(int fd, struct statvfs *status) FAILS(< 0);
int statvfs64(const char *path, struct statvfs64 *status) FAILS(< 0);
ssize_t getxattr(const char *path, const char *name,
		 void *value OUT(success) BYTES(min(result, size)), size_t size) FAILS(< 0);
ssize_t lgetxattr(const char *path, const char *name,
		  void *value OUT(success) BYTES(min(result, size)), size_t size) FAILS(< 0);
ssize_t fgetxattr(int fd, const char *name, void *value OUT(success) BYTES(min(result, size)),
		  size_t size) FAILS(< 0);
int setxattr(const char *path, const char *name, const void *value BYTES(size), size_t size,
	     int flags HEX) FAILS(< 0);
ssize_t listxattr(const char *path, char *names OUT(success) BYTES(min(result, size)), size_t size)
	FAILS(< 0);
ssize_t llistxattr(const char *path, char *names OUT(success) BYTES(min(result, size)), size_t size)
	FAILS(< 0);

// Names of files.
int rename(const char *from, const char *to) FAILS(< 0);
int renameat(int from_dir ENUM(at_fd), const char *from, int to_dir ENUM(at_fd), const char *to)
	FAILS(< 0);
int renameat2(int from_dir ENUM(at_fd), const char *from, int to_dir ENUM(at_fd), const char *to,
	      unsigned int flags FLAGS(rename)) FAILS(< 0);
int remove(const char *path) FAILS(< 0);
int unlink(const char *path) FAILS(< 0);
int unlinkat(int dir ENUM(at_fd), const char *path, int flags FLAGS(at_unlink)) FAILS(< 0);
int link(const char *from, const char *to) FAILS(< 0);
int linkat(int from_dir ENUM(at_fd), const char *from, int to_dir ENUM(at_fd), const char *to,
	   int flags FLAGS(at)) FAILS(< 0);
int symlink(const char *target, const char *path) FAILS(< 0);
int symlinkat(const char *target, int dir ENUM(at_fd), const char *path) FAILS(< 0);
ssize_t readlink(const char *path, char *target OUT(success) BYTES(result), size_t size) FAILS(< 0);
ssize_t readlinkat(int dir ENUM(at_fd), const char *path, char *target OUT(success) BYTES(result),
		   size_t size) FAILS(< 0);
char *realpath(const char *path, char *resolved) FAILS(== NULL);
char *canonicalize_file_name(const char *path) FAILS(== NULL);
int mkstemp(char *template STRING) FAILS(< 0) ALSO(mkstemp64);
int mkostemp(char *template STRING, int flags FLAGS(new_fd)) FAILS(< 0) ALSO(mkostemp64);
int mkstemps(char *template STRING, int suffix_size) FAILS(< 0) ALSO(mkstemps64);
char *mkdtemp(char *template STRING) FAILS(== NULL);
char *mktemp(char *template STRING);
char *tmpnam(char *name);
char *tempnam(const char *dir, const char *prefix) FAILS(== NULL);
int mknod(const char *path, mode_t mode, dev_t device) FAILS(< 0);
int mkfifo(const char *path, mode_t mode) FAILS(< 0);
int fnmatch(const char *pattern FOLLOW, const char *name FOLLOW, int flags HEX);
int glob(const char *pattern, int flags HEX, int (*on_error)(const char *, int),
	 glob_t *found);
void globfree(glob_t *found);

// Directories. The end of a directory is no failure: readdir has no rule.
int mkdir(const char *path, mode_t mode) FAILS(< 0);
int mkdirat(int dir ENUM(at_fd), const char *path, mode_t mode) FAILS(< 0);
int rmdir(const char *path) FAILS(< 0);
int chdir(const char *path) FAILS(< 0);
int fchdir(int fd) FAILS(< 0);
int chroot(const char *path) FAILS(< 0);
char *getcwd(char *buffer, size_t size) FAILS(== NULL);
char *get_current_dir_name(void) FAILS(== NULL);
DIR *opendir(const char *path) FAILS(== NULL);
DIR *fdopendir(int fd) FAILS(== NULL);
struct dirent *readdir(DIR *dir) FOLLOW;
struct dirent64 *readdir64(DIR *dir) FOLLOW;
void rewinddir(DIR *dir);
long telldir(DIR *dir) FAILS(== -1);
void seekdir(DIR *dir, long position);
int closedir(DIR *dir) FAILS(< 0);
int dirfd(DIR *dir) FAILS(< 0);
int scandir(const char *path, struct dirent ***found, int (*choose)(const struct dirent *),
	    int (*compare)(const struct dirent **, const struct dirent **)) FAILS(< 0);
int alphasort(const struct dirent **a, const struct dirent **b);
int ftw(const char *path, int (*visit)(const char *, const struct stat *, int), int depth);
int nftw(const char *path, int (*visit)(const char *, const struct stat *, int, struct FTW *),
	 int depth, int flags HEX);
FTS *fts_open(char *const *paths, int options HEX, int (*compare)(const FTSENT **, const FTSENT **))
	FAILS(== NULL);
FTSENT *fts_read(FTS *walk);
int fts_set(FTS *walk, FTSENT *entry, int option) FAILS(< 0);
int fts_close(FTS *walk) FAILS(< 0);

// Mounted file systems.
int mount(const char *source, const char *target, const char *type, unsigned long flags HEX,
	  const void *data) FAILS(< 0);
int umount2(const char *target, int flags HEX) FAILS(< 0);
FILE *setmntent(const char *path, const char *mode FOLLOW) FAILS(== NULL);
struct mntent *getmntent(FILE *stream);
int endmntent(FILE *stream);

// Being told.
int inotify_init(void) FAILS(< 0);
int inotify_init1(int flags FLAGS(inotify_init)) FAILS(< 0);
int inotify_add_watch(int fd, const char *path, uint32_t mask FLAGS(inotify)) FAILS(< 0);
int inotify_rm_watch(int fd, int watch) FAILS(< 0);
