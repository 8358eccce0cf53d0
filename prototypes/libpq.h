// SPDX-License-Identifier: Apache-2.0
// PostgreSQL's client library.
// Types are those of the headers (scripts/declare.py writes them); the words behind them are ours.

typedef unsigned int Oid;
typedef int (*PQsslKeyPassHook_OpenSSL_type)(char *buf, int size, PGconn *conn);
typedef void (*pgthreadlock_t)(int acquire);
typedef void (*PQnoticeProcessor)(void *arg, const char *message);
typedef void (*PQnoticeReceiver)(void *arg, const PGresult *res);
typedef long pg_int64;

int PQbackendPID(const PGconn *conn);
int PQbinaryTuples(const PGresult *res);
int PQcancel(PGcancel *cancel, char *errbuf, int errbufsize) FAILS(== 0) ERRNO(none);
void PQclear(PGresult *res);
int PQclientEncoding(const PGconn *conn);
char *PQcmdStatus(PGresult *res);
char *PQcmdTuples(PGresult *res);
PQconninfoOption *PQconndefaults(void);
PostgresPollingStatusType PQconnectPoll(PGconn *conn);
PGconn *PQconnectStart(const char *conninfo) FAILS(== NULL) ERRNO(none);
PGconn *PQconnectStartParams(const char *const *keywords, const char *const *values, int
	expand_dbname) FAILS(== NULL) ERRNO(none);
PGconn *PQconnectdb(const char *conninfo) FAILS(== NULL) ERRNO(none);
PGconn *PQconnectdbParams(const char *const *keywords, const char *const *values, int
	expand_dbname) FAILS(== NULL) ERRNO(none);
int PQconnectionNeedsPassword(const PGconn *conn);
int PQconnectionUsedPassword(const PGconn *conn);
PQconninfoOption *PQconninfo(PGconn *conn);
void PQconninfoFree(PQconninfoOption *connOptions);
PQconninfoOption *PQconninfoParse(const char *conninfo, char **errmsg);
int PQconsumeInput(PGconn *conn) FAILS(== 0) ERRNO(none);
PGresult *PQcopyResult(const PGresult *src, int flags) FAILS(== NULL) ERRNO(none);
char *PQdb(const PGconn *conn);
int PQdefaultSSLKeyPassHook_OpenSSL(char *buf, int size, PGconn *conn);
PGresult *PQdescribePortal(PGconn *conn, const char *portal) FAILS(== NULL) ERRNO(none);
PGresult *PQdescribePrepared(PGconn *conn, const char *stmt) FAILS(== NULL) ERRNO(none);
void PQdisplayTuples(const PGresult *res, FILE *fp, int fillAlign, const char *fieldSep, int
	printHeader, int quiet);
int PQdsplen(const char *s, int encoding);
char *PQencryptPassword(const char *passwd, const char *user);
char *PQencryptPasswordConn(PGconn *conn, const char *passwd, const char *user, const char
	*algorithm);
int PQendcopy(PGconn *conn);
int PQenterPipelineMode(PGconn *conn) FAILS(== 0) ERRNO(none);
int PQenv2encoding(void);
char *PQerrorMessage(const PGconn *conn);
unsigned char *PQescapeBytea(const unsigned char *from, size_t from_length, size_t *to_length);
unsigned char *PQescapeByteaConn(PGconn *conn, const unsigned char *from, size_t
	from_length, size_t *to_length);
char *PQescapeIdentifier(PGconn *conn, const char *str, size_t len);
char *PQescapeLiteral(PGconn *conn, const char *str, size_t len);
size_t PQescapeString(char *to, const char *from, size_t length);
size_t PQescapeStringConn(PGconn *conn, char *to, const char *from, size_t length, int *error);
PGresult *PQexec(PGconn *conn, const char *query) FAILS(== NULL) ERRNO(none);
PGresult *PQexecParams(PGconn *conn, const char *command, int nParams, const Oid
	*paramTypes, const char *const *paramValues, const int *paramLengths, const int
	*paramFormats, int resultFormat) FAILS(== NULL) ERRNO(none);
PGresult *PQexecPrepared(PGconn *conn, const char *stmtName, int nParams, const char *const
	*paramValues, const int *paramLengths, const int *paramFormats, int resultFormat) FAILS(==
	NULL) ERRNO(none);
int PQexitPipelineMode(PGconn *conn) FAILS(== 0) ERRNO(none);
int PQfformat(const PGresult *res, int field_num);
void PQfinish(PGconn *conn);
int PQflush(PGconn *conn);
int PQfmod(const PGresult *res, int field_num);
PGresult *PQfn(PGconn *conn, int fnid, int *result_buf, int *result_len, int result_is_int,
	const PQArgBlock *args, int nargs) FAILS(== NULL) ERRNO(none);
char *PQfname(const PGresult *res, int field_num);
int PQfnumber(const PGresult *res, const char *field_name);
void PQfreeCancel(PGcancel *cancel);
void PQfreemem(void *ptr);
int PQfsize(const PGresult *res, int field_num);
Oid PQftable(const PGresult *res, int field_num);
int PQftablecol(const PGresult *res, int field_num);
Oid PQftype(const PGresult *res, int field_num);
PGcancel *PQgetCancel(PGconn *conn) FAILS(== NULL) ERRNO(none);
int PQgetCopyData(PGconn *conn, char **buffer OUT(result > 0), int async) FAILS(< 0) ERRNO(none);
PGresult *PQgetResult(PGconn *conn) FAILS(== NULL) ERRNO(none);
PQsslKeyPassHook_OpenSSL_type PQgetSSLKeyPassHook_OpenSSL(void);
void *PQgetgssctx(PGconn *conn);
int PQgetisnull(const PGresult *res, int tup_num, int field_num);
int PQgetlength(const PGresult *res, int tup_num, int field_num);
int PQgetline(PGconn *conn, char *string, int length);
int PQgetlineAsync(PGconn *conn, char *buffer, int bufsize);
void *PQgetssl(PGconn *conn);
char *PQgetvalue(const PGresult *res, int tup_num, int field_num);
int PQgssEncInUse(PGconn *conn);
char *PQhost(const PGconn *conn);
char *PQhostaddr(const PGconn *conn);
void PQinitOpenSSL(int do_ssl, int do_crypto);
void PQinitSSL(int do_init);
int PQisBusy(PGconn *conn);
int PQisnonblocking(const PGconn *conn);
int PQisthreadsafe(void);
int PQlibVersion(void);
PGresult *PQmakeEmptyPGresult(PGconn *conn, ExecStatusType status) FAILS(== NULL) ERRNO(none);
int PQmblen(const char *s, int encoding);
int PQmblenBounded(const char *s, int encoding);
int PQnfields(const PGresult *res);
PGnotify *PQnotifies(PGconn *conn);
int PQnparams(const PGresult *res);
int PQntuples(const PGresult *res);
char *PQoidStatus(const PGresult *res);
Oid PQoidValue(const PGresult *res);
char *PQoptions(const PGconn *conn);
const char *PQparameterStatus(const PGconn *conn, const char *paramName);
Oid PQparamtype(const PGresult *res, int param_num);
char *PQpass(const PGconn *conn);
PGPing PQping(const char *conninfo);
PGPing PQpingParams(const char *const *keywords, const char *const *values, int expand_dbname);
PGpipelineStatus PQpipelineStatus(const PGconn *conn);
int PQpipelineSync(PGconn *conn) FAILS(== 0) ERRNO(none);
char *PQport(const PGconn *conn);
PGresult *PQprepare(PGconn *conn, const char *stmtName, const char *query, int nParams,
	const Oid *paramTypes) FAILS(== NULL) ERRNO(none);
void PQprint(FILE *fout, const PGresult *res, const PQprintOpt *ps);
void PQprintTuples(const PGresult *res, FILE *fout, int PrintAttNames, int TerseOutput, int
	colWidth);
int PQprotocolVersion(const PGconn *conn);
int PQputCopyData(PGconn *conn, const char *buffer BYTES(nbytes), int nbytes) FAILS(== -1)
	ERRNO(none);
int PQputCopyEnd(PGconn *conn, const char *errormsg);
int PQputline(PGconn *conn, const char *string);
int PQputnbytes(PGconn *conn, const char *buffer, int nbytes);
pgthreadlock_t PQregisterThreadLock(pgthreadlock_t newhandler);
int PQrequestCancel(PGconn *conn) FAILS(== 0) ERRNO(none);
char *PQresStatus(ExecStatusType status);
void PQreset(PGconn *conn);
PostgresPollingStatusType PQresetPoll(PGconn *conn);
int PQresetStart(PGconn *conn);
void *PQresultAlloc(PGresult *res, size_t nBytes);
char *PQresultErrorField(const PGresult *res, int fieldcode);
char *PQresultErrorMessage(const PGresult *res);
size_t PQresultMemorySize(const PGresult *res);
ExecStatusType PQresultStatus(const PGresult *res);
char *PQresultVerboseErrorMessage(const PGresult *res, PGVerbosity verbosity,
	PGContextVisibility show_context);
int PQsendDescribePortal(PGconn *conn, const char *portal) FAILS(== 0) ERRNO(none);
int PQsendDescribePrepared(PGconn *conn, const char *stmt) FAILS(== 0) ERRNO(none);
int PQsendFlushRequest(PGconn *conn) FAILS(== 0) ERRNO(none);
int PQsendPrepare(PGconn *conn, const char *stmtName, const char *query, int nParams, const
	Oid *paramTypes) FAILS(== 0) ERRNO(none);
int PQsendQuery(PGconn *conn, const char *query) FAILS(== 0) ERRNO(none);
int PQsendQueryParams(PGconn *conn, const char *command, int nParams, const Oid *paramTypes,
	const char *const *paramValues, const int *paramLengths, const int *paramFormats, int
	resultFormat) FAILS(== 0) ERRNO(none);
int PQsendQueryPrepared(PGconn *conn, const char *stmtName, int nParams, const char *const
	*paramValues, const int *paramLengths, const int *paramFormats, int resultFormat) FAILS(==
	0) ERRNO(none);
int PQserverVersion(const PGconn *conn);
int PQsetClientEncoding(PGconn *conn, const char *encoding) FAILS(== 0) ERRNO(none);
PGContextVisibility PQsetErrorContextVisibility(PGconn *conn, PGContextVisibility show_context);
PGVerbosity PQsetErrorVerbosity(PGconn *conn, PGVerbosity verbosity);
PQnoticeProcessor PQsetNoticeProcessor(PGconn *conn, PQnoticeProcessor proc, void *arg);
PQnoticeReceiver PQsetNoticeReceiver(PGconn *conn, PQnoticeReceiver proc, void *arg);
int PQsetResultAttrs(PGresult *res, int numAttributes, PGresAttDesc *attDescs);
void PQsetSSLKeyPassHook_OpenSSL(PQsslKeyPassHook_OpenSSL_type hook);
int PQsetSingleRowMode(PGconn *conn) FAILS(== 0) ERRNO(none);
void PQsetTraceFlags(PGconn *conn, int flags);
PGconn *PQsetdbLogin(const char *pghost, const char *pgport, const char *pgoptions, const
	char *pgtty, const char *dbName, const char *login, const char *pwd) FAILS(== NULL)
	ERRNO(none);
int PQsetnonblocking(PGconn *conn, int arg) FAILS(== 0) ERRNO(none);
int PQsetvalue(PGresult *res, int tup_num, int field_num, char *value, int len);
int PQsocket(const PGconn *conn);
const char *PQsslAttribute(PGconn *conn, const char *attribute_name);
const char *const *PQsslAttributeNames(PGconn *conn);
int PQsslInUse(PGconn *conn);
void *PQsslStruct(PGconn *conn, const char *struct_name);
ConnStatusType PQstatus(const PGconn *conn);
void PQtrace(PGconn *conn, FILE *debug_port);
PGTransactionStatusType PQtransactionStatus(const PGconn *conn);
char *PQtty(const PGconn *conn);
unsigned char *PQunescapeBytea(const unsigned char *strtext, size_t *retbuflen);
void PQuntrace(PGconn *conn);
char *PQuser(const PGconn *conn);
int lo_close(PGconn *conn, int fd);
Oid lo_creat(PGconn *conn, int mode);
Oid lo_create(PGconn *conn, Oid lobjId);
int lo_export(PGconn *conn, Oid lobjId, const char *filename);
Oid lo_import(PGconn *conn, const char *filename);
Oid lo_import_with_oid(PGconn *conn, const char *filename, Oid lobjId);
int lo_lseek(PGconn *conn, int fd, int offset, int whence);
pg_int64 lo_lseek64(PGconn *conn, int fd, pg_int64 offset, int whence);
int lo_open(PGconn *conn, Oid lobjId, int mode);
int lo_read(PGconn *conn, int fd, char *buf, size_t len);
int lo_tell(PGconn *conn, int fd);
pg_int64 lo_tell64(PGconn *conn, int fd);
int lo_truncate(PGconn *conn, int fd, size_t len);
int lo_truncate64(PGconn *conn, int fd, pg_int64 len);
int lo_unlink(PGconn *conn, Oid lobjId);
int lo_write(PGconn *conn, int fd, const char *buf, size_t len);
int pg_char_to_encoding(const char *name);
const char *pg_encoding_to_char(int encoding);
int pg_valid_server_encoding_id(int encoding);
