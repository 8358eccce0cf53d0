// SPDX-License-Identifier: Apache-2.0
// The control blocks of this process and their plans: where they lie, what the present plan
// contains, and how a child leaves them if it is not followed. A plan lies behind its block. This
// process can only read the plan, and only soscope can write to the plan's file. This file also
// defines the variables that every part reads (state.h), except those at fixed addresses
// (arch_x86_64_pages.S).

#include "base/session.h"
#include "base/signals.h"
#include "base/state.h"
#include "base/sys.h"

uint64_t sosc_base;
uint64_t sosc_stack_end;
uint32_t sosc_sealed;
struct sosc_layer sosc_layers[SOSC_MAX_SLOTS];

struct sosc_control *sosc_control;
const struct sosc_session *sosc_session;

// The places of control blocks. Sessions take the places in turn, and the present session has taken
// the latest. A block of an earlier session stays mapped: a signal handler may have interrupted the
// agent in the middle of a record, and may return at any time. A place is reused after seven more
// sessions.
static struct block {
	uint64_t at, size; // including the plan
	uint64_t plan, plan_size;
	struct sosc_session session;
} blocks[SOSC_BLOCKS];
static uint32_t block_number;

// The variables above point here while the agent rests.
static struct sosc_control no_control;
static struct sosc_session no_session;

static uint64_t whole_pages(uint64_t size)
{
	return (size + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1);
}

// Reserves an address range aligned to the chunk size, so that the address of a unit gives its
// offset in its chunk.
static long reserve(struct block *block, uint64_t size)
{
	const uint64_t mask = SOSC_CHUNK_SIZE - 1;
	uint64_t room = size + SOSC_CHUNK_SIZE, at, end;
	void *map;

	if (block->size >= size)
		return 0;
	map = sosc_mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sosc_mmap_failed(map))
		return (long)map;
	at = ((uint64_t)map + mask) & ~mask;
	end = at + whole_pages(size);
	if (at > (uint64_t)map)
		(void)sosc_sys3(SYS_MUNMAP, (long)map, (long)(at - (uint64_t)map), 0);
	if ((uint64_t)map + room > end)
		(void)sosc_sys3(SYS_MUNMAP, (long)end, (long)((uint64_t)map + room - end), 0);
	block->at = at;
	block->size = end - at;
	return 0;
}

/** Map the control block and the plan of a new session. Return 0 or -errno. */
long sosc_session_map(const struct sosc_start *start)
{
	struct block *block = &blocks[block_number % SOSC_BLOCKS];
	uint64_t behind = whole_pages(start->control_size);
	long error = reserve(block, behind + start->plan_size);
	void *map, *plan;

	if (error)
		return error;
	map = sosc_mmap((void *)block->at, start->control_size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_FIXED, start->control_fd, 0);
	if (sosc_mmap_failed(map))
		return (long)map;
	plan = sosc_mmap((void *)(block->at + behind), start->plan_size, PROT_READ,
			 MAP_SHARED | MAP_FIXED, start->plan_fd, 0);
	if (sosc_mmap_failed(plan))
		return (long)plan;
	block->plan = (uint64_t)plan;
	block->plan_size = start->plan_size;
	block_number++;
	sosc_control = map;
	return 0;
}

/**
 * Free the memory of the previous session's plan: soscope cannot punch holes into a sealed file.
 * Code that still uses that plan reads zeros.
 */
void sosc_session_forget_plan(void)
{
	struct block *block = &blocks[(block_number - 2) % SOSC_BLOCKS];

	if (block_number > 1 && block->plan_size)
		sosc_session_replace(block->plan, block->plan_size, 0);
	block->plan_size = 0;
}

/**
 * The session is over, and no thread is in the agent: unmap all blocks and plans. Code that still
 * looks at a block finds an empty one, in which the session has ended.
 */
void sosc_session_rest(void)
{
	no_control.magic = SOSC_MAGIC;
	no_control.wire_version = SOSC_WIRE_VERSION;
	no_control.command = SOSC_COMMAND_STOP;
	no_session.control = &no_control;
	sosc_control = &no_control;
	sosc_session = &no_session;
	for (uint32_t i = 0; i < SOSC_BLOCKS; i++) {
		struct block *block = &blocks[i];

		if (!block->size || sosc_sys3(SYS_MUNMAP, (long)block->at, (long)block->size, 0))
			continue;
		memset(block, 0, sizeof(*block));
	}
	block_number = 0;
	sosc_inside.control = (uint64_t)sosc_control;
	sosc_inside.control_size = SOSC_PAGE;
}

/** Return the place in which the present control block lies. */
uint32_t sosc_session_place(void)
{
	return (block_number - 1) % SOSC_BLOCKS;
}

static bool is_in(const struct sosc_range *range, uint64_t size)
{
	return range->offset <= size && range->size <= size - range->offset;
}

static bool is_of_plan(uint32_t section)
{
	return section == SOSC_SEC_PATTERNS || section == SOSC_SEC_RULES ||
	       section == SOSC_SEC_FUNCTIONS || section == SOSC_SEC_PATCHES;
}

// Returns whether everything lies in the @size bytes of the block and the @plan_size bytes of the
// plan. The last count arrays of the block are mapped only when a thread needs them.
static bool fits(const struct sosc_session *session, uint64_t size, uint64_t plan_size)
{
	const struct sosc_range *section = session->section;

	for (uint32_t i = 0; i < SOSC_SECTIONS; i++)
		if (i != SOSC_SEC_COUNTS && !is_in(&section[i], is_of_plan(i) ? plan_size : size))
			return false;
	for (uint32_t i = 0; i < session->plans; i++) {
		const struct sosc_plan *plan = &session->plan[i];

		if (!is_in(&plan->own, size) || !is_in(&plan->given, plan_size) ||
		    plan->functions > section[SOSC_SEC_FUNCTIONS].size)
			return false;
	}
	return section[SOSC_SEC_COUNTS].offset <= size &&
	       section[SOSC_SEC_MATCHES].size / sizeof(uint32_t) >= session->rules &&
	       section[SOSC_SEC_PATCHED].size >= section[SOSC_SEC_PATCHES].size &&
	       section[SOSC_SEC_RING].size / SOSC_CHUNK_SIZE >= session->chunks &&
	       section[SOSC_SEC_CHUNK_STATES].size / sizeof(uint32_t) >= session->chunks;
}

/**
 * Read what the plan of @size bytes at @head says about itself and about the block, of which
 * @control_size bytes are mapped. Return false if the plan is not consistent.
 */
bool sosc_session_begin(uint64_t control_size, const struct sosc_plan_head *head, uint64_t size)
{
	struct sosc_session *session = &blocks[sosc_session_place()].session;
	uint64_t behind = (uint64_t)head - (uint64_t)sosc_control;

	if (size < sizeof(*head) || head->magic != SOSC_PLAN_MAGIC ||
	    head->head_size != sizeof(*head) || head->plans > SOSC_PLANS ||
	    head->spare_chunks > head->chunks)
		return false;
	session->control = sosc_control;
	session->head = head;
	session->flags = head->flags;
	session->string_limit = head->string_limit;
	session->chunks = head->chunks;
	session->usual_chunks = head->chunks - head->spare_chunks;
	session->count_arrays = head->count_arrays;
	session->rules = (uint32_t)(head->section[SOSC_SEC_RULES].size / sizeof(struct sosc_rule));
	session->plans = head->plans;
	memcpy(session->section, head->section, sizeof(session->section));
	memcpy(session->plan, head->plan, sizeof(session->plan));
	if (!fits(session, control_size, size))
		return false;
	for (uint32_t i = 0; i < SOSC_SECTIONS; i++)
		if (is_of_plan(i))
			session->section[i].offset += behind;
	for (uint32_t i = 0; i < session->plans; i++)
		session->plan[i].given.offset += behind;
	__atomic_store_n(&sosc_session, session, __ATOMIC_RELEASE);
	return true;
}

/** Return the plan that was mapped last. */
const struct sosc_plan_head *sosc_session_plan(void)
{
	return (const struct sosc_plan_head *)blocks[sosc_session_place()].plan;
}

/**
 * Let no call return through a trampoline, whatever the plans say. To be called before anything is
 * hooked.
 */
void sosc_session_see_no_exits(void)
{
	struct sosc_session *session = &blocks[sosc_session_place()].session;

	for (uint32_t i = 0; i < session->plans; i++)
		session->plan[i].flags |= SOSC_PLAN_ENTRY_ONLY;
}

/**
 * Replace shared memory by private zeros. Its first @kept bytes, at most a page, keep their
 * contents.
 */
void sosc_session_replace(uint64_t at, uint64_t size, uint64_t kept)
{
	static uint8_t page[SOSC_PAGE];
	uint64_t before;

	if (!sosc_signals_hold(sosc_is_process_sealed(), &before))
		return;
	memcpy(page, (const void *)at, kept);
	if (!sosc_mmap_failed(sosc_mmap((void *)at, size, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
					0)))
		memcpy((void *)at, page, kept);
	sosc_signals_release(&before);
}

/**
 * This is a child that is not followed. It may go on with other privileges, so what it writes must
 * not reach its parent. From here on the child sees a copy of the first page of the present block,
 * and zeros in place of everything else.
 */
void sosc_session_leave(void)
{
	for (uint32_t i = 0; i < SOSC_BLOCKS; i++)
		if (blocks[i].size)
			sosc_session_replace(blocks[i].at, blocks[i].size,
					     i == sosc_session_place() ? SOSC_PAGE : 0);
}
