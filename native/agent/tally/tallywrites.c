// SPDX-License-Identifier: Apache-2.0
// Changes words of a program while its threads run and its loader may be at work.

#include "base/memory.h"
#include "base/sys.h"
#include "tally/tallyslots.h"

enum { MAPS_SIZE = 4096 }; // bytes that are read at a time

static bool hex(const char **at, uint64_t *ret)
{
	const char *start = *at;

	for (*ret = 0;; (*at)++) {
		char digit = **at;
		uint32_t value = digit >= '0' && digit <= '9' ? (uint32_t)(digit - '0') :
				 digit >= 'a' && digit <= 'f' ? (uint32_t)(digit - 'a') + 10 :
								16;

		if (value == 16)
			return *at != start;
		*ret = *ret << 4 | value;
	}
}

struct search {
	uint64_t addr;
	int flags; // PROT_..., -1: nothing is mapped there
};

// Parses a line of /proc/self/maps: "start-end rwxp …".
static bool is_line_of(const char *line, struct search *search)
{
	uint64_t start, end;

	if (!hex(&line, &start) || *line++ != '-' || !hex(&line, &end) || *line++ != ' ' ||
	    search->addr < start || search->addr >= end)
		return false;
	search->flags = (line[0] == 'r' ? PROT_READ : 0) | (line[1] == 'w' ? PROT_WRITE : 0) |
			(line[2] == 'x' ? PROT_EXEC : 0);
	return true;
}

/** Return the protection of the memory at an address, as PROT_...; -1: unknown. */
int sosc_tally_protection(uint64_t addr)
{
	static const char path[] = "/proc/self/maps";
	static char text[MAPS_SIZE + 1];
	struct search search = {.addr = addr, .flags = -1};
	uint64_t held = 0;
	long fd = sosc_sys3(SYS_OPEN, (long)path, O_CLOEXEC, 0), got;

	if (fd < 0)
		return -1;
	while ((got = sosc_sys3(SYS_READ, fd, (long)text + (long)held, (long)(MAPS_SIZE - held))) >
	       0) {
		uint64_t line = 0;

		held += (uint64_t)got;
		text[held] = 0;
		for (uint64_t i = 0; i < held; i++)
			if (text[i] == '\n') {
				if (is_line_of(text + line, &search))
					goto done;
				line = i + 1;
			}
		held -= line;
		for (uint64_t i = 0; i < held; i++)
			text[i] = text[line + i];
		if (held == MAPS_SIZE)
			held = 0; // no line is that long
	}
done:
	(void)sosc_sys3(SYS_CLOSE, fd, 0, 0);
	return search.flags;
}

/**
 * Store @to if the word is @from. @closed: its page is read-only, and is made so again afterwards.
 */
bool sosc_tally_exchange(uint64_t addr, uint64_t from, uint64_t to, bool closed)
{
	uint64_t page = addr & ~(uint64_t)(SOSC_PAGE - 1);
	bool done;

	if (closed && !sosc_protect(page, page + SOSC_PAGE, PROT_READ | PROT_WRITE))
		return false;
	done = __atomic_compare_exchange_n((uint64_t *)addr, &from, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
	if (closed)
		(void)sosc_protect(page, page + SOSC_PAGE, PROT_READ);
	return done;
}

/**
 * Change the address at which the loader will store the target of a lazy slot. Relocations lie in
 * pages to which no other code writes, so no atomic exchange is needed.
 */
bool sosc_tally_redirect(uint64_t field, uint64_t from, uint64_t to, bool text)
{
	return *(uint64_t *)field == from && sosc_write(field, &to, sizeof(to), text);
}
