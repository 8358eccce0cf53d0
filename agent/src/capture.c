// SPDX-License-Identifier: Apache-2.0
// Runs capture programs: what a call's record keeps besides its first word.
//
// A program is run twice over the same ops: once to measure, then, with the room
// reserved, to write. A string that another thread changes in between is cut or
// padded, never overrun.

#include "agent.h"
#include "capture.h"
#include "sys.h"

enum { PIECE = 256 }; // bytes of a checked read

// Copies at most @size bytes from the target's @from; how many could be read.
uint64_t sosc_checked_copy(const struct sosc_capture *capture, void *to, uint64_t from,
			   uint64_t size)
{
	if (sosc_control->flags & SOSC_FLAG_NO_SYSCALL)
		return 0;
	return sosc_read(capture->thread->tid, to, from, size);
}

// The length of the string at @from, at most @limit + 1.
uint32_t sosc_string_size(const struct sosc_capture *capture, uint64_t from, uint32_t limit,
			  bool checked, uint8_t *flags)
{
	uint8_t piece[PIECE];
	uint32_t size = 0;

	if (!checked) {
		while (size <= limit && ((const char *)from)[size])
			size++;
		return size;
	}
	while (size <= limit) {
		// never across a page: the next one may not be there
		uint64_t want = SOSC_PAGE - ((from + size) & (SOSC_PAGE - 1));
		uint64_t got, i;

		if (want > PIECE)
			want = PIECE;
		if (want > limit + 1 - size)
			want = limit + 1 - size;
		got = sosc_checked_copy(capture, piece, from + size, want);
		if (!got) {
			*flags |= SOSC_DATA_UNREADABLE;
			return size;
		}
		for (i = 0; i < got; i++, size++)
			if (!piece[i])
				return size;
	}
	return size;
}

static uint64_t pointer_of(const struct sosc_capture *capture, uint32_t arg)
{
	if (arg == SOSC_ARG_RESULT)
		return capture->result;
	return arg < 6 ? capture->words[arg] : 0;
}

static uint64_t length_of(const struct sosc_capture *capture, const struct sosc_op *op)
{
	uint64_t a = op->length_arg < 6 ? capture->words[op->length_arg] : 0;
	uint64_t b = op->length_arg < 5 ? capture->words[op->length_arg + 1] : 0;
	uint64_t product;

	switch (op->length) {
	case SOSC_LENGTH_ARG:
		return a;
	case SOSC_LENGTH_PRODUCT:
		return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
	case SOSC_LENGTH_RESULT:
		return (int64_t)capture->result > 0 ? capture->result : 0;
	case SOSC_LENGTH_RESULT_PRODUCT:
		return __builtin_mul_overflow(a, capture->result, &product) ? UINT64_MAX : product;
	default:
		return UINT64_MAX;
	}
}

void sosc_capture_floats(struct sosc_capture *capture)
{
	// the registers as the function will find them: this code uses none
	uint8_t state[512] __attribute__((aligned(16)));

	__asm__ volatile("fxsave64 %0" : "=m"(state));
	for (int i = 0; i < 8; i++)
		memcpy(&capture->floats[i], state + 160 + 16 * i, 8);
}

void sosc_capture_add(struct sosc_capture *capture, struct sosc_item item)
{
	if (capture->count < SOSC_ITEMS_MAX)
		capture->items[capture->count++] = item;
}

static void add_memory(struct sosc_capture *capture, const struct sosc_op *op)
{
	uint32_t limit = op->limit ? op->limit : sosc_control->string_limit;
	uint64_t from = pointer_of(capture, op->arg), length;
	struct sosc_item item = {
		.from = from, .item = op->item, .checked = !(op->flags & SOSC_OP_MUST_FOLLOW)};

	if (limit > SOSC_BYTES_MAX)
		limit = SOSC_BYTES_MAX;
	item.kind = op->op == SOSC_OP_WORD_AT ? SOSC_DATA_WORD_AT :
		    op->op == SOSC_OP_BYTES   ? SOSC_DATA_BYTES :
						SOSC_DATA_STRING;
	if (!from) {
		item.flags = SOSC_DATA_NULL;
	} else if (item.kind == SOSC_DATA_STRING) {
		item.size = sosc_string_size(capture, from, limit, item.checked, &item.flags);
	} else {
		length = item.kind == SOSC_DATA_WORD_AT ? 8 : length_of(capture, op);
		if (item.kind == SOSC_DATA_WORD_AT)
			limit = 8;
		item.size = length > limit ? limit + 1 : (uint32_t)length;
	}
	if (item.kind != SOSC_DATA_WORD_AT && item.size > limit) {
		item.size = limit;
		item.flags |= SOSC_DATA_TRUNCATED;
	}
	sosc_capture_add(capture, item);
}

static void measure(struct sosc_capture *capture, const struct sosc_op *op)
{
	bool floats = false;

	for (; op->op != SOSC_OP_END; op++) {
		struct sosc_item item = {.item = op->item};

		switch (op->op) {
		case SOSC_OP_WORDS: // the first is in the record itself
			if (op->arg > 1)
				sosc_capture_add(
					capture,
					(struct sosc_item){.from = (uint64_t)&capture->words[1],
							   .size = 8u * (op->arg - 1u),
							   .kind = SOSC_DATA_WORDS,
							   .item = 1});
			break;
		case SOSC_OP_STACK:
			item = (struct sosc_item){.from = (uint64_t)capture->regs->stack,
						  .size = 8u * op->arg,
						  .kind = SOSC_DATA_STACK,
						  .checked = true};
			sosc_capture_add(capture, item);
			break;
		case SOSC_OP_FLOAT:
			if (!floats)
				sosc_capture_floats(capture);
			floats = true;
			item = (struct sosc_item){.from = (uint64_t)capture->floats,
						  .size = capture->at_exit ? 8u : 8u * op->arg,
						  .kind = SOSC_DATA_FLOATS};
			sosc_capture_add(capture, item);
			break;
		case SOSC_OP_FORMAT:
			add_memory(capture, op);
			sosc_capture_format(capture, op);
			break;
		case SOSC_OP_STRING:
		case SOSC_OP_BYTES:
		case SOSC_OP_WORD_AT:
			add_memory(capture, op);
			break;
		default:
			break;
		}
	}
}

static uint32_t units_of(const struct sosc_item *item)
{
	return item->size ? (item->size + 23) / 24 : 1;
}

static uint32_t total(struct sosc_capture *capture)
{
	uint32_t bytes = SOSC_UNIT;

	for (uint32_t i = 0; i < capture->count; i++) {
		struct sosc_item *item = &capture->items[i];

		if (bytes + units_of(item) * SOSC_UNIT > SOSC_TOTAL_MAX) {
			item->size = 0;
			item->flags |= SOSC_DATA_TRUNCATED;
		}
		bytes += units_of(item) * SOSC_UNIT;
	}
	return bytes;
}

static void write_items(const struct sosc_capture *capture, struct sosc_data *unit)
{
	for (uint32_t i = 0; i < capture->count; i++) {
		const struct sosc_item *item = &capture->items[i];
		uint32_t left = item->size, units = units_of(item);
		uint32_t kind = item->kind;
		uint8_t flags = item->flags;

		for (uint32_t u = 0; u < units; u++, unit++) {
			uint32_t size = left > 24 ? 24 : left;
			uint64_t from = item->from + u * 24ull;

			if (item->checked && size) {
				if (sosc_checked_copy(capture, unit->payload, from, size) != size)
					flags |= SOSC_DATA_UNREADABLE;
			} else {
				memcpy(unit->payload, (const void *)from, size);
			}
			unit->aux = flags;
			unit->commit = (uint32_t)SOSC_UNIT_DATA << 28 | kind << 24 |
				       (uint32_t)item->item << 16 | left;
			left -= size;
			kind = SOSC_DATA_MORE;
		}
	}
}

static const struct sosc_op *program(uint32_t offset)
{
	static const struct sosc_op nothing = {.op = SOSC_OP_END};

	if (!offset)
		return &nothing;
	return (const void *)((const uint8_t *)sosc_section(SOSC_SEC_FUNCTIONS) + offset);
}

// The registers whose words an exit program asks for, in the order of its ops:
// at most two are kept from the entry to the exit.
static uint32_t wanted(const struct sosc_op *op, uint8_t registers[2])
{
	uint32_t count = 0;

	for (; op->op != SOSC_OP_END; op++) {
		bool sized = op->op == SOSC_OP_BYTES &&
			     (op->length == SOSC_LENGTH_ARG || op->length == SOSC_LENGTH_PRODUCT ||
			      op->length == SOSC_LENGTH_RESULT_PRODUCT);
		uint8_t named[2] = {op->arg, sized ? op->length_arg : SOSC_ARG_RESULT};

		if (op->op == SOSC_OP_FLOAT)
			continue;
		for (int i = 0; i < 2; i++) {
			bool known = named[i] >= 6;

			for (uint32_t k = 0; k < count; k++)
				known |= registers[k] == named[i];
			if (!known && count < 2)
				registers[count++] = named[i];
		}
	}
	return count;
}

// Keeps the words that the exit program will ask for, until the exit.
static void park(struct sosc_thread *thread, struct sosc_cell *cell,
		 const struct sosc_function *function, const struct sosc_capture *capture)
{
	uint64_t sp = (uint64_t)&capture->regs->ret;
	bool tail_called = capture->regs->ret - (uint64_t)sosc_sites <
			   SOSC_MAX_SITES * SOSC_SITE_SIZE;
	struct sosc_parked *parked;
	uint8_t registers[2];
	uint32_t count = wanted(program(function->exit_program), registers);

	parked = sosc_parked_find(thread, sp, (uint64_t)cell);
	if (!parked)
		parked = sosc_parked_place(thread, sp, tail_called);
	if (!parked)
		return;
	parked->cell = (uint64_t)cell;
	parked->a = count > 0 ? capture->words[registers[0]] : 0;
	parked->b = count > 1 ? capture->words[registers[1]] : 0;
	parked->sp = sp;
}

/**
 * The entry of a call with a capture program. Returns where to go on: the
 * return trampoline, or the function itself when no exit is to be seen.
 */
uint64_t sosc_capture_entry(const struct sosc_regs *regs)
{
	struct sosc_cell *cell = (void *)regs->r11;
	uint32_t index = sosc_cell_index(cell);
	const struct sosc_function *function = sosc_hooks[index].function;
	uint64_t site = 0, target = cell->original;
	struct sosc_thread *thread = sosc_thread_slow(cell);
	struct sosc_capture capture;
	struct sosc_entry *unit;

	if (!thread)
		return target;
	capture.regs = regs;
	capture.thread = thread;
	capture.at_exit = false;
	capture.count = 0;
	capture.words[0] = regs->rdi;
	capture.words[1] = regs->rsi;
	capture.words[2] = regs->rdx;
	capture.words[3] = regs->rcx;
	capture.words[4] = regs->r8;
	capture.words[5] = regs->r9;
	if (!(sosc_slot(index)->flags & SOSC_SLOT_ENTRY_ONLY))
		site = sosc_site_find(regs->ret, cell);
	if (function->flags & SOSC_FN_PROGRAM)
		measure(&capture, program(function->entry_program));
	unit = (void *)sosc_ring_reserve(thread, total(&capture), SOSC_LOSS_ENTRY);
	if (!unit)
		return target;
	write_items(&capture, (struct sosc_data *)(unit + 1));
	if (site && function->flags & SOSC_FN_EXIT_PROGRAM && function->exit_words)
		park(thread, cell, function, &capture);
	unit->sp = (uint32_t)(uint64_t)&regs->ret;
	unit->return_addr = regs->ret;
	unit->arg0 = regs->rdi;
	unit->tsc = sosc_rdtsc();
	__atomic_store_n(&unit->commit,
			 (uint32_t)(site ? SOSC_UNIT_ENTRY : SOSC_UNIT_ENTRY_ONLY) << 28 | index,
			 __ATOMIC_RELEASE);
	return site ? site : target;
}

void sosc_capture_exit(const struct sosc_regs *regs)
{
	uint64_t tsc = sosc_rdtsc();
	struct sosc_site *site = (void *)(regs->r11 + SOSC_DISTANCE);
	struct sosc_cell *cell = (void *)site->cell;
	uint32_t index = sosc_cell_index(cell), count;
	const struct sosc_function *function = sosc_hooks[index].function;
	struct sosc_thread *thread = sosc_thread_self();
	struct sosc_parked *parked;
	struct sosc_capture capture;
	struct sosc_exit *unit;
	uint8_t registers[2];
	int32_t error;

	__asm__ volatile("movl %%fs:(%1), %0" : "=r"(error) : "r"(sosc_errno_offsets[site->ns]));
	site->original = __atomic_load_n(&cell->original, __ATOMIC_ACQUIRE);
	if (site->flags & SITE_FLAG_OLD)
		return;
	if (!thread) {
		if (!sosc_quiet)
			__atomic_fetch_add(&sosc_control->dropped_exits, 1, __ATOMIC_RELAXED);
		return;
	}
	if (site->flags & SITE_FLAG_VFORK)
		sosc_thread_vforked(thread, !regs->rax);
	capture.regs = regs;
	capture.thread = thread;
	capture.at_exit = true;
	capture.count = 0;
	capture.result = regs->rax;
	memset(capture.words, 0, sizeof(capture.words));
	parked = sosc_parked_find(thread, (uint64_t)&regs->ret, site->cell);
	count = parked ? wanted(program(function->exit_program), registers) : 0;
	for (uint32_t i = 0; i < count; i++)
		capture.words[registers[i]] = i ? parked->b : parked->a;
	if (parked && !(site->flags & SITE_FLAG_TWICE))
		parked->sp = 0;
	measure(&capture, program(function->exit_program));
	unit = (void *)sosc_ring_reserve(thread, total(&capture), SOSC_LOSS_EXIT);
	if (!unit)
		return;
	write_items(&capture, (struct sosc_data *)(unit + 1));
	unit->sp = (uint32_t)(uint64_t)&regs->ret;
	unit->tsc = tsc;
	unit->result = regs->rax;
	unit->errno_value = (uint32_t)error;
	unit->reserved = 0;
	__atomic_store_n(&unit->commit, (uint32_t)SOSC_UNIT_EXIT << 28 | index, __ATOMIC_RELEASE);
}
