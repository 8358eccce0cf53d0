// SPDX-License-Identifier: Apache-2.0
// The way in if ptrace is forbidden: the loader maps the agent as a library named in LD_PRELOAD,
// and runs this code before other constructors (DF_1_INITFIRST). This code removes from the
// environment what soscope has added.
//
// 	LD_PRELOAD=/proc/self/fd/N[:what the user had]
// 	SOSCOPE_PRELOAD=blob,control,plan,execs,pages_offset,control_size,plan_size,strip
//
// execs: the file's descriptor + 1; 0 = there is no such file. strip: number of bytes of
// LD_PRELOAD's value that soscope has added; 0 = all of it. Then two entries are removed, so that
// the auxiliary vector behind them stays aligned.

#include "base/jump.h"
#include "base/memory.h"
#include "base/sys.h"
#include "call/cell.h"
#include "call/handler.h"
#include "entry/start.h"
#include "image/changes.h"
#include "image/image.h"
#include "image/lookup.h"
#include "image/namespace.h"

enum { FIELDS = 8, AUXV_MAX = 64 };

static const char *after(const char *entry, const char *prefix)
{
	while (*prefix && *entry == *prefix)
		entry++, prefix++;
	return *prefix ? NULL : entry;
}

static bool parse(const char *text, uint64_t fields[FIELDS])
{
	for (int i = 0; i < FIELDS; i++) {
		fields[i] = 0;
		if (*text < '0' || *text > '9')
			return false;
		for (; *text >= '0' && *text <= '9'; text++)
			fields[i] = fields[i] * 10 + (uint64_t)(*text - '0');
		if (*text == ',')
			text++;
	}
	return true;
}

// Gives LD_PRELOAD its old value back. Returns whether the entry has to stay.
static bool restore(char **entry, uint64_t strip)
{
	static const char name[] = "LD_PRELOAD=";
	char *text = *entry;

	if (!strip)
		return false;
	*entry += strip;
	memcpy(*entry, name, sizeof(name) - 1);
	memset(text, 0, strip); // because /proc/self/environ shows these bytes, too
	return true;
}

static void erase(char *text)
{
	while (*text)
		*text++ = 0;
}

// Removes soscope's entries. If they leave a gap of two words, puts AT_IGNORE there.
static void clean(char **envp, uint64_t strip)
{
	uint64_t kept = 0, count = 0;

	for (; envp[count]; count++) {
		char *entry = envp[count];

		if (after(entry, "SOSCOPE_PRELOAD") ||
		    (after(entry, "LD_PRELOAD=/proc/self/fd/") && !restore(&entry, strip)))
			erase(entry);
		else
			envp[kept++] = entry;
	}
	envp[kept] = NULL;
	if (count - kept == 2) {
		envp[kept + 1] = (char *)1; // AT_IGNORE
		envp[kept + 2] = NULL;
	}
}

static void read_auxv(Elf64_auxv_t auxv[AUXV_MAX])
{
	static const char path[] = "/proc/self/auxv";
	long fd = sosc_sys3(SYS_OPEN, (long)path, O_CLOEXEC, 0);

	memset(auxv, 0, AUXV_MAX * sizeof(*auxv));
	if (fd < 0)
		return;
	(void)sosc_sys3(SYS_READ, fd, (long)auxv, (AUXV_MAX - 1) * sizeof(*auxv));
	(void)sosc_sys3(SYS_CLOSE, fd, 0, 0);
}

static uint64_t auxv_value(const Elf64_auxv_t *auxv, uint64_t type)
{
	for (; auxv->a_type != AT_NULL; auxv++)
		if (auxv->a_type == type)
			return auxv->a_un.a_val;
	return 0;
}

static uint64_t find_r_debug(uint64_t phdr_addr, uint64_t phnum)
{
	const Elf64_Phdr *phdr = (const void *)phdr_addr;
	const Elf64_Dyn *dyn = NULL;
	uint64_t bias = 0;

	for (uint64_t i = 0; i < phnum; i++)
		if (phdr[i].p_type == PT_PHDR)
			bias = phdr_addr - phdr[i].p_vaddr;
	for (uint64_t i = 0; i < phnum; i++)
		if (phdr[i].p_type == PT_DYNAMIC)
			dyn = (const void *)(bias + phdr[i].p_vaddr);
	for (; dyn && dyn->d_tag != DT_NULL; dyn++)
		if (dyn->d_tag == DT_DEBUG)
			return dyn->d_un.d_ptr;
	return 0;
}

// Returns the environment. glibc passes main's arguments to initialisers. musl does not, but there
// the loader is also the C library and has the environment in a variable. Returns NULL if neither
// is possible.
static char **find_environment(const struct sosc_start *start, char **passed)
{
	static const char musl[] = "__libc_start_main", variable[] = "__environ";
	const struct r_debug *r_debug = (const void *)start->r_debug;
	struct sosc_loaded loader;
	const Elf64_Sym *symbol;

	memset(&loader, 0, sizeof(loader));
	for (struct link_map *map = r_debug->r_map; map; map = map->l_next)
		if (map->l_addr == start->loader)
			loader.map = map;
	if (!loader.map || sosc_image_parse(&loader, NULL) != 0)
		return NULL;
	if (!sosc_lookup(&loader, musl, sosc_gnu_hash(musl), NULL))
		return passed;
	symbol = sosc_lookup(&loader, variable, sosc_gnu_hash(variable), NULL);
	return symbol ? *(char ***)(loader.bias + symbol->st_value) : NULL;
}

// Does what the launcher does from outside: writes a jump over the loader's empty function.
static void hook_loader(uint64_t brk)
{
	uint32_t thread = (uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0);
	uint8_t old[SOSC_EMPTY_FUNCTION] = {0}, code[8];
	uint64_t before, after;

	// reads less if the function is the last of its segment; zeros are not taken for padding
	(void)sosc_read(thread, old, brk, sizeof(old));
	if (!sosc_jump(brk, (uint64_t)sosc_loader_jump, old, code))
		return;
	memcpy(&before, old, sizeof(before));
	memcpy(&after, code, sizeof(after));
	if (sosc_change_loader(brk, before, after) && sosc_write(brk, code, sizeof(code), true))
		sosc_control->loader_hook = SOSC_LOADER_HOOKED;
}

// DT_INIT of the agent as a library. No variable may be used before the start has mapped them.
void sosc_preload(int argc, char **argv, char **envp)
{
	uint64_t fields[FIELDS];
	struct sosc_start start;
	const struct r_debug *r_debug;
	struct sosc_loaded *provider;
	Elf64_auxv_t auxv[AUXV_MAX];
	char **entry;

	(void)argc;
	(void)argv;
	read_auxv(auxv);
	start = (struct sosc_start){
		.base = (uint64_t)sosc_entries - SOSC_BLOB_ENTRIES,
		.loader = auxv_value(auxv, AT_BASE),
		.phdr = auxv_value(auxv, AT_PHDR),
		.phnum = (uint32_t)auxv_value(auxv, AT_PHNUM),
		.errno_offset = INT64_MIN,
		.stack_end = auxv_value(auxv, AT_EXECFN),
	};
	if (!start.loader)
		// the program was started by an explicit call of the loader, and the vector
		// describes the loader
		return;
	start.r_debug = find_r_debug(start.phdr, start.phnum);
	if (!start.r_debug || !(envp = find_environment(&start, envp)))
		return;
	for (entry = envp; *entry; entry++) {
		const char *text = after(*entry, "SOSCOPE_PRELOAD=");

		if (text && parse(text, fields))
			break;
	}
	if (!*entry)
		return; // this file was loaded for some other purpose
	start.blob_fd = (int32_t)fields[0];
	start.control_fd = (int32_t)fields[1];
	start.plan_fd = (int32_t)fields[2];
	start.execs_fd = (int32_t)fields[3] - 1;
	start.pages_offset = fields[4];
	start.control_size = fields[5];
	start.plan_size = fields[6];
	clean(envp, fields[7]);
	if (soscope_agent_start(&start) != 0)
		return;
	r_debug = (const void *)start.r_debug;
	hook_loader(r_debug->r_brk);
	if (sosc_lookup_all(0, "__errno_location", NULL, &provider) && sosc_errno_find(provider))
		__atomic_fetch_or(&sosc_control->agent_flags, (uint32_t)SOSC_AGENT_ERRNO,
				  __ATOMIC_RELAXED);
}
