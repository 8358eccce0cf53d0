// SPDX-License-Identifier: Apache-2.0
// Hides frames of the agent from the program's own stack walks. A call whose exit is seen returns
// to a trampoline, so a walk over the stack meets a frame that the program does not have. No unwind
// rule can leave it out: the rule of the called function finds its caller at the return address on
// the stack. So backtrace and _Unwind_Backtrace are called from here, and frames that lie in the
// agent are not passed on.
//
// Only addresses are kept between calls, nothing is allocated, and no lock is taken: a signal
// handler may call any of this at any time, in any child.

#include "hook/backtrace.h"
#include "base/state.h"
#include "call/cell.h"
#include "call/site.h"
#include "image/image.h"
#include "image/lookup.h"

typedef int backtrace_function(void **buffer, int size);
typedef int walk_function(sosc_step *step, void *data); // _Unwind_Backtrace
typedef uint64_t get_function(void *context); // _Unwind_GetIP, _Unwind_GetCFA
typedef uint64_t ip_info_function(void *context, int *before);

enum {
	AS_IT_IS = -1, // for the assembly: go on to the original function
	STOP = 5, // _URC_END_OF_STACK
	UNWINDERS = 16,
	RETURN_BITS = 8,
};

// An image that contains an unwinder, and the unwinder's functions.
struct unwinder {
	uint64_t walk; // its _Unwind_Backtrace, 0 = this entry is free; stored last
	uint64_t ip, cfa;
};

static struct unwinder unwinders[UNWINDERS];
static uint32_t next_unwinder; // the entry to reuse if none is free
// backtrace of each namespace's C library, 0 = none
static uint64_t libc_backtrace[SOSC_NAMESPACES];
// _Unwind_Backtrace of the libgcc that this C library uses
static uint64_t libgcc_walk[SOSC_NAMESPACES];

// Return addresses that walks have found behind trampolines, in a hash table.
static uint64_t returns[1 << RETURN_BITS];

// ---- unwinders ---------------------------------------------------------------

static uint64_t address_of(const struct sosc_loaded *image, const char *name)
{
	const Elf64_Sym *symbol = sosc_lookup(image, name, sosc_gnu_hash(name), NULL);

	return symbol && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC ?
		       image->bias + symbol->st_value :
		       0;
}

static struct unwinder *place_for(uint64_t walk)
{
	for (uint32_t i = 0; i < UNWINDERS; i++)
		if (unwinders[i].walk == walk)
			return &unwinders[i];
	for (uint32_t i = 0; i < UNWINDERS; i++)
		if (!unwinders[i].walk)
			return &unwinders[i];
	return &unwinders[next_unwinder++ % UNWINDERS];
}

static void store(uint64_t *at, uint64_t value)
{
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
}

/** Remember the unwinder of @image, if it has one. Called on the loading thread. */
void sosc_unwinder_learn(const struct sosc_loaded *image)
{
	struct unwinder new = {
		.walk = address_of(image, "_Unwind_Backtrace"),
		.ip = address_of(image, "_Unwind_GetIP"),
		.cfa = address_of(image, "_Unwind_GetCFA"),
	};
	struct unwinder *place;

	if (sosc_same(image->name, "libc.so.6"))
		store(&libc_backtrace[image->ns], address_of(image, "backtrace"));
	if (!new.walk || !new.ip || !new.cfa)
		return;
	place = place_for(new.walk);
	store(&place->walk, 0);
	store(&place->ip, new.ip);
	store(&place->cfa, new.cfa);
	store(&place->walk, new.walk);
	if (sosc_same(image->name, "libgcc_s.so.1"))
		store(&libgcc_walk[image->ns], new.walk);
}

/** @image was unloaded. */
void sosc_unwinder_forget(const struct sosc_loaded *image)
{
	uint64_t size = image->end - image->start;

	for (uint32_t i = 0; i < UNWINDERS; i++)
		if (unwinders[i].walk - image->start < size)
			store(&unwinders[i].walk, 0);
	if (libgcc_walk[image->ns] - image->start < size)
		store(&libgcc_walk[image->ns], 0);
	if (libc_backtrace[image->ns] - image->start < size)
		store(&libc_backtrace[image->ns], 0);
}

/** Another session begins, and all images will be looked at again. */
void sosc_unwinders_forget(void)
{
	for (uint32_t i = 0; i < UNWINDERS; i++)
		store(&unwinders[i].walk, 0);
	for (uint32_t ns = 0; ns < SOSC_NAMESPACES; ns++) {
		store(&libgcc_walk[ns], 0);
		store(&libc_backtrace[ns], 0);
	}
}

// Finds the unwinder whose _Unwind_Backtrace is at @walk. Its entry may be reused meanwhile.
static bool find_unwinder(uint64_t walk, struct unwinder *ret)
{
	for (uint32_t i = 0; walk && i < UNWINDERS; i++) {
		const struct unwinder *each = &unwinders[i];

		if (__atomic_load_n(&each->walk, __ATOMIC_ACQUIRE) != walk)
			continue;
		ret->walk = walk;
		ret->ip = __atomic_load_n(&each->ip, __ATOMIC_ACQUIRE);
		ret->cfa = __atomic_load_n(&each->cfa, __ATOMIC_ACQUIRE);
		return __atomic_load_n(&each->walk, __ATOMIC_ACQUIRE) == walk;
	}
	return false;
}

static uint64_t original_of(const struct sosc_cell *cell)
{
	return __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
}

// ---- walks -------------------------------------------------------------------

static uint64_t *return_place(uint64_t ret)
{
	return &returns[ret * HINT_FACTOR >> (64 - RETURN_BITS)];
}

// Returns whether an unwinder has returned a return address less one. It does that for the frame
// behind a trampoline, as the trampoline's unwind rule tells it, so that the frame is looked up
// inside the call instruction. No frame of the program itself has such an address, because it is in
// the middle of an instruction.
static bool is_less_one(uint64_t ip)
{
	return __atomic_load_n(return_place(ip + 1), __ATOMIC_RELAXED) == ip + 1;
}

struct walk {
	sosc_step *step;
	void *data;
	const struct sosc_cell *cell; // the cell that led to _Unwind_Backtrace, or NULL
	struct unwinder unwinder;
	bool known, passes;
	bool told; // `step` was called
	uint64_t ip; // address passed to `step`
	uint64_t before; // return address that the trampoline in the frame before stands for, or 0
};

// Finds out which functions this walk's unwinder has. A lazy slot is bound only during the call.
static bool know(struct walk *walk, uint64_t called_by)
{
	if (walk->known)
		return true;
	// the original is a slot that is hooked itself, and that hook leaves the frames out
	walk->passes = sosc_is_ours(called_by);
	walk->known = walk->passes || find_unwinder(original_of(walk->cell), &walk->unwinder);
	return walk->known;
}

static int leave_out(void *context, void *data)
{
	struct walk *walk = data;

	if (!know(walk, (uint64_t)__builtin_return_address(0)))
		return STOP;
	if (!walk->passes) {
		uint64_t ip = ((get_function *)walk->unwinder.ip)(context);

		if (sosc_is_ours(ip)) {
			walk->before = sosc_site_returns_to(ip);
			if (walk->before)
				__atomic_store_n(return_place(walk->before), walk->before,
						 __ATOMIC_RELAXED);
			return 0;
		}
		walk->ip = walk->before && ip + 1 == walk->before ? walk->before : ip;
		walk->before = 0;
	}
	walk->told = true;
	return walk->step(context, walk->data);
}

/** Replaces _Unwind_Backtrace(@step, @data). */
int sosc_walk(sosc_step *step, void *data, struct sosc_cell *cell)
{
	struct walk walk = {.step = step, .data = data, .cell = cell};
	int result = ((walk_function *)original_of(cell))(leave_out, &walk);

	// If no frame was passed on, the unwinder is unknown, or did not get past the agent's own
	// frames.
	return walk.told ? result : AS_IT_IS;
}

/** Replaces _Unwind_GetIP(@context). */
uint64_t sosc_walk_ip(void *context, int *before, struct sosc_cell *cell)
{
	uint64_t ip = ((get_function *)original_of(cell))(context);

	(void)before;
	return is_less_one(ip) ? ip + 1 : ip;
}

/**
 * Replaces _Unwind_GetIPInfo(@context, @before). Corrects an address that is one too low, and
 * reports it as exact.
 */
uint64_t sosc_walk_ip_info(void *context, int *before, struct sosc_cell *cell)
{
	uint64_t ip = ((ip_info_function *)original_of(cell))(context, before);

	if (!is_less_one(ip))
		return ip;
	*before = 0;
	return ip + 1;
}

// ---- backtrace ---------------------------------------------------------------

static int leave_out_of(void **buffer, int count)
{
	uint64_t before = 0;
	int kept = 0;

	for (int i = 0; i < count; i++) {
		uint64_t ip = (uint64_t)buffer[i];

		if (sosc_is_ours(ip)) {
			before = sosc_site_returns_to(ip);
			continue;
		}
		buffer[kept++] = (void *)(before && ip + 1 == before ? before : ip);
		before = 0;
	}
	for (int i = kept; i < count; i++)
		buffer[i] = NULL; // as they were before the call, in case the program looks at them
	return kept;
}

struct list {
	struct walk walk; // the walk whose step this is
	void **buffer;
	int size;
	int kept; // number of addresses that are in the buffer already
	int count;
	uint64_t ip, cfa; // of the last frame
};

// Adds a frame as glibc's backtrace does. The walk ends at an address of 0, and when a frame
// repeats.
static int add(void *context, void *data)
{
	struct list *list = data;
	uint64_t ip = list->walk.ip;
	uint64_t cfa = ((get_function *)list->walk.unwinder.cfa)(context);

	if (!ip || (list->count && ip == list->ip && cfa == list->cfa))
		return STOP;
	list->ip = ip;
	list->cfa = cfa;
	if (list->count >= list->kept)
		list->buffer[list->count] = (void *)ip;
	return ++list->count == list->size ? STOP : 0;
}

// Returns _Unwind_Backtrace of the libgcc that the C library with this backtrace uses. Returns 0 if
// @backtrace is another function.
static uint64_t libgcc_of(uint64_t backtrace)
{
	for (uint32_t ns = 0; ns < SOSC_NAMESPACES; ns++)
		if (__atomic_load_n(&libc_backtrace[ns], __ATOMIC_ACQUIRE) == backtrace)
			return __atomic_load_n(&libgcc_walk[ns], __ATOMIC_ACQUIRE);
	return 0;
}

// Fills the rest of a buffer that was full only because of the agent's frames. The buffer has no
// room to ask backtrace for more than @size addresses, so this calls libgcc itself. libgcc stays
// loaded, because backtrace has just used it and never closes it. Returns the number of addresses,
// or AS_IT_IS if this is not possible.
static int fill(void **buffer, int kept, int size, uint64_t backtrace)
{
	struct list list = {.buffer = buffer, .size = size, .kept = kept};
	uint64_t walk = libgcc_of(backtrace);

	if (!find_unwinder(walk, &list.walk.unwinder))
		return AS_IT_IS;
	list.walk.step = add;
	list.walk.data = &list;
	list.walk.known = true;
	(void)((walk_function *)walk)(leave_out, &list.walk);
	return list.count < kept ? AS_IT_IS : list.count;
}

/** Replaces backtrace(@buffer, @size). */
int sosc_backtrace(void **buffer, int size, struct sosc_cell *cell)
{
	int count, kept;

	if (size <= 0)
		return AS_IT_IS;
	count = ((backtrace_function *)original_of(cell))(buffer, size);
	kept = leave_out_of(buffer, count);
	if (count == size && kept < count)
		kept = fill(buffer, kept, size, original_of(cell));
	return kept ? kept : AS_IT_IS;
}
