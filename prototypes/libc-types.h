// SPDX-License-Identifier: Apache-2.0
// libc: functions of which the types are known, and little else.
// Types are those of the headers (scripts/declare.py writes them); the words behind them are ours.

typedef int __pid_t;
typedef struct __res_state *res_state;
typedef long __ssize_t;
typedef int error_t;
typedef unsigned short int __uint16_t;
typedef __uint16_t __uint_least16_t;
typedef __uint_least16_t char16_t;
typedef unsigned int __uint32_t;
typedef __uint32_t __uint_least32_t;
typedef __uint_least32_t char32_t;
typedef unsigned char char8_t;
typedef void *nl_catd;
typedef int __clockid_t;
typedef uint64_t eventfd_t;
typedef int (*__ftw64_func_t)(const char *__filename, const struct stat64 *__status, int __flag);
typedef unsigned int __socklen_t;
typedef unsigned int __uid_t;
typedef unsigned long __dev_t;
typedef unsigned int __gid_t;
typedef unsigned short int sa_family_t;
typedef unsigned int __mode_t;
typedef int (*__compar_fn_t)(const void *, const void *);
typedef int mqd_t;
typedef int (*__nftw64_func_t)(const char *__filename, const struct stat64 *__status, int
	__flag, struct FTW *__info);
typedef va_list __gnuc_va_list;
typedef long __off_t;
typedef long __off64_t;
typedef char *__caddr_t;
typedef int regoff_t;
typedef unsigned int __re_size_t;
typedef void (*__sighandler_t)(int);
typedef void (*__free_fn_t)(void *__nodep);
typedef const __int32_t *wctrans_t;
typedef void (*__action_fn_t)(const void *__nodep, VISIT __value, int __level);

__pid_t _Fork(void);
size_t __argz_count(const char *argz, size_t len);
char *__argz_next(const char *argz, size_t argz_len, const char *entry);
void __argz_stringify(char *argz, size_t len, int sep);
void __assert(const char *assertion, const char *file, int line);
struct cmsghdr *__cmsg_nxthdr(struct msghdr *mhdr, struct cmsghdr *cmsg);
char *__dcgettext(const char *domainname, const char *msgid, int category);
char *__dgettext(const char *domainname, const char *msgid);
size_t __fbufsize(FILE *fp);
int __finitel(long double value);
int __flbf(FILE *fp);
int __freadable(FILE *fp);
int __fwritable(FILE *fp);
int __getpagesize(void);
int __memcmpeq(const void *s1, const void *s2, size_t n);
void __monstartup(unsigned long lowpc, unsigned long highpc);
void __pthread_register_cancel(__pthread_unwind_buf_t *buf);
void __pthread_register_cancel_defer(__pthread_unwind_buf_t *buf);
void __pthread_unregister_cancel(__pthread_unwind_buf_t *buf);
void __pthread_unregister_cancel_restore(__pthread_unwind_buf_t *buf);
void __pthread_unwind_next(__pthread_unwind_buf_t *buf);
void __res_nclose(res_state arg1);
int __res_ninit(res_state arg1);
unsigned int __res_randomid(void);
struct __res_state *__res_state(void);
cpu_set_t *__sched_cpualloc(size_t count);
void __sched_cpufree(cpu_set_t *set);
int __signbitl(long double value);
void _dl_mcount_wrapper_check(void *selfpc);
void _flushlbf(void);
void _mcleanup(void);
int _obstack_begin(struct obstack *arg1, int arg2, int arg3, void * (*arg4)(long), void
	(*arg5)(void *));
int _obstack_begin_1(struct obstack *arg1, int arg2, int arg3, void * (*arg4)(void *, long),
	void (*arg5)(void *, void *), void *arg6);
int _obstack_memory_used(struct obstack *arg1);
void _obstack_newchunk(struct obstack *arg1, int arg2);
int _tolower(int arg1);
int _toupper(int arg1);
int acct(const char *name);
int addmntent(FILE *stream, const struct mntent *mnt);
int addseverity(int severity, const char *string);
int adjtime(const struct timeval *delta, struct timeval *olddelta);
int adjtimex(struct timex *ntx);
int aio_cancel(int fildes, struct aiocb *aiocbp);
int aio_cancel64(int fildes, struct aiocb64 *aiocbp);
int aio_error(const struct aiocb *aiocbp);
int aio_error64(const struct aiocb64 *aiocbp);
int aio_fsync(int operation, struct aiocb *aiocbp);
int aio_fsync64(int operation, struct aiocb64 *aiocbp);
void aio_init(const struct aioinit *init);
int aio_read(struct aiocb *aiocbp);
int aio_read64(struct aiocb64 *aiocbp);
__ssize_t aio_return(struct aiocb *aiocbp);
__ssize_t aio_return64(struct aiocb64 *aiocbp);
int aio_suspend(const struct aiocb *const *list, int nent, const struct timespec *timeout);
int aio_suspend64(const struct aiocb64 *const *list, int nent, const struct timespec *timeout);
int aio_write(struct aiocb *aiocbp);
int aio_write64(struct aiocb64 *aiocbp);
int alphasort64(const struct dirent64 **e1, const struct dirent64 **e2);
void argp_error(const struct argp_state *state, const char *fmt, ...);
void argp_failure(const struct argp_state *state, int status, int errnum, const char *fmt, ...);
void argp_help(const struct argp *argp, FILE *stream, unsigned flags, char *name);
error_t argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, int
	*arg_index, void *input);
void argp_state_help(const struct argp_state *state, FILE *stream, unsigned int flags);
void argp_usage(const struct argp_state *state);
error_t argz_add(char **argz, size_t *argz_len, const char *str);
error_t argz_add_sep(char **argz, size_t *argz_len, const char *string, int delim);
error_t argz_append(char **argz, size_t *argz_len, const char *buf, size_t buf_len);
size_t argz_count(const char *argz, size_t len);
error_t argz_create(char *const *argv, char **argz, size_t *len);
error_t argz_create_sep(const char *string, int sep, char **argz, size_t *len);
void argz_delete(char **argz, size_t *argz_len, char *entry);
void argz_extract(const char *argz, size_t len, char **argv);
error_t argz_insert(char **argz, size_t *argz_len, char *before, const char *entry);
char *argz_next(const char *argz, size_t argz_len, const char *entry);
error_t argz_replace(char **argz, size_t *argz_len, const char *str, const char *with,
	unsigned int *replace_count);
void argz_stringify(char *argz, size_t len, int sep);
int bindresvport(int sockfd, struct sockaddr_in *sock_in);
size_t c16rtomb(char *s, char16_t c16, mbstate_t *ps);
size_t c32rtomb(char *s, char32_t c32, mbstate_t *ps);
size_t c8rtomb(char *s, char8_t c8, mbstate_t *ps);
int catclose(nl_catd catalog);
char *catgets(nl_catd catalog, int set, int number, const char *string);
nl_catd catopen(const char *cat_name, int flag);
int cfsetspeed(struct termios *termios_p, speed_t speed);
int clock_adjtime(__clockid_t clock_id, struct timex *utx);
int clock_getcpuclockid(pid_t pid, clockid_t *clock_id);
long double copysignl(long double x, long double y);
char *cuserid(char *s);
int dn_comp(const char *arg1, unsigned char *arg2, int arg3, unsigned char **arg4, unsigned
	char **arg5);
int dn_expand(const unsigned char *arg1, const unsigned char *arg2, const unsigned char
	*arg3, char *arg4, int arg5);
int dn_skipname(const unsigned char *arg1, const unsigned char *arg2);
int drand48_r(struct drand48_data *buffer, double *result);
int dysize(int year);
char *ecvt(double value, int ndigit, int *decpt OUT(always), int *sign OUT(always));
int ecvt_r(double value, int ndigit, int *decpt OUT(always), int *sign OUT(always), char *buf, size_t len);
void endfsent(void);
void endhostent(void);
void endnetent(void);
void endnetgrent(void);
void endprotoent(void);
void endrpcent(void);
void endservent(void);
void endsgent(void);
void endspent(void);
void endusershell(void);
void endutent(void);
void endutxent(void);
error_t envz_add(char **envz, size_t *envz_len, const char *name, const char *value);
char *envz_entry(const char *envz, size_t envz_len, const char *name);
char *envz_get(const char *envz, size_t envz_len, const char *name);
error_t envz_merge(char **envz, size_t *envz_len, const char *envz2, size_t envz2_len, int
	override);
void envz_remove(char **envz, size_t *envz_len, const char *name);
void envz_strip(char **envz, size_t *envz_len);
int epoll_pwait2(int epfd, struct epoll_event *events, int maxevents, const struct timespec
	*timeout, const __sigset_t *ss);
double erand48(unsigned short int *xsubi);
int erand48_r(unsigned short int *xsubi, struct drand48_data *buffer, double *result);
void error_at_line(int status, int errnum, const char *fname, unsigned int lineno, const
	char *format, ...);
struct ether_addr *ether_aton(const char *asc);
struct ether_addr *ether_aton_r(const char *asc, struct ether_addr *addr);
int ether_hostton(const char *hostname, struct ether_addr *addr);
int ether_line(const char *line, struct ether_addr *addr, char *hostname);
char *ether_ntoa(const struct ether_addr *addr);
char *ether_ntoa_r(const struct ether_addr *addr, char *buf);
int ether_ntohost(char *hostname, const struct ether_addr *addr);
int eventfd_read(int fd, eventfd_t *value);
int eventfd_write(int fd, eventfd_t value);
int execveat(int fd, const char *path, char *const *argv, char *const *envp, int flags);
int fanotify_init(unsigned int flags, unsigned int event_f_flags);
int fanotify_mark(int fanotify_fd, unsigned int flags, uint64_t mask, int dfd, const char
	*pathname);
char *fcvt(double value, int ndigit, int *decpt OUT(always), int *sign OUT(always));
int fcvt_r(double value, int ndigit, int *decpt OUT(always), int *sign OUT(always), char *buf, size_t len);
int ffs(int i);
int ffsl(long l);
int ffsll(long long ll);
struct group *fgetgrent(FILE *stream);
int fgetgrent_r(FILE *stream, struct group *resultbuf, char *buffer, size_t buflen, struct
	group **result);
int fgetpos(FILE *stream, fpos_t *pos);
int fgetpos64(FILE *stream, fpos64_t *pos);
struct passwd *fgetpwent(FILE *stream);
int fgetpwent_r(FILE *stream, struct passwd *resultbuf, char *buffer, size_t buflen, struct
	passwd **result);
struct sgrp *fgetsgent(FILE *stream);
int fgetsgent_r(FILE *stream, struct sgrp *result_buf, char *buffer, size_t buflen, struct
	sgrp **result);
struct spwd *fgetspent(FILE *stream);
int fgetspent_r(FILE *stream, struct spwd *result_buf, char *buffer, size_t buflen, struct
	spwd **result);
wint_t fgetwc_unlocked(__FILE *stream);
int finitel(long double value);
ssize_t flistxattr(int fd, char *list, size_t size);
int fmtmsg(long classification, const char *label, int severity, const char *text, const
	char *action, const char *tag);
int fremovexattr(int fd, const char *name);
int fsconfig(int fd, unsigned int cmd, const char *key, const void *value, int aux);
int fsetpos(FILE *stream, const fpos_t *pos);
int fsetpos64(FILE *stream, const fpos64_t *pos);
int fsetxattr(int fd, const char *name, const void *value, size_t size, int flags);
int fsmount(int fd, unsigned int flags, unsigned int ms_flags);
int fsopen(const char *fs_name, unsigned int flags);
int fspick(int dfd, const char *path, unsigned int flags);
int fstatvfs64(int fildes, struct statvfs64 *buf);
int ftime(struct timeb *timebuf);
key_t ftok(const char *pathname, int proj_id);
FTSENT64 *fts64_children(FTS64 *arg1, int arg2);
int fts64_close(FTS64 *arg1);
FTS64 *fts64_open(char *const *arg1, int arg2, int (*arg3)(const FTSENT64 **, const FTSENT64 **));
FTSENT64 *fts64_read(FTS64 *arg1);
int fts64_set(FTS64 *arg1, FTSENT64 *arg2, int arg3);
FTSENT *fts_children(FTS *arg1, int arg2);
int ftw64(const char *dir, __ftw64_func_t func, int descriptors);
int futimes(int fd, const struct timeval *tvp);
int futimesat(int fd, const char *file, const struct timeval *tvp);
int gai_cancel(struct gaicb *gaicbp);
int gai_error(struct gaicb *req);
int gai_suspend(const struct gaicb *const *list, int ent, const struct timespec *timeout);
char *gcvt(double value, int ndigit, char *buf);
long get_avphys_pages(void);
long get_phys_pages(void);
int getaddrinfo_a(int mode, struct gaicb **list, int ent, struct sigevent *sig IN);
int getcpu(unsigned int *arg1, unsigned int *arg2);
struct tm *getdate(const char *string);
int getdate_r(const char *string, struct tm *resbufp);
__ssize_t getdents64(int fd, void *buffer, size_t length);
__ssize_t getdirentries(int fd, char *buf, size_t nbytes, __off_t *basep);
__ssize_t getdirentries64(int fd, char *buf, size_t nbytes, __off64_t *basep);
int getdtablesize(void);
struct fstab *getfsent(void);
struct fstab *getfsfile(const char *name);
struct fstab *getfsspec(const char *name);
int getgrent_r(struct group *resultbuf, char *buffer, size_t buflen, struct group **result);
int gethostbyaddr_r(const void *addr, __socklen_t len, int type, struct hostent *result_buf,
	char *buf, size_t buflen, struct hostent **result, int *h_errnop);
int gethostbyname2_r(const char *name, int af, struct hostent *result_buf, char *buf, size_t
	buflen, struct hostent **result, int *h_errnop);
int gethostbyname_r(const char *name, struct hostent *result_buf, char *buf, size_t buflen,
	struct hostent **result, int *h_errnop);
struct hostent *gethostent(void);
int gethostent_r(struct hostent *result_buf, char *buf, size_t buflen, struct hostent
	**result, int *h_errnop);
long gethostid(void);
int getipv4sourcefilter(int s, struct in_addr interface_addr, struct in_addr group, uint32_t
	*fmode, uint32_t *numsrc, struct in_addr *slist);
struct mntent *getmntent_r(FILE *stream, struct mntent *result, char *buffer, int bufsize);
struct netent *getnetbyaddr(uint32_t net, int type);
int getnetbyaddr_r(uint32_t net, int type, struct netent *result_buf, char *buf, size_t
	buflen, struct netent **result, int *h_errnop);
struct netent *getnetbyname(const char *name);
int getnetbyname_r(const char *name, struct netent *result_buf, char *buf, size_t buflen,
	struct netent **result, int *h_errnop);
struct netent *getnetent(void);
int getnetent_r(struct netent *result_buf, char *buf, size_t buflen, struct netent **result,
	int *h_errnop);
int getnetgrent(char **hostp, char **userp, char **domainp);
int getnetgrent_r(char **hostp, char **userp, char **domainp, char *buffer, size_t buflen);
int getprotobyname_r(const char *name, struct protoent *result_buf, char *buf, size_t
	buflen, struct protoent **result);
struct protoent *getprotobynumber(int proto);
int getprotobynumber_r(int proto, struct protoent *result_buf, char *buf, size_t buflen,
	struct protoent **result);
struct protoent *getprotoent(void);
int getprotoent_r(struct protoent *result_buf, char *buf, size_t buflen, struct protoent **result);
int getpt(void);
int getpw(__uid_t uid, char *buffer);
int getpwent_r(struct passwd *resultbuf, char *buffer, size_t buflen, struct passwd **result);
struct rpcent *getrpcbyname(const char *name);
int getrpcbyname_r(const char *name, struct rpcent *result_buf, char *buffer, size_t buflen,
	struct rpcent **result);
struct rpcent *getrpcbynumber(int number);
int getrpcbynumber_r(int number, struct rpcent *result_buf, char *buffer, size_t buflen,
	struct rpcent **result);
struct rpcent *getrpcent(void);
int getrpcent_r(struct rpcent *result_buf, char *buffer, size_t buflen, struct rpcent **result);
int getservbyname_r(const char *name, const char *proto, struct servent *result_buf, char
	*buf, size_t buflen, struct servent **result);
int getservbyport_r(int port, const char *proto, struct servent *result_buf, char *buf,
	size_t buflen, struct servent **result);
struct servent *getservent(void);
int getservent_r(struct servent *result_buf, char *buf, size_t buflen, struct servent **result);
struct sgrp *getsgent(void);
int getsgent_r(struct sgrp *result_buf, char *buffer, size_t buflen, struct sgrp **result);
struct sgrp *getsgnam(const char *name);
int getsgnam_r(const char *name, struct sgrp *result_buf, char *buffer, size_t buflen,
	struct sgrp **result);
int getsourcefilter(int s, uint32_t interface_addr, const struct sockaddr *group, socklen_t
	grouplen, uint32_t *fmode, uint32_t *numsrc, struct sockaddr_storage *slist);
struct spwd *getspent(void);
int getspent_r(struct spwd *result_buf, char *buffer, size_t buflen, struct spwd **result);
int getspnam_r(const char *name, struct spwd *result_buf, char *buffer, size_t buflen,
	struct spwd **result);
char *getusershell(void);
struct utmp *getutent(void);
int getutent_r(struct utmp *buffer, struct utmp **result);
struct utmp *getutid(const struct utmp *id);
int getutid_r(const struct utmp *id, struct utmp *buffer, struct utmp **result);
struct utmp *getutline(const struct utmp *line);
int getutline_r(const struct utmp *line, struct utmp *buffer, struct utmp **result);
void getutmp(const struct utmpx *utmpx, struct utmp *utmp);
void getutmpx(const struct utmp *utmp, struct utmpx *utmpx);
struct utmpx *getutxent(void);
struct utmpx *getutxid(const struct utmpx *id);
struct utmpx *getutxline(const struct utmpx *line);
int getw(FILE *stream);
wint_t getwc_unlocked(__FILE *stream);
wint_t getwchar(void);
wint_t getwchar_unlocked(void);
char *getwd(char *buf);
int glob64(const char *pattern, int flags, int (*errfunc)(const char *, int), glob64_t *pglob);
int glob_pattern_p(const char *pattern, int quote);
void globfree64(glob64_t *pglob);
unsigned int gnu_dev_major(__dev_t dev);
__dev_t gnu_dev_makedev(unsigned int major, unsigned int minor);
unsigned int gnu_dev_minor(__dev_t dev);
const char *gnu_get_libc_release(void);
int group_member(__gid_t gid);
int gtty(int fd, struct sgttyb *params);
char *hasmntopt(const struct mntent *mnt, const char *opt);
int hcreate_r(size_t nel, struct hsearch_data *htab);
void hdestroy_r(struct hsearch_data *htab);
void herror(const char *str);
void if_freenameindex(struct if_nameindex *ptr);
struct if_nameindex *if_nameindex(void);
intmax_t imaxabs(intmax_t n);
int inet6_opt_append(void *extbuf, socklen_t extlen, int offset, uint8_t type, socklen_t
	len, uint8_t align, void **databufp);
int inet6_opt_find(void *extbuf, socklen_t extlen, int offset, uint8_t type, socklen_t
	*lenp, void **databufp);
int inet6_opt_finish(void *extbuf, socklen_t extlen, int offset);
int inet6_opt_get_val(void *databuf, int offset, void *val, socklen_t vallen);
int inet6_opt_init(void *extbuf, socklen_t extlen);
int inet6_opt_next(void *extbuf, socklen_t extlen, int offset, uint8_t *typep, socklen_t
	*lenp, void **databufp);
int inet6_opt_set_val(void *databuf, int offset, void *val, socklen_t vallen);
uint8_t *inet6_option_alloc(struct cmsghdr *cmsg, int datalen, int multx, int plusy);
int inet6_option_append(struct cmsghdr *cmsg, const uint8_t *typep, int multx, int plusy);
int inet6_option_find(const struct cmsghdr *cmsg, uint8_t **tptrp, int type);
int inet6_option_init(void *bp, struct cmsghdr **cmsgp, int type);
int inet6_option_next(const struct cmsghdr *cmsg, uint8_t **tptrp);
int inet6_option_space(int nbytes);
int inet6_rth_add(void *bp, const struct in6_addr *addr);
struct in6_addr *inet6_rth_getaddr(const void *bp, int index);
void *inet6_rth_init(void *bp, socklen_t bp_len, int type, int segments);
int inet6_rth_reverse(const void *in, void *out);
int inet6_rth_segments(const void *bp);
socklen_t inet6_rth_space(int type, int segments);
in_addr_t inet_lnaof(struct in_addr in);
struct in_addr inet_makeaddr(in_addr_t net, in_addr_t host);
in_addr_t inet_netof(struct in_addr in);
in_addr_t inet_network(const char *cp);
unsigned int inet_nsap_addr(const char *cp, unsigned char *buf, int len);
char *inet_nsap_ntoa(int len, const unsigned char *cp, char *buf);
int initstate_r(unsigned int seed, char *statebuf, size_t statelen, struct random_data *buf);
int innetgr(const char *netgroup, const char *host, const char *user, const char *domain);
void insque(void *elem, void *prev);
int iruserok(uint32_t raddr, int suser, const char *remuser, const char *locuser);
int iruserok_af(const void *raddr, int suser, const char *remuser, const char *locuser,
	sa_family_t af);
int isalnum_l(int arg1, locale_t arg2);
int isalpha_l(int arg1, locale_t arg2);
int isascii(int c);
int isblank_l(int arg1, locale_t arg2);
int iscntrl_l(int arg1, locale_t arg2);
int isctype(int c, int mask);
int isdigit_l(int arg1, locale_t arg2);
int isfdtype(int fd, int fdtype);
int isgraph_l(int arg1, locale_t arg2);
int islower_l(int arg1, locale_t arg2);
int isprint_l(int arg1, locale_t arg2);
int ispunct_l(int arg1, locale_t arg2);
int isspace_l(int arg1, locale_t arg2);
int isupper_l(int arg1, locale_t arg2);
int iswalnum_l(wint_t wc, locale_t locale);
int iswalpha_l(wint_t wc, locale_t locale);
int iswblank(wint_t wc);
int iswblank_l(wint_t wc, locale_t locale);
int iswcntrl_l(wint_t wc, locale_t locale);
int iswctype_l(wint_t wc, wctype_t desc, locale_t locale);
int iswdigit_l(wint_t wc, locale_t locale);
int iswgraph(wint_t wc);
int iswgraph_l(wint_t wc, locale_t locale);
int iswlower_l(wint_t wc, locale_t locale);
int iswprint_l(wint_t wc, locale_t locale);
int iswpunct_l(wint_t wc, locale_t locale);
int iswspace_l(wint_t wc, locale_t locale);
int iswupper_l(wint_t wc, locale_t locale);
int iswxdigit_l(wint_t wc, locale_t locale);
int isxdigit_l(int arg1, locale_t arg2);
long jrand48(unsigned short int *xsubi);
int jrand48_r(unsigned short int *xsubi, struct drand48_data *buffer, long *result);
int klogctl(int type, char *bufp, int len);
char *l64a(long n);
int lchmod(const char *file, __mode_t mode);
int lckpwdf(void);
void lcong48(unsigned short int *param);
int lcong48_r(unsigned short int *param, struct drand48_data *buffer);
int lio_listio(int mode, struct aiocb *const *list, int nent, struct sigevent *sig IN);
int lio_listio64(int mode, struct aiocb64 *const *list, int nent, struct sigevent *sig IN);
long long llabs(long long x);
void login(const struct utmp *entry);
int logout(const char *ut_line);
void logwtmp(const char *ut_line, const char *ut_name, const char *ut_host);
int lrand48_r(struct drand48_data *buffer, long *result);
int lremovexattr(const char *path, const char *name);
void *lsearch(const void *key, void *base, size_t *nmemb, size_t size, __compar_fn_t compar);
int lsetxattr(const char *path, const char *name, const void *value, size_t size, int flags);
int lutimes(const char *file, const struct timeval *tvp);
int malloc_info(int options, FILE *fp);
void malloc_stats(void);
size_t mbrtoc16(char16_t *pc16, const char *s, size_t n, mbstate_t *p);
size_t mbrtoc32(char32_t *pc32, const char *s, size_t n, mbstate_t *p);
size_t mbrtoc8(char8_t *pc8, const char *s, size_t n, mbstate_t *p);
int mcheck(void (*abortfunc)(enum mcheck_status));
void mcheck_check_all(void);
int mcheck_pedantic(void (*abortfunc)(enum mcheck_status));
void *memfrob(void *s, size_t n);
int mkfifoat(int fd, const char *path, __mode_t mode);
int mknodat(int fd, const char *path, __mode_t mode, __dev_t dev);
int mkostemps(char *template, int suffixlen, int flags);
int mkostemps64(char *template, int suffixlen, int flags);
int mlock2(const void *addr, size_t length, unsigned int flags);
void monstartup(unsigned long lowpc, unsigned long highpc);
int mount_setattr(int dfd, const char *path, unsigned int flags, struct mount_attr *uattr,
	size_t usize);
int move_mount(int from_dfd, const char *from_pathname, int to_dfd, const char *to_pathname,
	unsigned int flags);
enum mcheck_status mprobe(void *ptr);
int mq_close(mqd_t mqdes);
int mq_getattr(mqd_t mqdes, struct mq_attr *mqstat);
int mq_notify(mqd_t mqdes, const struct sigevent *notification IN);
mqd_t mq_open(const char *name, int oflag, ...);
ssize_t mq_receive(mqd_t mqdes, char *msg_ptr, size_t msg_len, unsigned int *msg_prio);
int mq_send(mqd_t mqdes, const char *msg_ptr, size_t msg_len, unsigned int msg_prio);
int mq_setattr(mqd_t mqdes, const struct mq_attr *mqstat, struct mq_attr *omqstat);
ssize_t mq_timedreceive(mqd_t mqdes, char *msg_ptr, size_t msg_len, unsigned int *msg_prio,
	const struct timespec *abs_timeout);
int mq_timedsend(mqd_t mqdes, const char *msg_ptr, size_t msg_len, unsigned int msg_prio,
	const struct timespec *abs_timeout);
int mq_unlink(const char *name);
int mrand48_r(struct drand48_data *buffer, long *result);
int msgctl(int msqid, int cmd, struct msqid_ds *buf);
int msgget(key_t key, int msgflg);
ssize_t msgrcv(int msqid, void *msgp, size_t msgsz, long msgtyp, int msgflg);
int msgsnd(int msqid, const void *msgp, size_t msgsz, int msgflg);
void mtrace(void);
void muntrace(void);
int name_to_handle_at(int dfd, const char *name, struct file_handle *handle, int *mnt_id,
	int flags);
int nftw64(const char *dir, __nftw64_func_t func, int descriptors, int flag);
long nrand48(unsigned short int *xsubi);
int nrand48_r(unsigned short int *xsubi, struct drand48_data *buffer, long *result);
int ns_name_compress(const char *arg1, unsigned char *arg2, size_t arg3, const unsigned char
	**arg4, const unsigned char **arg5);
int ns_name_ntop(const unsigned char *arg1, char *arg2, size_t arg3);
int ns_name_pack(const unsigned char *arg1, unsigned char *arg2, int arg3, const unsigned
	char **arg4, const unsigned char **arg5);
int ns_name_pton(const char *arg1, unsigned char *arg2, size_t arg3);
int ns_name_skip(const unsigned char **arg1, const unsigned char *arg2);
int ns_name_uncompress(const unsigned char *arg1, const unsigned char *arg2, const unsigned
	char *arg3, char *arg4, size_t arg5);
int ns_name_unpack(const unsigned char *arg1, const unsigned char *arg2, const unsigned char
	*arg3, unsigned char *arg4, size_t arg5);
int ntp_adjtime(struct timex *tntx);
int ntp_gettime(struct ntptimeval *ntv);
int ntp_gettimex(struct ntptimeval *ntv);
void obstack_free(struct obstack *arg1, void *arg2);
int obstack_printf(struct obstack *obstack, const char *format FORMAT(printf), ...);
int obstack_vprintf(struct obstack *obstack, const char *format FORMAT(printf),
	__gnuc_va_list args);
int open_by_handle_at(int mountdirfd, struct file_handle *handle, int flags);
int open_tree(int dfd, const char *filename, unsigned int flags);
__FILE *open_wmemstream(wchar_t **bufloc, size_t *sizeloc);
int pidfd_getfd(int pidfd, int targetfd, unsigned int flags);
int pidfd_open(__pid_t pid, unsigned int flags);
int pidfd_send_signal(int pidfd, int sig, siginfo_t *info IN, unsigned int flags);
int pkey_alloc(unsigned int flags, unsigned int access_rights);
int pkey_free(int key);
int pkey_get(int key);
int pkey_mprotect(void *addr, size_t len, int prot, int pkey);
int pkey_set(int key, unsigned int access_rights);
int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *actions, const char *path);
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *arg1, int from);
int posix_spawn_file_actions_addfchdir_np(posix_spawn_file_actions_t *arg1, int fd);
int posix_spawn_file_actions_addtcsetpgrp_np(posix_spawn_file_actions_t *arg1, int tcfd);
int posix_spawnattr_getflags(const posix_spawnattr_t *attr, short int *flags);
int posix_spawnattr_getpgroup(const posix_spawnattr_t *attr, pid_t *pgroup);
int posix_spawnattr_getschedparam(const posix_spawnattr_t *attr, struct sched_param *schedparam);
int posix_spawnattr_getschedpolicy(const posix_spawnattr_t *attr, int *schedpolicy);
int posix_spawnattr_getsigdefault(const posix_spawnattr_t *attr, sigset_t *sigdefault);
int posix_spawnattr_getsigmask(const posix_spawnattr_t *attr, sigset_t *sigmask);
int posix_spawnattr_setschedparam(posix_spawnattr_t *attr, const struct sched_param *schedparam);
int posix_spawnattr_setschedpolicy(posix_spawnattr_t *attr, int schedpolicy);
ssize_t preadv2(int fp, const struct iovec *iovec, int count, __off_t offset, int flags);
ssize_t preadv64v2(int fp, const struct iovec *iovec, int count, __off64_t offset, int flags);
__ssize_t process_madvise(int pid_fd, const struct iovec *iov, size_t count, int advice,
	unsigned flags);
int process_mrelease(int pidfd, unsigned int flags);
ssize_t process_vm_readv(pid_t pid, const struct iovec *lvec, unsigned long liovcnt, const
	struct iovec *rvec, unsigned long riovcnt, unsigned long flags);
ssize_t process_vm_writev(pid_t pid, const struct iovec *lvec, unsigned long liovcnt, const
	struct iovec *rvec, unsigned long riovcnt, unsigned long flags);
int profil(unsigned short int *sample_buffer, size_t size, size_t offset, unsigned int scale);
void psiginfo(const siginfo_t *pinfo IN, const char *s);
int pthread_attr_getaffinity_np(const pthread_attr_t *attr, size_t cpusetsize, cpu_set_t *cpuset);
int pthread_attr_getinheritsched(const pthread_attr_t *attr, int *inherit);
int pthread_attr_getschedparam(const pthread_attr_t *attr, struct sched_param *param);
int pthread_attr_getschedpolicy(const pthread_attr_t *attr, int *policy);
int pthread_attr_getscope(const pthread_attr_t *attr, int *scope);
int pthread_attr_getsigmask_np(const pthread_attr_t *attr, __sigset_t *sigmask);
int pthread_attr_getstackaddr(const pthread_attr_t *attr, void **stackaddr);
int pthread_attr_setaffinity_np(pthread_attr_t *attr, size_t cpusetsize, const cpu_set_t *cpuset);
int pthread_attr_setschedparam(pthread_attr_t *attr, const struct sched_param *param);
int pthread_attr_setsigmask_np(pthread_attr_t *attr, const __sigset_t *sigmask);
int pthread_attr_setstackaddr(pthread_attr_t *attr, void *stackaddr);
int pthread_barrierattr_destroy(pthread_barrierattr_t *attr);
int pthread_barrierattr_getpshared(const pthread_barrierattr_t *attr, int *pshared);
int pthread_barrierattr_init(pthread_barrierattr_t *attr);
int pthread_barrierattr_setpshared(pthread_barrierattr_t *attr, int pshared);
int pthread_clockjoin_np(pthread_t th, void **thread_return, clockid_t clockid, const struct
	timespec *abstime);
int pthread_condattr_getclock(const pthread_condattr_t *attr, __clockid_t *clock_id);
int pthread_condattr_getpshared(const pthread_condattr_t *attr, int *pshared);
int pthread_getconcurrency(void);
int pthread_mutex_consistent_np(pthread_mutex_t *arg1);
int pthread_mutex_getprioceiling(const pthread_mutex_t *mutex, int *prioceiling);
int pthread_mutex_setprioceiling(pthread_mutex_t *mutex, int prioceiling, int *old_ceiling);
int pthread_mutexattr_getprioceiling(const pthread_mutexattr_t *attr, int *prioceiling);
int pthread_mutexattr_getprotocol(const pthread_mutexattr_t *attr, int *protocol);
int pthread_mutexattr_getpshared(const pthread_mutexattr_t *attr, int *pshared);
int pthread_mutexattr_getrobust(const pthread_mutexattr_t *attr, int *robustness);
int pthread_mutexattr_getrobust_np(pthread_mutexattr_t *arg1, int *arg2);
int pthread_mutexattr_gettype(const pthread_mutexattr_t *attr, int *kind);
int pthread_mutexattr_setprioceiling(pthread_mutexattr_t *attr, int prioceiling);
int pthread_mutexattr_setrobust_np(pthread_mutexattr_t *arg1, int arg2);
int pthread_rwlock_clockrdlock(pthread_rwlock_t *rwlock, clockid_t clockid, const struct
	timespec *abstime);
int pthread_rwlock_clockwrlock(pthread_rwlock_t *rwlock, clockid_t clockid, const struct
	timespec *abstime);
int pthread_rwlock_timedrdlock(pthread_rwlock_t *rwlock, const struct timespec *abstime);
int pthread_rwlock_timedwrlock(pthread_rwlock_t *rwlock, const struct timespec *abstime);
int pthread_rwlockattr_destroy(pthread_rwlockattr_t *attr);
int pthread_rwlockattr_getkind_np(const pthread_rwlockattr_t *attr, int *pref);
int pthread_rwlockattr_getpshared(const pthread_rwlockattr_t *attr, int *pshared);
int pthread_rwlockattr_init(pthread_rwlockattr_t *attr);
int pthread_rwlockattr_setkind_np(pthread_rwlockattr_t *attr, int pref);
int pthread_rwlockattr_setpshared(pthread_rwlockattr_t *attr, int pshared);
int pthread_setattr_default_np(const pthread_attr_t *attr);
int pthread_setschedprio(pthread_t target_thread, int prio);
int pthread_yield(void);
int putgrent(const struct group *p, FILE *f);
int putpwent(const struct passwd *p, FILE *f);
int putsgent(const struct sgrp *g, FILE *stream);
int putspent(const struct spwd *p, FILE *stream);
struct utmp *pututline(const struct utmp *utmp_ptr);
struct utmpx *pututxline(const struct utmpx *utmpx);
int putw(int w, FILE *stream);
ssize_t pwritev2(int fd, const struct iovec *iodev, int count, __off_t offset, int flags);
ssize_t pwritev64v2(int fd, const struct iovec *iodev, int count, __off64_t offset, int flags);
char *qecvt(long double value, int ndigit, int *decpt OUT(always), int *sign OUT(always));
int qecvt_r(long double value, int ndigit, int *decpt OUT(always), int *sign OUT(always), char *buf, size_t len);
char *qfcvt(long double value, int ndigit, int *decpt OUT(always), int *sign OUT(always));
int qfcvt_r(long double value, int ndigit, int *decpt OUT(always), int *sign OUT(always), char *buf, size_t len);
char *qgcvt(long double value, int ndigit, char *buf);
int quotactl(int cmd, const char *special, int id, __caddr_t addr);
int random_r(struct random_data *buf, int32_t *result);
int rcmd(char **ahost, unsigned short int rport, const char *locuser, const char *remuser,
	const char *cmd, int *fd2p);
int rcmd_af(char **ahost, unsigned short int rport, const char *locuser, const char
	*remuser, const char *cmd, int *fd2p, sa_family_t af);
int re_compile_fastmap(struct re_pattern_buffer *buffer);
regoff_t re_match_2(struct re_pattern_buffer *buffer, const char *string1, regoff_t length1,
	const char *string2, regoff_t length2, regoff_t start, struct re_registers *regs, regoff_t
	stop);
regoff_t re_search_2(struct re_pattern_buffer *buffer, const char *string1, regoff_t
	length1, const char *string2, regoff_t length2, regoff_t start, regoff_t range, struct
	re_registers *regs, regoff_t stop);
void re_set_registers(struct re_pattern_buffer *buffer, struct re_registers *regs,
	__re_size_t num_regs, regoff_t *starts, regoff_t *ends);
__ssize_t readahead(int fd, __off64_t offset, size_t count);
int readdir64_r(DIR *dirp, struct dirent64 *entry, struct dirent64 **result);
int readdir_r(DIR *dirp, struct dirent *entry, struct dirent **result);
int reboot(int howto);
int recvmmsg(int fd, struct mmsghdr *vmessages, unsigned int vlen, int flags, struct timespec *tmo);
int remap_file_pages(void *start, size_t size, int prot, size_t pgoff, int flags);
int removexattr(const char *path, const char *name);
void remque(void *elem);
int res_dnok(const char *arg1);
int res_hnok(const char *arg1);
int res_mailok(const char *arg1);
int res_mkquery(int arg1, const char *arg2, int arg3, int arg4, const unsigned char *arg5,
	int arg6, const unsigned char *arg7, unsigned char *arg8, int arg9);
int res_nmkquery(res_state arg1, int arg2, const char *arg3, int arg4, int arg5, const
	unsigned char *arg6, int arg7, const unsigned char *arg8, unsigned char *arg9, int arg10);
int res_nquery(res_state arg1, const char *arg2, int arg3, int arg4, unsigned char *arg5, int arg6);
int res_nquerydomain(res_state arg1, const char *arg2, const char *arg3, int arg4, int arg5,
	unsigned char *arg6, int arg7);
int res_nsearch(res_state arg1, const char *arg2, int arg3, int arg4, unsigned char *arg5,
	int arg6);
int res_nsend(res_state arg1, const unsigned char *arg2, int arg3, unsigned char *arg4, int arg5);
int res_ownok(const char *arg1);
int res_query(const char *arg1, int arg2, int arg3, unsigned char *arg4, int arg5);
int res_querydomain(const char *arg1, const char *arg2, int arg3, int arg4, unsigned char
	*arg5, int arg6);
int res_search(const char *arg1, int arg2, int arg3, unsigned char *arg4, int arg5);
int res_send(const unsigned char *arg1, int arg2, unsigned char *arg3, int arg4);
int revoke(const char *file);
int rexec(char **ahost, int rport, const char *name, const char *pass, const char *cmd, int *fd2p);
int rexec_af(char **ahost, int rport, const char *name, const char *pass, const char *cmd,
	int *fd2p, sa_family_t af);
int rpmatch(const char *response);
int rresvport(int *alport);
int rresvport_af(int *alport, sa_family_t af);
int ruserok(const char *rhost, int suser, const char *remuser, const char *locuser);
int ruserok_af(const char *rhost, int suser, const char *remuser, const char *locuser,
	sa_family_t af);
long double scalbnl(long double x, int n);
int scandir64(const char *dir, struct dirent64 ***namelist, int (*selector)(const struct
	dirent64 *), int (*cmp)(const struct dirent64 **, const struct dirent64 **));
int scandirat(int dfd, const char *dir, struct dirent ***namelist, int (*selector)(const
	struct dirent *), int (*cmp)(const struct dirent **, const struct dirent **));
int scandirat64(int dfd, const char *dir, struct dirent64 ***namelist, int (*selector)(const
	struct dirent64 *), int (*cmp)(const struct dirent64 **, const struct dirent64 **));
int sched_rr_get_interval(__pid_t pid, struct timespec *t);
int sched_setparam(__pid_t pid, const struct sched_param *param);
unsigned short int *seed48(unsigned short int *seed16v);
int seed48_r(unsigned short int *seed16v, struct drand48_data *buffer);
int semget(key_t key, int nsems, int semflg);
int semop(int semid, struct sembuf *sops, size_t nsops);
int semtimedop(int semid, struct sembuf *sops, size_t nsops, const struct timespec *timeout);
void setbuffer(FILE *stream, char *buf, size_t size);
int setdomainname(const char *name, size_t len);
int setfsent(void);
int setfsgid(__gid_t gid);
int setfsuid(__uid_t uid);
void sethostent(int stay_open);
int sethostid(long id);
int setipv4sourcefilter(int s, struct in_addr interface_addr, struct in_addr group, uint32_t
	fmode, uint32_t numsrc, const struct in_addr *slist);
int setlogin(const char *name);
void setnetent(int stay_open);
int setnetgrent(const char *netgroup);
int setpgrp(void);
void setprotoent(int stay_open);
void setrpcent(int stayopen);
void setservent(int stay_open);
void setsgent(void);
int setsourcefilter(int s, uint32_t interface_addr, const struct sockaddr *group, socklen_t
	grouplen, uint32_t fmode, uint32_t numsrc, const struct sockaddr_storage *slist);
void setspent(void);
char *setstate(char *statebuf);
int setstate_r(char *statebuf, struct random_data *buf);
void setusershell(void);
void setutent(void);
void setutxent(void);
struct sgrp *sgetsgent(const char *string);
int sgetsgent_r(const char *string, struct sgrp *result_buf, char *buffer, size_t buflen,
	struct sgrp **result);
struct spwd *sgetspent(const char *string);
int sgetspent_r(const char *string, struct spwd *result_buf, char *buffer, size_t buflen,
	struct spwd **result);
void *shmat(int shmid, const void *shmaddr, int shmflg);
int shmctl(int shmid, int cmd, struct shmid_ds *buf);
int shmdt(const void *shmaddr);
int shmget(key_t key, size_t size, int shmflg);
int sigandset(sigset_t *set, const sigset_t *left, const sigset_t *right);
int sigblock(int mask);
const char *sigdescr_np(int sig);
int siggetmask(void);
int sighold(int sig);
int sigignore(int sig);
int sigisemptyset(const sigset_t *set);
int sigorset(sigset_t *set, const sigset_t *left, const sigset_t *right);
int sigpause(int sig);
int sigrelse(int sig);
int sigreturn(struct sigcontext *scp);
__sighandler_t sigset(int sig, __sighandler_t disp);
int sigsetmask(int mask);
int sigstack(struct sigstack *ss, struct sigstack *oss);
int sockatmark(int fd);
int sprofil(struct prof *profp, int profcnt, struct timeval *tvp, unsigned int flags);
int srand48_r(long seedval, struct drand48_data *buffer);
int srandom_r(unsigned int seed, struct random_data *buf);
ssize_t strfmon(char *s, size_t maxsize, const char *format, ...);
ssize_t strfmon_l(char *s, size_t maxsize, locale_t loc, const char *format, ...);
int strfromd(char *dest, size_t size, const char *format, double f);
int strfromf(char *dest, size_t size, const char *format, float f);
int strfroml(char *dest, size_t size, const char *format, long double f);
char *strfry(char *string);
int strncasecmp_l(const char *s1, const char *s2, size_t n, locale_t loc);
char *strptime_l(const char *s, const char *fmt, struct tm *tp, locale_t loc);
float strtof_l(const char *nptr, char **endptr, locale_t loc);
long double strtold_l(const char *nptr, char **endptr, locale_t loc);
long long strtoll_l(const char *nptr, char **endptr, int base, locale_t loc);
unsigned long strtoul_l(const char *nptr, char **endptr, int base, locale_t loc);
unsigned long long strtoull_l(const char *nptr, char **endptr, int base, locale_t loc);
int stty(int fd, const struct sgttyb *params);
int swapoff(const char *path);
int swapon(const char *path, int flags);
int sync_file_range(int fd, __off64_t offset, __off64_t count, unsigned int flags);
int tcflow(int fd, int action);
__pid_t tcgetsid(int fd);
void tdestroy(void *root, __free_fn_t freefct);
__ssize_t tee(int fdin, int fdout, size_t len, unsigned int flags);
int timer_getoverrun(timer_t timerid);
int timer_gettime(timer_t timerid, struct itimerspec *value);
int timespec_getres(struct timespec *ts, int base);
char *tmpnam_r(char *s);
int toascii(int c);
wint_t towctrans(wint_t wc, wctrans_t desc);
wint_t towctrans_l(wint_t wc, wctrans_t desc, locale_t locale);
wint_t towlower_l(wint_t wc, locale_t locale);
wint_t towupper_l(wint_t wc, locale_t locale);
int ttyslot(void);
void twalk(const void *root, __action_fn_t action);
void twalk_r(const void *root, void (*arg2)(const void *__nodep, VISIT __value, void
	*__closure), void *closure);
int ulckpwdf(void);
long ulimit(int cmd, ...);
int umount(const char *special_file);
wint_t ungetwc(wint_t wc, __FILE *stream);
void updwtmp(const char *wtmp_file, const struct utmp *utmp);
void updwtmpx(const char *wtmpx_file, const struct utmpx *utmpx);
int utmpname(const char *file);
int utmpxname(const char *file);
void verr(int status, const char *format FORMAT(printf), __gnuc_va_list arg3);
void verrx(int status, const char *arg2 FORMAT(printf), __gnuc_va_list arg3);
int versionsort(const struct dirent **e1, const struct dirent **e2);
int versionsort64(const struct dirent64 **e1, const struct dirent64 **e2);
int vhangup(void);
__ssize_t vmsplice(int fdout, const struct iovec *iov, size_t count, unsigned int flags);
void vwarn(const char *format FORMAT(printf), __gnuc_va_list arg2);
void vwarnx(const char *format FORMAT(printf), __gnuc_va_list arg2);
size_t wcsftime(wchar_t *s, size_t maxsize, const wchar_t *format, const struct tm *tp);
size_t wcsftime_l(wchar_t *s, size_t maxsize, const wchar_t *format, const struct tm *tp,
	locale_t loc);
intmax_t wcstoimax(const __gwchar_t *nptr, __gwchar_t **endptr, int base);
uintmax_t wcstoumax(const __gwchar_t *nptr, __gwchar_t **endptr, int base);
wctrans_t wctrans(const char *property);
wctrans_t wctrans_l(const char *property, locale_t locale);
wctype_t wctype_l(const char *property, locale_t locale);
