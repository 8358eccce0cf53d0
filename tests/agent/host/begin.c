// SPDX-License-Identifier: Apache-2.0
// begin HOW MODE [STRIDE FIRST]: a thread's first record, or, as HOW says, the first one where another thread
// has been ("renamed"), interrupted at each instruction in turn (by the processor's trap flag) by
// a "signal handler" that makes records, too, or forks; a forked child goes on from there.
// MODE is that of the session: 1 counts, 3 records. With STRIDE only each so many-th instruction
// is one where it is interrupted, from the FIRST on.
#include "host.h"

#include "call/cell.h"
#include "thread/counts.h"
#include "call/handler.h"
#include "thread/thread.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { CELL = 5, TRAP_FLAG = 0x100, NESTED = 20, CHUNKS = 64, OTHER = 999999, MOST = 20000 };

static struct {
	uint64_t made, array; // by everybody; the array of a forked child
} *shared;
static uint32_t steps, stop; // instructions so far, and where the "signal" comes
static bool forks, is_child, counts;

static uint64_t thread_pointer(void)
{
	return (uint64_t)__builtin_thread_pointer();
}

// As the assembly finds a thread.
static struct sosc_thread *found(void)
{
	uint32_t at = (uint32_t)(thread_pointer() >> 12) * THREAD_FACTOR >> (32 - THREAD_BITS);
	struct sosc_thread *thread = &sosc_threads[at];

	if (thread->key == thread_pointer() &&
	    (counts || thread->tid_check == *(uint32_t *)(thread->key + (uint64_t)sosc_tid_offset)))
		return thread;
	return sosc_thread_slow(&sosc_cells[CELL]);
}

static void record(void)
{
	struct sosc_thread *thread = found();
	uint64_t pos = SOSC_UNIT;
	struct sosc_entry *unit;

	shared->made++;
	if (counts) {
		sosc_count_slow(&sosc_cells[CELL]);
		return;
	}
	CHECK(thread);
	__asm__ volatile("xaddq %0, %1" : "+r"(pos), "+m"(thread->pos) : : "memory");
	if (((pos - SOSC_CHUNK_HEADER) & CHUNK_MASK) >= CHUNK_LIMIT - SOSC_CHUNK_HEADER)
		pos = sosc_ring_slow_entry(&sosc_cells[CELL], thread, SOSC_UNIT);
	CHECK(pos);
	unit = (void *)pos;
	unit->return_addr = (uint64_t)getpid();
	__atomic_store_n(&unit->commit, (uint32_t)SOSC_UNIT_ENTRY << 28 | CELL, __ATOMIC_RELEASE);
}

static void interrupt(void)
{
	int status;
	pid_t pid;

	for (int i = 0; !forks && i < NESTED; i++)
		record();
	if (!forks)
		return;
	pid = (pid_t)syscall(SYS_fork);
	CHECK(pid >= 0);
	is_child = !pid;
	if (pid)
		CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	else if (stop % 2) // half of them make some at once
		for (int i = 0; i < NESTED; i++)
			record();
}

static void trapped(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)number;
	(void)info;
	if (steps++ < stop)
		return;
	registers[REG_EFL] &= ~TRAP_FLAG;
	interrupt();
}

static void set_trap_flag(uint64_t flag)
{
	__asm__ volatile("pushf\n\tandq $-0x101, (%%rsp)\n\torq %0, (%%rsp)\n\tpopf"
			 :
			 : "r"(flag)
			 : "memory", "cc");
}

static uint32_t *state_at(uint32_t index)
{
	return (uint32_t *)sosc_section(SOSC_SEC_CHUNK_STATES) + index;
}

static struct sosc_chunk *chunk_at(uint32_t index)
{
	return (void *)((uint8_t *)sosc_section(SOSC_SEC_RING) + (uint64_t)index * SOSC_CHUNK_SIZE);
}

static uint32_t count_states(enum sosc_chunk_state state, uint32_t pid)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < CHUNKS; i++)
		count += (*state_at(i) & SOSC_CHUNK_STATE) == state && chunk_at(i)->seq &&
			 (!pid || chunk_at(i)->pid == pid);
	return count;
}

static uint64_t in_ring(void)
{
	uint64_t units = 0;

	for (uint32_t i = 0; i < CHUNKS; i++)
		for (uint32_t at = SOSC_CHUNK_HEADER; at < SOSC_CHUNK_SIZE; at += SOSC_UNIT) {
			const struct sosc_entry *unit = (void *)((uint8_t *)chunk_at(i) + at);

			if (!chunk_at(i)->seq || unit->commit >> 28 != SOSC_UNIT_ENTRY)
				continue;
			units++;
			CHECK(chunk_at(i)->pid == unit->return_addr);
		}
	return units;
}

static uint64_t counted(void)
{
	const uint64_t *cells = sosc_section(SOSC_SEC_COUNTS);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < HOST_ARRAYS; i++)
		sum += cells[(uint64_t)i * SOSC_MAX_SLOTS + CELL];
	return sum;
}

static void begin_anew(bool renamed)
{
	struct sosc_thread *own = found();
	uint64_t key = own->key;

	for (uint32_t i = 0; !counts && i < CHUNKS; i++) {
		if (chunk_at(i)->tsc)
			memset(chunk_at(i), 0, SOSC_CHUNK_SIZE);
		*state_at(i) = SOSC_CHUNK_FREE;
	}
	for (uint32_t i = 0; counts && i < HOST_ARRAYS; i++)
		((uint64_t *)sosc_section(SOSC_SEC_COUNTS))[(uint64_t)i * SOSC_MAX_SLOTS + CELL] =
			0;
	memset(own, 0, sizeof(*own));
	memset(sosc_owners, 0, sizeof(*sosc_owners));
	sosc_control->counts_used = 0;
	shared->made = shared->array = 0;
	steps = 0;
	if (!renamed)
		return;
	// another thread has left it so
	record();
	own->tid_check = own->tid = OTHER;
	chunk_at(own->chunk - 1)->tid = OTHER;
	CHECK(own->key == key && count_states(SOSC_CHUNK_OWNED, 0) == 1);
}

int main(int argc, char **argv)
{
	static const struct sosc_function plain;
	struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};
	bool renamed = argc > 1 && strstr(argv[1], "renamed");
	uint32_t stride = argc > 4 ? (uint32_t)atoi(argv[3]) : 1;

	CHECK((argc == 3 || argc == 5) && sigaction(SIGTRAP, &action, NULL) == 0);
	forks = strstr(argv[1], "fork");
	counts = atoi(argv[2]) == SOSC_INSTRUMENT_COUNT;
	host_control((enum sosc_instrument_kind)atoi(argv[2]), CHUNKS);
	sosc_control->when_full = SOSC_FULL_DROP;
	host_plan->flags = sosc_control->flags = SOSC_FLAG_FOLLOW;
	host_look();
	host_cell(CELL, &plain);
	shared = mmap(NULL, SOSC_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED && sosc_tid_offset);
	for (stop = argc > 4 ? (uint32_t)atoi(argv[4]) : 0; stop < MOST; stop += stride) {
		uint64_t made;

		begin_anew(renamed);
		set_trap_flag(TRAP_FLAG);
		record();
		set_trap_flag(0);
		for (int i = 0; i < 3; i++)
			record();
		if (is_child) {
			shared->array = sosc_thread_self()->counts;
			_exit(counts || count_states(SOSC_CHUNK_OWNED, (uint32_t)getpid()) == 1 ?
				      0 :
				      1);
		}
		if (counts) {
			made = counted();
			CHECK(sosc_thread_self()->counts != shared->array);
		} else {
			// what is not given back is in use: one by us, one by a child that has ended
			CHECK(count_states(SOSC_CHUNK_OWNED, (uint32_t)getpid()) == 1);
			CHECK(count_states(SOSC_CHUNK_OWNED, OTHER) == 0);
			CHECK(count_states(SOSC_CHUNK_OWNED, 0) <= 1u + forks);
			made = in_ring();
		}
		// what was begun before a fork is made by both
		CHECK(made >= shared->made && made <= shared->made + forks);
		if (steps <= stop) // it has come to its end
			break;
	}
	CHECK(stop > 50 && stop < MOST);
	printf("%u instructions\n", stop);
	return 0;
}
