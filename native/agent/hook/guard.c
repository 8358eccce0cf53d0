// SPDX-License-Identifier: Apache-2.0
// Calls that matter to the agent whether or not an instrument has chosen them. A guard stands
// before these functions in every image.
//
// By some calls a program forbids itself what the agent does: reading the clock (strict seccomp,
// prctl(PR_SET_TSC)) and system calls (seccomp). The guard sees them before they are made, and
// again when they have failed. It does not see a raw system call instruction.
//
// vfork returns first in a child, which continues as its parent's thread. If children are not
// followed, a child of fork leaves the shared memory before it does anything else. If they are
// followed, a process leaves the shared memory before it changes its privileges. Otherwise soscope
// is told before the program executes another one in its place, and programs that children execute
// are counted (execs.c).
//
// If calls return through trampolines, walks over the stack leave these out (backtrace.c), and
// functions that ask which library has called them find a return address in that library.
//
// A program that is patched at its launch gets its patches when it calls __libc_start_main.
//
// The guard is in every session, before all other instruments. So it also tells parts of the agent
// that are no instruments about forks and the ends of threads.

#include "hook/guard.h"
#include "base/arch.h"
#include "base/clock.h"
#include "base/instrument.h"
#include "base/sys.h"
#include "call/cell.h"
#include "call/gate.h"
#include "call/handler.h"
#include "call/site.h"
#include "hook/execs.h"
#include "hook/patch.h"
#include "hook/slot.h"
#include "image/image.h"
#include "image/lookup.h"
#include "ring/asksoscope.h"
#include "ring/record.h"
#include "ring/ring.h"
#include "thread/thread.h"

enum { // linux/prctl.h, linux/seccomp.h
	PR_SET_SECCOMP = 22,
	PR_SET_NAME = 15,
	PR_SET_TSC = 26,
	PR_TSC_SIGSEGV = 2,
	SECCOMP_MODE_STRICT = 1,
	SECCOMP_MODE_FILTER = 2,
	SECCOMP_SET_MODE_STRICT = 0,
	SECCOMP_SET_MODE_FILTER = 1,
};

enum {
	GUARD_PRCTL = 1,
	GUARD_SECCOMP,
	GUARD_SYSCALL,
	GUARD_VFORK,
	GUARD_FORK,
	GUARD_RIGHTS,
	GUARD_EXEC,
	// the file is given by a descriptor, or its name is relative to an open folder
	GUARD_EXEC_OPEN,
	GUARD_SPAWN, // another process executes the file; the second argument is its path
	GUARD_SHELL, // the same for a shell; a NULL command starts none
	GUARD_NAME, // of a thread, which may be the process's first thread
	GUARD_BACKTRACE,
	GUARD_WALK,
	GUARD_WALK_IP,
	GUARD_WALK_IP_INFO,
	GUARD_START,
	GUARD_CALLER,
};

static bool begins(const char *text, const char *prefix)
{
	while (*prefix && *text == *prefix)
		text++, prefix++;
	return !*prefix;
}

static bool is_of_unwinder(const struct sosc_candidate *at)
{
	return (at->version && begins(at->version, "GCC_")) ||
	       (at->callee && begins(at->callee->name, "libunwind"));
}

static bool asks_for_walks(const struct sosc_candidate *at)
{
	return sosc_imports(at->image, "_Unwind_Backtrace");
}

// Returns which function for stack walks this is. Addresses of frames are also asked for by code
// that throws exceptions: such code gets the original functions.
static uint32_t walk_kind(const struct sosc_candidate *at)
{
	if (sosc_same(at->symbol, "backtrace") || sosc_same(at->symbol, "__backtrace"))
		return sosc_is_of_libc(at->version, at->callee) ? GUARD_BACKTRACE : 0;
	if (!is_of_unwinder(at))
		return 0;
	if (sosc_same(at->symbol, "_Unwind_Backtrace"))
		return GUARD_WALK;
	if (sosc_same(at->symbol, "_Unwind_GetIP"))
		return asks_for_walks(at) ? GUARD_WALK_IP : 0;
	if (sosc_same(at->symbol, "_Unwind_GetIPInfo"))
		return asks_for_walks(at) ? GUARD_WALK_IP_INFO : 0;
	return 0;
}

// Returns whether the function looks at its return address: the library to search, or the search
// path, depends on it.
static bool asks_for_caller(const struct sosc_candidate *at)
{
	static const char names[][8] = {"dlsym", "dlvsym", "dlopen", "dlmopen"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (sosc_same(at->symbol, names[i]))
			return true;
	return false;
}

static bool is_fork(const char *symbol)
{
	static const char names[][8] = {"fork", "__fork", "_Fork", "forkpty", "daemon"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (sosc_same(symbol, names[i]))
			return true;
	return false;
}

static bool changes_rights(const char *symbol)
{
	static const char names[][12] = {"setuid",   "setgid",	 "seteuid",   "setegid",
					 "setreuid", "setregid", "setresuid", "setresgid",
					 "setfsuid", "setfsgid", "setgroups", "initgroups",
					 "capset",   "unshare",	 "setns"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (sosc_same(symbol, names[i]))
			return true;
	return false;
}

static uint32_t exec_kind(const char *symbol)
{
	static const char names[][8] = {"execve", "execv",  "execvp", "execvpe",
					"execl",  "execlp", "execle"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (sosc_same(symbol, names[i]))
			return GUARD_EXEC;
	return sosc_same(symbol, "fexecve") || sosc_same(symbol, "execveat") ? GUARD_EXEC_OPEN : 0;
}

// Only a non-NULL command starts a shell. The return of system and popen is not hooked, so a failed
// start is not subtracted: it is rare, and code that unwinds system must meet no trampoline of the
// agent.
static uint32_t spawn_kind(const char *symbol)
{
	static const char names[][13] = {"posix_spawn", "posix_spawnp", "pidfd_spawn",
					 "pidfd_spawnp"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (sosc_same(symbol, names[i]))
			return GUARD_SPAWN;
	return sosc_same(symbol, "system") || sosc_same(symbol, "popen") ? GUARD_SHELL : 0;
}

static bool is_of_rights(uint64_t number)
{
	static const uint16_t numbers[] = {SYS_SETUID,	  SYS_SETGID,	 SYS_SETREUID,
					   SYS_SETREGID,  SYS_SETGROUPS, SYS_SETRESUID,
					   SYS_SETRESGID, SYS_SETFSUID,	 SYS_SETFSGID,
					   SYS_CAPSET,	  SYS_UNSHARE,	 SYS_SETNS};

	for (uint32_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (number == numbers[i])
			return true;
	return false;
}

static bool is_told_execs(void)
{
	return sosc_session->flags & SOSC_FLAG_EXECS;
}

/** Return which guard stands before the function of this slot, or 0 if there is none. */
uint32_t sosc_guard_kind(const struct sosc_candidate *at)
{
	const char *symbol = at->symbol;

	if (sosc_patches_wait() && at->image->main && sosc_same(symbol, "__libc_start_main"))
		return GUARD_START;
	if ((is_told_execs() || sosc_execs_wanted()) && exec_kind(symbol))
		return exec_kind(symbol);
	if (sosc_execs_wanted() && spawn_kind(symbol))
		return spawn_kind(symbol);
	if (!sosc_session->plans)
		return 0;
	if (sosc_session->chunks && (sosc_same(symbol, "vfork") || sosc_same(symbol, "__vfork")))
		return GUARD_VFORK;
	if (is_fork(symbol))
		return GUARD_FORK;
	if (sosc_session->flags & SOSC_FLAG_FOLLOW && changes_rights(symbol))
		return GUARD_RIGHTS;
	if (is_told_execs() && sosc_same(symbol, "pthread_setname_np"))
		return GUARD_NAME;
	if (sosc_same(symbol, "prctl"))
		return GUARD_PRCTL;
	if (sosc_same(symbol, "seccomp"))
		return GUARD_SECCOMP;
	if (sosc_same(symbol, "syscall"))
		return GUARD_SYSCALL;
	if (!sosc_instruments_see_exits())
		return 0;
	return asks_for_caller(at) ? GUARD_CALLER : walk_kind(at);
}

uint64_t sosc_guard_handler(uint32_t kind)
{
	switch (kind) {
	case GUARD_BACKTRACE:
		return (uint64_t)sosc_h_backtrace;
	case GUARD_WALK:
		return (uint64_t)sosc_h_walk;
	case GUARD_WALK_IP:
		return (uint64_t)sosc_h_walk_ip;
	case GUARD_WALK_IP_INFO:
		return (uint64_t)sosc_h_walk_ip_info;
	default:
		return (uint64_t)sosc_h_layer;
	}
}

static void no_clock(void)
{
	if (!(sosc_needs & SOSC_NEEDS_CLOCK))
		return; // the session does not read the clock
	sosc_clock_off = 1;
	__atomic_fetch_or(&sosc_control->agent_flags, (uint32_t)SOSC_AGENT_TSC_OFF,
			  __ATOMIC_RELAXED);
}

// Adds @change to the count of filters of the caller's process. A vfork child has its parent's
// memory, but its own filters.
static void seal(int32_t change)
{
	struct sosc_thread *thread = sosc_thread_self();

	if (thread && thread->borrowed) {
		if (thread->sealed < UINT8_MAX) // counts that high are never taken back
			thread->sealed = (uint8_t)(thread->sealed + change);
	} else {
		(void)__atomic_add_fetch(&sosc_sealed, (uint32_t)change, __ATOMIC_RELAXED);
	}
}

static void is_renamed(void)
{
	__atomic_fetch_or(&sosc_control->agent_flags, (uint32_t)SOSC_AGENT_RENAMED,
			  __ATOMIC_RELAXED);
}

// Returns whether the call is about to forbid system calls.
static bool prctl_called(uint64_t option, uint64_t argument)
{
	if (option == PR_SET_NAME)
		is_renamed();
	if (option == PR_SET_TSC && argument == PR_TSC_SIGSEGV)
		no_clock();
	if (option == PR_SET_SECCOMP && argument == SECCOMP_MODE_STRICT)
		no_clock();
	return option == PR_SET_SECCOMP;
}

static bool seccomp_called(uint64_t operation)
{
	if (operation == SECCOMP_SET_MODE_STRICT)
		no_clock();
	return operation == SECCOMP_SET_MODE_STRICT || operation == SECCOMP_SET_MODE_FILTER;
}

static bool forbids(uint64_t kind, struct sosc_regs *regs)
{
	uint64_t first = *sosc_argument(regs, 0), second = *sosc_argument(regs, 1);

	switch (kind) {
	case GUARD_PRCTL:
		return prctl_called(first, second);
	case GUARD_SECCOMP:
		return seccomp_called(first);
	case GUARD_SYSCALL:
		if (first == SYS_PRCTL)
			return prctl_called(second, *sosc_argument(regs, 2));
		return first == SYS_SECCOMP && seccomp_called(second);
	default:
		return false;
	}
}

// Returns whether a call for which forbids() is true passes no filter: such a call only asks
// whether filters are supported, and fails.
static bool only_asks(uint64_t kind, struct sosc_regs *regs)
{
	uint32_t first = kind == GUARD_SYSCALL;
	bool by_prctl = kind == GUARD_PRCTL ||
			(kind == GUARD_SYSCALL && *sosc_argument(regs, 0) == SYS_PRCTL);
	uint64_t mode = *sosc_argument(regs, first + by_prctl);

	return mode == (by_prctl ? SECCOMP_MODE_FILTER : SECCOMP_SET_MODE_FILTER) &&
	       !*sosc_argument(regs, first + 2);
}

// If a function that is timed or recorded tail-calls this one, the return address is in a return
// trampoline. Replaces it by the address that the trampoline stands for. The return of that
// function is not seen then.
static void find_caller(uint64_t *ret)
{
	uint64_t addr = sosc_site_returns_to(*ret);

	if (addr)
		*ret = addr;
}

// Returns whether the call executes a program in place of the caller's. @path is then the address
// of its path, 0 if the call gives none.
static bool executes(uint64_t kind, struct sosc_regs *regs, uint64_t *path)
{
	uint64_t first = *sosc_argument(regs, 0);
	bool is_open = kind == GUARD_EXEC_OPEN || (kind == GUARD_SYSCALL && first == SYS_EXECVEAT);

	*path = is_open ? 0 : *sosc_argument(regs, kind == GUARD_SYSCALL);
	return kind == GUARD_EXEC || is_open || (kind == GUARD_SYSCALL && first == SYS_EXECVE);
}

// Does what is needed before a program is executed. Returns whether the guard has to see if that
// fails.
static bool tell_exec(uint64_t kind, const struct sosc_call *call)
{
	static const char shell[] = "sh";
	uint64_t first = *sosc_argument(call->regs, 0), path;

	if (executes(kind, call->regs, &path)) {
		if (sosc_execs_is_child(call->thread))
			return sosc_execs_wanted() && sosc_execs_begin(call->thread, path);
		if (!is_told_execs())
			return false;
		sosc_tell_exec(call->thread, path);
		return sosc_execs_begin_here(call->thread);
	}
	if (!sosc_execs_wanted())
		return false;
	if (kind == GUARD_SHELL && first)
		(void)sosc_execs_begin(call->thread, (uint64_t)shell);
	return kind == GUARD_SPAWN && sosc_execs_begin(call->thread, *sosc_argument(call->regs, 1));
}

static enum sosc_next entry(struct sosc_call *call)
{
	uint64_t kind = sosc_lazy[call->cell].index;
	bool is_forbidding = forbids(kind, call->regs), is_telling;

	if ((is_forbidding && !only_asks(kind, call->regs)) || kind == GUARD_RIGHTS ||
	    (kind == GUARD_SYSCALL && is_of_rights(*sosc_argument(call->regs, 0))))
		sosc_thread_changes_rights(call->thread);
	is_telling = tell_exec(kind, call);
	if (kind == GUARD_START)
		sosc_patches_begin();
	if (kind == GUARD_NAME)
		is_renamed();
	if (kind == GUARD_CALLER)
		find_caller(&call->regs->ret);
	if (kind == GUARD_FORK) {
		sosc_thread_forks();
		return SOSC_GO_ON_AND_COME_BACK; // on return the child notices that it is a child
	}
	if (is_forbidding)
		seal(1);
	else if (!is_telling && (kind != GUARD_VFORK || !call->thread))
		return SOSC_GO_ON;
	return SOSC_GO_ON_AND_COME_BACK;
}

static void exit(struct sosc_call *call)
{
	uint64_t kind = sosc_lazy[call->cell].index;

	int32_t result = (int32_t)*sosc_result(call->regs);

	if (kind == GUARD_FORK)
		return;
	if (kind == GUARD_VFORK) {
		if (call->thread)
			sosc_thread_vforked(call->thread, !*sosc_result(call->regs));
	} else if (kind == GUARD_EXEC || kind == GUARD_EXEC_OPEN || kind == GUARD_SPAWN) {
		if (result)
			(void)sosc_execs_failed(call->thread);
	} else if (result < 0) {
		if (kind == GUARD_SYSCALL && sosc_execs_failed(call->thread))
			return; // an exec, not a filter
		seal(-1);
	} else {
		__atomic_fetch_or(&sosc_control->agent_flags, (uint32_t)SOSC_AGENT_SEALED,
				  __ATOMIC_RELAXED);
	}
}

// This is a forked child that is recorded.
static void forked(void)
{
	sosc_images_forked(sosc_process_id, sosc_parent_id);
	sosc_gate_forked();
}

void sosc_instrument_guard(struct sosc_instrument *instrument)
{
	instrument->needs = SOSC_NEEDS_EVERY_CALL;
	instrument->entry = entry;
	instrument->exit = exit;
	instrument->forked = forked;
	instrument->quiet = sosc_gate_rest;
	instrument->part = sosc_ring_part;
}
