// SPDX-License-Identifier: Apache-2.0
/** What is being kept of one call, between measuring and writing. */
#ifndef SOSC_CAPTURE_H
#define SOSC_CAPTURE_H

#include "base/arch.h"

struct sosc_thread;

enum {
	SOSC_ITEMS_MAX = 24, // most items of one program
	SOSC_BYTES_MAX = 4096, // most bytes of one item
	SOSC_WCHARS_MAX = SOSC_BYTES_MAX / 4 - 1, // most characters of a wide string
	SOSC_TOTAL_MAX = 8192, // most bytes of the units of one record
	SOSC_KEPT_MAX = 6, // most words kept from an entry to its exit
	SOSC_KEPT_INT = 8, // added to a register's number: the int to which the register points
	SOSC_KEPT_ALL = (1 << SOSC_REGISTER_ARGUMENTS) - 1, // all registers, without such ints
	SOSC_COPIED_MAX = 136, // bytes for strings that were copied in order to be measured
	SOSC_LONG = 512, // an item of this size or more is written with signals blocked
	SOSC_FORMAT_MAX = 256, // bytes of a format that are parsed, with its NUL
};

struct sosc_item {
	uint64_t from; // addr of the bytes, 0 = none
	uint32_t size;
	uint8_t kind; // enum sosc_data_kind
	uint8_t item;
	uint8_t flags; // enum sosc_data_flag
	bool checked; // copy with reads that do not fault
};

_Static_assert(SOSC_COPIED_MAX % 8 == 0, "no padding");

_Static_assert((int)SOSC_RESULT_WORDS <= (int)SOSC_FLOAT_ARGUMENTS, "they share their room");

enum {
	SOSC_VALUES_MAX = 24, // most words of a va_list that are kept
	SOSC_MEMORY_MAX = 16, // most of these that are on the stack
	SOSC_NEAR_SIZE = 512, // bytes that are read at a time around a va_list
};

// Additional room for programs with SOSC_FN_WIDE, in a separate frame that other calls do without.
union sosc_wide {
	struct {
		uint64_t values[SOSC_VALUES_MAX];
		uint64_t saved[SOSC_SAVED_SIZE / 8];
		uint64_t memory[SOSC_MEMORY_MAX];
		uint64_t near_from; // addr of the original of `near`
		uint64_t near_known; // valid bytes of it
		uint8_t near[SOSC_NEAR_SIZE];
	};
	uint8_t vectors[SOSC_VECTORS_SIZE];
};

struct sosc_capture {
	struct sosc_regs *regs;
	const struct sosc_thread *thread;
	uint32_t process; // process that owns the units: a signal handler may fork in the middle
	uint64_t words[SOSC_REGISTER_ARGUMENTS];
	// exit: the int to which each register pointed at the entry
	uint32_t before[SOSC_REGISTER_ARGUMENTS];
	uint16_t known; // bit n: words[n] is known, bit KEPT_INT + n: before[n] is known
	uint8_t stack_count; // exit: number of entries in the next two fields
	uint8_t stack_args[SOSC_KEPT_MAX]; // SOSC_ARG_STACK + n, each with its value at the entry
	uint64_t stack_words[SOSC_KEPT_MAX];
	uint64_t floats[SOSC_FLOAT_ARGUMENTS]; // or all registers that can hold a result
	uint64_t result;
	union sosc_wide *wide; // entry: NULL without SOSC_FN_WIDE
	int32_t error; // the program's errno
	bool at_exit;
	// the function is the C library's: it reads and returns what its prototype says
	bool of_libc;
	bool is_long; // copying takes longer than blocking signals
	uint32_t count;
	uint32_t total; // bytes of units, after measuring
	uint32_t copied; // bytes of `copies` in use
	uint8_t copies[SOSC_COPIED_MAX]; // saves a second system call for strings that were copied
	struct sosc_item items[SOSC_ITEMS_MAX];
};

// A word of a capture program, read in one piece: if this code was interrupted and the session has
// ended, the table may have been unmapped, and reads as zeros.
union sosc_program_word {
	uint64_t word;
	struct sosc_op op;
	struct sosc_values range;
};

_Static_assert(sizeof(union sosc_program_word) == sizeof(uint64_t), "one load");

static inline union sosc_program_word sosc_program_word(const struct sosc_op *at)
{
	typedef uint64_t __attribute__((aligned(1))) word;

	return (union sosc_program_word){.word = *(const volatile word *)at};
}

/** Return how many units an item needs. */
static inline uint32_t sosc_units_of(const struct sosc_item *item)
{
	return item->size ? (item->size + 23) / 24 : 1;
}

/**
 * Return whether a program may have memory at @from, between the usual vm.mmap_min_addr and the end
 * of addresses.
 */
static inline bool sosc_capture_may_be(uint64_t from)
{
	const uint64_t lowest = 0x10000;

	return from - lowest < SOSC_ADDRESSES_END - lowest;
}

static inline void sosc_capture_add(struct sosc_capture *capture, struct sosc_item item)
{
	if (capture->count < SOSC_ITEMS_MAX)
		capture->items[capture->count++] = item;
}

#pragma GCC visibility push(hidden)
void sosc_capture_measure(struct sosc_capture *capture, const struct sosc_op *at);
bool sosc_capture_read_string(struct sosc_capture *capture, const union sosc_program_word *word);
bool sosc_capture_strings(struct sosc_capture *capture, const struct sosc_op *at);
void sosc_capture_total(struct sosc_capture *capture);
bool sosc_capture_write(const struct sosc_capture *capture, struct sosc_data *unit);
bool sosc_capture_word(const struct sosc_capture *capture, uint32_t arg, uint64_t *ret);
bool sosc_capture_int(const struct sosc_capture *capture, uint64_t from, uint32_t *ret);
bool sosc_capture_is_there(const struct sosc_capture *capture, uint64_t from, uint64_t size,
			   bool is_read);
bool sosc_capture_is_read(const struct sosc_capture *capture, const struct sosc_op *op);
void sosc_capture_stack(struct sosc_capture *capture, uint32_t count);
void sosc_capture_floats(struct sosc_capture *capture);
uint64_t sosc_capture_copy(const struct sosc_capture *capture, void *to,
			   const struct sosc_item *item);
uint64_t sosc_checked_copy(const struct sosc_capture *capture, void *to, uint64_t from,
			   uint64_t size);
void sosc_capture_string(struct sosc_capture *capture, struct sosc_item *item, uint32_t limit);
void sosc_capture_wchars(struct sosc_capture *capture, struct sosc_item *item, uint32_t most);
uint32_t sosc_capture_narrowed(const struct sosc_capture *capture, char *to,
			       const struct sosc_item *item, uint32_t most);
void sosc_capture_format(struct sosc_capture *capture, const struct sosc_op *op);
void sosc_capture_va_format(struct sosc_capture *capture, const struct sosc_op *op);
uint32_t sosc_capture_va_words(struct sosc_capture *capture, uint32_t arg, uint32_t count);
uint32_t sosc_capture_copy_format(const struct sosc_capture *capture, const struct sosc_op *op,
				  uint32_t kept, char format[SOSC_FORMAT_MAX]);
void sosc_capture_scanf(struct sosc_capture *capture, const struct sosc_op *op);
void sosc_capture_filled(struct sosc_capture *capture);
#pragma GCC visibility pop

#endif
