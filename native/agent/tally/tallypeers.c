// SPDX-License-Identifier: Apache-2.0
// Determines to which service a socket is connected, by the well-known port or the name of the Unix
// socket. So the bytes of drivers that implement a protocol themselves are counted, too.

#include "base/memory.h"
#include "base/sys.h"
#include "tally/tally.h"

enum {
	UNIX = 1, // AF_UNIX
	INET = 2,
	INET6 = 10,
	ADDRESS_MAX = 110, // bytes of struct sockaddr_un
	FDS_FIRST = 4096, // descriptors that are checked when a trace begins
};

static uint8_t of_port(uint32_t port)
{
	switch (port) {
	case 5432:
		return SOSC_TALLY_POSTGRES;
	case 3306:
		return SOSC_TALLY_MYSQL;
	case 11211:
		return SOSC_TALLY_MEMCACHE;
	case 6379:
		return SOSC_TALLY_REDIS;
	default:
		return SOSC_TALLY_NONE;
	}
}

static bool begins(const char *text, const char *with)
{
	while (*with && *text == *with)
		text++, with++;
	return !*with;
}

static uint8_t of_path(const char *path)
{
	const char *name = path;

	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	if (begins(name, ".s.PGSQL."))
		return SOSC_TALLY_POSTGRES;
	if (begins(name, "mysql") || begins(name, "mariadb"))
		return SOSC_TALLY_MYSQL;
	if (begins(name, "memcached"))
		return SOSC_TALLY_MEMCACHE;
	return begins(name, "redis") ? SOSC_TALLY_REDIS : SOSC_TALLY_NONE;
}

static uint8_t group_of(const uint8_t *address, uint64_t size)
{
	uint16_t family;

	memcpy(&family, address, sizeof(family));
	if (family == UNIX && size > 3)
		return of_path((const char *)address + 2);
	if ((family == INET || family == INET6) && size >= 4)
		return of_port((uint32_t)address[2] << 8 | address[3]);
	return SOSC_TALLY_NONE;
}

static void set(uint64_t fd, uint8_t group)
{
	if (fd < TALLY_FDS)
		__atomic_store_n(&sosc_tally_fds[fd], group, __ATOMIC_RELAXED);
}

/** The program connects @fd to the address at @at. */
void sosc_tally_peer(uint64_t fd, uint64_t at, uint64_t size)
{
	uint8_t address[ADDRESS_MAX + 2] = {0}, group;

	size &= UINT32_MAX;
	if (size > ADDRESS_MAX)
		size = ADDRESS_MAX;
	if (size < 2 ||
	    sosc_read((uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0), address, at, size) != size)
		return;
	group = group_of(address, size);
	set(fd, group);
	if (group)
		(void)__atomic_fetch_add(&sosc_tally_wires[group].connects, 1, __ATOMIC_RELAXED);
}

/** Find connections that exist already when a trace begins. */
void sosc_tally_peers(void)
{
	for (uint64_t fd = 0; fd < TALLY_FDS; fd++) {
		uint8_t address[ADDRESS_MAX + 2] = {0};
		uint32_t size = ADDRESS_MAX;
		bool is_connected = fd < FDS_FIRST && !sosc_sys3(SYS_GETPEERNAME, (long)fd,
								 (long)address, (long)&size);

		set(fd, is_connected ? group_of(address, size) : SOSC_TALLY_NONE);
	}
}
