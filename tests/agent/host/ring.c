// SPDX-License-Identifier: Apache-2.0
// ring step POLICY NESTED: a record whose chunk is full, interrupted by a "signal handler" that
// makes NESTED records, at each instruction in turn (by the processor's trap flag).
// ring fork: the same with a handler that forks; the child goes on from there and makes records
// of its own, and what it gives back is read before its parent goes on.
// ring threads POLICY: threads that signals interrupt all the time, and a reader.
// ring woken: a thread that waits and gets signals.
// ring ends: a ring that stops, and a reader that is gone.
// Every record must be in the ring or counted as lost; no chunk may lose its owner.
#include "host.h"

#include "call/cell.h"
#include "base/clock.h"
#include "call/handler.h"
#include "ring/ring.h"
#include "base/sys.h"
#include "thread/thread.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { CELL = 5, THREADS = 3, RECORDS = 600000, IDS = 1 << 24, GONE = 300 };

static uint64_t *attempts; // by everybody, forked children, too
static uint64_t drained; // whole entries that the reader has seen
static uint8_t *seen; // by id
static uint64_t shared = IDS; // the record in which a process has forked: made by both

static uint32_t *states(void)
{
	return sosc_section(SOSC_SEC_CHUNK_STATES);
}

static enum sosc_chunk_state state_of(uint32_t index)
{
	return __atomic_load_n(&states()[index], __ATOMIC_ACQUIRE) & SOSC_CHUNK_STATE;
}

// As the reader does: the low byte.
static void set_state(uint32_t index, enum sosc_chunk_state state)
{
	__atomic_store_n((uint8_t *)&states()[index], (uint8_t)state, __ATOMIC_RELEASE);
}

static struct sosc_chunk *chunk_at(uint32_t index)
{
	return (void *)((uint8_t *)sosc_section(SOSC_SEC_RING) + (uint64_t)index * SOSC_CHUNK_SIZE);
}

// The short way of sosc_h_entry, and its slow one.
__attribute__((no_sanitize("address", "undefined"))) static void record(struct sosc_thread *thread)
{
	uint64_t id = __atomic_fetch_add(attempts, 1, __ATOMIC_RELAXED), pos = SOSC_UNIT;
	struct sosc_entry *unit;

	__asm__ volatile("xaddq %0, %1" : "+r"(pos), "+m"(thread->pos) : : "memory");
	if (((pos - SOSC_CHUNK_HEADER) & CHUNK_MASK) >= CHUNK_LIMIT - SOSC_CHUNK_HEADER)
		pos = sosc_ring_slow_entry(&sosc_cells[CELL], thread, SOSC_UNIT);
	unit = (void *)pos;
	if (!unit)
		return;
	unit->arg0 = id;
	unit->return_addr = ~id;
	unit->tsc = 1;
	__atomic_store_n(&unit->commit, (uint32_t)SOSC_UNIT_ENTRY << 28 | CELL, __ATOMIC_RELEASE);
}

// Looks at a chunk; false: it has a unit that is still being written.
static bool look(uint32_t index, bool count)
{
	struct sosc_chunk *chunk = chunk_at(index);
	struct sosc_entry *unit = (void *)((uint8_t *)chunk + SOSC_CHUNK_HEADER);
	struct sosc_entry *end = (void *)((uint8_t *)chunk + SOSC_CHUNK_SIZE), *last = unit;

	for (struct sosc_entry *at = unit; at < end; at++)
		if (__atomic_load_n(&at->commit, __ATOMIC_ACQUIRE))
			last = at + 1;
	for (struct sosc_entry *at = unit; at < last; at++)
		if (!at->commit)
			return false;
	for (; count && unit < last; unit++) {
		uint32_t type = unit->commit >> 28;

		if (type == SOSC_UNIT_OVERHEAD)
			continue;
		CHECK(unit->commit == (SOSC_UNIT_ENTRY << 28 | CELL));
		CHECK(unit->arg0 == ~unit->return_addr && unit->arg0 < *attempts);
		CHECK(unit->arg0 < IDS && seen[unit->arg0] < (unit->arg0 == shared ? 2 : 1));
		drained += !seen[unit->arg0]++;
	}
	return true;
}

static void drain(void)
{
	struct sosc_control *control = sosc_control;

	control->heartbeat++;
	for (uint32_t i = 0; i < host_plan->chunks; i++) {
		if (state_of(i) != SOSC_CHUNK_FULL || !look(i, false))
			continue;
		CHECK(chunk_at(i)->seq && chunk_at(i)->tid);
		look(i, true);
		memset(chunk_at(i), 0, SOSC_CHUNK_SIZE);
		set_state(i, SOSC_CHUNK_FREE);
		__atomic_fetch_add(&control->ring_drained, 1, __ATOMIC_RELEASE);
	}
}

static uint64_t lost(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < SOSC_DROP_KINDS; i++)
		sum += sosc_control->dropped[i];
	return sum;
}

// Everything is quiet: what is in the ring, the chunks in use as well?
static void settle(void)
{
	for (uint32_t i = 0; i < host_plan->chunks; i++)
		if (state_of(i) == SOSC_CHUNK_OWNED)
			CHECK(look(i, true));
	drain();
	for (uint32_t i = 0; i < host_plan->chunks; i++)
		CHECK(state_of(i) != SOSC_CHUNK_FULL);
	if (drained + lost() < *attempts || drained + lost() > *attempts + 1)
		printf("%lu in the ring, %lu lost, %lu made\n", drained, lost(), *attempts);
	CHECK(drained + lost() == *attempts ||
	      (shared < IDS && drained + lost() == *attempts + 1)); // lost by one of the two
}

static void start(uint32_t policy, uint32_t chunks)
{
	static const struct sosc_function plain;

	host_control(SOSC_INSTRUMENT_TRACE, chunks);
	sosc_ring_again();
	sosc_control->when_full = policy;
	host_cell(CELL, &plain);
	seen = calloc(IDS, 1);
	attempts = mmap(NULL, sizeof(*attempts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	CHECK(seen && attempts != MAP_FAILED);
}

// ---- at each instruction -----------------------------------------------------

enum { PLACES = 8192, TRAP_FLAG = 0x100, LEFT = 16 };

static uint64_t places[PLACES]; // addresses of instructions, in order of their first run
static uint32_t place_count;
static uint64_t stop_at; // where an int3 stands, 0 = nowhere
static uint8_t stop_byte;
static uint32_t nested;
static bool is_child, forks; // the "signal handler" forks instead
static struct sosc_thread *own;

static void write_text(uint64_t addr, uint8_t byte)
{
	int memory = open("/proc/self/mem", O_RDWR);

	CHECK(memory >= 0 && pwrite(memory, &byte, 1, (off_t)addr) == 1);
	close(memory);
}

// What the reader does when a process has ended: its chunks are full, however full.
static void process_ended(uint32_t pid)
{
	for (uint32_t i = 0; i < host_plan->chunks; i++)
		if (state_of(i) == SOSC_CHUNK_OWNED && chunk_at(i)->seq && chunk_at(i)->pid == pid)
			set_state(i, SOSC_CHUNK_FULL);
	drain();
}

// The child comes back from the handler, too, makes its records and ends.
static void fork_here(void)
{
	pid_t pid;
	int status;

	shared = *attempts - 1;
	pid = (pid_t)syscall(SYS_fork);
	CHECK(pid >= 0);
	is_child = !pid;
	if (is_child)
		return;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	process_ended((uint32_t)pid);
}

static void end_child(void)
{
	for (int more = 0; more < 1100; more++)
		record(sosc_thread_self());
	_exit(0);
}

// Either one step further, or at the place of the "signal".
static void trapped(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t at = (uint64_t)registers[REG_RIP];

	(void)number;
	(void)info;
	if (stop_at) {
		CHECK(at == stop_at + 1);
		write_text(stop_at, stop_byte);
		registers[REG_RIP]--;
		stop_at = 0;
		for (uint32_t i = 0; i < nested; i++)
			record(own);
		if (forks)
			fork_here();
		return;
	}
	for (uint32_t i = place_count; i-- > 0;)
		if (places[i] == at)
			return;
	CHECK(place_count < PLACES);
	places[place_count++] = at;
}

static void set_trap_flag(uint64_t flag)
{
	__asm__ volatile("pushf\n\tandq $-0x101, (%%rsp)\n\torq %0, (%%rsp)\n\tpopf"
			 :
			 : "r"(flag)
			 : "memory", "cc");
}

// Chunks in use, with a number; or those that were taken and never got one.
static int owned(bool numbered)
{
	int count = 0;

	for (uint32_t i = 0; i < host_plan->chunks; i++)
		count += state_of(i) == SOSC_CHUNK_OWNED && !chunk_at(i)->seq != numbered;
	return count;
}

static void begin_anew(uint32_t free_chunks)
{
	for (uint32_t i = 0; i < host_plan->chunks; i++) {
		memset(chunk_at(i), 0, SOSC_CHUNK_SIZE);
		set_state(i, i < free_chunks ? SOSC_CHUNK_FREE : SOSC_CHUNK_FULL);
		if (i >= free_chunks) // somebody else's, older
			chunk_at(i)->seq = i, chunk_at(i)->tid = 1;
	}
	sosc_control->ring_drained++;
	memset(sosc_control->dropped, 0, sizeof(sosc_control->dropped));
	memset(seen, 0, *attempts);
	*attempts = drained = 0;
	own->chunk = SOSC_NONE;
	own->pos = SOSC_NO_ROOM;
	memset(own->held, 0, sizeof(own->held));
	sosc_control->ring_seq = 100;
}

// Until the chunk is full to the last unit.
static void fill(void)
{
	do
		record(own);
	while (own->chunk != SOSC_NONE && (own->pos & CHUNK_MASK) != CHUNK_LIMIT);
}

static void step(uint32_t policy, uint32_t free_chunks)
{
	int left = 0;
	struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO};

	CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
	own = sosc_thread_self();
	CHECK(own);
	begin_anew(free_chunks);
	sosc_control->when_full = policy;
	fill();
	place_count = 0;
	set_trap_flag(TRAP_FLAG);
	record(own);
	set_trap_flag(0);
	CHECK(place_count > 50);
	// the last ones are not record's own any more
	for (uint32_t i = 0; i + 8 < place_count; i++) {
		begin_anew(free_chunks);
		fill();
		memcpy(&stop_byte, (void *)places[i], 1);
		stop_at = places[i];
		write_text(places[i], 0xcc);
		record(own);
		if (is_child)
			end_child();
		if (stop_at) { // another way this time
			write_text(stop_at, stop_byte);
			stop_at = 0;
		}
		CHECK(own->chunk == SOSC_NONE || state_of(own->chunk - 1) == SOSC_CHUNK_OWNED);
		for (int more = 0; more < 1100; more++)
			record(own);
		// all units are written by now: no chunk is kept for one
		CHECK(owned(true) == (own->chunk != SOSC_NONE));
		left += owned(false);
		settle();
	}
	// by a child that was forked between its parent's last look and the taking
	CHECK(left <= forks * LEFT);
	printf("%u instructions, %d chunks left\n", place_count, left);
}

// ---- threads -----------------------------------------------------------------

static volatile int running;
static pthread_t workers[THREADS];

static void interrupted(int number)
{
	struct sosc_thread *thread = sosc_thread_self();

	(void)number;
	for (int i = 0; thread && i < 3; i++)
		record(thread);
}

static void *works(void *unused)
{
	struct sosc_thread *thread = sosc_thread_self();

	CHECK(thread && thread->tid);
	for (int i = 0; i < RECORDS; i++)
		record(thread);
	__atomic_fetch_sub(&running, 1, __ATOMIC_SEQ_CST);
	while (running > -1) // may still be interrupted
		usleep(1000);
	return unused;
}

static int64_t longest; // between two heartbeats, in milliseconds

static void *reads(void *unused)
{
	struct timespec before, now;

	clock_gettime(CLOCK_MONOTONIC, &before);
	while (running > -1) {
		drain();
		usleep(50);
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((now.tv_sec - before.tv_sec) * 1000 + (now.tv_nsec - before.tv_nsec) / 1000000 >
		    longest)
			longest = (now.tv_sec - before.tv_sec) * 1000 +
				  (now.tv_nsec - before.tv_nsec) / 1000000;
		before = now;
	}
	return unused;
}

static void with_threads(void)
{
	pthread_t reader;

	signal(SIGUSR1, interrupted);
	running = THREADS;
	CHECK(pthread_create(&reader, NULL, reads, NULL) == 0);
	while (!__atomic_load_n(&sosc_control->heartbeat, __ATOMIC_RELAXED))
		usleep(100); // or it may begin a second after those who wait for it
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&workers[i], NULL, works, NULL) == 0);
	for (uint32_t i = 0; running > 0; i++) {
		pthread_kill(workers[i % THREADS], SIGUSR1);
		usleep(20);
	}
	usleep(20000);
	running = -1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i], NULL);
	pthread_join(reader, NULL);
	settle();
	printf("%lu made, %lu lost, %ld ms\n", *attempts, lost(), longest);
}

// The reader is late, but not gone; each signal ends a wait.
static volatile sig_atomic_t handled;

static void nothing(int number)
{
	(void)number;
	handled++;
}

// Signals for most of a second without a heartbeat; whether they were so many that their
// waits would be more than a second, if each were taken for 5 ms.
static bool disturb(pthread_t waiting)
{
	struct timespec begin, now;

	sosc_control->heartbeat++;
	usleep(20000); // which it sees, and begins to count anew
	handled = 0;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		pthread_kill(waiting, SIGUSR1);
		usleep(20);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 <
		 600);
	return handled > 240;
}

static pid_t waiting_tid;

static void *records_one(void *unused)
{
	__atomic_store_n(&waiting_tid, gettid(), __ATOMIC_SEQ_CST);
	record(sosc_thread_self());
	return unused;
}

static void woken(void)
{
	pthread_t waiting;
	struct sched_param first = {.sched_priority = 1};

	// Others on the processors would decide how many signals there are in that time. Where
	// this is forbidden, tries have to do.
	sched_setscheduler(0, SCHED_FIFO, &first);
	signal(SIGUSR1, nothing);
	for (uint32_t i = 0; i < host_plan->chunks; i++) // somebody else's
		set_state(i, SOSC_CHUNK_FULL), chunk_at(i)->seq = i + 1, chunk_at(i)->tid = 1;
	CHECK(pthread_create(&waiting, NULL, records_one, NULL) == 0);
	for (int i = 0; !disturb(waiting); i++) // where others work, too, it may need some tries
		CHECK(i < 30);
	CHECK(!lost() && sosc_control->when_full == SOSC_FULL_BLOCK);
	drain();
	pthread_join(waiting, NULL);
	settle();
	CHECK(drained == 1 && !lost());
}

// ---- the end -----------------------------------------------------------------

static void stops(void)
{
	struct sosc_thread *thread;
	uint64_t in_ring;

	start(SOSC_FULL_STOP, 3);
	thread = sosc_thread_self();
	while (!sosc_quiet)
		record(thread);
	in_ring = *attempts - 1;
	CHECK(sosc_control->state == SOSC_STATE_STOPPED);
	CHECK(sosc_control->command == SOSC_COMMAND_STOP);
	CHECK(sosc_cells[CELL].handler == (uint64_t)sosc_h_jump); // costs nothing any more
	CHECK(!sosc_thread_self());
	*attempts = in_ring;
	CHECK(lost() == 1); // the one that found it full
	settle();
	CHECK(drained == 3 * (CHUNK_LIMIT - SOSC_CHUNK_HEADER) / SOSC_UNIT - 3); // 3 overheads
}

// The reader was stopped, and goes on: then there is somebody to wait for.
static void reader_back(void)
{
	pthread_t waiting;

	sosc_control->heartbeat++;
	CHECK(pthread_create(&waiting, NULL, records_one, NULL) == 0);
	for (int i = 0; !__atomic_load_n(&sosc_control->ring_waiters, __ATOMIC_ACQUIRE); i++) {
		CHECK(i < 30000); // it has dropped its record instead
		usleep(1000);
	}
	drain();
	pthread_join(waiting, NULL);
	CHECK(lost() == 1 + GONE);
}

// A session of two chunks begins, and this thread fills both of them.
static struct sosc_thread *fill_two(void)
{
	const uint64_t room = 2 * (CHUNK_LIMIT - SOSC_CHUNK_HEADER) / SOSC_UNIT - 2;
	struct sosc_thread *thread;

	sosc_quiet = false;
	drained = 0;
	start(SOSC_FULL_BLOCK, 2);
	thread = sosc_thread_self();
	while (*attempts < room)
		record(thread);
	return thread;
}

static void reader_gone(void)
{
	struct sosc_thread *thread;
	struct timespec before, after;

	thread = fill_two();
	CHECK(!lost());
	clock_gettime(CLOCK_MONOTONIC, &before);
	record(thread);
	clock_gettime(CLOCK_MONOTONIC, &after);
	CHECK(after.tv_sec - before.tv_sec >= 1 && after.tv_sec - before.tv_sec < 6);
	CHECK(sosc_control->when_full == SOSC_FULL_BLOCK);
	CHECK(sosc_control->dropped[SOSC_DROP_READER_GONE] == 1);
	for (int i = 0; i < GONE; i++) // a second for each would be minutes
		record(thread);
	CHECK(sosc_control->dropped[SOSC_DROP_READER_GONE] == 1 + GONE && lost() == 1 + GONE);
	reader_back();
	settle();
	record(thread); // there is room
	CHECK(lost() == 1 + GONE);
}

static uint64_t drained_at;

// Frees chunks when somebody waits, and wakes nobody: as a thread that gets no processor, the one that
// waits goes on only when its time is over.
static void *frees_late(void *unused)
{
	while (!__atomic_load_n(&sosc_control->ring_waiters, __ATOMIC_SEQ_CST))
		sched_yield();
	sosc_control->drained_ns = sosc_clock_ns(CLOCK_MONOTONIC_RAW);
	drain();
	drained_at = sosc_clock_ns(CLOCK_MONOTONIC_RAW);
	return unused;
}

// What a thread waits for a processor, when there is a chunk for it, is no wait for a chunk.
static void late(void)
{
	struct sosc_thread *thread;
	pthread_t reader;
	uint64_t before;

	thread = fill_two();
	sosc_control->waited_room = 0;
	before = sosc_clock_ns(CLOCK_MONOTONIC_RAW);
	CHECK(pthread_create(&reader, NULL, frees_late, NULL) == 0);
	record(thread);
	pthread_join(reader, NULL);
	CHECK(!lost());
	CHECK(sosc_control->waited_room > 0);
	CHECK(sosc_control->waited_room <= drained_at - before);
	sosc_control->drained_ns = 0;
	settle();
}

static bool sleeps(pid_t tid)
{
	char path[64], text[512];
	size_t got;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "r");
	CHECK(file);
	got = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[got] = 0;
	return strstr(text, ") S ") != NULL;
}

// soscope frees a chunk, and another thread takes it. The one that goes on to sleep has waited for
// all of its sleep.
static void in_vain(void)
{
	pthread_t waiting;

	(void)fill_two();
	sosc_control->waited_room = 0;
	waiting_tid = 0;
	CHECK(pthread_create(&waiting, NULL, records_one, NULL) == 0);
	while (!__atomic_load_n(&sosc_control->ring_waiters, __ATOMIC_SEQ_CST) ||
	       !sleeps(__atomic_load_n(&waiting_tid, __ATOMIC_SEQ_CST)))
		sched_yield();
	sosc_control->drained_ns = sosc_clock_ns(CLOCK_MONOTONIC_RAW);
	__atomic_fetch_add(&sosc_control->ring_drained, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&sosc_control->waited_room, __ATOMIC_SEQ_CST))
		sched_yield();
	CHECK(sosc_control->waited_room >= 50000000); // of WAIT_NS
	sosc_control->drained_ns = sosc_clock_ns(CLOCK_MONOTONIC_RAW);
	drain();
	pthread_join(waiting, NULL);
	CHECK(!lost());
	sosc_control->drained_ns = 0;
	settle();
}

// Chunks are not looked through again before soscope says that it has freed some.
static void looks_once(void)
{
	struct sosc_thread *thread;
	uint64_t before;

	sosc_quiet = false;
	start(SOSC_FULL_DROP, 2);
	thread = sosc_thread_self();
	while (!lost())
		record(thread);
	before = lost();
	set_state(0, SOSC_CHUNK_FREE);
	record(thread);
	CHECK(lost() == before + 1);
	sosc_control->ring_drained++;
	record(thread);
	CHECK(lost() == before + 1);
}

int main(int argc, char **argv)
{
	CHECK(argc > 1);
	if (!strcmp(argv[1], "ends")) {
		looks_once();
		stops();
		late();
		in_vain();
		reader_gone();
		return 0;
	}
	if (!strcmp(argv[1], "threads")) {
		start((uint32_t)atoi(argv[2]), 8);
		with_threads();
		return 0;
	}
	if (!strcmp(argv[1], "woken")) {
		start(SOSC_FULL_BLOCK, 4);
		woken();
		return 0;
	}
	forks = !strcmp(argv[1], "fork");
	nested = forks ? 0 : (uint32_t)atoi(argv[3]);
	start((uint32_t)atoi(argv[2]), 4);
	host_plan->flags = sosc_control->flags = SOSC_FLAG_FOLLOW;
	host_look();
	for (uint32_t free_chunks = 1; free_chunks <= 4; free_chunks++)
		step((uint32_t)atoi(argv[2]), free_chunks);
	return 0;
}
