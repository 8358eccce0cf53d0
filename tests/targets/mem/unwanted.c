// SPDX-License-Identifier: Apache-2.0
// Calls that do not want all of their answers. A library for traced.py.
#include <stddef.h>
#include <stdint.h>

char *memcached_get(void *client, const char *key, size_t key_size, size_t *size, uint32_t *flags,
		    int *error);
char *memcached_get_by_key(void *client, const char *group, size_t group_size, const char *key,
			   size_t key_size, size_t *size, uint32_t *flags, int *error);
char *memcached_fetch(void *client, char *key, size_t *key_size, size_t *size, uint32_t *flags,
		      int *error);
int SSL_read_ex(void *connection, void *to, size_t room, size_t *size);
int SSL_write_ex(void *connection, const void *from, size_t room, size_t *size);

/** Make calls that want their @answers, or do not; how many of them have failed. */
int unwanted(int answers)
{
	char client[100];
	size_t size, *at = answers ? &size : NULL;
	int result, *error = answers ? &result : NULL, failed = 0;

	failed += !memcached_get(client, "key", 3, at, NULL, error);
	failed += !memcached_get(NULL, "key", 3, at, NULL, error);
	failed += !memcached_get_by_key(client, "group", 5, "key", 3, at, NULL, error);
	failed += !memcached_fetch(client, NULL, NULL, at, NULL, error);
	failed += !SSL_read_ex(client, client, sizeof(client), at);
	failed += !SSL_write_ex(client, client, sizeof(client), at);
	return failed;
}
