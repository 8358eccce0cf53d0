// SPDX-License-Identifier: Apache-2.0
// Says where symbols are, as this process itself has it: one answer for each line of standard
// input. Words of a command are separated by tabs: paths may hold anything else.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef OWN
#include OWN
#endif

static int own_private(int x)
{
	return x + 1;
}
int own_public(int x)
{
	return own_private(x) * 2;
}
static int own_data = 42;
static __thread int own_tls = 7;
__thread int own_tls_public = 8;
extern int nowhere(void) __attribute__((weak));

static void *handles[64];
static int opened;

static void answer(const void *addr)
{
	printf("%p\n", addr);
}

static const void *own(const char *name)
{
	if (!strcmp(name, "own_private"))
		return (const void *)own_private;
	if (!strcmp(name, "own_public"))
		return (const void *)own_public;
	if (!strcmp(name, "own_data"))
		return &own_data;
	if (!strcmp(name, "own_tls"))
		return &own_tls;
	if (!strcmp(name, "own_tls_public"))
		return &own_tls_public;
	if (!strcmp(name, "nowhere"))
		return (const void *)nowhere;
	if (!strcmp(name, "main_thread_time"))
		return (const void *)time;
#ifdef OWN
	return own_more(name);
#endif
	return NULL;
}

#ifndef WITHOUT_DL
static const void *look(void *handle, const char *name, const char *version)
{
#ifdef __GLIBC__
	if (version)
		return dlvsym(handle, name, version);
#endif
	return version ? NULL : dlsym(handle, name);
}

static int flags_of(const char *words)
{
	int flags = RTLD_NOW;
	if (strstr(words, "lazy"))
		flags = RTLD_LAZY;
	if (strstr(words, "global"))
		flags |= RTLD_GLOBAL;
	if (strstr(words, "noload"))
		flags |= RTLD_NOLOAD;
#ifdef RTLD_DEEPBIND
	if (strstr(words, "deepbind"))
		flags |= RTLD_DEEPBIND;
#endif
	return flags;
}

static void keep(void *handle)
{
	if (!handle)
		printf("%s\n", dlerror());
	else
		printf("%d\n", opened);
	handles[opened++] = handle;
}
#endif

struct work {
	const void *(*function)(const char *);
	const char *name;
	const void *result;
	pid_t tid;
	pthread_barrier_t done;
};

static void *worker(void *data)
{
	struct work *work = data;
	work->tid = syscall(SYS_gettid);
	work->result = work->function ? work->function(work->name) : NULL;
	pthread_barrier_wait(&work->done);
	for (;;)
		pause();
}

static void in_thread(const void *(*function)(const char *), const char *name)
{
	struct work *work = calloc(1, sizeof(*work));
	pthread_t thread;
	work->function = function;
	work->name = strdup(name);
	pthread_barrier_init(&work->done, NULL, 2);
	pthread_create(&thread, NULL, worker, work);
	pthread_barrier_wait(&work->done);
	printf("%d\t%p\n", work->tid, work->result);
}

static void *loop(void *nothing);

static void leave(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, loop, NULL);
	pthread_exit(NULL);
}

static void obey(char **word)
{
	if (!strcmp(word[0], "own"))
		answer(own(word[1]));
	else if (!strcmp(word[0], "own-in-thread"))
		in_thread(own, word[1]);
	else if (!strcmp(word[0], "leave"))
		leave();
	else if (!strcmp(word[0], "undumpable"))
		printf("%d\n", prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
	else if (!strcmp(word[0], "chroot"))
		printf("%d\n", chroot(word[1]) || chdir("/"));
	else if (!strcmp(word[0], "exec"))
		execlp(word[1], word[1], word[2], (char *)NULL);
#ifndef WITHOUT_DL
	else if (!strcmp(word[0], "open"))
		keep(dlopen(word[2][0] ? word[2] : NULL, flags_of(word[1])));
#ifdef __GLIBC__
	else if (!strcmp(word[0], "space"))
		keep(dlmopen(LM_ID_NEWLM, word[1], RTLD_NOW));
#endif
	else if (!strcmp(word[0], "memfd")) {
		char path[64], buffer[4096];
		int file = memfd_create("in memory", 0);
		FILE *from = fopen(word[1], "r");
		for (size_t n; (n = fread(buffer, 1, sizeof(buffer), from)) > 0;)
			if (write(file, buffer, n) != (ssize_t)n)
				abort();
		snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
		keep(dlopen(path, RTLD_NOW));
		close(file);
	} else if (!strcmp(word[0], "map")) {
		FILE *from = fopen(word[1], "r");
		answer(mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(from), 0));
	} else if (!strcmp(word[0], "close"))
		printf("%d\n", dlclose(handles[atoi(word[1])]));
	else if (!strcmp(word[0], "default"))
		answer(look(RTLD_DEFAULT, word[1], word[2]));
	else if (!strcmp(word[0], "handle"))
		answer(look(handles[atoi(word[1])], word[2], word[3]));
	else if (!strcmp(word[0], "call"))
		answer(((void *(*)(void))dlsym(handles[atoi(word[1])], word[2]))());
	else if (!strcmp(word[0], "call-in-thread"))
		in_thread((const void *(*)(const char *))dlsym(handles[atoi(word[1])], word[2]),
			  "");
#endif
	else
		puts("what?");
}

static void *loop(void *nothing)
{
	static char line[8192];
	while (fgets(line, sizeof(line), stdin)) {
		char *word[8] = {0}, *rest = line;
		line[strcspn(line, "\n")] = 0;
		for (char *at = line; *at; at++)
			if (*at == '\a') // a newline inside of a path
				*at = '\n';
		for (int i = 0; i < 7 && rest; i++)
			word[i] = strsep(&rest, "\t");
		obey(word);
		fflush(stdout);
	}
	exit(0);
	return nothing;
}

int main(void)
{
	puts("ready");
	fflush(stdout);
	loop(NULL);
}
