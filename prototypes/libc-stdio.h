// SPDX-License-Identifier: Apache-2.0
// libc: streams.
// The end of a file is no failure: fgets, fgetc, getline and fread have no rule.

// Opening and closing.
FILE *fopen(const char *path, const char *mode FOLLOW) FAILS(== NULL) ALSO(fopen64);
FILE *fdopen(int fd, const char *mode FOLLOW) FAILS(== NULL);
FILE *freopen(const char *path, const char *mode, FILE *stream)
	FAILS(== NULL) ALSO(freopen64);
FILE *fmemopen(void *buffer, size_t size, const char *mode) FAILS(== NULL);
FILE *open_memstream(char **buffer, size_t *size) FAILS(== NULL);
FILE *tmpfile(void) FAILS(== NULL) ALSO(tmpfile64);
FILE *popen(const char *command, const char *mode FOLLOW) FAILS(== NULL);
int pclose(FILE *stream) FAILS(< 0);
int fclose(FILE *stream) FAILS(< 0);
int fcloseall(void) FAILS(< 0);

// Reading and writing.
size_t fread(void *buffer OUT(always) BYTES(result * size), size_t size, size_t count, FILE *stream)
	ALSO(fread_unlocked);
size_t fwrite(const void *buffer BYTES(size * count) FOLLOW, size_t size, size_t count,
	      FILE *stream) ALSO(fwrite_unlocked);
char *fgets(char *s OUT(result != NULL) LIMIT(size), int size, FILE *stream) POINTER
	ALSO(fgets_unlocked);
int fputs(const char *s FOLLOW, FILE *stream) FAILS(< 0) ERRNO(changed) ALSO(fputs_unlocked);
int puts(const char *s FOLLOW) FAILS(< 0) ERRNO(changed);
int fgetc(FILE *stream) CHAR ALSO(getc, _IO_getc, fgetc_unlocked, getc_unlocked);
int getchar(void) CHAR ALSO(getchar_unlocked);
int ungetc(int c CHAR, FILE *stream) CHAR;
int fputc(int c CHAR, FILE *stream) CHAR FAILS(< 0)
	ALSO(putc, _IO_putc, fputc_unlocked, putc_unlocked);
int putchar(int c CHAR) CHAR FAILS(< 0) ALSO(putchar_unlocked);
ssize_t getline(char **line OUT(result >= 0) STRING, size_t *size IN OUT(result >= 0), FILE *stream);
ssize_t getdelim(char **line OUT(result >= 0) STRING, size_t *size IN OUT(result >= 0),
		 int delimiter CHAR, FILE *stream)
	ALSO(__getdelim);
int __uflow(FILE *stream) CHAR;
int __underflow(FILE *stream) CHAR;
int __overflow(FILE *stream, int c CHAR) CHAR FAILS(< 0);

// Position, buffers, state.
int fseek(FILE *stream, long offset, int whence ENUM(whence)) FAILS(< 0);
int fseeko(FILE *stream, off_t offset, int whence ENUM(whence)) FAILS(< 0) ALSO(fseeko64);
long ftell(FILE *stream) FAILS(< 0);
off_t ftello(FILE *stream) FAILS(< 0) ALSO(ftello64);
void rewind(FILE *stream);
int fflush(FILE *stream) FAILS(< 0) ALSO(fflush_unlocked);
int fpurge(FILE *stream) FAILS(< 0);
void __fpurge(FILE *stream);
size_t __fpending(FILE *stream);
int __freading(FILE *stream);
int __fwriting(FILE *stream);
int __fsetlocking(FILE *stream, int type);
int setvbuf(FILE *stream, char *buffer, int mode ENUM(buffering), size_t size) FAILS(!= 0)
	ERRNO(changed);
void setbuf(FILE *stream, char *buffer);
void setlinebuf(FILE *stream);
int feof(FILE *stream) ALSO(feof_unlocked);
int ferror(FILE *stream) ALSO(ferror_unlocked);
void clearerr(FILE *stream) ALSO(clearerr_unlocked);
int fileno(FILE *stream) FAILS(< 0) ALSO(fileno_unlocked);
void flockfile(FILE *stream);
void funlockfile(FILE *stream);
int ftrylockfile(FILE *stream);

// Formats.
int printf(const char *format FORMAT(printf) FOLLOW, ...) FAILS(< 0) ERRNO(changed);
int fprintf(FILE *stream, const char *format FORMAT(printf) FOLLOW, ...) FAILS(< 0) ERRNO(changed);
int dprintf(int fd, const char *format FORMAT(printf), ...) FAILS(< 0);
int sprintf(char *to OUT(success) FOLLOW, const char *format FORMAT(printf) FOLLOW FOLLOW_NAMED, ...) FAILS(< 0);
int snprintf(char *to OUT(success, size > 0) LIMIT(size) FOLLOW, size_t size,
	     const char *format FORMAT(printf) FOLLOW FOLLOW_NAMED, ...) FAILS(< 0);
int asprintf(char **to OUT(success) STRING, const char *format FORMAT(printf) FOLLOW, ...)
	FAILS(< 0) ALSO(__asprintf);
int vprintf(const char *format FORMAT(printf) FOLLOW, va_list arguments) FAILS(< 0) ERRNO(changed);
int vfprintf(FILE *stream, const char *format FORMAT(printf) FOLLOW, va_list arguments) FAILS(< 0)
	ERRNO(changed);
int vdprintf(int fd, const char *format FORMAT(printf), va_list arguments) FAILS(< 0);
int vsprintf(char *to OUT(success) FOLLOW, const char *format FORMAT(printf) FOLLOW FOLLOW_NAMED, va_list arguments)
	FAILS(< 0);
int vsnprintf(char *to OUT(success, size > 0) LIMIT(size) FOLLOW, size_t size,
	const char *format FORMAT(printf) FOLLOW FOLLOW_NAMED,
	      va_list arguments) FAILS(< 0) ALSO(__vsnprintf);
int vasprintf(char **to OUT(success) STRING, const char *format FORMAT(printf) FOLLOW, va_list arguments)
	FAILS(< 0);
int scanf(const char *format FORMAT(scanf), ...) ALSO(__isoc99_scanf, __isoc23_scanf);
int fscanf(FILE *stream, const char *format FORMAT(scanf), ...)
	ALSO(__isoc99_fscanf, __isoc23_fscanf);
int sscanf(const char *s FOLLOW, const char *format FORMAT(scanf) FOLLOW, ...)
	ALSO(__isoc99_sscanf, __isoc23_sscanf);
int vscanf(const char *format FORMAT(scanf), va_list arguments) ALSO(__isoc99_vscanf,
	__isoc23_vscanf);
int vfscanf(FILE *stream, const char *format FORMAT(scanf), va_list arguments)
	ALSO(__isoc99_vfscanf, __isoc23_vfscanf);
int vsscanf(const char *s FOLLOW, const char *format FORMAT(scanf) FOLLOW, va_list arguments)
	ALSO(__isoc99_vsscanf, __isoc23_vsscanf);
void perror(const char *prefix);
void syslog(int priority ENUM(syslog), const char *format FORMAT(printf), ...);
void vsyslog(int priority ENUM(syslog), const char *format FORMAT(printf), va_list arguments);
void openlog(const char *name, int options HEX, int facility HEX);
void closelog(void);
int setlogmask(int mask HEX) HEX;
