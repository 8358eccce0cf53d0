// SPDX-License-Identifier: Apache-2.0
// libc: memory, conversions, environment, random numbers, start and end.

// Memory. realloc has no rule of failure: of size 0 it frees, and returns NULL.
void *malloc(size_t size) FAILS(== NULL) ALSO(__libc_malloc);
void *calloc(size_t count, size_t size) FAILS(== NULL) ALSO(__libc_calloc);
void *realloc(void *p, size_t size) ALSO(__libc_realloc);
void *reallocarray(void *p, size_t count, size_t size);
void free(void *p) ALSO(__libc_free);
void *memalign(size_t alignment, size_t size) FAILS(== NULL) ALSO(__libc_memalign);
void *aligned_alloc(size_t alignment, size_t size) FAILS(== NULL);
int posix_memalign(void **p OUT(success), size_t alignment, size_t size) FAILS(!= 0) ERRNO(result);
void *valloc(size_t size) FAILS(== NULL);
void *pvalloc(size_t size) FAILS(== NULL);
size_t malloc_usable_size(void *p);
int malloc_trim(size_t keep);
int mallopt(int option ENUM(mallopt), int value);
void *mmap(void *addr, size_t size, int protection FLAGS(mmap_protection),
	   int flags FLAGS(mmap), int fd, off_t offset) FAILS(== -1) ALSO(mmap64);
int munmap(void *addr, size_t size) FAILS(< 0);
int mprotect(void *addr, size_t size, int protection FLAGS(mmap_protection)) FAILS(< 0);
void *mremap(void *addr, size_t size, size_t new_size, int flags FLAGS(mremap), ...
	     OPTIONAL(void *new_addr, flags & MREMAP_FIXED)) FAILS(== -1);
int madvise(void *addr, size_t size, int advice ENUM(madvise)) FAILS(< 0);
int posix_madvise(void *addr, size_t size, int advice ENUM(posix_madvise)) FAILS(!= 0)
	ERRNO(result);
int msync(void *addr, size_t size, int flags FLAGS(msync)) FAILS(< 0);
int mlock(const void *addr, size_t size) FAILS(< 0);
int munlock(const void *addr, size_t size) FAILS(< 0);
int mlockall(int flags FLAGS(mlockall)) FAILS(< 0);
int munlockall(void) FAILS(< 0);
int mincore(void *addr, size_t size, unsigned char *residency) FAILS(< 0);
void *sbrk(intptr_t increment) FAILS(== -1);
int brk(void *addr) FAILS(< 0);
int shm_open(const char *name, int flags FLAGS(open), mode_t mode) FAILS(< 0);
int shm_unlink(const char *name) FAILS(< 0);
int memfd_create(const char *name, unsigned int flags FLAGS(memfd)) FAILS(< 0);

// Numbers.
int atoi(const char *s FOLLOW);
long atol(const char *s FOLLOW);
long long atoll(const char *s FOLLOW);
double atof(const char *s FOLLOW);
long strtol(const char *s FOLLOW, char **end, int base) ALSO(__isoc23_strtol);
unsigned long strtoul(const char *s FOLLOW, char **end, int base) ALSO(__isoc23_strtoul);
long long strtoll(const char *s FOLLOW, char **end, int base) ALSO(__isoc23_strtoll, strtoq);
unsigned long long strtoull(const char *s FOLLOW, char **end, int base)
	ALSO(__isoc23_strtoull, strtouq);
intmax_t strtoimax(const char *s FOLLOW, char **end, int base) ALSO(__isoc23_strtoimax);
uintmax_t strtoumax(const char *s FOLLOW, char **end, int base) ALSO(__isoc23_strtoumax);
long __strtol_internal(const char *s FOLLOW, char **end, int base, int group);
unsigned long __strtoul_internal(const char *s FOLLOW, char **end, int base, int group);
long __strtol_l(const char *s FOLLOW, char **end, int base, locale_t locale) ALSO(strtol_l);
double strtod(const char *s FOLLOW, char **end);
float strtof(const char *s FOLLOW, char **end);
long double strtold(const char *s FOLLOW, char **end);
double strtod_l(const char *s FOLLOW, char **end, locale_t locale) ALSO(__strtod_l);
double __strtod_internal(const char *s FOLLOW, char **end, int group);
int abs(int n);
long labs(long n);
long a64l(const char *s FOLLOW);

// Environment.
char *getenv(const char *name FOLLOW) FOLLOW;
char *secure_getenv(const char *name FOLLOW) FOLLOW ALSO(__secure_getenv);
int setenv(const char *name, const char *value, int overwrite) FAILS(< 0);
int unsetenv(const char *name) FAILS(< 0);
int putenv(char *assignment STRING) FAILS(!= 0);
int clearenv(void) FAILS(!= 0);
int getopt(int argc, char *const *argv, const char *options) CHAR ALSO(__posix_getopt);
int getopt_long(int argc, char *const *argv, const char *options,
		const struct option *long_options, int *index) CHAR;
int getopt_long_only(int argc, char *const *argv, const char *options,
		     const struct option *long_options, int *index) CHAR;
int getsubopt(char **options, char *const *tokens, char **value);
size_t confstr(int name, char *buffer OUT(result > 0, size > 0) LIMIT(size), size_t size);
long sysconf(int name ENUM(sysconf)) ALSO(__sysconf);
long pathconf(const char *path, int name);
long fpathconf(int fd, int name);
int getpagesize(void);
unsigned long getauxval(unsigned long type ENUM(auxv)) HEX;
int uname(struct utsname *name OUT(success)) FAILS(< 0);
int gethostname(char *name OUT(success, size > 0) LIMIT(size), size_t size) FAILS(< 0);
int getdomainname(char *name OUT(success, size > 0) LIMIT(size), size_t size) FAILS(< 0);
int sethostname(const char *name BYTES(size), size_t size) FAILS(< 0);
int getloadavg(double *averages, int count);
int get_nprocs(void);
int get_nprocs_conf(void);
int sysinfo(struct sysinfo *info) FAILS(< 0);
const char *gnu_get_libc_version(void);

// Random numbers.
int rand(void);
int rand_r(unsigned int *seed);
void srand(unsigned int seed);
long random(void);
void srandom(unsigned int seed);
char *initstate(unsigned int seed, char *state, size_t size) POINTER;
double drand48(void);
long lrand48(void);
long mrand48(void);
void srand48(long seed);
ssize_t getrandom(void *buffer OUT(success) BYTES(result), size_t size,
		  unsigned int flags FLAGS(getrandom)) FAILS(< 0);
int getentropy(void *buffer, size_t size) FAILS(< 0);
uint32_t arc4random(void);
void arc4random_buf(void *buffer, size_t size);
uint32_t arc4random_uniform(uint32_t bound);

// Start and end.
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
		      void (*init)(void), void (*fini)(void), void (*loader_fini)(void),
		      void *stack_end);
void exit(int status);
void _exit(int status) ALSO(_Exit);
void quick_exit(int status);
void abort(void);
int atexit(void (*function)(void)) FAILS(!= 0) ERRNO(none);
int at_quick_exit(void (*function)(void)) FAILS(!= 0) ERRNO(none);
int on_exit(void (*function)(int, void *), void *data) FAILS(!= 0) ERRNO(none);
int __cxa_atexit(void (*function)(void *), void *data, void *object) FAILS(!= 0) ERRNO(none);
int __cxa_at_quick_exit(void (*function)(void *), void *object) FAILS(!= 0) ERRNO(none);
void __cxa_finalize(void *object);
int *__errno_location(void);
void __assert_fail(const char *condition, const char *file, unsigned int line,
		   const char *function);
void __assert_perror_fail(int error ENUM(errno), const char *file, unsigned int line,
			  const char *function);
void __stack_chk_fail(void);
void __chk_fail(void);
void error(int status, int error ENUM(errno), const char *format FORMAT(printf), ...);
void err(int status, const char *format FORMAT(printf), ...);
void errx(int status, const char *format FORMAT(printf), ...);
void warn(const char *format FORMAT(printf), ...);
void warnx(const char *format FORMAT(printf), ...);
int backtrace(void **frames, int size);
char **backtrace_symbols(void *const *frames, int count);
void backtrace_symbols_fd(void *const *frames, int count, int fd);
