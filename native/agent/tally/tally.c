// SPDX-License-Identifier: Apache-2.0
// Calls that the program itself counts, while it asks for that: how many, how long, how many bytes
// were requested and obtained. The function is called from a frame of the agent that passes the
// arguments on. So nothing is kept between a call and its return except on the stack, and a call
// that never returns leaves nothing behind. All counters are added to with lock prefixes, so any
// thread may be here, also in a signal handler and without the interpreter's lock.

#include "tally/tally.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"

enum {
	VECTOR_MAX = 1024, // UIO_MAXIOV
	VFORK_BITS = 8,
	// of arguments on the stack: functions with more words are variadic, and their
	// calls may have fewer
	WORDS_CERTAIN = 8,
	WENT_OUT = 128, // in sosc_tally_fds: the latest bytes were sent
	RC_SUCCESS = 0, // of libmemcached: memcached_return_t
	RC_EXISTS = 12,
	RC_NOT_STORED = 14,
	RC_STORED = 15,
	RC_NOT_FOUND = 16,
};

struct sosc_tally_rules sosc_tally_rules;
struct sosc_tally_count sosc_tally_counts[TALLY_SPREADS][TALLY_FUNCTIONS_MAX];
struct sosc_tally_wire sosc_tally_wires[SOSC_TALLY_GROUPS];
uint8_t sosc_tally_fds[TALLY_FDS];

static void add(uint64_t *to, uint64_t number)
{
	if (number)
		(void)__atomic_fetch_add(to, number, __ATOMIC_RELAXED);
}

static uint64_t ticks(void)
{
	return sosc_tally_rules.has_no_clock ? 0 : sosc_read_counter();
}

static uint64_t mixed(uint64_t thread)
{
	return (thread >> 8) * 0x9e3779b97f4a7c15;
}

static struct sosc_tally_count *counter(uint32_t function)
{
	uint64_t spread = mixed(sosc_thread_pointer()) >> 60 & (TALLY_SPREADS - 1);

	return &sosc_tally_counts[spread][function];
}

static const struct sosc_tally_function *function_of(const struct sosc_tally_call *call)
{
	uint32_t count;

	return &sosc_tally_functions(&count)[call->slot->function];
}

static uint64_t argument(const struct sosc_tally_call *call, uint32_t number)
{
	return number < 6 ? call->arguments[number] : call->stack[number - 6];
}

// Returns how many words of the stack are copied for the function. The stack may end behind the
// arguments of a variadic call.
static uint64_t words_of(const struct sosc_tally_call *call, uint64_t words)
{
	uint64_t from = (uint64_t)call->stack, page = (from | (SOSC_PAGE - 1)) + 1;
	uint8_t byte;

	if (words <= WORDS_CERTAIN || from + words * 8 <= page ||
	    sosc_read((uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0), &byte, page, 1) == 1)
		return words;
	return (page - from) / 16 * 2;
}

// ---- statements ------------------------------------------------------------------

static bool is_word(const char *text, const char *word, uint64_t size)
{
	uint64_t i = 0;

	for (; word[i]; i++)
		if (i == size || (text[i] | 0x20) != word[i])
			return false;
	return i == size || !(((text[i] | 0x20) >= 'a' && (text[i] | 0x20) <= 'z') ||
			      text[i] == '_' || (text[i] >= '0' && text[i] <= '9'));
}

static bool is_space(char letter)
{
	return letter == ' ' || (letter >= '\t' && letter <= '\r') || letter == '(' ||
	       letter == ';';
}

// Returns the offset of the first word, after spaces, brackets and comments. Reads no further than
// a NUL or @size.
static uint64_t first_word(const char *text, uint64_t size)
{
	uint64_t at = 0;

	while (at < size && text[at]) {
		if (is_space(text[at])) {
			at++;
		} else if (at + 1 < size && text[at] == '-' && text[at + 1] == '-') {
			while (at < size && text[at] && text[at] != '\n')
				at++;
		} else if (at + 1 < size && text[at] == '/' && text[at + 1] == '*') {
			for (at += 2; at < size && text[at]; at++)
				if (text[at] == '*' && at + 1 < size && text[at + 1] == '/')
					break;
			if (at < size && text[at])
				at += 2;
		} else {
			break;
		}
	}
	return at;
}

static enum sosc_tally_kind kind_of(const char *text, uint64_t size)
{
	uint64_t at;

	if (!text)
		return SOSC_TALLY_OTHER;
	at = first_word(text, size);
	if (at >= size)
		return SOSC_TALLY_OTHER;
	text += at;
	size -= at;
	if (is_word(text, "select", size))
		return SOSC_TALLY_SELECT;
	if (is_word(text, "insert", size))
		return SOSC_TALLY_INSERT;
	if (is_word(text, "update", size))
		return SOSC_TALLY_UPDATE;
	if (is_word(text, "delete", size))
		return SOSC_TALLY_DELETE;
	return SOSC_TALLY_OTHER;
}

static void count_text(struct sosc_tally_count *to, const struct sosc_tally_call *call,
		       const struct sosc_tally_function *function)
{
	uint64_t size = function->second == SOSC_TALLY_NO ? UINT64_MAX :
							    argument(call, function->second);

	add(&to->kinds[kind_of((const char *)argument(call, function->first), size)], 1);
}

// A statement is executed anew at the first step after it was reset or has ended.
static void count_step(struct sosc_tally_count *to, uint64_t statement)
{
	int (*is_busy)(void *) = sosc_tally_rules.step_is_busy;
	const char *(*text)(void *) = sosc_tally_rules.step_text;

	if (is_busy && text && statement && !is_busy((void *)statement))
		add(&to->kinds[kind_of(text((void *)statement), UINT64_MAX)], 1);
}

// ---- results in memory ------------------------------------------------------------

// Reads @bytes that the function has written where argument @number points. If the caller passes
// NULL because it does not want the answer, returns false and leaves @ret as it is.
static bool read_answer(const struct sosc_tally_call *call, uint32_t number, void *ret,
			uint64_t bytes)
{
	const void *at = (const void *)argument(call, number);

	if (!at)
		return false;
	memcpy(ret, at, bytes);
	return true;
}

static uint64_t read_size(const struct sosc_tally_call *call, uint32_t number)
{
	uint64_t size = 0;

	(void)read_answer(call, number, &size, sizeof(size));
	return size;
}

// ---- sizes -----------------------------------------------------------------------

// Returns the size of a struct iovec[], which the kernel will read as well. If it cannot be read,
// there is nothing to count.
static uint64_t vector_size(uint64_t at, uint64_t count)
{
	uint64_t words[32], left = count & UINT32_MAX, size = 0;
	uint32_t thread = (uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0);

	if (left > VECTOR_MAX)
		return 0;
	while (left) {
		uint64_t some = left < 16 ? left : 16;

		if (sosc_read(thread, words, at, some * 16) != some * 16)
			return 0;
		for (uint64_t i = 0; i < some; i++)
			size += words[2 * i + 1];
		at += some * 16;
		left -= some;
	}
	return size;
}

static uint64_t message_size(uint64_t at)
{
	uint64_t words[4]; // msg_name, msg_namelen, msg_iov, msg_iovlen

	if (sosc_read((uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0), words, at, sizeof(words)) !=
	    sizeof(words))
		return 0;
	return vector_size(words[2], words[3]);
}

static uint64_t requested(const struct sosc_tally_call *call,
			  const struct sosc_tally_function *function)
{
	uint64_t first = argument(call, function->first), product;

	switch ((enum sosc_tally_requested)function->requested) {
	case SOSC_ASKS_SIZE:
		return first;
	case SOSC_ASKS_INT:
		return (int32_t)first > 0 ? (uint64_t)(int32_t)first : 0;
	case SOSC_ASKS_PRODUCT:
		if (__builtin_mul_overflow(first, argument(call, function->second), &product))
			return 0; // overflow: the call will fail
		return product;
	case SOSC_ASKS_VECTOR:
		return vector_size(first, argument(call, function->second));
	case SOSC_ASKS_MESSAGE:
		return message_size(first);
	default:
		return 0;
	}
}

static uint64_t block_size(struct sosc_tally_count *to, const struct sosc_tally_call *call,
			   uint64_t block)
{
	bool is_known = sosc_tally_rules.usable &&
			(sosc_tally_rules.is_one_allocator ||
			 call->slot->original - sosc_tally_rules.allocator <
				 sosc_tally_rules.allocator_end - sosc_tally_rules.allocator);

	if (!block)
		return 0;
	if (is_known)
		return sosc_tally_rules.usable(block);
	add(&to->kinds[SOSC_TALLY_UNSIZED], 1);
	return 0;
}

static uint64_t actual(struct sosc_tally_count *to, const struct sosc_tally_call *call,
		       const struct sosc_tally_function *function)
{
	uint64_t result = call->result;

	switch ((enum sosc_tally_actual)function->actual) {
	case SOSC_GETS_RESULT:
		return (int64_t)result > 0 ? result : 0;
	case SOSC_GETS_INT:
		return (int32_t)result > 0 ? (uint64_t)(int32_t)result : 0;
	case SOSC_GETS_BLOCK:
		return block_size(to, call, result);
	case SOSC_GETS_BLOCK_AT:
		return (int32_t)result ? 0 : block_size(to, call, read_size(call, function->third));
	case SOSC_GIVES_BLOCK:
		return call->kept;
	case SOSC_GETS_SIZE_IF:
		result = (uint32_t)result; // fall through
	case SOSC_GETS_SIZE_AT:
		return result ? read_size(call, function->third) : 0;
	default:
		return 0;
	}
}

static enum sosc_tally_kind answer_of(uint32_t rc)
{
	switch (rc) {
	case RC_SUCCESS:
	case RC_STORED:
		return SOSC_TALLY_SUCCESS;
	case RC_EXISTS:
		return SOSC_TALLY_EXISTS;
	case RC_NOT_STORED:
		return SOSC_TALLY_NOT_STORED;
	case RC_NOT_FOUND:
		return SOSC_TALLY_NOT_FOUND;
	default:
		return SOSC_TALLY_FAILED;
	}
}

static void count_answer(struct sosc_tally_count *to, const struct sosc_tally_call *call,
			 const struct sosc_tally_function *function)
{
	uint32_t answer;

	if (function->flags & SOSC_TALLY_ANSWER)
		add(&to->kinds[answer_of((uint32_t)call->result)], 1);
	if (function->flags & SOSC_TALLY_ANSWER_AT &&
	    read_answer(call, function->fourth, &answer, sizeof(answer)))
		add(&to->kinds[answer_of(answer)], 1);
}

// ---- connections -----------------------------------------------------------------

static void set_fd(uint64_t fd, uint8_t group)
{
	if (fd < TALLY_FDS && sosc_tally_fds[fd] != group)
		__atomic_store_n(&sosc_tally_fds[fd], group, __ATOMIC_RELAXED);
}

static void count_wire(const struct sosc_tally_call *call, uint32_t flags, uint64_t bytes,
		       uint64_t took)
{
	uint64_t fd = (uint32_t)call->arguments[0];
	uint8_t state = fd < TALLY_FDS ? __atomic_load_n(&sosc_tally_fds[fd], __ATOMIC_RELAXED) : 0;
	struct sosc_tally_wire *wire = &sosc_tally_wires[state & (WENT_OUT - 1)];

	if (!state)
		return;
	add(&wire->ticks, took);
	if (flags & SOSC_TALLY_OUT) {
		add(&wire->sends, 1);
		add(&wire->sent, bytes);
		if (bytes)
			set_fd(fd, state | WENT_OUT);
		return;
	}
	add(&wire->receives, 1);
	add(&wire->received, bytes);
	if (bytes && state & WENT_OUT) {
		add(&wire->round_trips, 1);
		set_fd(fd, state & (WENT_OUT - 1));
	}
}

// ---- a call and its return -------------------------------------------------------

// Threads that have called vfork, 0 if there is none. The child of such a thread runs in its place
// and in its memory.
static uint64_t vforked[1 << VFORK_BITS];

static uint64_t *vforked_at(uint64_t thread)
{
	return &vforked[mixed(thread) >> (64 - VFORK_BITS)];
}

static bool is_childs(void)
{
	uint64_t thread = sosc_thread_pointer(), *place = vforked_at(thread);

	if (__atomic_load_n(place, __ATOMIC_RELAXED) != thread)
		return false;
	if ((uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0) != sosc_tally_rules.pid)
		return true;
	__atomic_store_n(place, 0, __ATOMIC_RELAXED);
	return false;
}

static void set_vforked(uint64_t thread)
{
	__atomic_store_n(vforked_at(thread), thread, __ATOMIC_RELAXED);
}

/** Handle a call. Return the address where it goes. */
uint64_t sosc_tally_entry(struct sosc_tally_call *call)
{
	const struct sosc_tally_function *function = function_of(call);
	struct sosc_tally_slot *slot = call->slot;
	struct sosc_tally_count *to = counter(slot->function);
	uint64_t target = __atomic_load_n(&slot->original, __ATOMIC_ACQUIRE);

	// a new session gives its trampoline this thunk as original
	if (slot->session_at &&
	    __atomic_load_n((uint64_t *)slot->session_at, __ATOMIC_ACQUIRE) != slot->session)
		target = slot->untraced;
	call->words = words_of(call, function->words);
	call->is_seen = !(function->flags & SOSC_TALLY_GOES_ON) && !is_childs();
	if (function->flags & SOSC_TALLY_VFORKS)
		set_vforked(sosc_thread_pointer());
	if (function->flags & SOSC_TALLY_COMES)
		sosc_tally_again();
	if (!call->is_seen)
		return target;
	add(&to->calls, 1);
	call->requested = requested(call, function);
	add(&to->requested, call->requested);
	if (function->requested == SOSC_ASKS_TEXT)
		count_text(to, call, function);
	else if (function->requested == SOSC_ASKS_STEP)
		count_step(to, call->arguments[0]);
	else if (function->requested == SOSC_ASKS_PREPARED)
		add(&to->kinds[SOSC_TALLY_PREPARED], 1);
	if (function->actual == SOSC_GIVES_BLOCK)
		call->kept = block_size(to, call, call->arguments[0]);
	if (function->flags & SOSC_TALLY_CONNECT)
		sosc_tally_peer((uint32_t)call->arguments[0], call->arguments[1],
				call->arguments[2]);
	else if (function->flags & SOSC_TALLY_ENDS)
		set_fd((uint32_t)call->arguments[0], 0);
	call->start = ticks();
	return target;
}

/** Handle the return of a call. */
void sosc_tally_exit(struct sosc_tally_call *call)
{
	uint64_t took = ticks() - call->start, bytes;
	const struct sosc_tally_function *function = function_of(call);
	struct sosc_tally_count *to = counter(call->slot->function);

	if (!sosc_tally_rules.has_no_clock)
		add(&to->ticks, took);
	bytes = actual(to, call, function);
	add(&to->actual, bytes);
	count_answer(to, call, function);
	if (function->flags & (SOSC_TALLY_IN | SOSC_TALLY_OUT))
		count_wire(call, function->flags, bytes, took);
	else if (function->flags & SOSC_TALLY_MAKES && (int32_t)call->result >= 0)
		set_fd((uint32_t)call->result, 0);
}
