// SPDX-License-Identifier: Apache-2.0
// Calls by which a program forbids itself what the agent does: rdtsc (strict
// seccomp, prctl(PR_SET_TSC)) and system calls (seccomp). Seen before they are
// made; a raw system instruction is not seen.

#include "agent.h"

enum { // linux/prctl.h, linux/seccomp.h, asm/unistd_64.h
	NR_PRCTL = 157,
	NR_SECCOMP = 317,
	PR_SET_SECCOMP = 22,
	PR_SET_TSC = 26,
	PR_TSC_SIGSEGV = 2,
	SECCOMP_MODE_STRICT = 1,
	SECCOMP_SET_MODE_STRICT = 0,
	SECCOMP_SET_MODE_FILTER = 1,
};

enum { GUARD_PRCTL = 1, GUARD_SECCOMP = 2, GUARD_SYSCALL = 3 };

uint32_t sosc_guard_kind(const char *symbol)
{
	if (sosc_control->mode == SOSC_MODE_COUNT)
		return 0; // which does neither
	if (sosc_same(symbol, "prctl"))
		return GUARD_PRCTL;
	if (sosc_same(symbol, "seccomp"))
		return GUARD_SECCOMP;
	return sosc_same(symbol, "syscall") ? GUARD_SYSCALL : 0;
}

static void no_clock(void)
{
	sosc_clock_off = 1;
	__atomic_fetch_or(&sosc_control->agent_flags, (uint32_t)SOSC_AGENT_TSC_OFF,
			  __ATOMIC_RELAXED);
}

static void no_system_calls(void)
{
	__atomic_fetch_or(&sosc_control->flags, (uint32_t)SOSC_FLAG_NO_SYSCALL, __ATOMIC_RELAXED);
	__atomic_fetch_or(&sosc_control->agent_flags, (uint32_t)SOSC_AGENT_SEALED,
			  __ATOMIC_RELAXED);
}

static void prctl_called(uint64_t option, uint64_t argument)
{
	if (option == PR_SET_TSC && argument == PR_TSC_SIGSEGV)
		no_clock();
	if (option == PR_SET_SECCOMP) {
		no_system_calls();
		if (argument == SECCOMP_MODE_STRICT)
			no_clock();
	}
}

static void seccomp_called(uint64_t operation)
{
	if (operation != SECCOMP_SET_MODE_STRICT && operation != SECCOMP_SET_MODE_FILTER)
		return;
	no_system_calls();
	if (operation == SECCOMP_SET_MODE_STRICT)
		no_clock();
}

void sosc_guard(const struct sosc_regs *regs)
{
	const struct sosc_cell *cell = (const void *)regs->r11;

	switch (sosc_lazy[sosc_cell_index(cell)].index) {
	case GUARD_PRCTL:
		prctl_called(regs->rdi, regs->rsi);
		break;
	case GUARD_SECCOMP:
		seccomp_called(regs->rdi);
		break;
	case GUARD_SYSCALL:
		if (regs->rdi == NR_PRCTL)
			prctl_called(regs->rsi, regs->rdx);
		else if (regs->rdi == NR_SECCOMP)
			seccomp_called(regs->rsi);
		break;
	default:
		break;
	}
}
