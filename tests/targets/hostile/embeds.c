// SPDX-License-Identifier: Apache-2.0
// A host of Python, of which Python is no part: it loads the library, has it execute the lines of its
// input up to "over", ends it, and does all of that once more. Where the library was it has memory of
// its own meanwhile, which must stay as it is.
//
//	embeds LIBRARY closed|ended|dropped
//
// closed: Python is ended and unloaded; ended: it stays loaded; dropped: it is unloaded as it is.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 4 << 20, FILL = 0xcc };

static const char serve[] = "import sys\n"
			    "for line in sys.stdin:\n"
			    "    if line.strip() != 'over':\n"
			    "        exec(line, globals())\n"
			    "    print('did', line.strip(), flush=True)\n"
			    "    if line.strip() == 'over':\n"
			    "        break\n";

static void *run(const char *library, const char *way)
{
	void *python = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	struct link_map *map = NULL;
	void (*begin)(int);
	int (*execute)(const char *), (*end)(void);
	void *at;

	if (!python) {
		puts(dlerror());
		return NULL;
	}
	dlinfo(python, RTLD_DI_LINKMAP, &map);
	at = (void *)map->l_addr;
	*(void **)&begin = dlsym(python, "Py_InitializeEx");
	*(void **)&execute = dlsym(python, "PyRun_SimpleString");
	*(void **)&end = dlsym(python, "Py_FinalizeEx");
	begin(0);
	execute(serve);
	if (strcmp(way, "dropped") != 0)
		end();
	if (strcmp(way, "ended") != 0)
		dlclose(python);
	return at;
}

int main(int argc, char **argv)
{
	unsigned char *mine = MAP_FAILED;
	void *at;

	if (argc != 3 || !(at = run(argv[1], argv[2])))
		return 1;
	if (strcmp(argv[2], "ended") != 0)
		mine = mmap(at, SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (mine != MAP_FAILED)
		memset(mine, FILL, SIZE);
	if (!run(argv[1], argv[2]))
		return 1;
	for (long i = 0; mine != MAP_FAILED && i < SIZE; i++)
		if (mine[i] != FILL)
			return 2;
	puts("the end");
	return 0;
}
