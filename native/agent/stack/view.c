// SPDX-License-Identifier: Apache-2.0
// The bounds of a stack. The mapping does not give them, because other memory above the stack may
// be in the same mapping.

#include "stack/view.h"
#include "base/arch.h"
#include "base/memory.h"
#include "base/state.h"
#include "stack/threadblock.h"
#include "thread/thread.h"

enum { MOST = 2048 }; // most pages of the first thread's stack that are checked at a time

// the first thread's stack can be read from here on, 0 if not checked yet
static uint64_t first_low;

static inline uint64_t page_of(uint64_t addr)
{
	return addr & ~(uint64_t)(SOSC_PAGE - 1);
}

// Returns whether @sp lies in the stack that the kernel has made for the program. That stack grows
// down, and the kernel leaves a gap below it, so everything that is mapped without a gap up to its
// end belongs to it.
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

// Finds the block that the C library has mapped for this thread. In the page of the thread pointer
// the words can be read directly. Elsewhere they may be unmapped, because some programs create
// threads without the library. The first thread has no block, so the offset of the words cannot be
// learned from it.
static bool find_block(const struct sosc_thread *thread, uint64_t tp,
		       struct sosc_thread_block *block)
{
	uint32_t at = sosc_thread_block_at();

	if (at && page_of(tp) == page_of(tp + at + SOSC_BLOCK_WORDS * 8 - 1))
		return sosc_thread_block(0, tp, block);
	return (at || thread->tid != thread->pid) && !sosc_is_sealed(thread) &&
	       sosc_thread_block(thread->tid, tp, block);
}

/**
 * Return whether @sp lies in the stack that @thread, the caller, was created with, and the bounds
 * of that stack.
 */
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

/**
 * Update the view for a call on another stack than the thread's last call, or at another place in
 * the stack.
 */
void sosc_view_find(struct sosc_view *view, const struct sosc_thread *thread, uint64_t sp)
{
	uint64_t low = page_of(sp), high = low + SOSC_PAGE;
	bool is_whole = sosc_view_own(thread, sp, &low, &high);

	do { // a signal handler may set its own stack meanwhile
		view->high = 0;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		view->low = low;
		view->is_whole = is_whole;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		view->high = high;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	} while (view->low != low || view->is_whole != is_whole);
}

/** Read a word of a stack that may no longer exist. Return false if it cannot be read. */
bool sosc_view_read(const struct sosc_view *view, const struct sosc_thread *thread, uint64_t addr,
		    uint64_t *word)
{
	if (!sosc_view_has(view, addr))
		return !sosc_is_sealed(thread) &&
		       sosc_read(thread->tid, word, addr, sizeof(*word)) == sizeof(*word);
	*word = *(const uint64_t *)addr;
	return true;
}
