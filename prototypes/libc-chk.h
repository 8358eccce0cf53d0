// SPDX-License-Identifier: Apache-2.0
// libc: what _FORTIFY_SOURCE makes of calls: the size of the object comes along.

// Formats. `flag` is what _FORTIFY_SOURCE asks for, `object` the size of
// the buffer, -1 where the compiler does not know it.
int __printf_chk(int flag, const char *format FORMAT(printf) FOLLOW, ...) FAILS(< 0) ERRNO(changed);
int __fprintf_chk(FILE *stream, int flag, const char *format FORMAT(printf) FOLLOW, ...)
	FAILS(< 0) ERRNO(changed);
int __dprintf_chk(int fd, int flag, const char *format FORMAT(printf), ...) FAILS(< 0);
int __sprintf_chk(char *to OUT(success) FOLLOW, int flag, osize_t object,
		  const char *format FORMAT(printf) FOLLOW FOLLOW_NAMED, ...) FAILS(< 0);
int __snprintf_chk(char *to OUT(success, size > 0) LIMIT(size) FOLLOW, size_t size, int flag,
		   osize_t object, const char *format FORMAT(printf) FOLLOW FOLLOW_NAMED, ...) FAILS(< 0);
int __asprintf_chk(char **to OUT(success) STRING, int flag, const char *format FORMAT(printf) FOLLOW, ...)
	FAILS(< 0);
int __vprintf_chk(int flag, const char *format FORMAT(printf) FOLLOW, va_list arguments) FAILS(< 0)
	ERRNO(changed);
int __vfprintf_chk(FILE *stream, int flag, const char *format FORMAT(printf) FOLLOW,
	va_list arguments)
	FAILS(< 0) ERRNO(changed);
int __vdprintf_chk(int fd, int flag, const char *format FORMAT(printf), va_list arguments)
	FAILS(< 0);
int __vsprintf_chk(char *to OUT(success) FOLLOW, int flag, osize_t object,
	const char *format FORMAT(printf) FOLLOW FOLLOW_NAMED,
		   va_list arguments) FAILS(< 0);
int __vsnprintf_chk(char *to OUT(success, size > 0) LIMIT(size) FOLLOW, size_t size, int flag,
		    osize_t object, const char *format FORMAT(printf) FOLLOW FOLLOW_NAMED, va_list arguments)
	FAILS(< 0);
int __vasprintf_chk(char **to OUT(success) STRING, int flag, const char *format FORMAT(printf) FOLLOW,
	va_list arguments)
	FAILS(< 0);
void __syslog_chk(int priority ENUM(syslog), int flag, const char *format FORMAT(printf), ...);
void __vsyslog_chk(int priority ENUM(syslog), int flag, const char *format FORMAT(printf),
	va_list arguments);
int __wprintf_chk(int flag, const wchar_t *format FORMAT(printf), ...) FAILS(< 0) ERRNO(changed);
int __fwprintf_chk(FILE *stream, int flag, const wchar_t *format FORMAT(printf), ...)
	FAILS(< 0) ERRNO(changed);
int __swprintf_chk(wchar_t *to OUT(success, size > 0) LIMIT(size), size_t size, int flag,
		   osize_t object, const wchar_t *format FORMAT(printf), ...)
	FAILS(< 0) ERRNO(changed);

// Strings and memory.
void *__memcpy_chk(void *to, const void *from IN BYTES(size), size_t size,
		   osize_t object);
void *__mempcpy_chk(void *to, const void *from IN BYTES(size), size_t size,
		   osize_t object);
void *__memmove_chk(void *to, const void *from IN BYTES(size), size_t size,
		   osize_t object);
void *__memset_chk(void *to, int c CHAR, size_t size, osize_t object);
void __explicit_bzero_chk(void *to, size_t size, osize_t object);
char *__strcpy_chk(char *to, const char *from FOLLOW, osize_t object) POINTER;
char *__stpcpy_chk(char *to, const char *from FOLLOW, osize_t object) POINTER;
char *__strncpy_chk(char *to, const char *from FOLLOW_UNLESS_0(size), size_t size,
		    osize_t object) POINTER;
char *__stpncpy_chk(char *to, const char *from FOLLOW_UNLESS_0(size), size_t size,
		    osize_t object) POINTER;
char *__strcat_chk(char *to, const char *from FOLLOW, osize_t object) POINTER;
char *__strncat_chk(char *to, const char *from, size_t limit, osize_t object) POINTER;
wchar_t *__wcscpy_chk(wchar_t *to, const wchar_t *from, osize_t object) POINTER;
wchar_t *__wcsncpy_chk(wchar_t *to, const wchar_t *from LIMIT(size), size_t size,
			osize_t object) POINTER;
wchar_t *__wcscat_chk(wchar_t *to, const wchar_t *from, osize_t object) POINTER;
wchar_t *__wmemcpy_chk(wchar_t *to, const wchar_t *from IN ELEMENTS(count), size_t count,
			osize_t object) POINTER;
wchar_t *__wmemset_chk(wchar_t *to, wchar_t c, size_t count, osize_t object) POINTER;
size_t __mbstowcs_chk(wchar_t *to OUT(success) LIMIT(size), const char *from, size_t size,
		      osize_t object) FAILS(== -1);
size_t __wcstombs_chk(char *to OUT(success) LIMIT(size), const wchar_t *from, size_t size,
		      osize_t object) FAILS(== -1);
size_t __mbsrtowcs_chk(wchar_t *to, const char **from, size_t size, mbstate_t *state,
		       osize_t object) FAILS(== -1);
size_t __mbsnrtowcs_chk(wchar_t *to, const char **from, size_t from_size, size_t size,
			mbstate_t *state, osize_t object) FAILS(== -1);
size_t __wcrtomb_chk(char *to, wchar_t c, mbstate_t *state, osize_t object) FAILS(== -1);

// Reading.
char *__fgets_chk(char *s OUT(result != NULL) LIMIT(size), osize_t object, int size, FILE *stream)
	POINTER ALSO(__fgets_unlocked_chk);
size_t __fread_chk(void *buffer OUT(always) BYTES(result * size), osize_t object, size_t size,
		   size_t count, FILE *stream) ALSO(__fread_unlocked_chk);
ssize_t __read_chk(int fd, void *buffer OUT(success) BYTES(result), size_t size, osize_t object)
	FAILS(< 0);
ssize_t __pread_chk(int fd, void *buffer OUT(success) BYTES(result), size_t size, off_t offset,
		    osize_t object) FAILS(< 0) ALSO(__pread64_chk);
ssize_t __recv_chk(int fd, void *buffer OUT(success) BYTES(min(result, size)), size_t size,
		   osize_t object, int flags FLAGS(message)) FAILS(< 0);
ssize_t __recvfrom_chk(int fd, void *buffer OUT(success) BYTES(min(result, size)), size_t size,
		       osize_t object, int flags FLAGS(message), struct sockaddr *address,
		       socklen_t *address_size) FAILS(< 0);
ssize_t __readlink_chk(const char *path, char *target OUT(success) BYTES(result), size_t size,
		       osize_t object) FAILS(< 0);
ssize_t __readlinkat_chk(int dir ENUM(at_fd), const char *path,
			 char *target OUT(success) BYTES(result), size_t size, osize_t object)
	FAILS(< 0);
char *__realpath_chk(const char *path, char *resolved, osize_t object) FAILS(== NULL);
char *__getcwd_chk(char *buffer, size_t size, osize_t object) FAILS(== NULL);

// The rest.
int __gethostname_chk(char *name OUT(success, size > 0) LIMIT(size), size_t size, osize_t object)
	FAILS(< 0);
int __getgroups_chk(int size, gid_t *groups, osize_t object) FAILS(< 0);
int __getlogin_r_chk(char *name OUT(success) LIMIT(size), size_t size, osize_t object) FAILS(!= 0)
	ERRNO(result);
int __ttyname_r_chk(int fd, char *name OUT(success) LIMIT(size), size_t size, osize_t object)
	FAILS(!= 0) ERRNO(result);
int __ptsname_r_chk(int fd, char *name OUT(success) LIMIT(size), size_t size, osize_t object)
	FAILS(!= 0) ERRNO(result);
size_t __confstr_chk(int name, char *buffer OUT(result > 0, size > 0) LIMIT(size), size_t size,
		     osize_t object);
int __poll_chk(struct pollfd *fds IN ELEMENTS(count), nfds_t count, int limit, osize_t object) FAILS(< 0);
int __ppoll_chk(struct pollfd *fds IN ELEMENTS(count), nfds_t count, const struct timespec *limit IN,
		const sigset_t *mask IN, osize_t object) FAILS(< 0);
