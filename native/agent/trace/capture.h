// SPDX-License-Identifier: Apache-2.0
/**
 * What is being kept of one call, between measuring and writing.
 */
#ifndef SOSC_CAPTURE_H
#define SOSC_CAPTURE_H

#include "base/arch.h"

struct sosc_thread;

enum {
	SOSC_ITEMS_MAX = 24, // ops with data in one program
	SOSC_BYTES_MAX = 4096, // of one item
	SOSC_WCHARS_MAX = SOSC_BYTES_MAX / 4 - 1, // of a wide string
	SOSC_TOTAL_MAX = 8192, // units of one record, in bytes
	SOSC_KEPT_MAX = 6, // words kept from an entry to its exit
	SOSC_KEPT_INT = 8, // added to a register: the int that it leads to
	SOSC_KEPT_ALL = (1 << SOSC_REGISTER_ARGUMENTS) - 1, // registers alone
	SOSC_COPIED_MAX = 136, // bytes of strings that were copied to be measured
	SOSC_LONG = 512, // bytes of an item
	SOSC_FORMAT_MAX = 256, // of what is walked through, with its end
};

struct sosc_item {
	uint64_t from; // addr of the bytes, 0 = none
	uint32_t size;
	uint8_t kind; // enum sosc_data_kind
	uint8_t item;
	uint8_t flags; // enum sosc_data_flag
	bool checked; // copy by a read that does not fault
};

_Static_assert(SOSC_COPIED_MAX % 8 == 0, "no padding");

_Static_assert((int)SOSC_RESULT_WORDS <= (int)SOSC_FLOAT_ARGUMENTS, "they share their room");

enum {
	SOSC_VALUES_MAX = 24, // words of a va_list that are kept
	SOSC_MEMORY_MAX = 16, // of which so many are in memory
	SOSC_NEAR_SIZE = 512, // bytes that are read at once around it
};

// What programs of SOSC_FN_WIDE have besides: in a frame that other calls are spared.
union sosc_wide {
	struct {
		uint64_t values[SOSC_VALUES_MAX];
		uint64_t saved[SOSC_SAVED_SIZE / 8];
		uint64_t memory[SOSC_MEMORY_MAX];
		uint64_t near_from; // addr of what `near` is a copy of
		uint64_t near_known; // bytes
		uint8_t near[SOSC_NEAR_SIZE];
	};
	uint8_t vectors[SOSC_VECTORS_SIZE];
};

struct sosc_capture {
	struct sosc_regs *regs;
	const struct sosc_thread *thread;
	uint32_t process; // whose units it writes: a handler may fork in the middle
	uint64_t words[SOSC_REGISTER_ARGUMENTS];
	uint32_t before[SOSC_REGISTER_ARGUMENTS]; // exit: the int that each register led to at the entry
	uint16_t known; // bit n: words[n], bit KEPT_INT + n: before[n]
	uint8_t stack_count; // exit: of the next two
	uint8_t stack_args[SOSC_KEPT_MAX]; // SOSC_ARG_STACK + n, each with what it was at the entry
	uint64_t stack_words[SOSC_KEPT_MAX];
	uint64_t floats[SOSC_FLOAT_ARGUMENTS]; // or all that a result can be in
	uint64_t result;
	union sosc_wide *wide; // entry: NULL without SOSC_FN_WIDE
	int32_t error; // errno as the program has it
	bool at_exit;
	bool of_libc; // the function reads and returns what its prototype says
	bool is_long; // the copy takes longer than to hold signals back
	uint32_t count;
	uint32_t total; // bytes of units, once all is measured
	uint32_t copied; // bytes of `copies` in use
	uint8_t copies[SOSC_COPIED_MAX]; // no second system call for what one has read
	struct sosc_item items[SOSC_ITEMS_MAX];
};

// A word of a capture program, of one piece: the table may be given back under who was
// interrupted here, when the session has ended, and is zeros then.
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

/** How many units an item takes. */
static inline uint32_t sosc_units_of(const struct sosc_item *item)
{
	return item->size ? (item->size + 23) / 24 : 1;
}

/** Whether a program may have memory at @from: vm.mmap_min_addr as it usually is, and the end. */
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
