// SPDX-License-Identifier: Apache-2.0
// Questions to soscope. When an image is loaded, soscope knows nothing of it before the agent has
// hooked it, and by then it is fixed what is kept of a call. So if a function is in no table, and
// debug information or a mangled name may tell its types, the thread that loads the image waits
// until soscope has looked. That happens once for an image, on the loading thread, before anything
// of the image runs. A thread that is about to execute another program waits, too, until soscope
// traces it, so that soscope can put the agent into that program.

#include "ring/asksoscope.h"
#include "base/clock.h"
#include "base/sys.h"
#include "image/debug.h"
#include "image/image.h"
#include "thread/thread.h"

bool sosc_may_ask;

enum {
	SLICE_NS = 10000000,
	// soscope counts as gone after this time without a heartbeat, as in ring.c
	GONE_NS = 1000000000,
};

static const uint64_t PATIENCE_NS = 3000000000;

struct waiting { // a wait for soscope
	uint64_t heartbeat; // the heartbeat when it was last read
	uint64_t still; // ns since the heartbeat moved
	uint64_t waited; // ns in all
};

// Waits for an answer, for at most one slice. Returns false if it is no use to wait any longer.
static bool wait_on(struct waiting *waiting, uint32_t answers, uint32_t process)
{
	struct sosc_control *control = sosc_control;
	uint64_t heartbeat = __atomic_load_n(&control->heartbeat, __ATOMIC_ACQUIRE), took;

	if (__atomic_load_n(&control->reader_gone, __ATOMIC_RELAXED) == heartbeat + 1)
		return false;
	if (heartbeat != waiting->heartbeat) {
		waiting->heartbeat = heartbeat;
		waiting->still = 0;
	} else if (waiting->still > GONE_NS) {
		__atomic_store_n(&control->reader_gone, heartbeat + 1, __ATOMIC_RELAXED);
		return false;
	}
	if (waiting->waited > PATIENCE_NS || control->command == SOSC_COMMAND_STOP)
		return false;
	took = sosc_wait(&control->answers, answers, SLICE_NS);
	waiting->still += took;
	waiting->waited += took;
	return sosc_process() == process;
}

static bool put(uint64_t question, struct waiting *waiting, uint32_t process)
{
	for (;;) {
		uint32_t answers = __atomic_load_n(&sosc_control->answers, __ATOMIC_ACQUIRE);
		uint64_t none = 0; // another process may be asking

		if (__atomic_compare_exchange_n(&sosc_control->question, &none, question, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return true;
		if (!wait_on(waiting, answers, process))
			return false;
	}
}

static bool is_answered(uint64_t question, struct waiting *waiting, uint32_t process)
{
	for (;;) {
		uint32_t answers = __atomic_load_n(&sosc_control->answers, __ATOMIC_ACQUIRE);
		uint64_t now = __atomic_load_n(&sosc_control->question, __ATOMIC_ACQUIRE);

		if (now != question)
			return true;
		if (wait_on(waiting, answers, process))
			continue;
		// a signal handler has forked: the question is the parent's
		if (sosc_process() != process)
			return false;
		return !__atomic_compare_exchange_n(&sosc_control->question, &now, 0, false,
						    __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	}
}

// Returns whether soscope may find out more than it knows.
static bool is_worth_while(struct sosc_loaded *caller, struct sosc_loaded *callee,
			   const char *symbol, bool was_asked)
{
	if (!was_asked && symbol[0] == '_' && symbol[1] == 'Z')
		return true;
	return sosc_may_be_described(caller) ||
	       (!was_asked && callee && sosc_may_be_described(callee));
}

/**
 * Let soscope look for the types of the functions that @caller calls. The reason is @symbol, a
 * function of @callee (NULL = unknown image) that is in no table. @was_asked: soscope knows already
 * that the name itself tells nothing. Return whether soscope has looked: then the tables may
 * contain the function.
 */
bool sosc_ask(struct sosc_loaded *caller, struct sosc_loaded *callee, const char *symbol,
	      bool was_asked)
{
	struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);
	uint32_t process = sosc_process();
	struct waiting waiting = {.heartbeat = sosc_control->heartbeat};
	uint64_t question;
	bool answered;

	if (caller->asked || caller->index == SOSC_NONE ||
	    images[caller->index].flags & (SOSC_IMAGE_STARTUP | SOSC_IMAGE_ASKED) ||
	    sosc_is_sealed(NULL) || !is_worth_while(caller, callee, symbol, was_asked))
		return false;
	caller->asked = true;
	question = (uint64_t)sosc_sys3(SYS_GETPID, 0, 0, 0) << 32 | (caller->index + 1);
	answered = sosc_may_ask && put(question, &waiting, process) &&
		   is_answered(question, &waiting, process);
	if (sosc_process() != process)
		return false;
	if (!answered)
		__atomic_fetch_add(&sosc_control->unanswered, 1, __ATOMIC_RELAXED);
	images[caller->index].flags |= SOSC_IMAGE_ASKED;
	return answered;
}

/**
 * The process of @thread (NULL: a thread without a place) is about to execute another program.
 * @name is the address of the program's path or name, 0 if the call gives neither.
 */
void sosc_tell_exec(const struct sosc_thread *thread, uint64_t name)
{
	uint32_t process = sosc_process();
	struct waiting waiting = {.heartbeat = sosc_control->heartbeat};
	uint64_t question;

	if (sosc_is_quiet() || sosc_is_sealed(thread) || sosc_is_borrower())
		return;
	question = (uint64_t)sosc_sys3(SYS_GETPID, 0, 0, 0) << 32 | SOSC_QUESTION_EXEC;
	__atomic_store_n(&sosc_control->executes, name, __ATOMIC_RELAXED);
	if (put(question, &waiting, process))
		(void)is_answered(question, &waiting, process);
	if (sosc_process() == process)
		__atomic_fetch_add(&sosc_control->waited_exec, waiting.waited, __ATOMIC_RELAXED);
}
