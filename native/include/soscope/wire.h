// SPDX-License-Identifier: Apache-2.0
/**
 * What the agent and soscope write to each other: the one definition.
 *
 * Everything lies in memory files per traced program image (a forked
 * child shares its parent's; an exec starts new ones):
 *
 *	block	control page | sections, the ring of chunks among them (enum sosc_section)
 *	plan	struct sosc_plan_head | the sections marked "plan"
 *	execs	struct sosc_execs, where children are not followed
 *
 * soscope lays both out and maps the agent. The program can write to the block, and
 * soscope alone to the plan. The agent fills the sections marked "agent". All integers
 * are little-endian and naturally aligned. Offsets are bytes from the start of the file
 * unless said otherwise, in a section's struct sosc_range from the start of its file. src/soscope/wire/ is the Python mirror; tests/agent/test_wire.py
 * compares every offset.
 */
#ifndef SOSCOPE_WIRE_H
#define SOSCOPE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "execs.h"
#include "inject.h"
#include "patches.h"
#include "program.h"
#include "stream.h"

#define SOSC_MAGIC 0x3165706f63736f73ull // "soscope1"
#define SOSC_PLAN_MAGIC 0x316e616c70636f73ull // "socplan1"

enum {
	SOSC_WIRE_VERSION = 1,
	SOSC_PAGE = 4096,
	SOSC_CHUNK_SIZE = 16384,
	SOSC_CHUNK_HEADER = 64,
	SOSC_CHUNK_SLACK = 512, // end of a chunk that only nested signals reach
	SOSC_UNIT = 32,
	SOSC_MAX_SLOTS = 262144,
	SOSC_SLOT_PLACES = 1048576, // see SOSC_SEC_PLACES; a power of two
	SOSC_MAX_IMAGES = 8192,
	SOSC_MAX_SITES = 131072,
	SOSC_MAX_COUNTERS = 16384,
	SOSC_MAX_MOVES = 131072,
	SOSC_MAX_CALL_SITES = 262144, // their numbers have 18 bits
	SOSC_CALL_SITE_SLOT = 17, // bits of a slot's index in one
	SOSC_CALL_SITE_HEADS = 4096, // a power of two
	SOSC_NAMESPACES = 16, // glibc's DL_NNS
	SOSC_GATES = 1024, // see SOSC_SEC_GATES
	SOSC_NONE = 0xffffffffu, // "no such index" in every u32 index field
};

// What may see a hooked call: a file of the agent each (SOSC_INSTRUMENTS in base/instrument.h). A
// slot that several of a session have chosen leads through all of them, in the order of the
// plans.
enum sosc_instrument_kind {
	SOSC_INSTRUMENT_GUARD = 0, // the agent's own
	SOSC_INSTRUMENT_COUNT = 1, // calls alone, per thread array of u64
	SOSC_INSTRUMENT_STATS = 2, // calls, errors, times: struct sosc_stats per slot
	SOSC_INSTRUMENT_TRACE = 3, // a stream of records
	SOSC_INSTRUMENT_INJECT = 4, // calls that fail or wait, and a record of each
	SOSC_INSTRUMENT_BLOCKS = 5, // blocks and mappings, by the stacks that made them
	SOSC_INSTRUMENT_OBJECTS = 6, // objects that stay alive
	SOSC_INSTRUMENT_OPEN = 7, // opens the gate: what follows is recorded
	SOSC_INSTRUMENT_CLOSE = 8, // closes it
	SOSC_INSTRUMENT_PROF = 9, // calls that instrumented code reports
	SOSC_INSTRUMENT_KINDS = 10,
};

enum sosc_flag {
	SOSC_FLAG_FOLLOW = 1, // forked children go on; else they go quiet
	SOSC_FLAG_EXECS = 2, // soscope wants to know before the program executes another one
	SOSC_FLAG_NO_CLOCK = 4, // write 0 for every time
};

enum { SOSC_PLANS = 4 }; // instruments of one session

enum sosc_plan_flag {
	SOSC_PLAN_ENTRY_ONLY = 1, // no exits at all
	SOSC_PLAN_NO_DURATIONS = 2, // nobody asks how long a SOSC_FN_BRIEF call took: 0
	SOSC_PLAN_STACKS = 4, // TRACE: each entry has its stack; own memory as blocks.h has it
	SOSC_PLAN_ASKS = 8, // soscope looks for the types of functions in images that come
	SOSC_PLAN_CALLERS = 16, // COUNT, STATS: by call site, where it has a number; a count array
	// has SOSC_MAX_CALL_SITES cells more for these, behind those of slots
	SOSC_PLAN_METHODS = 32, // entries of Python's method tables are slots, too
};

enum sosc_when_full { // what a writer does when no chunk is free
	SOSC_FULL_BLOCK = 0, // wait for the reader
	SOSC_FULL_DROP = 1, // count and go on
	SOSC_FULL_OVERWRITE = 2, // take the oldest full chunk
	SOSC_FULL_STOP = 3, // the recording ends
};

enum sosc_state {
	SOSC_STATE_NEW = 0,
	SOSC_STATE_RUNNING = 1, // slots are hooked
	SOSC_STATE_FAILED = 2, // see error, error_at
	SOSC_STATE_STOPPED = 3, // recording ended (limit, stop, duration)
};

enum sosc_command {
	SOSC_COMMAND_NONE = 0,
	SOSC_COMMAND_STOP = 1, // record nothing more; the target goes on
};

// Sections of the shared file.
enum sosc_section {
	SOSC_SEC_PATTERNS = 0, // plan: automata
	SOSC_SEC_RULES = 1, // plan: struct sosc_rule[]
	SOSC_SEC_FUNCTIONS = 2, // plan: function table (struct sosc_function_table)
	SOSC_SEC_IMAGES = 3, // agent: struct sosc_image[SOSC_MAX_IMAGES]
	SOSC_SEC_SLOTS = 4, // agent: struct sosc_slot[SOSC_MAX_SLOTS]
	SOSC_SEC_STRINGS = 5, // agent: NUL-terminated, offset 0 is ""
	SOSC_SEC_COUNTS = 6, // agent: count_arrays arrays of SOSC_MAX_SLOTS cells, of the
	// one instrument that counts by thread; last
	SOSC_SEC_CHUNK_STATES = 7, // both: u32[chunks]
	SOSC_SEC_RING = 8, // agent: chunks of SOSC_CHUNK_SIZE, aligned to it
	SOSC_SEC_PLACES = 9, // agent: u32[SOSC_SLOT_PLACES], index + 1 of slots of images that
	// came later, by address: followed children load the same ones
	SOSC_SEC_CALL_SITES = 10, // agent: struct sosc_call_site[SOSC_MAX_CALL_SITES]
	SOSC_SEC_CALL_SITE_CHAINS = 11, // agent: where children are followed, indices + 1: u32 the
	// newest of each chain[SOSC_CALL_SITE_HEADS], u32 the one before[SOSC_MAX_CALL_SITES]
	SOSC_SEC_PATCHES = 12, // plan: struct sosc_patches; empty: those that stand are kept
	SOSC_SEC_GATES = 13, // both: u32[SOSC_GATES], by process, 0 = closed; empty: there are none
	SOSC_SEC_MATCHES = 14, // agent: u32 for each rule, the slots (or images) that it matched
	SOSC_SEC_PATCHED =
		15, // both: the table of SEC_PATCHES as soscope made it, and then as it is
	// when the agent has loaded the libraries
	SOSC_SEC_MOVES = 16, // agent: struct sosc_move[SOSC_MAX_MOVES], one behind the other
	SOSC_SECTIONS = 17,
};

struct sosc_range {
	uint64_t offset; // from the start of the file
	uint64_t size; // bytes
};

// What one instrument of the session is to see.
struct sosc_plan {
	uint32_t instrument; // enum sosc_instrument_kind
	uint32_t flags; // enum sosc_plan_flag
	uint32_t first_rule; // in SEC_RULES
	uint32_t rules; // how many
	uint32_t functions; // its struct sosc_function_table: offset in SEC_FUNCTIONS
	uint32_t reserved;
	struct sosc_range own; // of the block: memory for whatever it likes
	struct sosc_range given; // of the plan: what soscope has to say to it, with which its own
		// memory begins, too
};

// The plan's first page. soscope changes `more` of tables of functions and SOSC_PLAN_ASKS later.
struct sosc_plan_head {
	uint64_t magic; // SOSC_PLAN_MAGIC
	uint32_t head_size; // sizeof(struct sosc_plan_head)
	uint32_t plans; // how many
	uint32_t flags; // enum sosc_flag
	uint32_t string_limit; // bytes of a string to keep (-s)
	uint32_t chunks; // number of chunks in the ring
	uint32_t spare_chunks; // the last ones of the ring: for threads that would have none as
		// others hold all the rest
	uint32_t count_arrays; // number of count arrays; array 0 is shared
	uint32_t main_name; // offset in SEC_FUNCTIONS: name of the program's image
	uint32_t main_path; // the same: its path
	uint32_t functions_used; // bytes of SEC_FUNCTIONS; soscope alone asks
	struct sosc_range section[SOSC_SECTIONS];
	struct sosc_plan plan[SOSC_PLANS];
};

// Reasons for which calls were not seen; indices of sosc_control.dropped.
enum sosc_drop {
	SOSC_DROP_FULL = 0, // ring full, policy drop
	SOSC_DROP_OVERWRITTEN = 1, // ring full, policy overwrite
	SOSC_DROP_THREADS = 2, // no room for another thread
	SOSC_DROP_READER_GONE = 3, // policy block, soscope has no heartbeat
	SOSC_DROP_EXIT_UNPAIRED = 4, // -c: an exit whose entry was not kept (not lost)
	SOSC_DROP_SITES = 5, // site table full: entry without exit (not lost)
	SOSC_DROP_WORDS = 6, // an exit without the arguments of its entry (not lost)
	SOSC_DROP_RIGHTS = 7, // processes that left before they changed their rights
	SOSC_DROP_KINDS = 8,
};

struct sosc_control {
	uint64_t magic; // SOSC_MAGIC, written last by soscope
	uint32_t wire_version;
	uint32_t control_size; // sizeof(struct sosc_control)
	uint8_t build_id[32]; // of the agent, zero padded
	// the owner: soscope
	uint32_t owner_pid;
	uint32_t command; // enum sosc_command
	uint64_t owner_start; // field 22 of /proc/PID/stat
	uint64_t heartbeat; // soscope adds one at least every 100 ms
	// what soscope may change its mind about
	uint32_t flags; // enum sosc_flag: the plan's flags, or fewer of them
	uint32_t when_full; // enum sosc_when_full
	// the agent's answers
	uint32_t state; // enum sosc_state
	int32_t error; // -errno of a failed start
	uint32_t error_at; // line of the agent's source
	uint32_t agent_flags; // enum sosc_agent_flag
	uint64_t agent_base; // where the blob lies in the target
	uint64_t agent_size;
	uint64_t tsc_start; // clock pair at start
	uint64_t realtime_start; // ns, CLOCK_REALTIME
	uint64_t monotonic_start; // ns, CLOCK_MONOTONIC_RAW
	uint32_t cost_inner; // tsc ticks an empty call appears to take
	uint32_t cost_outer; // tsc ticks a hooked call adds to its caller; 0: not measured
	uint32_t images; // used entries, agent adds
	uint32_t slots;
	uint32_t strings; // used bytes
	uint32_t counts_used; // count arrays handed out
	uint32_t sites; // return trampolines in use
	uint32_t loader_hook; // enum sosc_loader_hook
	uint64_t ring_seq; // next chunk sequence number; first is 1
	uint32_t ring_waiters; // threads waiting for a free chunk
	uint32_t ring_drained; // futex word: soscope adds one when it frees chunks
	uint64_t dropped[SOSC_DROP_KINDS]; // lost entries, by enum sosc_drop
	uint64_t dropped_exits; // exits lost whose entry was kept
	uint64_t slots_left; // function slots that nobody asked for
	uint64_t images_dropped; // images that found no room in SEC_IMAGES
	uint64_t slots_dropped; // slots that found no room in SEC_SLOTS
	uint64_t reader_gone; // the heartbeat, plus one, at which soscope did not answer
	uint64_t starved; // not 0: soscope has seen threads that live hold all chunks for a second
	uint64_t call_sites; // used entries, agent adds
	uint64_t overwritten; // tsc: chunks that were overwritten held no later units
	uint64_t turn; // chunk that may be overwritten next
	uint64_t gates; // taken by processes, agent adds; the first one is the program's own
	uint64_t question; // process << 32 | index + 1 of an image that comes and calls functions
		// that the tables do not have; soscope stores 0 when they have what it knows.
		// Or SOSC_QUESTION_EXEC in place of an index + 1
	uint64_t unanswered; // images whose question nobody has answered, or that had to ask none
	uint64_t executes; // with SOSC_QUESTION_EXEC: address of the file's name, 0: it has none
	uint32_t answers; // futex word: soscope adds one for each answer
	uint32_t moves; // used entries, agent adds; more than there is room for: the rest is lost
	// what the program's threads have lost, added up, beside what calls cost
	uint64_t waited_room; // ns that they waited for soscope to free a chunk
	uint64_t waited_exec; // ns that they waited for soscope before they executed a program
	uint64_t waited_look; // ns that they waited for soscope to look at their objects
	uint64_t took_chunks; // tsc ticks to get and clear chunks, without waiting for them
	uint64_t took_images; // tsc ticks to hook images that came, with questions about these
	uint64_t took_asking; // tsc ticks to ask the kernel for how long they waited for a processor
	uint64_t works; // for calls, which took as long as what they kept: as many as the timed ones tell
	uint64_t took_works; // tsc ticks of them
	uint64_t work_units; // units that they wrote
	uint64_t stood_still; // ns at breakpoints of soscope's, where no agent sees the calls
	// of all threads, from the first to the last time that each has asked the kernel
	uint64_t delayed; // ns for which they waited for a processor
	uint64_t delays_over; // ns of all of that time
	uint64_t delays_unknown; // times of threads that may have waited, and nobody knows how long
	uint32_t executing; // threads that execute another program in place of this one, and have not failed
	uint32_t cost_call; // tsc ticks a hooked call usually adds in a program; see cost_outer
	uint64_t drained_ns; // CLOCK_MONOTONIC_RAW: soscope says when it added to ring_drained
};

enum {
	SOSC_QUESTION_EXEC = 0xffffffff, // the process is about to execute another program
};

enum sosc_loader_hook {
	SOSC_LOADER_NONE = 0, // not tried
	SOSC_LOADER_HOOKED = 1, // images loaded later are seen before constructors
	SOSC_LOADER_REFUSED = 2, // unknown loader: later images are not seen
};

enum sosc_agent_flag {
	SOSC_AGENT_ERRNO = 1, // errno is readable
	SOSC_AGENT_TSC_OFF = 2, // the program switched rdtsc off
	SOSC_AGENT_SEALED = 4, // seccomp: the agent makes no system call
	SOSC_AGENT_TEXT_REFUSED = 8, // text could not be written (re-aimed stubs)
	SOSC_AGENT_NO_EXITS = 16, // no returns seen: its unwinder would crash at a trampoline
	SOSC_AGENT_FORKED = 32, // children share the block, or have shared it
	SOSC_AGENT_RENAMED = 64, // the program may have given its process another name
};

// ---- what soscope compiles -------------------------------------------------

// SEC_PATTERNS: u32 count, u32 offset[count] (from the section's start, 4-byte
// aligned), then automata. A name matches when the state after its last byte
// accepts. State 0 is dead (all transitions to 0, not accepting); 1 is the start.
struct sosc_automaton {
	uint16_t states;
	uint16_t classes;
	uint32_t accept; // offset from this struct: u8[states], 1 = accepts
	uint32_t next; // offset from this struct: u16[states * classes]
	uint8_t class_of[256]; // byte -> class
};

enum { SOSC_PATTERN_ANY = 0xffff, SOSC_PATTERN_MAIN = 0xfffe };

// One rule of a filter, in order. A slot is chosen when
//   some chain of INCLUDE/EXCLUDE rules (from a FIRST rule up to the next FIRST)
//   ends marked, its last matching rule being INCLUDE, and
//   its caller matches a FROM rule, where there is one, and
//   its callee matches a TO rule, where there is one.
enum sosc_rule_kind {
	SOSC_RULE_INCLUDE = 1, // symbol and image (the caller) match
	SOSC_RULE_EXCLUDE = 2,
	SOSC_RULE_FROM = 3, // image (the caller)
	SOSC_RULE_TO = 4, // image (the callee: provider of the symbol)
	SOSC_RULE_CALLER = 5, // image (the caller): an instrument asks, the choice does not
};

enum sosc_rule_flag {
	SOSC_RULE_FIRST = 1, // begins a chain
	SOSC_RULE_PATH = 2, // image is matched by path, not by name
};

struct sosc_rule {
	uint8_t kind; // enum sosc_rule_kind
	uint8_t flags; // enum sosc_rule_flag
	uint16_t symbol; // pattern index or SOSC_PATTERN_ANY
	uint16_t image; // pattern index, SOSC_PATTERN_ANY or SOSC_PATTERN_MAIN
	uint16_t reserved;
};

// SEC_FUNCTIONS, one for each plan: this header, then sosc_function cells[1 << bits] (open
// addressing, index (hash >> 4) & mask, linear probing, name 0 = empty), then
// sosc_function_glob globs[], then capture programs and names. Offsets are
// bytes from the header.
struct sosc_function_table {
	uint32_t bits;
	uint32_t cells; // offset of struct sosc_function[1 << bits]
	uint32_t globs; // offset of struct sosc_function_glob[glob_count]
	uint32_t glob_count;
	uint32_t default_function; // offset of the struct sosc_function for others
	uint16_t family[4]; // pattern of each family: its images' names, and its symbols' versions
	uint32_t more; // offset of the newest table of what came later, 0: none. In those, offsets
		// are from the first one's header, and `more` is the one before
	uint32_t versioned; // bit h % 32: a name of hash h has a cell "NAME@VERSION" of its own
	uint32_t reserved;
};

enum sosc_function_flag {
	SOSC_FN_ENTRY_ONLY = 1, // never returns, or looks at its return address
	SOSC_FN_NEVER = 2, // not an ordinary call: do not hook
	SOSC_FN_TWICE = 4, // may return several times (setjmp, vfork)
	SOSC_FN_SIX = 8, // keep six register words, nothing else
	SOSC_FN_PROGRAM = 16, // run entry_program at entry
	SOSC_FN_EXIT_PROGRAM = 32, // run exit_program at exit
	SOSC_FN_BRIEF = 64, // waits for nobody, and nobody for it
	SOSC_FN_WIDE = 128, // the program at entry has SOSC_OP_VA_FORMAT or SOSC_OP_VECTOR
	SOSC_FN_OF_LIBC = 256, // what is known of it is true of that family's functions alone
	SOSC_FN_OF_ZLIB = 512,
	SOSC_FN_FAMILY = 768, // index of sosc_function_table.family
	SOSC_FN_FAMILY_SHIFT = 8, // .. and where it is
	SOSC_FN_FOREIGN = 1024, // of a slot: another library's function of that name
	SOSC_FN_ASKED = 2048, // soscope was asked, and the name tells nothing: only that is said
};

enum sosc_error_rule { // when is a result a failure
	SOSC_ERROR_NONE = 0,
	SOSC_ERROR_INT_NEGATIVE = 1, // (int32_t)result < 0
	SOSC_ERROR_LONG_NEGATIVE = 2, // (int64_t)result < 0
	SOSC_ERROR_NULL = 3, // result == 0 as a 64-bit word
	SOSC_ERROR_MINUS_ONE = 4, // (int64_t)result == -1 (mmap)
	SOSC_ERROR_INT_NONZERO = 5, // (int32_t)result != 0 (pthread_*)
	SOSC_ERROR_INT_ZERO = 6, // (int32_t)result == 0
	SOSC_ERROR_INT_MINUS_ONE = 7, // (int32_t)result == -1 (fcntl)
};

struct sosc_function {
	uint32_t hash; // DT_GNU_HASH's hash of the name
	uint32_t name; // offset of the name; 0 = empty cell
	uint32_t entry_program; // offset of struct sosc_op[]
	uint32_t exit_program; // offset of struct sosc_op[]
	uint32_t prototype; // soscope's own index, copied to the slot record
	uint16_t flags; // enum sosc_function_flag
	uint8_t error_rule; // enum sosc_error_rule
	uint8_t exit_words; // how many words (0..6) of the entry the exit program wants
};

struct sosc_function_glob { // for names not in the cells, first match wins
	uint16_t pattern;
	uint16_t flags; // enum sosc_function_flag (ENTRY_ONLY, NEVER)
};

// ---- what the agent finds --------------------------------------------------

enum sosc_image_flag {
	SOSC_IMAGE_MAIN = 1,
	SOSC_IMAGE_LOADER = 2,
	SOSC_IMAGE_STARTUP = 4, // loaded before any code of the program ran
	SOSC_IMAGE_UNREADABLE = 8, // headers not found: not hooked
	SOSC_IMAGE_LATE = 16, // hooked after its constructors may have run
	SOSC_IMAGE_CLOSED = 32, // dlclose'd
	SOSC_IMAGE_WRITE_REFUSED = 64, // its slots could not be written
	SOSC_IMAGE_ASKED = 128, // soscope was asked about its functions
	SOSC_IMAGE_METHODS_UNSEEN = 256, // it may have method tables, and they were not looked for
};

struct sosc_image {
	uint32_t name; // offset in SEC_STRINGS: soname, else file name
	uint32_t path; // l_name; the program's own as soscope gave it
	uint64_t load_bias;
	uint64_t start; // lowest and highest mapped addr
	uint64_t end;
	uint8_t build_id[32]; // zero padded; of size 0: two checksums, see ElfImage.checksum
	uint8_t build_id_size;
	uint8_t reserved[3];
	uint32_t flags; // enum sosc_image_flag
	uint32_t slots_hooked;
	uint32_t slots_left; // function slots nobody asked for
	uint32_t slots_refused; // asked for, not hooked: see their records
	uint32_t pid; // process that loaded it; SOSC_NONE: this record is given up
	uint64_t tsc; // when it was seen
	uint32_t ready; // 1 once the rest is written
	uint32_t ns; // namespace, 0 but for dlmopen and LD_AUDIT
};

// An image that a process has loaded or closed, or a process that was forked: who tells which
// image an address was in at some time. What was there at the start has not moved.
enum sosc_move_kind {
	SOSC_MOVE_CAME = 1,
	SOSC_MOVE_WENT = 2, // from then on none of its code can run
	SOSC_MOVE_FORKED = 3, // it has the images that its parent had after the move at `since`
};

struct sosc_move {
	uint32_t kind; // enum sosc_move_kind; written last, 0 before
	uint32_t image; // index
	uint32_t pid; // the process
	uint32_t parent; // of FORKED: who was forked
	uint64_t tsc;
	uint64_t since; // of FORKED: tsc of the parent's last move before it
};

// An addr with its image: from this bit on the index + 1. Of one that lies in no image, or whose
// image has no record, SOSC_NO_IMAGE. 0: nothing is said.
enum {
	SOSC_IMAGE_SHIFT = 48,
	SOSC_NO_IMAGE = 0x7fff,
};

enum sosc_slot_kind {
	SOSC_SLOT_JUMP_SLOT = 1,
	SOSC_SLOT_GLOB_DAT = 2, // every reference is a call or jump
	SOSC_SLOT_PLT_GOT = 3, // a re-aimed .plt.got stub in front of a GLOB_DAT
	SOSC_SLOT_CALL_SITES = 4, // re-aimed call sites: a lower bound
	SOSC_SLOT_METHOD = 5, // an entry of a method table; its caller is the interpreter
	SOSC_SLOT_ENTRY = 6, // no cell: the entry point of a function (breakpoints)
};

enum sosc_slot_refusal { // why a chosen slot is not hooked; 0 = hooked
	SOSC_HOOKED = 0,
	SOSC_REFUSED_ADDRESS_TAKEN = 1, // only its address is used, or no stub found
	SOSC_REFUSED_NOT_A_CALL = 2, // SOSC_FN_NEVER
	SOSC_REFUSED_FULL = 3, // no entry trampoline left
	SOSC_REFUSED_WRITE = 4, // page could not be written
	SOSC_REFUSED_TEXT = 5, // text could not be written
	SOSC_REFUSED_FOREIGN = 6, // an unknown value stood in the slot
	SOSC_REFUSED_IN_USE = 7, // threads may be in what is replaced for it
	SOSC_REFUSED_NO_SITE = 8, // no code found that calls through it (breakpoints)
};

enum sosc_slot_flag {
	SOSC_SLOT_LAZY = 1, // was unbound when it was hooked
	SOSC_SLOT_ENTRY_ONLY = 2, // no exits for this function
	SOSC_SLOT_PARTIAL = 4, // calls may go round the hook: counts are a lower bound
};

// A slot as one instrument has hooked it. Its index is that of the cell and of what is
// counted there; a slot that two have hooked has two records.
struct sosc_slot {
	uint32_t symbol; // offset in SEC_STRINGS
	uint32_t version; // same, 0 = none
	uint32_t caller; // image index
	uint32_t callee; // image index, SOSC_NONE = unknown
	uint64_t addr; // the cell; for PLT_GOT and CALL_SITES the GLOB_DAT
	uint64_t saved; // what it held
	uint64_t original; // where calls go, as last known
	uint32_t prototype; // sosc_function.prototype, SOSC_NONE = unknown
	uint8_t kind; // enum sosc_slot_kind
	uint8_t refusal; // enum sosc_slot_refusal
	uint8_t flags; // enum sosc_slot_flag
	uint8_t error_rule; // enum sosc_error_rule
	uint32_t ready; // 1 once the rest is written
	uint16_t function_flags; // sosc_function.flags
	uint8_t instrument; // enum sosc_instrument_kind
	uint8_t reserved;
	uint64_t tsc; // when it was hooked
};

// One cell of a count array of STATS (of COUNT: a u64 of calls).
struct sosc_stats {
	uint64_t calls; // entries
	uint64_t returns; // exits paired with their entry
	uint64_t errors; // by the slot's error rule
	uint64_t total; // ticks, own hooks' cost taken out
	uint64_t min; // ticks + 1; 0 = none yet
	uint64_t max; // ticks
	uint64_t self; // ticks of `total` that no nested call of STATS took
	uint64_t reserved;
};

// ---- start -----------------------------------------------------------------

// Offsets inside the blob's reservation in the target (agent/agent.lds keeps
// them). The file behind it: the agent's ELF file, then at SOSC_BLOB_PAGES one
// page of entry trampolines, one of return trampolines and one of counters, each
// repeated SOSC_BLOB_REPEAT times.
enum sosc_blob {
	SOSC_BLOB_SIZE = 0x4d80000,
	SOSC_BLOB_TEXT_MAX = 0x80000, // from 0: code, tables, unwind rule
	SOSC_BLOB_ENTRIES = 0x80000, // SOSC_MAX_SLOTS entry trampolines of 16
	SOSC_BLOB_SITES = 0x480000, // SOSC_MAX_SITES return trampolines of 32
	SOSC_BLOB_COUNTERS = 0x880000, // SOSC_MAX_COUNTERS counters of 128
	SOSC_BLOB_DISTANCE = 0xa00000, // from a trampoline to its data
	SOSC_BLOB_DATA = 0x1480000, // the agent's variables
	SOSC_BLOB_REPEAT = 64, // pages of each kind in the blob file
};

struct sosc_start { // rdi of soscope_agent_start, in the target's memory
	uint64_t base; // of the reservation
	uint64_t r_debug; // struct r_debug of the base namespace
	uint64_t loader; // ld.so's load address
	uint64_t phdr; // AT_PHDR
	uint32_t phnum; // AT_PHNUM
	int32_t control_fd; // the block; closed by start
	int32_t blob_fd; // the blob; closed by start
	int32_t plan_fd; // the plan; closed by start
	int32_t execs_fd; // file of struct sosc_execs, closed by start; -1 if soscope does not ask for it
	uint32_t reserved;
	uint64_t pages_offset; // of the trampoline pages in the blob file
	uint64_t control_size; // bytes of the block to map; count arrays may lie behind them
	uint64_t plan_size; // bytes of the plan
	int64_t errno_offset; // from the thread pointer; INT64_MIN = unknown
	int64_t tid_offset; // of the thread id, from the thread pointer; 0 = unknown
	uint64_t brk; // the loader's r_brk function, 0 = do not hook it
	uint64_t brk_before; // the word that stands there
	uint64_t brk_after; // the word that soscope writes there when this has run
	uint64_t flags; // enum sosc_start_flag
	uint64_t stack_end; // an addr above all frames of the first thread's stack; 0 = unknown
};

enum sosc_start_flag {
	SOSC_START_AGAIN = 1, // the agent is mapped already, and nothing is hooked
	SOSC_START_TURNS = 2, // hook nothing yet: soscope_agent_hook will be called
};

// ---- what stays in the target ----------------------------------------------

// What an agent says about itself to a soscope that did not put it in, at
// SOSC_BLOB_DATA of its reservation. A forked child has its own.
struct sosc_inside {
	uint64_t magic; // SOSC_INSIDE_MAGIC, written last at the start
	uint32_t wire_version;
	uint32_t size; // sizeof(struct sosc_inside)
	uint64_t tables; // SOSC_TABLES, of tables.h
	uint64_t control; // addr of the control block
	uint64_t control_size;
	uint64_t changes; // addr of struct sosc_change[]
	uint64_t change_count; // used entries, oldest first; 0: all were taken back
	uint64_t cells; // addr of the cells: u64 handler, u64 original
	uint64_t cell_count; // cells of slots, from the first on
	uint64_t sitedata; // addr of the return trampolines' data, 32 bytes each
	uint64_t site_count;
	uint64_t plain_jump; // handler that only goes on to the original
	uint64_t plain_exit; // exit handler that only returns
	uint64_t scratch; // addr of SOSC_SCRATCH bytes for soscope's own use
	uint64_t sessions; // how often it was started
	uint64_t waiting; // images that soscope_agent_hook has still to hook
	uint64_t patches; // addr of struct sosc_patches; SOSC_PATCHES_SIZE bytes
	uint64_t program; // addr of soscope_agent_program
	uint64_t method_hash; // functions of Python's that the agent has replaced, to hook method
	uint64_t method_compare; // tables
	uint64_t method_state; // enum sosc_method_state
	uint64_t counterdata; // addr of the counters' data, struct sosc_counter
	uint64_t counter_count; // in use, from the first on
	uint64_t rest; // addr of soscope_agent_rest
	uint64_t trap; // addr of where that returns to
	uint64_t threads; // addr of the table of threads
	uint64_t stubs; // addr of u64[SOSC_STUBS_MOST]: pages of code near images
	uint64_t quiet; // addr of a byte, 1: this process records nothing
	uint64_t counts; // addr of a byte, 1: objects are counted
	uint64_t is_resting; // 1: its code is to be mapped anew
	uint64_t made_threads; // addr of the table of threads that the program has made, 0: none
};

enum sosc_method_state { // of method tables that are to be hooked
	SOSC_METHODS_FREE = 0, // no thread is in the functions that were replaced for them
	SOSC_METHODS_WAIT = 1, // some may be: soscope is to look
	SOSC_METHODS_LEFT = 2, // soscope: some may be for long, hook no table
};

#define SOSC_INSIDE_MAGIC 0x3169706f63736f73ull // "soscopi1"

enum {
	SOSC_MAX_CHANGES = 655360,
	SOSC_SCRATCH = 16384,
	SOSC_STUBS_MOST = 64,
	SOSC_SITES_A_PAGE = 128, // the last one's first word is its page's exit handler
};

// A word of the target's that the agent has changed. Taking it back: if it holds
// `after`, it gets `before`; newest first.
struct sosc_change {
	uint64_t addr; // 0 = its image is gone
	uint64_t before;
	uint64_t after;
	uint8_t size; // 8, 4: a displacement in code, or what an instruction has
	uint8_t flags; // enum sosc_change_flag
	uint16_t patch; // of SOSC_CHANGE_STANDS: whose it is
	uint32_t image; // place in the agent's own list, SOSC_NONE
};

enum sosc_change_flag {
	SOSC_CHANGE_STANDS = 1, // a patch's: it outlives the session
	SOSC_CHANGE_LOADER = 2, // the loader's function: it stays as long as patches stand
	SOSC_CHANGE_CODE = 4, // an instruction, or where one leads to; soscope may have to write it
	SOSC_CHANGE_SPLIT = 8, // in the place of several: no thread may be between them meanwhile
};

#endif
