// SPDX-License-Identifier: Apache-2.0
// The frames of Python in stacks. While a thread holds the interpreter's lock, no other thread
// changes its frames or frees their code. A thread that has released the lock for a call has the
// same frames until it takes the lock again, and the interpreter finds the thread's own state by a
// thread-specific value. But another thread may end the interpreter meanwhile, or free the state.
// So in this case frames are read only with checks that their memory still exists.
//
// A code object may be gone when a stack is read later. So a copy of its names and lines is stored
// between the stacks, and frames refer to the copy by its number. The number of a code object is
// valid until the object ends: then another code object may have its address, and the addresses of
// all that it points to. So the deallocator of the interpreter's code type is replaced, to see when
// code objects end.
//
// A signal handler may interrupt a walk, and return after the session is over. So whatever a walk
// reads of a session lies in memory of the agent.

#include "vm/pythonstack.h"
#include "base/arch.h"
#include "base/memory.h"
#include "base/sys.h"
#include "image/changes.h"
#include "image/image.h"
#include "image/lookup.h"
#include "stack/unwindrules.h"
#include "stack/walk.h"
#include "thread/thread.h"
#include "vm/cpython.h"
#include "vm/pythonreading.h"

enum {
	LOOK_MAX = 512, // most frames to look at
	TYPE = 8, // ob_type
	TYPE_DEALLOC = 48, // tp_dealloc: the same in all versions
	SEEN_BITS = 11,
	// in older versions, a separate call of the evaluator runs each frame
	MINOR_WITH_INLINED_CALLS = 11,
	CODES = 1 << 19, // most numbers of origins
	BYTES_HEAD = 24, // bytes of a bytes object up to its size
	TEXTS = 3, // texts of a code object
	LAYOUTS_MAX = 32,
};

static struct sosc_blocks *table;
// the interpreter's image, and the image that was checked last
static const struct sosc_loaded *interpreter, *last;
static struct sosc_python layouts[LAYOUTS_MAX]; // the same in each session
static uint32_t layout_count;
static const struct sosc_python *layout; // one of these, NULL if not determined yet
static void *(*thread_state)(void), *(*released_state)(void);
static int (*is_initialized)(void);
static uint64_t code_type;
static uint32_t *numbers; // number of the copy between the stacks, by the number of an origin
static uint32_t preparing;
// the original deallocator of code objects, NULL if it is not replaced
static void (*end_code)(void *code);
static uint32_t session; // counts sessions: numbers of an earlier session are invalid
static uint32_t ends; // counts code objects that have ended

static struct seen { // a code object that was seen recently
	uint32_t version; // odd: the entry is being written
	uint32_t session; // the session in which the number is valid
	uint32_t number;
	struct sosc_origin code; // .code is 0: it has ended
} seen[1 << SEEN_BITS];

static inline struct seen *seen_of(uint64_t code)
{
	return &seen[code * 0x9e3779b97f4a7c15ull >> (64 - SEEN_BITS)];
}

static void refuse(enum sosc_python_frames why)
{
	__atomic_store_n(&table->python, why, __ATOMIC_RELAXED);
	__atomic_store_n(&sosc_languages[SOSC_LANGUAGE_PYTHON].is_there, false, __ATOMIC_RELEASE);
}

/** A session begins. Its stacks have no code objects yet. */
void sosc_python_stacks_start(const struct sosc_blocks *given, struct sosc_blocks *own)
{
	table = own;
	layout_count = given->layouts < LAYOUTS_MAX ? (uint32_t)given->layouts : LAYOUTS_MAX;
	memcpy(layouts, (const uint8_t *)given + given->first_layout,
	       layout_count * sizeof(*layouts));
	layout = NULL;
	interpreter = last = NULL;
	sosc_languages[SOSC_LANGUAGE_PYTHON].is_there = false;
	preparing = 0; // the thread that was preparing may have left by a signal handler's jump
	__atomic_fetch_add(&session, 1, __ATOMIC_RELEASE);
	if (numbers)
		(void)sosc_sys3(SYS_MADVISE, (long)numbers, CODES * sizeof(*numbers),
				MADV_DONTNEED);
}

/** This is a forked child: nothing that another thread was in the middle of will be finished. */
void sosc_python_stacks_forked(void)
{
	preparing = 0;
	for (uint32_t i = 0; i < 1 << SEEN_BITS; i++)
		if (seen[i].version & 1) {
			seen[i].session = 0;
			seen[i].version++;
		}
}

// Forgets the number of a code object that ends. No thread can be writing its number, because such
// a thread would have a frame that keeps the code object alive.
static void forget_code(uint64_t code)
{
	struct seen *entry = seen_of(code);
	uint32_t version = __atomic_load_n(&entry->version, __ATOMIC_ACQUIRE);

	if (version & 1 || entry->code.code != code ||
	    !__atomic_compare_exchange_n(&entry->version, &version, version + 1, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return; // the entry belongs to another code object
	entry->code.code = 0;
	__atomic_store_n(&entry->version, version + 2, __ATOMIC_RELEASE);
}

// Replaces the deallocator of code objects.
static void code_ends(void *code)
{
	__atomic_fetch_add(&ends, 1, __ATOMIC_RELEASE);
	forget_code((uint64_t)code);
	end_code(code);
}

static void hear_of_ends(void)
{
	uint64_t type = sosc_function_of(interpreter, "PyCode_Type"), at = type + TYPE_DEALLOC;
	void (*theirs)(void *);

	if (!type || !(sosc_segment_flags(interpreter, at) & PF_W))
		return;
	memcpy(&theirs, (const void *)at, sizeof(theirs));
	if (!theirs || theirs == code_ends)
		return;
	__atomic_store_n(&end_code, theirs, __ATOMIC_RELEASE);
	if (!sosc_change_word(interpreter, at, (uint64_t)code_ends))
		end_code = NULL;
}

/** An image was loaded and relocated. It may contain an interpreter. */
void sosc_python_stacks_see(const struct sosc_loaded *image)
{
	if (interpreter || image == last || !layout_count)
		return;
	last = image;
	if (!sosc_python_is_in(image))
		return;
	// debug builds have other structs; only builds with Py_REF_DEBUG define this
	if (sosc_function_of(image, "_Py_NegativeRefcount")) {
		refuse(SOSC_PYTHON_DEBUG);
		return;
	}
	interpreter = image;
	hear_of_ends();
	__atomic_store_n(&sosc_languages[SOSC_LANGUAGE_PYTHON].is_there, true, __ATOMIC_RELEASE);
	// earlier walks did not include this interpreter
	__atomic_fetch_add(&sosc_rules_epoch, 1, __ATOMIC_RELEASE);
}

/** An image was unloaded. */
void sosc_python_stacks_forget(const struct sosc_loaded *image)
{
	if (image != interpreter)
		return;
	__atomic_store_n(&sosc_languages[SOSC_LANGUAGE_PYTHON].is_there, false, __ATOMIC_RELEASE);
	interpreter = NULL;
	layout = NULL;
	end_code = NULL;
	// the ends of its code objects are not seen any more
	__atomic_fetch_add(&session, 1, __ATOMIC_RELEASE);
}

static bool look_up(const struct sosc_loaded *image, void *to, const char *name)
{
	uint64_t addr = sosc_function_of(image, name);

	memcpy(to, &addr, sizeof(addr));
	return addr != 0;
}

// The version can only be read after the interpreter is initialised.
static const struct sosc_python *find_layout(const struct sosc_loaded *image)
{
	const char *(*version)(void);
	const struct sosc_python *known;

	if (!look_up(image, &version, "Py_GetVersion") ||
	    !look_up(image, &code_type, "PyCode_Type") ||
	    !look_up(image, &released_state, "PyGILState_GetThisThreadState") ||
	    (!look_up(image, &thread_state, "PyThreadState_GetUnchecked") &&
	     !look_up(image, &thread_state, "_PyThreadState_UncheckedGet"))) {
		refuse(SOSC_PYTHON_NO_FUNCTION);
		return NULL;
	}
	known = sosc_python_known(version(), layouts, layout_count);
	if (!known)
		refuse(sosc_python_is_free_threaded(version()) ? SOSC_PYTHON_NO_GIL :
								 SOSC_PYTHON_NO_LAYOUT);
	if (!known || !sosc_origins_init() || !sosc_chains_init())
		return NULL;
	if (!numbers) {
		numbers = sosc_memory_map(CODES * sizeof(*numbers));
		if (numbers)
			sosc_memory_keep(numbers, CODES * sizeof(*numbers), &numbers);
	}
	return numbers ? known : NULL;
}

static bool prepare(void)
{
	// the next session, without an interpreter, may have begun when a signal handler returns
	// here
	const struct sosc_loaded *image = interpreter;
	const struct sosc_python *known;

	if (!image || !look_up(image, &is_initialized, "Py_IsInitialized") || !is_initialized() ||
	    __atomic_exchange_n(&preparing, 1, __ATOMIC_ACQUIRE))
		return false;
	known = find_layout(image);
	if (known)
		__atomic_store_n(&layout, known, __ATOMIC_RELEASE);
	else
		__atomic_store_n(&sosc_languages[SOSC_LANGUAGE_PYTHON].is_there, false,
				 __ATOMIC_RELEASE);
	__atomic_store_n(&preparing, 0, __ATOMIC_RELEASE);
	return known;
}

static inline uint64_t word_at(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

// ---- code --------------------------------------------------------------------------

static bool is_code(const struct sosc_origin *a, const struct sosc_origin *b)
{
	return a->code == b->code && a->lines == b->lines && a->file == b->file &&
	       a->name == b->name && a->first_line == b->first_line;
}

// A copy of the texts of a code object that may be freed.
struct kept {
	struct sosc_code_texts texts;
	uint8_t *memory;
	uint64_t size;
};

static struct sosc_text *text_of(struct kept *kept, uint32_t i)
{
	struct sosc_text *texts[] = {&kept->texts.file, &kept->texts.name, &kept->texts.lines};

	return texts[i];
}

// Determines the sizes and addresses of the texts. Returns whether they can be read.
static bool measure(const struct sosc_reading *reading, const struct sosc_origin *code,
		    struct kept *kept)
{
	_Alignas(uint64_t) uint8_t heads[TEXTS][READING_PART];
	uint32_t most[TEXTS] = {SOSC_CODE_TEXT, SOSC_CODE_TEXT, SOSC_CODE_LINES};
	uint32_t text = sosc_part_of_text(reading->at), parts[TEXTS] = {text, text, BYTES_HEAD};
	uint64_t from[TEXTS] = {code->file, code->name, code->lines};
	struct sosc_origin copy = *code;

	for (uint32_t i = 0; i < TEXTS; i++)
		if (!sosc_part_copy(reading, heads[i], from[i], parts[i]))
			return false;
	copy.file = (uint64_t)heads[0];
	copy.name = (uint64_t)heads[1];
	copy.lines = (uint64_t)heads[2];
	kept->texts = sosc_python_texts(reading->at, &copy);
	kept->size = 0;
	for (uint32_t i = 0; i < TEXTS; i++) {
		struct sosc_text *of = text_of(kept, i);

		if (of->data)
			of->data =
				(const void *)(from[i] + ((uint64_t)of->data - (uint64_t)heads[i]));
		if (of->size > most[i])
			of->size = most[i];
		kept->size += of->size;
	}
	return true;
}

static void let_go(const struct kept *kept)
{
	(void)sosc_sys3(SYS_MUNMAP, (long)kept->memory, (long)kept->size, 0);
}

// Copies the texts. Returns false if they cannot be read, or if there is no memory.
static __attribute__((noinline)) bool keep(const struct sosc_reading *reading,
					   const struct sosc_origin *code, struct kept *kept)
{
	uint8_t *to;

	if (!measure(reading, code, kept) || !kept->size)
		return false;
	to = sosc_mmap(NULL, kept->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	if (sosc_mmap_failed(to))
		return false;
	kept->memory = to;
	for (uint32_t i = 0; i < TEXTS; i++) {
		struct sosc_text *of = text_of(kept, i);

		if (of->size &&
		    sosc_read(reading->tid, to, (uint64_t)of->data, of->size) != of->size) {
			let_go(kept);
			return false;
		}
		of->data = to;
		to += of->size;
	}
	return true;
}

// Returns the number of a code object's copy. A new copy may need memory.
static uint32_t make_number(const struct sosc_reading *reading, const struct sosc_origin *code,
			    bool sealed)
{
	struct kept kept;
	uint32_t origin;

	if (!reading->tid)
		kept.texts = sosc_python_texts(reading->at, code);
	else if (!keep(reading, code, &kept))
		return 0;
	origin = sosc_origin_code(code, &kept.texts, !sealed);
	if (reading->tid)
		let_go(&kept);
	if (!origin)
		return 0;
	if (!numbers[origin])
		numbers[origin] = sosc_stack_code((const void *)sosc_origins[origin].copy,
						  reading->at->minor);
	return numbers[origin];
}

// Returns the number of a code object that has not ended since the number was stored, or 0 if
// unknown.
static uint32_t number_seen(uint64_t code)
{
	const struct seen *entry = seen_of(code);
	uint32_t version = __atomic_load_n(&entry->version, __ATOMIC_ACQUIRE);
	uint32_t number = entry->number;
	bool is_same = entry->session == __atomic_load_n(&session, __ATOMIC_ACQUIRE) &&
		       entry->code.code == code;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return is_same && !(version & 1) && entry->version == version ? number : 0;
}

// Returns the number of a code object's copy, or 0 if there is no room for it.
static uint32_t number_of(const struct sosc_reading *reading, struct sosc_origin code, bool sealed)
{
	struct seen *entry = seen_of(code.code);
	uint32_t now = __atomic_load_n(&session, __ATOMIC_ACQUIRE);
	uint32_t version = __atomic_load_n(&entry->version, __ATOMIC_ACQUIRE);
	uint32_t number = entry->number;
	bool is_same = entry->session == now && is_code(&entry->code, &code);

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (is_same && !(version & 1) && entry->version == version)
		return number;
	number = make_number(reading, &code, sealed);
	if (!end_code)
		return number;
	version &= ~1u;
	if (number && __atomic_compare_exchange_n(&entry->version, &version, version + 1, false,
						  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		entry->number = number;
		entry->session = now;
		entry->code = code;
		__atomic_store_n(&entry->version, version + 2, __ATOMIC_RELEASE);
	}
	return number;
}

// ---- frames --------------------------------------------------------------------------

// Returns the thread's own state if it holds the interpreter's lock, else 0. Up to 3.11, the
// function returns the state of any thread that holds the lock.
static uint64_t own_state(const struct sosc_python *at)
{
	uint64_t state = (uint64_t)thread_state();

	return state && word_at(state + at->state_thread) == sosc_thread_pointer() ? state : 0;
}

// Returns the newest frame of a thread that has released the lock and has this state, or 0 if there
// is none.
static uint64_t newest_released(const struct sosc_reading *reading, uint64_t state)
{
	const struct sosc_python *at = reading->at;
	uint64_t pointer, frame;

	if (!sosc_read_word(reading, state + at->state_frame, &frame) || !frame ||
	    !sosc_read_word(reading, state + at->state_thread, &pointer) ||
	    pointer != sosc_thread_pointer())
		return 0;
	if (at->inner_frame == SOSC_NONE)
		return frame;
	return sosc_read_word(reading, frame + at->inner_frame, &frame) ? frame : 0;
}

static uint64_t instr_of(const struct sosc_python *at, uint64_t frame, uint64_t code)
{
	uint64_t instr = (uint64_t)sosc_python_instr(at, frame, code);

	return (instr & ((1ull << SOSC_FRAME_INSTR_BITS) - 1)) << SOSC_FRAME_INSTR;
}

static bool is_entry(const struct sosc_python *at, uint64_t frame)
{
	return at->minor < MINOR_WITH_INLINED_CALLS ||
	       (at->frame_entry != SOSC_NONE && *(const uint8_t *)(frame + at->frame_entry));
}

// Returns the word for the frame that lies at @frame, or 0 if it has no code. If the code object's
// number is known, code that may be freed is not read.
static uint64_t word_of(struct sosc_reading *reading, uint64_t frame, bool sealed)
{
	const struct sosc_python *at = reading->at;
	uint64_t code = word_at(frame + at->frame_code) & ~(uint64_t)at->frame_tag, from;
	uint32_t number = code && reading->tid ? number_seen(code) : 0;

	if (!number) {
		struct sosc_origin origin;

		from = code ? sosc_code_at(reading, code) : 0;
		if (!from || word_at(from + TYPE) != code_type)
			return 0;
		origin = sosc_python_code(at, from);
		origin.code = code;
		number = number_of(reading, origin, sealed);
		if (!number)
			sosc_chain_spoil(reading->chain);
	}
	return 1ull << SOSC_FRAME_PYTHON | number | instr_of(at, frame, code) |
	       (uint64_t)is_entry(at, frame) << SOSC_FRAME_ENTRY;
}

static uint32_t walk(struct sosc_reading *reading, uint64_t frame, uint64_t *frames, uint32_t room,
		     bool sealed)
{
	const struct sosc_python *at = reading->at;
	uint32_t count = 0;

	for (int i = 0; frame && i < LOOK_MAX && count < room; i++) {
		uint64_t from = sosc_frame_at(reading, frame), word;

		if (!from) {
			sosc_chain_spoil(reading->chain);
			break;
		}
		if (sosc_python_is_shim(at, from)) {
			if (count)
				frames[count - 1] |= 1ull << SOSC_FRAME_ENTRY;
		} else {
			word = word_of(reading, from, sealed);
			if (word)
				frames[count++] = word;
		}
		frame = word_at(from + at->frame_previous);
	}
	return count;
}

// Does the same for a thread that has released the lock. Its stack may be small, so the memory for
// the kept frames is used as the window.
static __attribute__((noinline)) uint32_t walk_released(const struct sosc_python *at,
							uint64_t *frames, uint32_t room,
							uint32_t tid)
{
	const struct sosc_chain_time now = {
		is_initialized() ? (uint64_t)released_state() : 0,
		__atomic_load_n(&session, __ATOMIC_ACQUIRE),
		__atomic_load_n(&ends, __ATOMIC_ACQUIRE),
	};
	_Alignas(uint64_t) uint8_t part[READING_PART];
	struct sosc_reading reading;
	uint64_t frame;
	uint32_t count;

	if (!now.state)
		return 0; // this interpreter does not know the thread
	reading.at = at;
	reading.tid = tid;
	reading.chain = end_code ? sosc_chain_take(tid) : NULL;
	if (reading.chain && sosc_chain_is_same(reading.chain, tid, &now)) {
		count = reading.chain->count;
		memcpy(frames, reading.chain->frames, count * sizeof(*frames));
		sosc_chain_leave(reading.chain);
		return count;
	}
	if (reading.chain)
		sosc_chain_begin(reading.chain);
	reading.window = reading.chain ?
				 (struct sosc_window){0, 0, reading.chain->copy, READING_WINDOW} :
				 (struct sosc_window){0, 0, part, sizeof(part)};
	frame = newest_released(&reading, now.state);
	count = walk(&reading, frame, frames, room, false);
	if (count)
		sosc_chain_keep(reading.chain, tid, &now, frames, count);
	sosc_chain_leave(reading.chain);
	return count;
}

/**
 * Store the frames of Python in which this thread is, the innermost first, in the form of stacks
 * (SOSC_FRAME_PYTHON). Return how many, at most @room. @room is the same in the whole session.
 */
uint32_t sosc_python_stack(uint64_t *frames, uint32_t room, const struct sosc_thread *thread)
{
	const struct sosc_python *at = __atomic_load_n(&layout, __ATOMIC_ACQUIRE);
	bool sealed = sosc_is_sealed(thread);
	struct sosc_reading reading;
	uint64_t state;

	if (!at && (sealed || !prepare()))
		return 0;
	at = layout;
	if (!at)
		return 0;
	state = own_state(at);
	if (!state)
		return sealed ? 0 : walk_released(at, frames, room, thread->tid);
	reading.at = at;
	reading.tid = 0;
	reading.chain = NULL;
	return walk(&reading, sosc_python_newest(at, state), frames, room, sealed);
}
