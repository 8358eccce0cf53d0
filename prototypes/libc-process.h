// SPDX-License-Identifier: Apache-2.0
// libc: processes, signals, scheduling, limits, users and groups.

// Processes.
pid_t fork(void) FAILS(< 0) ALSO(__fork);
pid_t vfork(void) FAILS(< 0) ALSO(__vfork);
int execve(const char *path, char *const *arguments, char *const *environment) FAILS(< 0);
int execv(const char *path, char *const *arguments) FAILS(< 0);
int execvp(const char *file, char *const *arguments) FAILS(< 0);
int execvpe(const char *file, char *const *arguments, char *const *environment) FAILS(< 0);
int execl(const char *path, const char *argument, ...) FAILS(< 0);
int execlp(const char *file, const char *argument, ...) FAILS(< 0);
int execle(const char *path, const char *argument, ...) FAILS(< 0);
int fexecve(int fd, char *const *arguments, char *const *environment) FAILS(< 0);
int posix_spawn(pid_t *pid OUT(success), const char *path,
		const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
		char *const *arguments, char *const *environment) FAILS(!= 0) ERRNO(result);
int posix_spawnp(pid_t *pid OUT(success), const char *file,
		 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
		 char *const *arguments, char *const *environment) FAILS(!= 0) ERRNO(result);
int posix_spawn_file_actions_init(posix_spawn_file_actions_t *actions) FAILS(!= 0) ERRNO(result);
int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *actions)
	FAILS(!= 0) ERRNO(result);
int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int new_fd)
	FAILS(!= 0) ERRNO(result);
int posix_spawn_file_actions_addclose(posix_spawn_file_actions_t *actions, int fd)
	FAILS(!= 0) ERRNO(result);
int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int fd,
				     const char *path, int flags FLAGS(open), mode_t mode)
	FAILS(!= 0) ERRNO(result);
int posix_spawnattr_init(posix_spawnattr_t *attributes) FAILS(!= 0) ERRNO(result);
int posix_spawnattr_destroy(posix_spawnattr_t *attributes) FAILS(!= 0) ERRNO(result);
int posix_spawnattr_setflags(posix_spawnattr_t *attributes, short flags HEX)
	FAILS(!= 0) ERRNO(result);
int posix_spawnattr_setsigmask(posix_spawnattr_t *attributes, const sigset_t *mask IN)
	FAILS(!= 0) ERRNO(result);
int posix_spawnattr_setsigdefault(posix_spawnattr_t *attributes, const sigset_t *signals IN)
	FAILS(!= 0) ERRNO(result);
int posix_spawnattr_setpgroup(posix_spawnattr_t *attributes, pid_t group)
	FAILS(!= 0) ERRNO(result);
int clone(int (*function)(void *), void *stack, int flags FLAGS(clone), void *argument, ...)
	FAILS(< 0);
int unshare(int flags FLAGS(clone)) FAILS(< 0);
int setns(int fd, int type FLAGS(clone)) FAILS(< 0);
int system(const char *command) FAILS(< 0);
pid_t wait(int *status OUT(result > 0) HEX) FAILS(< 0);
pid_t waitpid(pid_t pid, int *status OUT(result > 0) HEX, int options FLAGS(wait)) FAILS(< 0)
	ALSO(__waitpid);
pid_t wait3(int *status OUT(result > 0) HEX, int options FLAGS(wait),
	    struct rusage *usage OUT(result > 0))
	FAILS(< 0);
pid_t wait4(pid_t pid, int *status OUT(result > 0) HEX, int options FLAGS(wait),
	    struct rusage *usage OUT(result > 0)) FAILS(< 0);
int waitid(idtype_t type ENUM(idtype), id_t id, siginfo_t *info OUT(success),
	   int options FLAGS(waitid))
	FAILS(< 0);
pid_t getpid(void) ALSO(__getpid);
pid_t getppid(void);
pid_t gettid(void);
pid_t getpgrp(void);
pid_t getpgid(pid_t pid) FAILS(< 0) ALSO(__getpgid);
int setpgid(pid_t pid, pid_t group) FAILS(< 0);
pid_t getsid(pid_t pid) FAILS(< 0);
pid_t setsid(void) FAILS(< 0);
int daemon(int keep_directory, int keep_streams) FAILS(< 0);
int prctl(int option ENUM(prctl), ... WORDS(4)
	  OPTIONAL(const char *name, option == PR_SET_NAME)
	  OPTIONAL(char *name OUT(success) STRING, option == PR_GET_NAME)
	  OPTIONAL(unsigned long signal ENUM(signal), option == PR_SET_PDEATHSIG)
	  OPTIONAL(int *value OUT(success), option == PR_GET_PDEATHSIG | PR_GET_CHILD_SUBREAPER |
		   PR_GET_TSC)
	  OPTIONAL(unsigned long value, option == PR_SET_DUMPABLE | PR_SET_KEEPCAPS |
		   PR_SET_TIMERSLACK | PR_SET_CHILD_SUBREAPER | PR_SET_NO_NEW_PRIVS |
		   PR_SET_THP_DISABLE | PR_CAPBSET_READ | PR_CAPBSET_DROP | PR_SET_TSC)
	  OPTIONAL(unsigned long bits HEX, option == PR_SET_SECUREBITS)
	  OPTIONAL(long pid, option == PR_SET_PTRACER)
	  OPTIONAL(void, option == PR_GET_DUMPABLE | PR_GET_KEEPCAPS | PR_GET_SECUREBITS |
		   PR_GET_TIMERSLACK | PR_GET_SECCOMP | PR_GET_NO_NEW_PRIVS |
		   PR_GET_THP_DISABLE)) FAILS(< 0);
long ptrace(enum __ptrace_request request ENUM(ptrace), ... WORDS(3)) FAILS(< 0);
long syscall(long number ENUM(syscall), ... WORDS(5)) FAILS(< 0);
int personality(unsigned long persona HEX) FAILS(< 0);

// Scheduling and limits.
int nice(int increment);
int getpriority(__priority_which_t which, id_t who);
int setpriority(__priority_which_t which, id_t who, int priority) FAILS(< 0);
int sched_yield(void) FAILS(< 0) ALSO(__sched_yield);
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) FAILS(< 0);
int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set) FAILS(< 0);
int sched_getscheduler(pid_t pid) FAILS(< 0);
int sched_setscheduler(pid_t pid, int policy ENUM(sched), const struct sched_param *parameter)
	FAILS(< 0);
int sched_getparam(pid_t pid, struct sched_param *parameter) FAILS(< 0);
int sched_get_priority_max(int policy ENUM(sched)) FAILS(< 0);
int sched_get_priority_min(int policy ENUM(sched)) FAILS(< 0);
int sched_getcpu(void) FAILS(< 0);
int __sched_cpucount(size_t size, const cpu_set_t *set);
int getrlimit(__rlimit_resource_t resource ENUM(rlimit), struct rlimit *limit OUT(success))
	FAILS(< 0);
int setrlimit(__rlimit_resource_t resource ENUM(rlimit), const struct rlimit *limit IN) FAILS(< 0);
int getrlimit64(__rlimit_resource_t resource ENUM(rlimit), struct rlimit64 *limit OUT(success))
	FAILS(< 0);
int setrlimit64(__rlimit_resource_t resource ENUM(rlimit), const struct rlimit64 *limit IN)
	FAILS(< 0);
int prlimit(pid_t pid, enum __rlimit_resource resource ENUM(rlimit), const struct rlimit *limit IN,
	    struct rlimit *old OUT(success)) FAILS(< 0);
int prlimit64(pid_t pid, enum __rlimit_resource resource ENUM(rlimit),
	      const struct rlimit64 *limit IN, struct rlimit64 *old OUT(success)) FAILS(< 0);
int getrusage(__rusage_who_t who, struct rusage *usage OUT(success)) FAILS(< 0);

// Signals.
sighandler_t signal(int signal ENUM(signal), sighandler_t handler) FAILS(== -1)
	ALSO(bsd_signal, sysv_signal, __sysv_signal, ssignal);
int sigaction(int signal ENUM(signal), const struct sigaction *action IN,
	      struct sigaction *old OUT(success))
	FAILS(< 0) ALSO(__sigaction);
int sigprocmask(int how ENUM(sigmask), const sigset_t *set IN, sigset_t *old OUT(success)) FAILS(< 0);
int sigpending(sigset_t *set OUT(success)) FAILS(< 0);
int sigsuspend(const sigset_t *mask IN) FAILS(< 0) ALSO(__sigsuspend);
int sigwait(const sigset_t *set IN, int *signal OUT(success) ENUM(signal)) FAILS(!= 0) ERRNO(result);
int sigwaitinfo(const sigset_t *set IN, siginfo_t *info OUT(success)) FAILS(< 0);
int sigtimedwait(const sigset_t *set IN, siginfo_t *info OUT(success),
		 const struct timespec *limit IN) FAILS(< 0);
int sigaltstack(const stack_t *stack, stack_t *old) FAILS(< 0);
int sigemptyset(sigset_t *set OUT(success)) FAILS(< 0);
int sigfillset(sigset_t *set OUT(success)) FAILS(< 0);
int sigaddset(sigset_t *set IN OUT(success), int signal ENUM(signal)) FAILS(< 0);
int sigdelset(sigset_t *set IN OUT(success), int signal ENUM(signal)) FAILS(< 0);
int sigismember(const sigset_t *set IN, int signal ENUM(signal)) FAILS(< 0);
int siginterrupt(int signal ENUM(signal), int interrupt) FAILS(< 0);
int signalfd(int fd, const sigset_t *mask IN, int flags FLAGS(signalfd)) FAILS(< 0);
int kill(pid_t pid, int signal ENUM(signal)) FAILS(< 0);
int killpg(pid_t group, int signal ENUM(signal)) FAILS(< 0);
int tgkill(pid_t pid, pid_t tid, int signal ENUM(signal)) FAILS(< 0);
int raise(int signal ENUM(signal)) FAILS(!= 0) ALSO(gsignal);
int pause(void) FAILS(< 0);
void psignal(int signal ENUM(signal), const char *prefix);
int __libc_current_sigrtmin(void);
int __libc_current_sigrtmax(void);

// Jumps.
int _setjmp(struct __jmp_buf_tag *environment) ALSO(setjmp);
int __sigsetjmp(struct __jmp_buf_tag *environment, int save_mask);
void longjmp(struct __jmp_buf_tag *environment, int value) ALSO(_longjmp, __longjmp_chk);
void siglongjmp(struct __jmp_buf_tag *environment, int value);
int getcontext(ucontext_t *context) FAILS(< 0);
int setcontext(const ucontext_t *context) FAILS(< 0);
int swapcontext(ucontext_t *old, const ucontext_t *context) FAILS(< 0);
void makecontext(ucontext_t *context, void (*function)(void), int count, ...);

// Users and groups. NULL from a look-up is "there is none": no rule.
uid_t getuid(void);
uid_t geteuid(void);
gid_t getgid(void);
gid_t getegid(void);
int setuid(uid_t user) FAILS(< 0);
int seteuid(uid_t user) FAILS(< 0);
int setgid(gid_t group) FAILS(< 0);
int setegid(gid_t group) FAILS(< 0);
int setreuid(uid_t real, uid_t effective) FAILS(< 0);
int setregid(gid_t real, gid_t effective) FAILS(< 0);
int setresuid(uid_t real, uid_t effective, uid_t saved) FAILS(< 0);
int setresgid(gid_t real, gid_t effective, gid_t saved) FAILS(< 0);
int getresuid(uid_t *real, uid_t *effective, uid_t *saved) FAILS(< 0);
int getresgid(gid_t *real, gid_t *effective, gid_t *saved) FAILS(< 0);
int getgroups(int size, gid_t *groups) FAILS(< 0);
int setgroups(size_t size, const gid_t *groups) FAILS(< 0);
int initgroups(const char *user, gid_t group) FAILS(< 0);
int getgrouplist(const char *user, gid_t group, gid_t *groups, int *count);
struct passwd *getpwnam(const char *name FOLLOW);
struct passwd *getpwuid(uid_t user);
int getpwnam_r(const char *name FOLLOW, struct passwd *entry, char *buffer, size_t size,
	       struct passwd **result) FAILS(!= 0) ERRNO(result);
int getpwuid_r(uid_t user, struct passwd *entry, char *buffer, size_t size,
	       struct passwd **result) FAILS(!= 0) ERRNO(result);
struct passwd *getpwent(void);
void setpwent(void);
void endpwent(void);
struct group *getgrnam(const char *name FOLLOW);
struct group *getgrgid(gid_t group);
int getgrnam_r(const char *name FOLLOW, struct group *entry, char *buffer, size_t size,
	       struct group **result) FAILS(!= 0) ERRNO(result);
int getgrgid_r(gid_t group, struct group *entry, char *buffer, size_t size,
	       struct group **result) FAILS(!= 0) ERRNO(result);
struct group *getgrent(void);
void setgrent(void);
void endgrent(void);
struct spwd *getspnam(const char *name FOLLOW);
char *getlogin(void);
int getlogin_r(char *name OUT(success) LIMIT(size), size_t size) FAILS(!= 0) ERRNO(result);

// Semaphores of System V. The last argument is a union, passed as its only word.
int semctl(int semid, int semnum, int cmd ENUM(semctl), ... WORDS(1)
	   OPTIONAL(int value, cmd == SETVAL)
	   OPTIONAL(void *array, cmd == GETALL | SETALL | IPC_STAT | IPC_SET | IPC_INFO | SEM_INFO |
		    SEM_STAT | SEM_STAT_ANY)
	   OPTIONAL(void, cmd == IPC_RMID | GETPID | GETVAL | GETNCNT | GETZCNT)) FAILS(== -1);
