// SPDX-License-Identifier: Apache-2.0
/**
 * What the agent's files share. Every variable is zero at start and private to
 * the process, except what sosc_control points to; a forked child has a copy.
 */
#ifndef SOSC_AGENT_H
#define SOSC_AGENT_H

#define _GNU_SOURCE // struct dl_phdr_info
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"
#include "soscope/wire.h"

#pragma GCC visibility push(hidden)

// ---- trampolines and what stands behind them -------------------------------

struct sosc_cell { // behind an entry trampoline
	uint64_t handler;
	uint64_t original; // where calls go; the loader stores here when it binds
};

struct sosc_site { // behind a return trampoline; ret and cell never change
	uint64_t ret;
	uint64_t cell;
	uint64_t original; // copy of the cell's
	uint8_t rule; // enum sosc_error_rule
	uint8_t flags; // SITE_FLAG_*
	uint8_t depth; // length of the chain of tail calls behind ret
	uint8_t ns; // namespace of the caller: its errno
	uint32_t next; // site that was in its bucket before it, 0 = none
};

struct sosc_lazy { // for sosc_h_resolve, indexed like the cells
	uint64_t index; // of the relocation in DT_JMPREL
	uint64_t got; // DT_PLTGOT
};

// What only the slow paths know of a slot; same index as its cell and its
// struct sosc_slot.
struct sosc_hook {
	uint64_t addr; // the cell the loader fills in
	const struct sosc_function *function; // belongs to the session
	uint64_t session; // sosc_inside.sessions when it was last hooked
	uint32_t key; // with addr, tells it from all others: image and symbol
	uint32_t ns; // namespace of the image
};

extern struct sosc_cell sosc_cells[SOSC_MAX_SLOTS];
extern struct sosc_site sosc_sitedata[SOSC_MAX_SITES];
extern const uint8_t sosc_entries[];
extern const uint8_t sosc_sites[];
extern struct sosc_lazy sosc_lazy[SOSC_MAX_SLOTS];
extern struct sosc_hook sosc_hooks[SOSC_MAX_SLOTS];

void sosc_h_jump(void);
void sosc_h_alias(void);
void sosc_h_count(void);
void sosc_h_stats(void);
void sosc_h_stats_entry(void);
void sosc_h_entry(void);
void sosc_h_entry_six(void);
void sosc_h_call(void);
void sosc_h_call_six(void);
void sosc_h_program(void);
void sosc_h_init(void);
void sosc_h_resolve(void);
void sosc_h_guard(void);
void sosc_h_iterate(void);
void sosc_x_plain(void);
void sosc_x_call(void);
void sosc_x_stats(void);
void sosc_empty(void);
void sosc_loader_jump(void);
uint64_t sosc_call_often(uint64_t function, uint64_t times);

static inline uint32_t sosc_cell_index(const struct sosc_cell *cell)
{
	return (uint32_t)(cell - sosc_cells);
}

static inline uint64_t sosc_entry_of(uint32_t index)
{
	return (uint64_t)sosc_entries + (uint64_t)index * SOSC_ENTRY_SIZE;
}

// ---- threads ---------------------------------------------------------------

struct sosc_parked {
	uint64_t sp; // 0 = free
	uint64_t cell;
	uint64_t a;
	uint64_t b;
};

enum { THREAD_HELD = 6 };

struct sosc_thread { // found by thread pointer; wiped in a forked child
	uint64_t key; // thread pointer, 0 = free; set last, never cleared
	uint64_t pos; // next unit; low bits >= CHUNK_LIMIT: no chunk
	uint64_t counts; // own count array, biased so that a cell's address indexes it
	uint64_t overhead; // ticks that were ours, not the program's
	struct sosc_parked *parked;
	uint32_t tid_check; // what %fs:sosc_tid_offset must hold
	uint32_t tid;
	uint32_t pid;
	uint32_t chunk; // index in the ring, SOSC_NONE = none
	uint32_t counts_index;
	uint32_t ready; // 1 once filled in
	// chunks with an interrupted writer: index << 32 | bytes taken, 0 = none
	uint64_t held[THREAD_HELD];
	uint32_t borrowed; // 1: a vfork child goes on in its parent's place
	uint32_t quiet; // 1: a vfork child that is not followed
	uint64_t turns; // makes every pos without room another one
};

// sosc_thread.pos without a chunk: this, and any multiple of SOSC_CHUNK_SIZE
enum { SOSC_NO_ROOM = CHUNK_LIMIT };

extern struct sosc_thread *sosc_threads;
struct sosc_thread *sosc_thread_slow(struct sosc_cell *cell);
struct sosc_thread *sosc_thread_self(void);
void sosc_thread_vforked(struct sosc_thread *thread, bool child);
int sosc_threads_init(void);
void sosc_threads_again(void);
uint32_t sosc_process(void); // changes in a forked child
struct sosc_parked *sosc_parked_find(struct sosc_thread *thread, uint64_t sp, uint64_t cell);
struct sosc_parked *sosc_parked_place(struct sosc_thread *thread, uint64_t sp, bool tail_called);

// ---- state -----------------------------------------------------------------

extern struct sosc_control *sosc_control;
extern int64_t sosc_tid_offset; // of the kernel's thread id from the thread pointer
extern int64_t sosc_errno_offsets[SOSC_NAMESPACES]; // each has a C library of its own
extern uint8_t sosc_clock_off;
extern uint64_t sosc_cost_inner;
extern uint64_t sosc_cost_outer;
extern uint64_t sosc_base; // of the blob
extern uint8_t sosc_end[]; // behind its last variable
extern bool sosc_quiet; // a child that is not followed, or the recording ended

extern struct sosc_inside sosc_inside;
extern uint8_t sosc_scratch[SOSC_SCRATCH];
extern struct sosc_change sosc_changes[SOSC_MAX_CHANGES];

static inline void *sosc_section(enum sosc_section section)
{
	return (uint8_t *)sosc_control + sosc_control->section[section].offset;
}

static inline struct sosc_slot *sosc_slot(uint32_t index)
{
	return (struct sosc_slot *)sosc_section(SOSC_SEC_SLOTS) + index;
}

/**
 * Give a chunk the state @to, if its *@word of SOSC_SEC_CHUNK_STATES is still the
 * one that was @seen. Where a signal handler has forked since then, parent and child
 * both come here: what the first has done, the other does not do again, even if the
 * chunk is in the same state by now in another's hands.
 */
static inline bool sosc_chunk_change(uint32_t *word, uint32_t seen, enum sosc_chunk_state to)
{
	uint32_t next = (seen & ~(uint32_t)SOSC_CHUNK_STATE) | to;

	if (to == SOSC_CHUNK_OWNED)
		next += SOSC_CHUNK_STATE + 1;
	return __atomic_compare_exchange_n(word, &seen, next, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

static inline uint64_t sosc_rdtsc(void)
{
	uint32_t low, high;

	if (sosc_clock_off)
		return 0;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

uint64_t sosc_clock_ns(int clock);
bool sosc_is_over(uint64_t until);

// ---- images ----------------------------------------------------------------

struct sosc_loaded { // an image of the link map, as long as it is there
	struct link_map *map; // NULL = this place is free
	uint64_t bias;
	uint64_t start, end; // addr
	const Elf64_Phdr *phdr;
	uint32_t phnum;
	uint32_t index; // in SEC_IMAGES
	const Elf64_Dyn *dynamic;
	const Elf64_Sym *symtab;
	const char *strtab;
	uint64_t strsz;
	const Elf64_Half *versym;
	const uint8_t *verneed, *verdef;
	uint64_t verneednum, verdefnum;
	const uint32_t *gnu_hash, *sysv_hash;
	const Elf64_Rela *rela, *jmprel;
	uint64_t relacount, jmprelcount;
	uint64_t *pltgot;
	const char *name; // soname, else file name
	const char *path;
	uint64_t relro_start, relro_end; // addr, whole pages
	uint64_t init_dyn; // saved l_info[DT_INIT] while an init cell stands there
	uint32_t init_cell; // cell index, SOSC_NONE
	uint8_t build_id[32];
	uint8_t build_id_size;
	uint32_t identity; // a hash of what it is
	uint32_t ns; // number of its namespace
	bool main, loader, hooked, seen;
	bool waits; // for soscope_agent_hook
};

extern struct sosc_loaded sosc_loaded[SOSC_MAX_IMAGES];
extern uint32_t sosc_loaded_count;

struct sosc_namespace { // a list of the loader's
	struct link_map *first;
	bool consistent;
};

void sosc_namespaces_init(const struct r_debug *r_debug, const struct sosc_loaded *loader);
bool sosc_errno_find(const struct sosc_loaded *libc);
uint32_t sosc_namespaces(struct sosc_namespace found[SOSC_NAMESPACES]);

struct sosc_regs { // as the handlers that call C save them, from rsp on
	uint64_t r11, r9, r8, rdi, rsi, rcx, r10, rdx, rax;
	uint64_t ret; // the return address, in its place
	uint64_t stack[]; // arguments in memory
};

int sosc_images_start(const struct sosc_start *start);
bool sosc_addr_executable(const struct sosc_loaded *image, uint64_t addr);
struct sosc_loaded *sosc_image_of(uint64_t addr);
uint64_t sosc_dynamic_addr(const struct sosc_loaded *image, uint64_t value);
int sosc_image_parse(struct sosc_loaded *image, const struct sosc_start *start);
void sosc_image_record(struct sosc_loaded *image, uint32_t flags);

// ---- look-up ---------------------------------------------------------------

uint32_t sosc_gnu_hash(const char *name);
const char *sosc_symbol_name(const struct sosc_loaded *image, uint32_t symbol);
const char *sosc_symbol_version(const struct sosc_loaded *image, uint32_t symbol);
const Elf64_Sym *sosc_lookup(const struct sosc_loaded *image, const char *name, uint32_t hash,
			     const char *version);
const Elf64_Sym *sosc_lookup_all(uint32_t ns, const char *name, const char *version,
				 struct sosc_loaded **provider);

// ---- choice ----------------------------------------------------------------

struct sosc_choice {
	const struct sosc_function *function; // of the symbol; never NULL
	uint16_t flags; // its flags, a glob's added
};

void sosc_select_image(const struct sosc_loaded *image, bool again);
bool sosc_select_slot(const char *symbol, const struct sosc_loaded *callee,
		      struct sosc_choice *choice);

// ---- slots -----------------------------------------------------------------

void sosc_image_hook(struct sosc_loaded *image, bool alone);
void sosc_image_wait(struct sosc_loaded *image);
void sosc_slots_again(void);
bool sosc_change_note(const struct sosc_loaded *image, uint64_t addr, uint64_t before,
		      uint64_t after, uint32_t size);
bool sosc_change_word(const struct sosc_loaded *image, uint64_t addr, uint64_t value);
void sosc_changes_forget(const struct sosc_loaded *image);
uint32_t sosc_cell_take(void); // a cell outside the slots, SOSC_NONE = none left
void sosc_cell_give(uint32_t index);
bool sosc_write(uint64_t addr, const void *bytes, uint64_t size, bool text);
void sosc_write_often(bool often);
uint64_t sosc_read(uint32_t pid, void *to, uint64_t from, uint64_t size);
bool sosc_protect(uint64_t start, uint64_t end, int prot);

enum sosc_use { // how an image's code uses a GLOB_DAT slot
	SOSC_USE_CALL = 1, // call *slot(%rip)
	SOSC_USE_JUMP = 2, // jmp *slot(%rip)
	SOSC_USE_LOAD = 4, // anything else: the address may go anywhere
	SOSC_USE_STUB = 8, // a .plt.got stub
	SOSC_USE_CALLED_LOAD = 16, // loaded, and only called
};

struct sosc_scanned { // one GLOB_DAT slot to look for
	uint64_t addr;
	uint32_t relocation; // index in image->rela
	uint32_t site; // last of its uses in sites, 0 = none
	uint32_t uses; // enum sosc_use
};

struct sosc_scan_site {
	uint32_t offset; // of the displacement, from image->start
	uint32_t next; // another use of the same slot, 0 = none
};

struct sosc_scan { // of an image's text, for all of its slots
	const struct sosc_loaded *image;
	struct sosc_scanned *slots;
	uint64_t low, span; // addr of the first slot, bytes to the last
	uint64_t at; // where to go on in that segment, 0 = at its start
	uint64_t end; // of the segment that is looked through
	uint32_t segment; // index in image->phdr
	struct sosc_scan_site *sites; // uses that can be re-aimed; place 0 stays empty
	uint32_t count; // of slots
	uint32_t used, room; // of sites
	bool sites_lost; // there was no room for all of them
};

void sosc_scan_sort(struct sosc_scan *scan);
bool sosc_scan_text(struct sosc_scan *scan, uint64_t until);
void sosc_scan_end(struct sosc_scan *scan);
bool sosc_load_is_called(const struct sosc_loaded *image, uint64_t displacement);
uint32_t sosc_scan_sites(const struct sosc_scan *scan, const struct sosc_scanned *slot,
			 uint64_t shadow);
uint64_t sosc_shadow_cell(const struct sosc_loaded *image, uint64_t slot);

uint32_t sosc_guard_kind(const char *symbol);

// ---- turns -----------------------------------------------------------------

void sosc_turns_begin(void);
void sosc_turns_count(void);
bool sosc_turns_hold(void);
void sosc_turns_forget(const struct sosc_loaded *image);

// ---- strings, sites, ring, unwinding ---------------------------------------

uint32_t sosc_string(const char *text); // offset in SEC_STRINGS, 0 when full
void sosc_strings_again(void);
void sosc_ring_again(void);
void sosc_sites_init(void);
void sosc_sites_refresh(void);
uint64_t sosc_site_find(uint64_t ret, struct sosc_cell *cell);
void sosc_sites_retarget(struct sosc_cell *cell, uint64_t original);

enum sosc_loss { // what a record that finds no room is counted as
	SOSC_LOSS_NOTHING,
	SOSC_LOSS_ENTRY,
	SOSC_LOSS_EXIT,
};

uint64_t sosc_ring_reserve(struct sosc_thread *thread, uint32_t bytes, enum sosc_loss loss);
typedef int sosc_iterate_callback(struct dl_phdr_info *info, size_t size, void *data);
typedef int sosc_iterate(sosc_iterate_callback *callback, void *data);

void sosc_unwind_init(void);
void sosc_unwind_hook(struct sosc_loaded *image);

// The blob has no libc: the compiler may call these.
void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);

static inline bool sosc_same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

// ---- called from assembly -------------------------------------------------
struct sosc_thread *sosc_thread_slow_exit(struct sosc_site *site);
uint64_t sosc_ring_slow_entry(struct sosc_cell *cell, struct sosc_thread *thread, uint32_t bytes);
uint64_t sosc_ring_slow_exit(struct sosc_site *site, struct sosc_thread *thread, uint32_t bytes);
uint64_t sosc_site_slow(struct sosc_cell *cell, struct sosc_thread *thread, uint64_t ret);
void sosc_site_rebound(uint64_t code);
void sosc_count_slow(struct sosc_cell *cell);
void sosc_stats_slow(struct sosc_cell *cell);
struct sosc_parked *sosc_park_slow(struct sosc_cell *cell, struct sosc_thread *thread, uint64_t sp);
void sosc_stats_exit(const struct sosc_regs *regs, uint64_t now);
void sosc_guard(const struct sosc_regs *regs);
uint64_t sosc_capture_entry(const struct sosc_regs *regs);
void sosc_capture_exit(const struct sosc_regs *regs);
uint64_t sosc_image_init(struct sosc_cell *cell);
void sosc_loader_changed(void);
int sosc_iterate_first(sosc_iterate_callback *callback, void *data, sosc_iterate *original);
void sosc_preload(int argc, char **argv, char **envp);

#pragma GCC visibility pop

long soscope_agent_start(const struct sosc_start *start);
long soscope_agent_hook(uint64_t ns);

_Static_assert(sizeof(struct sosc_cell) == 16, "layout.h");
_Static_assert(sizeof(struct sosc_lazy) == 16, "indexed like the cells");
_Static_assert(sizeof(struct sosc_site) == SOSC_SITE_SIZE, "layout.h");
_Static_assert(offsetof(struct sosc_site, rule) == SITE_RULE, "layout.h");
_Static_assert(offsetof(struct sosc_site, flags) == SITE_FLAGS, "layout.h");
_Static_assert(offsetof(struct sosc_site, ns) == SITE_NAMESPACE, "layout.h");
_Static_assert(sizeof(struct sosc_thread) == 1 << THREAD_SHIFT, "layout.h");
_Static_assert(offsetof(struct sosc_thread, pos) == THREAD_POS, "layout.h");
_Static_assert(offsetof(struct sosc_thread, counts) == THREAD_COUNTS, "layout.h");
_Static_assert(offsetof(struct sosc_thread, overhead) == THREAD_OVERHEAD, "layout.h");
_Static_assert(offsetof(struct sosc_thread, parked) == THREAD_PARKED, "layout.h");
_Static_assert(offsetof(struct sosc_thread, tid_check) == THREAD_TID, "layout.h");
_Static_assert(sizeof(struct sosc_parked) == 1 << PARKED_SHIFT, "layout.h");
_Static_assert(sizeof(struct sosc_stats) == 1 << STATS_SHIFT, "layout.h");
_Static_assert(offsetof(struct sosc_stats, max) == STATS_MAX, "layout.h");
_Static_assert(SOSC_DISTANCE == SOSC_BLOB_DISTANCE, "wire.h");
_Static_assert(CHUNK_MASK == SOSC_CHUNK_SIZE - 1, "wire.h");
_Static_assert(CHUNK_FIRST == SOSC_CHUNK_HEADER, "wire.h");
_Static_assert(PARKED_END == PARKED_COUNT * sizeof(struct sosc_parked), "layout.h");
_Static_assert(CHUNK_LIMIT == SOSC_CHUNK_SIZE - SOSC_CHUNK_SLACK, "wire.h");

#endif
