// SPDX-License-Identifier: Apache-2.0
// libc: strings and memory, character classes, sorting and searching.

// Strings.
size_t strlen(const char *s FOLLOW);
size_t strnlen(const char *s FOLLOW_UNLESS_0(limit), size_t limit);
int strcmp(const char *a FOLLOW, const char *b FOLLOW);
int strncmp(const char *a FOLLOW_UNLESS_0(limit), const char *b FOLLOW_UNLESS_0(limit),
	    size_t limit);
int strcasecmp(const char *a FOLLOW, const char *b FOLLOW) ALSO(__strcasecmp);
int strncasecmp(const char *a FOLLOW_UNLESS_0(limit), const char *b FOLLOW_UNLESS_0(limit),
		size_t limit);
int strcoll(const char *a FOLLOW, const char *b FOLLOW);
int strverscmp(const char *a, const char *b); // reads nothing where they are the same
size_t strxfrm(char *to, const char *from FOLLOW, size_t size);
char *strcpy(char *to, const char *from FOLLOW) POINTER;
char *strncpy(char *to, const char *from FOLLOW_UNLESS_0(size), size_t size) POINTER;
char *stpcpy(char *to, const char *from FOLLOW) POINTER ALSO(__stpcpy);
char *stpncpy(char *to, const char *from FOLLOW_UNLESS_0(size),
	      size_t size) POINTER ALSO(__stpncpy);
size_t strlcpy(char *to, const char *from FOLLOW, size_t size);
char *strcat(char *to, const char *from FOLLOW) POINTER;
char *strncat(char *to, const char *from FOLLOW_UNLESS_0(limit), size_t limit) POINTER;
size_t strlcat(char *to, const char *from FOLLOW, size_t size);
char *strchr(const char *s FOLLOW, int c CHAR) FOLLOW;
char *index(const char *s FOLLOW, int c CHAR) FOLLOW;
char *strrchr(const char *s FOLLOW, int c CHAR) FOLLOW;
char *rindex(const char *s FOLLOW, int c CHAR) FOLLOW;
char *strchrnul(const char *s FOLLOW, int c CHAR) FOLLOW;
char *strstr(const char *s FOLLOW, const char *wanted FOLLOW) FOLLOW;
char *strcasestr(const char *s FOLLOW, const char *wanted FOLLOW) FOLLOW ALSO(__strcasestr);
char *strpbrk(const char *s FOLLOW, const char *wanted FOLLOW) FOLLOW;
size_t strspn(const char *s FOLLOW, const char *accept FOLLOW);
size_t strcspn(const char *s FOLLOW, const char *reject FOLLOW);
char *strtok(char *s STRING, const char *delimiters FOLLOW) FOLLOW;
char *strtok_r(char *s STRING, const char *delimiters FOLLOW, char **save) FOLLOW ALSO(__strtok_r);
char *strsep(char **s, const char *delimiters FOLLOW) FOLLOW;
char *strdup(const char *s FOLLOW) FOLLOW FAILS(== NULL) ALSO(__strdup);
char *strndup(const char *s FOLLOW_UNLESS_0(limit),
	      size_t limit) FOLLOW FAILS(== NULL) ALSO(__strndup);
char *strerror(int error ENUM(errno)) FOLLOW;
// The buffer, which may have no room at all; musl's result is a number.
char *strerror_r(int error ENUM(errno), char *buffer, size_t size);
int __xpg_strerror_r(int error ENUM(errno), char *buffer OUT(success) LIMIT(size), size_t size)
	FAILS(!= 0) ERRNO(result);
const char *strerrorname_np(int error ENUM(errno)) FOLLOW;
const char *strerrordesc_np(int error ENUM(errno)) FOLLOW;
char *strsignal(int signal ENUM(signal)) FOLLOW;
const char *sigabbrev_np(int signal ENUM(signal)) FOLLOW;
char *basename(const char *path) FOLLOW;
char *__xpg_basename(char *path STRING) FOLLOW;
char *dirname(char *path STRING) FOLLOW;

// Memory. What is the same is neither copied nor compared, so that nothing may be read.
void *memcpy(void *to, const void *from IN BYTES(size) FOLLOW_UNLESS_SAME, size_t size);
void *mempcpy(void *to, const void *from IN BYTES(size) FOLLOW_UNLESS_SAME, size_t size)
	ALSO(__mempcpy);
void *memmove(void *to, const void *from IN BYTES(size) FOLLOW_UNLESS_SAME, size_t size);
void *memccpy(void *to, const void *from, int c CHAR, size_t size); // reads up to the first c
void *memset(void *to, int c CHAR, size_t size);
void explicit_bzero(void *to, size_t size);
void bzero(void *to, size_t size);
void bcopy(const void *from IN BYTES(size) FOLLOW_UNLESS_SAME, void *to, size_t size);
int bcmp(const void *a IN BYTES(size) FOLLOW_UNLESS_SAME,
	 const void *b IN BYTES(size) FOLLOW_UNLESS_SAME, size_t size);
int memcmp(const void *a IN BYTES(size) FOLLOW_UNLESS_SAME,
	   const void *b IN BYTES(size) FOLLOW_UNLESS_SAME, size_t size);
void *memchr(const void *s, int c CHAR, size_t size);
void *memrchr(const void *s IN BYTES(size), int c CHAR, size_t size);
void *rawmemchr(const void *s, int c CHAR) ALSO(__rawmemchr);
void *memmem(const void *s IN BYTES(size), size_t size, const void *wanted IN BYTES(wanted_size),
	     size_t wanted_size);
void swab(const void *from, void *to, ssize_t size);

// Characters.
int isalnum(int c CHAR);
int isalpha(int c CHAR);
int isblank(int c CHAR);
int iscntrl(int c CHAR);
int isdigit(int c CHAR);
int isgraph(int c CHAR);
int islower(int c CHAR);
int isprint(int c CHAR);
int ispunct(int c CHAR);
int isspace(int c CHAR);
int isupper(int c CHAR);
int isxdigit(int c CHAR);
int tolower(int c CHAR) CHAR;
int toupper(int c CHAR) CHAR;
const unsigned short **__ctype_b_loc(void);
const int32_t **__ctype_tolower_loc(void);
const int32_t **__ctype_toupper_loc(void);
size_t __ctype_get_mb_cur_max(void);

// Sorting and searching.
void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *));
void qsort_r(void *base, size_t count, size_t size,
	     int (*compare)(const void *, const void *, void *), void *data);
void *bsearch(const void *key, const void *base, size_t count, size_t size,
	      int (*compare)(const void *, const void *));
int hcreate(size_t count);
void hdestroy(void);
void *lfind(const void *key, const void *base, size_t *count, size_t size,
	    int (*compare)(const void *, const void *));
void *tsearch(const void *key, void **root, int (*compare)(const void *, const void *));
void *tfind(const void *key, void *const *root, int (*compare)(const void *, const void *));
void *tdelete(const void *key, void **root, int (*compare)(const void *, const void *));
