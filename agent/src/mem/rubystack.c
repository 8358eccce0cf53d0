// SPDX-License-Identifier: Apache-2.0
// The frames of Ruby in the stacks of blocks: of a thread that holds the GVL. Nobody else changes
// them then, nor frees or moves their code.
//
// A thread's execution context leads to its control frames, the innermost first; which file and line
// they are in, Ruby says itself, by functions that neither make objects nor raise. Before the first
// stack is believed, Ruby is asked for all of it (rb_profile_frames) and has to say the same. Until
// then each word may be anything, and is read only if it is there.

#include "rubystack.h"
#include "arch.h"
#include "image.h"
#include "memory.h"
#include "ruby.h"
#include "rules.h"
#include "soscope/objects.h"
#include "sys.h"
#include "walk.h"

enum {
	LOOK_MAX = 512, // frames that are looked at
	CONTEXT_STACK = 0, // of an execution context: words
	CONTEXT_SIZE = 1,
	CONTEXT_FRAME = 2,
	FRAME_PC = 0, // of a control frame: words
	FRAME_CODE = 2,
	FRAME_ENVIRONMENT = 4,
	CODE_BODY = 2, // of an instruction sequence: a word
	BODY_SIZE = 32, // of its body: bits in the first word in front of it, and
	BODY_CODE = 1, // a word
	FLAG_FINISH =
		0x20, // of an environment: who called the function that runs code waits for it
	FLAG_C = 0x80, // no code of Ruby's
	IMEMO_SHIFT = 12, // of an object's flags: which imemo it is
	IMEMO_MASK = 15,
	IMEMO_CODE = 7,
	STACK_MAX = 1 << 27, // words of a thread's stack
	STATIC_TLS_MAX = 1 << 14, // bytes in front of the thread pointer
	CODE_MAX = 64, // bytes of rb_profile_frames that are looked at
	TEXT_MAX = 1536, // bytes of a path, or a label
	KNOWN_BITS = 14,
	KNOWN_TRIED = 16,
	SEEN_BITS = 12,
};

bool sosc_ruby_stacks;

static const struct sosc_loaded *interpreter, *last; // the one, and what was looked at last
static struct sosc_blocks *table; // where it says how it stands
static uint32_t preparing;
static bool is_ready, is_sure;

static struct {
	int (*ruby_native_thread_p)(void);
	int (*ruby_thread_has_gvl_p)(void);
	int (*rb_during_gc)(void);
	int (*rb_profile_frames)(int start, int limit, sosc_value *frames, int *lines);
	sosc_value (*rb_profile_frame_path)(sosc_value frame);
	sosc_value (*rb_profile_frame_label)(sosc_value frame);
	const char *(*rb_string_value_ptr)(volatile sosc_value *string);
	unsigned (*rb_iseq_line_no)(sosc_value code, size_t at);
	const sosc_value *rb_cObject;
	const char *ruby_version;
	const uint64_t *ruby_current_execution_context_ptr; // of who holds the GVL; up to 2.7
	int64_t context; // later: where it is, from the thread pointer
	uint64_t frame_size; // bytes of a control frame
} rb;

// Versions whose structs are known.
static const struct {
	uint16_t version, frame_size;
} sizes[] = {
	{207, 56}, {300, 56}, {301, 64}, {302, 64}, {303, 56}, {304, 56},
};

// By content: hash << 32 | the number of a copy among the stacks. And by where texts were.
static uint64_t known[1 << KNOWN_BITS];
static uint32_t seen[1 << SEEN_BITS];

/** A session begins, whose stacks have no code yet. */
void sosc_ruby_stacks_start(struct sosc_blocks *own)
{
	table = own;
	interpreter = last = NULL;
	sosc_ruby_stacks = is_ready = is_sure = false;
	preparing = 0; // or whoever prepares is in a handler that has left for good
	memset(known, 0, sizeof(known));
	memset(seen, 0, sizeof(seen));
}

/** An image is there: it may be an interpreter. */
void sosc_ruby_stacks_see(const struct sosc_loaded *image)
{
	if (interpreter || image == last)
		return;
	last = image;
	if (!sosc_ruby_is_in(image))
		return;
	interpreter = image;
	__atomic_store_n(&sosc_ruby_stacks, true, __ATOMIC_RELEASE);
	__atomic_fetch_add(&sosc_rules_epoch, 1, __ATOMIC_RELEASE); // stacks were walked without it
}

/** This is a forked child: nobody finishes what another thread was in the middle of. */
void sosc_ruby_stacks_forked(void)
{
	preparing = 0;
}

/** An image has gone. */
void sosc_ruby_stacks_forget(const struct sosc_loaded *image)
{
	if (image != interpreter)
		return;
	__atomic_store_n(&sosc_ruby_stacks, false, __ATOMIC_RELEASE);
	__atomic_store_n(&is_ready, false, __ATOMIC_RELEASE);
	interpreter = NULL;
}

static void refuse(enum sosc_ruby_frames why)
{
	__atomic_store_n(&table->ruby, why, __ATOMIC_RELAXED);
	__atomic_store_n(&sosc_ruby_stacks, false, __ATOMIC_RELEASE);
}

// ---- the way in ----------------------------------------------------------------------

static bool look_up(void *to, const char *name)
{
	// the next session may have begun, without an interpreter, when a handler returns here
	const struct sosc_loaded *image = interpreter;
	uint64_t addr = image ? sosc_function_of(image, name) : 0;

	memcpy(to, &addr, sizeof(addr));
	return addr != 0;
}

#define NEEDED(name) look_up(&rb.name, #name)

static bool has_functions(void)
{
	return NEEDED(ruby_native_thread_p) && NEEDED(ruby_thread_has_gvl_p) &&
	       NEEDED(rb_during_gc) && NEEDED(rb_profile_frames) && NEEDED(rb_profile_frame_path) &&
	       NEEDED(rb_profile_frame_label) && NEEDED(rb_string_value_ptr) &&
	       NEEDED(rb_iseq_line_no) && NEEDED(rb_cObject) && NEEDED(ruby_version);
}

static uint64_t size_for(uint32_t version)
{
	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		if (sizes[i].version == version)
			return sizes[i].frame_size;
	return 0;
}

// A variable of the program's own start is at the same place of each thread, and in memory that a
// thread has from its first instruction on. One that is not would have to be asked for by a
// function that may allocate.
static bool find_context(void)
{
	const struct sosc_loaded *image = interpreter;
	void *(*get_addr)(uint64_t index) = NULL;
	uint64_t index, tp = sosc_thread_pointer();

	if (NEEDED(ruby_current_execution_context_ptr))
		return true;
	if (!sosc_first_tls((uint64_t)rb.rb_profile_frames, CODE_MAX, &index, &rb.context))
		return false;
	if (!index)
		return rb.context < 0 && rb.context >= -STATIC_TLS_MAX;
	for (uint32_t i = 0; image && i < sosc_loaded_count && !get_addr; i++)
		if (sosc_loaded[i].map && sosc_loaded[i].ns == image->ns)
			get_addr = (void *)sosc_function_of(&sosc_loaded[i], "__tls_get_addr");
	if (!get_addr)
		return false;
	rb.context = (int64_t)((uint64_t)get_addr(index) - tp);
	return rb.context < 0 && rb.context >= -STATIC_TLS_MAX;
}

// Its version is known when its image is there, its variables when it has begun.
static void prepare(void)
{
	if (__atomic_exchange_n(&preparing, 1, __ATOMIC_ACQUIRE))
		return;
	if (!has_functions()) {
		refuse(SOSC_RUBY_NO_FUNCTION);
	} else if (*rb.rb_cObject && rb.ruby_native_thread_p()) {
		rb.frame_size = size_for(sosc_ruby_version(rb.ruby_version));
		if (!rb.frame_size)
			refuse(SOSC_RUBY_NO_LAYOUT);
		else if (!find_context())
			refuse(SOSC_RUBY_NO_CONTEXT);
		else
			__atomic_store_n(&is_ready, true, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&preparing, 0, __ATOMIC_RELEASE);
}

// The thread's own execution context, where it holds the GVL; else 0.
static uint64_t own_context(void)
{
	uint64_t context;

	if (rb.ruby_current_execution_context_ptr) {
		if (!rb.ruby_native_thread_p() || !rb.ruby_thread_has_gvl_p())
			return 0;
		context = __atomic_load_n(rb.ruby_current_execution_context_ptr, __ATOMIC_RELAXED);
	} else {
		context = *(const uint64_t *)(sosc_thread_pointer() + (uint64_t)rb.context);
		if (context && !rb.ruby_thread_has_gvl_p())
			return 0;
	}
	return context;
}

// ---- code ----------------------------------------------------------------------------

struct text {
	const char *data;
	uint32_t size;
};

static bool find_text(sosc_value string, struct text *text)
{
	volatile sosc_value value = string;

	if (!string || string & 7 || sosc_ruby_kind(string) != KIND_STRING)
		return false;
	text->data = rb.rb_string_value_ptr(&value);
	return text->data != NULL;
}

static bool is_text(const struct text *text, const uint8_t *copy, uint32_t size)
{
	if (size > TEXT_MAX)
		return false;
	for (uint32_t i = 0; i < size; i++)
		if ((uint8_t)text->data[i] != copy[i])
			return false;
	return !text->data[size] || size == TEXT_MAX;
}

static bool is_copy(uint32_t number, const struct text *path, const struct text *label)
{
	const struct sosc_code *copy = sosc_stack_code_at(number);
	const uint8_t *texts = (const void *)(copy + 1);

	return copy && is_text(path, texts, copy->file_size) &&
	       is_text(label, texts + copy->file_size, copy->name_size);
}

static uint32_t measure(struct text *text, uint32_t hash)
{
	uint32_t i = 0;

	for (; i < TEXT_MAX && text->data[i]; i++)
		hash = hash * 33 + (uint8_t)text->data[i];
	text->size = i;
	return hash;
}

static __attribute__((noinline)) uint32_t copy_of(const struct text *path, const struct text *label)
{
	struct {
		struct sosc_code code;
		uint8_t texts[2 * TEXT_MAX];
	} copy;

	copy.code = (struct sosc_code){.file_size = path->size, .name_size = label->size};
	memcpy(copy.texts, path->data, path->size);
	memcpy(copy.texts + path->size, label->data, label->size);
	return sosc_stack_code(&copy.code, SOSC_CODE_RUBY);
}

// Two threads that make a copy of the same code at once make two.
static uint32_t find_number(struct text *path, struct text *label)
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
			number = copy_of(path, label);
		if (!number ||
		    __atomic_compare_exchange_n(place, &there, (uint64_t)hash << 32 | number, false,
						__ATOMIC_RELEASE, __ATOMIC_RELAXED))
			break;
	}
	return number;
}

// The number of the copy of what a code says of itself, 0: there is no room for it.
static uint32_t number_of(sosc_value code)
{
	struct text path, label;
	uint32_t *entry, number;

	if (!find_text(rb.rb_profile_frame_path(code), &path) ||
	    !find_text(rb.rb_profile_frame_label(code), &label))
		return 0;
	entry = &seen[((uint64_t)path.data * 3 ^ (uint64_t)label.data) * 0x9e3779b97f4a7c15ull >>
		      (64 - SEEN_BITS)];
	number = __atomic_load_n(entry, __ATOMIC_ACQUIRE);
	if (number && is_copy(number, &path, &label))
		return number;
	number = find_number(&path, &label);
	__atomic_store_n(entry, number, __ATOMIC_RELEASE);
	return number;
}

// ---- frames ----------------------------------------------------------------------------

struct walk {
	uint64_t at, end; // control frames
	uint32_t tid; // nothing is sure yet: the thread's id; else 0
	bool is_lost; // it has come to memory that is not there
};

struct frame {
	uint64_t pc, code, flags;
};

static inline bool look(struct walk *walk, uint64_t addr, uint64_t *words, uint32_t count)
{
	uint64_t size = count * sizeof(*words);

	if (__builtin_expect(walk->tid != 0, 0)) {
		walk->is_lost |= sosc_read(walk->tid, words, addr, size) != size;
		return !walk->is_lost;
	}
	for (uint32_t i = 0; i < count; i++)
		words[i] = ((const uint64_t *)addr)[i];
	return true;
}

static bool is_imemo_of_code(uint64_t flags)
{
	return (flags & SOSC_RUBY_KIND) == KIND_IMEMO &&
	       (flags >> IMEMO_SHIFT & IMEMO_MASK) == IMEMO_CODE;
}

// Of a value that Ruby has given.
static bool is_code(sosc_value value)
{
	return value && !(value & 7) && is_imemo_of_code(sosc_ruby_flags(value));
}

// The line that a frame is in: behind its instruction is where it goes on.
static uint32_t line_of(struct walk *walk, const struct frame *frame)
{
	uint64_t body, words[BODY_CODE + 1], at;

	if (!look(walk, frame->code + CODE_BODY * sizeof(body), &body, 1) ||
	    !look(walk, body, words, BODY_CODE + 1))
		return 0;
	at = (frame->pc - words[BODY_CODE]) / 8;
	if (at > words[0] >> BODY_SIZE)
		return 0;
	return rb.rb_iseq_line_no(frame->code, at ? at - 1 : 0);
}

// The outermost frame is none: a context begins with it. While that is made or taken down, it has
// no frames.
static bool begin(struct walk *walk, uint64_t context, uint32_t tid)
{
	uint64_t words[CONTEXT_FRAME + 1], low, size;

	walk->tid = tid;
	walk->is_lost = false;
	if (!look(walk, context, words, CONTEXT_FRAME + 1))
		return false;
	low = words[CONTEXT_STACK];
	size = words[CONTEXT_SIZE] * 8;
	walk->at = words[CONTEXT_FRAME];
	walk->end = low + size - rb.frame_size;
	return low && !(low & 7) && words[CONTEXT_SIZE] < STACK_MAX && size >= rb.frame_size &&
	       low + size > low && walk->at >= low && walk->at <= walk->end &&
	       (walk->end - walk->at) % rb.frame_size == 0;
}

// The next one that runs code of Ruby's, from the innermost on. Whether there is one: if what is
// there is none, the walk is not at its end.
static bool next(struct walk *walk, struct frame *frame)
{
	for (; walk->at < walk->end; walk->at += rb.frame_size) {
		uint64_t words[FRAME_ENVIRONMENT + 1], environment, flags;

		if (!look(walk, walk->at, words, FRAME_ENVIRONMENT + 1))
			return false;
		environment = words[FRAME_ENVIRONMENT];
		if (!environment || environment & 7 || !look(walk, environment, &frame->flags, 1))
			return false;
		if (frame->flags & FLAG_C || !words[FRAME_PC])
			continue;
		walk->at += rb.frame_size;
		frame->pc = words[FRAME_PC];
		frame->code = words[FRAME_CODE];
		return frame->code && !(frame->code & 7) && look(walk, frame->code, &flags, 1) &&
		       is_imemo_of_code(flags);
	}
	return false;
}

static bool is_same(struct walk *walk, const struct frame *frame, sosc_value value, int line)
{
	// what is no code is the method that it belongs to
	return line_of(walk, frame) == (uint32_t)line && (!is_code(value) || value == frame->code);
}

// Whether Ruby has the same frames, besides those of C and of code that has not begun: where it has
// not, its structs are others.
static bool is_right(uint64_t context, uint32_t tid)
{
	sosc_value values[SOSC_BLOCK_FRAMES];
	int lines[SOSC_BLOCK_FRAMES];
	int count = rb.rb_profile_frames(0, SOSC_BLOCK_FRAMES, values, lines), i = 0;
	struct frame frame;
	struct walk walk;

	if (!begin(&walk, context, tid))
		return false;
	while (next(&walk, &frame)) {
		while (i < count && !is_same(&walk, &frame, values[i], lines[i]))
			i++;
		if (i++ == count)
			return count == SOSC_BLOCK_FRAMES && !walk.is_lost;
	}
	return walk.at >= walk.end;
}

// The first frame of the walk is there: whether to go on.
static bool make_sure(const struct walk *walk, uint64_t context)
{
	is_sure = is_right(context, walk->tid);
	if (!is_sure)
		refuse(SOSC_RUBY_WRONG);
	return is_sure;
}

/**
 * Store the frames of Ruby that this thread is in, the innermost first, as stacks have them
 * (SOSC_FRAME_PYTHON). Return how many: at most @room; 0 where it does not hold the GVL, or collects
 * garbage.
 */
uint32_t sosc_ruby_stack(uint64_t *frames, uint32_t room, bool sealed)
{
	uint64_t context;
	struct frame frame;
	struct walk walk;
	uint32_t count = 0, tid = 0;

	if (!__atomic_load_n(&is_ready, __ATOMIC_ACQUIRE)) {
		if (!sealed)
			prepare();
		if (!__atomic_load_n(&is_ready, __ATOMIC_ACQUIRE))
			return 0;
	}
	context = own_context();
	if (!context || (!is_sure && sealed))
		return 0;
	if (!is_sure)
		tid = (uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0);
	// Without frames Ruby may have ended, and its functions find nothing to look at. While objects
	// are moved, a frame may lead to where its code was.
	if (!begin(&walk, context, tid) || walk.at == walk.end || rb.rb_during_gc()) {
		if (walk.is_lost)
			refuse(SOSC_RUBY_WRONG);
		return 0;
	}
	for (int i = 0; i < LOOK_MAX && count < room && next(&walk, &frame); i++) {
		uint64_t line;

		if (!is_sure && !make_sure(&walk, context))
			return 0;
		line = line_of(&walk, &frame) & ((1u << (SOSC_FRAME_INSTR_BITS - 1)) - 1);
		frames[count++] = 1ull << SOSC_FRAME_PYTHON |
				  (uint64_t)!!(frame.flags & FLAG_FINISH) << SOSC_FRAME_ENTRY |
				  line << SOSC_FRAME_INSTR | number_of(frame.code);
	}
	if (walk.is_lost)
		refuse(SOSC_RUBY_WRONG);
	return count;
}
