// SPDX-License-Identifier: Apache-2.0
// Frames of a thread of Ruby's that has let go of the GVL, with an interpreter of a few lines that has
// the structs of 3.1. Whoever holds the GVL moves what they lead to, gives it away, or collects garbage:
// each frame is told as it is, or without a line, and from no memory that is gone.
#include "rubyinterpreter.h"

#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/image.h"
#include "base/instrument.h"
#include "stack/chain.h"
#include "vm/rubystack.h"
#include "stack/walk.h"
#include "soscope/blocks.h"
#include "thread/thread.h"

enum {
	ROOM = 64,
	MOVES = 6000,
};

// ---- what is told --------------------------------------------------------------

static uint64_t told[ROOM];
static struct sosc_thread asker;

static uint32_t count_of(void)
{
	memset(told, 0, sizeof(told));
	return sosc_ruby_stack(told, ROOM, &asker);
}

enum word { RIGHT, UNKNOWN, WRONG };

static enum word look_at(uint64_t word, int number)
{
	const struct sosc_code *code = sosc_stack_code_at((uint32_t)word);
	const struct made *of = &made[number];
	uint32_t place = place_of(number), line = line_at(of, place ? place - 1 : 0);
	const char *file = (const char *)(code + 1);

	CHECK(word >> SOSC_FRAME_PYTHON & 1);
	CHECK((word >> SOSC_FRAME_ENTRY & 1) == (number % 4 == 0));
	if (!(uint32_t)word)
		return word >> SOSC_FRAME_INSTR & 0x3fffffff ? WRONG : UNKNOWN;
	return code && code->file_size == strlen(of->file) && code->name_size == strlen(of->name) &&
			       !memcmp(file, of->file, code->file_size) &&
			       !memcmp(file + code->file_size, of->name, code->name_size) &&
			       (word >> SOSC_FRAME_INSTR & 0x3fffffff) == line ?
		       RIGHT :
		       WRONG;
}

// All frames are told; of one, or of none, nothing is known.
static void check_all_but(int unknown)
{
	uint32_t count = count_of(), at = 0;

	CHECK(count == FRAMES - FRAMES / 3);
	for (int i = 0; i < FRAMES; i++)
		if (is_ruby(i))
			CHECK(look_at(told[at++], i) == (i == unknown ? UNKNOWN : RIGHT));
}

static void check_all(void)
{
	check_all_but(-1);
}

static void protect(const void *addr, int prot)
{
	CHECK(!mprotect((void *)((uint64_t)addr & ~(uint64_t)(SOSC_PAGE - 1)), SOSC_PAGE, prot));
}

static void take(const void *addr)
{
	protect(addr, PROT_NONE);
}

static void collect(void)
{
	space.count++;
}

// ---- cases -----------------------------------------------------------------------

static void check_sound(void)
{
	const struct sosc_thread sealed = {.tid = asker.tid, .sealed = 1};

	check_all();
	check_all();
	CHECK(!sosc_ruby_stack(told, ROOM, &sealed));
	CHECK(!asked); // who does not hold the GVL may not ask
	own_context = NULL;
	CHECK(!count_of());
	own_context = context;
	check_all();
}

static bool has_place_of(int number, uint64_t pc)
{
	uint32_t place = sosc_ruby_place((uint64_t)made[4].code, (uint64_t)innermost[4].pc);

	return number != 4 && is_ruby(number) &&
	       sosc_ruby_place((uint64_t)made[number].code, pc) == place;
}

// Whether another frame takes the place of frame 4. That depends on where the kernel maps memory.
static bool is_place_shared(void)
{
	bool is_shared = has_place_of(0, (uint64_t)(innermost[0].pc + 1));

	for (int i = 0; i < FRAMES; i++)
		is_shared |= has_place_of(i, (uint64_t)innermost[i].pc);
	return is_shared;
}

// What was found out is told again up to the next collection. It is found out anew as long as one marks.
static void check_kept(void)
{
	while (is_place_shared())
		make_thread();
	collect();
	check_all();
	take(made[4].code);
	check_all(); // nothing of the frames is another one
	innermost[0].self = 0;
	innermost[0].pc++;
	CHECK(count_of() && look_at(told[1], 1) == RIGHT); // one frame has gone on
	innermost[0].pc--;
	check_all();
	space.flags = 1;
	check_all(); // it was alive when this one had begun
	collect();
	check_all_but(4);
	protect(made[4].code, PROT_READ | PROT_WRITE);
	for (uint32_t i = 0; i < 3; i++) {
		const uint8_t flags[] = {1, 0x21, 0x22}; // it marks, or runs

		space.flags = flags[i];
		check_all();
		take(made[7].label);
		check_all_but(7);
		protect(made[7].label, PROT_READ | PROT_WRITE);
	}
	make_thread();
}

static void check_gone(void)
{
	for (int i = 0; i < FRAMES; i++) {
		const void *parts[] = {made[i].code,  made[i].body,  made[i].label, made[i].path,
				       made[i].first, made[i].lines, made[i].index};

		for (uint32_t k = 0; is_ruby(i) && k < sizeof(parts) / sizeof(*parts); k++) {
			collect();
			check_all();
			collect();
			take(parts[k]);
			check_all_but(made[i].count + 5 > k ? i : -1); // few lines have no index
			protect(parts[k], PROT_READ | PROT_WRITE);
		}
	}
	take(stack + 6 * 7);
	CHECK(!count_of()); // the stack is one piece
	protect(stack + 6 * 7, PROT_READ | PROT_WRITE);
	take(context);
	CHECK(!count_of());
	protect(context, PROT_READ | PROT_WRITE);
	make_thread();
}

// What lies there is something else, or says anything.
static void check_other(void)
{
	static const uint64_t wrong[] = {0,	    1, 4, 8, 1ull << 20, 1ull << 47, UINT64_MAX - 7,
					 UINT64_MAX};
	struct made *of = &made[4];

	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		uint64_t *const places[] = {
			&of->code->flags,
			&of->code->words[0],
			(uint64_t *)&of->body->code,
			&of->body->path,
			&of->body->label,
			&of->path->words[0],
			&of->label->words[0],
			(uint64_t *)&innermost[4].code,
		};

		for (uint32_t k = 0; k < sizeof(places) / sizeof(*places); k++) {
			uint64_t kept = *places[k];

			if (places[k] == &of->label->words[0] && !(of->label->flags & ELSEWHERE))
				continue; // it is the text
			*places[k] = wrong[i];
			collect();
			check_all_but(4);
			*places[k] = kept;
		}
	}
	collect();
	check_all();
	innermost[4].pc = made[5].body->code + 1; // an instruction of other code
	innermost[6].pc = (uint64_t *)((uint8_t *)innermost[6].pc + 4);
	CHECK(count_of() && look_at(told[3], 4) == UNKNOWN && look_at(told[4], 6) == UNKNOWN);
	make_thread();
	innermost[1].environment = (uint64_t *)UINT64_MAX - 1;
	CHECK(count_of() == 1);
	innermost[1].environment = (uint64_t *)(UINT64_MAX - 7);
	CHECK(count_of() == 1);
	context->size = UINT64_MAX;
	CHECK(!count_of());
	context->size = WORDS;
	context->frame = NULL;
	CHECK(!count_of());
	make_thread();
	check_all();
}

// Objects that have been moved say where to, until what has led to them leads there.
static void move(struct object **object)
{
	struct object *to = memcpy(host_edge(sizeof(*to)), *object, sizeof(*to));

	**object = (struct object){KIND_MOVED, 0, {(uint64_t)to}};
}

static void check_moved(void)
{
	for (int i = 0; i < FRAMES; i++) {
		move(&made[i].code);
		move(&made[i].label);
		move(&made[i].path);
		if (made[i].first != made[i].path)
			move(&made[i].first);
	}
	collect();
	check_all();
	make_thread();
	collect();
	*made[4].label = (struct object){KIND_MOVED, 0, {(uint64_t)made[4].label}};
	check_all_but(4); // it leads round
	make_thread();
}

// Somebody in a handler has all places where frames are kept, or has left them so.
static void check_taken(void)
{
	struct sosc_chain *chains[64];
	uint32_t count = 0;

	while (count < 64 && (chains[count] = sosc_chain_take(asker.tid)))
		count++;
	CHECK(count > 1 && count < 64);
	CHECK(!count_of());
	sosc_chain_leave(chains[--count]);
	check_all();
	while (count)
		sosc_chain_leave(chains[--count]);
	check_all();
}

static void check_child(void)
{
	struct sosc_chain *chain = sosc_chain_take(asker.tid);
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		asker.tid = (uint32_t)getpid();
		sosc_instruments_forked(sosc_quiet);
		check_all();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	sosc_chain_leave(chain);
}

// ---- while another thread moves it ------------------------------------------------

static int is_over;
static uint32_t looks;

// As a collector does it: copies, leaves where they are, then changes what has led there; and then
// something else of the same kind is made where they were. A collection takes longer than a look at a
// frame does, so an object is not moved away and back while one look lasts.
static void *move_around(void *unused)
{
	static struct object spare[3];
	struct object *from[3] = {made[1].code, made[1].label, made[1].first};
	struct object *to[3] = {&spare[0], &spare[1], &spare[2]};
	struct object other[3] = {*made[3].code, *made[6].label, *made[6].first};

	for (uint32_t turn = 0, last = 0; !__atomic_load_n(&is_over, __ATOMIC_ACQUIRE); turn++) {
		while (__atomic_load_n(&looks, __ATOMIC_ACQUIRE) == last &&
		       !__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
			sched_yield();
		last = __atomic_load_n(&looks, __ATOMIC_ACQUIRE);
		for (int i = 0; i < 3; i++) {
			*to[i] = *from[i];
			memset(from[i], 0, sizeof(*from[i]));
			from[i]->words[0] = (uint64_t)to[i];
			__atomic_store_n(&from[i]->flags, KIND_MOVED, __ATOMIC_RELEASE);
		}
		__atomic_store_n(&innermost[1].code, to[0], __ATOMIC_RELEASE);
		__atomic_store_n(&made[1].body->label, (uint64_t)to[1], __ATOMIC_RELEASE);
		__atomic_store_n(&made[1].path->words[0], (uint64_t)to[2], __ATOMIC_RELEASE);
		for (int i = 0; i < 3; i++) {
			struct object *kept = from[i];

			*from[i] = other[i];
			from[i] = to[i];
			to[i] = kept;
		}
		__atomic_fetch_add(&space.count, turn % 8 == 0, __ATOMIC_RELEASE);
	}
	return unused;
}

static void check_moving(void)
{
	pthread_t thread;
	uint32_t seen[3] = {0};

	CHECK(made[1].path->flags & EMBEDDED); // or something else leads to its text
	CHECK(!pthread_create(&thread, NULL, move_around, NULL));
	for (int i = 0; i < MOVES; i++) {
		uint32_t count;

		__atomic_fetch_add(&looks, 1, __ATOMIC_RELEASE);
		count = count_of();
		CHECK(count == FRAMES - FRAMES / 3);
		CHECK(look_at(told[0], 0) == RIGHT && look_at(told[2], 3) == RIGHT);
		seen[look_at(told[1], 1)]++;
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	CHECK(!pthread_join(thread, NULL));
	CHECK(seen[RIGHT] && !seen[WRONG]);
	collect();
	check_all();
}

int main(void)
{
	static const Elf64_Phdr readable = {
		.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_memsz = UINT64_MAX};
	static struct link_map loaded;
	struct sosc_loaded *image;

	host_control(SOSC_INSTRUMENT_BLOCKS, 1);
	asker.tid = (uint32_t)gettid();
	image = host_image(names, sizeof(names) / sizeof(*names));
	image->phdr = &readable;
	image->map = &loaded;
	sosc_loaded_count = 1;
	make_interpreter();
	(void)host_stacks(NULL);
	sosc_ruby_stacks_see(&sosc_loaded[0]);
	check_sound();
	check_kept();
	check_gone();
	check_other();
	check_moved();
	check_taken();
	check_child();
	check_moving();
	return 0;
}
