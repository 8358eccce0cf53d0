// SPDX-License-Identifier: Apache-2.0
// The frames of Ruby in the stacks of blocks. While a thread holds the GVL, no other thread changes
// its frames, or frees or moves their code. A thread that has released the GVL for a call has the
// same frames until it takes the GVL again, and they keep their code alive. But another thread may
// move that code meanwhile: see rubyreading.c.
//
// A thread's execution context leads to its control frames, the innermost first. Ruby itself tells
// their files and lines, by functions that neither make objects nor raise. Before the first stack
// of a thread with the GVL is trusted, Ruby is asked for the whole stack (rb_profile_frames), and
// has to give the same frames. Until then each word may be anything, and is read only with a check
// that it exists.

#include "vm/rubystack.h"
#include "base/arch.h"
#include "base/memory.h"
#include "image/image.h"
#include "stack/unwindrules.h"
#include "stack/walk.h"
#include "thread/thread.h"
#include "vm/rubyreading.h"
#include "soscope/objects.h"

enum {
	LOOK_MAX = 512, // most frames to look at
	CONTEXT_STACK = 0, // indices of words in an execution context
	CONTEXT_SIZE = 1,
	CONTEXT_FRAME = 2,
	FRAME_PC = 0, // indices of words in a control frame
	FRAME_CODE = RUBY_FRAME_CODE / 8,
	FRAME_ENVIRONMENT = 4,
	FLAG_FINISH = 0x20, // in an environment: the caller of the evaluator waits for this frame
	FLAG_C = 0x80, // in an environment: a frame of C code
	STACK_MAX = 1 << 27, // most words of a thread's stack
	KNOWN_BITS = 14,
	KNOWN_TRIED = 16,
	SEEN_BITS = 12,
	PLACES_BITS = 11,
	COLLECTS = 1 << 5, // in the collector's state: it is running
	MODE = 3, // in the collector's state: the phase in progress, even while it is not running
	MARKS = 1,
	LINE = (1u << (SOSC_FRAME_INSTR_BITS - 1)) - 1,
};

// the interpreter's image, and the image that was checked last
static const struct sosc_loaded *interpreter, *last;
static struct sosc_blocks *table; // where the state of Ruby frames is reported
static uint32_t preparing;
static bool is_ready, is_sure;

static struct sosc_ruby_way rb;

// Copies between the stacks, by the hash of their contents: hash << 32 | number of the copy. And by
// the addresses of their texts.
static uint64_t known[1 << KNOWN_BITS];
static uint32_t seen[1 << SEEN_BITS];
static uint32_t session; // counts sessions: numbers of an earlier session are invalid

// line and copy of a frame that was read recently, in a thread without the GVL
static struct place {
	uint32_t version; // odd: the entry is being written
	uint32_t session, collections; // when it was read
	uint32_t line, number;
	uint64_t code, pc;
} places[1 << PLACES_BITS];

/** A session begins. Its stacks have no code objects yet. */
void sosc_ruby_stacks_start(const struct sosc_blocks *given, struct sosc_blocks *own)
{
	(void)given;
	table = own;
	interpreter = last = NULL;
	sosc_languages[SOSC_LANGUAGE_RUBY].is_there = is_ready = is_sure = false;
	preparing = 0; // the thread that was preparing may have left by a signal handler's jump
	__atomic_fetch_add(&session, 1, __ATOMIC_RELEASE);
	sosc_memory_clear(known, sizeof(known));
	sosc_memory_clear(seen, sizeof(seen));
	sosc_memory_clear(places, sizeof(places));
}

/** An image was loaded. It may contain an interpreter. */
void sosc_ruby_stacks_see(const struct sosc_loaded *image)
{
	if (interpreter || image == last)
		return;
	last = image;
	if (!sosc_ruby_is_in(image))
		return;
	interpreter = image;
	__atomic_store_n(&sosc_languages[SOSC_LANGUAGE_RUBY].is_there, true, __ATOMIC_RELEASE);
	// earlier walks did not include this interpreter
	__atomic_fetch_add(&sosc_rules_epoch, 1, __ATOMIC_RELEASE);
}

/** This is a forked child: nothing that another thread was in the middle of will be finished. */
void sosc_ruby_stacks_forked(void)
{
	preparing = 0;
	for (uint32_t i = 0; i < 1 << PLACES_BITS; i++)
		if (places[i].version & 1)
			places[i] = (struct place){0};
}

/** An image was unloaded. */
void sosc_ruby_stacks_forget(const struct sosc_loaded *image)
{
	if (image != interpreter)
		return;
	__atomic_store_n(&sosc_languages[SOSC_LANGUAGE_RUBY].is_there, false, __ATOMIC_RELEASE);
	__atomic_store_n(&is_ready, false, __ATOMIC_RELEASE);
	interpreter = NULL;
	__atomic_fetch_add(&session, 1, __ATOMIC_RELEASE);
}

static void refuse(enum sosc_ruby_frames why)
{
	__atomic_store_n(&table->ruby, why, __ATOMIC_RELAXED);
	__atomic_store_n(&sosc_languages[SOSC_LANGUAGE_RUBY].is_there, false, __ATOMIC_RELEASE);
}

// ---- preparation ---------------------------------------------------------------------

// The version can be read as soon as the image is loaded, the variables only after the interpreter
// is initialised.
static void prepare(uint32_t tid)
{
	// the next session, without an interpreter, may have begun when a signal handler returns
	// here
	const struct sosc_loaded *image = interpreter;
	enum sosc_ruby_frames why;

	if (!image || __atomic_exchange_n(&preparing, 1, __ATOMIC_ACQUIRE))
		return;
	if (sosc_ruby_find_way(&rb, image, tid, &why)) {
		// without this memory, threads that do not hold the GVL have no frames
		(void)sosc_chains_init();
		__atomic_store_n(&is_ready, true, __ATOMIC_RELEASE);
	} else if (why) {
		refuse(why);
	}
	__atomic_store_n(&preparing, 0, __ATOMIC_RELEASE);
}

// Returns the thread's own execution context. Returns 0 if it has none, or, up to 2.7, if it does
// not hold the GVL.
static uint64_t own_context(bool *has_lock)
{
	uint64_t context;

	if (rb.ruby_current_execution_context_ptr) {
		*has_lock = rb.ruby_native_thread_p() && rb.ruby_thread_has_gvl_p();
		return *has_lock ? __atomic_load_n(rb.ruby_current_execution_context_ptr,
						   __ATOMIC_RELAXED) :
				   0;
	}
	context = *(const uint64_t *)(sosc_thread_pointer() + (uint64_t)rb.context);
	*has_lock = context && rb.ruby_thread_has_gvl_p();
	return context;
}

// ---- code ----------------------------------------------------------------------------

struct copy {
	struct sosc_code code;
	uint8_t texts[2 * RUBY_TEXT_MAX];
};

static bool find_text(sosc_value string, struct sosc_ruby_text *text)
{
	volatile sosc_value value = string;

	if (!string || string & 7 || sosc_ruby_kind(string) != KIND_STRING)
		return false;
	text->data = rb.rb_string_value_ptr(&value);
	return text->data != NULL;
}

static bool is_text(const struct sosc_ruby_text *text, const uint8_t *copy, uint32_t size)
{
	if (size > RUBY_TEXT_MAX)
		return false;
	for (uint32_t i = 0; i < size; i++)
		if ((uint8_t)text->data[i] != copy[i])
			return false;
	return !text->data[size] || size == RUBY_TEXT_MAX;
}

static bool is_copy(uint32_t number, const struct sosc_ruby_text *path,
		    const struct sosc_ruby_text *label)
{
	const struct sosc_code *copy = sosc_stack_code_at(number);
	const uint8_t *texts = (const void *)(copy + 1);

	return copy && is_text(path, texts, copy->file_size) &&
	       is_text(label, texts + copy->file_size, copy->name_size);
}

static uint32_t measure(struct sosc_ruby_text *text, uint32_t hash)
{
	uint32_t i = 0;

	for (; i < RUBY_TEXT_MAX && text->data[i]; i++)
		hash = hash * 33 + (uint8_t)text->data[i];
	text->size = i;
	return hash;
}

static uint32_t copy_into(struct copy *copy, const struct sosc_ruby_text *path,
			  const struct sosc_ruby_text *label)
{
	copy->code = (struct sosc_code){.file_size = path->size, .name_size = label->size};
	memcpy(copy->texts, path->data, path->size);
	memcpy(copy->texts + path->size, label->data, label->size);
	return sosc_stack_code(&copy->code, SOSC_CODE_RUBY);
}

static __attribute__((noinline)) uint32_t copy_of(const struct sosc_ruby_text *path,
						  const struct sosc_ruby_text *label)
{
	struct copy copy;

	return copy_into(&copy, path, label);
}

// @room: memory for a copy, NULL if it is made on the thread's stack. If two threads make a copy of
// the same code at the same time, there are two copies.
static uint32_t find_number(struct sosc_ruby_text *path, struct sosc_ruby_text *label,
			    struct copy *room)
{
	uint32_t hash = measure(label, measure(path, 5381)), number = 0;

	for (uint32_t i = 0; i < KNOWN_TRIED; i++) {
		uint64_t *place = &known[(hash + i) & ((1 << KNOWN_BITS) - 1)];
		uint64_t there = __atomic_load_n(place, __ATOMIC_ACQUIRE);

		if (there && there >> 32 == hash && is_copy((uint32_t)there, path, label))
			return (uint32_t)there;
		if (there)
			continue;
		if (!number)
			number = room ? copy_into(room, path, label) : copy_of(path, label);
		if (!number ||
		    __atomic_compare_exchange_n(place, &there, (uint64_t)hash << 32 | number, false,
						__ATOMIC_RELEASE, __ATOMIC_RELAXED))
			break;
	}
	return number;
}

// Returns the number of the copy of a code object's texts, or 0 if there is no room for it.
static uint32_t number_of(sosc_value code)
{
	struct sosc_ruby_text path, label;
	uint32_t *entry, number;

	if (!find_text(rb.rb_profile_frame_path(code), &path) ||
	    !find_text(rb.rb_profile_frame_label(code), &label))
		return 0;
	entry = &seen[((uint64_t)path.data * 3 ^ (uint64_t)label.data) * 0x9e3779b97f4a7c15ull >>
		      (64 - SEEN_BITS)];
	number = __atomic_load_n(entry, __ATOMIC_ACQUIRE);
	if (number && is_copy(number, &path, &label))
		return number;
	number = find_number(&path, &label, NULL);
	__atomic_store_n(entry, number, __ATOMIC_RELEASE);
	return number;
}

// ---- frames ----------------------------------------------------------------------------

struct walk {
	uint64_t at, end; // addresses of control frames
	uint64_t low; // start of the thread's VM stack
	// the thread's id, if words must be read with checks: nothing is verified yet, or the GVL
	// is not held; else 0
	uint32_t tid;
	struct sosc_ruby_reading *reading; // NULL if the GVL is held
	bool is_lost; // it has reached memory that cannot be read
};

struct frame {
	uint64_t at, pc, code, flags;
};

static inline bool is_within(uint64_t addr, uint64_t size, uint64_t low, uint64_t high)
{
	return addr >= low && addr < high && size <= high - addr;
}

// Reads words of a thread without the GVL: of its control frames (a caller's frame lies above), of
// its values (a caller's values lie below), or of other memory.
static bool look_released(struct walk *walk, uint64_t addr, uint64_t *words, uint32_t count)
{
	struct sosc_ruby_reading *reading = walk->reading;
	uint64_t size = count * sizeof(*words), end = walk->end + rb.at->frame, copy = 0, to;

	if (is_within(addr, size, walk->at, end)) {
		to = end - addr > RUBY_WINDOW ? addr + RUBY_WINDOW : end;
		copy = sosc_window_at(&reading->frames, walk->tid, addr, size, addr, to);
	} else if (is_within(addr, size, walk->low, walk->at)) {
		to = addr + size;
		copy = sosc_window_at(&reading->values, walk->tid, addr, size,
				      to - walk->low > RUBY_WINDOW ? to - RUBY_WINDOW : walk->low,
				      to);
	} else if (sosc_read(walk->tid, words, addr, size) == size) {
		copy = (uint64_t)words;
	}
	if (!copy)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		words[i] = ((const uint64_t *)copy)[i];
		sosc_chain_note(reading->chain, addr + i * sizeof(*words), words[i]);
	}
	return true;
}

static __attribute__((noinline)) bool look_by_kernel(struct walk *walk, uint64_t addr,
						     uint64_t *words, uint32_t count)
{
	uint64_t size = count * sizeof(*words);

	walk->is_lost |= walk->reading ? !look_released(walk, addr, words, count) :
					 sosc_read(walk->tid, words, addr, size) != size;
	return !walk->is_lost;
}

static inline bool look(struct walk *walk, uint64_t addr, uint64_t *words, uint32_t count)
{
	if (__builtin_expect(walk->tid != 0, 0))
		return look_by_kernel(walk, addr, words, count);
	for (uint32_t i = 0; i < count; i++)
		words[i] = ((const uint64_t *)addr)[i];
	return true;
}

// For a value that Ruby has returned.
static bool is_code(sosc_value value)
{
	return value && !(value & 7) && sosc_ruby_is_code(sosc_ruby_flags(value));
}

// Returns the line of a frame. The frame's pc is behind its current instruction.
static uint32_t line_of(struct walk *walk, const struct frame *frame)
{
	uint64_t body, words[RUBY_BODY_CODE / 8 + 1], at;

	if (!look(walk, frame->code + RUBY_CODE_BODY, &body, 1) ||
	    !look(walk, body, words, RUBY_BODY_CODE / 8 + 1))
		return 0;
	at = (frame->pc - words[RUBY_BODY_CODE / 8]) / 8;
	if (at > words[0] >> RUBY_BODY_SIZE)
		return 0;
	return rb.rb_iseq_line_no(frame->code, at ? at - 1 : 0);
}

// Begins a walk. The outermost control frame is not a real one: each context begins with it. While
// a context is made or destroyed, it has no frames.
static bool begin(struct walk *walk, uint64_t context, uint32_t tid,
		  struct sosc_ruby_reading *reading)
{
	uint64_t words[CONTEXT_FRAME + 1], low, size;

	walk->tid = tid;
	walk->reading = reading;
	walk->is_lost = false;
	walk->at = walk->end = walk->low = 0;
	if (!look(walk, context, words, CONTEXT_FRAME + 1))
		return false;
	walk->low = low = words[CONTEXT_STACK];
	size = words[CONTEXT_SIZE] * 8;
	walk->at = words[CONTEXT_FRAME];
	walk->end = low + size - rb.at->frame;
	return low && !(low & 7) && words[CONTEXT_SIZE] < STACK_MAX && size >= rb.at->frame &&
	       low + size > low && walk->at >= low && walk->at <= walk->end &&
	       (walk->end - walk->at) % rb.at->frame == 0;
}

// Finds the next frame, from the innermost on, that runs Ruby code. Returns whether there is one.
static bool next_frame(struct walk *walk, struct frame *frame)
{
	for (; walk->at < walk->end; walk->at += rb.at->frame) {
		uint64_t words[FRAME_ENVIRONMENT + 1], environment;

		if (!look(walk, walk->at, words, FRAME_ENVIRONMENT + 1))
			return false;
		environment = words[FRAME_ENVIRONMENT];
		if (!environment || environment & 7 || !look(walk, environment, &frame->flags, 1))
			return false;
		if (frame->flags & FLAG_C || !words[FRAME_PC])
			continue;
		frame->at = walk->at;
		walk->at += rb.at->frame;
		frame->pc = words[FRAME_PC];
		frame->code = words[FRAME_CODE];
		return true;
	}
	return false;
}

// The same, with a check of the frame's code. If the code is not valid, the walk has not reached
// its end.
static bool next(struct walk *walk, struct frame *frame)
{
	uint64_t flags;

	return next_frame(walk, frame) && frame->code && !(frame->code & 7) &&
	       look(walk, frame->code, &flags, 1) && sosc_ruby_is_code(flags);
}

static bool is_same(struct walk *walk, const struct frame *frame, sosc_value value, int line)
{
	// a value that is not code is the method to which the code belongs
	return line_of(walk, frame) == (uint32_t)line && (!is_code(value) || value == frame->code);
}

// Returns whether Ruby reports the same frames, apart from frames of C code and of code that has
// not begun. If it does not, its structs are different from the known ones.
static bool is_right(uint64_t context, uint32_t tid)
{
	sosc_value values[SOSC_BLOCK_FRAMES];
	int lines[SOSC_BLOCK_FRAMES];
	int count = rb.rb_profile_frames(0, SOSC_BLOCK_FRAMES, values, lines), i = 0;
	struct frame frame;
	struct walk walk;

	if (!begin(&walk, context, tid, NULL))
		return false;
	while (next(&walk, &frame)) {
		while (i < count && !is_same(&walk, &frame, values[i], lines[i]))
			i++;
		if (i++ == count)
			return count == SOSC_BLOCK_FRAMES && !walk.is_lost;
	}
	return walk.at >= walk.end;
}

// Verifies the walk when its first frame is found. Returns whether to go on.
static bool make_sure(const struct walk *walk, uint64_t context)
{
	is_sure = is_right(context, walk->tid);
	if (!is_sure)
		refuse(SOSC_RUBY_WRONG);
	return is_sure;
}

static uint64_t word_of(const struct frame *frame, uint64_t line, uint32_t number)
{
	return 1ull << SOSC_FRAME_PYTHON |
	       (uint64_t)!!(frame->flags & FLAG_FINISH) << SOSC_FRAME_ENTRY |
	       (line & LINE) << SOSC_FRAME_INSTR | number;
}

// ---- without the GVL -----------------------------------------------------------------

// Returns how many collections have begun. If the latest one has finished marking (*is_settled),
// code can only end in a collection that begins later.
static uint32_t count_collections(bool *is_settled)
{
	const uint8_t *collector = rb.collector;
	uint32_t count;
	uint8_t now;

	*is_settled = false;
	if (!collector)
		return 0;
	count = (uint32_t)rb.rb_gc_count();
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	now = __atomic_load_n(collector, __ATOMIC_RELAXED);
	*is_settled = !(now & COLLECTS) && (now & MODE) != MARKS;
	return count;
}

/**
 * Return the index of the place for a frame's line and copy. Two frames may share a place, and
 * overwrite each other.
 */
uint32_t sosc_ruby_place(uint64_t code, uint64_t pc)
{
	return (uint32_t)((code * 3 ^ pc) * 0x9e3779b97f4a7c15ull >> (64 - PLACES_BITS));
}

static struct place *place_of(const struct frame *frame)
{
	return &places[sosc_ruby_place(frame->code, frame->pc)];
}

// Returns whether the frame's line and copy were read since the latest collection began. If code is
// moved, no other living code has its instructions.
static bool has_seen(const struct frame *frame, const struct sosc_chain_time *now, uint64_t *line,
		     uint32_t *number)
{
	const struct place *place = place_of(frame);
	uint32_t version = __atomic_load_n(&place->version, __ATOMIC_ACQUIRE);
	bool is_same = place->session == now->session && place->collections == now->ends &&
		       place->code == frame->code && place->pc == frame->pc;

	*line = place->line;
	*number = place->number;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return is_same && !(version & 1) && place->version == version;
}

static void keep_seen(const struct frame *frame, const struct sosc_chain_time *now, uint64_t line,
		      uint32_t number)
{
	struct place *place = place_of(frame);
	uint32_t version = __atomic_load_n(&place->version, __ATOMIC_ACQUIRE) & ~1u;

	if (!__atomic_compare_exchange_n(&place->version, &version, version + 1, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	place->session = now->session;
	place->collections = now->ends;
	place->code = frame->code;
	place->pc = frame->pc;
	place->line = (uint32_t)line;
	place->number = number;
	__atomic_store_n(&place->version, version + 2, __ATOMIC_RELEASE);
}

// Returns the word for a frame. If its code is not certain, it has no number.
static uint64_t word_released(struct sosc_ruby_reading *reading, const struct frame *frame,
			      const struct sosc_chain_time *now, bool is_settled)
{
	uint32_t number;
	uint64_t line;

	if (is_settled && has_seen(frame, now, &line, &number))
		return word_of(frame, line, number);
	if (!sosc_ruby_reading_code(reading, frame->at, frame->pc)) {
		sosc_chain_spoil(reading->chain);
		return word_of(frame, 0, 0);
	}
	line = reading->line;
	number = find_number(&reading->path, &reading->label, sosc_ruby_reading_room(reading));
	if (!number)
		sosc_chain_spoil(reading->chain);
	else if (is_settled)
		keep_seen(frame, now, line, number);
	return word_of(frame, line, number);
}

// Returns the frames of a thread that has released the GVL. Its stack may be small.
static __attribute__((noinline)) uint32_t walk_released(uint64_t context, uint64_t *frames,
							uint32_t room, uint32_t tid)
{
	struct sosc_chain *chain = rb.at->lines ? sosc_chain_take(tid) : NULL;
	struct sosc_chain_time now = {context, __atomic_load_n(&session, __ATOMIC_ACQUIRE), 0};
	struct sosc_ruby_reading reading;
	struct frame frame;
	struct walk walk;
	uint32_t count = 0;
	bool is_settled;

	if (!chain)
		return 0;
	now.ends = count_collections(&is_settled);
	if (sosc_chain_is_same(chain, tid, &now)) {
		count = chain->count;
		memcpy(frames, chain->frames, count * sizeof(*frames));
		sosc_chain_leave(chain);
		return count;
	}
	sosc_chain_begin(chain);
	sosc_ruby_reading_begin(&reading, rb.at, chain, tid);
	if (!is_settled)
		sosc_chain_spoil(chain);
	if (begin(&walk, context, tid, &reading))
		for (int i = 0; i < LOOK_MAX && count < room && next_frame(&walk, &frame); i++)
			frames[count++] = word_released(&reading, &frame, &now, is_settled);
	if (count && !walk.is_lost)
		sosc_chain_keep(chain, tid, &now, frames, count);
	sosc_chain_leave(chain);
	return count;
}

/**
 * Store the frames of Ruby in which this thread is, the innermost first, in the form of stacks
 * (SOSC_FRAME_PYTHON). Return how many, at most @room. @room is the same in the whole session.
 * Return 0 while the thread collects garbage.
 */
uint32_t sosc_ruby_stack(uint64_t *frames, uint32_t room, const struct sosc_thread *thread)
{
	bool sealed = sosc_is_sealed(thread), has_lock;
	uint64_t context;
	struct frame frame;
	struct walk walk;
	uint32_t count = 0, tid = 0;

	if (!__atomic_load_n(&is_ready, __ATOMIC_ACQUIRE)) {
		if (!sealed)
			prepare(thread->tid);
		if (!__atomic_load_n(&is_ready, __ATOMIC_ACQUIRE))
			return 0;
	}
	context = own_context(&has_lock);
	if (!context || (sealed && !(is_sure && has_lock)))
		return 0;
	if (!has_lock)
		return walk_released(context, frames, room, thread->tid);
	if (!is_sure)
		tid = thread->tid;
	// Without frames Ruby may have ended, and its functions would have nothing to read. While
	// objects are moved, a frame may refer to the old address of its code.
	if (!begin(&walk, context, tid, NULL) || walk.at == walk.end || rb.rb_during_gc()) {
		if (walk.is_lost)
			refuse(SOSC_RUBY_WRONG);
		return 0;
	}
	for (int i = 0; i < LOOK_MAX && count < room && next(&walk, &frame); i++) {
		if (!is_sure && !make_sure(&walk, context))
			return 0;
		frames[count++] = word_of(&frame, line_of(&walk, &frame), number_of(frame.code));
	}
	if (walk.is_lost)
		refuse(SOSC_RUBY_WRONG);
	return count;
}
