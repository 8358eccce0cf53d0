// SPDX-License-Identifier: Apache-2.0
// How far a stack reaches. Mappings do not tell: what lies above a stack may be in the same one.

#include "stack/view.h"
#include "base/arch.h"
#include "base/memory.h"
#include "base/state.h"
#include "stack/threadblock.h"
#include "thread/thread.h"

enum { MOST = 2048 }; // pages of the first thread's stack that are asked for at once

static uint64_t first_low; // from here on the first thread's stack is there; 0: nobody has asked

static inline uint64_t page_of(uint64_t addr)
{
	return addr & ~(uint64_t)(SOSC_PAGE - 1);
}

// Whether @sp lies in the stack that the kernel has made for the program. That grows down, and the
// kernel leaves a gap below it: what is there up to its end is in it.
static bool is_on_first(const struct sosc_thread *thread, uint64_t sp)
{
	uint64_t low = __atomic_load_n(&first_low, __ATOMIC_RELAXED), page = page_of(sp);

	if (sp >= sosc_stack_end)
		return false;
	if (!low)
		low = page_of(sosc_stack_end + SOSC_PAGE - 1);
	if (page >= low)
		return true;
	if (low - page > (uint64_t)MOST * SOSC_PAGE || sosc_is_sealed(thread))
		return false;
	for (uint64_t at = page + SOSC_PAGE; at < low; at += SOSC_PAGE)
		if (!sosc_is_readable(at))
			return false;
	__atomic_store_n(&first_low, page, __ATOMIC_RELAXED);
	return true;
}

// The block that the C library has for this thread. In the page of the thread pointer its words are
// read as they are. Elsewhere they may not be there: some programs make threads without the library.
// The first thread has no block, and is not who can tell how one looks.
static bool find_block(const struct sosc_thread *thread, uint64_t tp,
		       struct sosc_thread_block *block)
{
	uint32_t at = sosc_thread_block_at();

	if (at && page_of(tp) == page_of(tp + at + SOSC_BLOCK_WORDS * 8 - 1))
		return sosc_thread_block(0, tp, block);
	return (at || thread->tid != thread->pid) && !sosc_is_sealed(thread) &&
	       sosc_thread_block(thread->tid, tp, block);
}

/** Whether @sp lies in the stack that @thread, which asks, was made with, and where that is. */
bool sosc_view_own(const struct sosc_thread *thread, uint64_t sp, uint64_t *low, uint64_t *high)
{
	uint64_t tp = sosc_thread_pointer();
	struct sosc_thread_block block;

	if (is_on_first(thread, sp)) {
		*low = __atomic_load_n(&first_low, __ATOMIC_RELAXED);
		*high = sosc_stack_end;
		return true;
	}
	if (!find_block(thread, tp, &block) || sp < block.addr || sp >= tp)
		return false;
	*low = block.addr;
	*high = tp & ~7ull;
	return true;
}

/** A call on another stack than the thread's last one, or at another place of it. */
void sosc_view_find(struct sosc_view *view, const struct sosc_thread *thread, uint64_t sp)
{
	uint64_t low = page_of(sp), high = low + SOSC_PAGE;
	bool is_whole = sosc_view_own(thread, sp, &low, &high);

	do { // a signal handler may find its own stack in between
		view->high = 0;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		view->low = low;
		view->is_whole = is_whole;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		view->high = high;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	} while (view->low != low || view->is_whole != is_whole);
}

/** Read a word of a stack that may be over by now; false: it is not there. */
bool sosc_view_read(const struct sosc_view *view, const struct sosc_thread *thread, uint64_t addr,
		    uint64_t *word)
{
	if (!sosc_view_has(view, addr))
		return !sosc_is_sealed(thread) &&
		       sosc_read(thread->tid, word, addr, sizeof(*word)) == sizeof(*word);
	*word = *(const uint64_t *)addr;
	return true;
}
