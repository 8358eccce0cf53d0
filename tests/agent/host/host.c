// SPDX-License-Identifier: Apache-2.0
#include "host.h"

#include "blocks/blocks.h"
#include "blocks/threadstacks.h"
#include "stack/walk.h"
#include "prof/prof.h"
#include "call/cell.h"
#include "thread/counts.h"
#include "call/handler.h"
#include "image/image.h"
#include "base/instrument.h"
#include "hook/patch.h"
#include "base/session.h"
#include "call/site.h"
#include "soscope/blocks.h"
#include "soscope/objects.h"
#include "entry/start.h"
#include "thread/thread.h"
#include "vm/pythonstack.h"
#include "vm/rubystack.h"

#undef memcpy
#undef memset
#undef memcmp
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

// Trampolines and their data, as far apart as agent.lds puts them. Nobody runs
// the trampolines here.
__asm__(".pushsection .host, \"aw\", @nobits\n"
	".balign 4096\n"
	".globl sosc_entries, sosc_sites, sosc_counters, sosc_cells, sosc_sitedata, sosc_counterdata\n"
	".hidden sosc_entries, sosc_sites, sosc_counters, sosc_cells, sosc_sitedata, sosc_counterdata\n"
	"sosc_entries: .skip 0x400000\n"
	"sosc_sites: .skip 0x400000\n"
	"sosc_counters: .skip 0x200000\n"
	"sosc_cells: .skip 0x400000\n"
	"sosc_sitedata: .skip 0x400000\n"
	"sosc_counterdata: .skip 0x200000\n"
	".popsection\n");

struct sosc_inside sosc_inside;

// Handlers are only known by their address.
#define HANDLER(name)    \
	void name(void)  \
	{                \
		abort(); \
	}
// One that a program may have itself.
#define WEAK_HANDLER(name) __attribute__((weak)) HANDLER(name)
const uint8_t sosc_tally_page[SOSC_PAGE];
HANDLER(sosc_h_jump)
HANDLER(sosc_h_inject)
HANDLER(sosc_h_call)
HANDLER(sosc_h_call_six)
HANDLER(sosc_h_count)
HANDLER(sosc_h_count_callers)
HANDLER(sosc_h_entry)
HANDLER(sosc_h_entry_six)
HANDLER(sosc_h_program)
HANDLER(sosc_h_stack)
HANDLER(sosc_h_stats)
HANDLER(sosc_h_stats_entry)
HANDLER(sosc_h_layer)
HANDLER(sosc_h_count_gated)
HANDLER(sosc_h_count_callers_gated)
HANDLER(sosc_h_stats_gated)
HANDLER(sosc_h_stats_entry_gated)
HANDLER(sosc_h_entry_gated)
HANDLER(sosc_h_entry_six_gated)
HANDLER(sosc_h_call_gated)
HANDLER(sosc_h_call_six_gated)
HANDLER(sosc_h_program_gated)
HANDLER(sosc_h_stack_gated)
HANDLER(sosc_h_tally)
HANDLER(sosc_h_backtrace)
HANDLER(sosc_h_walk)
HANDLER(sosc_h_walk_ip)
HANDLER(sosc_h_walk_ip_info)
#define BLOCK_HANDLER(name, ...) HANDLER(sosc_h_block_##name) HANDLER(sosc_h_sample_##name)
SOSC_FAMILY_MAKERS(BLOCK_HANDLER)
BLOCK_HANDLER(free)
HANDLER(sosc_h_block_delete)
HANDLER(sosc_h_block_dlsym)
HANDLER(sosc_h_block_munmap)
HANDLER(sosc_h_block_brk)
HANDLER(sosc_h_block_sbrk)
HANDLER(sosc_h_block_mmap)
HANDLER(sosc_h_block_mremap)
HANDLER(sosc_h_block_pthread_create)
HANDLER(sosc_h_block_thrd_create)
HANDLER(sosc_h_block_tryjoin)
WEAK_HANDLER(sosc_h_thread_begins)
HANDLER(sosc_prof_quiet)
HANDLER(sosc_prof_entry_quiet)
HANDLER(sosc_h_prof_count)
HANDLER(sosc_h_prof_enter)
HANDLER(sosc_h_prof_enter_some)
HANDLER(sosc_h_prof_exit)
HANDLER(sosc_h_prof_exit_some)
HANDLER(sosc_h_prof_bare)
HANDLER(sosc_h_prof_own_count)
HANDLER(sosc_h_prof_own_enter)
HANDLER(sosc_h_prof_own_exit)
HANDLER(sosc_h_prof_own_bare)
HANDLER(sosc_h_prof_mcount)
HANDLER(sosc_h_prof_mcount_some)
HANDLER(sosc_h_prof_mcount_count)
HANDLER(sosc_h_prof_fentry)
HANDLER(sosc_h_prof_fentry_some)
HANDLER(sosc_h_prof_fentry_count)
HANDLER(sosc_h_prof_entry)
HANDLER(sosc_h_prof_entry_some)
HANDLER(sosc_h_prof_entry_count)
HANDLER(sosc_prof_fake_mcount)
HANDLER(sosc_prof_fake_fentry)
HANDLER(sosc_prof_fake_cyg)
HANDLER(sosc_x_prof)
HANDLER(sosc_h_prof_log_enter)
HANDLER(sosc_h_prof_log_exit)
HANDLER(sosc_h_prof_log_bare)
HANDLER(sosc_h_prof_log_own_enter)
HANDLER(sosc_h_prof_log_own_exit)
HANDLER(sosc_h_prof_log_own_bare)
HANDLER(sosc_h_prof_log_mcount)
HANDLER(sosc_h_prof_log_fentry)
HANDLER(sosc_h_prof_log_entry)
HANDLER(sosc_x_prof_log)
HANDLER(sosc_x_call)
HANDLER(sosc_x_layer)
HANDLER(sosc_return_now)
HANDLER(sosc_x_plain)
HANDLER(sosc_x_stats)
HANDLER(sosc_empty)
HANDLER(sosc_patches_begin)

long sosc_fork_apart(uint64_t function, int32_t *child)
{
	(void)function;
	(void)child;
	abort();
}

// There is no trampoline: calls take no time.
uint64_t sosc_call_often(uint64_t function, uint64_t times)
{
	(void)function;
	(void)times;
	return 0;
}

uint64_t sosc_call_apart(uint64_t function, uint64_t times)
{
	(void)function;
	(void)times;
	return 0;
}

// What the agent copies is copied where the sanitizer can see it.
void *agent_memcpy(void *restrict to, const void *restrict from, size_t size);
void *agent_memcpy(void *restrict to, const void *restrict from, size_t size)
{
	return size ? memcpy(to, from, size) : to; // from may be NULL then
}

void *agent_memset(void *to, int byte, size_t size);
void *agent_memset(void *to, int byte, size_t size)
{
	return memset(to, byte, size);
}

int agent_memcmp(const void *a, const void *b, size_t size);
int agent_memcmp(const void *a, const void *b, size_t size)
{
	return memcmp(a, b, size);
}

void host_fail(const char *file, int line, const char *what)
{
	printf("%s:%d: %s\n", file, line, what);
	fflush(stdout);
	_Exit(1);
}

// The kernel gives a process's signal to its first thread, unless that has blocked it.
void host_interrupt(void (*handler)(int signal))
{
	const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	sigset_t alarm;

	CHECK(!sigemptyset(&alarm) && !sigaddset(&alarm, SIGALRM));
	CHECK(!sigprocmask(SIG_BLOCK, &alarm, NULL));
	if (handler)
		CHECK(signal(SIGALRM, handler) != SIG_ERR);
	CHECK(!setitimer(ITIMER_REAL, handler ? &often : &never, NULL));
}

enum { BLOCK_MOST = 1 << 29 }; // the plan lies behind that

struct sosc_plan_head *host_plan;
static uint8_t *block;
static uint64_t used, plan_used;

static bool is_of_plan(enum sosc_section section)
{
	return section == SOSC_SEC_PATTERNS || section == SOSC_SEC_RULES ||
	       section == SOSC_SEC_FUNCTIONS || section == SOSC_SEC_PATCHES;
}

static struct sosc_range take(uint64_t *end, uint64_t size)
{
	struct sosc_range range = {(*end + SOSC_CHUNK_SIZE - 1) & ~(uint64_t)(SOSC_CHUNK_SIZE - 1),
				   size};

	*end = range.offset + size;
	CHECK(*end <= BLOCK_MOST);
	return range;
}

static void *place(enum sosc_section section, uint64_t size)
{
	bool planned = is_of_plan(section);

	host_plan->section[section] = take(planned ? &plan_used : &used, size);
	return (planned ? (uint8_t *)host_plan : block) + host_plan->section[section].offset;
}

struct sosc_control *host_control(enum sosc_instrument_kind kind, uint32_t chunks)
{
	static const uint32_t no_patterns;
	struct {
		struct sosc_function_table table;
		struct sosc_function cells[2];
	} functions = {.table = {.cells = sizeof(functions.table),
				 .default_function = offsetof(typeof(functions), cells[1])}};
	void *map = mmap(NULL, (2ul << 29) + SOSC_CHUNK_SIZE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t cell = kind == SOSC_INSTRUMENT_COUNT ? 8 : sizeof(struct sosc_stats);

	CHECK(map != MAP_FAILED);
	block = (uint8_t *)(((uint64_t)map + SOSC_CHUNK_SIZE - 1) &
			    ~(uint64_t)(SOSC_CHUNK_SIZE - 1));
	used = SOSC_PAGE;
	plan_used = sizeof(*host_plan);
	sosc_control = (void *)block;
	host_plan = (void *)(block + BLOCK_MOST);
	*host_plan = (struct sosc_plan_head){
		.magic = SOSC_PLAN_MAGIC,
		.head_size = sizeof(*host_plan),
		.plans = 1,
		.string_limit = 32,
		.count_arrays = HOST_ARRAYS,
		.plan = {{.instrument = kind, .rules = UINT32_MAX}}, // as many as there are
	};
	host_look();
#define FILL_IN(name, file) sosc_instrument_##file(&sosc_instruments[SOSC_INSTRUMENT_##name]);
	SOSC_INSTRUMENTS(FILL_IN)
	sosc_language_python();
	sosc_language_ruby();
	sosc_instruments_init();
	sosc_control->strings = 1;
	(void)place(SOSC_SEC_RULES, 0);
	(void)place(SOSC_SEC_IMAGES, SOSC_MAX_IMAGES * sizeof(struct sosc_image));
	(void)place(SOSC_SEC_SLOTS, SOSC_MAX_SLOTS * sizeof(struct sosc_slot));
	(void)place(SOSC_SEC_STRINGS, HOST_STRINGS);
	(void)place(SOSC_SEC_COUNTS, HOST_ARRAYS * cell * SOSC_MAX_SLOTS);
	host_look();
	sosc_counts_start(used, 0);
	(void)place(SOSC_SEC_CHUNK_STATES, chunks * 4ul);
	(void)place(SOSC_SEC_RING, (uint64_t)chunks * SOSC_CHUNK_SIZE);
	host_plan->chunks = chunks;
	host_section(SOSC_SEC_PATTERNS, &no_patterns, sizeof(no_patterns));
	host_section(SOSC_SEC_FUNCTIONS, &functions, sizeof(functions));
	CHECK(sosc_threads_init(0) == 0);
	sosc_sites_init();
	return sosc_control;
}

void host_section(enum sosc_section section, const void *bytes, uint64_t size)
{
	memcpy(place(section, size), bytes, size);
	if (section == SOSC_SEC_RULES)
		(void)place(SOSC_SEC_MATCHES, size / sizeof(struct sosc_rule) * 4);
	host_look();
}

void host_own(const void *bytes, uint64_t size)
{
	struct sosc_plan *plan = &host_plan->plan[0];

	plan->own = take(&used, size);
	plan->given = take(&plan_used, size);
	memcpy(block + plan->own.offset, bytes, size);
	memcpy((uint8_t *)host_plan + plan->given.offset, bytes, size);
	host_look();
}

void host_look(void)
{
	CHECK(sosc_session_begin(used, host_plan, plan_used));
}

struct sosc_blocks *host_stacks(const struct sosc_python *layout)
{
	enum { BITS = 12, WORDS = 1 << 20 };
	struct {
		struct sosc_blocks own;
		struct sosc_python layout;
		uint64_t buckets[1 << BITS];
		uint64_t words[WORDS];
	} *given = calloc(1, sizeof(*given));
	struct sosc_blocks *own;

	CHECK(given);
	given->own = (struct sosc_blocks){
		.mode = SOSC_BLOCKS_EXACT,
		.bits = BITS,
		.words = WORDS,
		.words_used = 1,
		.first_bucket = offsetof(typeof(*given), buckets),
		.first_word = offsetof(typeof(*given), words),
		.first_layout = offsetof(typeof(*given), layout),
		.layouts = layout ? 1 : 0,
	};
	if (layout)
		given->layout = *layout;
	host_own(given, sizeof(*given));
	free(given);
	(void)sosc_stacks_start(SOSC_INSTRUMENT_BLOCKS, &own);
	return own;
}

void *host_edge(uint64_t size)
{
	uint64_t room = (size + SOSC_PAGE - 1) & ~(uint64_t)(SOSC_PAGE - 1);
	uint8_t *map = mmap(NULL, room + SOSC_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(map != MAP_FAILED && !mprotect(map + room, SOSC_PAGE, PROT_NONE));
	return map + room - size;
}

void *host_read(const char *path, uint64_t *size)
{
	FILE *file = fopen(path, "rb");
	void *bytes;

	CHECK(file && fseek(file, 0, SEEK_END) == 0);
	*size = (uint64_t)ftell(file);
	rewind(file);
	bytes = malloc(*size ? *size : 1); // exactly: an access behind it is seen
	CHECK(bytes && fread(bytes, 1, *size, file) == *size);
	fclose(file);
	return bytes;
}

struct sosc_cell *host_cell(uint32_t index, const struct sosc_function *function)
{
	sosc_layers[index].function = function;
	sosc_layers[index].instrument = (uint8_t)host_plan->plan[0].instrument;
	sosc_layers[index].of_libc = 1;
	sosc_cells[index].original = (uint64_t)sosc_empty;
	sosc_cells[index].handler = (uint64_t)sosc_h_call;
	return &sosc_cells[index];
}

struct sosc_loaded *host_image(const struct host_symbol *symbols, uint32_t count)
{
	static const Elf64_Phdr segment = {
		.p_type = PT_LOAD, .p_flags = PF_W, .p_memsz = UINT64_MAX};
	static Elf64_Sym table[HOST_SYMBOLS + 1];
	static uint32_t hash[3 + HOST_SYMBOLS + 1];
	static char strings[1024];
	struct sosc_loaded *image = &sosc_loaded[0];
	uint64_t size = 1;

	CHECK(count <= HOST_SYMBOLS);
	hash[0] = 1; // one bucket, and all symbols are in its chain
	hash[1] = count + 1;
	hash[2] = 1;
	for (uint32_t i = 0; i < count; i++) {
		CHECK(size + strlen(symbols[i].name) < sizeof(strings));
		strcpy(strings + size, symbols[i].name);
		table[i + 1] = (Elf64_Sym){
			.st_name = (Elf64_Word)size,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = 1,
			.st_value = (uint64_t)symbols[i].addr,
		};
		size += strlen(symbols[i].name) + 1;
		hash[3 + i + 1] = i + 2 <= count ? i + 2 : 0;
	}
	*image = (struct sosc_loaded){
		.name = "host",
		.symtab = table,
		.strtab = strings,
		.strsz = sizeof(strings),
		.sysv_hash = hash,
		.phdr = &segment,
		.phnum = 1,
		.end = UINT64_MAX,
	};
	return image;
}
