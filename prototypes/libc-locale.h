// SPDX-License-Identifier: Apache-2.0
// libc: locales, messages, character sets, regular expressions.

// Locales and messages.
char *setlocale(int category ENUM(locale), const char *locale) FOLLOW FAILS(== NULL) ERRNO(none);
struct lconv *localeconv(void);
locale_t newlocale(int categories FLAGS(locale_mask), const char *locale, locale_t base)
	FAILS(== NULL) ALSO(__newlocale);
locale_t uselocale(locale_t locale) ALSO(__uselocale);
locale_t duplocale(locale_t locale) FAILS(== NULL) ALSO(__duplocale);
void freelocale(locale_t locale) ALSO(__freelocale);
char *nl_langinfo(nl_item item ENUM(langinfo)); // or a number, of glibc's own items
char *nl_langinfo_l(nl_item item ENUM(langinfo), locale_t locale) ALSO(__nl_langinfo_l);
char *gettext(const char *message);
char *dgettext(const char *domain, const char *message);
char *dcgettext(const char *domain, const char *message, int category ENUM(locale));
char *ngettext(const char *one, const char *many, unsigned long count);
char *dngettext(const char *domain, const char *one, const char *many, unsigned long count);
char *dcngettext(const char *domain, const char *one, const char *many, unsigned long count,
		 int category ENUM(locale));
char *textdomain(const char *domain) FAILS(== NULL);
char *bindtextdomain(const char *domain, const char *dir);
char *bind_textdomain_codeset(const char *domain, const char *codeset);
int strcoll_l(const char *a FOLLOW, const char *b FOLLOW, locale_t locale) ALSO(__strcoll_l);
size_t strxfrm_l(char *to, const char *from FOLLOW, size_t size, locale_t locale)
	ALSO(__strxfrm_l);
int strcasecmp_l(const char *a FOLLOW, const char *b FOLLOW, locale_t locale) ALSO(__strcasecmp_l);
char *strerror_l(int error ENUM(errno), locale_t locale);
int toupper_l(int c CHAR, locale_t locale) CHAR ALSO(__toupper_l);
int tolower_l(int c CHAR, locale_t locale) CHAR ALSO(__tolower_l);

// Character sets.
iconv_t iconv_open(const char *to FOLLOW, const char *from FOLLOW) FAILS(== -1);
size_t iconv(iconv_t conversion, char **from, size_t *from_left, char **to, size_t *to_left)
	FAILS(== -1);
int iconv_close(iconv_t conversion) FAILS(< 0);

// Multibyte characters.
int mblen(const char *s, size_t size);
size_t mbrlen(const char *s, size_t size, mbstate_t *state) FAILS(== -1) ALSO(__mbrlen);
int mbtowc(wchar_t *to, const char *s, size_t size);
int wctomb(char *to, wchar_t c);
size_t mbrtowc(wchar_t *to, const char *s, size_t size, mbstate_t *state) FAILS(== -1);
size_t wcrtomb(char *to, wchar_t c, mbstate_t *state) FAILS(== -1);
size_t mbstowcs(wchar_t *to OUT(success) LIMIT(size), const char *from, size_t size) FAILS(== -1);
size_t wcstombs(char *to OUT(success) LIMIT(size), const wchar_t *from, size_t size) FAILS(== -1);
size_t mbsrtowcs(wchar_t *to, const char **from, size_t size, mbstate_t *state) FAILS(== -1);
size_t wcsrtombs(char *to, const wchar_t **from, size_t size, mbstate_t *state) FAILS(== -1);
size_t mbsnrtowcs(wchar_t *to, const char **from, size_t from_size, size_t size, mbstate_t *state)
	FAILS(== -1);
size_t wcsnrtombs(char *to, const wchar_t **from, size_t from_size, size_t size, mbstate_t *state)
	FAILS(== -1);
int mbsinit(const mbstate_t *state);
wint_t btowc(int c CHAR);
int wctob(wint_t c) CHAR;

// Regular expressions.
int regcomp(regex_t *compiled, const char *pattern FOLLOW, int flags FLAGS(regcomp))
	ENUM(regerror) FAILS(!= 0) ERRNO(none);
int regexec(const regex_t *compiled, const char *s, size_t count, regmatch_t *matches,
	    int flags FLAGS(regexec)) ENUM(regerror);
size_t regerror(int error ENUM(regerror), const regex_t *compiled,
		char *to OUT(size > 0) LIMIT(size), size_t size);
void regfree(regex_t *compiled);
int re_search(struct re_pattern_buffer *compiled, const char *s BYTES(size), int size, int start,
	      int range, struct re_registers *registers);
int re_match(struct re_pattern_buffer *compiled, const char *s BYTES(size), int size, int start,
	     struct re_registers *registers);
const char *re_compile_pattern(const char *pattern BYTES(size), size_t size,
			       struct re_pattern_buffer *compiled);
unsigned long re_set_syntax(unsigned long syntax HEX) HEX;
int wordexp(const char *words FOLLOW, wordexp_t *expanded, int flags HEX);
void wordfree(wordexp_t *expanded);
