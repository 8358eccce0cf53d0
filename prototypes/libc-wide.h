// SPDX-License-Identifier: Apache-2.0
// libc: wide characters and strings.
//
// A function of streams reads no format where the stream is one of bytes already.

// Strings.
size_t wcslen(const wchar_t *s FOLLOW);
size_t wcsnlen(const wchar_t *s FOLLOW LIMIT(limit), size_t limit);
// What is the same need not be read to be compared.
int wcscmp(const wchar_t *a, const wchar_t *b);
int wcsncmp(const wchar_t *a LIMIT(limit), const wchar_t *b LIMIT(limit), size_t limit);
int wcscasecmp(const wchar_t *a, const wchar_t *b);
int wcscasecmp_l(const wchar_t *a, const wchar_t *b, locale_t locale);
int wcsncasecmp(const wchar_t *a LIMIT(limit), const wchar_t *b LIMIT(limit), size_t limit);
int wcsncasecmp_l(const wchar_t *a LIMIT(limit), const wchar_t *b LIMIT(limit), size_t limit,
		  locale_t locale);
int wcscoll(const wchar_t *a, const wchar_t *b);
int wcscoll_l(const wchar_t *a, const wchar_t *b, locale_t locale);
size_t wcsxfrm(wchar_t *to, const wchar_t *from FOLLOW, size_t size);
size_t wcsxfrm_l(wchar_t *to, const wchar_t *from FOLLOW, size_t size, locale_t locale);
wchar_t *wcscpy(wchar_t *to, const wchar_t *from FOLLOW) POINTER;
wchar_t *wcpcpy(wchar_t *to, const wchar_t *from FOLLOW) POINTER;
wchar_t *wcsncpy(wchar_t *to, const wchar_t *from FOLLOW LIMIT(size), size_t size) POINTER;
wchar_t *wcpncpy(wchar_t *to, const wchar_t *from FOLLOW LIMIT(size), size_t size) POINTER;
wchar_t *wcscat(wchar_t *to, const wchar_t *from FOLLOW) POINTER;
wchar_t *wcsncat(wchar_t *to, const wchar_t *from FOLLOW LIMIT(limit), size_t limit) POINTER;
wchar_t *wcschr(const wchar_t *s FOLLOW, wchar_t c) FOLLOW;
wchar_t *wcsrchr(const wchar_t *s FOLLOW, wchar_t c) FOLLOW;
wchar_t *wcschrnul(const wchar_t *s FOLLOW, wchar_t c) FOLLOW;
// One of two is not read where the other is empty.
wchar_t *wcsstr(const wchar_t *s, const wchar_t *wanted);
wchar_t *wcswcs(const wchar_t *s, const wchar_t *wanted);
wchar_t *wcspbrk(const wchar_t *s, const wchar_t *wanted);
size_t wcsspn(const wchar_t *s, const wchar_t *accept);
size_t wcscspn(const wchar_t *s, const wchar_t *reject);
wchar_t *wcsdup(const wchar_t *s FOLLOW) FOLLOW FAILS(== NULL);
wchar_t *wcstok(wchar_t *s STRING, const wchar_t *delimiters, wchar_t **save);
int wcswidth(const wchar_t *s LIMIT(count), size_t count);

// Numbers.
long wcstol(const wchar_t *s, wchar_t **end, int base) ALSO(__isoc23_wcstol);
long wcstol_l(const wchar_t *s, wchar_t **end, int base, locale_t locale);
unsigned long wcstoul(const wchar_t *s, wchar_t **end, int base) ALSO(__isoc23_wcstoul);
unsigned long wcstoul_l(const wchar_t *s, wchar_t **end, int base, locale_t locale);
long long wcstoll(const wchar_t *s, wchar_t **end, int base) ALSO(__isoc23_wcstoll);
long long wcstoll_l(const wchar_t *s, wchar_t **end, int base, locale_t locale);
long long wcstoq(const wchar_t *s, wchar_t **end, int base);
unsigned long long wcstoull(const wchar_t *s, wchar_t **end, int base) ALSO(__isoc23_wcstoull);
unsigned long long wcstoull_l(const wchar_t *s, wchar_t **end, int base, locale_t locale);
unsigned long long wcstouq(const wchar_t *s, wchar_t **end, int base);
double wcstod(const wchar_t *s FOLLOW, wchar_t **end);
double wcstod_l(const wchar_t *s FOLLOW, wchar_t **end, locale_t locale);
float wcstof(const wchar_t *s FOLLOW, wchar_t **end);
float wcstof_l(const wchar_t *s FOLLOW, wchar_t **end, locale_t locale);
long double wcstold(const wchar_t *s FOLLOW, wchar_t **end);
long double wcstold_l(const wchar_t *s FOLLOW, wchar_t **end, locale_t locale);

// Memory.
wchar_t *wmemcpy(wchar_t *to, const wchar_t *from IN ELEMENTS(count), size_t count) POINTER;
wchar_t *wmempcpy(wchar_t *to, const wchar_t *from IN ELEMENTS(count), size_t count) POINTER;
wchar_t *wmemmove(wchar_t *to, const wchar_t *from IN ELEMENTS(count), size_t count) POINTER;
wchar_t *wmemset(wchar_t *to, wchar_t c, size_t count) POINTER;
wchar_t *wmemchr(const wchar_t *s IN ELEMENTS(count), wchar_t c, size_t count) POINTER;
int wmemcmp(const wchar_t *a IN ELEMENTS(count), const wchar_t *b IN ELEMENTS(count), size_t count);

// Characters.
int wcwidth(wchar_t c);
int iswalnum(wint_t c);
int iswalpha(wint_t c);
int iswcntrl(wint_t c);
int iswdigit(wint_t c);
int iswlower(wint_t c);
int iswprint(wint_t c);
int iswpunct(wint_t c);
int iswspace(wint_t c);
int iswupper(wint_t c);
int iswxdigit(wint_t c);
wint_t towlower(wint_t c);
wint_t towupper(wint_t c);
wctype_t wctype(const char *name FOLLOW);
int iswctype(wint_t c, wctype_t type);

// Streams. The end of a file is no failure.
wint_t fgetwc(FILE *stream) ALSO(getwc);
wint_t fputwc(wchar_t c, FILE *stream) ALSO(putwc);
wint_t fputwc_unlocked(wchar_t c, FILE *stream);
wint_t putwc_unlocked(wchar_t c, FILE *stream);
wint_t putwchar(wchar_t c);
wint_t putwchar_unlocked(wchar_t c);
wchar_t *fgetws(wchar_t *s OUT(result != NULL) LIMIT(size), int size, FILE *stream) POINTER;
wchar_t *fgetws_unlocked(wchar_t *s OUT(result != NULL) LIMIT(size), int size, FILE *stream)
	POINTER;
int fputws(const wchar_t *s, FILE *stream) FAILS(< 0) ERRNO(changed);
int fputws_unlocked(const wchar_t *s, FILE *stream) FAILS(< 0) ERRNO(changed);
int fwide(FILE *stream, int mode);

// Formats.
int wprintf(const wchar_t *format FORMAT(printf), ...) FAILS(< 0) ERRNO(changed);
int fwprintf(FILE *stream, const wchar_t *format FORMAT(printf), ...) FAILS(< 0) ERRNO(changed);
int swprintf(wchar_t *to OUT(success, size > 0) LIMIT(size), size_t size,
	     const wchar_t *format FORMAT(printf), ...) FAILS(< 0) ERRNO(changed);
int vwprintf(const wchar_t *format FORMAT(printf), va_list arguments) FAILS(< 0) ERRNO(changed);
int vfwprintf(FILE *stream, const wchar_t *format FORMAT(printf), va_list arguments)
	FAILS(< 0) ERRNO(changed);
int vswprintf(wchar_t *to OUT(success, size > 0) LIMIT(size), size_t size,
	      const wchar_t *format FORMAT(printf), va_list arguments) FAILS(< 0) ERRNO(changed);
int wscanf(const wchar_t *format FORMAT(scanf), ...) ALSO(__isoc99_wscanf, __isoc23_wscanf);
int fwscanf(FILE *stream, const wchar_t *format FORMAT(scanf), ...)
	ALSO(__isoc99_fwscanf, __isoc23_fwscanf);
int swscanf(const wchar_t *s, const wchar_t *format FORMAT(scanf), ...)
	ALSO(__isoc99_swscanf, __isoc23_swscanf);
int vwscanf(const wchar_t *format FORMAT(scanf), va_list arguments)
	ALSO(__isoc99_vwscanf, __isoc23_vwscanf);
int vfwscanf(FILE *stream, const wchar_t *format FORMAT(scanf), va_list arguments)
	ALSO(__isoc99_vfwscanf, __isoc23_vfwscanf);
int vswscanf(const wchar_t *s, const wchar_t *format FORMAT(scanf), va_list arguments)
	ALSO(__isoc99_vswscanf, __isoc23_vswscanf);
