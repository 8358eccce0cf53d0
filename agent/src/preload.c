// SPDX-License-Identifier: Apache-2.0
// The other way in, where ptrace is forbidden: the loader maps the agent as a
// library named in LD_PRELOAD, and runs this before other constructors
// (DF_1_INITFIRST). What soscope added to the environment is taken out again.
//
//	LD_PRELOAD=/proc/self/fd/N[:what the user had]
//	SOSCOPE_PRELOAD=blob,control,pages_offset,control_size,strip
//
// strip: bytes of LD_PRELOAD's value that are ours; 0 = all of it. Two entries
// go away, so that the auxiliary vector behind them stays aligned.

#include "agent.h"
#include "sys.h"

enum { FIELDS = 5 };

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

// Gives LD_PRELOAD back its old value; whether the entry is to stay.
static bool restore(char **entry, uint64_t strip)
{
	static const char name[] = "LD_PRELOAD=";
	char *text = *entry;

	if (!strip)
		return false;
	*entry += strip;
	memcpy(*entry, name, sizeof(name) - 1);
	memset(text, 0, strip); // /proc/self/environ shows the strings, too
	return true;
}

static void erase(char *text)
{
	while (*text)
		*text++ = 0;
}

// Takes our entries out, and puts AT_IGNORE where they leave a gap of two words.
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

static uint64_t auxv_value(char **envp, uint64_t type)
{
	const Elf64_auxv_t *entry;

	while (*envp)
		envp++;
	for (entry = (const void *)(envp + 1); entry->a_type != AT_NULL; entry++)
		if (entry->a_type == type)
			return entry->a_un.a_val;
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

// As the launcher does it from outside: a jump over the loader's empty function.
static void hook_loader(uint64_t brk)
{
	uint8_t code[8];
	uint64_t before, after;
	int64_t distance = (int64_t)((uint64_t)sosc_loader_jump - (brk + 5));
	int32_t rel32 = (int32_t)distance;

	memcpy(code, (const void *)brk, sizeof(code));
	if (code[0] != 0xc3 || distance != rel32)
		return;
	memcpy(&before, code, sizeof(before));
	code[0] = 0xe9;
	memcpy(code + 1, &rel32, sizeof(rel32));
	memcpy(&after, code, sizeof(after));
	if (sosc_change_note(NULL, brk, before, after, sizeof(code)) &&
	    sosc_write(brk, code, sizeof(code), true))
		sosc_control->loader_hook = SOSC_LOADER_HOOKED;
}

// DT_INIT of the agent as a library; the loader passes main's arguments.
void sosc_preload(int argc, char **argv, char **envp)
{
	uint64_t fields[FIELDS];
	struct sosc_start start;
	const struct r_debug *r_debug;
	struct sosc_loaded *provider;
	char **entry;

	(void)argc;
	(void)argv;
	for (entry = envp; *entry; entry++) {
		const char *text = after(*entry, "SOSCOPE_PRELOAD=");

		if (text && parse(text, fields))
			break;
	}
	if (!*entry)
		return; // somebody loaded this file for reasons of their own
	start = (struct sosc_start){
		.base = (uint64_t)sosc_entries - SOSC_BLOB_ENTRIES,
		.loader = auxv_value(envp, AT_BASE),
		.phdr = auxv_value(envp, AT_PHDR),
		.phnum = (uint32_t)auxv_value(envp, AT_PHNUM),
		.blob_fd = (int32_t)fields[0],
		.control_fd = (int32_t)fields[1],
		.pages_offset = (uint32_t)fields[2],
		.control_size = fields[3],
		.errno_offset = INT64_MIN,
	};
	clean(envp, fields[4]);
	start.r_debug = find_r_debug(start.phdr, start.phnum);
	if (!start.r_debug || soscope_agent_start(&start) != 0)
		return;
	r_debug = (const void *)start.r_debug;
	hook_loader(r_debug->r_brk);
	if (sosc_lookup_all(0, "__errno_location", NULL, &provider) && sosc_errno_find(provider))
		__atomic_fetch_or(&sosc_control->agent_flags, (uint32_t)SOSC_AGENT_ERRNO,
				  __ATOMIC_RELAXED);
}
