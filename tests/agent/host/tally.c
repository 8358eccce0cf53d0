// SPDX-License-Identifier: Apache-2.0
// tally: calls that a program counts itself, beside plain counters; with arguments that lead nowhere,
// stacks that end, threads, children of fork and of vfork. No image is there, so no slot is hooked.
#include "host.h"

#include "tally/tally.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, TURNS = 20000, CONNECTED = 7, VFORKS = 8 };

static struct sosc_tally_count counts[TALLY_FUNCTIONS_MAX];
static struct sosc_tally_wire wires[SOSC_TALLY_GROUPS];
static uint32_t function_count, iterations;
static int is_held, may_go_on;

// ---- the program -------------------------------------------------------------------

// The loader says that an image has come each time, and has one thread wait here when it is to.
static int iterate(int (*callback)(struct dl_phdr_info *, size_t, void *), void *data)
{
	struct dl_phdr_info info = {.dlpi_adds = ++iterations};

	if (is_held) {
		__atomic_store_n(&is_held, 2, __ATOMIC_RELEASE);
		while (!__atomic_load_n(&may_go_on, __ATOMIC_ACQUIRE))
			usleep(200);
	}
	return callback(&info, sizeof(info), data);
}

static void order(enum sosc_tally_order what)
{
	struct sosc_tally tally = {
		.size = sizeof(tally),
		.order = what,
		.tables = SOSC_TABLES,
		.iterate = (uint64_t)iterate,
		.counts = (uint64_t)counts,
		.wires = (uint64_t)wires,
		.count_room = TALLY_FUNCTIONS_MAX,
	};

	CHECK(!soscope_agent_tally(&tally));
	function_count = tally.function_count;
}

static const struct sosc_tally_function *function_at(uint32_t number)
{
	return &sosc_tally_functions(&function_count)[number];
}

static uint32_t number_of(const char *name)
{
	uint32_t number = sosc_tally_function(name);

	CHECK(number != SOSC_NONE);
	return number;
}

// A call and its return; whether that was seen.
static bool call(uint32_t function, const uint64_t arguments[6], uint64_t result)
{
	struct sosc_tally_slot slot = {.function = function, .original = 7};
	uint64_t stack[16] = {0};
	struct sosc_tally_call made = {.slot = &slot, .stack = stack};

	memcpy(made.arguments, arguments, sizeof(made.arguments));
	CHECK(sosc_tally_entry(&made) == 7);
	CHECK(made.words == function_at(function)->words);
	made.result = result;
	if (made.is_seen)
		sosc_tally_exit(&made);
	return made.is_seen;
}

static const struct sosc_tally_count *count_of(const char *name)
{
	order(SOSC_TALLY_LOOK);
	return &counts[number_of(name)];
}

// ---- arguments ---------------------------------------------------------------------

static uint32_t asked;

static int is_busy(void *statement)
{
	asked += statement != NULL;
	return 0;
}

static const char *no_text(void *statement)
{
	(void)statement;
	return NULL;
}

// Whatever a function does with NULL, nothing is read there.
static void check_nowhere(void)
{
	static const uint64_t results[] = {0, 1, (uint64_t)-1};
	const uint64_t nothing[6] = {0};

	sosc_tally_rules.step_is_busy = is_busy;
	sosc_tally_rules.step_text = no_text;
	order(SOSC_TALLY_LOOK);
	for (uint32_t i = 0; i < function_count; i++)
		for (uint32_t k = 0; k < sizeof(results) / sizeof(*results); k++)
			CHECK(call(i, nothing, results[k]) ==
			      !(function_at(i)->flags & SOSC_TALLY_GOES_ON));
	order(SOSC_TALLY_LOOK);
	for (uint32_t i = 0; i < function_count; i++) {
		CHECK(counts[i].calls == (function_at(i)->flags & SOSC_TALLY_GOES_ON ? 0 : 3));
		CHECK(sosc_tally_function(function_at(i)->name) == i);
	}
	CHECK(!asked && sosc_tally_function("nobodys") == SOSC_NONE);
}

static void check_statements(void)
{
	static const struct {
		const char *text;
		enum sosc_tally_kind kind;
	} rows[] = {
		{"select 1", SOSC_TALLY_SELECT},
		{" (SELECT 1)", SOSC_TALLY_SELECT},
		{"-- delete\n\tInsert into t", SOSC_TALLY_INSERT},
		{"/* a * b **/update t", SOSC_TALLY_UPDATE},
		{";;delete", SOSC_TALLY_DELETE},
		{"selects", SOSC_TALLY_OTHER},
		{"select_", SOSC_TALLY_OTHER},
		{"sel", SOSC_TALLY_OTHER},
		{"", SOSC_TALLY_OTHER},
		{"--", SOSC_TALLY_OTHER},
		{"-", SOSC_TALLY_OTHER},
		{"/*", SOSC_TALLY_OTHER},
		{"/* *", SOSC_TALLY_OTHER},
		{"/", SOSC_TALLY_OTHER},
	};
	uint64_t model[SOSC_TALLY_KINDS];
	uint32_t sized = number_of("mysql_real_query"), ended = number_of("sqlite3_exec");

	CHECK(function_at(sized)->first == 1 && function_at(sized)->second == 2);
	for (uint32_t way = 0; way < 2; way++) {
		const char *name = way ? "sqlite3_exec" : "mysql_real_query";

		memcpy(model, count_of(name)->kinds, sizeof(model));
		for (uint32_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
			uint64_t size = 0;
			char *text;

			while (rows[i].text[size])
				size++;
			text = malloc(size + way); // exactly: an access behind it is seen
			memcpy(text, rows[i].text, size + way);
			call(way ? ended : sized, (uint64_t[6]){0, (uint64_t)text, size}, 0);
			free(text);
			model[rows[i].kind]++;
		}
		CHECK(!memcmp(count_of(name)->kinds, model, sizeof(model)));
	}
}

static void check_sizes(void)
{
	struct iovec *vector = calloc(1024, sizeof(*vector));
	struct msghdr message = {.msg_iov = vector, .msg_iovlen = 20};
	uint64_t before = count_of("readv")->requested, at = (uint64_t)vector;

	for (uint32_t i = 0; i < 1024; i++)
		vector[i].iov_len = i;
	call(number_of("readv"), (uint64_t[6]){3, at, 17}, 5);
	CHECK(count_of("readv")->requested == before + 136);
	call(number_of("readv"), (uint64_t[6]){3, at, 1024}, 5);
	CHECK(count_of("readv")->requested == before + 136 + 1023 * 512);
	call(number_of("readv"), (uint64_t[6]){3, at, 1025}, 5); // the kernel takes no more
	call(number_of("readv"), (uint64_t[6]){3, 1 << 12, 2}, 5);
	CHECK(count_of("readv")->requested == before + 136 + 1023 * 512);
	before = count_of("recvmsg")->requested;
	call(number_of("recvmsg"), (uint64_t[6]){3, (uint64_t)&message}, 5);
	call(number_of("recvmsg"), (uint64_t[6]){3, 16}, 5);
	CHECK(count_of("recvmsg")->requested == before + 190);
	before = count_of("calloc")->requested;
	call(number_of("calloc"), (uint64_t[6]){1ull << 40, 1ull << 40}, 0);
	call(number_of("calloc"), (uint64_t[6]){3, 5}, 0);
	CHECK(count_of("calloc")->requested == before + 15);
	free(vector);
}

// A function that has few arguments may be called at the end of a stack.
static void check_end_of_stack(void)
{
	uint8_t *map = mmap(NULL, 2 * SOSC_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(map != MAP_FAILED && !mprotect(map + SOSC_PAGE, SOSC_PAGE, PROT_NONE));
	for (uint32_t i = 0; i < function_count; i++)
		for (uint32_t words = 8; words < 64; words += 2) {
			struct sosc_tally_slot slot = {.function = i};
			uint64_t *stack = (uint64_t *)(map + SOSC_PAGE) - words;
			struct sosc_tally_call made = {.slot = &slot, .stack = stack};

			(void)sosc_tally_entry(&made);
			CHECK(made.words <= words && made.words <= function_at(i)->words);
			CHECK(made.words % 2 == 0);
		}
}

static void check_wires(void)
{
	struct sockaddr_un redis = {.sun_family = AF_UNIX, .sun_path = "/run/redis.sock"};
	const struct sosc_tally_wire *wire = &wires[SOSC_TALLY_REDIS];
	uint32_t size = offsetof(struct sockaddr_un, sun_path) + 16;

	call(number_of("connect"), (uint64_t[6]){CONNECTED, (uint64_t)&redis, size}, 0);
	call(number_of("connect"), (uint64_t[6]){TALLY_FDS, (uint64_t)&redis, size}, 0);
	call(number_of("connect"), (uint64_t[6]){TALLY_FDS, (uint64_t)wires, UINT32_MAX}, 0);
	call(number_of("connect"), (uint64_t[6]){TALLY_FDS, (uint64_t)counts, SOSC_PAGE}, 0);
	call(number_of("close"), (uint64_t[6]){(uint32_t)-1}, 0);
	for (uint32_t i = 0; i < 5; i++) {
		call(number_of("send"), (uint64_t[6]){CONNECTED, 0, 10}, 10);
		call(number_of("recv"), (uint64_t[6]){CONNECTED, 0, 10}, (uint64_t)-1);
		call(number_of("recv"), (uint64_t[6]){CONNECTED, 0, 10}, 3);
		call(number_of("recv"), (uint64_t[6]){CONNECTED, 0, 10}, 3);
		call(number_of("recv"), (uint64_t[6]){(uint32_t)-1, 0, 10}, 3);
	}
	call(number_of("close"), (uint64_t[6]){CONNECTED}, 0);
	call(number_of("send"), (uint64_t[6]){CONNECTED, 0, 10}, 10);
	order(SOSC_TALLY_LOOK);
	CHECK(wire->connects == 2 && wire->sends == 5 && wire->sent == 50);
	CHECK(wire->receives == 15 && wire->received == 30 && wire->round_trips == 5);
}

// ---- threads and children ----------------------------------------------------------

static void *read_often(void *unused)
{
	for (uint64_t i = 0; i < TURNS; i++)
		call(number_of("pread"), (uint64_t[6]){3, 0, i}, i / 2);
	return unused;
}

static void check_threads(void)
{
	const struct sosc_tally_count before = *count_of("pread"), *now;
	pthread_t threads[THREADS];

	for (uint32_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, read_often, NULL));
	for (uint32_t i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	now = count_of("pread");
	CHECK(now->calls == before.calls + THREADS * TURNS);
	CHECK(now->requested == before.requested + THREADS * (TURNS / 2ull * (TURNS - 1)));
	CHECK(now->actual == before.actual + THREADS * (TURNS / 4ull * (TURNS - 2)));
}

// A thread is at work when another one forks: nobody is in the child.
static void *come(void *unused)
{
	sosc_tally_again();
	return unused;
}

static void check_child(void)
{
	uint32_t before = iterations;
	pthread_t thread;
	int status;
	pid_t child;

	is_held = 1;
	CHECK(!pthread_create(&thread, NULL, come, NULL));
	while (__atomic_load_n(&is_held, __ATOMIC_ACQUIRE) != 2)
		usleep(200);
	CHECK(iterations == before + 1);
	sosc_tally_again(); // the other thread sees to it
	CHECK(iterations == before + 1);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		is_held = 0;
		sosc_tally_again();
		_exit(iterations != before + 2);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	__atomic_store_n(&may_go_on, 1, __ATOMIC_RELEASE);
	CHECK(!pthread_join(thread, NULL));
	is_held = 0;
	sosc_tally_again();
	CHECK(iterations == before + 2);
}

static pthread_barrier_t turn;

static void *vfork_too(void *unused)
{
	pthread_barrier_wait(
		&turn); // so that all threads are there, each with a pointer of its own
	for (uint32_t i = 0; i < VFORKS; i++) {
		pthread_barrier_wait(&turn);
		if ((uint64_t)unused == i)
			call(number_of("vfork"), (uint64_t[6]){0}, 0);
		pthread_barrier_wait(&turn);
	}
	return NULL;
}

// A child of vfork calls as the thread that has made it, in the memory of both: its calls are nobody's, also
// if another thread calls vfork meanwhile. (Few threads share a place.)
static void check_vfork(void)
{
	const uint64_t nothing[6] = {0};
	uint32_t pid = sosc_tally_rules.pid, function = number_of("fsync"), unseen = 0;
	pthread_t threads[VFORKS];

	CHECK(!pthread_barrier_init(&turn, NULL, VFORKS + 1));
	for (uint64_t i = 0; i < VFORKS; i++)
		CHECK(!pthread_create(&threads[i], NULL, vfork_too, (void *)i));
	pthread_barrier_wait(&turn);
	for (uint32_t i = 0; i < VFORKS; i++) {
		call(number_of("vfork"), nothing, 0);
		sosc_tally_rules.pid = 1; // as if this were the child
		CHECK(!call(function, nothing, 0));
		pthread_barrier_wait(&turn);
		pthread_barrier_wait(&turn);
		unseen += !call(function, nothing, 0);
		sosc_tally_rules.pid = pid; // it has returned
		CHECK(call(function, nothing, 0));
		sosc_tally_rules.pid = 1;
		CHECK(call(function, nothing, 0));
	}
	CHECK(unseen > VFORKS / 2);
	sosc_tally_rules.pid = pid;
	for (uint32_t i = 0; i < VFORKS; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

int main(void)
{
	order(SOSC_TALLY_OPEN);
	check_nowhere();
	check_statements();
	check_sizes();
	check_end_of_stack();
	check_wires();
	check_threads();
	check_child();
	check_vfork();
	order(SOSC_TALLY_CLOSE);
	return 0;
}
