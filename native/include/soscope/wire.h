// SPDX-License-Identifier: Apache-2.0
/**
 * The shared memory of agent and soscope: its one definition.
 *
 * Everything lies in memory files, a set for each traced program image (a forked child shares its
 * parent's files; an exec starts new ones):
 *
 *	block	control page | sections, the ring of chunks among them (enum sosc_section)
 *	plan	struct sosc_plan_head | the sections marked "plan"
 *	execs	struct sosc_execs, if children are not followed
 *
 * soscope lays the files out and maps the agent. The program can write to the block, and only
 * soscope can write to the plan. The agent fills the sections marked "agent". All integers are
 * little-endian and naturally aligned. Offsets are bytes from the start of the file unless a
 * comment says otherwise. Offsets in a section's struct sosc_range count from the start of the file
 * that holds the section. `scripts/wire.py` writes the Python mirror in src/soscope/wire/;
 * tests/unit/wire/test_layout.py compares every offset.
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
	// bytes at the end of a chunk that new records do not start in: room for records of signal
	// handlers
	SOSC_CHUNK_SLACK = 512,
	SOSC_UNIT = 32,
	SOSC_MAX_SLOTS = 262144,
	SOSC_SLOT_PLACES = 1048576, // see SOSC_SEC_PLACES; a power of two
	SOSC_MAX_IMAGES = 8192,
	SOSC_MAX_SITES = 131072,
	SOSC_MAX_COUNTERS = 16384,
	SOSC_MAX_MOVES = 131072,
	SOSC_MAX_CALL_SITES = 262144, // their indices have 18 bits
	SOSC_CALL_SITE_SLOT = 17, // bits of the slot's index in a call site's word
	SOSC_CALL_SITE_HEADS = 4096, // a power of two
	SOSC_NAMESPACES = 16, // glibc's DL_NNS
	SOSC_GATES = 1024, // see SOSC_SEC_GATES
	SOSC_NONE = 0xffffffffu, // "no such index" in every u32 index field
};

// What may see a hooked call; each is one file of the agent (SOSC_INSTRUMENTS in
// base/instrument.h). If several instruments of a session have chosen a slot, its calls pass
// through all of them, in the order of the plans.
enum sosc_instrument_kind {
	SOSC_INSTRUMENT_GUARD = 0, // the agent's own instrument
	SOSC_INSTRUMENT_COUNT = 1, // only numbers of calls: an array of u64 for each thread
	SOSC_INSTRUMENT_STATS = 2, // calls, errors, times: a struct sosc_stats for each slot
	SOSC_INSTRUMENT_TRACE = 3, // a stream of records
	SOSC_INSTRUMENT_INJECT = 4, // calls that fail or are delayed, with a record of each
	SOSC_INSTRUMENT_BLOCKS = 5, // blocks and mappings, by the stacks that made them
	SOSC_INSTRUMENT_OBJECTS = 6, // objects that stay alive
	SOSC_INSTRUMENT_OPEN = 7, // opens the gate: later calls are recorded
	SOSC_INSTRUMENT_CLOSE = 8, // closes it
	SOSC_INSTRUMENT_PROF = 9, // calls that instrumented code reports
	SOSC_INSTRUMENT_KINDS = 10,
};

enum sosc_flag {
	SOSC_FLAG_FOLLOW = 1, // forked children are recorded, too; else they go quiet
	SOSC_FLAG_EXECS = 2, // the agent tells soscope before the program executes another program
	SOSC_FLAG_NO_CLOCK = 4, // store 0 in place of every time
};

enum { SOSC_PLANS = 4 }; // most instruments of one session

enum sosc_plan_flag {
	SOSC_PLAN_ENTRY_ONLY = 1, // record no exits
	SOSC_PLAN_NO_DURATIONS = 2, // the time of a SOSC_FN_BRIEF call is not needed: store 0
	// TRACE: each entry has a call stack; the instrument's own memory is laid out as in
	// blocks.h
	SOSC_PLAN_STACKS = 4,
	// soscope looks up the types of functions of images that are loaded later
	SOSC_PLAN_ASKS = 8,
	// COUNT, STATS: count by call site, if the call site has a number; a count array has
	// SOSC_MAX_CALL_SITES more cells for call sites, behind the cells of slots
	SOSC_PLAN_CALLERS = 16,
	SOSC_PLAN_METHODS = 32, // entries of Python's method tables are hooked as slots, too
};

enum sosc_when_full { // what a thread does when no chunk is free
	SOSC_FULL_BLOCK = 0, // wait for the reader
	SOSC_FULL_DROP = 1, // count the record as lost and go on
	SOSC_FULL_OVERWRITE = 2, // take the oldest full chunk
	SOSC_FULL_STOP = 3, // end the recording
};

enum sosc_state {
	SOSC_STATE_NEW = 0,
	SOSC_STATE_RUNNING = 1, // slots are hooked
	SOSC_STATE_FAILED = 2, // see error, error_at
	SOSC_STATE_STOPPED = 3, // recording ended (limit, stop, duration)
};

enum sosc_command {
	SOSC_COMMAND_NONE = 0,
	SOSC_COMMAND_STOP = 1, // record nothing more; the target runs on
};

// Sections of the block and of the plan.
enum sosc_section {
	SOSC_SEC_PATTERNS = 0, // plan: automata
	SOSC_SEC_RULES = 1, // plan: struct sosc_rule[]
	SOSC_SEC_FUNCTIONS = 2, // plan: function table (struct sosc_function_table)
	SOSC_SEC_IMAGES = 3, // agent: struct sosc_image[SOSC_MAX_IMAGES]
	SOSC_SEC_SLOTS = 4, // agent: struct sosc_slot[SOSC_MAX_SLOTS]
	SOSC_SEC_STRINGS = 5, // agent: NUL-terminated, offset 0 is ""
	// agent: count_arrays arrays of SOSC_MAX_SLOTS cells, for the one instrument that counts by
	// thread; last in the file
	SOSC_SEC_COUNTS = 6,
	SOSC_SEC_CHUNK_STATES = 7, // both: u32[chunks]
	SOSC_SEC_RING = 8, // agent: chunks of SOSC_CHUNK_SIZE, aligned to it
	// agent: u32[SOSC_SLOT_PLACES], a hash table by address of index + 1 of slots whose images
	// were loaded later, because followed children load the same images
	SOSC_SEC_PLACES = 9,
	SOSC_SEC_CALL_SITES = 10, // agent: struct sosc_call_site[SOSC_MAX_CALL_SITES]
	// agent: if children are followed, call site indices + 1: u32 newest of each
	// chain[SOSC_CALL_SITE_HEADS], u32 previous[SOSC_MAX_CALL_SITES]
	SOSC_SEC_CALL_SITE_CHAINS = 11,
	SOSC_SEC_PATCHES = 12, // plan: struct sosc_patches; empty: keep the patches in force
	SOSC_SEC_GATES = 13, // both: u32[SOSC_GATES], by process, 0 = closed; empty: no gates
	// agent: u32 for each rule: the number of slots (or images) that it matched
	SOSC_SEC_MATCHES = 14,
	// both: the table of SEC_PATCHES, first as soscope made it, then as it is after the
	// agent has loaded the libraries
	SOSC_SEC_PATCHED = 15,
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
	// offset in SEC_FUNCTIONS of the instrument's struct sosc_function_table
	uint32_t functions;
	uint32_t reserved;
	struct sosc_range own; // in the block: memory for the instrument's own use
	// in the plan: soscope's data for the instrument; `own` starts with a copy of it
	struct sosc_range given;
};

// The plan's first page. After the start, soscope changes only `more` of function tables and
// SOSC_PLAN_ASKS.
struct sosc_plan_head {
	uint64_t magic; // SOSC_PLAN_MAGIC
	uint32_t head_size; // sizeof(struct sosc_plan_head)
	uint32_t plans; // how many
	uint32_t flags; // enum sosc_flag
	uint32_t string_limit; // bytes of a string to keep (-s)
	uint32_t chunks; // number of chunks in the ring
	// the last chunks of the ring, for threads that find all other chunks held by other threads
	uint32_t spare_chunks;
	uint32_t count_arrays; // number of count arrays; array 0 is shared
	uint32_t main_name; // offset in SEC_FUNCTIONS: name of the program's image
	uint32_t main_path; // offset in SEC_FUNCTIONS: path of the program's image
	uint32_t functions_used; // bytes of SEC_FUNCTIONS in use; only soscope reads this
	struct sosc_range section[SOSC_SECTIONS];
	struct sosc_plan plan[SOSC_PLANS];
};

// Reasons why calls were not seen: indices of sosc_control.dropped.
enum sosc_drop {
	SOSC_DROP_FULL = 0, // ring full, policy SOSC_FULL_DROP
	SOSC_DROP_OVERWRITTEN = 1, // ring full, policy SOSC_FULL_OVERWRITE
	SOSC_DROP_THREADS = 2, // no room for another thread
	SOSC_DROP_READER_GONE = 3, // policy SOSC_FULL_BLOCK, and soscope's heartbeat has stopped
	SOSC_DROP_EXIT_UNPAIRED = 4, // -c: an exit whose entry was not kept (the call is counted)
	// no return trampoline left: an entry without its exit (the call is kept)
	SOSC_DROP_SITES = 5,
	SOSC_DROP_WORDS = 6, // an exit without the arguments of its entry (the call is kept)
	// processes that stopped recording before they changed their privileges
	SOSC_DROP_RIGHTS = 7,
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
	// settings that soscope may change during the session
	uint32_t flags; // enum sosc_flag: the plan's flags, or a part of them
	uint32_t when_full; // enum sosc_when_full
	// written by the agent
	uint32_t state; // enum sosc_state
	int32_t error; // -errno of a failed start
	uint32_t error_at; // line in the agent's source where the start failed
	uint32_t agent_flags; // enum sosc_agent_flag
	uint64_t agent_base; // where the blob is mapped in the target
	uint64_t agent_size;
	// time stamp counter at the start; the next two fields are clocks at that time
	uint64_t tsc_start;
	uint64_t realtime_start; // ns, CLOCK_REALTIME
	uint64_t monotonic_start; // ns, CLOCK_MONOTONIC_RAW
	uint32_t cost_inner; // tsc ticks an empty call appears to take
	uint32_t cost_outer; // tsc ticks a hooked call adds to its caller, 0 if not measured
	uint32_t images; // number of image records, agent adds
	uint32_t slots;
	uint32_t strings; // bytes in use
	uint32_t counts_used; // count arrays handed out
	uint32_t sites; // return trampolines in use
	uint32_t loader_hook; // enum sosc_loader_hook
	uint64_t ring_seq; // next chunk sequence number; first is 1
	uint32_t ring_waiters; // threads that wait for a free chunk
	uint32_t ring_drained; // futex word: soscope adds one when it frees chunks
	uint64_t dropped[SOSC_DROP_KINDS]; // lost entries, by enum sosc_drop
	uint64_t dropped_exits; // lost exits whose entries were kept
	uint64_t slots_left; // function slots that the filter does not select
	uint64_t images_dropped; // images for which SEC_IMAGES had no room
	uint64_t slots_dropped; // slots for which SEC_SLOTS had no room
	// the value of heartbeat, plus one, at which a thread stopped waiting for soscope
	uint64_t reader_gone;
	uint64_t starved; // not 0: soscope has seen living threads hold all chunks for a second
	uint64_t call_sites; // number of call sites, agent adds
	uint64_t overwritten; // tsc: the latest tsc_full of a chunk that was overwritten
	uint64_t turn; // index of the next chunk to overwrite
	// gates that processes have taken, agent adds; the first is the program's own
	uint64_t gates;
	// process << 32 | index + 1 of an image that is being loaded and calls functions that are
	// not in the tables. soscope stores 0 when it has added what it knows. SOSC_QUESTION_EXEC
	// may stand in place of index + 1
	uint64_t question;
	uint64_t unanswered; // images whose question was not answered, or could not be asked
	// with SOSC_QUESTION_EXEC: address of the path or name to execute, 0 if the call gives none
	uint64_t executes;
	uint32_t answers; // futex word: soscope adds one for each answer
	uint32_t moves; // number of moves, agent adds; above SOSC_MAX_MOVES: the rest is lost
	// time that the program's threads have lost, added up, beside the cost of calls
	uint64_t waited_room; // ns of waiting for soscope to free a chunk
	uint64_t waited_exec; // ns of waiting for soscope before executing another program
	uint64_t waited_look; // ns of waiting for soscope to look at objects
	uint64_t took_chunks; // tsc ticks spent on taking and clearing chunks, without the waiting
	// tsc ticks spent on hooking images loaded later, with questions about them
	uint64_t took_images;
	// tsc ticks spent on asking the kernel how long threads waited for a processor
	uint64_t took_asking;
	// pieces of the agent's work for calls, which take longer the more is kept: a multiple of
	// the pieces that were timed (thread/work.h)
	uint64_t works;
	uint64_t took_works; // tsc ticks of these
	uint64_t work_units; // units that these wrote
	// ns that threads stood at soscope's breakpoints, if no agent sees the calls
	uint64_t stood_still;
	// of all threads, from the first to the last time that each has asked the kernel
	uint64_t delayed; // ns that threads waited for a processor
	uint64_t delays_over; // ns of the time that `delayed` is a part of
	// number of times that a thread may have waited for an unknown time
	uint64_t delays_unknown;
	// threads that have begun to execute another program, and have not failed
	uint32_t executing;
	// tsc ticks that a hooked call usually adds in a real program; see cost_outer
	uint32_t cost_call;
	uint64_t drained_ns; // CLOCK_MONOTONIC_RAW: when soscope last added to ring_drained
};

enum {
	SOSC_QUESTION_EXEC = 0xffffffff, // the process is about to execute another program
};

enum sosc_loader_hook {
	SOSC_LOADER_NONE = 0, // not tried
	SOSC_LOADER_HOOKED = 1, // images loaded later are hooked before their constructors run
	SOSC_LOADER_REFUSED = 2, // unknown loader: images loaded later are not seen
};

enum sosc_agent_flag {
	SOSC_AGENT_ERRNO = 1, // the agent knows where errno is
	SOSC_AGENT_TSC_OFF = 2, // the program has disabled rdtsc
	SOSC_AGENT_SEALED = 4, // seccomp: the agent makes no system call
	SOSC_AGENT_TEXT_REFUSED = 8, // code could not be written (re-aimed stubs)
	// no returns are recorded: the process's unwinder would crash at a return trampoline
	SOSC_AGENT_NO_EXITS = 16,
	SOSC_AGENT_FORKED = 32, // forked children share the block, or did
	SOSC_AGENT_RENAMED = 64, // the program may have renamed its process
};

// ---- what soscope compiles -------------------------------------------------

// SEC_PATTERNS: u32 count, u32 offset[count] (from the section's start, 4-byte aligned), then
// automata. A name matches if the state after its last byte accepts. State 0 is dead (all
// transitions lead to 0, it does not accept). State 1 is the start.
struct sosc_automaton {
	uint16_t states;
	uint16_t classes;
	uint32_t accept; // offset from this struct: u8[states], 1 = accepts
	uint32_t next; // offset from this struct: u16[states * classes]
	uint8_t class_of[256]; // byte -> class
};

enum { SOSC_PATTERN_ANY = 0xffff, SOSC_PATTERN_MAIN = 0xfffe };

// One rule of a filter. The rules are in order. A slot is chosen if
//   the last rule that matches it in some chain is INCLUDE (a chain is the INCLUDE and
//   EXCLUDE rules from a FIRST rule up to the next FIRST), and
//   its caller matches a FROM rule, if there are any, and
//   its callee matches a TO rule, if there are any.
enum sosc_rule_kind {
	SOSC_RULE_INCLUDE = 1, // symbol and image (the caller) match
	SOSC_RULE_EXCLUDE = 2,
	SOSC_RULE_FROM = 3, // image (the caller)
	SOSC_RULE_TO = 4, // image (the callee: provider of the symbol)
	// image (the caller): only for an instrument's own use, does not affect the choice
	SOSC_RULE_CALLER = 5,
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

// SEC_FUNCTIONS, for each plan: this header, then sosc_function cells[1 << bits] (open addressing,
// index (hash >> 4) & mask, linear probing, name 0 = empty), then sosc_function_glob globs[], then
// capture programs and names. Offsets are bytes from the header.
struct sosc_function_table {
	uint32_t bits;
	uint32_t cells; // offset of struct sosc_function[1 << bits]
	uint32_t globs; // offset of struct sosc_function_glob[glob_count]
	uint32_t glob_count;
	// offset of the struct sosc_function for functions that are not in the table
	uint32_t default_function;
	// for each family, the pattern that its image names and symbol versions match
	uint16_t family[4];
	// offset of the newest table that was added later, 0 if there is none. In added tables,
	// offsets are from the first table's header, and `more` is the offset of the table added
	// before
	uint32_t more;
	// bit h % 32: some name of hash h has a cell of its own for "NAME@VERSION"
	uint32_t versioned;
	uint32_t reserved;
};

enum sosc_function_flag {
	SOSC_FN_ENTRY_ONLY = 1, // never returns, or inspects its return address
	SOSC_FN_NEVER = 2, // not an ordinary call: never hooked
	SOSC_FN_TWICE = 4, // may return several times (setjmp, vfork)
	SOSC_FN_SIX = 8, // keep six register words, nothing else
	SOSC_FN_PROGRAM = 16, // run entry_program at the entry
	SOSC_FN_EXIT_PROGRAM = 32, // run exit_program at the exit
	SOSC_FN_BRIEF = 64, // a call that never waits: its duration is seldom of interest
	SOSC_FN_WIDE = 128, // the entry program has SOSC_OP_VA_FORMAT or SOSC_OP_VECTOR
	SOSC_FN_OF_LIBC = 256, // the prototype holds only for functions of the C library
	SOSC_FN_OF_ZLIB = 512,
	SOSC_FN_FAMILY = 768, // mask: index in sosc_function_table.family
	SOSC_FN_FAMILY_SHIFT = 8, // position of SOSC_FN_FAMILY
	// in a slot record: the function has this name but belongs to another library
	SOSC_FN_FOREIGN = 1024,
	// soscope was asked about this name, which tells it nothing; the cell only records this
	SOSC_FN_ASKED = 2048,
};

enum sosc_error_rule { // which results are failures
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
	uint8_t exit_words; // number of words (0..6) of the entry that the exit program needs
};

struct sosc_function_glob { // for names not in the cells; the first match wins
	uint16_t pattern;
	uint16_t flags; // enum sosc_function_flag (ENTRY_ONLY, NEVER)
};

// ---- what the agent writes -------------------------------------------------

enum sosc_image_flag {
	SOSC_IMAGE_MAIN = 1,
	SOSC_IMAGE_LOADER = 2,
	SOSC_IMAGE_STARTUP = 4, // loaded before any code of the program ran
	SOSC_IMAGE_UNREADABLE = 8, // headers could not be read: not hooked
	SOSC_IMAGE_LATE = 16, // hooked after its constructors may have run
	SOSC_IMAGE_CLOSED = 32, // unloaded by dlclose
	SOSC_IMAGE_WRITE_REFUSED = 64, // its slots could not be written
	SOSC_IMAGE_ASKED = 128, // soscope was asked about its functions
	SOSC_IMAGE_METHODS_UNSEEN = 256, // it may have method tables that were not looked for
};

struct sosc_image {
	uint32_t name; // offset in SEC_STRINGS: soname, else file name
	uint32_t path; // l_name; for the program itself the path that soscope gave
	uint64_t load_bias;
	uint64_t start; // lowest and highest mapped addr
	uint64_t end;
	// zero padded; if build_id_size is 0: two checksums, see ElfImage.checksum
	uint8_t build_id[32];
	uint8_t build_id_size;
	uint8_t reserved[3];
	uint32_t flags; // enum sosc_image_flag
	uint32_t slots_hooked;
	uint32_t slots_left; // function slots that the filter does not select
	// selected by the filter and not hooked: their records have the reason
	uint32_t slots_refused;
	uint32_t pid; // process that loaded it; SOSC_NONE: this record is abandoned
	uint64_t tsc; // when it was seen
	uint32_t ready; // 1 once the rest is written
	uint32_t ns; // namespace, 0 but for dlmopen and LD_AUDIT
};

// An image that a process has loaded or closed, or a process that was forked. With these soscope
// finds the image that an address was in at some time. Images loaded before the start have no move
// until they are closed.
enum sosc_move_kind {
	SOSC_MOVE_CAME = 1,
	SOSC_MOVE_WENT = 2, // closed: from this time on none of its code can run
	SOSC_MOVE_FORKED = 3, // it has the images that its parent had after the move at `since`
};

struct sosc_move {
	uint32_t kind; // enum sosc_move_kind; written last, 0 before
	uint32_t image; // index
	uint32_t pid; // the process
	uint32_t parent; // FORKED: pid of the parent
	uint64_t tsc;
	uint64_t since; // FORKED: tsc of the parent's last move before the fork
};

// An address together with its image: index + 1 of the image stands above SOSC_IMAGE_SHIFT.
// SOSC_NO_IMAGE stands there if the address is in no image, or if the image has no record. 0 means
// that no image is given.
enum {
	SOSC_IMAGE_SHIFT = 48,
	SOSC_NO_IMAGE = 0x7fff,
};

enum sosc_slot_kind {
	SOSC_SLOT_JUMP_SLOT = 1,
	SOSC_SLOT_GLOB_DAT = 2, // all code that uses the slot calls or jumps through it
	SOSC_SLOT_PLT_GOT = 3, // a re-aimed .plt.got stub that jumps through a GLOB_DAT slot
	// re-aimed call instructions: the number of calls is a lower bound
	SOSC_SLOT_CALL_SITES = 4,
	SOSC_SLOT_METHOD = 5, // an entry of a method table; its caller is the interpreter
	SOSC_SLOT_ENTRY = 6, // no slot: the entry point of a function (breakpoints)
};

enum sosc_slot_refusal { // why a chosen slot is not hooked; 0 = hooked
	SOSC_HOOKED = 0,
	SOSC_REFUSED_ADDRESS_TAKEN = 1, // code only loads the address from it, or no stub was found
	SOSC_REFUSED_NOT_A_CALL = 2, // SOSC_FN_NEVER
	SOSC_REFUSED_FULL = 3, // no entry trampoline left
	SOSC_REFUSED_WRITE = 4, // page could not be written
	SOSC_REFUSED_TEXT = 5, // text could not be written
	SOSC_REFUSED_FOREIGN = 6, // the slot held an address that is not known
	SOSC_REFUSED_IN_USE = 7, // threads may be in the code that would have to be replaced
	SOSC_REFUSED_NO_SITE = 8, // no code was found that calls through it (breakpoints)
};

enum sosc_slot_flag {
	SOSC_SLOT_LAZY = 1, // was unbound when it was hooked
	SOSC_SLOT_ENTRY_ONLY = 2, // no exits for this function
	SOSC_SLOT_PARTIAL = 4, // some calls may bypass the hook: counts are a lower bound
};

// A slot as hooked by one instrument. Its index is also the index of its cell and of its counters.
// A slot that two instruments have hooked has two records.
struct sosc_slot {
	uint32_t symbol; // offset in SEC_STRINGS
	uint32_t version; // offset in SEC_STRINGS, 0 = none
	uint32_t caller; // image index
	uint32_t callee; // image index, SOSC_NONE = unknown
	uint64_t addr; // address of the slot; for PLT_GOT and CALL_SITES of the GLOB_DAT slot
	uint64_t saved; // value of the slot before it was hooked
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

// One cell of a count array of STATS. A cell of COUNT is a u64, the number of calls.
struct sosc_stats {
	uint64_t calls; // entries
	uint64_t returns; // exits paired with their entry
	uint64_t errors; // by the slot's error rule
	uint64_t total; // ticks, without the cost of the agent's hooks
	uint64_t min; // ticks + 1; 0 = none yet
	uint64_t max; // ticks
	uint64_t self; // ticks of `total` that were not spent in nested calls seen by STATS
	uint64_t reserved;
};

// ---- start -----------------------------------------------------------------

// Offsets inside the blob's reservation in the target (agent.lds keeps them). The file that is
// mapped there: the agent's ELF file, then one page of entry trampolines, one page of return
// trampolines and one page of counters, each repeated SOSC_BLOB_REPEAT times.
enum sosc_blob {
	SOSC_BLOB_SIZE = 0x4d80000,
	SOSC_BLOB_TEXT_MAX = 0x80000, // at offset 0: code, tables, unwind rule
	SOSC_BLOB_ENTRIES = 0x80000, // SOSC_MAX_SLOTS entry trampolines of 16 bytes
	SOSC_BLOB_SITES = 0x480000, // SOSC_MAX_SITES return trampolines of 32 bytes
	SOSC_BLOB_COUNTERS = 0x880000, // SOSC_MAX_COUNTERS counters of 128 bytes
	SOSC_BLOB_DISTANCE = 0xa00000, // from a trampoline to its data
	SOSC_BLOB_DATA = 0x1480000, // the agent's variables
	SOSC_BLOB_REPEAT = 64, // pages of each kind in the blob file
};

struct sosc_start { // first argument of soscope_agent_start, in the target's memory
	uint64_t base; // address of the reservation
	uint64_t r_debug; // struct r_debug of the base namespace
	uint64_t loader; // ld.so's load address
	uint64_t phdr; // AT_PHDR
	uint32_t phnum; // AT_PHNUM
	int32_t control_fd; // the block; closed by start
	int32_t blob_fd; // the blob; closed by start
	int32_t plan_fd; // the plan; closed by start
	// file of struct sosc_execs; closed by start; -1: soscope does not want it
	int32_t execs_fd;
	uint32_t reserved;
	uint64_t pages_offset; // offset of the trampoline pages in the blob file
	uint64_t control_size; // bytes of the block to map; count arrays may follow
	uint64_t plan_size; // bytes of the plan
	int64_t errno_offset; // from the thread pointer; INT64_MIN = unknown
	int64_t tid_offset; // of the thread id, from the thread pointer; 0 = unknown
	uint64_t brk; // the loader's r_brk function, 0 = do not hook it
	uint64_t brk_before; // the word at `brk` now
	// the word that soscope writes at `brk` after soscope_agent_start has returned
	uint64_t brk_after;
	uint64_t flags; // enum sosc_start_flag
	uint64_t stack_end; // an addr above all frames of the first thread's stack; 0 = unknown
};

enum sosc_start_flag {
	SOSC_START_AGAIN = 1, // the agent is mapped already, and no slot is hooked
	SOSC_START_TURNS = 2, // hook nothing yet: soscope_agent_hook will be called in turns
};

// ---- what stays in the target ----------------------------------------------

// What an agent tells a soscope that did not put it in, at SOSC_BLOB_DATA of its reservation. A
// forked child has its own copy.
struct sosc_inside {
	uint64_t magic; // SOSC_INSIDE_MAGIC, written last at the start
	uint32_t wire_version;
	uint32_t size; // sizeof(struct sosc_inside)
	uint64_t tables; // SOSC_TABLES, of tables.h
	uint64_t control; // addr of the control block
	uint64_t control_size;
	uint64_t changes; // addr of struct sosc_change[]
	uint64_t change_count; // used entries, oldest first, 0 if all changes were taken back
	uint64_t cells; // addr of the cells: u64 handler, u64 original
	uint64_t cell_count; // number of cells used by slots
	uint64_t sitedata; // addr of the return trampolines' data, 32 bytes each
	uint64_t site_count;
	uint64_t plain_jump; // handler that only jumps to the original
	uint64_t plain_exit; // exit handler that only returns
	uint64_t scratch; // addr of SOSC_SCRATCH bytes for soscope's own use
	uint64_t sessions; // how often the agent was started
	uint64_t waiting; // images that soscope_agent_hook still has to hook
	uint64_t patches; // addr of struct sosc_patches; SOSC_PATCHES_SIZE bytes
	uint64_t program; // addr of soscope_agent_program
	// addresses of Python's functions that the agent has replaced in order to hook method
	// tables
	uint64_t method_hash;
	uint64_t method_compare; // (hash and comparison)
	uint64_t method_state; // enum sosc_method_state
	uint64_t counterdata; // addr of the counters' data, struct sosc_counter
	uint64_t counter_count; // number of counters in use
	uint64_t rest; // addr of soscope_agent_rest
	uint64_t trap; // address to which soscope_agent_rest returns
	uint64_t threads; // addr of the table of threads
	uint64_t stubs; // addr of u64[SOSC_STUBS_MOST]: pages of code near images
	uint64_t quiet; // addr of a byte; 1: this process records nothing
	uint64_t counts; // addr of a byte; 1: objects are counted
	uint64_t is_resting; // 1: the agent rests, and its code has to be mapped anew
	// addr of the table of threads that the program has created, 0 if there is none
	uint64_t made_threads;
};

enum sosc_method_state { // progress of hooking method tables
	SOSC_METHODS_FREE = 0, // no thread is in the functions that are replaced for it
	SOSC_METHODS_WAIT = 1, // threads may be in them: soscope has to look
	// written by soscope: threads may stay in them for long, so hook no table
	SOSC_METHODS_LEFT = 2,
};

#define SOSC_INSIDE_MAGIC 0x3169706f63736f73ull // "soscopi1"

enum {
	SOSC_MAX_CHANGES = 655360,
	SOSC_SCRATCH = 16384,
	SOSC_STUBS_MOST = 64,
	// the first word of the last one's data is the exit handler of the page
	SOSC_SITES_A_PAGE = 128,
};

// A word of the target that the agent has changed. To take changes back, newest first: if a word
// holds `after`, store `before`.
struct sosc_change {
	uint64_t addr; // 0 = its image was unloaded
	uint64_t before;
	uint64_t after;
	uint8_t size; // 8, or 4 for a displacement in code or an operand of an instruction
	uint8_t flags; // enum sosc_change_flag
	uint16_t patch; // with SOSC_CHANGE_STANDS: index of the patch
	uint32_t image; // index in the agent's own list of images, or SOSC_NONE
};

enum sosc_change_flag {
	SOSC_CHANGE_STANDS = 1, // made for a patch: it outlives the session
	SOSC_CHANGE_LOADER = 2, // the hook of the loader: it stays as long as there are patches
	SOSC_CHANGE_CODE = 4, // an instruction, or an address in code; soscope may have to write it
	// it replaces several instructions: no thread may stand between them meanwhile
	SOSC_CHANGE_SPLIT = 8,
};

#endif
