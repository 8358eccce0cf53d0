// SPDX-License-Identifier: Apache-2.0
// The control blocks of this process: where they lie, what the present block says of itself, and
// how a child leaves them if nobody follows it.

#include "session.h"
#include "chunk.h"
#include "counts.h"
#include "signals.h"
#include "start.h"
#include "sys.h"

struct sosc_control *sosc_control;
const struct sosc_session *sosc_session;

// The places of control blocks. Sessions take them by turns, and the present session has taken the
// latest one. A block of an earlier session stays mapped: a signal handler may have interrupted
// the agent in the middle of a record, and may return at any time. A place is taken again when
// seven sessions have passed.
static struct block {
	uint64_t at, size;
	struct sosc_session session;
} blocks[SOSC_BLOCKS];
static uint32_t block_number;

// An address range that is a multiple of the chunk size: a unit's place in its chunk is
// read off its address.
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
	end = (at + size + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1);
	if (at > (uint64_t)map)
		(void)sosc_sys3(SYS_MUNMAP, (long)map, (long)(at - (uint64_t)map), 0);
	if ((uint64_t)map + room > end)
		(void)sosc_sys3(SYS_MUNMAP, (long)end, (long)((uint64_t)map + room - end), 0);
	block->at = at;
	block->size = end - at;
	return 0;
}

/** Map the control block of a new session. Return: 0 or -errno. */
long sosc_session_map(const struct sosc_start *start)
{
	struct block *block = &blocks[block_number % SOSC_BLOCKS];
	long error = reserve(block, start->control_size);
	void *map;

	if (error)
		return error;
	map = sosc_mmap((void *)block->at, start->control_size, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_FIXED, start->control_fd, 0);
	if (sosc_mmap_failed(map))
		return (long)map;
	block_number++;
	sosc_control = map;
	return 0;
}

/** In which of the places that control blocks take by turns the present one lies. */
uint32_t sosc_session_place(void)
{
	return (block_number - 1) % SOSC_BLOCKS;
}

static bool is_in(const struct sosc_range *range, uint64_t size)
{
	return range->offset <= size && range->size <= size - range->offset;
}

// Whether all that the block has lies in its @size bytes. Of its count arrays the last are mapped
// when a thread needs them.
static bool fits(const struct sosc_session *session, uint64_t size)
{
	const struct sosc_range *section = session->section;

	for (uint32_t i = 0; i < SOSC_SECTIONS; i++)
		if (i != SOSC_SEC_COUNTS && !is_in(&section[i], size))
			return false;
	for (uint32_t i = 0; i < session->plans; i++)
		if (!is_in(&session->plan[i].own, size))
			return false;
	return section[SOSC_SEC_COUNTS].offset <= size &&
	       section[SOSC_SEC_RING].size / SOSC_CHUNK_SIZE >= session->chunks &&
	       section[SOSC_SEC_CHUNK_STATES].size / sizeof(uint32_t) >= session->chunks;
}

/** Read what the block of @size bytes that was mapped says of itself; false: it cannot be. */
bool sosc_session_begin(uint64_t size)
{
	const struct sosc_control *control = sosc_control;
	struct sosc_session *session = &blocks[sosc_session_place()].session;

	session->control = sosc_control;
	session->flags = control->flags;
	session->chunks = control->chunks;
	session->usual_chunks = control->chunks - (uint32_t)control->spare_chunks;
	session->plans = control->plans;
	memcpy(session->section, control->section, sizeof(session->section));
	memcpy(session->plan, control->plan, sizeof(session->plan));
	if (session->plans > SOSC_PLANS || session->usual_chunks > session->chunks ||
	    !fits(session, size))
		return false;
	__atomic_store_n(&sosc_session, session, __ATOMIC_RELEASE);
	return true;
}

/** Have no call return through a trampoline, whatever the plans say. Before anything is hooked. */
void sosc_session_see_no_exits(void)
{
	struct sosc_session *session = &blocks[sosc_session_place()].session;

	for (uint32_t i = 0; i < session->plans; i++)
		session->plan[i].flags |= SOSC_PLAN_ENTRY_ONLY;
}

/**
 * Put zeros of this process's own in the place of shared memory, which begins with @kept bytes, at
 * most a page, that are there already.
 */
void sosc_session_replace(uint64_t at, uint64_t size, uint64_t kept)
{
	static uint8_t page[SOSC_PAGE];
	uint64_t before;

	if (!sosc_signals_hold(NULL, &before))
		return;
	memcpy(page, (const void *)at, kept);
	if (!sosc_mmap_failed(sosc_mmap((void *)at, size, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
					0)))
		memcpy((void *)at, page, kept);
	sosc_signals_release(&before);
}

/**
 * This is a child, and nobody follows it. The child may go on with other rights, so what it writes
 * must not reach its parent. From here on the child reads the first page of the present block, and
 * zeros in the place of all else.
 */
void sosc_session_leave(void)
{
	for (uint32_t i = 0; i < SOSC_BLOCKS; i++)
		if (blocks[i].size)
			sosc_session_replace(blocks[i].at, blocks[i].size,
					     i == sosc_session_place() ? SOSC_PAGE : 0);
	sosc_counts_leave();
}
