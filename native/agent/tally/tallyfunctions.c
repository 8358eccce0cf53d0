// SPDX-License-Identifier: Apache-2.0
// The functions whose calls a program may count: the group of each, which argument tells how much
// is requested, and how the result tells how much was obtained.

#include <soscope/family.h>

#include "image/lookup.h"
#include "tally/tally.h"

#define NO SOSC_TALLY_NO

// name, group, operation, request, its arguments, result, its argument, argument of the answer,
// words, flags
#define ROW(name_, group_, operation_, asks_, first_, second_, gets_, third_, fourth_, words_, \
	    flags_)                                                                            \
	{.name = #name_,                                                                       \
	 .operation = operation_,                                                              \
	 .group = SOSC_TALLY_##group_,                                                         \
	 .requested = SOSC_##asks_,                                                            \
	 .first = first_,                                                                      \
	 .second = second_,                                                                    \
	 .actual = SOSC_##gets_,                                                               \
	 .third = third_,                                                                      \
	 .fourth = fourth_,                                                                    \
	 .words = words_,                                                                      \
	 .flags = flags_}

#define PLAIN(name, group, operation, flags) \
	ROW(name, group, operation, ASKS_NOTHING, 0, 0, GETS_NOTHING, 0, 0, 0, flags)
#define MOVE(name, operation, asks, first, second, flags) \
	ROW(name, FD, operation, asks, first, second, GETS_RESULT, 0, 0, 0, flags)
#define READ(name, operation, asks, first, second) MOVE(name, operation, asks, first, second, IN)
#define WRITE(name, operation, asks, first, second) MOVE(name, operation, asks, first, second, OUT)
#define MAKE(name, operation) PLAIN(name, FD, operation, SOSC_TALLY_MAKES)
#define WAIT(name, operation) PLAIN(name, FD, operation, 0)
#define BLOCK(name, operation, asks, first, second, gets, third) \
	ROW(name, MEMORY, operation, asks, first, second, gets, third, 0, 0, 0)
#define MAKES(name, api, number, frees, asks, first, second, gets, operation) \
	BLOCK(name, operation, ASKS_##asks, first, second, GETS_##gets, 0),
#define TEXT(name, group, operation, first, second, words, flags) \
	ROW(name, group, operation, ASKS_TEXT, first, second, GETS_NOTHING, 0, 0, words, flags)
#define NAMED(name, group, operation, words) \
	ROW(name, group, operation, ASKS_PREPARED, 0, 0, GETS_NOTHING, 0, 0, words, QUERY)
#define LONG(name, group, operation, words) \
	ROW(name, group, operation, ASKS_NOTHING, 0, 0, GETS_NOTHING, 0, 0, words, 0)
#define KEEP(name, operation, size, words)                                            \
	ROW(name, MEMCACHE, operation, ASKS_SIZE, size, 0, GETS_NOTHING, 0, 0, words, \
	    SOSC_TALLY_ANSWER)
#define ASK(name, operation, words)                                                   \
	ROW(name, MEMCACHE, operation, ASKS_NOTHING, 0, 0, GETS_NOTHING, 0, 0, words, \
	    SOSC_TALLY_ANSWER)

enum { IN = SOSC_TALLY_IN, OUT = SOSC_TALLY_OUT, QUERY = SOSC_TALLY_QUERY };

// clang-format off
static const struct sosc_tally_function functions[] = {
	PLAIN(dlsym, NONE, "", SOSC_TALLY_COMES | SOSC_TALLY_GOES_ON),
	PLAIN(dlvsym, NONE, "", SOSC_TALLY_COMES | SOSC_TALLY_GOES_ON),
	PLAIN(vfork, NONE, "", SOSC_TALLY_VFORKS | SOSC_TALLY_GOES_ON),
	PLAIN(__vfork, NONE, "", SOSC_TALLY_VFORKS | SOSC_TALLY_GOES_ON),

	READ(read, "read", ASKS_SIZE, 2, 0),
	READ(__read_chk, "read", ASKS_SIZE, 2, 0),
	READ(pread, "pread", ASKS_SIZE, 2, 0),
	READ(pread64, "pread", ASKS_SIZE, 2, 0),
	READ(__pread_chk, "pread", ASKS_SIZE, 2, 0),
	READ(__pread64_chk, "pread", ASKS_SIZE, 2, 0),
	READ(readv, "readv", ASKS_VECTOR, 1, 2),
	READ(preadv, "preadv", ASKS_VECTOR, 1, 2),
	READ(preadv64, "preadv", ASKS_VECTOR, 1, 2),
	READ(preadv2, "preadv", ASKS_VECTOR, 1, 2),
	READ(preadv64v2, "preadv", ASKS_VECTOR, 1, 2),
	READ(recv, "recv", ASKS_SIZE, 2, 0),
	READ(__recv_chk, "recv", ASKS_SIZE, 2, 0),
	READ(recvfrom, "recvfrom", ASKS_SIZE, 2, 0),
	ROW(__recvfrom_chk, FD, "recvfrom", ASKS_SIZE, 2, 0, GETS_RESULT, 0, 0, 2, IN),
	READ(recvmsg, "recvmsg", ASKS_MESSAGE, 1, 0),
	PLAIN(recvmmsg, FD, "recvmmsg", 0),
	WRITE(write, "write", ASKS_SIZE, 2, 0),
	WRITE(pwrite, "pwrite", ASKS_SIZE, 2, 0),
	WRITE(pwrite64, "pwrite", ASKS_SIZE, 2, 0),
	WRITE(writev, "writev", ASKS_VECTOR, 1, 2),
	WRITE(pwritev, "pwritev", ASKS_VECTOR, 1, 2),
	WRITE(pwritev64, "pwritev", ASKS_VECTOR, 1, 2),
	WRITE(pwritev2, "pwritev", ASKS_VECTOR, 1, 2),
	WRITE(pwritev64v2, "pwritev", ASKS_VECTOR, 1, 2),
	WRITE(send, "send", ASKS_SIZE, 2, 0),
	WRITE(sendto, "sendto", ASKS_SIZE, 2, 0),
	WRITE(sendmsg, "sendmsg", ASKS_MESSAGE, 1, 0),
	PLAIN(sendmmsg, FD, "sendmmsg", 0),
	MOVE(sendfile, "sendfile", ASKS_SIZE, 3, 0, OUT),
	MOVE(sendfile64, "sendfile", ASKS_SIZE, 3, 0, OUT),
	MOVE(splice, "splice", ASKS_SIZE, 4, 0, 0),
	MOVE(copy_file_range, "copy_file_range", ASKS_SIZE, 4, 0, 0),
	MAKE(open, "open"),
	MAKE(open64, "open"),
	MAKE(__open_2, "open"),
	MAKE(__open64_2, "open"),
	MAKE(openat, "openat"),
	MAKE(openat64, "openat"),
	MAKE(__openat_2, "openat"),
	MAKE(__openat64_2, "openat"),
	MAKE(creat, "creat"),
	MAKE(creat64, "creat"),
	MAKE(dup, "dup"),
	MAKE(dup2, "dup"),
	MAKE(dup3, "dup"),
	MAKE(socket, "socket"),
	MAKE(accept, "accept"),
	MAKE(accept4, "accept"),
	MAKE(memfd_create, "memfd_create"),
	WAIT(socketpair, "socketpair"),
	WAIT(pipe, "pipe"),
	WAIT(pipe2, "pipe"),
	PLAIN(connect, FD, "connect", SOSC_TALLY_CONNECT),
	PLAIN(close, FD, "close", SOSC_TALLY_ENDS),
	WAIT(shutdown, "shutdown"),
	WAIT(fsync, "fsync"),
	WAIT(fdatasync, "fdatasync"),
	WAIT(select, "select"),
	WAIT(pselect, "pselect"),
	WAIT(poll, "poll"),
	WAIT(__poll_chk, "poll"),
	WAIT(ppoll, "ppoll"),
	WAIT(__ppoll_chk, "ppoll"),
	WAIT(epoll_wait, "epoll_wait"),
	WAIT(epoll_pwait, "epoll_wait"),
	WAIT(epoll_pwait2, "epoll_wait"),

	SOSC_FAMILY_ALLOCATORS(MAKES)
	BLOCK(free, "free", ASKS_NOTHING, 0, 0, GIVES_BLOCK, 0),

	TEXT(PQexec, POSTGRES, "exec", 1, NO, 0, QUERY),
	TEXT(PQexecParams, POSTGRES, "exec", 1, NO, 2, QUERY),
	NAMED(PQexecPrepared, POSTGRES, "exec", 2),
	TEXT(PQsendQuery, POSTGRES, "send", 1, NO, 0, QUERY),
	TEXT(PQsendQueryParams, POSTGRES, "send", 1, NO, 2, QUERY),
	NAMED(PQsendQueryPrepared, POSTGRES, "send", 2),
	PLAIN(PQprepare, POSTGRES, "prepare", 0),
	PLAIN(PQsendPrepare, POSTGRES, "prepare", 0),
	PLAIN(PQgetResult, POSTGRES, "result", 0),
	PLAIN(PQconnectdb, POSTGRES, "connect", 0),
	PLAIN(PQconnectdbParams, POSTGRES, "connect", 0),
	PLAIN(PQconnectStart, POSTGRES, "connect", 0),
	PLAIN(PQconnectStartParams, POSTGRES, "connect", 0),
	LONG(PQsetdbLogin, POSTGRES, "connect", 2),
	PLAIN(PQfinish, POSTGRES, "finish", 0),
	ROW(PQputCopyData, POSTGRES, "copy_in", ASKS_INT, 2, 0, GETS_NOTHING, 0, 0, 0, 0),
	ROW(PQgetCopyData, POSTGRES, "copy_out", ASKS_NOTHING, 0, 0, GETS_INT, 0, 0, 0, 0),

	TEXT(mysql_query, MYSQL, "query", 1, NO, 0, QUERY),
	TEXT(mysql_real_query, MYSQL, "query", 1, 2, 0, QUERY),
	TEXT(mysql_send_query, MYSQL, "send", 1, 2, 0, QUERY),
	TEXT(mysql_real_query_start, MYSQL, "send", 2, 3, 0, QUERY),
	PLAIN(mysql_read_query_result, MYSQL, "result", 0),
	PLAIN(mysql_next_result, MYSQL, "result", 0),
	PLAIN(mysql_store_result, MYSQL, "result", 0),
	PLAIN(mysql_use_result, MYSQL, "result", 0),
	PLAIN(mysql_fetch_row, MYSQL, "fetch", 0),
	PLAIN(mysql_stmt_prepare, MYSQL, "prepare", 0),
	NAMED(mysql_stmt_execute, MYSQL, "execute", 0),
	PLAIN(mysql_stmt_store_result, MYSQL, "result", 0),
	PLAIN(mysql_stmt_fetch, MYSQL, "fetch", 0),
	LONG(mysql_real_connect, MYSQL, "connect", 2),
	PLAIN(mysql_close, MYSQL, "close", 0),
	PLAIN(mysql_commit, MYSQL, "commit", 0),
	PLAIN(mysql_rollback, MYSQL, "rollback", 0),
	PLAIN(mysql_autocommit, MYSQL, "autocommit", 0),
	PLAIN(mysql_ping, MYSQL, "ping", 0),

	ROW(memcached_get, MEMCACHE, "get", ASKS_NOTHING, 0, 0, GETS_SIZE_AT, 3, 5, 0,
	    SOSC_TALLY_ANSWER_AT),
	ROW(memcached_get_by_key, MEMCACHE, "get", ASKS_NOTHING, 0, 0, GETS_SIZE_AT, 5, 7, 2,
	    SOSC_TALLY_ANSWER_AT),
	ASK(memcached_mget, "mget", 0),
	ASK(memcached_mget_by_key, "mget", 0),
	ASK(memcached_mget_execute, "mget", 2),
	ASK(memcached_mget_execute_by_key, "mget", 4),
	ROW(memcached_fetch, MEMCACHE, "fetch", ASKS_NOTHING, 0, 0, GETS_SIZE_AT, 3, 5, 0,
	    SOSC_TALLY_ANSWER_AT),
	PLAIN(memcached_fetch_result, MEMCACHE, "fetch", 0),
	KEEP(memcached_set, "set", 4, 2),
	KEEP(memcached_set_by_key, "set", 6, 4),
	KEEP(memcached_add, "add", 4, 2),
	KEEP(memcached_add_by_key, "add", 6, 4),
	KEEP(memcached_replace, "replace", 4, 2),
	KEEP(memcached_replace_by_key, "replace", 6, 4),
	KEEP(memcached_append, "append", 4, 2),
	KEEP(memcached_append_by_key, "append", 6, 4),
	KEEP(memcached_prepend, "prepend", 4, 2),
	KEEP(memcached_prepend_by_key, "prepend", 6, 4),
	KEEP(memcached_cas, "cas", 4, 2),
	KEEP(memcached_cas_by_key, "cas", 6, 4),
	ASK(memcached_delete, "delete", 0),
	ASK(memcached_delete_by_key, "delete", 0),
	ASK(memcached_increment, "increment", 0),
	ASK(memcached_decrement, "decrement", 0),
	ASK(memcached_increment_by_key, "increment", 2),
	ASK(memcached_decrement_by_key, "decrement", 2),
	ASK(memcached_increment_with_initial, "increment", 2),
	ASK(memcached_decrement_with_initial, "decrement", 2),
	ASK(memcached_increment_with_initial_by_key, "increment", 4),
	ASK(memcached_decrement_with_initial_by_key, "decrement", 4),
	ASK(memcached_exist, "exist", 0),
	ASK(memcached_exist_by_key, "exist", 0),
	ASK(memcached_touch, "touch", 0),
	ASK(memcached_touch_by_key, "touch", 0),
	ASK(memcached_flush, "flush", 0),

	ROW(redisCommand, REDIS, "command", ASKS_NOTHING, 0, 0, GETS_NOTHING, 0, 0, 64, QUERY),
	PLAIN(redisvCommand, REDIS, "command", QUERY),
	PLAIN(redisCommandArgv, REDIS, "command", QUERY),
	ROW(redisAppendCommand, REDIS, "append", ASKS_NOTHING, 0, 0, GETS_NOTHING, 0, 0, 64, QUERY),
	PLAIN(redisvAppendCommand, REDIS, "append", QUERY),
	PLAIN(redisAppendCommandArgv, REDIS, "append", QUERY),
	PLAIN(redisGetReply, REDIS, "reply", 0),
	PLAIN(redisConnect, REDIS, "connect", 0),
	PLAIN(redisConnectWithTimeout, REDIS, "connect", 0),
	PLAIN(redisConnectUnix, REDIS, "connect", 0),
	PLAIN(redisConnectUnixWithTimeout, REDIS, "connect", 0),
	PLAIN(redisConnectWithOptions, REDIS, "connect", 0),
	ROW(redisAsyncCommand, REDIS, "async_command", ASKS_NOTHING, 0, 0, GETS_NOTHING, 0, 0, 64, QUERY),
	PLAIN(redisvAsyncCommand, REDIS, "async_command", QUERY),
	PLAIN(redisAsyncCommandArgv, REDIS, "async_command", QUERY),

	TEXT(sqlite3_exec, SQLITE, "exec", 1, NO, 0, QUERY),
	TEXT(sqlite3_get_table, SQLITE, "exec", 1, NO, 0, QUERY),
	ROW(sqlite3_step, SQLITE, "step", ASKS_STEP, 0, 0, GETS_NOTHING, 0, 0, 0, 0),
	PLAIN(sqlite3_prepare, SQLITE, "prepare", 0),
	PLAIN(sqlite3_prepare_v2, SQLITE, "prepare", 0),
	PLAIN(sqlite3_prepare_v3, SQLITE, "prepare", 0),
	PLAIN(sqlite3_prepare16_v2, SQLITE, "prepare", 0),
	PLAIN(sqlite3_finalize, SQLITE, "finalize", 0),
	PLAIN(sqlite3_reset, SQLITE, "reset", 0),
	PLAIN(sqlite3_open, SQLITE, "open", 0),
	PLAIN(sqlite3_open_v2, SQLITE, "open", 0),
	PLAIN(sqlite3_open16, SQLITE, "open", 0),
	PLAIN(sqlite3_close, SQLITE, "close", 0),
	PLAIN(sqlite3_close_v2, SQLITE, "close", 0),
	PLAIN(sqlite3_backup_step, SQLITE, "backup", 0),

	ROW(SSL_read, SSL, "read", ASKS_INT, 2, 0, GETS_INT, 0, 0, 0, 0),
	ROW(SSL_read_ex, SSL, "read", ASKS_SIZE, 2, 0, GETS_SIZE_IF, 3, 0, 0, 0),
	ROW(SSL_write, SSL, "write", ASKS_INT, 2, 0, GETS_INT, 0, 0, 0, 0),
	ROW(SSL_write_ex, SSL, "write", ASKS_SIZE, 2, 0, GETS_SIZE_IF, 3, 0, 0, 0),
	ROW(gnutls_record_recv, SSL, "read", ASKS_SIZE, 2, 0, GETS_RESULT, 0, 0, 0, 0),
	ROW(gnutls_record_send, SSL, "write", ASKS_SIZE, 2, 0, GETS_RESULT, 0, 0, 0, 0),
	PLAIN(SSL_connect, SSL, "handshake", 0),
	PLAIN(SSL_accept, SSL, "handshake", 0),
	PLAIN(SSL_do_handshake, SSL, "handshake", 0),
	PLAIN(gnutls_handshake, SSL, "handshake", 0),
	PLAIN(SSL_shutdown, SSL, "shutdown", 0),
	PLAIN(gnutls_bye, SSL, "shutdown", 0),
};
// clang-format on

enum { COUNT = sizeof(functions) / sizeof(*functions), PLACES = 1024 };

static uint16_t places[PLACES]; // by hash: the function's number + 1

/** Return all functions, which never change. */
const struct sosc_tally_function *sosc_tally_functions(uint32_t *count)
{
	*count = COUNT;
	return functions;
}

static void fill(void)
{
	for (uint32_t i = 0; i < COUNT; i++) {
		uint32_t at = sosc_gnu_hash(functions[i].name) % PLACES;

		while (places[at])
			at = (at + 1) % PLACES;
		places[at] = (uint16_t)(i + 1);
	}
}

/** Return the number of a function, SOSC_NONE: it is not in the table. */
uint32_t sosc_tally_function(const char *name)
{
	static bool is_filled;
	uint32_t at = sosc_gnu_hash(name) % PLACES;

	if (!is_filled)
		fill();
	is_filled = true;
	for (; places[at]; at = (at + 1) % PLACES)
		if (sosc_same(functions[places[at] - 1].name, name))
			return places[at] - 1u;
	return SOSC_NONE;
}

_Static_assert((int)COUNT <= (int)TALLY_FUNCTIONS_MAX, "tally.h");
_Static_assert(COUNT * 2 < PLACES, "so that a search soon ends");
