// SPDX-License-Identifier: Apache-2.0
// Unwind rules of return addresses. Each is read from the unwind tables once and then kept: DWARF
// 5, 6.4 "Call Frame Information", in the form of .eh_frame (LSB, "Exception Frames").
//
// Only registers that lead from frame to frame matter. A walk ends at a frame whose rule cannot be
// expressed here (expressions of other shapes, other registers).

#include "stack/unwindrules.h"
#include "base/arch.h"
#include "base/clock.h"
#include "image/frame.h"
#include "image/image.h"

enum { // DWARF 5, 7.24; the last one is GNU's
	DW_CFA_NOP = 0x00,
	DW_CFA_ADVANCE_LOC1 = 0x02,
	DW_CFA_ADVANCE_LOC4 = 0x04,
	DW_CFA_OFFSET_EXTENDED = 0x05,
	DW_CFA_RESTORE_EXTENDED = 0x06,
	DW_CFA_UNDEFINED = 0x07,
	DW_CFA_SAME_VALUE = 0x08,
	DW_CFA_REGISTER = 0x09,
	DW_CFA_REMEMBER_STATE = 0x0a,
	DW_CFA_RESTORE_STATE = 0x0b,
	DW_CFA_DEF_CFA = 0x0c,
	DW_CFA_DEF_CFA_REGISTER = 0x0d,
	DW_CFA_DEF_CFA_OFFSET = 0x0e,
	DW_CFA_DEF_CFA_EXPRESSION = 0x0f,
	DW_CFA_EXPRESSION = 0x10,
	DW_CFA_OFFSET_EXTENDED_SF = 0x11,
	DW_CFA_DEF_CFA_SF = 0x12,
	DW_CFA_DEF_CFA_OFFSET_SF = 0x13,
	DW_CFA_VAL_OFFSET = 0x14,
	DW_CFA_VAL_OFFSET_SF = 0x15,
	DW_CFA_VAL_EXPRESSION = 0x16,
	DW_CFA_GNU_ARGS_SIZE = 0x2e,
	DW_CFA_ADVANCE_LOC = 0x40, // these are in the upper two bits
	DW_CFA_OFFSET = 0x80,
	DW_CFA_RESTORE = 0xc0,
	DW_OP_DEREF = 0x06,
	DW_OP_BREG0 = 0x70,
};

enum {
	KEPT_MAX = 8, // most states that an FDE remembers at a time
	WAIT_NS = 1000000, // one wait for threads that read tables
	PATIENCE = 1000 * WAIT_NS,
};

uint64_t sosc_rules[2 << RULE_PAIR_BITS];
uint32_t sosc_rules_epoch;

bool sosc_rules_used;
uint32_t sosc_rules_held;

// threads that read the code and the tables of an image to which a guess has led
static uint32_t guessing;

/** An image was unloaded, and others may be loaded at its address. */
void sosc_rules_wipe(void)
{
	for (uint32_t i = 0; i < 2 << RULE_PAIR_BITS; i++)
		__atomic_store_n(&sosc_rules[i], 0, __ATOMIC_RELAXED);
}

// ---- one row of the tables -------------------------------------------------------

enum how { // how the caller's value of a register is found
	SAME, // unchanged
	AT_CFA, // stored `bytes` from the CFA
	AT_FP, // stored `bytes` from the frame pointer
	UNDEFINED,
	LOST,
};

struct found {
	enum how how;
	int64_t bytes;
};

struct row {
	// RULE_NONE: the CFA is computed in a way that no rule can express
	enum sosc_frame_rule cfa;
	int64_t bytes;
	struct found fp, returns;
};

struct machine {
	const struct sosc_frame *function;
	uint64_t addr; // the address whose row is wanted
	uint64_t place;
	struct row row, initial, kept[KEPT_MAX];
	uint32_t kept_count;
};

static void set_cfa(struct row *row, uint64_t reg)
{
	row->cfa = reg == SOSC_DWARF_SP ? RULE_SP : reg == SOSC_DWARF_FP ? RULE_FP : RULE_NONE;
}

static struct found *column(struct machine *machine, uint64_t reg)
{
	if (reg == SOSC_DWARF_FP)
		return &machine->row.fp;
	return reg == machine->function->returns ? &machine->row.returns : NULL;
}

static void set(struct machine *machine, uint64_t reg, enum how how, int64_t bytes)
{
	struct found *at = column(machine, reg);

	if (at)
		*at = (struct found){how, bytes};
}

static void restore(struct machine *machine, uint64_t reg)
{
	if (reg == SOSC_DWARF_FP)
		machine->row.fp = machine->initial.fp;
	else if (reg == machine->function->returns)
		machine->row.returns = machine->initial.returns;
}

// Returns the bytes of an expression, or none if it exceeds the table.
static struct sosc_cfi expression(struct sosc_cfi *code)
{
	uint64_t size = sosc_uleb(&code->at, code->end);
	struct sosc_cfi shape = {code->at, code->at};

	if (size > (uint64_t)(code->end - code->at))
		size = 0;
	shape.end += size;
	code->at = shape.end;
	return shape;
}

// The CFA of a frame that was aligned is stored in the frame: [fp + bytes].
static void cfa_by_expression(struct machine *machine, struct sosc_cfi shape)
{
	struct row *row = &machine->row;

	row->cfa = RULE_NONE;
	if (sosc_is_plt_rule(shape.at, (uint64_t)(shape.end - shape.at), machine->addr,
			     &row->bytes)) {
		row->cfa = RULE_SP;
	} else if (shape.at < shape.end && *shape.at++ == DW_OP_BREG0 + SOSC_DWARF_FP) {
		row->bytes = sosc_sleb(&shape.at, shape.end);
		if (shape.end - shape.at == 1 && *shape.at == DW_OP_DEREF)
			row->cfa = RULE_AT_FP;
	}
}

static void by_expression(struct machine *machine, uint64_t reg, struct sosc_cfi shape)
{
	int64_t bytes;

	set(machine, reg, LOST, 0);
	if (shape.at == shape.end || *shape.at++ != DW_OP_BREG0 + SOSC_DWARF_FP)
		return;
	bytes = sosc_sleb(&shape.at, shape.end);
	if (shape.at == shape.end)
		set(machine, reg, AT_FP, bytes);
}

// Handles an instruction about one register. Returns whether the instruction is known.
static bool take_register(struct machine *machine, struct sosc_cfi *code, uint8_t op)
{
	int64_t step = machine->function->data_step;
	uint64_t reg = sosc_uleb(&code->at, code->end);

	switch (op) {
	case DW_CFA_OFFSET_EXTENDED:
		set(machine, reg, AT_CFA, (int64_t)sosc_uleb(&code->at, code->end) * step);
		return true;
	case DW_CFA_OFFSET_EXTENDED_SF:
		set(machine, reg, AT_CFA, sosc_sleb(&code->at, code->end) * step);
		return true;
	case DW_CFA_RESTORE_EXTENDED:
		restore(machine, reg);
		return true;
	case DW_CFA_UNDEFINED:
		set(machine, reg, UNDEFINED, 0);
		return true;
	case DW_CFA_SAME_VALUE:
		set(machine, reg, SAME, 0);
		return true;
	case DW_CFA_EXPRESSION:
		by_expression(machine, reg, expression(code));
		return true;
	case DW_CFA_VAL_EXPRESSION:
		(void)expression(code);
		set(machine, reg, LOST, 0);
		return true;
	case DW_CFA_REGISTER:
	case DW_CFA_VAL_OFFSET:
	case DW_CFA_VAL_OFFSET_SF:
		(void)sosc_uleb(&code->at, code->end);
		set(machine, reg, LOST, 0);
		return true;
	default:
		return false;
	}
}

static bool take(struct machine *machine, struct sosc_cfi *code, uint8_t op)
{
	int64_t step = machine->function->data_step;
	struct row *row = &machine->row;

	switch (op) {
	case DW_CFA_NOP:
		return true;
	case DW_CFA_REMEMBER_STATE:
		if (machine->kept_count == KEPT_MAX)
			return false;
		machine->kept[machine->kept_count++] = *row;
		return true;
	case DW_CFA_RESTORE_STATE:
		if (!machine->kept_count)
			return false;
		*row = machine->kept[--machine->kept_count];
		return true;
	case DW_CFA_DEF_CFA:
		set_cfa(row, sosc_uleb(&code->at, code->end));
		row->bytes = (int64_t)sosc_uleb(&code->at, code->end);
		return true;
	case DW_CFA_DEF_CFA_SF:
		set_cfa(row, sosc_uleb(&code->at, code->end));
		row->bytes = sosc_sleb(&code->at, code->end) * step;
		return true;
	case DW_CFA_DEF_CFA_REGISTER:
		set_cfa(row, sosc_uleb(&code->at, code->end));
		return true;
	case DW_CFA_DEF_CFA_OFFSET:
		row->bytes = (int64_t)sosc_uleb(&code->at, code->end);
		return true;
	case DW_CFA_DEF_CFA_OFFSET_SF:
		row->bytes = sosc_sleb(&code->at, code->end) * step;
		return true;
	case DW_CFA_DEF_CFA_EXPRESSION:
		cfa_by_expression(machine, expression(code));
		return true;
	case DW_CFA_GNU_ARGS_SIZE:
		(void)sosc_uleb(&code->at, code->end);
		return true;
	default:
		return take_register(machine, code, op);
	}
}

// Returns in @bytes how far an advance instruction goes. Returns false for other instructions.
static bool moves(struct machine *machine, struct sosc_cfi *code, uint8_t op, uint64_t *bytes)
{
	uint32_t size = op >= DW_CFA_ADVANCE_LOC1 && op <= DW_CFA_ADVANCE_LOC4 ?
				1u << (op - DW_CFA_ADVANCE_LOC1) :
				0;

	*bytes = 0;
	if (op >> 6 == DW_CFA_ADVANCE_LOC >> 6)
		*bytes = op & 0x3f;
	else if (!size || (uint64_t)(code->end - code->at) < size)
		return false;
	for (uint32_t i = 0; i < size; i++)
		*bytes |= (uint64_t)*code->at++ << 8 * i;
	*bytes *= machine->function->code_step;
	return true;
}

// Executes instructions until they pass the wanted address. Returns whether all of them are known.
static bool execute(struct machine *machine, struct sosc_cfi code)
{
	while (code.at < code.end) {
		uint8_t op = *code.at++;
		uint64_t bytes;

		if (moves(machine, &code, op, &bytes)) {
			machine->place += bytes;
			if (machine->place > machine->addr)
				return true;
		} else if (op >> 6 == DW_CFA_OFFSET >> 6) {
			set(machine, op & 0x3f, AT_CFA,
			    (int64_t)sosc_uleb(&code.at, code.end) * machine->function->data_step);
		} else if (op >> 6 == DW_CFA_RESTORE >> 6) {
			restore(machine, op & 0x3f);
		} else if (!take(machine, &code, op)) {
			return false;
		}
	}
	return true;
}

#define LAST ((uint32_t)RULE_LAST << RULE_KIND)

// ---- a rule ------------------------------------------------------------------------

static uint32_t fp_of(const struct row *row)
{
	if (row->fp.how == SAME)
		return 0;
	if (row->fp.how == AT_FP && !row->fp.bytes)
		return RULE_FP_THERE;
	if (row->fp.how == AT_CFA && row->fp.bytes < 0 && !(row->fp.bytes & 7) &&
	    -row->fp.bytes / 8 < RULE_FP_THERE)
		return (uint32_t)(-row->fp.bytes / 8);
	return RULE_FP_LOST;
}

static uint32_t rule_from(const struct row *row)
{
	int64_t words = row->bytes / 8 + RULE_MIDDLE;

	if (row->cfa == RULE_NONE || row->returns.how != AT_CFA || row->returns.bytes != -8 ||
	    row->bytes & 7 || words < 0 || words > RULE_BYTES_MASK)
		return LAST;
	return (uint32_t)row->cfa << RULE_KIND | (uint32_t)words << RULE_BYTES | fp_of(row);
}

// Returns the rule at an instruction of @image.
static uint32_t rule_at(const struct sosc_loaded *image, uint64_t addr)
{
	struct machine machine = {.addr = addr, .place = 0};
	struct sosc_frame function;

	if (!sosc_has_frames(image) || !sosc_frame_at(image, addr, &function))
		return RULE_POINTER;
	machine.function = &function;
	if (!execute(&machine, function.common))
		return LAST;
	machine.initial = machine.row;
	machine.place = function.start;
	return execute(&machine, function.own) ? rule_from(&machine.row) : LAST;
}

// Keeps a rule. @epoch: the value when the search began. The rule's image may have been unloaded
// since. Either this function notices that, or the code that wipes the rules wipes this one.
static void keep(uint64_t addr, uint32_t rule, uint32_t epoch)
{
	uint64_t product = addr * RULE_FACTOR & ((1ull << RULE_ADDR_BITS) - 1);
	uint64_t *pair = &sosc_rules[product >> RULE_TAG_BITS << 1];
	uint64_t word = product << RULE_BITS | rule;

	if (!sosc_rules_used)
		__atomic_store_n(&sosc_rules_used, true, __ATOMIC_RELAXED);
	if (__atomic_load_n(&pair[0], __ATOMIC_RELAXED))
		pair++;
	__atomic_store_n(pair, word, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&sosc_rules_epoch, __ATOMIC_SEQ_CST) != epoch)
		(void)__atomic_compare_exchange_n(pair, &word, 0, false, __ATOMIC_RELAXED,
						  __ATOMIC_RELAXED);
}

// ---- images that are unloaded -------------------------------------------------------

/**
 * Wait until no thread reads code or tables to which a guess has led. A thread that was interrupted
 * there may never go on, if the signal handler jumps elsewhere, so such a thread is waited for only
 * once.
 */
void sosc_rules_wait(void)
{
	static int32_t left; // threads that were waited for in vain
	uint64_t waited = 0;
	int32_t count;

	do {
		count = (int32_t)__atomic_load_n(&guessing, __ATOMIC_SEQ_CST);
		if (count < left)
			left = count;
		if (count == left)
			return;
		waited += sosc_wait(&guessing, (uint32_t)count, WAIT_NS);
	} while (waited < PATIENCE);
	left = count;
}

/** This is a forked child without the other threads. */
void sosc_rules_forked(void)
{
	__atomic_store_n(&guessing, 0, __ATOMIC_RELAXED);
}

// Returns whether the image around a frame may be read. If the frame was found by a table, a
// function of the image has not returned, so the image stays. If the frame was guessed, the loader
// may be about to unmap the image.
static bool may_read(bool is_guessed)
{
	if (!is_guessed)
		return true;
	if (__atomic_load_n(&sosc_rules_held,
			    // checked before counting, so that the waiting thread sees only earlier
			    // readers
			    __ATOMIC_RELAXED))
		return false;
	__atomic_fetch_add(&guessing, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&sosc_rules_held, __ATOMIC_SEQ_CST))
		return true;
	__atomic_fetch_sub(&guessing, 1, __ATOMIC_SEQ_CST);
	return false;
}

static void has_read(bool is_guessed)
{
	if (is_guessed)
		__atomic_fetch_sub(&guessing, 1, __ATOMIC_SEQ_CST);
}

static uint32_t learn(uint64_t addr)
{
	uint32_t epoch = __atomic_load_n(&sosc_rules_epoch, __ATOMIC_SEQ_CST), rule;
	const struct sosc_loaded *image = addr < SOSC_ADDRESSES_END ? sosc_image_of(addr) : NULL;

	if (!image || addr - image->start < 8 || !sosc_code_readable(image, addr - 1) ||
	    !sosc_code_readable(image, addr - 8))
		return RULE_NONE;
	if (sosc_is_behind_call((const uint8_t *)addr))
		rule = rule_at(image, addr - 1);
	else if (sosc_code_readable(image, addr + SOSC_SIGNAL_RETURN_SIZE - 1) &&
		 sosc_returns_from_signal((const uint8_t *)addr))
		rule = (uint32_t)RULE_SIGNAL << RULE_KIND;
	else
		return RULE_NONE;
	keep(addr, rule, epoch);
	return rule;
}

/** Find out the rule of a return address that has no kept rule. */
uint32_t sosc_rule_learn(uint64_t addr, bool is_guessed)
{
	uint32_t rule;

	if (!may_read(is_guessed))
		return RULE_NONE;
	rule = learn(addr);
	has_read(is_guessed);
	return rule;
}

/** Return the rule of an address at which a signal has interrupted the thread. */
uint32_t sosc_rule_interrupted(uint64_t addr, bool is_guessed)
{
	const struct sosc_loaded *image;
	uint32_t rule = LAST;

	if (!may_read(is_guessed))
		return LAST;
	image = addr < SOSC_ADDRESSES_END ? sosc_image_of(addr) : NULL;
	if (image && sosc_addr_executable(image, addr))
		rule = rule_at(image, addr);
	has_read(is_guessed);
	return rule;
}
