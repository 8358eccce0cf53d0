// SPDX-License-Identifier: Apache-2.0
// mmap, munmap, mremap, brk and sbrk: address ranges that are mapped and unmapped. Mappings that an
// allocator makes for its own blocks are not recorded, because the program has only asked for the
// blocks.

#include "base/sys.h"
#include "blocks/blocks.h"
#include "image/image.h"
#include "thread/thread.h"

enum {
	FAR = 65536, // most bytes of stack that an allocator uses before it maps memory
	MREMAP_DONTUNMAP = 4,
};

/** Call the function itself. */
uint64_t sosc_mapping_go_on(const struct sosc_cell *cell, const uint64_t arg[6])
{
	uint64_t (*original)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
		(void *)__atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);

	return original(arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

/** Return whether the program itself makes the call, and not an allocator. */
bool sosc_mapping_begin(struct sosc_block_call *call)
{
	const struct sosc_loaded *allocator = sosc_block_allocator;

	return sosc_block_call_begin(call) && !sosc_block_is_inside(call, FAR) &&
	       !(allocator && sosc_image_of(sosc_returns_to(call)) == allocator);
}

// Rounds a size up as the kernel does.
static uint64_t pages(uint64_t size)
{
	return (size + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1);
}

static void unmapped(const struct sosc_block_call *call, uint64_t addr, uint64_t size)
{
	(void)sosc_block_write(call, SOSC_UNIT_UNMAPPED, addr, size, 0);
}

static void kept(const struct sosc_block_call *call, uint64_t addr)
{
	(void)sosc_block_write(call, SOSC_UNIT_KEPT, addr, 0, 0);
}

static void mapped(const struct sosc_block_call *call, uint64_t addr, uint64_t size,
		   enum sosc_block_api api)
{
	(void)sosc_block_write(call, SOSC_UNIT_MAPPED, addr, size,
			       sosc_block_mapping_stack(call, api));
}

uint64_t sosc_block_mmap(struct sosc_mapping_call *said)
{
	struct sosc_block_call call = {
		.cell = said->cell, .sp = (uint64_t)&said->ret, .fp = said->fp};
	uint64_t result = sosc_mapping_go_on(said->cell, said->arg);

	if (!sosc_mmap_failed((void *)result) && sosc_mapping_begin(&call))
		mapped(&call, result, said->arg[1], SOSC_API_MMAP);
	return result;
}

uint64_t sosc_block_mremap(struct sosc_mapping_call *said)
{
	struct sosc_block_call call = {
		.cell = said->cell, .sp = (uint64_t)&said->ret, .fp = said->fp};
	uint64_t addr = said->arg[0], size = said->arg[1], result;
	bool leaves = size && !(said->arg[3] & MREMAP_DONTUNMAP);

	if (!sosc_mapping_begin(&call))
		return sosc_mapping_go_on(said->cell, said->arg);
	if (leaves)
		unmapped(&call, addr, pages(size));
	result = sosc_mapping_go_on(said->cell, said->arg);
	if (!sosc_mmap_failed((void *)result))
		mapped(&call, result, said->arg[2], SOSC_API_MREMAP);
	else if (leaves)
		kept(&call, addr);
	return result;
}

uint64_t sosc_block_munmap(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp,
			   struct sosc_cell *cell)
{
	struct sosc_block_call call = {.cell = cell, .sp = sp, .fp = fp};
	const uint64_t arg[6] = {a, b, c, 0, 0, 0};
	uint64_t result;

	if (!sosc_mapping_begin(&call))
		return sosc_mapping_go_on(cell, arg);
	unmapped(&call, a, pages(b));
	result = sosc_mapping_go_on(cell, arg);
	if ((int32_t)result)
		kept(&call, a);
	return result;
}

// Returns the end of the heap that brk moves, or 0 if system calls are forbidden.
static uint64_t now(const struct sosc_block_call *call)
{
	return sosc_is_sealed(call->thread) ? 0 : (uint64_t)sosc_sys3(SYS_BRK, 0, 0, 0);
}

// Handles a call with one argument that moves the end of the heap to @end.
static uint64_t move(const struct sosc_block_call *call, uint64_t arg0, uint64_t before,
		     uint64_t end, enum sosc_block_api api)
{
	const uint64_t arg[6] = {arg0, 0, 0, 0, 0, 0};
	bool leaves = before && end < before;
	uint64_t result, after;

	if (leaves)
		unmapped(call, end, before - end);
	result = sosc_mapping_go_on(call->cell, arg);
	after = now(call);
	if (before && after > before)
		mapped(call, before, after - before, api);
	else if (leaves && after == before)
		kept(call, end);
	return result;
}

uint64_t sosc_block_brk(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp,
			struct sosc_cell *cell)
{
	struct sosc_block_call call = {.cell = cell, .sp = sp, .fp = fp};
	const uint64_t arg[6] = {a, b, c, 0, 0, 0};

	if (!sosc_mapping_begin(&call))
		return sosc_mapping_go_on(cell, arg);
	return move(&call, a, now(&call), a, SOSC_API_BRK);
}

uint64_t sosc_block_sbrk(uint64_t a, uint64_t b, uint64_t c, uint64_t sp, uint64_t fp,
			 struct sosc_cell *cell)
{
	struct sosc_block_call call = {.cell = cell, .sp = sp, .fp = fp};
	const uint64_t arg[6] = {a, b, c, 0, 0, 0};
	uint64_t before;

	if (!a || !sosc_mapping_begin(&call))
		return sosc_mapping_go_on(cell, arg);
	before = now(&call);
	return move(&call, a, before, before + a, SOSC_API_SBRK);
}
