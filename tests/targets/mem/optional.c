// SPDX-License-Identifier: Apache-2.0
// Functions with the names and signatures of libmemcached's and OpenSSL's. A caller may pass NULL for
// each answer that it does not want. A library for unwanted.c.
#include <stddef.h>
#include <stdint.h>

enum { SIZE = 100, NOT_FOUND = 16 };

static char value[SIZE];

static char *answer(int found, size_t *size, int *error)
{
	if (size)
		*size = found ? SIZE : 0;
	if (error)
		*error = found ? 0 : NOT_FOUND;
	return found ? value : NULL;
}

char *memcached_get(void *client, const char *key, size_t key_size, size_t *size, uint32_t *flags,
		    int *error)
{
	return answer(client && key && key_size && !flags, size, error);
}

char *memcached_get_by_key(void *client, const char *group, size_t group_size, const char *key,
			   size_t key_size, size_t *size, uint32_t *flags, int *error)
{
	return answer(client && group && group_size && key && key_size && !flags, size, error);
}

char *memcached_fetch(void *client, char *key, size_t *key_size, size_t *size, uint32_t *flags,
		      int *error)
{
	return answer(client && !key && !key_size && !flags, size, error);
}

static int moved(void *connection, const void *buffer, size_t room, size_t *size)
{
	if (size)
		*size = room;
	return connection && buffer;
}

int SSL_read_ex(void *connection, void *to, size_t room, size_t *size)
{
	return moved(connection, to, room, size);
}

int SSL_write_ex(void *connection, const void *from, size_t room, size_t *size)
{
	return moved(connection, from, room, size);
}
