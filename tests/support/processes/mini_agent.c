// SPDX-License-Identifier: Apache-2.0
// An agent that does nothing but answer: for tests of the way in, without the real one.
//
// It writes what it was told into the shared file, closes all descriptors as the real one
// does, and counts the loader's events there. With MINI_FAIL it refuses after that; with
// MINI_FAULT it crashes; with MINI_HANG it does not come back.
#include <soscope/wire.h>

#define SYSCALL(ret, nr, a, b, c, d, e, f)                                          \
	do {                                                                        \
		register long r10 __asm__("r10") = (long)(d);                       \
		register long r8 __asm__("r8") = (long)(e);                         \
		register long r9 __asm__("r9") = (long)(f);                         \
		__asm__ volatile("syscall"                                          \
				 : "=a"(ret)                                        \
				 : "a"((long)(nr)), "D"((long)(a)), "S"((long)(b)), \
				   "d"((long)(c)), "r"(r10), "r"(r8), "r"(r9)       \
				 : "rcx", "r11", "memory");                         \
	} while (0)

#define PUBLIC __attribute__((visibility("default")))

// The answer lies in the shared file, behind the control page.
struct answer {
	struct sosc_start start;
	uint64_t events; // calls of sosc_loader_event
	uint64_t rsp; // at the call of start
	uint64_t entry_page, site_page; // first words of the two pages in the blob file
};

PUBLIC long soscope_agent_start(const struct sosc_start *start)
{
	struct answer *answer;
	long ret;

	SYSCALL(ret, 9, start->base + SOSC_BLOB_DATA, 2 * SOSC_PAGE, 3, 0x11, start->control_fd, 0);
	if (ret < 0)
		return ret;
	answer = (struct answer *)(ret + SOSC_PAGE);
	SYSCALL(ret, 9, start->base + SOSC_BLOB_DATA + 2 * SOSC_PAGE, start->plan_size, 1, 0x11,
		start->plan_fd, 0);
	if (ret < 0)
		return ret;
	answer->start = *start;
	answer->rsp = (uint64_t)__builtin_frame_address(0);
	SYSCALL(ret, 17, start->blob_fd, &answer->entry_page, 8, start->pages_offset, 0, 0);
	SYSCALL(ret, 17, start->blob_fd, &answer->site_page, 8,
		start->pages_offset + SOSC_BLOB_REPEAT * SOSC_PAGE, 0, 0);
	SYSCALL(ret, 3, start->blob_fd, 0, 0, 0, 0, 0);
	SYSCALL(ret, 3, start->control_fd, 0, 0, 0, 0, 0);
	SYSCALL(ret, 3, start->plan_fd, 0, 0, 0, 0, 0);
	SYSCALL(ret, 3, start->execs_fd, 0, 0, 0, 0, 0);
#ifdef MINI_FAULT
	*(volatile int *)8 = 1;
#endif
#ifdef MINI_HANG
	for (;;)
		__asm__ volatile("pause");
#endif
#ifdef MINI_FAIL
	return -22;
#endif
	return 0;
}

PUBLIC long soscope_agent_load(void *unused)
{
	(void)unused;
	return 0;
}

PUBLIC long soscope_agent_unload(const uint64_t *handle)
{
	(void)handle;
	return 0;
}

PUBLIC long soscope_agent_objects(const void *call)
{
	(void)call;
	return 0;
}

PUBLIC long soscope_agent_hook(uint64_t ns)
{
	return (long)ns & 0; // nothing is left
}

extern const char base[] __asm__("__ehdr_start") __attribute__((visibility("hidden")));

PUBLIC void sosc_loader_event(void)
{
	((struct answer *)(base + SOSC_BLOB_DATA + SOSC_PAGE))->events++;
}

__asm__(".globl sosc_trap, sosc_entry_page, sosc_site_page, sosc_counter_page\n"
	".type sosc_trap, @function\n"
	"sosc_trap: int3\n"
	".balign 4096\n"
	"sosc_entry_page: .fill 512, 8, 0x1111111111111111\n"
	"sosc_site_page: .fill 512, 8, 0x2222222222222222\n"
	"sosc_counter_page: .fill 512, 8, 0x3333333333333333\n");
