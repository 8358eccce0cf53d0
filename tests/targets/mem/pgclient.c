// SPDX-License-Identifier: Apache-2.0
// A client of PostgreSQL's own library, for traced.py. Its header need not be there.
#include <stddef.h>

void *PQconnectdb(const char *words);
int PQstatus(const void *connection);
void *PQexec(void *connection, const char *statement);
void *PQexecParams(void *connection, const char *statement, int count, const unsigned *types,
		   const char *const *values, const int *lengths, const int *formats, int format);
void *PQprepare(void *connection, const char *name, const char *statement, int count,
		const unsigned *types);
void *PQexecPrepared(void *connection, const char *name, int count, const char *const *values,
		     const int *lengths, const int *formats, int format);
int PQresultStatus(const void *result);
void PQclear(void *result);
void PQfinish(void *connection);

static int failed(void *result)
{
	int status = PQresultStatus(result);

	PQclear(result);
	return status != 1 && status != 2; // PGRES_COMMAND_OK, PGRES_TUPLES_OK
}

/** Make statements of all kinds; how many have failed. */
int run(const char *words)
{
	const char *const values[] = {"7"};
	void *connection = PQconnectdb(words);
	int bad = PQstatus(connection) != 0;

	bad += failed(PQexec(connection, "create table numbers (number int)"));
	for (int i = 0; i < 12; i++)
		bad += failed(PQexecParams(connection, "insert into numbers values ($1)", 1, NULL,
					   values, NULL, NULL, 0));
	for (int i = 0; i < 5; i++)
		bad += failed(PQexec(connection, "(SELECT count(*) from numbers)"));
	bad += failed(PQexec(connection, "/* a */ -- b\nupdate numbers set number = 8"));
	bad += failed(PQexec(connection, "Delete from numbers"));
	bad += failed(PQprepare(connection, "one", "select $1::int", 1, NULL));
	for (int i = 0; i < 4; i++)
		bad += failed(PQexecPrepared(connection, "one", 1, values, NULL, NULL, 0));
	PQfinish(connection);
	return bad;
}
