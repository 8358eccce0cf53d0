// SPDX-License-Identifier: Apache-2.0
// SQLite.
// Types are those of the headers (scripts/declare.py writes them); the words behind them are ours.

typedef unsigned long long sqlite_uint64;
typedef sqlite_uint64 sqlite3_uint64;
typedef long long sqlite_int64;
typedef sqlite_int64 sqlite3_int64;
typedef const char *sqlite3_filename;

void *sqlite3_aggregate_context(sqlite3_context *arg1, int nBytes);
int sqlite3_aggregate_count(sqlite3_context *arg1);
int sqlite3_auto_extension(void (*xEntryPoint)(void)) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_autovacuum_pages(sqlite3 *db, unsigned int (*arg2)(void *, const char *,
	unsigned int, unsigned int, unsigned int), void *arg3, void (*arg4)(void *));
int sqlite3_backup_finish(sqlite3_backup *p) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
sqlite3_backup *sqlite3_backup_init(sqlite3 *pDest, const char *zDestName, sqlite3 *pSource,
	const char *zSourceName);
int sqlite3_backup_pagecount(sqlite3_backup *p);
int sqlite3_backup_remaining(sqlite3_backup *p);
int sqlite3_backup_step(sqlite3_backup *p, int nPage) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_bind_blob(sqlite3_stmt *stmt, int index, const void *value BYTES(size), int
	size, void (*destroy)(void *)) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_bind_blob64(sqlite3_stmt *arg1, int arg2, const void *arg3, sqlite3_uint64 arg4,
	void (*arg5)(void *)) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_bind_double(sqlite3_stmt *arg1, int arg2, double arg3) ENUM(sqlite) FAILS(!= 0)
	ERRNO(none);
int sqlite3_bind_int(sqlite3_stmt *arg1, int arg2, int arg3) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_bind_int64(sqlite3_stmt *arg1, int arg2, sqlite3_int64 arg3) ENUM(sqlite)
	FAILS(!= 0) ERRNO(none);
int sqlite3_bind_null(sqlite3_stmt *arg1, int arg2) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_bind_parameter_count(sqlite3_stmt *arg1);
int sqlite3_bind_parameter_index(sqlite3_stmt *arg1, const char *zName);
const char *sqlite3_bind_parameter_name(sqlite3_stmt *arg1, int arg2);
int sqlite3_bind_pointer(sqlite3_stmt *arg1, int arg2, void *arg3, const char *arg4, void
	(*arg5)(void *)) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_bind_text(sqlite3_stmt *arg1, int arg2, const char *arg3, int arg4, void
	(*arg5)(void *)) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_bind_text16(sqlite3_stmt *arg1, int arg2, const void *arg3, int arg4, void
	(*arg5)(void *)) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_bind_text64(sqlite3_stmt *arg1, int arg2, const char *arg3, sqlite3_uint64 arg4,
	void (*arg5)(void *), unsigned char encoding) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_bind_value(sqlite3_stmt *arg1, int arg2, const sqlite3_value *arg3) ENUM(sqlite)
	FAILS(!= 0) ERRNO(none);
int sqlite3_bind_zeroblob(sqlite3_stmt *arg1, int arg2, int n) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_bind_zeroblob64(sqlite3_stmt *arg1, int arg2, sqlite3_uint64 arg3) ENUM(sqlite)
	FAILS(!= 0) ERRNO(none);
int sqlite3_blob_bytes(sqlite3_blob *arg1);
int sqlite3_blob_close(sqlite3_blob *arg1) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_blob_open(sqlite3 *arg1, const char *zDb, const char *zTable, const char
	*zColumn, sqlite3_int64 iRow, int flags, sqlite3_blob **ppBlob) ENUM(sqlite) FAILS(!= 0)
	ERRNO(none);
int sqlite3_blob_read(sqlite3_blob *arg1, void *Z, int N, int iOffset) ENUM(sqlite) FAILS(!=
	0) ERRNO(none);
int sqlite3_blob_reopen(sqlite3_blob *arg1, sqlite3_int64 arg2) ENUM(sqlite) FAILS(!= 0)
	ERRNO(none);
int sqlite3_blob_write(sqlite3_blob *arg1, const void *z, int n, int iOffset) ENUM(sqlite)
	FAILS(!= 0) ERRNO(none);
int sqlite3_busy_handler(sqlite3 *arg1, int (*arg2)(void *, int), void *arg3) ENUM(sqlite)
	FAILS(!= 0) ERRNO(none);
int sqlite3_busy_timeout(sqlite3 *arg1, int ms) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_cancel_auto_extension(void (*xEntryPoint)(void));
int sqlite3_changes(sqlite3 *arg1);
sqlite3_int64 sqlite3_changes64(sqlite3 *arg1);
int sqlite3_clear_bindings(sqlite3_stmt *arg1) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_close(sqlite3 *arg1) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_close_v2(sqlite3 *arg1) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_collation_needed(sqlite3 *arg1, void *arg2, void (*arg3)(void *, sqlite3 *, int
	eTextRep, const char *)) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_collation_needed16(sqlite3 *arg1, void *arg2, void (*arg3)(void *, sqlite3 *,
	int eTextRep, const void *)) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
const void *sqlite3_column_blob(sqlite3_stmt *arg1, int iCol);
int sqlite3_column_bytes(sqlite3_stmt *arg1, int iCol);
int sqlite3_column_bytes16(sqlite3_stmt *arg1, int iCol);
int sqlite3_column_count(sqlite3_stmt *pStmt);
const char *sqlite3_column_database_name(sqlite3_stmt *arg1, int arg2);
const void *sqlite3_column_database_name16(sqlite3_stmt *arg1, int arg2);
const char *sqlite3_column_decltype(sqlite3_stmt *arg1, int arg2);
const void *sqlite3_column_decltype16(sqlite3_stmt *arg1, int arg2);
double sqlite3_column_double(sqlite3_stmt *arg1, int iCol);
int sqlite3_column_int(sqlite3_stmt *arg1, int iCol);
sqlite3_int64 sqlite3_column_int64(sqlite3_stmt *arg1, int iCol);
const char *sqlite3_column_name(sqlite3_stmt *arg1, int N);
const void *sqlite3_column_name16(sqlite3_stmt *arg1, int N);
const char *sqlite3_column_origin_name(sqlite3_stmt *arg1, int arg2);
const void *sqlite3_column_origin_name16(sqlite3_stmt *arg1, int arg2);
const char *sqlite3_column_table_name(sqlite3_stmt *arg1, int arg2);
const void *sqlite3_column_table_name16(sqlite3_stmt *arg1, int arg2);
const unsigned char *sqlite3_column_text(sqlite3_stmt *stmt, int column) STRING;
const void *sqlite3_column_text16(sqlite3_stmt *arg1, int iCol);
int sqlite3_column_type(sqlite3_stmt *stmt, int column) ENUM(sqlite_type);
sqlite3_value *sqlite3_column_value(sqlite3_stmt *arg1, int iCol);
void *sqlite3_commit_hook(sqlite3 *arg1, int (*arg2)(void *), void *arg3);
const char *sqlite3_compileoption_get(int N);
int sqlite3_compileoption_used(const char *zOptName);
int sqlite3_complete(const char *sql);
int sqlite3_complete16(const void *sql);
int sqlite3_config(int option ENUM(sqlite_config), ...
	OPTIONAL(void, option == SQLITE_CONFIG_SINGLETHREAD | SQLITE_CONFIG_MULTITHREAD |
	SQLITE_CONFIG_SERIALIZED)
	OPTIONAL(int value, option == SQLITE_CONFIG_MEMSTATUS | SQLITE_CONFIG_URI |
	SQLITE_CONFIG_COVERING_INDEX_SCAN | SQLITE_CONFIG_STMTJRNL_SPILL |
	SQLITE_CONFIG_SMALL_MALLOC | SQLITE_CONFIG_SORTERREF_SIZE | SQLITE_CONFIG_WIN32_HEAPSIZE)
	OPTIONAL(unsigned int size, option == SQLITE_CONFIG_PMASZ)
	OPTIONAL(int size, int count, option == SQLITE_CONFIG_LOOKASIDE)
	OPTIONAL(long size, long most, option == SQLITE_CONFIG_MMAP_SIZE)
	OPTIONAL(long size, option == SQLITE_CONFIG_MEMDB_MAXSIZE)
	OPTIONAL(void *memory, int size, int least, option == SQLITE_CONFIG_PAGECACHE |
	SQLITE_CONFIG_HEAP)
	OPTIONAL(void (*log)(void *, int, const char *), void *argument, option ==
	SQLITE_CONFIG_LOG)
	OPTIONAL(int *size OUT(success), option == SQLITE_CONFIG_PCACHE_HDRSZ)
	OPTIONAL(void *methods, 1)) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
sqlite3 *sqlite3_context_db_handle(sqlite3_context *arg1);
int sqlite3_create_collation(sqlite3 *arg1, const char *zName, int eTextRep, void *pArg, int
	(*xCompare)(void *, int, const void *, int, const void *)) ENUM(sqlite) FAILS(!= 0)
	ERRNO(none);
int sqlite3_create_collation16(sqlite3 *arg1, const void *zName, int eTextRep, void *pArg,
	int (*xCompare)(void *, int, const void *, int, const void *)) ENUM(sqlite) FAILS(!= 0)
	ERRNO(none);
int sqlite3_create_collation_v2(sqlite3 *arg1, const char *zName, int eTextRep, void *pArg,
	int (*xCompare)(void *, int, const void *, int, const void *), void (*xDestroy)(void *))
	ENUM(sqlite) FAILS(!= 0) ERRNO(none);
sqlite3_filename sqlite3_create_filename(const char *zDatabase, const char *zJournal, const
	char *zWal, int nParam, const char **azParam);
int sqlite3_create_function(sqlite3 *db, const char *zFunctionName, int nArg, int eTextRep,
	void *pApp, void (*xFunc)(sqlite3_context *, int, sqlite3_value **), void
	(*xStep)(sqlite3_context *, int, sqlite3_value **), void (*xFinal)(sqlite3_context *))
	ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_create_function16(sqlite3 *db, const void *zFunctionName, int nArg, int
	eTextRep, void *pApp, void (*xFunc)(sqlite3_context *, int, sqlite3_value **), void
	(*xStep)(sqlite3_context *, int, sqlite3_value **), void (*xFinal)(sqlite3_context *))
	ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_create_function_v2(sqlite3 *db, const char *zFunctionName, int nArg, int
	eTextRep, void *pApp, void (*xFunc)(sqlite3_context *, int, sqlite3_value **), void
	(*xStep)(sqlite3_context *, int, sqlite3_value **), void (*xFinal)(sqlite3_context *), void
	(*xDestroy)(void *)) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_create_module(sqlite3 *db, const char *zName, const sqlite3_module *p, void
	*pClientData) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_create_module_v2(sqlite3 *db, const char *zName, const sqlite3_module *p, void
	*pClientData, void (*xDestroy)(void *)) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_create_window_function(sqlite3 *db, const char *zFunctionName, int nArg, int
	eTextRep, void *pApp, void (*xStep)(sqlite3_context *, int, sqlite3_value **), void
	(*xFinal)(sqlite3_context *), void (*xValue)(sqlite3_context *), void
	(*xInverse)(sqlite3_context *, int, sqlite3_value **), void (*xDestroy)(void *))
	ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_data_count(sqlite3_stmt *pStmt);
sqlite3_file *sqlite3_database_file_object(const char *arg1);
int sqlite3_db_cacheflush(sqlite3 *arg1);
int sqlite3_db_config(sqlite3 *arg1, int op ENUM(sqlite_dbconfig), ...
	OPTIONAL(const char *name, op == SQLITE_DBCONFIG_MAINDBNAME)
	OPTIONAL(void *memory, int size, int count, op == SQLITE_DBCONFIG_LOOKASIDE)
	OPTIONAL(int wanted, int *is OUT(success), 1)) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
sqlite3_filename sqlite3_db_filename(sqlite3 *db, const char *zDbName);
sqlite3 *sqlite3_db_handle(sqlite3_stmt *arg1);
sqlite3_mutex *sqlite3_db_mutex(sqlite3 *arg1);
const char *sqlite3_db_name(sqlite3 *db, int N);
int sqlite3_db_readonly(sqlite3 *db, const char *zDbName);
int sqlite3_db_release_memory(sqlite3 *arg1);
int sqlite3_db_status(sqlite3 *arg1, int op, int *pCur, int *pHiwtr, int resetFlg)
	ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_declare_vtab(sqlite3 *arg1, const char *zSQL) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_deserialize(sqlite3 *db, const char *zSchema, unsigned char *pData,
	sqlite3_int64 szDb, sqlite3_int64 szBuf, unsigned mFlags) ENUM(sqlite) FAILS(!= 0)
	ERRNO(none);
int sqlite3_drop_modules(sqlite3 *db, const char **azKeep);
int sqlite3_enable_load_extension(sqlite3 *db, int onoff) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_enable_shared_cache(int arg1) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_errcode(sqlite3 *db) ENUM(sqlite);
const char *sqlite3_errmsg(sqlite3 *arg1);
const void *sqlite3_errmsg16(sqlite3 *arg1);
int sqlite3_error_offset(sqlite3 *db);
const char *sqlite3_errstr(int code ENUM(sqlite));
int sqlite3_exec(sqlite3 *db, const char *sql, int (*callback)(void *, int, char **, char
	**), void *data, char **message) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
char *sqlite3_expanded_sql(sqlite3_stmt *pStmt);
int sqlite3_expired(sqlite3_stmt *arg1);
int sqlite3_extended_errcode(sqlite3 *db) ENUM(sqlite);
int sqlite3_extended_result_codes(sqlite3 *arg1, int onoff) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_file_control(sqlite3 *arg1, const char *zDbName, int op, void *arg4)
	ENUM(sqlite) FAILS(!= 0) ERRNO(none);
const char *sqlite3_filename_database(sqlite3_filename arg1);
const char *sqlite3_filename_journal(sqlite3_filename arg1);
const char *sqlite3_filename_wal(sqlite3_filename arg1);
int sqlite3_finalize(sqlite3_stmt *pStmt) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
void sqlite3_free(void *arg1);
void sqlite3_free_filename(sqlite3_filename arg1);
void sqlite3_free_table(char **result);
int sqlite3_get_autocommit(sqlite3 *arg1);
void *sqlite3_get_auxdata(sqlite3_context *arg1, int N);
int sqlite3_get_table(sqlite3 *db, const char *zSql, char ***pazResult, int *pnRow, int
	*pnColumn, char **pzErrmsg) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_global_recover(void);
sqlite3_int64 sqlite3_hard_heap_limit64(sqlite3_int64 N);
int sqlite3_initialize(void) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
void sqlite3_interrupt(sqlite3 *arg1);
int sqlite3_keyword_check(const char *arg1, int arg2);
int sqlite3_keyword_count(void);
int sqlite3_keyword_name(int arg1, const char **arg2, int *arg3);
sqlite3_int64 sqlite3_last_insert_rowid(sqlite3 *arg1);
const char *sqlite3_libversion(void);
int sqlite3_libversion_number(void);
int sqlite3_limit(sqlite3 *arg1, int id, int newVal);
int sqlite3_load_extension(sqlite3 *db, const char *zFile, const char *zProc, char
	**pzErrMsg) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
void sqlite3_log(int iErrCode, const char *zFormat, ...);
void *sqlite3_malloc(int arg1);
void *sqlite3_malloc64(sqlite3_uint64 arg1);
int sqlite3_memory_alarm(void (*arg1)(void *, sqlite3_int64, int), void *arg2, sqlite3_int64 arg3);
sqlite3_int64 sqlite3_memory_highwater(int resetFlag);
sqlite3_int64 sqlite3_memory_used(void);
char *sqlite3_mprintf(const char *arg1, ...);
sqlite3_uint64 sqlite3_msize(void *arg1);
sqlite3_mutex *sqlite3_mutex_alloc(int arg1);
void sqlite3_mutex_enter(sqlite3_mutex *arg1);
void sqlite3_mutex_free(sqlite3_mutex *arg1);
void sqlite3_mutex_leave(sqlite3_mutex *arg1);
int sqlite3_mutex_try(sqlite3_mutex *arg1);
sqlite3_stmt *sqlite3_next_stmt(sqlite3 *pDb, sqlite3_stmt *pStmt);
int sqlite3_open(const char *filename, sqlite3 **db OUT(always)) ENUM(sqlite) FAILS(!= 0)
	ERRNO(none);
int sqlite3_open16(const void *filename, sqlite3 **ppDb) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_open_v2(const char *filename, sqlite3 **db OUT(always), int flags
	FLAGS(sqlite_open), const char *vfs) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_os_end(void);
int sqlite3_os_init(void);
int sqlite3_overload_function(sqlite3 *arg1, const char *zFuncName, int nArg) ENUM(sqlite)
	FAILS(!= 0) ERRNO(none);
int sqlite3_prepare(sqlite3 *db, const char *sql, int size, sqlite3_stmt **stmt
	OUT(success), const char **tail) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_prepare16(sqlite3 *db, const void *zSql, int nByte, sqlite3_stmt **ppStmt, const
	void **pzTail) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_prepare16_v2(sqlite3 *db, const void *zSql, int nByte, sqlite3_stmt **ppStmt,
	const void **pzTail) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_prepare16_v3(sqlite3 *db, const void *zSql, int nByte, unsigned int prepFlags,
	sqlite3_stmt **ppStmt, const void **pzTail) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_prepare_v2(sqlite3 *db, const char *sql, int size, sqlite3_stmt **stmt
	OUT(success), const char **tail) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_prepare_v3(sqlite3 *db, const char *sql, int size, unsigned int flags HEX,
	sqlite3_stmt **stmt OUT(success), const char **tail) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
void *sqlite3_profile(sqlite3 *arg1, void (*xProfile)(void *, const char *, sqlite3_uint64),
	void *arg3);
void sqlite3_progress_handler(sqlite3 *arg1, int arg2, int (*arg3)(void *), void *arg4);
void sqlite3_randomness(int N, void *P);
void *sqlite3_realloc(void *arg1, int arg2);
void *sqlite3_realloc64(void *arg1, sqlite3_uint64 arg2);
int sqlite3_release_memory(int arg1);
int sqlite3_reset(sqlite3_stmt *pStmt) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
void sqlite3_reset_auto_extension(void);
void sqlite3_result_blob(sqlite3_context *arg1, const void *arg2, int arg3, void (*arg4)(void *));
void sqlite3_result_blob64(sqlite3_context *arg1, const void *arg2, sqlite3_uint64 arg3,
	void (*arg4)(void *));
void sqlite3_result_double(sqlite3_context *arg1, double arg2);
void sqlite3_result_error(sqlite3_context *arg1, const char *arg2, int arg3);
void sqlite3_result_error16(sqlite3_context *arg1, const void *arg2, int arg3);
void sqlite3_result_error_code(sqlite3_context *arg1, int arg2);
void sqlite3_result_error_nomem(sqlite3_context *arg1);
void sqlite3_result_error_toobig(sqlite3_context *arg1);
void sqlite3_result_int(sqlite3_context *arg1, int arg2);
void sqlite3_result_int64(sqlite3_context *arg1, sqlite3_int64 arg2);
void sqlite3_result_null(sqlite3_context *arg1);
void sqlite3_result_pointer(sqlite3_context *arg1, void *arg2, const char *arg3, void
	(*arg4)(void *));
void sqlite3_result_subtype(sqlite3_context *arg1, unsigned int arg2);
void sqlite3_result_text(sqlite3_context *arg1, const char *arg2, int arg3, void (*arg4)(void *));
void sqlite3_result_text16(sqlite3_context *arg1, const void *arg2, int arg3, void (*arg4)(void *));
void sqlite3_result_text16be(sqlite3_context *arg1, const void *arg2, int arg3, void
	(*arg4)(void *));
void sqlite3_result_text16le(sqlite3_context *arg1, const void *arg2, int arg3, void
	(*arg4)(void *));
void sqlite3_result_text64(sqlite3_context *arg1, const char *arg2, sqlite3_uint64 arg3,
	void (*arg4)(void *), unsigned char encoding);
void sqlite3_result_value(sqlite3_context *arg1, sqlite3_value *arg2);
void sqlite3_result_zeroblob(sqlite3_context *arg1, int n);
int sqlite3_result_zeroblob64(sqlite3_context *arg1, sqlite3_uint64 n);
void *sqlite3_rollback_hook(sqlite3 *arg1, void (*arg2)(void *), void *arg3);
int sqlite3_rtree_geometry_callback(sqlite3 *db, const char *zGeom, int
	(*xGeom)(sqlite3_rtree_geometry *, int, sqlite3_rtree_dbl *, int *), void *pContext)
	ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_rtree_query_callback(sqlite3 *db, const char *zQueryFunc, int
	(*xQueryFunc)(sqlite3_rtree_query_info *), void *pContext, void (*xDestructor)(void *))
	ENUM(sqlite) FAILS(!= 0) ERRNO(none);
unsigned char *sqlite3_serialize(sqlite3 *db, const char *zSchema, sqlite3_int64 *piSize,
	unsigned int mFlags);
int sqlite3_set_authorizer(sqlite3 *arg1, int (*xAuth)(void *, int, const char *, const char
	*, const char *, const char *), void *pUserData) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
void sqlite3_set_auxdata(sqlite3_context *arg1, int N, void *arg3, void (*arg4)(void *));
void sqlite3_set_last_insert_rowid(sqlite3 *arg1, sqlite3_int64 arg2);
int sqlite3_shutdown(void) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_sleep(int arg1);
char *sqlite3_snprintf(int arg1, char *arg2, const char *arg3, ...);
void sqlite3_soft_heap_limit(int N);
sqlite3_int64 sqlite3_soft_heap_limit64(sqlite3_int64 N);
const char *sqlite3_sourceid(void);
const char *sqlite3_sql(sqlite3_stmt *pStmt);
int sqlite3_status(int op, int *pCurrent, int *pHighwater, int resetFlag) ENUM(sqlite)
	FAILS(!= 0) ERRNO(none);
int sqlite3_status64(int op, sqlite3_int64 *pCurrent, sqlite3_int64 *pHighwater, int
	resetFlag) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_step(sqlite3_stmt *stmt) ENUM(sqlite);
int sqlite3_stmt_busy(sqlite3_stmt *arg1);
int sqlite3_stmt_isexplain(sqlite3_stmt *pStmt);
int sqlite3_stmt_readonly(sqlite3_stmt *pStmt);
int sqlite3_stmt_status(sqlite3_stmt *arg1, int op, int resetFlg);
void sqlite3_str_append(sqlite3_str *arg1, const char *zIn, int N);
void sqlite3_str_appendall(sqlite3_str *arg1, const char *zIn);
void sqlite3_str_appendchar(sqlite3_str *arg1, int N, char C);
void sqlite3_str_appendf(sqlite3_str *arg1, const char *zFormat, ...);
int sqlite3_str_errcode(sqlite3_str *arg1);
char *sqlite3_str_finish(sqlite3_str *arg1);
int sqlite3_str_length(sqlite3_str *arg1);
sqlite3_str *sqlite3_str_new(sqlite3 *arg1);
void sqlite3_str_reset(sqlite3_str *arg1);
char *sqlite3_str_value(sqlite3_str *arg1);
void sqlite3_str_vappendf(sqlite3_str *arg1, const char *zFormat, va_list arg3);
int sqlite3_strglob(const char *zGlob, const char *zStr);
int sqlite3_stricmp(const char *arg1, const char *arg2);
int sqlite3_strlike(const char *zGlob, const char *zStr, unsigned int cEsc);
int sqlite3_strnicmp(const char *arg1, const char *arg2, int arg3);
int sqlite3_system_errno(sqlite3 *arg1);
int sqlite3_table_column_metadata(sqlite3 *db, const char *zDbName, const char *zTableName,
	const char *zColumnName, const char **pzDataType, const char **pzCollSeq, int *pNotNull, int
	*pPrimaryKey, int *pAutoinc) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_test_control(int op, ...);
void sqlite3_thread_cleanup(void);
int sqlite3_threadsafe(void);
int sqlite3_total_changes(sqlite3 *arg1);
sqlite3_int64 sqlite3_total_changes64(sqlite3 *arg1);
void *sqlite3_trace(sqlite3 *arg1, void (*xTrace)(void *, const char *), void *arg3);
int sqlite3_trace_v2(sqlite3 *arg1, unsigned uMask, int (*xCallback)(unsigned, void *, void
	*, void *), void *pCtx) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_transfer_bindings(sqlite3_stmt *arg1, sqlite3_stmt *arg2) ENUM(sqlite) FAILS(!=
	0) ERRNO(none);
int sqlite3_txn_state(sqlite3 *arg1, const char *zSchema);
int sqlite3_unlock_notify(sqlite3 *pBlocked, void (*xNotify)(void **apArg, int nArg), void
	*pNotifyArg) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
void *sqlite3_update_hook(sqlite3 *arg1, void (*arg2)(void *, int, const char *, const char
	*, sqlite3_int64), void *arg3);
int sqlite3_uri_boolean(sqlite3_filename z, const char *zParam, int bDefault);
sqlite3_int64 sqlite3_uri_int64(sqlite3_filename arg1, const char *arg2, sqlite3_int64 arg3);
const char *sqlite3_uri_key(sqlite3_filename z, int N);
const char *sqlite3_uri_parameter(sqlite3_filename z, const char *zParam);
void *sqlite3_user_data(sqlite3_context *arg1);
const void *sqlite3_value_blob(sqlite3_value *arg1);
int sqlite3_value_bytes(sqlite3_value *arg1);
int sqlite3_value_bytes16(sqlite3_value *arg1);
double sqlite3_value_double(sqlite3_value *arg1);
sqlite3_value *sqlite3_value_dup(const sqlite3_value *arg1);
int sqlite3_value_encoding(sqlite3_value *arg1);
void sqlite3_value_free(sqlite3_value *arg1);
int sqlite3_value_frombind(sqlite3_value *arg1);
int sqlite3_value_int(sqlite3_value *arg1);
sqlite3_int64 sqlite3_value_int64(sqlite3_value *arg1);
int sqlite3_value_nochange(sqlite3_value *arg1);
int sqlite3_value_numeric_type(sqlite3_value *arg1);
void *sqlite3_value_pointer(sqlite3_value *arg1, const char *arg2);
unsigned int sqlite3_value_subtype(sqlite3_value *arg1);
const unsigned char *sqlite3_value_text(sqlite3_value *value) STRING;
const void *sqlite3_value_text16(sqlite3_value *arg1);
const void *sqlite3_value_text16be(sqlite3_value *arg1);
const void *sqlite3_value_text16le(sqlite3_value *arg1);
int sqlite3_value_type(sqlite3_value *value) ENUM(sqlite_type);
sqlite3_vfs *sqlite3_vfs_find(const char *zVfsName);
int sqlite3_vfs_register(sqlite3_vfs *arg1, int makeDflt);
int sqlite3_vfs_unregister(sqlite3_vfs *arg1);
char *sqlite3_vmprintf(const char *arg1, va_list arg2);
char *sqlite3_vsnprintf(int arg1, char *arg2, const char *arg3, va_list arg4);
const char *sqlite3_vtab_collation(sqlite3_index_info *arg1, int arg2);
int sqlite3_vtab_config(sqlite3 *arg1, int op, ...) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_vtab_distinct(sqlite3_index_info *arg1);
int sqlite3_vtab_in(sqlite3_index_info *arg1, int iCons, int bHandle);
int sqlite3_vtab_in_first(sqlite3_value *pVal, sqlite3_value **ppOut);
int sqlite3_vtab_in_next(sqlite3_value *pVal, sqlite3_value **ppOut);
int sqlite3_vtab_nochange(sqlite3_context *arg1);
int sqlite3_vtab_on_conflict(sqlite3 *arg1);
int sqlite3_vtab_rhs_value(sqlite3_index_info *arg1, int arg2, sqlite3_value **ppVal);
int sqlite3_wal_autocheckpoint(sqlite3 *db, int N) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_wal_checkpoint(sqlite3 *db, const char *zDb) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
int sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *zDb, int eMode, int *pnLog, int
	*pnCkpt) ENUM(sqlite) FAILS(!= 0) ERRNO(none);
void *sqlite3_wal_hook(sqlite3 *arg1, int (*arg2)(void *, sqlite3 *, const char *, int),
	void *arg3);
