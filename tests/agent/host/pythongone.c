// SPDX-License-Identifier: Apache-2.0
// Frames of a thread that has let go of the interpreter's lock. The interpreter may end and give any of
// their memory away: whatever of it is gone, the walk ends there, and the target does not. What is kept
// of a walk is told again as long as every word that has led to it is the same.
#include "interpreter.h"

#include <sys/mman.h>
#include <unistd.h>

#include "thread/thread.h"

enum { DEPTH = 3, ROOM = 8, LONG = 20000 };

static struct state *state; // what the thread has kept
static int holds;

static void *current_state(void)
{
	return holds ? state : NULL;
}

static void *kept_state(void)
{
	return state;
}

static const char *version(void)
{
	return "3.9.2 (a few lines)";
}

static const struct host_symbol names[] = {
	{"Py_IsInitialized", is_initialized},
	{"PyList_New", code_dealloc}, // by its name alone
	{"PyCode_Type", &code_type},
	{"Py_GetVersion", version},
	{"PyGILState_GetThisThreadState", kept_state},
	{"_PyThreadState_UncheckedGet", current_state},
};

// Each of them in pages of its own, and at their end.
static struct {
	struct frame *frame;
	struct code *code;
	struct text *file, *name;
	struct lines *lines;
} made[DEPTH];

static void *copy_of(const void *from, uint64_t size)
{
	return memcpy(host_edge((size + 7) & ~7ull), from, size);
}

static void make_thread(void)
{
	static uint32_t number;
	struct whole whole;

	state = host_edge(sizeof(*state));
	for (int i = DEPTH - 1; i >= 0; i--) {
		begin(&whole, ++number);
		made[i].file = copy_of(&file, offsetof(struct text, data) + file.size);
		made[i].name = copy_of(&whole.name, offsetof(struct text, data) + whole.name.size);
		made[i].lines = copy_of(&lines, offsetof(struct lines, data) + lines.size);
		whole.code.file = made[i].file;
		whole.code.name = made[i].name;
		whole.code.lines = made[i].lines;
		made[i].code = copy_of(&whole.code, sizeof(whole.code));
		made[i].frame = copy_of(&(struct frame){.code = made[i].code,
							.previous = state->frame,
							.instr = (uint64_t)i * 2},
					sizeof(struct frame));
		state->frame = made[i].frame;
	}
	state->thread = sosc_thread_pointer();
	holds = 0;
}

static uint64_t told[ROOM];
static struct sosc_thread asker;

static uint32_t count_of(void)
{
	memset(told, 0, sizeof(told));
	return sosc_python_stack(told, ROOM, &asker);
}

static bool is_named(uint64_t word, const struct text *name)
{
	const struct sosc_code *code = sosc_stack_code_at((uint32_t)word);

	return code && code->file_size == file.size && code->name_size == name->size &&
	       code->lines_size == lines.size &&
	       !memcmp((const char *)(code + 1) + code->file_size, name->data, name->size) &&
	       !memcmp((const char *)(code + 1) + code->file_size + code->name_size, lines.data,
		       lines.size);
}

static void take(const void *addr)
{
	void *page = (void *)((uint64_t)addr & ~(uint64_t)(SOSC_PAGE - 1));

	CHECK(!mprotect(page, SOSC_PAGE, PROT_NONE));
}

static void check_sound(void)
{
	for (int i = 0; i < 4; i++) {
		holds = i & 1;
		asker.sealed = i >> 1;
		CHECK(count_of() == (holds || !asker.sealed ? DEPTH : 0));
		for (int k = 0; told[0] && k < DEPTH; k++)
			CHECK(is_named(told[k], made[k].name));
	}
	holds = asker.sealed = 0;
}

// A thread that this interpreter does not know, or whose state says that it is another thread's.
static void check_strangers(void)
{
	struct state *kept = state;

	kept->thread++;
	CHECK(!count_of());
	kept->thread--;
	state = NULL;
	CHECK(!count_of());
	state = kept;
	CHECK(count_of() == DEPTH);
}

// Whatever has changed since the last walk, nothing is told that was kept of it.
static void check_kept(void)
{
	make_thread();
	CHECK(count_of() == DEPTH && count_of() == DEPTH);
	made[1].frame->instr += 2;
	CHECK(count_of() == DEPTH && (told[1] >> SOSC_FRAME_INSTR & 0xffff) == 4);
	made[0].frame->previous = made[2].frame;
	CHECK(count_of() == DEPTH - 1 && is_named(told[1], made[2].name));
	state->frame = made[1].frame;
	CHECK(count_of() == DEPTH - 1 && is_named(told[0], made[1].name));
	made[2].frame->code = made[0].code;
	CHECK(count_of() == DEPTH - 1 && is_named(told[1], made[0].name));
	state->thread++;
	CHECK(!count_of());
	state->thread--;
	CHECK(count_of() == DEPTH - 1);
	// another code object has the place of one that has ended
	code_type.dealloc(made[1].code);
	made[1].name->data[0] = 'N';
	CHECK(count_of() == DEPTH - 1 && is_named(told[0], made[1].name));
	take(made[0].code); // its number is known: nobody has to read it
	CHECK(count_of() == DEPTH - 1 && is_named(told[1], made[0].name));
	take(made[2].frame);
	CHECK(count_of() == 1);
}

// Frames that lie side by side, the outermost first, right up to what cannot be read, and across the
// end of a page.
static void check_side_by_side(void)
{
	enum { PAGE = SOSC_PAGE, MANY = ROOM };
	const uint32_t shifts[] = {0, 8, 16, PAGE - 8, PAGE - 16, PAGE - 5 * sizeof(struct frame)};

	for (uint32_t i = 0; i < sizeof(shifts) / sizeof(*shifts); i++) {
		uint8_t *end = (uint8_t *)host_edge(2 * PAGE) + 2 * PAGE - shifts[i];
		struct frame *frames = (struct frame *)end - MANY;

		make_thread();
		for (int k = 0; k < MANY; k++)
			frames[k] = (struct frame){.code = made[k % DEPTH].code,
						   .previous = k ? &frames[k - 1] : NULL};
		state->frame = &frames[MANY - 1];
		CHECK(count_of() == MANY);
		for (int k = 0; k < MANY; k++)
			CHECK(is_named(told[MANY - 1 - k], made[k % DEPTH].name));
		take(frames); // and with it all that is in the page
		CHECK(count_of() < MANY);
	}
}

static void check_frames(void)
{
	make_thread();
	take(made[1].frame);
	CHECK(count_of() == 1);
	take(made[0].frame);
	CHECK(!count_of());
	take(state);
	CHECK(!count_of());
	make_thread();
	take(made[1].code);
	CHECK(count_of() == DEPTH - 1 && is_named(told[1], made[2].name));
	make_thread();
	made[2].frame->previous = made[0].frame; // without an end
	CHECK(count_of() == ROOM);
	made[0].frame->code = NULL;
	made[1].frame->code = NULL;
	made[2].frame->code = NULL;
	CHECK(!count_of());
	make_thread();
	state->thread++; // another thread's
	CHECK(!count_of());
}

// A code object is there, and what it names is not.
static void check_texts(void)
{
	for (int i = 0; i < 3; i++) {
		make_thread();
		take(i == 0 ? (void *)made[1].file :
		     i == 1 ? (void *)made[1].name :
			      (void *)made[1].lines);
		CHECK(count_of() == DEPTH && is_named(told[2], made[2].name));
		CHECK(!sosc_stack_code_at((uint32_t)told[1]));
	}
}

// What was memory of a text says anything.
static void check_sizes(void)
{
	static const uint64_t sizes[] = {200, 5000, LONG, 1 << 20, 1ull << 31, UINT32_MAX, ~0ull};

	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		make_thread();
		made[0].file->size = sizes[i];
		made[1].name->size = sizes[i];
		made[2].lines->size = sizes[i];
		CHECK(count_of() == DEPTH);
		for (int k = 0; k < DEPTH; k++)
			CHECK(!is_named(told[k], made[k].name));
	}
	make_thread();
	made[0].name = host_edge(offsetof(struct text, data) + LONG);
	*made[0].name = (struct text){.size = LONG, .state = file.state};
	memset(made[0].name->data, 'n', LONG);
	made[0].code->name = made[0].name;
	CHECK(count_of() == DEPTH);
	CHECK(sosc_stack_code_at((uint32_t)told[0])->name_size == SOSC_CODE_TEXT);
	CHECK(is_named(told[1], made[1].name));
}

int main(void)
{
	host_control(SOSC_INSTRUMENT_BLOCKS, 1);
	asker.tid = (uint32_t)gettid();
	code_type.dealloc = code_dealloc;
	(void)host_image(names, sizeof(names) / sizeof(*names));
	(void)host_stacks(&layout);
	sosc_python_stacks_see(&sosc_loaded[0]);
	make_thread();
	check_sound();
	check_strangers();
	check_kept();
	check_side_by_side();
	check_frames();
	check_texts();
	check_sizes();
	make_thread();
	check_sound();
	return 0;
}
