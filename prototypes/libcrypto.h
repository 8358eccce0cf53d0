// SPDX-License-Identifier: Apache-2.0
// OpenSSL: EVP, BIO, X509, PEM and what goes with them.
// Types are those of the headers (scripts/declare.py writes them); the words behind them are ours.

typedef long (*BIO_callback_fn)(BIO *b, int oper, const char *argp, int argi, long argl, long ret);
typedef long (*BIO_callback_fn_ex)(BIO *b, int oper, const char *argp, size_t len, int argi,
	long argl, int ret, size_t *processed);
typedef pthread_t CRYPTO_THREAD_ID;
typedef void * (*CRYPTO_malloc_fn)(size_t num, const char *file, int line);
typedef void * (*CRYPTO_realloc_fn)(void *addr, size_t num, const char *file, int line);
typedef void (*CRYPTO_free_fn)(void *addr, const char *file, int line);
typedef void (*OPENSSL_LH_DOALL_FUNC)(void *);
typedef void (*OPENSSL_LH_DOALL_FUNCARG)(void *, void *);
typedef unsigned long (*OPENSSL_LH_HASHFUNC)(const void *);
typedef int (*OPENSSL_LH_COMPFUNC)(const void *, const void *);
typedef void * (*OPENSSL_sk_copyfunc)(const void *);
typedef void (*OPENSSL_sk_freefunc)(void *);
typedef int (*OPENSSL_sk_compfunc)(const void *, const void *);
typedef int (*X509_LOOKUP_ctrl_fn)(X509_LOOKUP *ctx, int cmd, const char *argc, long argl,
	char **ret);
typedef int (*X509_LOOKUP_get_by_alias_fn)(X509_LOOKUP *ctx, X509_LOOKUP_TYPE type, const
	char *str, int len, X509_OBJECT *ret);
typedef int (*X509_LOOKUP_get_by_fingerprint_fn)(X509_LOOKUP *ctx, X509_LOOKUP_TYPE type,
	const unsigned char *bytes, int len, X509_OBJECT *ret);
typedef int (*X509_LOOKUP_get_by_issuer_serial_fn)(X509_LOOKUP *ctx, X509_LOOKUP_TYPE type,
	const X509_NAME *name, const ASN1_INTEGER *serial, X509_OBJECT *ret);
typedef int (*X509_LOOKUP_get_by_subject_fn)(X509_LOOKUP *ctx, X509_LOOKUP_TYPE type, const
	X509_NAME *name, X509_OBJECT *ret);
typedef int (*X509_STORE_CTX_cert_crl_fn)(X509_STORE_CTX *ctx, X509_CRL *crl, X509 *x);
typedef int (*X509_STORE_CTX_check_crl_fn)(X509_STORE_CTX *ctx, X509_CRL *crl);
typedef int (*X509_STORE_CTX_check_issued_fn)(X509_STORE_CTX *ctx, X509 *x, X509 *issuer);
typedef int (*X509_STORE_CTX_check_policy_fn)(X509_STORE_CTX *ctx);
typedef int (*X509_STORE_CTX_check_revocation_fn)(X509_STORE_CTX *ctx);
typedef int (*X509_STORE_CTX_cleanup_fn)(X509_STORE_CTX *ctx);
typedef int (*X509_STORE_CTX_get_crl_fn)(X509_STORE_CTX *ctx, X509_CRL **crl, X509 *x);
typedef int (*X509_STORE_CTX_get_issuer_fn)(X509 **issuer, X509_STORE_CTX *ctx, X509 *x);
typedef struct stack_st_X509 * (*X509_STORE_CTX_lookup_certs_fn)(X509_STORE_CTX *ctx, const
	X509_NAME *nm);
typedef struct stack_st_X509_CRL * (*X509_STORE_CTX_lookup_crls_fn)(const X509_STORE_CTX
	*ctx, const X509_NAME *nm);
typedef int (*X509_STORE_CTX_verify_fn)(X509_STORE_CTX *);
typedef int (*X509_STORE_CTX_verify_cb)(int, X509_STORE_CTX *);

const BIO_ADDR *BIO_ADDRINFO_address(const BIO_ADDRINFO *bai);
int BIO_ADDRINFO_family(const BIO_ADDRINFO *bai);
void BIO_ADDRINFO_free(BIO_ADDRINFO *bai);
const BIO_ADDRINFO *BIO_ADDRINFO_next(const BIO_ADDRINFO *bai);
int BIO_ADDRINFO_protocol(const BIO_ADDRINFO *bai);
int BIO_ADDRINFO_socktype(const BIO_ADDRINFO *bai);
void BIO_ADDR_clear(BIO_ADDR *ap);
int BIO_ADDR_family(const BIO_ADDR *ap);
void BIO_ADDR_free(BIO_ADDR *arg1);
char *BIO_ADDR_hostname_string(const BIO_ADDR *ap, int numeric);
BIO_ADDR *BIO_ADDR_new(void);
char *BIO_ADDR_path_string(const BIO_ADDR *ap);
int BIO_ADDR_rawaddress(const BIO_ADDR *ap, void *p, size_t *l);
int BIO_ADDR_rawmake(BIO_ADDR *ap, int family, const void *where, size_t wherelen, unsigned
	short port);
unsigned short BIO_ADDR_rawport(const BIO_ADDR *ap);
char *BIO_ADDR_service_string(const BIO_ADDR *ap, int numeric);
int BIO_accept(int sock, char **ip_port);
int BIO_accept_ex(int accept_sock, BIO_ADDR *addr, int options);
int BIO_asn1_get_prefix(BIO *b, asn1_ps_func **pprefix, asn1_ps_func **pprefix_free);
int BIO_asn1_get_suffix(BIO *b, asn1_ps_func **psuffix, asn1_ps_func **psuffix_free);
int BIO_asn1_set_prefix(BIO *b, asn1_ps_func *prefix, asn1_ps_func *prefix_free);
int BIO_asn1_set_suffix(BIO *b, asn1_ps_func *suffix, asn1_ps_func *suffix_free);
int BIO_bind(int sock, const BIO_ADDR *addr, int options);
long BIO_callback_ctrl(BIO *b, int cmd, BIO_info_cb *fp);
void BIO_clear_flags(BIO *b, int flags);
int BIO_closesocket(int sock);
int BIO_connect(int sock, const BIO_ADDR *addr, int options);
void BIO_copy_next_retry(BIO *b);
long BIO_ctrl(BIO *bp, int cmd ENUM(bio_ctrl), long larg, void *parg
	AS(const char *parg, cmd == BIO_C_SET_FILENAME)
	AS(const char *parg, cmd == BIO_C_SET_CONNECT && larg == 0 | 1)
	AS(const char *parg, cmd == BIO_C_SET_ACCEPT && larg == 0 | 1));
size_t BIO_ctrl_get_read_request(BIO *b);
size_t BIO_ctrl_get_write_guarantee(BIO *b);
size_t BIO_ctrl_pending(BIO *b);
int BIO_ctrl_reset_read_request(BIO *b);
size_t BIO_ctrl_wpending(BIO *b);
long BIO_debug_callback(BIO *bio, int cmd, const char *argp, int argi, long argl, long ret);
long BIO_debug_callback_ex(BIO *bio, int oper, const char *argp, size_t len, int argi, long
	argl, int ret, size_t *processed);
int BIO_dgram_non_fatal_error(int error);
int BIO_do_connect_retry(BIO *bio, int timeout, int nap_milliseconds);
int BIO_dump(BIO *b, const void *bytes, int len);
int BIO_dump_cb(int (*cb)(const void *data, size_t len, void *u), void *u, const void *s, int len);
int BIO_dump_fp(FILE *fp, const void *s, int len);
int BIO_dump_indent(BIO *b, const void *bytes, int len, int indent);
int BIO_dump_indent_cb(int (*cb)(const void *data, size_t len, void *u), void *u, const void
	*s, int len, int indent);
int BIO_dump_indent_fp(FILE *fp, const void *s, int len, int indent);
BIO *BIO_dup_chain(BIO *in);
const BIO_METHOD *BIO_f_asn1(void);
const BIO_METHOD *BIO_f_base64(void);
const BIO_METHOD *BIO_f_buffer(void);
const BIO_METHOD *BIO_f_cipher(void);
const BIO_METHOD *BIO_f_linebuffer(void);
const BIO_METHOD *BIO_f_md(void);
const BIO_METHOD *BIO_f_nbio_test(void);
const BIO_METHOD *BIO_f_null(void);
const BIO_METHOD *BIO_f_prefix(void);
const BIO_METHOD *BIO_f_readbuffer(void);
const BIO_METHOD *BIO_f_reliable(void);
int BIO_fd_non_fatal_error(int error);
int BIO_fd_should_retry(int i);
BIO *BIO_find_type(BIO *b, int bio_type);
int BIO_free(BIO *a);
void BIO_free_all(BIO *a);
int BIO_get_accept_socket(char *host_port, int mode);
BIO_callback_fn BIO_get_callback(const BIO *b);
char *BIO_get_callback_arg(const BIO *b);
BIO_callback_fn_ex BIO_get_callback_ex(const BIO *b);
void *BIO_get_data(BIO *a);
void *BIO_get_ex_data(const BIO *bio, int idx);
int BIO_get_host_ip(const char *str, unsigned char *ip);
int BIO_get_init(BIO *a);
int BIO_get_line(BIO *bio, char *buf, int size);
int BIO_get_new_index(void);
int BIO_get_port(const char *str, unsigned short *port_ptr);
BIO *BIO_get_retry_BIO(BIO *bio, int *reason);
int BIO_get_retry_reason(BIO *bio);
int BIO_get_shutdown(BIO *a);
struct hostent *BIO_gethostbyname(const char *name);
int BIO_gets(BIO *bp, char *buf OUT(result > 0) BYTES(result), int size);
int BIO_hex_string(BIO *out, int indent, int width, const void *data, int datalen);
int BIO_indent(BIO *b, int indent, int max);
long BIO_int_ctrl(BIO *bp, int cmd, long larg, int iarg);
int BIO_listen(int sock, const BIO_ADDR *addr, int options);
int BIO_lookup(const char *host, const char *service, enum BIO_lookup_type lookup_type, int
	family, int socktype, BIO_ADDRINFO **res);
int BIO_lookup_ex(const char *host, const char *service, int lookup_type, int family, int
	socktype, int protocol, BIO_ADDRINFO **res);
void BIO_meth_free(BIO_METHOD *biom);
BIO_METHOD *BIO_meth_new(int type, const char *name);
int BIO_meth_set_callback_ctrl(BIO_METHOD *biom, long (*callback_ctrl)(BIO *, int, BIO_info_cb *));
int BIO_meth_set_create(BIO_METHOD *biom, int (*create)(BIO *));
int BIO_meth_set_ctrl(BIO_METHOD *biom, long (*ctrl)(BIO *, int, long, void *));
int BIO_meth_set_destroy(BIO_METHOD *biom, int (*destroy)(BIO *));
int BIO_meth_set_gets(BIO_METHOD *biom, int (*ossl_gets)(BIO *, char *, int));
int BIO_meth_set_puts(BIO_METHOD *biom, int (*puts)(BIO *, const char *));
int BIO_meth_set_read(BIO_METHOD *biom, int (*read)(BIO *, char *, int));
int BIO_meth_set_read_ex(BIO_METHOD *biom, int (*bread)(BIO *, char *, size_t, size_t *));
int BIO_meth_set_write(BIO_METHOD *biom, int (*write)(BIO *, const char *, int));
int BIO_meth_set_write_ex(BIO_METHOD *biom, int (*bwrite)(BIO *, const char *, size_t, size_t *));
const char *BIO_method_name(const BIO *b);
int BIO_method_type(const BIO *b);
BIO *BIO_new(const BIO_METHOD *type);
BIO *BIO_new_NDEF(BIO *out, ASN1_VALUE *val, const ASN1_ITEM *it);
BIO *BIO_new_PKCS7(BIO *out, PKCS7 *p7);
BIO *BIO_new_accept(const char *host_port);
int BIO_new_bio_pair(BIO **bio1, size_t writebuf1, BIO **bio2, size_t writebuf2);
BIO *BIO_new_connect(const char *host_port);
BIO *BIO_new_dgram(int fd, int close_flag);
BIO *BIO_new_ex(OSSL_LIB_CTX *libctx, const BIO_METHOD *method);
BIO *BIO_new_fd(int fd, int close_flag);
BIO *BIO_new_file(const char *filename, const char *mode);
BIO *BIO_new_fp(FILE *stream, int close_flag);
BIO *BIO_new_from_core_bio(OSSL_LIB_CTX *libctx, OSSL_CORE_BIO *corebio);
BIO *BIO_new_mem_buf(const void *buf, int len);
BIO *BIO_new_socket(int sock, int close_flag);
BIO *BIO_next(BIO *b);
int BIO_nread(BIO *bio, char **buf, int num);
int BIO_nread0(BIO *bio, char **buf);
uint64_t BIO_number_read(BIO *bio);
uint64_t BIO_number_written(BIO *bio);
int BIO_nwrite(BIO *bio, char **buf, int num);
int BIO_nwrite0(BIO *bio, char **buf);
int BIO_parse_hostserv(const char *hostserv, char **host, char **service, enum
	BIO_hostserv_priorities hostserv_prio);
BIO *BIO_pop(BIO *b);
int BIO_printf(BIO *bio, const char *format FORMAT(printf), ...);
void *BIO_ptr_ctrl(BIO *bp, int cmd, long larg);
BIO *BIO_push(BIO *b, BIO *append);
int BIO_puts(BIO *bp, const char *buf);
int BIO_read(BIO *b, void *data OUT(result > 0) BYTES(result), int dlen);
int BIO_read_ex(BIO *b, void *data OUT(result > 0) BYTES(*readbytes), size_t dlen, size_t
	*readbytes OUT(result > 0)) FAILS(== 0) ERRNO(none);
const BIO_METHOD *BIO_s_accept(void);
const BIO_METHOD *BIO_s_bio(void);
const BIO_METHOD *BIO_s_connect(void);
const BIO_METHOD *BIO_s_core(void);
const BIO_METHOD *BIO_s_datagram(void);
const BIO_METHOD *BIO_s_fd(void);
const BIO_METHOD *BIO_s_file(void);
const BIO_METHOD *BIO_s_log(void);
const BIO_METHOD *BIO_s_mem(void);
const BIO_METHOD *BIO_s_null(void);
const BIO_METHOD *BIO_s_secmem(void);
const BIO_METHOD *BIO_s_socket(void);
void BIO_set_callback(BIO *b, BIO_callback_fn callback);
void BIO_set_callback_arg(BIO *b, char *arg);
void BIO_set_callback_ex(BIO *b, BIO_callback_fn_ex callback);
int BIO_set_cipher(BIO *b, const EVP_CIPHER *c, const unsigned char *k, const unsigned char
	*i, int enc);
void BIO_set_data(BIO *a, void *ptr);
int BIO_set_ex_data(BIO *bio, int idx, void *data);
void BIO_set_flags(BIO *b, int flags);
void BIO_set_init(BIO *a, int init);
void BIO_set_next(BIO *b, BIO *next);
void BIO_set_retry_reason(BIO *bio, int reason);
void BIO_set_shutdown(BIO *a, int shut);
int BIO_set_tcp_ndelay(int sock, int turn_on);
int BIO_snprintf(char *buf, size_t n, const char *format FORMAT(printf), ...);
int BIO_sock_error(int sock);
int BIO_sock_info(int sock, enum BIO_sock_info_type type, union BIO_sock_info_u *info);
int BIO_sock_init(void);
int BIO_sock_non_fatal_error(int error);
int BIO_sock_should_retry(int i);
int BIO_socket(int domain, int socktype, int protocol, int options);
int BIO_socket_ioctl(int fd, long type, void *arg);
int BIO_socket_nbio(int fd, int mode);
int BIO_socket_wait(int fd, int for_read, time_t max_time);
int BIO_test_flags(const BIO *b, int flags);
int BIO_up_ref(BIO *a);
void BIO_vfree(BIO *a);
int BIO_vprintf(BIO *bio, const char *format FORMAT(printf), va_list args);
int BIO_vsnprintf(char *buf, size_t n, const char *format FORMAT(printf), va_list args);
int BIO_wait(BIO *bio, time_t max_time, unsigned int nap_milliseconds);
int BIO_write(BIO *b, const void *data BYTES(dlen), int dlen);
int BIO_write_ex(BIO *b, const void *data BYTES(dlen), size_t dlen, size_t *written
	OUT(result > 0)) FAILS(== 0) ERRNO(none);
int CRYPTO_THREAD_cleanup_local(CRYPTO_THREAD_LOCAL *key);
int CRYPTO_THREAD_compare_id(CRYPTO_THREAD_ID a, CRYPTO_THREAD_ID b);
CRYPTO_THREAD_ID CRYPTO_THREAD_get_current_id(void);
void *CRYPTO_THREAD_get_local(CRYPTO_THREAD_LOCAL *key);
int CRYPTO_THREAD_init_local(CRYPTO_THREAD_LOCAL *key, void (*cleanup)(void *));
void CRYPTO_THREAD_lock_free(CRYPTO_RWLOCK *lock);
CRYPTO_RWLOCK *CRYPTO_THREAD_lock_new(void);
int CRYPTO_THREAD_read_lock(CRYPTO_RWLOCK *lock);
int CRYPTO_THREAD_run_once(CRYPTO_ONCE *once, void (*init)(void));
int CRYPTO_THREAD_set_local(CRYPTO_THREAD_LOCAL *key, void *val);
int CRYPTO_THREAD_unlock(CRYPTO_RWLOCK *lock);
int CRYPTO_THREAD_write_lock(CRYPTO_RWLOCK *lock);
int CRYPTO_alloc_ex_data(int class_index, void *obj, CRYPTO_EX_DATA *ad, int idx);
int CRYPTO_atomic_add(int *val, int amount, int *ret, CRYPTO_RWLOCK *lock);
int CRYPTO_atomic_load(uint64_t *val, uint64_t *ret, CRYPTO_RWLOCK *lock);
int CRYPTO_atomic_or(uint64_t *val, uint64_t op, uint64_t *ret, CRYPTO_RWLOCK *lock);
void CRYPTO_clear_free(void *ptr, size_t num, const char *file, int line);
void *CRYPTO_clear_realloc(void *addr, size_t old_num, size_t num, const char *file, int line);
int CRYPTO_dup_ex_data(int class_index, CRYPTO_EX_DATA *to, const CRYPTO_EX_DATA *from);
void CRYPTO_free(void *ptr, const char *file, int line);
void CRYPTO_free_ex_data(int class_index, void *obj, CRYPTO_EX_DATA *ad);
int CRYPTO_free_ex_index(int class_index, int idx);
void *CRYPTO_get_ex_data(const CRYPTO_EX_DATA *ad, int idx);
int CRYPTO_get_ex_new_index(int class_index, long argl, void *argp, CRYPTO_EX_new *new_func,
	CRYPTO_EX_dup *dup_func, CRYPTO_EX_free *free_func);
void CRYPTO_get_mem_functions(CRYPTO_malloc_fn *malloc_fn, CRYPTO_realloc_fn *realloc_fn,
	CRYPTO_free_fn *free_fn);
void *CRYPTO_malloc(size_t num, const char *file, int line);
int CRYPTO_memcmp(const void *in_a, const void *in_b, size_t len);
void *CRYPTO_memdup(const void *str, size_t siz, const char *file, int line);
int CRYPTO_new_ex_data(int class_index, void *obj, CRYPTO_EX_DATA *ad);
void *CRYPTO_realloc(void *addr, size_t num, const char *file, int line);
size_t CRYPTO_secure_actual_size(void *ptr);
int CRYPTO_secure_allocated(const void *ptr);
void CRYPTO_secure_clear_free(void *ptr, size_t num, const char *file, int line);
void CRYPTO_secure_free(void *ptr, const char *file, int line);
void *CRYPTO_secure_malloc(size_t num, const char *file, int line);
int CRYPTO_secure_malloc_done(void);
int CRYPTO_secure_malloc_init(size_t sz, size_t minsize);
int CRYPTO_secure_malloc_initialized(void);
size_t CRYPTO_secure_used(void);
void *CRYPTO_secure_zalloc(size_t num, const char *file, int line);
int CRYPTO_set_ex_data(CRYPTO_EX_DATA *ad, int idx, void *val);
int CRYPTO_set_mem_functions(CRYPTO_malloc_fn malloc_fn, CRYPTO_realloc_fn realloc_fn,
	CRYPTO_free_fn free_fn);
char *CRYPTO_strdup(const char *str, const char *file, int line);
char *CRYPTO_strndup(const char *str, size_t s, const char *file, int line);
void *CRYPTO_zalloc(size_t num, const char *file, int line);
void ERR_add_error_data(int num, ...);
void ERR_add_error_mem_bio(const char *sep, BIO *bio);
void ERR_add_error_txt(const char *sepr, const char *txt);
void ERR_add_error_vdata(int num, va_list args);
void ERR_clear_error(void);
int ERR_clear_last_mark(void);
char *ERR_error_string(unsigned long e, char *buf);
void ERR_error_string_n(unsigned long e, char *buf, size_t len);
const char *ERR_func_error_string(unsigned long e);
unsigned long ERR_get_error(void) HEX;
unsigned long ERR_get_error_all(const char **file, int *line, const char **func, const char
	**data, int *flags);
unsigned long ERR_get_error_line(const char **file, int *line);
unsigned long ERR_get_error_line_data(const char **file, int *line, const char **data, int *flags);
int ERR_get_next_error_library(void);
ERR_STATE *ERR_get_state(void);
const char *ERR_lib_error_string(unsigned long e);
int ERR_load_ASN1_strings(void);
int ERR_load_ASYNC_strings(void);
int ERR_load_BIO_strings(void);
int ERR_load_BN_strings(void);
int ERR_load_BUF_strings(void);
int ERR_load_CMS_strings(void);
int ERR_load_COMP_strings(void);
int ERR_load_CONF_strings(void);
int ERR_load_CRYPTO_strings(void);
int ERR_load_CT_strings(void);
int ERR_load_DH_strings(void);
int ERR_load_DSA_strings(void);
int ERR_load_EC_strings(void);
int ERR_load_ENGINE_strings(void);
int ERR_load_ERR_strings(void);
int ERR_load_EVP_strings(void);
int ERR_load_KDF_strings(void);
int ERR_load_OBJ_strings(void);
int ERR_load_OCSP_strings(void);
int ERR_load_OSSL_STORE_strings(void);
int ERR_load_PEM_strings(void);
int ERR_load_PKCS12_strings(void);
int ERR_load_PKCS7_strings(void);
int ERR_load_RAND_strings(void);
int ERR_load_RSA_strings(void);
int ERR_load_TS_strings(void);
int ERR_load_UI_strings(void);
int ERR_load_X509V3_strings(void);
int ERR_load_X509_strings(void);
int ERR_load_strings(int lib, ERR_STRING_DATA *str);
int ERR_load_strings_const(const ERR_STRING_DATA *str);
void ERR_new(void);
unsigned long ERR_peek_error(void) HEX;
unsigned long ERR_peek_error_all(const char **file, int *line, const char **func, const char
	**data, int *flags);
unsigned long ERR_peek_error_data(const char **data, int *flags);
unsigned long ERR_peek_error_func(const char **func);
unsigned long ERR_peek_error_line(const char **file, int *line);
unsigned long ERR_peek_error_line_data(const char **file, int *line, const char **data, int *flags);
unsigned long ERR_peek_last_error(void);
unsigned long ERR_peek_last_error_all(const char **file, int *line, const char **func, const
	char **data, int *flags);
unsigned long ERR_peek_last_error_data(const char **data, int *flags);
unsigned long ERR_peek_last_error_func(const char **func);
unsigned long ERR_peek_last_error_line(const char **file, int *line);
unsigned long ERR_peek_last_error_line_data(const char **file, int *line, const char **data,
	int *flags);
int ERR_pop_to_mark(void);
void ERR_print_errors(BIO *bp);
void ERR_print_errors_cb(int (*cb)(const char *str, size_t len, void *u), void *u);
void ERR_print_errors_fp(FILE *fp);
const char *ERR_reason_error_string(unsigned long e);
void ERR_remove_state(unsigned long pid);
void ERR_remove_thread_state(void *arg1);
void ERR_set_debug(const char *file, int line, const char *func);
void ERR_set_error(int lib, int reason, const char *fmt FORMAT(printf), ...);
void ERR_set_error_data(char *data, int flags);
int ERR_set_mark(void);
int ERR_unload_strings(int lib, ERR_STRING_DATA *str);
void ERR_vset_error(int lib, int reason, const char *fmt FORMAT(printf), va_list args);
void EVP_ASYM_CIPHER_do_all_provided(OSSL_LIB_CTX *libctx, void (*fn)(EVP_ASYM_CIPHER
	*cipher, void *arg), void *arg);
EVP_ASYM_CIPHER *EVP_ASYM_CIPHER_fetch(OSSL_LIB_CTX *ctx, const char *algorithm, const char
	*properties);
void EVP_ASYM_CIPHER_free(EVP_ASYM_CIPHER *cipher);
const char *EVP_ASYM_CIPHER_get0_description(const EVP_ASYM_CIPHER *cipher);
const char *EVP_ASYM_CIPHER_get0_name(const EVP_ASYM_CIPHER *cipher);
OSSL_PROVIDER *EVP_ASYM_CIPHER_get0_provider(const EVP_ASYM_CIPHER *cipher);
const OSSL_PARAM *EVP_ASYM_CIPHER_gettable_ctx_params(const EVP_ASYM_CIPHER *ciph);
int EVP_ASYM_CIPHER_is_a(const EVP_ASYM_CIPHER *cipher, const char *name);
int EVP_ASYM_CIPHER_names_do_all(const EVP_ASYM_CIPHER *cipher, void (*fn)(const char *name,
	void *data), void *data);
const OSSL_PARAM *EVP_ASYM_CIPHER_settable_ctx_params(const EVP_ASYM_CIPHER *ciph);
int EVP_ASYM_CIPHER_up_ref(EVP_ASYM_CIPHER *cipher);
int EVP_BytesToKey(const EVP_CIPHER *type, const EVP_MD *md, const unsigned char *salt,
	const unsigned char *data, int datal, int count, unsigned char *key, unsigned char *iv);
unsigned char *EVP_CIPHER_CTX_buf_noconst(EVP_CIPHER_CTX *ctx);
const EVP_CIPHER *EVP_CIPHER_CTX_cipher(const EVP_CIPHER_CTX *ctx);
void EVP_CIPHER_CTX_clear_flags(EVP_CIPHER_CTX *ctx, int flags);
int EVP_CIPHER_CTX_copy(EVP_CIPHER_CTX *out, const EVP_CIPHER_CTX *in);
int EVP_CIPHER_CTX_ctrl(EVP_CIPHER_CTX *ctx, int type ENUM(evp_ctrl), int arg, void *ptr
	AS(void *ptr OUT(result > 0) BYTES(arg), type == EVP_CTRL_AEAD_GET_TAG)
	AS(const void *ptr BYTES(arg), type == EVP_CTRL_AEAD_SET_TAG));
void EVP_CIPHER_CTX_free(EVP_CIPHER_CTX *c);
const EVP_CIPHER *EVP_CIPHER_CTX_get0_cipher(const EVP_CIPHER_CTX *ctx);
EVP_CIPHER *EVP_CIPHER_CTX_get1_cipher(EVP_CIPHER_CTX *ctx);
void *EVP_CIPHER_CTX_get_app_data(const EVP_CIPHER_CTX *ctx);
int EVP_CIPHER_CTX_get_block_size(const EVP_CIPHER_CTX *ctx);
void *EVP_CIPHER_CTX_get_cipher_data(const EVP_CIPHER_CTX *ctx);
int EVP_CIPHER_CTX_get_iv_length(const EVP_CIPHER_CTX *ctx);
int EVP_CIPHER_CTX_get_key_length(const EVP_CIPHER_CTX *ctx);
int EVP_CIPHER_CTX_get_nid(const EVP_CIPHER_CTX *ctx);
int EVP_CIPHER_CTX_get_num(const EVP_CIPHER_CTX *ctx);
int EVP_CIPHER_CTX_get_original_iv(EVP_CIPHER_CTX *ctx, void *buf, size_t len);
int EVP_CIPHER_CTX_get_params(EVP_CIPHER_CTX *ctx, OSSL_PARAM *params);
int EVP_CIPHER_CTX_get_tag_length(const EVP_CIPHER_CTX *ctx);
int EVP_CIPHER_CTX_get_updated_iv(EVP_CIPHER_CTX *ctx, void *buf, size_t len);
const OSSL_PARAM *EVP_CIPHER_CTX_gettable_params(EVP_CIPHER_CTX *ctx);
int EVP_CIPHER_CTX_is_encrypting(const EVP_CIPHER_CTX *ctx);
const unsigned char *EVP_CIPHER_CTX_iv(const EVP_CIPHER_CTX *ctx);
unsigned char *EVP_CIPHER_CTX_iv_noconst(EVP_CIPHER_CTX *ctx);
EVP_CIPHER_CTX *EVP_CIPHER_CTX_new(void);
const unsigned char *EVP_CIPHER_CTX_original_iv(const EVP_CIPHER_CTX *ctx);
int EVP_CIPHER_CTX_rand_key(EVP_CIPHER_CTX *ctx, unsigned char *key);
int EVP_CIPHER_CTX_reset(EVP_CIPHER_CTX *c);
void EVP_CIPHER_CTX_set_app_data(EVP_CIPHER_CTX *ctx, void *data);
void *EVP_CIPHER_CTX_set_cipher_data(EVP_CIPHER_CTX *ctx, void *cipher_data);
void EVP_CIPHER_CTX_set_flags(EVP_CIPHER_CTX *ctx, int flags);
int EVP_CIPHER_CTX_set_key_length(EVP_CIPHER_CTX *x, int keylen);
int EVP_CIPHER_CTX_set_num(EVP_CIPHER_CTX *ctx, int num);
int EVP_CIPHER_CTX_set_padding(EVP_CIPHER_CTX *c, int pad);
int EVP_CIPHER_CTX_set_params(EVP_CIPHER_CTX *ctx, const OSSL_PARAM *params);
const OSSL_PARAM *EVP_CIPHER_CTX_settable_params(EVP_CIPHER_CTX *ctx);
int EVP_CIPHER_CTX_test_flags(const EVP_CIPHER_CTX *ctx, int flags);
int EVP_CIPHER_asn1_to_param(EVP_CIPHER_CTX *c, ASN1_TYPE *type);
void EVP_CIPHER_do_all(void (*fn)(const EVP_CIPHER *ciph, const char *from, const char *to,
	void *x), void *arg);
void EVP_CIPHER_do_all_provided(OSSL_LIB_CTX *libctx, void (*fn)(EVP_CIPHER *cipher, void
	*arg), void *arg);
void EVP_CIPHER_do_all_sorted(void (*fn)(const EVP_CIPHER *ciph, const char *from, const
	char *to, void *x), void *arg);
EVP_CIPHER *EVP_CIPHER_fetch(OSSL_LIB_CTX *ctx, const char *algorithm, const char *properties);
void EVP_CIPHER_free(EVP_CIPHER *cipher);
const char *EVP_CIPHER_get0_description(const EVP_CIPHER *cipher);
const char *EVP_CIPHER_get0_name(const EVP_CIPHER *cipher);
const OSSL_PROVIDER *EVP_CIPHER_get0_provider(const EVP_CIPHER *cipher);
int EVP_CIPHER_get_asn1_iv(EVP_CIPHER_CTX *c, ASN1_TYPE *type);
int EVP_CIPHER_get_block_size(const EVP_CIPHER *cipher);
unsigned long EVP_CIPHER_get_flags(const EVP_CIPHER *cipher);
int EVP_CIPHER_get_iv_length(const EVP_CIPHER *cipher);
int EVP_CIPHER_get_key_length(const EVP_CIPHER *cipher);
int EVP_CIPHER_get_mode(const EVP_CIPHER *cipher);
int EVP_CIPHER_get_nid(const EVP_CIPHER *cipher);
int EVP_CIPHER_get_params(EVP_CIPHER *cipher, OSSL_PARAM *params);
int EVP_CIPHER_get_type(const EVP_CIPHER *cipher);
const OSSL_PARAM *EVP_CIPHER_gettable_ctx_params(const EVP_CIPHER *cipher);
const OSSL_PARAM *EVP_CIPHER_gettable_params(const EVP_CIPHER *cipher);
int EVP_CIPHER_impl_ctx_size(const EVP_CIPHER *cipher);
int EVP_CIPHER_is_a(const EVP_CIPHER *cipher, const char *name);
EVP_CIPHER *EVP_CIPHER_meth_dup(const EVP_CIPHER *cipher);
void EVP_CIPHER_meth_free(EVP_CIPHER *cipher);
EVP_CIPHER *EVP_CIPHER_meth_new(int cipher_type, int block_size, int key_len);
int EVP_CIPHER_meth_set_cleanup(EVP_CIPHER *cipher, int (*cleanup)(EVP_CIPHER_CTX *));
int EVP_CIPHER_meth_set_ctrl(EVP_CIPHER *cipher, int (*ctrl)(EVP_CIPHER_CTX *, int type, int
	arg, void *ptr));
int EVP_CIPHER_meth_set_do_cipher(EVP_CIPHER *cipher, int (*do_cipher)(EVP_CIPHER_CTX *ctx,
	unsigned char *out, const unsigned char *in, size_t inl));
int EVP_CIPHER_meth_set_flags(EVP_CIPHER *cipher, unsigned long flags);
int EVP_CIPHER_meth_set_get_asn1_params(EVP_CIPHER *cipher, int
	(*get_asn1_parameters)(EVP_CIPHER_CTX *, ASN1_TYPE *));
int EVP_CIPHER_meth_set_impl_ctx_size(EVP_CIPHER *cipher, int ctx_size);
int EVP_CIPHER_meth_set_init(EVP_CIPHER *cipher, int (*init)(EVP_CIPHER_CTX *ctx, const
	unsigned char *key, const unsigned char *iv, int enc));
int EVP_CIPHER_meth_set_iv_length(EVP_CIPHER *cipher, int iv_len);
int EVP_CIPHER_meth_set_set_asn1_params(EVP_CIPHER *cipher, int
	(*set_asn1_parameters)(EVP_CIPHER_CTX *, ASN1_TYPE *));
int EVP_CIPHER_names_do_all(const EVP_CIPHER *cipher, void (*fn)(const char *name, void
	*data), void *data);
int EVP_CIPHER_param_to_asn1(EVP_CIPHER_CTX *c, ASN1_TYPE *type);
int EVP_CIPHER_set_asn1_iv(EVP_CIPHER_CTX *c, ASN1_TYPE *type);
const OSSL_PARAM *EVP_CIPHER_settable_ctx_params(const EVP_CIPHER *cipher);
int EVP_CIPHER_up_ref(EVP_CIPHER *cipher);
int EVP_Cipher(EVP_CIPHER_CTX *c, unsigned char *out, const unsigned char *in, unsigned int inl);
int EVP_CipherFinal(EVP_CIPHER_CTX *ctx, unsigned char *outm, int *outl);
int EVP_CipherFinal_ex(EVP_CIPHER_CTX *ctx, unsigned char *outm, int *outl);
int EVP_CipherInit(EVP_CIPHER_CTX *ctx, const EVP_CIPHER *cipher, const unsigned char *key,
	const unsigned char *iv, int enc);
int EVP_CipherInit_ex(EVP_CIPHER_CTX *ctx, const EVP_CIPHER *cipher, ENGINE *impl, const
	unsigned char *key, const unsigned char *iv, int enc);
int EVP_CipherInit_ex2(EVP_CIPHER_CTX *ctx, const EVP_CIPHER *cipher, const unsigned char
	*key, const unsigned char *iv, int enc, const OSSL_PARAM *params);
int EVP_CipherUpdate(EVP_CIPHER_CTX *ctx, unsigned char *out OUT(result > 0) BYTES(*outl),
	int *outl OUT(result > 0), const unsigned char *in BYTES(inl), int inl) FAILS(== 0)
	ERRNO(none);
int EVP_DecodeBlock(unsigned char *t, const unsigned char *f, int n);
int EVP_DecodeFinal(EVP_ENCODE_CTX *ctx, unsigned char *out, int *outl);
void EVP_DecodeInit(EVP_ENCODE_CTX *ctx);
int EVP_DecodeUpdate(EVP_ENCODE_CTX *ctx, unsigned char *out, int *outl, const unsigned char
	*in, int inl);
int EVP_DecryptFinal(EVP_CIPHER_CTX *ctx, unsigned char *outm, int *outl);
int EVP_DecryptFinal_ex(EVP_CIPHER_CTX *ctx, unsigned char *outm, int *outl);
int EVP_DecryptInit(EVP_CIPHER_CTX *ctx, const EVP_CIPHER *cipher, const unsigned char *key,
	const unsigned char *iv);
int EVP_DecryptInit_ex(EVP_CIPHER_CTX *ctx, const EVP_CIPHER *cipher, ENGINE *impl, const
	unsigned char *key, const unsigned char *iv);
int EVP_DecryptInit_ex2(EVP_CIPHER_CTX *ctx, const EVP_CIPHER *cipher, const unsigned char
	*key, const unsigned char *iv, const OSSL_PARAM *params);
int EVP_DecryptUpdate(EVP_CIPHER_CTX *ctx, unsigned char *out OUT(result > 0) BYTES(*outl),
	int *outl OUT(result > 0), const unsigned char *in BYTES(inl), int inl) FAILS(== 0)
	ERRNO(none);
int EVP_Digest(const void *data, size_t count, unsigned char *md, unsigned int *size, const
	EVP_MD *type, ENGINE *impl);
int EVP_DigestFinal(EVP_MD_CTX *ctx, unsigned char *md, unsigned int *s);
int EVP_DigestFinalXOF(EVP_MD_CTX *ctx, unsigned char *md, size_t len);
int EVP_DigestFinal_ex(EVP_MD_CTX *ctx, unsigned char *md OUT(s != NULL) BYTES(*s), unsigned
	int *s OUT(result > 0)) FAILS(== 0) ERRNO(none);
int EVP_DigestInit(EVP_MD_CTX *ctx, const EVP_MD *type);
int EVP_DigestInit_ex(EVP_MD_CTX *ctx, const EVP_MD *type, ENGINE *impl);
int EVP_DigestInit_ex2(EVP_MD_CTX *ctx, const EVP_MD *type, const OSSL_PARAM *params);
int EVP_DigestSign(EVP_MD_CTX *ctx, unsigned char *sigret, size_t *siglen, const unsigned
	char *tbs, size_t tbslen);
int EVP_DigestSignFinal(EVP_MD_CTX *ctx, unsigned char *sigret, size_t *siglen);
int EVP_DigestSignInit(EVP_MD_CTX *ctx, EVP_PKEY_CTX **pctx, const EVP_MD *type, ENGINE *e,
	EVP_PKEY *pkey);
int EVP_DigestSignInit_ex(EVP_MD_CTX *ctx, EVP_PKEY_CTX **pctx, const char *mdname,
	OSSL_LIB_CTX *libctx, const char *props, EVP_PKEY *pkey, const OSSL_PARAM *params);
int EVP_DigestSignUpdate(EVP_MD_CTX *ctx, const void *data, size_t dsize);
int EVP_DigestUpdate(EVP_MD_CTX *ctx, const void *d BYTES(cnt), size_t cnt) FAILS(== 0) ERRNO(none);
int EVP_DigestVerify(EVP_MD_CTX *ctx, const unsigned char *sigret, size_t siglen, const
	unsigned char *tbs, size_t tbslen);
int EVP_DigestVerifyFinal(EVP_MD_CTX *ctx, const unsigned char *sig, size_t siglen);
int EVP_DigestVerifyInit(EVP_MD_CTX *ctx, EVP_PKEY_CTX **pctx, const EVP_MD *type, ENGINE
	*e, EVP_PKEY *pkey);
int EVP_DigestVerifyInit_ex(EVP_MD_CTX *ctx, EVP_PKEY_CTX **pctx, const char *mdname,
	OSSL_LIB_CTX *libctx, const char *props, EVP_PKEY *pkey, const OSSL_PARAM *params);
int EVP_DigestVerifyUpdate(EVP_MD_CTX *ctx, const void *data, size_t dsize);
int EVP_ENCODE_CTX_copy(EVP_ENCODE_CTX *dctx, const EVP_ENCODE_CTX *sctx);
void EVP_ENCODE_CTX_free(EVP_ENCODE_CTX *ctx);
EVP_ENCODE_CTX *EVP_ENCODE_CTX_new(void);
int EVP_ENCODE_CTX_num(EVP_ENCODE_CTX *ctx);
int EVP_EncodeBlock(unsigned char *t, const unsigned char *f, int n);
void EVP_EncodeFinal(EVP_ENCODE_CTX *ctx, unsigned char *out, int *outl);
void EVP_EncodeInit(EVP_ENCODE_CTX *ctx);
int EVP_EncodeUpdate(EVP_ENCODE_CTX *ctx, unsigned char *out, int *outl, const unsigned char
	*in, int inl);
int EVP_EncryptFinal(EVP_CIPHER_CTX *ctx, unsigned char *out, int *outl);
int EVP_EncryptFinal_ex(EVP_CIPHER_CTX *ctx, unsigned char *out, int *outl);
int EVP_EncryptInit(EVP_CIPHER_CTX *ctx, const EVP_CIPHER *cipher, const unsigned char *key,
	const unsigned char *iv);
int EVP_EncryptInit_ex(EVP_CIPHER_CTX *ctx, const EVP_CIPHER *cipher, ENGINE *impl, const
	unsigned char *key, const unsigned char *iv);
int EVP_EncryptInit_ex2(EVP_CIPHER_CTX *ctx, const EVP_CIPHER *cipher, const unsigned char
	*key, const unsigned char *iv, const OSSL_PARAM *params);
int EVP_EncryptUpdate(EVP_CIPHER_CTX *ctx, unsigned char *out OUT(result > 0) BYTES(*outl),
	int *outl OUT(result > 0), const unsigned char *in BYTES(inl), int inl) FAILS(== 0)
	ERRNO(none);
void EVP_KEM_do_all_provided(OSSL_LIB_CTX *libctx, void (*fn)(EVP_KEM *wrap, void *arg), void *arg);
EVP_KEM *EVP_KEM_fetch(OSSL_LIB_CTX *ctx, const char *algorithm, const char *properties);
void EVP_KEM_free(EVP_KEM *wrap);
const char *EVP_KEM_get0_description(const EVP_KEM *wrap);
const char *EVP_KEM_get0_name(const EVP_KEM *wrap);
OSSL_PROVIDER *EVP_KEM_get0_provider(const EVP_KEM *wrap);
const OSSL_PARAM *EVP_KEM_gettable_ctx_params(const EVP_KEM *kem);
int EVP_KEM_is_a(const EVP_KEM *wrap, const char *name);
int EVP_KEM_names_do_all(const EVP_KEM *wrap, void (*fn)(const char *name, void *data), void *data);
const OSSL_PARAM *EVP_KEM_settable_ctx_params(const EVP_KEM *kem);
int EVP_KEM_up_ref(EVP_KEM *wrap);
void EVP_KEYEXCH_do_all_provided(OSSL_LIB_CTX *libctx, void (*fn)(EVP_KEYEXCH *keyexch, void
	*data), void *data);
EVP_KEYEXCH *EVP_KEYEXCH_fetch(OSSL_LIB_CTX *ctx, const char *algorithm, const char *properties);
void EVP_KEYEXCH_free(EVP_KEYEXCH *exchange);
const char *EVP_KEYEXCH_get0_description(const EVP_KEYEXCH *keyexch);
const char *EVP_KEYEXCH_get0_name(const EVP_KEYEXCH *keyexch);
OSSL_PROVIDER *EVP_KEYEXCH_get0_provider(const EVP_KEYEXCH *exchange);
const OSSL_PARAM *EVP_KEYEXCH_gettable_ctx_params(const EVP_KEYEXCH *keyexch);
int EVP_KEYEXCH_is_a(const EVP_KEYEXCH *keyexch, const char *name);
int EVP_KEYEXCH_names_do_all(const EVP_KEYEXCH *keyexch, void (*fn)(const char *name, void
	*data), void *data);
const OSSL_PARAM *EVP_KEYEXCH_settable_ctx_params(const EVP_KEYEXCH *keyexch);
int EVP_KEYEXCH_up_ref(EVP_KEYEXCH *exchange);
void EVP_KEYMGMT_do_all_provided(OSSL_LIB_CTX *libctx, void (*fn)(EVP_KEYMGMT *keymgmt, void
	*arg), void *arg);
EVP_KEYMGMT *EVP_KEYMGMT_fetch(OSSL_LIB_CTX *ctx, const char *algorithm, const char *properties);
void EVP_KEYMGMT_free(EVP_KEYMGMT *keymgmt);
const OSSL_PARAM *EVP_KEYMGMT_gen_settable_params(const EVP_KEYMGMT *keymgmt);
const char *EVP_KEYMGMT_get0_description(const EVP_KEYMGMT *keymgmt);
const char *EVP_KEYMGMT_get0_name(const EVP_KEYMGMT *keymgmt);
const OSSL_PROVIDER *EVP_KEYMGMT_get0_provider(const EVP_KEYMGMT *keymgmt);
const OSSL_PARAM *EVP_KEYMGMT_gettable_params(const EVP_KEYMGMT *keymgmt);
int EVP_KEYMGMT_is_a(const EVP_KEYMGMT *keymgmt, const char *name);
int EVP_KEYMGMT_names_do_all(const EVP_KEYMGMT *keymgmt, void (*fn)(const char *name, void
	*data), void *data);
const OSSL_PARAM *EVP_KEYMGMT_settable_params(const EVP_KEYMGMT *keymgmt);
int EVP_KEYMGMT_up_ref(EVP_KEYMGMT *keymgmt);
EVP_MAC_CTX *EVP_MAC_CTX_dup(const EVP_MAC_CTX *src);
void EVP_MAC_CTX_free(EVP_MAC_CTX *ctx);
EVP_MAC *EVP_MAC_CTX_get0_mac(EVP_MAC_CTX *ctx);
size_t EVP_MAC_CTX_get_block_size(EVP_MAC_CTX *ctx);
size_t EVP_MAC_CTX_get_mac_size(EVP_MAC_CTX *ctx);
int EVP_MAC_CTX_get_params(EVP_MAC_CTX *ctx, OSSL_PARAM *params);
const OSSL_PARAM *EVP_MAC_CTX_gettable_params(EVP_MAC_CTX *ctx);
EVP_MAC_CTX *EVP_MAC_CTX_new(EVP_MAC *mac);
int EVP_MAC_CTX_set_params(EVP_MAC_CTX *ctx, const OSSL_PARAM *params);
const OSSL_PARAM *EVP_MAC_CTX_settable_params(EVP_MAC_CTX *ctx);
void EVP_MAC_do_all_provided(OSSL_LIB_CTX *libctx, void (*fn)(EVP_MAC *mac, void *arg), void *arg);
EVP_MAC *EVP_MAC_fetch(OSSL_LIB_CTX *libctx, const char *algorithm, const char *properties);
int EVP_MAC_final(EVP_MAC_CTX *ctx, unsigned char *out, size_t *outl, size_t outsize);
int EVP_MAC_finalXOF(EVP_MAC_CTX *ctx, unsigned char *out, size_t outsize);
void EVP_MAC_free(EVP_MAC *mac);
const char *EVP_MAC_get0_description(const EVP_MAC *mac);
const char *EVP_MAC_get0_name(const EVP_MAC *mac);
const OSSL_PROVIDER *EVP_MAC_get0_provider(const EVP_MAC *mac);
int EVP_MAC_get_params(EVP_MAC *mac, OSSL_PARAM *params);
const OSSL_PARAM *EVP_MAC_gettable_ctx_params(const EVP_MAC *mac);
const OSSL_PARAM *EVP_MAC_gettable_params(const EVP_MAC *mac);
int EVP_MAC_init(EVP_MAC_CTX *ctx, const unsigned char *key, size_t keylen, const OSSL_PARAM
	*params);
int EVP_MAC_is_a(const EVP_MAC *mac, const char *name);
int EVP_MAC_names_do_all(const EVP_MAC *mac, void (*fn)(const char *name, void *data), void *data);
const OSSL_PARAM *EVP_MAC_settable_ctx_params(const EVP_MAC *mac);
int EVP_MAC_up_ref(EVP_MAC *mac);
int EVP_MAC_update(EVP_MAC_CTX *ctx, const unsigned char *data, size_t datalen);
void EVP_MD_CTX_clear_flags(EVP_MD_CTX *ctx, int flags);
int EVP_MD_CTX_copy(EVP_MD_CTX *out, const EVP_MD_CTX *in);
int EVP_MD_CTX_copy_ex(EVP_MD_CTX *out, const EVP_MD_CTX *in);
int EVP_MD_CTX_ctrl(EVP_MD_CTX *ctx, int cmd, int p1, void *p2);
void EVP_MD_CTX_free(EVP_MD_CTX *ctx);
const EVP_MD *EVP_MD_CTX_get0_md(const EVP_MD_CTX *ctx);
void *EVP_MD_CTX_get0_md_data(const EVP_MD_CTX *ctx);
EVP_MD *EVP_MD_CTX_get1_md(EVP_MD_CTX *ctx);
int EVP_MD_CTX_get_params(EVP_MD_CTX *ctx, OSSL_PARAM *params);
EVP_PKEY_CTX *EVP_MD_CTX_get_pkey_ctx(const EVP_MD_CTX *ctx);
const OSSL_PARAM *EVP_MD_CTX_gettable_params(EVP_MD_CTX *ctx);
const EVP_MD *EVP_MD_CTX_md(const EVP_MD_CTX *ctx);
EVP_MD_CTX *EVP_MD_CTX_new(void);
int EVP_MD_CTX_reset(EVP_MD_CTX *ctx);
void EVP_MD_CTX_set_flags(EVP_MD_CTX *ctx, int flags);
int EVP_MD_CTX_set_params(EVP_MD_CTX *ctx, const OSSL_PARAM *params);
void EVP_MD_CTX_set_pkey_ctx(EVP_MD_CTX *ctx, EVP_PKEY_CTX *pctx);
void EVP_MD_CTX_set_update_fn(EVP_MD_CTX *ctx, int (*update)(EVP_MD_CTX *ctx, const void
	*data, size_t count));
const OSSL_PARAM *EVP_MD_CTX_settable_params(EVP_MD_CTX *ctx);
int EVP_MD_CTX_test_flags(const EVP_MD_CTX *ctx, int flags);
void EVP_MD_do_all(void (*fn)(const EVP_MD *ciph, const char *from, const char *to, void
	*x), void *arg);
void EVP_MD_do_all_provided(OSSL_LIB_CTX *libctx, void (*fn)(EVP_MD *md, void *arg), void *arg);
void EVP_MD_do_all_sorted(void (*fn)(const EVP_MD *ciph, const char *from, const char *to,
	void *x), void *arg);
EVP_MD *EVP_MD_fetch(OSSL_LIB_CTX *ctx, const char *algorithm, const char *properties);
void EVP_MD_free(EVP_MD *md);
const char *EVP_MD_get0_description(const EVP_MD *md);
const char *EVP_MD_get0_name(const EVP_MD *md);
const OSSL_PROVIDER *EVP_MD_get0_provider(const EVP_MD *md);
int EVP_MD_get_block_size(const EVP_MD *md);
unsigned long EVP_MD_get_flags(const EVP_MD *md);
int EVP_MD_get_params(const EVP_MD *digest, OSSL_PARAM *params);
int EVP_MD_get_pkey_type(const EVP_MD *md);
int EVP_MD_get_size(const EVP_MD *md);
int EVP_MD_get_type(const EVP_MD *md);
const OSSL_PARAM *EVP_MD_gettable_ctx_params(const EVP_MD *md);
const OSSL_PARAM *EVP_MD_gettable_params(const EVP_MD *digest);
int EVP_MD_is_a(const EVP_MD *md, const char *name);
EVP_MD *EVP_MD_meth_dup(const EVP_MD *md);
void EVP_MD_meth_free(EVP_MD *md);
int EVP_MD_meth_get_app_datasize(const EVP_MD *md);
unsigned long EVP_MD_meth_get_flags(const EVP_MD *md);
int EVP_MD_meth_get_input_blocksize(const EVP_MD *md);
int EVP_MD_meth_get_result_size(const EVP_MD *md);
EVP_MD *EVP_MD_meth_new(int md_type, int pkey_type);
int EVP_MD_meth_set_app_datasize(EVP_MD *md, int datasize);
int EVP_MD_meth_set_cleanup(EVP_MD *md, int (*cleanup)(EVP_MD_CTX *ctx));
int EVP_MD_meth_set_copy(EVP_MD *md, int (*copy)(EVP_MD_CTX *to, const EVP_MD_CTX *from));
int EVP_MD_meth_set_ctrl(EVP_MD *md, int (*ctrl)(EVP_MD_CTX *ctx, int cmd, int p1, void *p2));
int EVP_MD_meth_set_final(EVP_MD *md, int (*final)(EVP_MD_CTX *ctx, unsigned char *md));
int EVP_MD_meth_set_flags(EVP_MD *md, unsigned long flags);
int EVP_MD_meth_set_init(EVP_MD *md, int (*init)(EVP_MD_CTX *ctx));
int EVP_MD_meth_set_input_blocksize(EVP_MD *md, int blocksize);
int EVP_MD_meth_set_result_size(EVP_MD *md, int resultsize);
int EVP_MD_meth_set_update(EVP_MD *md, int (*update)(EVP_MD_CTX *ctx, const void *data,
	size_t count));
int EVP_MD_names_do_all(const EVP_MD *md, void (*fn)(const char *name, void *data), void *data);
const OSSL_PARAM *EVP_MD_settable_ctx_params(const EVP_MD *md);
int EVP_MD_up_ref(EVP_MD *md);
int EVP_OpenFinal(EVP_CIPHER_CTX *ctx, unsigned char *out, int *outl);
int EVP_OpenInit(EVP_CIPHER_CTX *ctx, const EVP_CIPHER *type, const unsigned char *ek, int
	ekl, const unsigned char *iv, EVP_PKEY *priv);
int EVP_PBE_CipherInit(ASN1_OBJECT *pbe_obj, const char *pass, int passlen, ASN1_TYPE
	*param, EVP_CIPHER_CTX *ctx, int en_de);
int EVP_PBE_CipherInit_ex(ASN1_OBJECT *pbe_obj, const char *pass, int passlen, ASN1_TYPE
	*param, EVP_CIPHER_CTX *ctx, int en_de, OSSL_LIB_CTX *libctx, const char *propq);
int EVP_PBE_alg_add(int nid, const EVP_CIPHER *cipher, const EVP_MD *md, EVP_PBE_KEYGEN *keygen);
int EVP_PBE_alg_add_type(int pbe_type, int pbe_nid, int cipher_nid, int md_nid,
	EVP_PBE_KEYGEN *keygen);
void EVP_PBE_cleanup(void);
int EVP_PBE_find(int type, int pbe_nid, int *pcnid, int *pmnid, EVP_PBE_KEYGEN **pkeygen);
int EVP_PBE_find_ex(int type, int pbe_nid, int *pcnid, int *pmnid, EVP_PBE_KEYGEN **pkeygen,
	EVP_PBE_KEYGEN_EX **pkeygen_ex);
int EVP_PBE_get(int *ptype, int *ppbe_nid, size_t num);
int EVP_PBE_scrypt(const char *pass, size_t passlen, const unsigned char *salt, size_t
	saltlen, uint64_t N, uint64_t r, uint64_t p, uint64_t maxmem, unsigned char *key, size_t
	keylen);
int EVP_PBE_scrypt_ex(const char *pass, size_t passlen, const unsigned char *salt, size_t
	saltlen, uint64_t N, uint64_t r, uint64_t p, uint64_t maxmem, unsigned char *key, size_t
	keylen, OSSL_LIB_CTX *ctx, const char *propq);
EVP_PKEY *EVP_PKCS82PKEY(const PKCS8_PRIV_KEY_INFO *p8);
EVP_PKEY *EVP_PKCS82PKEY_ex(const PKCS8_PRIV_KEY_INFO *p8, OSSL_LIB_CTX *libctx, const char *propq);
PKCS8_PRIV_KEY_INFO *EVP_PKEY2PKCS8(const EVP_PKEY *pkey);
int EVP_PKEY_CTX_ctrl(EVP_PKEY_CTX *ctx, int keytype, int optype, int cmd, int p1, void *p2);
int EVP_PKEY_CTX_ctrl_str(EVP_PKEY_CTX *ctx, const char *type, const char *value);
int EVP_PKEY_CTX_ctrl_uint64(EVP_PKEY_CTX *ctx, int keytype, int optype, int cmd, uint64_t value);
EVP_PKEY_CTX *EVP_PKEY_CTX_dup(const EVP_PKEY_CTX *ctx);
void EVP_PKEY_CTX_free(EVP_PKEY_CTX *ctx);
int EVP_PKEY_CTX_get0_dh_kdf_oid(EVP_PKEY_CTX *ctx, ASN1_OBJECT **oid);
int EVP_PKEY_CTX_get0_dh_kdf_ukm(EVP_PKEY_CTX *ctx, unsigned char **ukm);
int EVP_PKEY_CTX_get0_ecdh_kdf_ukm(EVP_PKEY_CTX *ctx, unsigned char **ukm);
OSSL_LIB_CTX *EVP_PKEY_CTX_get0_libctx(EVP_PKEY_CTX *ctx);
EVP_PKEY *EVP_PKEY_CTX_get0_peerkey(EVP_PKEY_CTX *ctx);
EVP_PKEY *EVP_PKEY_CTX_get0_pkey(EVP_PKEY_CTX *ctx);
const char *EVP_PKEY_CTX_get0_propq(const EVP_PKEY_CTX *ctx);
const OSSL_PROVIDER *EVP_PKEY_CTX_get0_provider(const EVP_PKEY_CTX *ctx);
int EVP_PKEY_CTX_get0_rsa_oaep_label(EVP_PKEY_CTX *ctx, unsigned char **label);
int EVP_PKEY_CTX_get1_id(EVP_PKEY_CTX *ctx, void *id);
int EVP_PKEY_CTX_get1_id_len(EVP_PKEY_CTX *ctx, size_t *id_len);
void *EVP_PKEY_CTX_get_app_data(EVP_PKEY_CTX *ctx);
EVP_PKEY_gen_cb *EVP_PKEY_CTX_get_cb(EVP_PKEY_CTX *ctx);
void *EVP_PKEY_CTX_get_data(const EVP_PKEY_CTX *ctx);
int EVP_PKEY_CTX_get_dh_kdf_md(EVP_PKEY_CTX *ctx, const EVP_MD **md);
int EVP_PKEY_CTX_get_dh_kdf_outlen(EVP_PKEY_CTX *ctx, int *len);
int EVP_PKEY_CTX_get_dh_kdf_type(EVP_PKEY_CTX *ctx);
int EVP_PKEY_CTX_get_ecdh_cofactor_mode(EVP_PKEY_CTX *ctx);
int EVP_PKEY_CTX_get_ecdh_kdf_md(EVP_PKEY_CTX *ctx, const EVP_MD **md);
int EVP_PKEY_CTX_get_ecdh_kdf_outlen(EVP_PKEY_CTX *ctx, int *len);
int EVP_PKEY_CTX_get_ecdh_kdf_type(EVP_PKEY_CTX *ctx);
int EVP_PKEY_CTX_get_group_name(EVP_PKEY_CTX *ctx, char *name, size_t namelen);
int EVP_PKEY_CTX_get_keygen_info(EVP_PKEY_CTX *ctx, int idx);
int EVP_PKEY_CTX_get_operation(EVP_PKEY_CTX *ctx);
int EVP_PKEY_CTX_get_params(EVP_PKEY_CTX *ctx, OSSL_PARAM *params);
int EVP_PKEY_CTX_get_rsa_mgf1_md(EVP_PKEY_CTX *ctx, const EVP_MD **md);
int EVP_PKEY_CTX_get_rsa_mgf1_md_name(EVP_PKEY_CTX *ctx, char *name, size_t namelen);
int EVP_PKEY_CTX_get_rsa_oaep_md(EVP_PKEY_CTX *ctx, const EVP_MD **md);
int EVP_PKEY_CTX_get_rsa_oaep_md_name(EVP_PKEY_CTX *ctx, char *name, size_t namelen);
int EVP_PKEY_CTX_get_rsa_padding(EVP_PKEY_CTX *ctx, int *pad_mode);
int EVP_PKEY_CTX_get_rsa_pss_saltlen(EVP_PKEY_CTX *ctx, int *saltlen);
int EVP_PKEY_CTX_get_signature_md(EVP_PKEY_CTX *ctx, const EVP_MD **md);
const OSSL_PARAM *EVP_PKEY_CTX_gettable_params(const EVP_PKEY_CTX *ctx);
int EVP_PKEY_CTX_hex2ctrl(EVP_PKEY_CTX *ctx, int cmd, const char *hex);
int EVP_PKEY_CTX_is_a(EVP_PKEY_CTX *ctx, const char *keytype);
int EVP_PKEY_CTX_md(EVP_PKEY_CTX *ctx, int optype, int cmd, const char *md);
EVP_PKEY_CTX *EVP_PKEY_CTX_new(EVP_PKEY *pkey, ENGINE *e);
EVP_PKEY_CTX *EVP_PKEY_CTX_new_from_name(OSSL_LIB_CTX *libctx, const char *name, const char
	*propquery);
EVP_PKEY_CTX *EVP_PKEY_CTX_new_from_pkey(OSSL_LIB_CTX *libctx, EVP_PKEY *pkey, const char
	*propquery);
EVP_PKEY_CTX *EVP_PKEY_CTX_new_id(int id, ENGINE *e);
int EVP_PKEY_CTX_set0_dh_kdf_oid(EVP_PKEY_CTX *ctx, ASN1_OBJECT *oid);
int EVP_PKEY_CTX_set0_dh_kdf_ukm(EVP_PKEY_CTX *ctx, unsigned char *ukm, int len);
int EVP_PKEY_CTX_set0_ecdh_kdf_ukm(EVP_PKEY_CTX *ctx, unsigned char *ukm, int len);
void EVP_PKEY_CTX_set0_keygen_info(EVP_PKEY_CTX *ctx, int *dat, int datlen);
int EVP_PKEY_CTX_set0_rsa_oaep_label(EVP_PKEY_CTX *ctx, void *label, int llen);
int EVP_PKEY_CTX_set1_id(EVP_PKEY_CTX *ctx, const void *id, int len);
int EVP_PKEY_CTX_set1_rsa_keygen_pubexp(EVP_PKEY_CTX *ctx, BIGNUM *pubexp);
void EVP_PKEY_CTX_set_app_data(EVP_PKEY_CTX *ctx, void *data);
void EVP_PKEY_CTX_set_cb(EVP_PKEY_CTX *ctx, EVP_PKEY_gen_cb *cb);
void EVP_PKEY_CTX_set_data(EVP_PKEY_CTX *ctx, void *data);
int EVP_PKEY_CTX_set_dh_kdf_md(EVP_PKEY_CTX *ctx, const EVP_MD *md);
int EVP_PKEY_CTX_set_dh_kdf_outlen(EVP_PKEY_CTX *ctx, int len);
int EVP_PKEY_CTX_set_dh_kdf_type(EVP_PKEY_CTX *ctx, int kdf);
int EVP_PKEY_CTX_set_dh_nid(EVP_PKEY_CTX *ctx, int nid);
int EVP_PKEY_CTX_set_dh_pad(EVP_PKEY_CTX *ctx, int pad);
int EVP_PKEY_CTX_set_dh_paramgen_generator(EVP_PKEY_CTX *ctx, int gen);
int EVP_PKEY_CTX_set_dh_paramgen_gindex(EVP_PKEY_CTX *ctx, int gindex);
int EVP_PKEY_CTX_set_dh_paramgen_prime_len(EVP_PKEY_CTX *ctx, int pbits);
int EVP_PKEY_CTX_set_dh_paramgen_seed(EVP_PKEY_CTX *ctx, const unsigned char *seed, size_t seedlen);
int EVP_PKEY_CTX_set_dh_paramgen_subprime_len(EVP_PKEY_CTX *ctx, int qlen);
int EVP_PKEY_CTX_set_dh_paramgen_type(EVP_PKEY_CTX *ctx, int typ);
int EVP_PKEY_CTX_set_dh_rfc5114(EVP_PKEY_CTX *ctx, int gen);
int EVP_PKEY_CTX_set_dhx_rfc5114(EVP_PKEY_CTX *ctx, int gen);
int EVP_PKEY_CTX_set_dsa_paramgen_bits(EVP_PKEY_CTX *ctx, int nbits);
int EVP_PKEY_CTX_set_dsa_paramgen_gindex(EVP_PKEY_CTX *ctx, int gindex);
int EVP_PKEY_CTX_set_dsa_paramgen_md(EVP_PKEY_CTX *ctx, const EVP_MD *md);
int EVP_PKEY_CTX_set_dsa_paramgen_md_props(EVP_PKEY_CTX *ctx, const char *md_name, const
	char *md_properties);
int EVP_PKEY_CTX_set_dsa_paramgen_q_bits(EVP_PKEY_CTX *ctx, int qbits);
int EVP_PKEY_CTX_set_dsa_paramgen_seed(EVP_PKEY_CTX *ctx, const unsigned char *seed, size_t
	seedlen);
int EVP_PKEY_CTX_set_dsa_paramgen_type(EVP_PKEY_CTX *ctx, const char *name);
int EVP_PKEY_CTX_set_ec_param_enc(EVP_PKEY_CTX *ctx, int param_enc);
int EVP_PKEY_CTX_set_ec_paramgen_curve_nid(EVP_PKEY_CTX *ctx, int nid);
int EVP_PKEY_CTX_set_ecdh_cofactor_mode(EVP_PKEY_CTX *ctx, int cofactor_mode);
int EVP_PKEY_CTX_set_ecdh_kdf_md(EVP_PKEY_CTX *ctx, const EVP_MD *md);
int EVP_PKEY_CTX_set_ecdh_kdf_outlen(EVP_PKEY_CTX *ctx, int len);
int EVP_PKEY_CTX_set_ecdh_kdf_type(EVP_PKEY_CTX *ctx, int kdf);
int EVP_PKEY_CTX_set_group_name(EVP_PKEY_CTX *ctx, const char *name);
int EVP_PKEY_CTX_set_kem_op(EVP_PKEY_CTX *ctx, const char *op);
int EVP_PKEY_CTX_set_mac_key(EVP_PKEY_CTX *ctx, const unsigned char *key, int keylen);
int EVP_PKEY_CTX_set_params(EVP_PKEY_CTX *ctx, const OSSL_PARAM *params);
int EVP_PKEY_CTX_set_rsa_keygen_bits(EVP_PKEY_CTX *ctx, int bits);
int EVP_PKEY_CTX_set_rsa_keygen_primes(EVP_PKEY_CTX *ctx, int primes);
int EVP_PKEY_CTX_set_rsa_keygen_pubexp(EVP_PKEY_CTX *ctx, BIGNUM *pubexp);
int EVP_PKEY_CTX_set_rsa_mgf1_md(EVP_PKEY_CTX *ctx, const EVP_MD *md);
int EVP_PKEY_CTX_set_rsa_mgf1_md_name(EVP_PKEY_CTX *ctx, const char *mdname, const char *mdprops);
int EVP_PKEY_CTX_set_rsa_oaep_md(EVP_PKEY_CTX *ctx, const EVP_MD *md);
int EVP_PKEY_CTX_set_rsa_oaep_md_name(EVP_PKEY_CTX *ctx, const char *mdname, const char *mdprops);
int EVP_PKEY_CTX_set_rsa_padding(EVP_PKEY_CTX *ctx, int pad_mode);
int EVP_PKEY_CTX_set_rsa_pss_keygen_md(EVP_PKEY_CTX *ctx, const EVP_MD *md);
int EVP_PKEY_CTX_set_rsa_pss_keygen_md_name(EVP_PKEY_CTX *ctx, const char *mdname, const
	char *mdprops);
int EVP_PKEY_CTX_set_rsa_pss_keygen_mgf1_md(EVP_PKEY_CTX *ctx, const EVP_MD *md);
int EVP_PKEY_CTX_set_rsa_pss_keygen_mgf1_md_name(EVP_PKEY_CTX *ctx, const char *mdname);
int EVP_PKEY_CTX_set_rsa_pss_keygen_saltlen(EVP_PKEY_CTX *ctx, int saltlen);
int EVP_PKEY_CTX_set_rsa_pss_saltlen(EVP_PKEY_CTX *ctx, int saltlen);
int EVP_PKEY_CTX_set_signature_md(EVP_PKEY_CTX *ctx, const EVP_MD *md);
const OSSL_PARAM *EVP_PKEY_CTX_settable_params(const EVP_PKEY_CTX *ctx);
int EVP_PKEY_CTX_str2ctrl(EVP_PKEY_CTX *ctx, int cmd, const char *str);
EVP_PKEY *EVP_PKEY_Q_keygen(OSSL_LIB_CTX *libctx, const char *propq, const char *type, ...);
int EVP_PKEY_add1_attr(EVP_PKEY *key, X509_ATTRIBUTE *attr);
int EVP_PKEY_add1_attr_by_NID(EVP_PKEY *key, int nid, int type, const unsigned char *bytes,
	int len);
int EVP_PKEY_add1_attr_by_OBJ(EVP_PKEY *key, const ASN1_OBJECT *obj, int type, const
	unsigned char *bytes, int len);
int EVP_PKEY_add1_attr_by_txt(EVP_PKEY *key, const char *attrname, int type, const unsigned
	char *bytes, int len);
int EVP_PKEY_asn1_add0(const EVP_PKEY_ASN1_METHOD *ameth);
int EVP_PKEY_asn1_add_alias(int to, int from);
void EVP_PKEY_asn1_copy(EVP_PKEY_ASN1_METHOD *dst, const EVP_PKEY_ASN1_METHOD *src);
const EVP_PKEY_ASN1_METHOD *EVP_PKEY_asn1_find(ENGINE **pe, int type);
const EVP_PKEY_ASN1_METHOD *EVP_PKEY_asn1_find_str(ENGINE **pe, const char *str, int len);
void EVP_PKEY_asn1_free(EVP_PKEY_ASN1_METHOD *ameth);
const EVP_PKEY_ASN1_METHOD *EVP_PKEY_asn1_get0(int idx);
int EVP_PKEY_asn1_get0_info(int *ppkey_id, int *pkey_base_id, int *ppkey_flags, const char
	**pinfo, const char **ppem_str, const EVP_PKEY_ASN1_METHOD *ameth);
int EVP_PKEY_asn1_get_count(void);
EVP_PKEY_ASN1_METHOD *EVP_PKEY_asn1_new(int id, int flags, const char *pem_str, const char *info);
void EVP_PKEY_asn1_set_check(EVP_PKEY_ASN1_METHOD *ameth, int (*pkey_check)(const EVP_PKEY *pk));
void EVP_PKEY_asn1_set_ctrl(EVP_PKEY_ASN1_METHOD *ameth, int (*pkey_ctrl)(EVP_PKEY *pkey,
	int op, long arg1, void *arg2));
void EVP_PKEY_asn1_set_free(EVP_PKEY_ASN1_METHOD *ameth, void (*pkey_free)(EVP_PKEY *pkey));
void EVP_PKEY_asn1_set_get_priv_key(EVP_PKEY_ASN1_METHOD *ameth, int (*get_priv_key)(const
	EVP_PKEY *pk, unsigned char *priv, size_t *len));
void EVP_PKEY_asn1_set_get_pub_key(EVP_PKEY_ASN1_METHOD *ameth, int (*get_pub_key)(const
	EVP_PKEY *pk, unsigned char *pub, size_t *len));
void EVP_PKEY_asn1_set_item(EVP_PKEY_ASN1_METHOD *ameth, int (*item_verify)(EVP_MD_CTX *ctx,
	const ASN1_ITEM *it, const void *data, const X509_ALGOR *a, const ASN1_BIT_STRING *sig,
	EVP_PKEY *pkey), int (*item_sign)(EVP_MD_CTX *ctx, const ASN1_ITEM *it, const void *data,
	X509_ALGOR *alg1, X509_ALGOR *alg2, ASN1_BIT_STRING *sig));
void EVP_PKEY_asn1_set_param(EVP_PKEY_ASN1_METHOD *ameth, int (*param_decode)(EVP_PKEY
	*pkey, const unsigned char **pder, int derlen), int (*param_encode)(const EVP_PKEY *pkey,
	unsigned char **pder), int (*param_missing)(const EVP_PKEY *pk), int (*param_copy)(EVP_PKEY
	*to, const EVP_PKEY *from), int (*param_cmp)(const EVP_PKEY *a, const EVP_PKEY *b), int
	(*param_print)(BIO *out, const EVP_PKEY *pkey, int indent, ASN1_PCTX *pctx));
void EVP_PKEY_asn1_set_param_check(EVP_PKEY_ASN1_METHOD *ameth, int
	(*pkey_param_check)(const EVP_PKEY *pk));
void EVP_PKEY_asn1_set_private(EVP_PKEY_ASN1_METHOD *ameth, int (*priv_decode)(EVP_PKEY *pk,
	const PKCS8_PRIV_KEY_INFO *p8inf), int (*priv_encode)(PKCS8_PRIV_KEY_INFO *p8, const
	EVP_PKEY *pk), int (*priv_print)(BIO *out, const EVP_PKEY *pkey, int indent, ASN1_PCTX
	*pctx));
void EVP_PKEY_asn1_set_public(EVP_PKEY_ASN1_METHOD *ameth, int (*pub_decode)(EVP_PKEY *pk,
	const X509_PUBKEY *pub), int (*pub_encode)(X509_PUBKEY *pub, const EVP_PKEY *pk), int
	(*pub_cmp)(const EVP_PKEY *a, const EVP_PKEY *b), int (*pub_print)(BIO *out, const EVP_PKEY
	*pkey, int indent, ASN1_PCTX *pctx), int (*pkey_size)(const EVP_PKEY *pk), int
	(*pkey_bits)(const EVP_PKEY *pk));
void EVP_PKEY_asn1_set_public_check(EVP_PKEY_ASN1_METHOD *ameth, int (*pkey_pub_check)(const
	EVP_PKEY *pk));
void EVP_PKEY_asn1_set_security_bits(EVP_PKEY_ASN1_METHOD *ameth, int
	(*pkey_security_bits)(const EVP_PKEY *pk));
void EVP_PKEY_asn1_set_set_priv_key(EVP_PKEY_ASN1_METHOD *ameth, int
	(*set_priv_key)(EVP_PKEY *pk, const unsigned char *priv, size_t len));
void EVP_PKEY_asn1_set_set_pub_key(EVP_PKEY_ASN1_METHOD *ameth, int (*set_pub_key)(EVP_PKEY
	*pk, const unsigned char *pub, size_t len));
void EVP_PKEY_asn1_set_siginf(EVP_PKEY_ASN1_METHOD *ameth, int (*siginf_set)(X509_SIG_INFO
	*siginf, const X509_ALGOR *alg, const ASN1_STRING *sig));
int EVP_PKEY_assign(EVP_PKEY *pkey, int type, void *key);
int EVP_PKEY_can_sign(const EVP_PKEY *pkey);
int EVP_PKEY_check(EVP_PKEY_CTX *ctx);
int EVP_PKEY_cmp(const EVP_PKEY *a, const EVP_PKEY *b);
int EVP_PKEY_cmp_parameters(const EVP_PKEY *a, const EVP_PKEY *b);
int EVP_PKEY_copy_parameters(EVP_PKEY *to, const EVP_PKEY *from);
int EVP_PKEY_decapsulate(EVP_PKEY_CTX *ctx, unsigned char *unwrapped, size_t *unwrappedlen,
	const unsigned char *wrapped, size_t wrappedlen);
int EVP_PKEY_decapsulate_init(EVP_PKEY_CTX *ctx, const OSSL_PARAM *params);
int EVP_PKEY_decrypt(EVP_PKEY_CTX *ctx, unsigned char *out, size_t *outlen, const unsigned
	char *in, size_t inlen);
int EVP_PKEY_decrypt_init(EVP_PKEY_CTX *ctx);
int EVP_PKEY_decrypt_init_ex(EVP_PKEY_CTX *ctx, const OSSL_PARAM *params);
int EVP_PKEY_decrypt_old(unsigned char *dec_key, const unsigned char *enc_key, int
	enc_key_len, EVP_PKEY *private_key);
X509_ATTRIBUTE *EVP_PKEY_delete_attr(EVP_PKEY *key, int loc);
int EVP_PKEY_derive(EVP_PKEY_CTX *ctx, unsigned char *key, size_t *keylen);
int EVP_PKEY_derive_init(EVP_PKEY_CTX *ctx);
int EVP_PKEY_derive_init_ex(EVP_PKEY_CTX *ctx, const OSSL_PARAM *params);
int EVP_PKEY_derive_set_peer(EVP_PKEY_CTX *ctx, EVP_PKEY *peer);
int EVP_PKEY_derive_set_peer_ex(EVP_PKEY_CTX *ctx, EVP_PKEY *peer, int validate_peer);
int EVP_PKEY_digestsign_supports_digest(EVP_PKEY *pkey, OSSL_LIB_CTX *libctx, const char
	*name, const char *propq);
EVP_PKEY *EVP_PKEY_dup(EVP_PKEY *pkey);
int EVP_PKEY_encapsulate(EVP_PKEY_CTX *ctx, unsigned char *wrappedkey, size_t
	*wrappedkeylen, unsigned char *genkey, size_t *genkeylen);
int EVP_PKEY_encapsulate_init(EVP_PKEY_CTX *ctx, const OSSL_PARAM *params);
int EVP_PKEY_encrypt(EVP_PKEY_CTX *ctx, unsigned char *out, size_t *outlen, const unsigned
	char *in, size_t inlen);
int EVP_PKEY_encrypt_init(EVP_PKEY_CTX *ctx);
int EVP_PKEY_encrypt_init_ex(EVP_PKEY_CTX *ctx, const OSSL_PARAM *params);
int EVP_PKEY_encrypt_old(unsigned char *enc_key, const unsigned char *key, int key_len,
	EVP_PKEY *pub_key);
int EVP_PKEY_eq(const EVP_PKEY *a, const EVP_PKEY *b);
int EVP_PKEY_export(const EVP_PKEY *pkey, int selection, OSSL_CALLBACK *export_cb, void
	*export_cbarg);
void EVP_PKEY_free(EVP_PKEY *pkey);
int EVP_PKEY_fromdata(EVP_PKEY_CTX *ctx, EVP_PKEY **ppkey, int selection, OSSL_PARAM *param);
int EVP_PKEY_fromdata_init(EVP_PKEY_CTX *ctx);
const OSSL_PARAM *EVP_PKEY_fromdata_settable(EVP_PKEY_CTX *ctx, int selection);
int EVP_PKEY_generate(EVP_PKEY_CTX *ctx, EVP_PKEY **ppkey);
void *EVP_PKEY_get0(const EVP_PKEY *pkey);
const struct dh_st *EVP_PKEY_get0_DH(const EVP_PKEY *pkey);
const struct dsa_st *EVP_PKEY_get0_DSA(const EVP_PKEY *pkey);
const struct ec_key_st *EVP_PKEY_get0_EC_KEY(const EVP_PKEY *pkey);
const struct rsa_st *EVP_PKEY_get0_RSA(const EVP_PKEY *pkey);
const EVP_PKEY_ASN1_METHOD *EVP_PKEY_get0_asn1(const EVP_PKEY *pkey);
const char *EVP_PKEY_get0_description(const EVP_PKEY *pkey);
ENGINE *EVP_PKEY_get0_engine(const EVP_PKEY *pkey);
const unsigned char *EVP_PKEY_get0_hmac(const EVP_PKEY *pkey, size_t *len);
const unsigned char *EVP_PKEY_get0_poly1305(const EVP_PKEY *pkey, size_t *len);
const OSSL_PROVIDER *EVP_PKEY_get0_provider(const EVP_PKEY *key);
const unsigned char *EVP_PKEY_get0_siphash(const EVP_PKEY *pkey, size_t *len);
const char *EVP_PKEY_get0_type_name(const EVP_PKEY *key);
struct dh_st *EVP_PKEY_get1_DH(EVP_PKEY *pkey);
struct dsa_st *EVP_PKEY_get1_DSA(EVP_PKEY *pkey);
struct ec_key_st *EVP_PKEY_get1_EC_KEY(EVP_PKEY *pkey);
struct rsa_st *EVP_PKEY_get1_RSA(EVP_PKEY *pkey);
size_t EVP_PKEY_get1_encoded_public_key(EVP_PKEY *pkey, unsigned char **ppub);
X509_ATTRIBUTE *EVP_PKEY_get_attr(const EVP_PKEY *key, int loc);
int EVP_PKEY_get_attr_by_NID(const EVP_PKEY *key, int nid, int lastpos);
int EVP_PKEY_get_attr_by_OBJ(const EVP_PKEY *key, const ASN1_OBJECT *obj, int lastpos);
int EVP_PKEY_get_attr_count(const EVP_PKEY *key);
int EVP_PKEY_get_base_id(const EVP_PKEY *pkey);
int EVP_PKEY_get_bits(const EVP_PKEY *pkey);
int EVP_PKEY_get_bn_param(const EVP_PKEY *pkey, const char *key_name, BIGNUM **bn);
int EVP_PKEY_get_default_digest_name(EVP_PKEY *pkey, char *mdname, size_t mdname_sz);
int EVP_PKEY_get_default_digest_nid(EVP_PKEY *pkey, int *pnid);
int EVP_PKEY_get_ec_point_conv_form(const EVP_PKEY *pkey);
void *EVP_PKEY_get_ex_data(const EVP_PKEY *key, int idx);
int EVP_PKEY_get_field_type(const EVP_PKEY *pkey);
int EVP_PKEY_get_group_name(const EVP_PKEY *pkey, char *name, size_t name_sz, size_t *gname_len);
int EVP_PKEY_get_id(const EVP_PKEY *pkey);
int EVP_PKEY_get_int_param(const EVP_PKEY *pkey, const char *key_name, int *out);
int EVP_PKEY_get_octet_string_param(const EVP_PKEY *pkey, const char *key_name, unsigned
	char *buf, size_t max_buf_sz, size_t *out_sz);
int EVP_PKEY_get_params(const EVP_PKEY *pkey, OSSL_PARAM *params);
int EVP_PKEY_get_raw_private_key(const EVP_PKEY *pkey, unsigned char *priv, size_t *len);
int EVP_PKEY_get_raw_public_key(const EVP_PKEY *pkey, unsigned char *pub, size_t *len);
int EVP_PKEY_get_security_bits(const EVP_PKEY *pkey);
int EVP_PKEY_get_size(const EVP_PKEY *pkey);
int EVP_PKEY_get_size_t_param(const EVP_PKEY *pkey, const char *key_name, size_t *out);
int EVP_PKEY_get_utf8_string_param(const EVP_PKEY *pkey, const char *key_name, char *str,
	size_t max_buf_sz, size_t *out_sz);
const OSSL_PARAM *EVP_PKEY_gettable_params(const EVP_PKEY *pkey);
int EVP_PKEY_is_a(const EVP_PKEY *pkey, const char *name);
int EVP_PKEY_keygen(EVP_PKEY_CTX *ctx, EVP_PKEY **ppkey);
int EVP_PKEY_keygen_init(EVP_PKEY_CTX *ctx);
int EVP_PKEY_meth_add0(const EVP_PKEY_METHOD *pmeth);
void EVP_PKEY_meth_copy(EVP_PKEY_METHOD *dst, const EVP_PKEY_METHOD *src);
const EVP_PKEY_METHOD *EVP_PKEY_meth_find(int type);
void EVP_PKEY_meth_free(EVP_PKEY_METHOD *pmeth);
const EVP_PKEY_METHOD *EVP_PKEY_meth_get0(size_t idx);
void EVP_PKEY_meth_get0_info(int *ppkey_id, int *pflags, const EVP_PKEY_METHOD *meth);
size_t EVP_PKEY_meth_get_count(void);
EVP_PKEY_METHOD *EVP_PKEY_meth_new(int id, int flags);
int EVP_PKEY_meth_remove(const EVP_PKEY_METHOD *pmeth);
void EVP_PKEY_meth_set_check(EVP_PKEY_METHOD *pmeth, int (*check)(EVP_PKEY *pkey));
void EVP_PKEY_meth_set_cleanup(EVP_PKEY_METHOD *pmeth, void (*cleanup)(EVP_PKEY_CTX *ctx));
void EVP_PKEY_meth_set_copy(EVP_PKEY_METHOD *pmeth, int (*copy)(EVP_PKEY_CTX *dst, const
	EVP_PKEY_CTX *src));
void EVP_PKEY_meth_set_ctrl(EVP_PKEY_METHOD *pmeth, int (*ctrl)(EVP_PKEY_CTX *ctx, int type,
	int p1, void *p2), int (*ctrl_str)(EVP_PKEY_CTX *ctx, const char *type, const char *value));
void EVP_PKEY_meth_set_decrypt(EVP_PKEY_METHOD *pmeth, int (*decrypt_init)(EVP_PKEY_CTX
	*ctx), int (*decrypt)(EVP_PKEY_CTX *ctx, unsigned char *out, size_t *outlen, const unsigned
	char *in, size_t inlen));
void EVP_PKEY_meth_set_derive(EVP_PKEY_METHOD *pmeth, int (*derive_init)(EVP_PKEY_CTX *ctx),
	int (*derive)(EVP_PKEY_CTX *ctx, unsigned char *key, size_t *keylen));
void EVP_PKEY_meth_set_digest_custom(EVP_PKEY_METHOD *pmeth, int
	(*digest_custom)(EVP_PKEY_CTX *ctx, EVP_MD_CTX *mctx));
void EVP_PKEY_meth_set_digestsign(EVP_PKEY_METHOD *pmeth, int (*digestsign)(EVP_MD_CTX *ctx,
	unsigned char *sig, size_t *siglen, const unsigned char *tbs, size_t tbslen));
void EVP_PKEY_meth_set_digestverify(EVP_PKEY_METHOD *pmeth, int (*digestverify)(EVP_MD_CTX
	*ctx, const unsigned char *sig, size_t siglen, const unsigned char *tbs, size_t tbslen));
void EVP_PKEY_meth_set_encrypt(EVP_PKEY_METHOD *pmeth, int (*encrypt_init)(EVP_PKEY_CTX
	*ctx), int (*encryptfn)(EVP_PKEY_CTX *ctx, unsigned char *out, size_t *outlen, const
	unsigned char *in, size_t inlen));
void EVP_PKEY_meth_set_init(EVP_PKEY_METHOD *pmeth, int (*init)(EVP_PKEY_CTX *ctx));
void EVP_PKEY_meth_set_keygen(EVP_PKEY_METHOD *pmeth, int (*keygen_init)(EVP_PKEY_CTX *ctx),
	int (*keygen)(EVP_PKEY_CTX *ctx, EVP_PKEY *pkey));
void EVP_PKEY_meth_set_param_check(EVP_PKEY_METHOD *pmeth, int (*check)(EVP_PKEY *pkey));
void EVP_PKEY_meth_set_paramgen(EVP_PKEY_METHOD *pmeth, int (*paramgen_init)(EVP_PKEY_CTX
	*ctx), int (*paramgen)(EVP_PKEY_CTX *ctx, EVP_PKEY *pkey));
void EVP_PKEY_meth_set_public_check(EVP_PKEY_METHOD *pmeth, int (*check)(EVP_PKEY *pkey));
void EVP_PKEY_meth_set_sign(EVP_PKEY_METHOD *pmeth, int (*sign_init)(EVP_PKEY_CTX *ctx), int
	(*sign)(EVP_PKEY_CTX *ctx, unsigned char *sig, size_t *siglen, const unsigned char *tbs,
	size_t tbslen));
void EVP_PKEY_meth_set_signctx(EVP_PKEY_METHOD *pmeth, int (*signctx_init)(EVP_PKEY_CTX
	*ctx, EVP_MD_CTX *mctx), int (*signctx)(EVP_PKEY_CTX *ctx, unsigned char *sig, size_t
	*siglen, EVP_MD_CTX *mctx));
void EVP_PKEY_meth_set_verify(EVP_PKEY_METHOD *pmeth, int (*verify_init)(EVP_PKEY_CTX *ctx),
	int (*verify)(EVP_PKEY_CTX *ctx, const unsigned char *sig, size_t siglen, const unsigned
	char *tbs, size_t tbslen));
void EVP_PKEY_meth_set_verify_recover(EVP_PKEY_METHOD *pmeth, int
	(*verify_recover_init)(EVP_PKEY_CTX *ctx), int (*verify_recover)(EVP_PKEY_CTX *ctx, unsigned
	char *sig, size_t *siglen, const unsigned char *tbs, size_t tbslen));
void EVP_PKEY_meth_set_verifyctx(EVP_PKEY_METHOD *pmeth, int (*verifyctx_init)(EVP_PKEY_CTX
	*ctx, EVP_MD_CTX *mctx), int (*verifyctx)(EVP_PKEY_CTX *ctx, const unsigned char *sig, int
	siglen, EVP_MD_CTX *mctx));
int EVP_PKEY_missing_parameters(const EVP_PKEY *pkey);
EVP_PKEY *EVP_PKEY_new(void);
EVP_PKEY *EVP_PKEY_new_CMAC_key(ENGINE *e, const unsigned char *priv, size_t len, const
	EVP_CIPHER *cipher);
EVP_PKEY *EVP_PKEY_new_mac_key(int type, ENGINE *e, const unsigned char *key, int keylen);
EVP_PKEY *EVP_PKEY_new_raw_private_key(int type, ENGINE *e, const unsigned char *priv, size_t len);
EVP_PKEY *EVP_PKEY_new_raw_private_key_ex(OSSL_LIB_CTX *libctx, const char *keytype, const
	char *propq, const unsigned char *priv, size_t len);
EVP_PKEY *EVP_PKEY_new_raw_public_key(int type, ENGINE *e, const unsigned char *pub, size_t len);
EVP_PKEY *EVP_PKEY_new_raw_public_key_ex(OSSL_LIB_CTX *libctx, const char *keytype, const
	char *propq, const unsigned char *pub, size_t len);
int EVP_PKEY_pairwise_check(EVP_PKEY_CTX *ctx);
int EVP_PKEY_param_check(EVP_PKEY_CTX *ctx);
int EVP_PKEY_param_check_quick(EVP_PKEY_CTX *ctx);
int EVP_PKEY_parameters_eq(const EVP_PKEY *a, const EVP_PKEY *b);
int EVP_PKEY_paramgen(EVP_PKEY_CTX *ctx, EVP_PKEY **ppkey);
int EVP_PKEY_paramgen_init(EVP_PKEY_CTX *ctx);
int EVP_PKEY_print_params(BIO *out, const EVP_PKEY *pkey, int indent, ASN1_PCTX *pctx);
int EVP_PKEY_print_params_fp(FILE *fp, const EVP_PKEY *pkey, int indent, ASN1_PCTX *pctx);
int EVP_PKEY_print_private(BIO *out, const EVP_PKEY *pkey, int indent, ASN1_PCTX *pctx);
int EVP_PKEY_print_private_fp(FILE *fp, const EVP_PKEY *pkey, int indent, ASN1_PCTX *pctx);
int EVP_PKEY_print_public(BIO *out, const EVP_PKEY *pkey, int indent, ASN1_PCTX *pctx);
int EVP_PKEY_print_public_fp(FILE *fp, const EVP_PKEY *pkey, int indent, ASN1_PCTX *pctx);
int EVP_PKEY_private_check(EVP_PKEY_CTX *ctx);
int EVP_PKEY_public_check(EVP_PKEY_CTX *ctx);
int EVP_PKEY_public_check_quick(EVP_PKEY_CTX *ctx);
int EVP_PKEY_save_parameters(EVP_PKEY *pkey, int mode);
int EVP_PKEY_set1_DH(EVP_PKEY *pkey, struct dh_st *key);
int EVP_PKEY_set1_DSA(EVP_PKEY *pkey, struct dsa_st *key);
int EVP_PKEY_set1_EC_KEY(EVP_PKEY *pkey, struct ec_key_st *key);
int EVP_PKEY_set1_RSA(EVP_PKEY *pkey, struct rsa_st *key);
int EVP_PKEY_set1_encoded_public_key(EVP_PKEY *pkey, const unsigned char *pub, size_t publen);
int EVP_PKEY_set1_engine(EVP_PKEY *pkey, ENGINE *e);
int EVP_PKEY_set_bn_param(EVP_PKEY *pkey, const char *key_name, const BIGNUM *bn);
int EVP_PKEY_set_ex_data(EVP_PKEY *key, int idx, void *arg);
int EVP_PKEY_set_int_param(EVP_PKEY *pkey, const char *key_name, int in);
int EVP_PKEY_set_octet_string_param(EVP_PKEY *pkey, const char *key_name, const unsigned
	char *buf, size_t bsize);
int EVP_PKEY_set_params(EVP_PKEY *pkey, OSSL_PARAM *params);
int EVP_PKEY_set_size_t_param(EVP_PKEY *pkey, const char *key_name, size_t in);
int EVP_PKEY_set_type(EVP_PKEY *pkey, int type);
int EVP_PKEY_set_type_by_keymgmt(EVP_PKEY *pkey, EVP_KEYMGMT *keymgmt);
int EVP_PKEY_set_type_str(EVP_PKEY *pkey, const char *str, int len);
int EVP_PKEY_set_utf8_string_param(EVP_PKEY *pkey, const char *key_name, const char *str);
const OSSL_PARAM *EVP_PKEY_settable_params(const EVP_PKEY *pkey);
int EVP_PKEY_sign(EVP_PKEY_CTX *ctx, unsigned char *sig, size_t *siglen, const unsigned char
	*tbs, size_t tbslen);
int EVP_PKEY_sign_init(EVP_PKEY_CTX *ctx);
int EVP_PKEY_sign_init_ex(EVP_PKEY_CTX *ctx, const OSSL_PARAM *params);
int EVP_PKEY_todata(const EVP_PKEY *pkey, int selection, OSSL_PARAM **params);
int EVP_PKEY_type(int type);
int EVP_PKEY_type_names_do_all(const EVP_PKEY *pkey, void (*fn)(const char *name, void
	*data), void *data);
int EVP_PKEY_up_ref(EVP_PKEY *pkey);
int EVP_PKEY_verify(EVP_PKEY_CTX *ctx, const unsigned char *sig, size_t siglen, const
	unsigned char *tbs, size_t tbslen);
int EVP_PKEY_verify_init(EVP_PKEY_CTX *ctx);
int EVP_PKEY_verify_init_ex(EVP_PKEY_CTX *ctx, const OSSL_PARAM *params);
int EVP_PKEY_verify_recover(EVP_PKEY_CTX *ctx, unsigned char *rout, size_t *routlen, const
	unsigned char *sig, size_t siglen);
int EVP_PKEY_verify_recover_init(EVP_PKEY_CTX *ctx);
int EVP_PKEY_verify_recover_init_ex(EVP_PKEY_CTX *ctx, const OSSL_PARAM *params);
int EVP_Q_digest(OSSL_LIB_CTX *libctx, const char *name, const char *propq, const void
	*data, size_t datalen, unsigned char *md, size_t *mdlen);
unsigned char *EVP_Q_mac(OSSL_LIB_CTX *libctx, const char *name, const char *propq, const
	char *subalg, const OSSL_PARAM *params, const void *key, size_t keylen, const unsigned char
	*data, size_t datalen, unsigned char *out, size_t outsize, size_t *outlen);
void EVP_RAND_CTX_free(EVP_RAND_CTX *ctx);
EVP_RAND *EVP_RAND_CTX_get0_rand(EVP_RAND_CTX *ctx);
int EVP_RAND_CTX_get_params(EVP_RAND_CTX *ctx, OSSL_PARAM *params);
const OSSL_PARAM *EVP_RAND_CTX_gettable_params(EVP_RAND_CTX *ctx);
EVP_RAND_CTX *EVP_RAND_CTX_new(EVP_RAND *rand, EVP_RAND_CTX *parent);
int EVP_RAND_CTX_set_params(EVP_RAND_CTX *ctx, const OSSL_PARAM *params);
const OSSL_PARAM *EVP_RAND_CTX_settable_params(EVP_RAND_CTX *ctx);
void EVP_RAND_do_all_provided(OSSL_LIB_CTX *libctx, void (*fn)(EVP_RAND *rand, void *arg),
	void *arg);
int EVP_RAND_enable_locking(EVP_RAND_CTX *ctx);
EVP_RAND *EVP_RAND_fetch(OSSL_LIB_CTX *libctx, const char *algorithm, const char *properties);
void EVP_RAND_free(EVP_RAND *rand);
int EVP_RAND_generate(EVP_RAND_CTX *ctx, unsigned char *out, size_t outlen, unsigned int
	strength, int prediction_resistance, const unsigned char *addin, size_t addin_len);
const char *EVP_RAND_get0_description(const EVP_RAND *md);
const char *EVP_RAND_get0_name(const EVP_RAND *rand);
const OSSL_PROVIDER *EVP_RAND_get0_provider(const EVP_RAND *rand);
int EVP_RAND_get_params(EVP_RAND *rand, OSSL_PARAM *params);
int EVP_RAND_get_state(EVP_RAND_CTX *ctx);
unsigned int EVP_RAND_get_strength(EVP_RAND_CTX *ctx);
const OSSL_PARAM *EVP_RAND_gettable_ctx_params(const EVP_RAND *rand);
const OSSL_PARAM *EVP_RAND_gettable_params(const EVP_RAND *rand);
int EVP_RAND_instantiate(EVP_RAND_CTX *ctx, unsigned int strength, int
	prediction_resistance, const unsigned char *pstr, size_t pstr_len, const OSSL_PARAM
	*params);
int EVP_RAND_is_a(const EVP_RAND *rand, const char *name);
int EVP_RAND_names_do_all(const EVP_RAND *rand, void (*fn)(const char *name, void *data),
	void *data);
int EVP_RAND_nonce(EVP_RAND_CTX *ctx, unsigned char *out, size_t outlen);
int EVP_RAND_reseed(EVP_RAND_CTX *ctx, int prediction_resistance, const unsigned char *ent,
	size_t ent_len, const unsigned char *addin, size_t addin_len);
const OSSL_PARAM *EVP_RAND_settable_ctx_params(const EVP_RAND *rand);
int EVP_RAND_uninstantiate(EVP_RAND_CTX *ctx);
int EVP_RAND_up_ref(EVP_RAND *rand);
int EVP_RAND_verify_zeroization(EVP_RAND_CTX *ctx);
void EVP_SIGNATURE_do_all_provided(OSSL_LIB_CTX *libctx, void (*fn)(EVP_SIGNATURE
	*signature, void *data), void *data);
EVP_SIGNATURE *EVP_SIGNATURE_fetch(OSSL_LIB_CTX *ctx, const char *algorithm, const char
	*properties);
void EVP_SIGNATURE_free(EVP_SIGNATURE *signature);
const char *EVP_SIGNATURE_get0_description(const EVP_SIGNATURE *signature);
const char *EVP_SIGNATURE_get0_name(const EVP_SIGNATURE *signature);
OSSL_PROVIDER *EVP_SIGNATURE_get0_provider(const EVP_SIGNATURE *signature);
const OSSL_PARAM *EVP_SIGNATURE_gettable_ctx_params(const EVP_SIGNATURE *sig);
int EVP_SIGNATURE_is_a(const EVP_SIGNATURE *signature, const char *name);
int EVP_SIGNATURE_names_do_all(const EVP_SIGNATURE *signature, void (*fn)(const char *name,
	void *data), void *data);
const OSSL_PARAM *EVP_SIGNATURE_settable_ctx_params(const EVP_SIGNATURE *sig);
int EVP_SIGNATURE_up_ref(EVP_SIGNATURE *signature);
int EVP_SealFinal(EVP_CIPHER_CTX *ctx, unsigned char *out, int *outl);
int EVP_SealInit(EVP_CIPHER_CTX *ctx, const EVP_CIPHER *type, unsigned char **ek, int *ekl,
	unsigned char *iv, EVP_PKEY **pubk, int npubk);
int EVP_SignFinal(EVP_MD_CTX *ctx, unsigned char *md, unsigned int *s, EVP_PKEY *pkey);
int EVP_SignFinal_ex(EVP_MD_CTX *ctx, unsigned char *md, unsigned int *s, EVP_PKEY *pkey,
	OSSL_LIB_CTX *libctx, const char *propq);
int EVP_VerifyFinal(EVP_MD_CTX *ctx, const unsigned char *sigbuf, unsigned int siglen,
	EVP_PKEY *pkey);
int EVP_VerifyFinal_ex(EVP_MD_CTX *ctx, const unsigned char *sigbuf, unsigned int siglen,
	EVP_PKEY *pkey, OSSL_LIB_CTX *libctx, const char *propq);
void EVP_add_alg_module(void);
int EVP_add_cipher(const EVP_CIPHER *cipher);
int EVP_add_digest(const EVP_MD *digest);
const EVP_CIPHER *EVP_aes_128_cbc(void);
const EVP_CIPHER *EVP_aes_128_cbc_hmac_sha1(void);
const EVP_CIPHER *EVP_aes_128_cbc_hmac_sha256(void);
const EVP_CIPHER *EVP_aes_128_ccm(void);
const EVP_CIPHER *EVP_aes_128_cfb1(void);
const EVP_CIPHER *EVP_aes_128_cfb128(void);
const EVP_CIPHER *EVP_aes_128_cfb8(void);
const EVP_CIPHER *EVP_aes_128_ctr(void);
const EVP_CIPHER *EVP_aes_128_ecb(void);
const EVP_CIPHER *EVP_aes_128_gcm(void);
const EVP_CIPHER *EVP_aes_128_ocb(void);
const EVP_CIPHER *EVP_aes_128_ofb(void);
const EVP_CIPHER *EVP_aes_128_wrap(void);
const EVP_CIPHER *EVP_aes_128_wrap_pad(void);
const EVP_CIPHER *EVP_aes_128_xts(void);
const EVP_CIPHER *EVP_aes_192_cbc(void);
const EVP_CIPHER *EVP_aes_192_ccm(void);
const EVP_CIPHER *EVP_aes_192_cfb1(void);
const EVP_CIPHER *EVP_aes_192_cfb128(void);
const EVP_CIPHER *EVP_aes_192_cfb8(void);
const EVP_CIPHER *EVP_aes_192_ctr(void);
const EVP_CIPHER *EVP_aes_192_ecb(void);
const EVP_CIPHER *EVP_aes_192_gcm(void);
const EVP_CIPHER *EVP_aes_192_ocb(void);
const EVP_CIPHER *EVP_aes_192_ofb(void);
const EVP_CIPHER *EVP_aes_192_wrap(void);
const EVP_CIPHER *EVP_aes_192_wrap_pad(void);
const EVP_CIPHER *EVP_aes_256_cbc(void);
const EVP_CIPHER *EVP_aes_256_cbc_hmac_sha1(void);
const EVP_CIPHER *EVP_aes_256_cbc_hmac_sha256(void);
const EVP_CIPHER *EVP_aes_256_ccm(void);
const EVP_CIPHER *EVP_aes_256_cfb1(void);
const EVP_CIPHER *EVP_aes_256_cfb128(void);
const EVP_CIPHER *EVP_aes_256_cfb8(void);
const EVP_CIPHER *EVP_aes_256_ctr(void);
const EVP_CIPHER *EVP_aes_256_ecb(void);
const EVP_CIPHER *EVP_aes_256_gcm(void);
const EVP_CIPHER *EVP_aes_256_ocb(void);
const EVP_CIPHER *EVP_aes_256_ofb(void);
const EVP_CIPHER *EVP_aes_256_wrap(void);
const EVP_CIPHER *EVP_aes_256_wrap_pad(void);
const EVP_CIPHER *EVP_aes_256_xts(void);
const EVP_CIPHER *EVP_aria_128_cbc(void);
const EVP_CIPHER *EVP_aria_128_ccm(void);
const EVP_CIPHER *EVP_aria_128_cfb1(void);
const EVP_CIPHER *EVP_aria_128_cfb128(void);
const EVP_CIPHER *EVP_aria_128_cfb8(void);
const EVP_CIPHER *EVP_aria_128_ctr(void);
const EVP_CIPHER *EVP_aria_128_ecb(void);
const EVP_CIPHER *EVP_aria_128_gcm(void);
const EVP_CIPHER *EVP_aria_128_ofb(void);
const EVP_CIPHER *EVP_aria_192_cbc(void);
const EVP_CIPHER *EVP_aria_192_ccm(void);
const EVP_CIPHER *EVP_aria_192_cfb1(void);
const EVP_CIPHER *EVP_aria_192_cfb128(void);
const EVP_CIPHER *EVP_aria_192_cfb8(void);
const EVP_CIPHER *EVP_aria_192_ctr(void);
const EVP_CIPHER *EVP_aria_192_ecb(void);
const EVP_CIPHER *EVP_aria_192_gcm(void);
const EVP_CIPHER *EVP_aria_192_ofb(void);
const EVP_CIPHER *EVP_aria_256_cbc(void);
const EVP_CIPHER *EVP_aria_256_ccm(void);
const EVP_CIPHER *EVP_aria_256_cfb1(void);
const EVP_CIPHER *EVP_aria_256_cfb128(void);
const EVP_CIPHER *EVP_aria_256_cfb8(void);
const EVP_CIPHER *EVP_aria_256_ctr(void);
const EVP_CIPHER *EVP_aria_256_ecb(void);
const EVP_CIPHER *EVP_aria_256_gcm(void);
const EVP_CIPHER *EVP_aria_256_ofb(void);
const EVP_CIPHER *EVP_bf_cbc(void);
const EVP_CIPHER *EVP_bf_cfb64(void);
const EVP_CIPHER *EVP_bf_ecb(void);
const EVP_CIPHER *EVP_bf_ofb(void);
const EVP_MD *EVP_blake2b512(void);
const EVP_MD *EVP_blake2s256(void);
const EVP_CIPHER *EVP_camellia_128_cbc(void);
const EVP_CIPHER *EVP_camellia_128_cfb1(void);
const EVP_CIPHER *EVP_camellia_128_cfb128(void);
const EVP_CIPHER *EVP_camellia_128_cfb8(void);
const EVP_CIPHER *EVP_camellia_128_ctr(void);
const EVP_CIPHER *EVP_camellia_128_ecb(void);
const EVP_CIPHER *EVP_camellia_128_ofb(void);
const EVP_CIPHER *EVP_camellia_192_cbc(void);
const EVP_CIPHER *EVP_camellia_192_cfb1(void);
const EVP_CIPHER *EVP_camellia_192_cfb128(void);
const EVP_CIPHER *EVP_camellia_192_cfb8(void);
const EVP_CIPHER *EVP_camellia_192_ctr(void);
const EVP_CIPHER *EVP_camellia_192_ecb(void);
const EVP_CIPHER *EVP_camellia_192_ofb(void);
const EVP_CIPHER *EVP_camellia_256_cbc(void);
const EVP_CIPHER *EVP_camellia_256_cfb1(void);
const EVP_CIPHER *EVP_camellia_256_cfb128(void);
const EVP_CIPHER *EVP_camellia_256_cfb8(void);
const EVP_CIPHER *EVP_camellia_256_ctr(void);
const EVP_CIPHER *EVP_camellia_256_ecb(void);
const EVP_CIPHER *EVP_camellia_256_ofb(void);
const EVP_CIPHER *EVP_cast5_cbc(void);
const EVP_CIPHER *EVP_cast5_cfb64(void);
const EVP_CIPHER *EVP_cast5_ecb(void);
const EVP_CIPHER *EVP_cast5_ofb(void);
const EVP_CIPHER *EVP_chacha20(void);
const EVP_CIPHER *EVP_chacha20_poly1305(void);
int EVP_default_properties_enable_fips(OSSL_LIB_CTX *libctx, int enable);
int EVP_default_properties_is_fips_enabled(OSSL_LIB_CTX *libctx);
const EVP_CIPHER *EVP_des_cbc(void);
const EVP_CIPHER *EVP_des_cfb1(void);
const EVP_CIPHER *EVP_des_cfb64(void);
const EVP_CIPHER *EVP_des_cfb8(void);
const EVP_CIPHER *EVP_des_ecb(void);
const EVP_CIPHER *EVP_des_ede(void);
const EVP_CIPHER *EVP_des_ede3(void);
const EVP_CIPHER *EVP_des_ede3_cbc(void);
const EVP_CIPHER *EVP_des_ede3_cfb1(void);
const EVP_CIPHER *EVP_des_ede3_cfb64(void);
const EVP_CIPHER *EVP_des_ede3_cfb8(void);
const EVP_CIPHER *EVP_des_ede3_ecb(void);
const EVP_CIPHER *EVP_des_ede3_ofb(void);
const EVP_CIPHER *EVP_des_ede3_wrap(void);
const EVP_CIPHER *EVP_des_ede_cbc(void);
const EVP_CIPHER *EVP_des_ede_cfb64(void);
const EVP_CIPHER *EVP_des_ede_ecb(void);
const EVP_CIPHER *EVP_des_ede_ofb(void);
const EVP_CIPHER *EVP_des_ofb(void);
const EVP_CIPHER *EVP_desx_cbc(void);
const EVP_CIPHER *EVP_enc_null(void);
const EVP_CIPHER *EVP_get_cipherbyname(const char *name);
const EVP_MD *EVP_get_digestbyname(const char *name);
char *EVP_get_pw_prompt(void);
const EVP_MD *EVP_md4(void);
const EVP_MD *EVP_md5(void);
const EVP_MD *EVP_md5_sha1(void);
const EVP_MD *EVP_md_null(void);
const EVP_CIPHER *EVP_rc2_40_cbc(void);
const EVP_CIPHER *EVP_rc2_64_cbc(void);
const EVP_CIPHER *EVP_rc2_cbc(void);
const EVP_CIPHER *EVP_rc2_cfb64(void);
const EVP_CIPHER *EVP_rc2_ecb(void);
const EVP_CIPHER *EVP_rc2_ofb(void);
const EVP_CIPHER *EVP_rc4(void);
const EVP_CIPHER *EVP_rc4_40(void);
const EVP_CIPHER *EVP_rc4_hmac_md5(void);
int EVP_read_pw_string(char *buf, int length, const char *prompt, int verify);
int EVP_read_pw_string_min(char *buf, int minlen, int maxlen, const char *prompt, int verify);
const EVP_MD *EVP_ripemd160(void);
const EVP_CIPHER *EVP_seed_cbc(void);
const EVP_CIPHER *EVP_seed_cfb128(void);
const EVP_CIPHER *EVP_seed_ecb(void);
const EVP_CIPHER *EVP_seed_ofb(void);
int EVP_set_default_properties(OSSL_LIB_CTX *libctx, const char *propq);
void EVP_set_pw_prompt(const char *prompt);
const EVP_MD *EVP_sha1(void);
const EVP_MD *EVP_sha224(void);
const EVP_MD *EVP_sha256(void);
const EVP_MD *EVP_sha384(void);
const EVP_MD *EVP_sha3_224(void);
const EVP_MD *EVP_sha3_256(void);
const EVP_MD *EVP_sha3_384(void);
const EVP_MD *EVP_sha3_512(void);
const EVP_MD *EVP_sha512(void);
const EVP_MD *EVP_sha512_224(void);
const EVP_MD *EVP_sha512_256(void);
const EVP_MD *EVP_shake128(void);
const EVP_MD *EVP_shake256(void);
const EVP_MD *EVP_sm3(void);
const EVP_CIPHER *EVP_sm4_cbc(void);
const EVP_CIPHER *EVP_sm4_cfb128(void);
const EVP_CIPHER *EVP_sm4_ctr(void);
const EVP_CIPHER *EVP_sm4_ecb(void);
const EVP_CIPHER *EVP_sm4_ofb(void);
const EVP_MD *EVP_whirlpool(void);
int HMAC_CTX_copy(HMAC_CTX *dctx, HMAC_CTX *sctx);
void HMAC_CTX_free(HMAC_CTX *ctx);
const EVP_MD *HMAC_CTX_get_md(const HMAC_CTX *ctx);
HMAC_CTX *HMAC_CTX_new(void);
int HMAC_CTX_reset(HMAC_CTX *ctx);
void HMAC_CTX_set_flags(HMAC_CTX *ctx, unsigned long flags);
int HMAC_Final(HMAC_CTX *ctx, unsigned char *md, unsigned int *len);
int HMAC_Init(HMAC_CTX *ctx, const void *key, int len, const EVP_MD *md);
int HMAC_Init_ex(HMAC_CTX *ctx, const void *key, int len, const EVP_MD *md, ENGINE *impl);
int HMAC_Update(HMAC_CTX *ctx, const unsigned char *data, size_t len);
size_t HMAC_size(const HMAC_CTX *e);
int MD5_Final(unsigned char *md, MD5_CTX *c);
int MD5_Init(MD5_CTX *c);
void MD5_Transform(MD5_CTX *c, const unsigned char *b);
int MD5_Update(MD5_CTX *c, const void *data BYTES(len), size_t len) FAILS(== 0) ERRNO(none);
void OPENSSL_INIT_free(OPENSSL_INIT_SETTINGS *settings);
OPENSSL_INIT_SETTINGS *OPENSSL_INIT_new(void);
int OPENSSL_INIT_set_config_appname(OPENSSL_INIT_SETTINGS *settings, const char *config_appname);
void OPENSSL_INIT_set_config_file_flags(OPENSSL_INIT_SETTINGS *settings, unsigned long flags);
int OPENSSL_INIT_set_config_filename(OPENSSL_INIT_SETTINGS *settings, const char *config_filename);
void *OPENSSL_LH_delete(OPENSSL_LHASH *lh, const void *data);
void OPENSSL_LH_doall(OPENSSL_LHASH *lh, OPENSSL_LH_DOALL_FUNC func);
void OPENSSL_LH_doall_arg(OPENSSL_LHASH *lh, OPENSSL_LH_DOALL_FUNCARG func, void *arg);
int OPENSSL_LH_error(OPENSSL_LHASH *lh);
void OPENSSL_LH_flush(OPENSSL_LHASH *lh);
void OPENSSL_LH_free(OPENSSL_LHASH *lh);
unsigned long OPENSSL_LH_get_down_load(const OPENSSL_LHASH *lh);
void *OPENSSL_LH_insert(OPENSSL_LHASH *lh, void *data);
OPENSSL_LHASH *OPENSSL_LH_new(OPENSSL_LH_HASHFUNC h, OPENSSL_LH_COMPFUNC c);
void OPENSSL_LH_node_stats(const OPENSSL_LHASH *lh, FILE *fp);
void OPENSSL_LH_node_stats_bio(const OPENSSL_LHASH *lh, BIO *out);
void OPENSSL_LH_node_usage_stats(const OPENSSL_LHASH *lh, FILE *fp);
void OPENSSL_LH_node_usage_stats_bio(const OPENSSL_LHASH *lh, BIO *out);
unsigned long OPENSSL_LH_num_items(const OPENSSL_LHASH *lh);
void *OPENSSL_LH_retrieve(OPENSSL_LHASH *lh, const void *data);
void OPENSSL_LH_set_down_load(OPENSSL_LHASH *lh, unsigned long down_load);
void OPENSSL_LH_stats(const OPENSSL_LHASH *lh, FILE *fp);
void OPENSSL_LH_stats_bio(const OPENSSL_LHASH *lh, BIO *out);
unsigned long OPENSSL_LH_strhash(const char *c);
int OPENSSL_atexit(void (*handler)(void));
char *OPENSSL_buf2hexstr(const unsigned char *buf, long buflen);
int OPENSSL_buf2hexstr_ex(char *str, size_t str_n, size_t *strlength, const unsigned char
	*buf, size_t buflen, const char sep);
void OPENSSL_cleanse(void *ptr, size_t len);
void OPENSSL_cleanup(void);
void OPENSSL_config(const char *config_name);
void OPENSSL_die(const char *assertion, const char *file, int line);
void OPENSSL_fork_child(void);
void OPENSSL_fork_parent(void);
void OPENSSL_fork_prepare(void);
struct tm *OPENSSL_gmtime(const time_t *timer, struct tm *result);
int OPENSSL_gmtime_adj(struct tm *tm, int offset_day, long offset_sec);
int OPENSSL_gmtime_diff(int *pday, int *psec, const struct tm *from, const struct tm *to);
int OPENSSL_hexchar2int(unsigned char c);
unsigned char *OPENSSL_hexstr2buf(const char *str, long *buflen);
int OPENSSL_hexstr2buf_ex(unsigned char *buf, size_t buf_n, size_t *buflen, const char *str,
	const char sep);
const char *OPENSSL_info(int type);
void OPENSSL_init(void);
int OPENSSL_init_crypto(uint64_t opts, const OPENSSL_INIT_SETTINGS *settings);
int OPENSSL_isservice(void);
int OPENSSL_issetugid(void);
void OPENSSL_load_builtin_modules(void);
OPENSSL_STACK *OPENSSL_sk_deep_copy(const OPENSSL_STACK *arg1, OPENSSL_sk_copyfunc c,
	OPENSSL_sk_freefunc f);
void *OPENSSL_sk_delete(OPENSSL_STACK *st, int loc);
void *OPENSSL_sk_delete_ptr(OPENSSL_STACK *st, const void *p);
OPENSSL_STACK *OPENSSL_sk_dup(const OPENSSL_STACK *st);
int OPENSSL_sk_find(OPENSSL_STACK *st, const void *data);
int OPENSSL_sk_find_all(OPENSSL_STACK *st, const void *data, int *pnum);
int OPENSSL_sk_find_ex(OPENSSL_STACK *st, const void *data);
void OPENSSL_sk_free(OPENSSL_STACK *arg1);
int OPENSSL_sk_insert(OPENSSL_STACK *sk, const void *data, int where);
int OPENSSL_sk_is_sorted(const OPENSSL_STACK *st);
OPENSSL_STACK *OPENSSL_sk_new(OPENSSL_sk_compfunc cmp);
OPENSSL_STACK *OPENSSL_sk_new_null(void);
OPENSSL_STACK *OPENSSL_sk_new_reserve(OPENSSL_sk_compfunc c, int n);
int OPENSSL_sk_num(const OPENSSL_STACK *arg1);
void *OPENSSL_sk_pop(OPENSSL_STACK *st);
void OPENSSL_sk_pop_free(OPENSSL_STACK *st, void (*func)(void *));
int OPENSSL_sk_push(OPENSSL_STACK *st, const void *data);
int OPENSSL_sk_reserve(OPENSSL_STACK *st, int n);
void *OPENSSL_sk_set(OPENSSL_STACK *st, int i, const void *data);
OPENSSL_sk_compfunc OPENSSL_sk_set_cmp_func(OPENSSL_STACK *sk, OPENSSL_sk_compfunc cmp);
void *OPENSSL_sk_shift(OPENSSL_STACK *st);
void OPENSSL_sk_sort(OPENSSL_STACK *st);
int OPENSSL_sk_unshift(OPENSSL_STACK *st, const void *data);
void *OPENSSL_sk_value(const OPENSSL_STACK *arg1, int arg2);
void OPENSSL_sk_zero(OPENSSL_STACK *st);
int OPENSSL_strcasecmp(const char *s1, const char *s2);
size_t OPENSSL_strlcat(char *dst, const char *src, size_t siz);
size_t OPENSSL_strlcpy(char *dst, const char *src, size_t siz);
int OPENSSL_strncasecmp(const char *s1, const char *s2, size_t n);
size_t OPENSSL_strnlen(const char *str, size_t maxlen);
void OPENSSL_thread_stop(void);
void OPENSSL_thread_stop_ex(OSSL_LIB_CTX *ctx);
const char *OPENSSL_version_build_metadata(void);
unsigned int OPENSSL_version_major(void);
unsigned int OPENSSL_version_minor(void);
unsigned int OPENSSL_version_patch(void);
const char *OPENSSL_version_pre_release(void);
int OBJ_ln2nid(const char *s);
const char *OBJ_nid2ln(int n);
const char *OBJ_nid2sn(int n);
int OBJ_sn2nid(const char *s);
int OBJ_txt2nid(const char *s);
const char *OpenSSL_version(int type);
unsigned long OpenSSL_version_num(void);
void *PEM_ASN1_read(d2i_of_void *d2i, const char *name, FILE *fp, void **x, pem_password_cb
	*cb, void *u);
void *PEM_ASN1_read_bio(d2i_of_void *d2i, const char *name, BIO *bp, void **x,
	pem_password_cb *cb, void *u);
int PEM_ASN1_write(i2d_of_void *i2d, const char *name, FILE *fp, const void *x, const
	EVP_CIPHER *enc, const unsigned char *kstr, int klen, pem_password_cb *callback, void *u);
int PEM_ASN1_write_bio(i2d_of_void *i2d, const char *name, BIO *bp, const void *x, const
	EVP_CIPHER *enc, const unsigned char *kstr, int klen, pem_password_cb *cb, void *u);
int PEM_SignFinal(EVP_MD_CTX *ctx, unsigned char *sigret, unsigned int *siglen, EVP_PKEY *pkey);
int PEM_SignInit(EVP_MD_CTX *ctx, EVP_MD *type);
int PEM_SignUpdate(EVP_MD_CTX *ctx, const unsigned char *d, unsigned int cnt);
struct stack_st_X509_INFO *PEM_X509_INFO_read(FILE *fp, struct stack_st_X509_INFO *sk,
	pem_password_cb *cb, void *u);
struct stack_st_X509_INFO *PEM_X509_INFO_read_bio(BIO *bp, struct stack_st_X509_INFO *sk,
	pem_password_cb *cb, void *u);
struct stack_st_X509_INFO *PEM_X509_INFO_read_bio_ex(BIO *bp, struct stack_st_X509_INFO *sk,
	pem_password_cb *cb, void *u, OSSL_LIB_CTX *libctx, const char *propq);
struct stack_st_X509_INFO *PEM_X509_INFO_read_ex(FILE *fp, struct stack_st_X509_INFO *sk,
	pem_password_cb *cb, void *u, OSSL_LIB_CTX *libctx, const char *propq);
int PEM_X509_INFO_write_bio(BIO *bp, const X509_INFO *xi, EVP_CIPHER *enc, const unsigned
	char *kstr, int klen, pem_password_cb *cd, void *u);
int PEM_bytes_read_bio(unsigned char **pdata, long *plen, char **pnm, const char *name, BIO
	*bp, pem_password_cb *cb, void *u);
int PEM_bytes_read_bio_secmem(unsigned char **pdata, long *plen, char **pnm, const char
	*name, BIO *bp, pem_password_cb *cb, void *u);
int PEM_def_callback(char *buf, int num, int rwflag, void *userdata);
void PEM_dek_info(char *buf, const char *type, int len, const char *str);
int PEM_do_header(EVP_CIPHER_INFO *cipher, unsigned char *data, long *len, pem_password_cb
	*callback, void *u);
int PEM_get_EVP_CIPHER_INFO(char *header, EVP_CIPHER_INFO *cipher);
void PEM_proc_type(char *buf, int type);
int PEM_read(FILE *fp, char **name, char **header, unsigned char **data, long *len);
DH *PEM_read_DHparams(FILE *out, DH **x, pem_password_cb *cb, void *u);
DSA *PEM_read_DSAPrivateKey(FILE *out, DSA **x, pem_password_cb *cb, void *u);
DSA *PEM_read_DSA_PUBKEY(FILE *out, DSA **x, pem_password_cb *cb, void *u);
DSA *PEM_read_DSAparams(FILE *out, DSA **x, pem_password_cb *cb, void *u);
EC_GROUP *PEM_read_ECPKParameters(FILE *out, EC_GROUP **x, pem_password_cb *cb, void *u);
EC_KEY *PEM_read_ECPrivateKey(FILE *out, EC_KEY **x, pem_password_cb *cb, void *u);
EC_KEY *PEM_read_EC_PUBKEY(FILE *out, EC_KEY **x, pem_password_cb *cb, void *u);
NETSCAPE_CERT_SEQUENCE *PEM_read_NETSCAPE_CERT_SEQUENCE(FILE *out, NETSCAPE_CERT_SEQUENCE
	**x, pem_password_cb *cb, void *u);
PKCS7 *PEM_read_PKCS7(FILE *out, PKCS7 **x, pem_password_cb *cb, void *u);
X509_SIG *PEM_read_PKCS8(FILE *out, X509_SIG **x, pem_password_cb *cb, void *u);
PKCS8_PRIV_KEY_INFO *PEM_read_PKCS8_PRIV_KEY_INFO(FILE *out, PKCS8_PRIV_KEY_INFO **x,
	pem_password_cb *cb, void *u);
EVP_PKEY *PEM_read_PUBKEY(FILE *out, EVP_PKEY **x, pem_password_cb *cb, void *u);
EVP_PKEY *PEM_read_PUBKEY_ex(FILE *out, EVP_PKEY **x, pem_password_cb *cb, void *u,
	OSSL_LIB_CTX *libctx, const char *propq);
EVP_PKEY *PEM_read_PrivateKey(FILE *out, EVP_PKEY **x, pem_password_cb *cb, void *u);
EVP_PKEY *PEM_read_PrivateKey_ex(FILE *out, EVP_PKEY **x, pem_password_cb *cb, void *u,
	OSSL_LIB_CTX *libctx, const char *propq);
RSA *PEM_read_RSAPrivateKey(FILE *out, RSA **x, pem_password_cb *cb, void *u);
RSA *PEM_read_RSAPublicKey(FILE *out, RSA **x, pem_password_cb *cb, void *u);
RSA *PEM_read_RSA_PUBKEY(FILE *out, RSA **x, pem_password_cb *cb, void *u);
X509 *PEM_read_X509(FILE *out, X509 **x, pem_password_cb *cb, void *u);
X509 *PEM_read_X509_AUX(FILE *out, X509 **x, pem_password_cb *cb, void *u);
X509_CRL *PEM_read_X509_CRL(FILE *out, X509_CRL **x, pem_password_cb *cb, void *u);
X509_PUBKEY *PEM_read_X509_PUBKEY(FILE *out, X509_PUBKEY **x, pem_password_cb *cb, void *u);
X509_REQ *PEM_read_X509_REQ(FILE *out, X509_REQ **x, pem_password_cb *cb, void *u);
int PEM_read_bio(BIO *bp, char **name, char **header, unsigned char **data, long *len);
DH *PEM_read_bio_DHparams(BIO *out, DH **x, pem_password_cb *cb, void *u);
DSA *PEM_read_bio_DSAPrivateKey(BIO *out, DSA **x, pem_password_cb *cb, void *u);
DSA *PEM_read_bio_DSA_PUBKEY(BIO *out, DSA **x, pem_password_cb *cb, void *u);
DSA *PEM_read_bio_DSAparams(BIO *out, DSA **x, pem_password_cb *cb, void *u);
EC_GROUP *PEM_read_bio_ECPKParameters(BIO *out, EC_GROUP **x, pem_password_cb *cb, void *u);
EC_KEY *PEM_read_bio_ECPrivateKey(BIO *out, EC_KEY **x, pem_password_cb *cb, void *u);
EC_KEY *PEM_read_bio_EC_PUBKEY(BIO *out, EC_KEY **x, pem_password_cb *cb, void *u);
NETSCAPE_CERT_SEQUENCE *PEM_read_bio_NETSCAPE_CERT_SEQUENCE(BIO *out, NETSCAPE_CERT_SEQUENCE
	**x, pem_password_cb *cb, void *u);
PKCS7 *PEM_read_bio_PKCS7(BIO *out, PKCS7 **x, pem_password_cb *cb, void *u);
X509_SIG *PEM_read_bio_PKCS8(BIO *out, X509_SIG **x, pem_password_cb *cb, void *u);
PKCS8_PRIV_KEY_INFO *PEM_read_bio_PKCS8_PRIV_KEY_INFO(BIO *out, PKCS8_PRIV_KEY_INFO **x,
	pem_password_cb *cb, void *u);
EVP_PKEY *PEM_read_bio_PUBKEY(BIO *out, EVP_PKEY **x, pem_password_cb *cb, void *u);
EVP_PKEY *PEM_read_bio_PUBKEY_ex(BIO *out, EVP_PKEY **x, pem_password_cb *cb, void *u,
	OSSL_LIB_CTX *libctx, const char *propq);
EVP_PKEY *PEM_read_bio_Parameters(BIO *bp, EVP_PKEY **x);
EVP_PKEY *PEM_read_bio_Parameters_ex(BIO *bp, EVP_PKEY **x, OSSL_LIB_CTX *libctx, const char
	*propq);
EVP_PKEY *PEM_read_bio_PrivateKey(BIO *out, EVP_PKEY **x, pem_password_cb *cb, void *u);
EVP_PKEY *PEM_read_bio_PrivateKey_ex(BIO *out, EVP_PKEY **x, pem_password_cb *cb, void *u,
	OSSL_LIB_CTX *libctx, const char *propq);
RSA *PEM_read_bio_RSAPrivateKey(BIO *out, RSA **x, pem_password_cb *cb, void *u);
RSA *PEM_read_bio_RSAPublicKey(BIO *out, RSA **x, pem_password_cb *cb, void *u);
RSA *PEM_read_bio_RSA_PUBKEY(BIO *out, RSA **x, pem_password_cb *cb, void *u);
X509 *PEM_read_bio_X509(BIO *out, X509 **x, pem_password_cb *cb, void *u);
X509 *PEM_read_bio_X509_AUX(BIO *out, X509 **x, pem_password_cb *cb, void *u);
X509_CRL *PEM_read_bio_X509_CRL(BIO *out, X509_CRL **x, pem_password_cb *cb, void *u);
X509_PUBKEY *PEM_read_bio_X509_PUBKEY(BIO *out, X509_PUBKEY **x, pem_password_cb *cb, void *u);
X509_REQ *PEM_read_bio_X509_REQ(BIO *out, X509_REQ **x, pem_password_cb *cb, void *u);
int PEM_read_bio_ex(BIO *bp, char **name, char **header, unsigned char **data, long *len,
	unsigned int flags);
int PEM_write(FILE *fp, const char *name, const char *hdr, const unsigned char *data, long len);
int PEM_write_DHparams(FILE *out, const DH *x);
int PEM_write_DHxparams(FILE *out, const DH *x);
int PEM_write_DSAPrivateKey(FILE *out, const DSA *x, const EVP_CIPHER *enc, const unsigned
	char *kstr, int klen, pem_password_cb *cb, void *u);
int PEM_write_DSA_PUBKEY(FILE *out, const DSA *x);
int PEM_write_DSAparams(FILE *out, const DSA *x);
int PEM_write_ECPKParameters(FILE *out, const EC_GROUP *x);
int PEM_write_ECPrivateKey(FILE *out, const EC_KEY *x, const EVP_CIPHER *enc, const unsigned
	char *kstr, int klen, pem_password_cb *cb, void *u);
int PEM_write_EC_PUBKEY(FILE *out, const EC_KEY *x);
int PEM_write_NETSCAPE_CERT_SEQUENCE(FILE *out, const NETSCAPE_CERT_SEQUENCE *x);
int PEM_write_PKCS7(FILE *out, const PKCS7 *x);
int PEM_write_PKCS8(FILE *out, const X509_SIG *x);
int PEM_write_PKCS8PrivateKey(FILE *fp, const EVP_PKEY *x, const EVP_CIPHER *enc, const char
	*kstr, int klen, pem_password_cb *cd, void *u);
int PEM_write_PKCS8PrivateKey_nid(FILE *fp, const EVP_PKEY *x, int nid, const char *kstr,
	int klen, pem_password_cb *cb, void *u);
int PEM_write_PKCS8_PRIV_KEY_INFO(FILE *out, const PKCS8_PRIV_KEY_INFO *x);
int PEM_write_PUBKEY(FILE *out, const EVP_PKEY *x);
int PEM_write_PUBKEY_ex(FILE *out, const EVP_PKEY *x, OSSL_LIB_CTX *libctx, const char *propq);
int PEM_write_PrivateKey(FILE *out, const EVP_PKEY *x, const EVP_CIPHER *enc, const unsigned
	char *kstr, int klen, pem_password_cb *cb, void *u);
int PEM_write_PrivateKey_ex(FILE *out, const EVP_PKEY *x, const EVP_CIPHER *enc, const
	unsigned char *kstr, int klen, pem_password_cb *cb, void *u, OSSL_LIB_CTX *libctx, const
	char *propq);
int PEM_write_RSAPrivateKey(FILE *out, const RSA *x, const EVP_CIPHER *enc, const unsigned
	char *kstr, int klen, pem_password_cb *cb, void *u);
int PEM_write_RSAPublicKey(FILE *out, const RSA *x);
int PEM_write_RSA_PUBKEY(FILE *out, const RSA *x);
int PEM_write_X509(FILE *out, const X509 *x);
int PEM_write_X509_AUX(FILE *out, const X509 *x);
int PEM_write_X509_CRL(FILE *out, const X509_CRL *x);
int PEM_write_X509_PUBKEY(FILE *out, const X509_PUBKEY *x);
int PEM_write_X509_REQ(FILE *out, const X509_REQ *x);
int PEM_write_X509_REQ_NEW(FILE *out, const X509_REQ *x);
int PEM_write_bio(BIO *bp, const char *name, const char *hdr, const unsigned char *data, long len);
int PEM_write_bio_ASN1_stream(BIO *out, ASN1_VALUE *val, BIO *in, int flags, const char
	*hdr, const ASN1_ITEM *it);
int PEM_write_bio_DHparams(BIO *out, const DH *x);
int PEM_write_bio_DHxparams(BIO *out, const DH *x);
int PEM_write_bio_DSAPrivateKey(BIO *out, const DSA *x, const EVP_CIPHER *enc, const
	unsigned char *kstr, int klen, pem_password_cb *cb, void *u);
int PEM_write_bio_DSA_PUBKEY(BIO *out, const DSA *x);
int PEM_write_bio_DSAparams(BIO *out, const DSA *x);
int PEM_write_bio_ECPKParameters(BIO *out, const EC_GROUP *x);
int PEM_write_bio_ECPrivateKey(BIO *out, const EC_KEY *x, const EVP_CIPHER *enc, const
	unsigned char *kstr, int klen, pem_password_cb *cb, void *u);
int PEM_write_bio_EC_PUBKEY(BIO *out, const EC_KEY *x);
int PEM_write_bio_NETSCAPE_CERT_SEQUENCE(BIO *out, const NETSCAPE_CERT_SEQUENCE *x);
int PEM_write_bio_PKCS7(BIO *out, const PKCS7 *x);
int PEM_write_bio_PKCS7_stream(BIO *out, PKCS7 *p7, BIO *in, int flags);
int PEM_write_bio_PKCS8(BIO *out, const X509_SIG *x);
int PEM_write_bio_PKCS8PrivateKey(BIO *arg1, const EVP_PKEY *arg2, const EVP_CIPHER *arg3,
	const char *kstr, int klen, pem_password_cb *cb, void *u);
int PEM_write_bio_PKCS8PrivateKey_nid(BIO *bp, const EVP_PKEY *x, int nid, const char *kstr,
	int klen, pem_password_cb *cb, void *u);
int PEM_write_bio_PKCS8_PRIV_KEY_INFO(BIO *out, const PKCS8_PRIV_KEY_INFO *x);
int PEM_write_bio_PUBKEY(BIO *out, const EVP_PKEY *x);
int PEM_write_bio_PUBKEY_ex(BIO *out, const EVP_PKEY *x, OSSL_LIB_CTX *libctx, const char *propq);
int PEM_write_bio_Parameters(BIO *bp, const EVP_PKEY *x);
int PEM_write_bio_PrivateKey(BIO *out, const EVP_PKEY *x, const EVP_CIPHER *enc, const
	unsigned char *kstr, int klen, pem_password_cb *cb, void *u);
int PEM_write_bio_PrivateKey_ex(BIO *out, const EVP_PKEY *x, const EVP_CIPHER *enc, const
	unsigned char *kstr, int klen, pem_password_cb *cb, void *u, OSSL_LIB_CTX *libctx, const
	char *propq);
int PEM_write_bio_PrivateKey_traditional(BIO *bp, const EVP_PKEY *x, const EVP_CIPHER *enc,
	const unsigned char *kstr, int klen, pem_password_cb *cb, void *u);
int PEM_write_bio_RSAPrivateKey(BIO *out, const RSA *x, const EVP_CIPHER *enc, const
	unsigned char *kstr, int klen, pem_password_cb *cb, void *u);
int PEM_write_bio_RSAPublicKey(BIO *out, const RSA *x);
int PEM_write_bio_RSA_PUBKEY(BIO *out, const RSA *x);
int PEM_write_bio_X509(BIO *out, const X509 *x);
int PEM_write_bio_X509_AUX(BIO *out, const X509 *x);
int PEM_write_bio_X509_CRL(BIO *out, const X509_CRL *x);
int PEM_write_bio_X509_PUBKEY(BIO *out, const X509_PUBKEY *x);
int PEM_write_bio_X509_REQ(BIO *out, const X509_REQ *x);
int PEM_write_bio_X509_REQ_NEW(BIO *out, const X509_REQ *x);
RAND_METHOD *RAND_OpenSSL(void);
void RAND_add(const void *buf, int num, double randomness);
int RAND_bytes(unsigned char *buf OUT(result > 0) BYTES(num), int num);
int RAND_bytes_ex(OSSL_LIB_CTX *ctx, unsigned char *buf, size_t num, unsigned int strength);
const char *RAND_file_name(char *file, size_t num);
EVP_RAND_CTX *RAND_get0_primary(OSSL_LIB_CTX *ctx);
EVP_RAND_CTX *RAND_get0_private(OSSL_LIB_CTX *ctx);
EVP_RAND_CTX *RAND_get0_public(OSSL_LIB_CTX *ctx);
const RAND_METHOD *RAND_get_rand_method(void);
void RAND_keep_random_devices_open(int keep);
int RAND_load_file(const char *file, long max_bytes);
int RAND_poll(void);
int RAND_priv_bytes(unsigned char *buf OUT(result > 0) BYTES(num), int num);
int RAND_priv_bytes_ex(OSSL_LIB_CTX *ctx, unsigned char *buf, size_t num, unsigned int strength);
int RAND_pseudo_bytes(unsigned char *buf, int num);
void RAND_seed(const void *buf, int num);
int RAND_set_DRBG_type(OSSL_LIB_CTX *ctx, const char *drbg, const char *propq, const char
	*cipher, const char *digest);
int RAND_set_rand_engine(ENGINE *engine);
int RAND_set_rand_method(const RAND_METHOD *meth);
int RAND_set_seed_source_type(OSSL_LIB_CTX *ctx, const char *seed, const char *propq);
int RAND_status(void);
int RAND_write_file(const char *file);
unsigned char *SHA1(const unsigned char *d BYTES(n), size_t n, unsigned char *md);
int SHA1_Final(unsigned char *md, SHA_CTX *c);
int SHA1_Init(SHA_CTX *c);
void SHA1_Transform(SHA_CTX *c, const unsigned char *data);
int SHA1_Update(SHA_CTX *c, const void *data BYTES(len), size_t len) FAILS(== 0) ERRNO(none);
unsigned char *SHA224(const unsigned char *d, size_t n, unsigned char *md);
int SHA224_Final(unsigned char *md, SHA256_CTX *c);
int SHA224_Init(SHA256_CTX *c);
int SHA224_Update(SHA256_CTX *c, const void *data, size_t len);
unsigned char *SHA256(const unsigned char *d BYTES(n), size_t n, unsigned char *md);
int SHA256_Final(unsigned char *md, SHA256_CTX *c);
int SHA256_Init(SHA256_CTX *c);
void SHA256_Transform(SHA256_CTX *c, const unsigned char *data);
int SHA256_Update(SHA256_CTX *c, const void *data BYTES(len), size_t len) FAILS(== 0) ERRNO(none);
unsigned char *SHA384(const unsigned char *d, size_t n, unsigned char *md);
int SHA384_Final(unsigned char *md, SHA512_CTX *c);
int SHA384_Init(SHA512_CTX *c);
int SHA384_Update(SHA512_CTX *c, const void *data, size_t len);
unsigned char *SHA512(const unsigned char *d BYTES(n), size_t n, unsigned char *md);
int SHA512_Final(unsigned char *md, SHA512_CTX *c);
int SHA512_Init(SHA512_CTX *c);
void SHA512_Transform(SHA512_CTX *c, const unsigned char *data);
int SHA512_Update(SHA512_CTX *c, const void *data, size_t len);
const ASN1_ITEM *X509_ALGORS_it(void);
int X509_ALGOR_cmp(const X509_ALGOR *a, const X509_ALGOR *b);
int X509_ALGOR_copy(X509_ALGOR *dest, const X509_ALGOR *src);
X509_ALGOR *X509_ALGOR_dup(const X509_ALGOR *a);
void X509_ALGOR_free(X509_ALGOR *a);
void X509_ALGOR_get0(const ASN1_OBJECT **paobj, int *pptype, const void **ppval, const
	X509_ALGOR *algor);
const ASN1_ITEM *X509_ALGOR_it(void);
X509_ALGOR *X509_ALGOR_new(void);
int X509_ALGOR_set0(X509_ALGOR *alg, ASN1_OBJECT *aobj, int ptype, void *pval);
void X509_ALGOR_set_md(X509_ALGOR *alg, const EVP_MD *md);
int X509_ATTRIBUTE_count(const X509_ATTRIBUTE *attr);
X509_ATTRIBUTE *X509_ATTRIBUTE_create(int nid, int atrtype, void *value);
X509_ATTRIBUTE *X509_ATTRIBUTE_create_by_NID(X509_ATTRIBUTE **attr, int nid, int atrtype,
	const void *data, int len);
X509_ATTRIBUTE *X509_ATTRIBUTE_create_by_OBJ(X509_ATTRIBUTE **attr, const ASN1_OBJECT *obj,
	int atrtype, const void *data, int len);
X509_ATTRIBUTE *X509_ATTRIBUTE_create_by_txt(X509_ATTRIBUTE **attr, const char *atrname, int
	type, const unsigned char *bytes, int len);
X509_ATTRIBUTE *X509_ATTRIBUTE_dup(const X509_ATTRIBUTE *a);
void X509_ATTRIBUTE_free(X509_ATTRIBUTE *a);
void *X509_ATTRIBUTE_get0_data(X509_ATTRIBUTE *attr, int idx, int atrtype, void *data);
ASN1_OBJECT *X509_ATTRIBUTE_get0_object(X509_ATTRIBUTE *attr);
ASN1_TYPE *X509_ATTRIBUTE_get0_type(X509_ATTRIBUTE *attr, int idx);
const ASN1_ITEM *X509_ATTRIBUTE_it(void);
X509_ATTRIBUTE *X509_ATTRIBUTE_new(void);
int X509_ATTRIBUTE_set1_data(X509_ATTRIBUTE *attr, int attrtype, const void *data, int len);
int X509_ATTRIBUTE_set1_object(X509_ATTRIBUTE *attr, const ASN1_OBJECT *obj);
void X509_CERT_AUX_free(X509_CERT_AUX *a);
const ASN1_ITEM *X509_CERT_AUX_it(void);
X509_CERT_AUX *X509_CERT_AUX_new(void);
void X509_CINF_free(X509_CINF *a);
const ASN1_ITEM *X509_CINF_it(void);
X509_CINF *X509_CINF_new(void);
void X509_CRL_INFO_free(X509_CRL_INFO *a);
const ASN1_ITEM *X509_CRL_INFO_it(void);
X509_CRL_INFO *X509_CRL_INFO_new(void);
void X509_CRL_METHOD_free(X509_CRL_METHOD *m);
X509_CRL_METHOD *X509_CRL_METHOD_new(int (*crl_init)(X509_CRL *crl), int
	(*crl_free)(X509_CRL *crl), int (*crl_lookup)(X509_CRL *crl, X509_REVOKED **ret, const
	ASN1_INTEGER *serial, const X509_NAME *issuer), int (*crl_verify)(X509_CRL *crl, EVP_PKEY
	*pk));
int X509_CRL_add0_revoked(X509_CRL *crl, X509_REVOKED *rev);
int X509_CRL_add1_ext_i2d(X509_CRL *x, int nid, void *value, int crit, unsigned long flags);
int X509_CRL_add_ext(X509_CRL *x, X509_EXTENSION *ex, int loc);
int X509_CRL_check_suiteb(X509_CRL *crl, EVP_PKEY *pk, unsigned long flags);
int X509_CRL_cmp(const X509_CRL *a, const X509_CRL *b);
X509_EXTENSION *X509_CRL_delete_ext(X509_CRL *x, int loc);
X509_CRL *X509_CRL_diff(X509_CRL *base, X509_CRL *newer, EVP_PKEY *skey, const EVP_MD *md,
	unsigned int flags);
int X509_CRL_digest(const X509_CRL *data, const EVP_MD *type, unsigned char *md, unsigned int *len);
X509_CRL *X509_CRL_dup(const X509_CRL *a);
void X509_CRL_free(X509_CRL *a);
int X509_CRL_get0_by_cert(X509_CRL *crl, X509_REVOKED **ret, X509 *x);
int X509_CRL_get0_by_serial(X509_CRL *crl, X509_REVOKED **ret, const ASN1_INTEGER *serial);
const struct stack_st_X509_EXTENSION *X509_CRL_get0_extensions(const X509_CRL *crl);
const ASN1_TIME *X509_CRL_get0_lastUpdate(const X509_CRL *crl);
const ASN1_TIME *X509_CRL_get0_nextUpdate(const X509_CRL *crl);
void X509_CRL_get0_signature(const X509_CRL *crl, const ASN1_BIT_STRING **psig, const
	X509_ALGOR **palg);
struct stack_st_X509_REVOKED *X509_CRL_get_REVOKED(X509_CRL *crl);
X509_EXTENSION *X509_CRL_get_ext(const X509_CRL *x, int loc);
int X509_CRL_get_ext_by_NID(const X509_CRL *x, int nid, int lastpos);
int X509_CRL_get_ext_by_OBJ(const X509_CRL *x, const ASN1_OBJECT *obj, int lastpos);
int X509_CRL_get_ext_by_critical(const X509_CRL *x, int crit, int lastpos);
int X509_CRL_get_ext_count(const X509_CRL *x);
void *X509_CRL_get_ext_d2i(const X509_CRL *x, int nid, int *crit, int *idx);
X509_NAME *X509_CRL_get_issuer(const X509_CRL *crl);
ASN1_TIME *X509_CRL_get_lastUpdate(X509_CRL *crl);
void *X509_CRL_get_meth_data(X509_CRL *crl);
ASN1_TIME *X509_CRL_get_nextUpdate(X509_CRL *crl);
int X509_CRL_get_signature_nid(const X509_CRL *crl);
long X509_CRL_get_version(const X509_CRL *crl);
const ASN1_ITEM *X509_CRL_it(void);
X509_CRL *X509_CRL_load_http(const char *url, BIO *bio, BIO *rbio, int timeout);
int X509_CRL_match(const X509_CRL *a, const X509_CRL *b);
X509_CRL *X509_CRL_new(void);
X509_CRL *X509_CRL_new_ex(OSSL_LIB_CTX *libctx, const char *propq);
int X509_CRL_print(BIO *bp, X509_CRL *x);
int X509_CRL_print_ex(BIO *out, X509_CRL *x, unsigned long nmflag);
int X509_CRL_print_fp(FILE *bp, X509_CRL *x);
int X509_CRL_set1_lastUpdate(X509_CRL *x, const ASN1_TIME *tm);
int X509_CRL_set1_nextUpdate(X509_CRL *x, const ASN1_TIME *tm);
void X509_CRL_set_default_method(const X509_CRL_METHOD *meth);
int X509_CRL_set_issuer_name(X509_CRL *x, const X509_NAME *name);
void X509_CRL_set_meth_data(X509_CRL *crl, void *dat);
int X509_CRL_set_version(X509_CRL *x, long version);
int X509_CRL_sign(X509_CRL *x, EVP_PKEY *pkey, const EVP_MD *md);
int X509_CRL_sign_ctx(X509_CRL *x, EVP_MD_CTX *ctx);
int X509_CRL_sort(X509_CRL *crl);
int X509_CRL_up_ref(X509_CRL *crl);
int X509_CRL_verify(X509_CRL *a, EVP_PKEY *r);
const ASN1_ITEM *X509_EXTENSIONS_it(void);
X509_EXTENSION *X509_EXTENSION_create_by_NID(X509_EXTENSION **ex, int nid, int crit,
	ASN1_OCTET_STRING *data);
X509_EXTENSION *X509_EXTENSION_create_by_OBJ(X509_EXTENSION **ex, const ASN1_OBJECT *obj,
	int crit, ASN1_OCTET_STRING *data);
X509_EXTENSION *X509_EXTENSION_dup(const X509_EXTENSION *a);
void X509_EXTENSION_free(X509_EXTENSION *a);
int X509_EXTENSION_get_critical(const X509_EXTENSION *ex);
ASN1_OCTET_STRING *X509_EXTENSION_get_data(X509_EXTENSION *ne);
ASN1_OBJECT *X509_EXTENSION_get_object(X509_EXTENSION *ex);
const ASN1_ITEM *X509_EXTENSION_it(void);
X509_EXTENSION *X509_EXTENSION_new(void);
int X509_EXTENSION_set_critical(X509_EXTENSION *ex, int crit);
int X509_EXTENSION_set_data(X509_EXTENSION *ex, ASN1_OCTET_STRING *data);
int X509_EXTENSION_set_object(X509_EXTENSION *ex, const ASN1_OBJECT *obj);
void X509_INFO_free(X509_INFO *a);
X509_INFO *X509_INFO_new(void);
int X509_LOOKUP_by_alias(X509_LOOKUP *ctx, X509_LOOKUP_TYPE type, const char *str, int len,
	X509_OBJECT *ret);
int X509_LOOKUP_by_fingerprint(X509_LOOKUP *ctx, X509_LOOKUP_TYPE type, const unsigned char
	*bytes, int len, X509_OBJECT *ret);
int X509_LOOKUP_by_issuer_serial(X509_LOOKUP *ctx, X509_LOOKUP_TYPE type, const X509_NAME
	*name, const ASN1_INTEGER *serial, X509_OBJECT *ret);
int X509_LOOKUP_by_subject(X509_LOOKUP *ctx, X509_LOOKUP_TYPE type, const X509_NAME *name,
	X509_OBJECT *ret);
int X509_LOOKUP_by_subject_ex(X509_LOOKUP *ctx, X509_LOOKUP_TYPE type, const X509_NAME
	*name, X509_OBJECT *ret, OSSL_LIB_CTX *libctx, const char *propq);
int X509_LOOKUP_ctrl(X509_LOOKUP *ctx, int cmd, const char *argc, long argl, char **ret);
int X509_LOOKUP_ctrl_ex(X509_LOOKUP *ctx, int cmd, const char *argc, long argl, char **ret,
	OSSL_LIB_CTX *libctx, const char *propq);
X509_LOOKUP_METHOD *X509_LOOKUP_file(void);
void X509_LOOKUP_free(X509_LOOKUP *ctx);
void *X509_LOOKUP_get_method_data(const X509_LOOKUP *ctx);
X509_STORE *X509_LOOKUP_get_store(const X509_LOOKUP *ctx);
X509_LOOKUP_METHOD *X509_LOOKUP_hash_dir(void);
int X509_LOOKUP_init(X509_LOOKUP *ctx);
void X509_LOOKUP_meth_free(X509_LOOKUP_METHOD *method);
X509_LOOKUP_ctrl_fn X509_LOOKUP_meth_get_ctrl(const X509_LOOKUP_METHOD *method);
X509_LOOKUP_get_by_alias_fn X509_LOOKUP_meth_get_get_by_alias(const X509_LOOKUP_METHOD *method);
X509_LOOKUP_get_by_fingerprint_fn X509_LOOKUP_meth_get_get_by_fingerprint(const
	X509_LOOKUP_METHOD *method);
X509_LOOKUP_get_by_issuer_serial_fn X509_LOOKUP_meth_get_get_by_issuer_serial(const
	X509_LOOKUP_METHOD *method);
X509_LOOKUP_get_by_subject_fn X509_LOOKUP_meth_get_get_by_subject(const X509_LOOKUP_METHOD *method);
X509_LOOKUP_METHOD *X509_LOOKUP_meth_new(const char *name);
int X509_LOOKUP_meth_set_ctrl(X509_LOOKUP_METHOD *method, X509_LOOKUP_ctrl_fn ctrl_fn);
int X509_LOOKUP_meth_set_free(X509_LOOKUP_METHOD *method, void (*free_fn)(X509_LOOKUP *ctx));
int X509_LOOKUP_meth_set_get_by_alias(X509_LOOKUP_METHOD *method, X509_LOOKUP_get_by_alias_fn fn);
int X509_LOOKUP_meth_set_get_by_fingerprint(X509_LOOKUP_METHOD *method,
	X509_LOOKUP_get_by_fingerprint_fn fn);
int X509_LOOKUP_meth_set_get_by_issuer_serial(X509_LOOKUP_METHOD *method,
	X509_LOOKUP_get_by_issuer_serial_fn fn);
int X509_LOOKUP_meth_set_get_by_subject(X509_LOOKUP_METHOD *method,
	X509_LOOKUP_get_by_subject_fn fn);
int X509_LOOKUP_meth_set_init(X509_LOOKUP_METHOD *method, int (*init)(X509_LOOKUP *ctx));
int X509_LOOKUP_meth_set_new_item(X509_LOOKUP_METHOD *method, int (*new_item)(X509_LOOKUP *ctx));
int X509_LOOKUP_meth_set_shutdown(X509_LOOKUP_METHOD *method, int (*shutdown)(X509_LOOKUP *ctx));
X509_LOOKUP *X509_LOOKUP_new(X509_LOOKUP_METHOD *method);
int X509_LOOKUP_set_method_data(X509_LOOKUP *ctx, void *data);
int X509_LOOKUP_shutdown(X509_LOOKUP *ctx);
X509_LOOKUP_METHOD *X509_LOOKUP_store(void);
X509_NAME_ENTRY *X509_NAME_ENTRY_create_by_NID(X509_NAME_ENTRY **ne, int nid, int type,
	const unsigned char *bytes, int len);
X509_NAME_ENTRY *X509_NAME_ENTRY_create_by_OBJ(X509_NAME_ENTRY **ne, const ASN1_OBJECT *obj,
	int type, const unsigned char *bytes, int len);
X509_NAME_ENTRY *X509_NAME_ENTRY_create_by_txt(X509_NAME_ENTRY **ne, const char *field, int
	type, const unsigned char *bytes, int len);
X509_NAME_ENTRY *X509_NAME_ENTRY_dup(const X509_NAME_ENTRY *a);
void X509_NAME_ENTRY_free(X509_NAME_ENTRY *a);
ASN1_STRING *X509_NAME_ENTRY_get_data(const X509_NAME_ENTRY *ne);
ASN1_OBJECT *X509_NAME_ENTRY_get_object(const X509_NAME_ENTRY *ne);
const ASN1_ITEM *X509_NAME_ENTRY_it(void);
X509_NAME_ENTRY *X509_NAME_ENTRY_new(void);
int X509_NAME_ENTRY_set(const X509_NAME_ENTRY *ne);
int X509_NAME_ENTRY_set_data(X509_NAME_ENTRY *ne, int type, const unsigned char *bytes, int len);
int X509_NAME_ENTRY_set_object(X509_NAME_ENTRY *ne, const ASN1_OBJECT *obj);
int X509_NAME_add_entry(X509_NAME *name, const X509_NAME_ENTRY *ne, int loc, int set);
int X509_NAME_add_entry_by_NID(X509_NAME *name, int nid, int type, const unsigned char
	*bytes, int len, int loc, int set);
int X509_NAME_add_entry_by_OBJ(X509_NAME *name, const ASN1_OBJECT *obj, int type, const
	unsigned char *bytes, int len, int loc, int set);
int X509_NAME_add_entry_by_txt(X509_NAME *name, const char *field, int type, const unsigned
	char *bytes, int len, int loc, int set);
int X509_NAME_cmp(const X509_NAME *a, const X509_NAME *b);
X509_NAME_ENTRY *X509_NAME_delete_entry(X509_NAME *name, int loc);
int X509_NAME_digest(const X509_NAME *data, const EVP_MD *type, unsigned char *md, unsigned
	int *len);
X509_NAME *X509_NAME_dup(const X509_NAME *a);
int X509_NAME_entry_count(const X509_NAME *name);
void X509_NAME_free(X509_NAME *a);
int X509_NAME_get0_der(const X509_NAME *nm, const unsigned char **pder, size_t *pderlen);
X509_NAME_ENTRY *X509_NAME_get_entry(const X509_NAME *name, int loc);
int X509_NAME_get_index_by_NID(const X509_NAME *name, int nid, int lastpos);
int X509_NAME_get_index_by_OBJ(const X509_NAME *name, const ASN1_OBJECT *obj, int lastpos);
int X509_NAME_get_text_by_NID(const X509_NAME *name, int nid, char *buf, int len);
int X509_NAME_get_text_by_OBJ(const X509_NAME *name, const ASN1_OBJECT *obj, char *buf, int len);
unsigned long X509_NAME_hash_ex(const X509_NAME *x, OSSL_LIB_CTX *libctx, const char *propq,
	int *ok);
unsigned long X509_NAME_hash_old(const X509_NAME *x);
const ASN1_ITEM *X509_NAME_it(void);
X509_NAME *X509_NAME_new(void);
char *X509_NAME_oneline(const X509_NAME *a, char *buf, int size);
int X509_NAME_print(BIO *bp, const X509_NAME *name, int obase);
int X509_NAME_print_ex(BIO *out, const X509_NAME *nm, int indent, unsigned long flags);
int X509_NAME_print_ex_fp(FILE *fp, const X509_NAME *nm, int indent, unsigned long flags);
int X509_NAME_set(X509_NAME **xn, const X509_NAME *name);
void X509_OBJECT_free(X509_OBJECT *a);
X509 *X509_OBJECT_get0_X509(const X509_OBJECT *a);
X509_CRL *X509_OBJECT_get0_X509_CRL(const X509_OBJECT *a);
X509_LOOKUP_TYPE X509_OBJECT_get_type(const X509_OBJECT *a);
int X509_OBJECT_idx_by_subject(struct stack_st_X509_OBJECT *h, X509_LOOKUP_TYPE type, const
	X509_NAME *name);
X509_OBJECT *X509_OBJECT_new(void);
X509_OBJECT *X509_OBJECT_retrieve_by_subject(struct stack_st_X509_OBJECT *h,
	X509_LOOKUP_TYPE type, const X509_NAME *name);
X509_OBJECT *X509_OBJECT_retrieve_match(struct stack_st_X509_OBJECT *h, X509_OBJECT *x);
int X509_OBJECT_set1_X509(X509_OBJECT *a, X509 *obj);
int X509_OBJECT_set1_X509_CRL(X509_OBJECT *a, X509_CRL *obj);
int X509_OBJECT_up_ref_count(X509_OBJECT *a);
void X509_PKEY_free(X509_PKEY *a);
X509_PKEY *X509_PKEY_new(void);
void X509_POLICY_NODE_print(BIO *out, X509_POLICY_NODE *node, int indent);
X509_PUBKEY *X509_PUBKEY_dup(const X509_PUBKEY *a);
int X509_PUBKEY_eq(const X509_PUBKEY *a, const X509_PUBKEY *b);
void X509_PUBKEY_free(X509_PUBKEY *a);
EVP_PKEY *X509_PUBKEY_get(const X509_PUBKEY *key);
EVP_PKEY *X509_PUBKEY_get0(const X509_PUBKEY *key);
int X509_PUBKEY_get0_param(ASN1_OBJECT **ppkalg, const unsigned char **pk, int *ppklen,
	X509_ALGOR **pa, const X509_PUBKEY *pub);
const ASN1_ITEM *X509_PUBKEY_it(void);
X509_PUBKEY *X509_PUBKEY_new(void);
X509_PUBKEY *X509_PUBKEY_new_ex(OSSL_LIB_CTX *libctx, const char *propq);
int X509_PUBKEY_set(X509_PUBKEY **x, EVP_PKEY *pkey);
int X509_PUBKEY_set0_param(X509_PUBKEY *pub, ASN1_OBJECT *aobj, int ptype, void *pval,
	unsigned char *penc, int penclen);
int X509_PURPOSE_add(int id, int trust, int flags, int (*ck)(const X509_PURPOSE *, const
	X509 *, int), const char *name, const char *sname, void *arg);
void X509_PURPOSE_cleanup(void);
X509_PURPOSE *X509_PURPOSE_get0(int idx);
char *X509_PURPOSE_get0_name(const X509_PURPOSE *xp);
char *X509_PURPOSE_get0_sname(const X509_PURPOSE *xp);
int X509_PURPOSE_get_by_id(int id);
int X509_PURPOSE_get_by_sname(const char *sname);
int X509_PURPOSE_get_count(void);
int X509_PURPOSE_get_id(const X509_PURPOSE *arg1);
int X509_PURPOSE_get_trust(const X509_PURPOSE *xp);
int X509_PURPOSE_set(int *p, int purpose);
void X509_REQ_INFO_free(X509_REQ_INFO *a);
const ASN1_ITEM *X509_REQ_INFO_it(void);
X509_REQ_INFO *X509_REQ_INFO_new(void);
int X509_REQ_add1_attr(X509_REQ *req, X509_ATTRIBUTE *attr);
int X509_REQ_add1_attr_by_NID(X509_REQ *req, int nid, int type, const unsigned char *bytes,
	int len);
int X509_REQ_add1_attr_by_OBJ(X509_REQ *req, const ASN1_OBJECT *obj, int type, const
	unsigned char *bytes, int len);
int X509_REQ_add1_attr_by_txt(X509_REQ *req, const char *attrname, int type, const unsigned
	char *bytes, int len);
int X509_REQ_add_extensions(X509_REQ *req, const struct stack_st_X509_EXTENSION *ext);
int X509_REQ_add_extensions_nid(X509_REQ *req, const struct stack_st_X509_EXTENSION *exts, int nid);
int X509_REQ_check_private_key(X509_REQ *x509, EVP_PKEY *pkey);
X509_ATTRIBUTE *X509_REQ_delete_attr(X509_REQ *req, int loc);
int X509_REQ_digest(const X509_REQ *data, const EVP_MD *type, unsigned char *md, unsigned int *len);
X509_REQ *X509_REQ_dup(const X509_REQ *a);
int X509_REQ_extension_nid(int nid);
void X509_REQ_free(X509_REQ *a);
ASN1_OCTET_STRING *X509_REQ_get0_distinguishing_id(X509_REQ *x);
EVP_PKEY *X509_REQ_get0_pubkey(X509_REQ *req);
void X509_REQ_get0_signature(const X509_REQ *req, const ASN1_BIT_STRING **psig, const
	X509_ALGOR **palg);
struct stack_st_OPENSSL_STRING *X509_REQ_get1_email(X509_REQ *x);
X509_PUBKEY *X509_REQ_get_X509_PUBKEY(X509_REQ *req);
X509_ATTRIBUTE *X509_REQ_get_attr(const X509_REQ *req, int loc);
int X509_REQ_get_attr_by_NID(const X509_REQ *req, int nid, int lastpos);
int X509_REQ_get_attr_by_OBJ(const X509_REQ *req, const ASN1_OBJECT *obj, int lastpos);
int X509_REQ_get_attr_count(const X509_REQ *req);
int *X509_REQ_get_extension_nids(void);
struct stack_st_X509_EXTENSION *X509_REQ_get_extensions(X509_REQ *req);
EVP_PKEY *X509_REQ_get_pubkey(X509_REQ *req);
int X509_REQ_get_signature_nid(const X509_REQ *req);
X509_NAME *X509_REQ_get_subject_name(const X509_REQ *req);
long X509_REQ_get_version(const X509_REQ *req);
const ASN1_ITEM *X509_REQ_it(void);
X509_REQ *X509_REQ_new(void);
X509_REQ *X509_REQ_new_ex(OSSL_LIB_CTX *libctx, const char *propq);
int X509_REQ_print(BIO *bp, X509_REQ *req);
int X509_REQ_print_ex(BIO *bp, X509_REQ *x, unsigned long nmflag, unsigned long cflag);
int X509_REQ_print_fp(FILE *bp, X509_REQ *req);
void X509_REQ_set0_distinguishing_id(X509_REQ *x, ASN1_OCTET_STRING *d_id);
void X509_REQ_set0_signature(X509_REQ *req, ASN1_BIT_STRING *psig);
int X509_REQ_set1_signature_algo(X509_REQ *req, X509_ALGOR *palg);
void X509_REQ_set_extension_nids(int *nids);
int X509_REQ_set_pubkey(X509_REQ *x, EVP_PKEY *pkey);
int X509_REQ_set_subject_name(X509_REQ *req, const X509_NAME *name);
int X509_REQ_set_version(X509_REQ *x, long version);
int X509_REQ_sign(X509_REQ *x, EVP_PKEY *pkey, const EVP_MD *md);
int X509_REQ_sign_ctx(X509_REQ *x, EVP_MD_CTX *ctx);
X509 *X509_REQ_to_X509(X509_REQ *r, int days, EVP_PKEY *pkey);
int X509_REQ_verify(X509_REQ *a, EVP_PKEY *r);
int X509_REQ_verify_ex(X509_REQ *a, EVP_PKEY *r, OSSL_LIB_CTX *libctx, const char *propq);
int X509_REVOKED_add1_ext_i2d(X509_REVOKED *x, int nid, void *value, int crit, unsigned long flags);
int X509_REVOKED_add_ext(X509_REVOKED *x, X509_EXTENSION *ex, int loc);
X509_EXTENSION *X509_REVOKED_delete_ext(X509_REVOKED *x, int loc);
X509_REVOKED *X509_REVOKED_dup(const X509_REVOKED *a);
void X509_REVOKED_free(X509_REVOKED *a);
const struct stack_st_X509_EXTENSION *X509_REVOKED_get0_extensions(const X509_REVOKED *r);
const ASN1_TIME *X509_REVOKED_get0_revocationDate(const X509_REVOKED *x);
const ASN1_INTEGER *X509_REVOKED_get0_serialNumber(const X509_REVOKED *x);
X509_EXTENSION *X509_REVOKED_get_ext(const X509_REVOKED *x, int loc);
int X509_REVOKED_get_ext_by_NID(const X509_REVOKED *x, int nid, int lastpos);
int X509_REVOKED_get_ext_by_OBJ(const X509_REVOKED *x, const ASN1_OBJECT *obj, int lastpos);
int X509_REVOKED_get_ext_by_critical(const X509_REVOKED *x, int crit, int lastpos);
int X509_REVOKED_get_ext_count(const X509_REVOKED *x);
void *X509_REVOKED_get_ext_d2i(const X509_REVOKED *x, int nid, int *crit, int *idx);
const ASN1_ITEM *X509_REVOKED_it(void);
X509_REVOKED *X509_REVOKED_new(void);
int X509_REVOKED_set_revocationDate(X509_REVOKED *r, ASN1_TIME *tm);
int X509_REVOKED_set_serialNumber(X509_REVOKED *x, ASN1_INTEGER *serial);
int X509_SIG_INFO_get(const X509_SIG_INFO *siginf, int *mdnid, int *pknid, int *secbits,
	uint32_t *flags);
void X509_SIG_INFO_set(X509_SIG_INFO *siginf, int mdnid, int pknid, int secbits, uint32_t flags);
void X509_SIG_free(X509_SIG *a);
void X509_SIG_get0(const X509_SIG *sig, const X509_ALGOR **palg, const ASN1_OCTET_STRING **pdigest);
void X509_SIG_getm(X509_SIG *sig, X509_ALGOR **palg, ASN1_OCTET_STRING **pdigest);
const ASN1_ITEM *X509_SIG_it(void);
X509_SIG *X509_SIG_new(void);
void X509_STORE_CTX_cleanup(X509_STORE_CTX *ctx);
void X509_STORE_CTX_free(X509_STORE_CTX *ctx);
X509 *X509_STORE_CTX_get0_cert(const X509_STORE_CTX *ctx);
struct stack_st_X509 *X509_STORE_CTX_get0_chain(const X509_STORE_CTX *ctx);
X509_CRL *X509_STORE_CTX_get0_current_crl(const X509_STORE_CTX *ctx);
X509 *X509_STORE_CTX_get0_current_issuer(const X509_STORE_CTX *ctx);
X509_VERIFY_PARAM *X509_STORE_CTX_get0_param(const X509_STORE_CTX *ctx);
X509_STORE_CTX *X509_STORE_CTX_get0_parent_ctx(const X509_STORE_CTX *ctx);
X509_POLICY_TREE *X509_STORE_CTX_get0_policy_tree(const X509_STORE_CTX *ctx);
X509_STORE *X509_STORE_CTX_get0_store(const X509_STORE_CTX *ctx);
struct stack_st_X509 *X509_STORE_CTX_get0_untrusted(const X509_STORE_CTX *ctx);
struct stack_st_X509 *X509_STORE_CTX_get1_certs(X509_STORE_CTX *st, const X509_NAME *nm);
struct stack_st_X509 *X509_STORE_CTX_get1_chain(const X509_STORE_CTX *ctx);
struct stack_st_X509_CRL *X509_STORE_CTX_get1_crls(const X509_STORE_CTX *st, const X509_NAME *nm);
int X509_STORE_CTX_get1_issuer(X509 **issuer, X509_STORE_CTX *ctx, X509 *x);
int X509_STORE_CTX_get_by_subject(const X509_STORE_CTX *vs, X509_LOOKUP_TYPE type, const
	X509_NAME *name, X509_OBJECT *ret);
X509_STORE_CTX_cert_crl_fn X509_STORE_CTX_get_cert_crl(const X509_STORE_CTX *ctx);
X509_STORE_CTX_check_crl_fn X509_STORE_CTX_get_check_crl(const X509_STORE_CTX *ctx);
X509_STORE_CTX_check_issued_fn X509_STORE_CTX_get_check_issued(const X509_STORE_CTX *ctx);
X509_STORE_CTX_check_policy_fn X509_STORE_CTX_get_check_policy(const X509_STORE_CTX *ctx);
X509_STORE_CTX_check_revocation_fn X509_STORE_CTX_get_check_revocation(const X509_STORE_CTX *ctx);
X509_STORE_CTX_cleanup_fn X509_STORE_CTX_get_cleanup(const X509_STORE_CTX *ctx);
X509 *X509_STORE_CTX_get_current_cert(const X509_STORE_CTX *ctx);
int X509_STORE_CTX_get_error(const X509_STORE_CTX *ctx);
int X509_STORE_CTX_get_error_depth(const X509_STORE_CTX *ctx);
void *X509_STORE_CTX_get_ex_data(const X509_STORE_CTX *ctx, int idx);
int X509_STORE_CTX_get_explicit_policy(const X509_STORE_CTX *ctx);
X509_STORE_CTX_get_crl_fn X509_STORE_CTX_get_get_crl(const X509_STORE_CTX *ctx);
X509_STORE_CTX_get_issuer_fn X509_STORE_CTX_get_get_issuer(const X509_STORE_CTX *ctx);
X509_STORE_CTX_lookup_certs_fn X509_STORE_CTX_get_lookup_certs(const X509_STORE_CTX *ctx);
X509_STORE_CTX_lookup_crls_fn X509_STORE_CTX_get_lookup_crls(const X509_STORE_CTX *ctx);
int X509_STORE_CTX_get_num_untrusted(const X509_STORE_CTX *ctx);
X509_OBJECT *X509_STORE_CTX_get_obj_by_subject(X509_STORE_CTX *vs, X509_LOOKUP_TYPE type,
	const X509_NAME *name);
X509_STORE_CTX_verify_fn X509_STORE_CTX_get_verify(const X509_STORE_CTX *ctx);
X509_STORE_CTX_verify_cb X509_STORE_CTX_get_verify_cb(const X509_STORE_CTX *ctx);
int X509_STORE_CTX_init(X509_STORE_CTX *ctx, X509_STORE *trust_store, X509 *target, struct
	stack_st_X509 *untrusted);
X509_STORE_CTX *X509_STORE_CTX_new(void);
X509_STORE_CTX *X509_STORE_CTX_new_ex(OSSL_LIB_CTX *libctx, const char *propq);
int X509_STORE_CTX_print_verify_cb(int ok, X509_STORE_CTX *ctx);
int X509_STORE_CTX_purpose_inherit(X509_STORE_CTX *ctx, int def_purpose, int purpose, int trust);
void X509_STORE_CTX_set0_crls(X509_STORE_CTX *ctx, struct stack_st_X509_CRL *sk);
void X509_STORE_CTX_set0_dane(X509_STORE_CTX *ctx, SSL_DANE *dane);
void X509_STORE_CTX_set0_param(X509_STORE_CTX *ctx, X509_VERIFY_PARAM *param);
void X509_STORE_CTX_set0_trusted_stack(X509_STORE_CTX *ctx, struct stack_st_X509 *sk);
void X509_STORE_CTX_set0_untrusted(X509_STORE_CTX *ctx, struct stack_st_X509 *sk);
void X509_STORE_CTX_set0_verified_chain(X509_STORE_CTX *c, struct stack_st_X509 *sk);
void X509_STORE_CTX_set_cert(X509_STORE_CTX *ctx, X509 *target);
void X509_STORE_CTX_set_current_cert(X509_STORE_CTX *ctx, X509 *x);
int X509_STORE_CTX_set_default(X509_STORE_CTX *ctx, const char *name);
void X509_STORE_CTX_set_depth(X509_STORE_CTX *ctx, int depth);
void X509_STORE_CTX_set_error(X509_STORE_CTX *ctx, int s);
void X509_STORE_CTX_set_error_depth(X509_STORE_CTX *ctx, int depth);
int X509_STORE_CTX_set_ex_data(X509_STORE_CTX *ctx, int idx, void *data);
void X509_STORE_CTX_set_flags(X509_STORE_CTX *ctx, unsigned long flags);
int X509_STORE_CTX_set_purpose(X509_STORE_CTX *ctx, int purpose);
void X509_STORE_CTX_set_time(X509_STORE_CTX *ctx, unsigned long flags, time_t t);
int X509_STORE_CTX_set_trust(X509_STORE_CTX *ctx, int trust);
void X509_STORE_CTX_set_verify(X509_STORE_CTX *ctx, X509_STORE_CTX_verify_fn verify);
void X509_STORE_CTX_set_verify_cb(X509_STORE_CTX *ctx, X509_STORE_CTX_verify_cb verify);
int X509_STORE_CTX_verify(X509_STORE_CTX *ctx);
int X509_STORE_add_cert(X509_STORE *ctx, X509 *x);
int X509_STORE_add_crl(X509_STORE *ctx, X509_CRL *x);
X509_LOOKUP *X509_STORE_add_lookup(X509_STORE *v, X509_LOOKUP_METHOD *m);
void X509_STORE_free(X509_STORE *v);
struct stack_st_X509_OBJECT *X509_STORE_get0_objects(const X509_STORE *v);
X509_VERIFY_PARAM *X509_STORE_get0_param(const X509_STORE *ctx);
struct stack_st_X509 *X509_STORE_get1_all_certs(X509_STORE *st);
X509_STORE_CTX_cert_crl_fn X509_STORE_get_cert_crl(const X509_STORE *ctx);
X509_STORE_CTX_check_crl_fn X509_STORE_get_check_crl(const X509_STORE *ctx);
X509_STORE_CTX_check_issued_fn X509_STORE_get_check_issued(const X509_STORE *ctx);
X509_STORE_CTX_check_policy_fn X509_STORE_get_check_policy(const X509_STORE *ctx);
X509_STORE_CTX_check_revocation_fn X509_STORE_get_check_revocation(const X509_STORE *ctx);
X509_STORE_CTX_cleanup_fn X509_STORE_get_cleanup(const X509_STORE *ctx);
void *X509_STORE_get_ex_data(const X509_STORE *ctx, int idx);
X509_STORE_CTX_get_crl_fn X509_STORE_get_get_crl(const X509_STORE *ctx);
X509_STORE_CTX_get_issuer_fn X509_STORE_get_get_issuer(const X509_STORE *ctx);
X509_STORE_CTX_lookup_certs_fn X509_STORE_get_lookup_certs(const X509_STORE *ctx);
X509_STORE_CTX_lookup_crls_fn X509_STORE_get_lookup_crls(const X509_STORE *ctx);
X509_STORE_CTX_verify_fn X509_STORE_get_verify(const X509_STORE *ctx);
X509_STORE_CTX_verify_cb X509_STORE_get_verify_cb(const X509_STORE *ctx);
int X509_STORE_load_file(X509_STORE *ctx, const char *file);
int X509_STORE_load_file_ex(X509_STORE *ctx, const char *file, OSSL_LIB_CTX *libctx, const
	char *propq);
int X509_STORE_load_locations(X509_STORE *ctx, const char *file, const char *dir);
int X509_STORE_load_locations_ex(X509_STORE *ctx, const char *file, const char *dir,
	OSSL_LIB_CTX *libctx, const char *propq);
int X509_STORE_load_path(X509_STORE *ctx, const char *path);
int X509_STORE_load_store(X509_STORE *ctx, const char *store);
int X509_STORE_load_store_ex(X509_STORE *ctx, const char *store, OSSL_LIB_CTX *libctx, const
	char *propq);
int X509_STORE_lock(X509_STORE *ctx);
X509_STORE *X509_STORE_new(void);
int X509_STORE_set1_param(X509_STORE *ctx, const X509_VERIFY_PARAM *pm);
void X509_STORE_set_cert_crl(X509_STORE *ctx, X509_STORE_CTX_cert_crl_fn cert_crl);
void X509_STORE_set_check_crl(X509_STORE *ctx, X509_STORE_CTX_check_crl_fn check_crl);
void X509_STORE_set_check_issued(X509_STORE *ctx, X509_STORE_CTX_check_issued_fn check_issued);
void X509_STORE_set_check_policy(X509_STORE *ctx, X509_STORE_CTX_check_policy_fn check_policy);
void X509_STORE_set_check_revocation(X509_STORE *ctx, X509_STORE_CTX_check_revocation_fn
	check_revocation);
void X509_STORE_set_cleanup(X509_STORE *ctx, X509_STORE_CTX_cleanup_fn cleanup);
int X509_STORE_set_default_paths(X509_STORE *ctx);
int X509_STORE_set_default_paths_ex(X509_STORE *ctx, OSSL_LIB_CTX *libctx, const char *propq);
int X509_STORE_set_depth(X509_STORE *store, int depth);
int X509_STORE_set_ex_data(X509_STORE *ctx, int idx, void *data);
int X509_STORE_set_flags(X509_STORE *ctx, unsigned long flags);
void X509_STORE_set_get_crl(X509_STORE *ctx, X509_STORE_CTX_get_crl_fn get_crl);
void X509_STORE_set_get_issuer(X509_STORE *ctx, X509_STORE_CTX_get_issuer_fn get_issuer);
void X509_STORE_set_lookup_certs(X509_STORE *ctx, X509_STORE_CTX_lookup_certs_fn lookup_certs);
void X509_STORE_set_lookup_crls(X509_STORE *ctx, X509_STORE_CTX_lookup_crls_fn lookup_crls);
int X509_STORE_set_purpose(X509_STORE *ctx, int purpose);
int X509_STORE_set_trust(X509_STORE *ctx, int trust);
void X509_STORE_set_verify(X509_STORE *ctx, X509_STORE_CTX_verify_fn verify);
void X509_STORE_set_verify_cb(X509_STORE *ctx, X509_STORE_CTX_verify_cb verify_cb);
int X509_STORE_unlock(X509_STORE *ctx);
int X509_STORE_up_ref(X509_STORE *v);
int X509_TRUST_add(int id, int flags, int (*ck)(X509_TRUST *, X509 *, int), const char
	*name, int arg1, void *arg2);
void X509_TRUST_cleanup(void);
X509_TRUST *X509_TRUST_get0(int idx);
char *X509_TRUST_get0_name(const X509_TRUST *xp);
int X509_TRUST_get_by_id(int id);
int X509_TRUST_get_count(void);
int X509_TRUST_get_flags(const X509_TRUST *xp);
int X509_TRUST_get_trust(const X509_TRUST *xp);
int X509_TRUST_set(int *t, int trust);
void X509_VAL_free(X509_VAL *a);
const ASN1_ITEM *X509_VAL_it(void);
X509_VAL *X509_VAL_new(void);
int X509_VERIFY_PARAM_add0_policy(X509_VERIFY_PARAM *param, ASN1_OBJECT *policy);
int X509_VERIFY_PARAM_add0_table(X509_VERIFY_PARAM *param);
int X509_VERIFY_PARAM_add1_host(X509_VERIFY_PARAM *param, const char *name, size_t namelen);
int X509_VERIFY_PARAM_clear_flags(X509_VERIFY_PARAM *param, unsigned long flags);
void X509_VERIFY_PARAM_free(X509_VERIFY_PARAM *param);
const X509_VERIFY_PARAM *X509_VERIFY_PARAM_get0(int id);
char *X509_VERIFY_PARAM_get0_email(X509_VERIFY_PARAM *param);
char *X509_VERIFY_PARAM_get0_host(X509_VERIFY_PARAM *param, int idx);
const char *X509_VERIFY_PARAM_get0_name(const X509_VERIFY_PARAM *param);
char *X509_VERIFY_PARAM_get0_peername(const X509_VERIFY_PARAM *param);
char *X509_VERIFY_PARAM_get1_ip_asc(X509_VERIFY_PARAM *param);
int X509_VERIFY_PARAM_get_auth_level(const X509_VERIFY_PARAM *param);
int X509_VERIFY_PARAM_get_count(void);
int X509_VERIFY_PARAM_get_depth(const X509_VERIFY_PARAM *param);
unsigned long X509_VERIFY_PARAM_get_flags(const X509_VERIFY_PARAM *param);
unsigned int X509_VERIFY_PARAM_get_hostflags(const X509_VERIFY_PARAM *param);
uint32_t X509_VERIFY_PARAM_get_inh_flags(const X509_VERIFY_PARAM *param);
time_t X509_VERIFY_PARAM_get_time(const X509_VERIFY_PARAM *param);
int X509_VERIFY_PARAM_inherit(X509_VERIFY_PARAM *to, const X509_VERIFY_PARAM *from);
const X509_VERIFY_PARAM *X509_VERIFY_PARAM_lookup(const char *name);
void X509_VERIFY_PARAM_move_peername(X509_VERIFY_PARAM *arg1, X509_VERIFY_PARAM *arg2);
X509_VERIFY_PARAM *X509_VERIFY_PARAM_new(void);
int X509_VERIFY_PARAM_set1(X509_VERIFY_PARAM *to, const X509_VERIFY_PARAM *from);
int X509_VERIFY_PARAM_set1_email(X509_VERIFY_PARAM *param, const char *email, size_t emaillen);
int X509_VERIFY_PARAM_set1_host(X509_VERIFY_PARAM *param, const char *name, size_t namelen);
int X509_VERIFY_PARAM_set1_ip(X509_VERIFY_PARAM *param, const unsigned char *ip, size_t iplen);
int X509_VERIFY_PARAM_set1_ip_asc(X509_VERIFY_PARAM *param, const char *ipasc);
int X509_VERIFY_PARAM_set1_name(X509_VERIFY_PARAM *param, const char *name);
int X509_VERIFY_PARAM_set1_policies(X509_VERIFY_PARAM *param, struct stack_st_ASN1_OBJECT
	*policies);
void X509_VERIFY_PARAM_set_auth_level(X509_VERIFY_PARAM *param, int auth_level);
void X509_VERIFY_PARAM_set_depth(X509_VERIFY_PARAM *param, int depth);
int X509_VERIFY_PARAM_set_flags(X509_VERIFY_PARAM *param, unsigned long flags);
void X509_VERIFY_PARAM_set_hostflags(X509_VERIFY_PARAM *param, unsigned int flags);
int X509_VERIFY_PARAM_set_inh_flags(X509_VERIFY_PARAM *param, uint32_t flags);
int X509_VERIFY_PARAM_set_purpose(X509_VERIFY_PARAM *param, int purpose);
void X509_VERIFY_PARAM_set_time(X509_VERIFY_PARAM *param, time_t t);
int X509_VERIFY_PARAM_set_trust(X509_VERIFY_PARAM *param, int trust);
void X509_VERIFY_PARAM_table_cleanup(void);
int X509_add1_ext_i2d(X509 *x, int nid, void *value, int crit, unsigned long flags);
int X509_add1_reject_object(X509 *x, const ASN1_OBJECT *obj);
int X509_add1_trust_object(X509 *x, const ASN1_OBJECT *obj);
int X509_add_cert(struct stack_st_X509 *sk, X509 *cert, int flags);
int X509_add_certs(struct stack_st_X509 *sk, struct stack_st_X509 *certs, int flags);
int X509_add_ext(X509 *x, X509_EXTENSION *ex, int loc);
unsigned char *X509_alias_get0(X509 *x, int *len);
int X509_alias_set1(X509 *x, const unsigned char *name, int len);
int X509_aux_print(BIO *out, X509 *x, int indent);
struct stack_st_X509 *X509_build_chain(X509 *target, struct stack_st_X509 *certs, X509_STORE
	*store, int with_self_signed, OSSL_LIB_CTX *libctx, const char *propq);
int X509_certificate_type(const X509 *x, const EVP_PKEY *pubkey);
int X509_chain_check_suiteb(int *perror_depth, X509 *x, struct stack_st_X509 *chain,
	unsigned long flags);
struct stack_st_X509 *X509_chain_up_ref(struct stack_st_X509 *chain);
int X509_check_akid(const X509 *issuer, const AUTHORITY_KEYID *akid);
int X509_check_ca(X509 *x);
int X509_check_email(X509 *x, const char *chk, size_t chklen, unsigned int flags);
int X509_check_host(X509 *x, const char *chk, size_t chklen, unsigned int flags, char **peername);
int X509_check_ip(X509 *x, const unsigned char *chk, size_t chklen, unsigned int flags);
int X509_check_ip_asc(X509 *x, const char *ipasc, unsigned int flags);
int X509_check_issued(X509 *issuer, X509 *subject);
int X509_check_private_key(const X509 *x509, const EVP_PKEY *pkey);
int X509_check_purpose(X509 *x, int id, int ca);
int X509_check_trust(X509 *x, int id, int flags);
int X509_cmp(const X509 *a, const X509 *b);
int X509_cmp_current_time(const ASN1_TIME *s);
int X509_cmp_time(const ASN1_TIME *s, time_t *t);
int X509_cmp_timeframe(const X509_VERIFY_PARAM *vpm, const ASN1_TIME *start, const ASN1_TIME *end);
X509_EXTENSION *X509_delete_ext(X509 *x, int loc);
int X509_digest(const X509 *data, const EVP_MD *type, unsigned char *md, unsigned int *len);
ASN1_OCTET_STRING *X509_digest_sig(const X509 *cert, EVP_MD **md_used, int *md_is_fallback);
X509 *X509_dup(const X509 *a);
void X509_email_free(struct stack_st_OPENSSL_STRING *sk);
X509 *X509_find_by_issuer_and_serial(struct stack_st_X509 *sk, const X509_NAME *name, const
	ASN1_INTEGER *serial);
X509 *X509_find_by_subject(struct stack_st_X509 *sk, const X509_NAME *name);
void X509_free(X509 *a);
const GENERAL_NAMES *X509_get0_authority_issuer(X509 *x);
const ASN1_OCTET_STRING *X509_get0_authority_key_id(X509 *x);
const ASN1_INTEGER *X509_get0_authority_serial(X509 *x);
ASN1_OCTET_STRING *X509_get0_distinguishing_id(X509 *x);
const struct stack_st_X509_EXTENSION *X509_get0_extensions(const X509 *x);
const ASN1_TIME *X509_get0_notAfter(const X509 *x);
const ASN1_TIME *X509_get0_notBefore(const X509 *x);
EVP_PKEY *X509_get0_pubkey(const X509 *x);
ASN1_BIT_STRING *X509_get0_pubkey_bitstr(const X509 *x);
struct stack_st_ASN1_OBJECT *X509_get0_reject_objects(X509 *x);
const ASN1_INTEGER *X509_get0_serialNumber(const X509 *x);
void X509_get0_signature(const ASN1_BIT_STRING **psig, const X509_ALGOR **palg, const X509 *x);
const ASN1_OCTET_STRING *X509_get0_subject_key_id(X509 *x);
const X509_ALGOR *X509_get0_tbs_sigalg(const X509 *x);
struct stack_st_ASN1_OBJECT *X509_get0_trust_objects(X509 *x);
void X509_get0_uids(const X509 *x, const ASN1_BIT_STRING **piuid, const ASN1_BIT_STRING **psuid);
struct stack_st_OPENSSL_STRING *X509_get1_email(X509 *x);
struct stack_st_OPENSSL_STRING *X509_get1_ocsp(X509 *x);
X509_PUBKEY *X509_get_X509_PUBKEY(const X509 *x);
const char *X509_get_default_cert_area(void);
const char *X509_get_default_cert_dir(void);
const char *X509_get_default_cert_dir_env(void);
const char *X509_get_default_cert_file(void);
const char *X509_get_default_cert_file_env(void);
const char *X509_get_default_private_dir(void);
void *X509_get_ex_data(const X509 *r, int idx);
X509_EXTENSION *X509_get_ext(const X509 *x, int loc);
int X509_get_ext_by_NID(const X509 *x, int nid, int lastpos);
int X509_get_ext_by_OBJ(const X509 *x, const ASN1_OBJECT *obj, int lastpos);
int X509_get_ext_by_critical(const X509 *x, int crit, int lastpos);
int X509_get_ext_count(const X509 *x);
void *X509_get_ext_d2i(const X509 *x, int nid, int *crit, int *idx);
uint32_t X509_get_extended_key_usage(X509 *x);
uint32_t X509_get_extension_flags(X509 *x);
X509_NAME *X509_get_issuer_name(const X509 *a);
uint32_t X509_get_key_usage(X509 *x);
long X509_get_pathlen(X509 *x);
long X509_get_proxy_pathlen(X509 *x);
EVP_PKEY *X509_get_pubkey(X509 *x);
int X509_get_pubkey_parameters(EVP_PKEY *pkey, struct stack_st_X509 *chain);
ASN1_INTEGER *X509_get_serialNumber(X509 *x);
int X509_get_signature_info(X509 *x, int *mdnid, int *pknid, int *secbits, uint32_t *flags);
int X509_get_signature_nid(const X509 *x);
int X509_get_signature_type(const X509 *x);
X509_NAME *X509_get_subject_name(const X509 *a);
long X509_get_version(const X509 *x);
ASN1_TIME *X509_getm_notAfter(const X509 *x);
ASN1_TIME *X509_getm_notBefore(const X509 *x);
ASN1_TIME *X509_gmtime_adj(ASN1_TIME *s, long adj);
int X509_issuer_and_serial_cmp(const X509 *a, const X509 *b);
unsigned long X509_issuer_and_serial_hash(X509 *a);
int X509_issuer_name_cmp(const X509 *a, const X509 *b);
unsigned long X509_issuer_name_hash(X509 *a);
unsigned long X509_issuer_name_hash_old(X509 *a);
const ASN1_ITEM *X509_it(void);
unsigned char *X509_keyid_get0(X509 *x, int *len);
int X509_keyid_set1(X509 *x, const unsigned char *id, int len);
int X509_load_cert_crl_file(X509_LOOKUP *ctx, const char *file, int type);
int X509_load_cert_crl_file_ex(X509_LOOKUP *ctx, const char *file, int type, OSSL_LIB_CTX
	*libctx, const char *propq);
int X509_load_cert_file(X509_LOOKUP *ctx, const char *file, int type);
int X509_load_cert_file_ex(X509_LOOKUP *ctx, const char *file, int type, OSSL_LIB_CTX
	*libctx, const char *propq);
int X509_load_crl_file(X509_LOOKUP *ctx, const char *file, int type);
X509 *X509_load_http(const char *url, BIO *bio, BIO *rbio, int timeout);
X509 *X509_new(void);
X509 *X509_new_ex(OSSL_LIB_CTX *libctx, const char *propq);
int X509_ocspid_print(BIO *bp, X509 *x);
int X509_policy_check(X509_POLICY_TREE **ptree, int *pexplicit_policy, struct stack_st_X509
	*certs, struct stack_st_ASN1_OBJECT *policy_oids, unsigned int flags);
X509_POLICY_NODE *X509_policy_level_get0_node(const X509_POLICY_LEVEL *level, int i);
int X509_policy_level_node_count(X509_POLICY_LEVEL *level);
const X509_POLICY_NODE *X509_policy_node_get0_parent(const X509_POLICY_NODE *node);
const ASN1_OBJECT *X509_policy_node_get0_policy(const X509_POLICY_NODE *node);
struct stack_st_POLICYQUALINFO *X509_policy_node_get0_qualifiers(const X509_POLICY_NODE *node);
void X509_policy_tree_free(X509_POLICY_TREE *tree);
X509_POLICY_LEVEL *X509_policy_tree_get0_level(const X509_POLICY_TREE *tree, int i);
struct stack_st_X509_POLICY_NODE *X509_policy_tree_get0_policies(const X509_POLICY_TREE *tree);
struct stack_st_X509_POLICY_NODE *X509_policy_tree_get0_user_policies(const X509_POLICY_TREE *tree);
int X509_policy_tree_level_count(const X509_POLICY_TREE *tree);
int X509_print(BIO *bp, X509 *x);
int X509_print_ex(BIO *bp, X509 *x, unsigned long nmflag, unsigned long cflag);
int X509_print_ex_fp(FILE *bp, X509 *x, unsigned long nmflag, unsigned long cflag);
int X509_print_fp(FILE *bp, X509 *x);
int X509_pubkey_digest(const X509 *data, const EVP_MD *type, unsigned char *md, unsigned int *len);
void X509_reject_clear(X509 *x);
int X509_self_signed(X509 *cert, int verify_signature);
void X509_set0_distinguishing_id(X509 *x, ASN1_OCTET_STRING *d_id);
int X509_set1_notAfter(X509 *x, const ASN1_TIME *tm);
int X509_set1_notBefore(X509 *x, const ASN1_TIME *tm);
int X509_set_ex_data(X509 *r, int idx, void *arg);
int X509_set_issuer_name(X509 *x, const X509_NAME *name);
void X509_set_proxy_flag(X509 *x);
void X509_set_proxy_pathlen(X509 *x, long l);
int X509_set_pubkey(X509 *x, EVP_PKEY *pkey);
int X509_set_serialNumber(X509 *x, ASN1_INTEGER *serial);
int X509_set_subject_name(X509 *x, const X509_NAME *name);
int X509_set_version(X509 *x, long version);
int X509_sign(X509 *x, EVP_PKEY *pkey, const EVP_MD *md);
int X509_sign_ctx(X509 *x, EVP_MD_CTX *ctx);
int X509_signature_dump(BIO *bp, const ASN1_STRING *sig, int indent);
int X509_signature_print(BIO *bp, const X509_ALGOR *alg, const ASN1_STRING *sig);
int X509_subject_name_cmp(const X509 *a, const X509 *b);
unsigned long X509_subject_name_hash(X509 *x);
unsigned long X509_subject_name_hash_old(X509 *x);
int X509_supported_extension(X509_EXTENSION *ex);
ASN1_TIME *X509_time_adj(ASN1_TIME *s, long adj, time_t *t);
ASN1_TIME *X509_time_adj_ex(ASN1_TIME *s, int offset_day, long offset_sec, time_t *t);
X509_REQ *X509_to_X509_REQ(X509 *x, EVP_PKEY *pkey, const EVP_MD *md);
void X509_trust_clear(X509 *x);
int X509_trusted(const X509 *x);
int X509_up_ref(X509 *x);
int X509_verify(X509 *a, EVP_PKEY *r);
int X509_verify_cert(X509_STORE_CTX *ctx);
const char *X509_verify_cert_error_string(long n);
EVP_PKEY *d2i_PUBKEY(EVP_PKEY **a, const unsigned char **in, long len);
EVP_PKEY *d2i_PUBKEY_bio(BIO *bp, EVP_PKEY **a);
EVP_PKEY *d2i_PUBKEY_ex(EVP_PKEY **a, const unsigned char **pp, long length, OSSL_LIB_CTX
	*libctx, const char *propq);
EVP_PKEY *d2i_PUBKEY_fp(FILE *fp, EVP_PKEY **a);
EVP_PKEY *d2i_PrivateKey(int type, EVP_PKEY **a, const unsigned char **pp, long length);
EVP_PKEY *d2i_PrivateKey_bio(BIO *bp, EVP_PKEY **a);
EVP_PKEY *d2i_PrivateKey_ex(int type, EVP_PKEY **a, const unsigned char **pp, long length,
	OSSL_LIB_CTX *libctx, const char *propq);
EVP_PKEY *d2i_PrivateKey_ex_bio(BIO *bp, EVP_PKEY **a, OSSL_LIB_CTX *libctx, const char *propq);
EVP_PKEY *d2i_PrivateKey_ex_fp(FILE *fp, EVP_PKEY **a, OSSL_LIB_CTX *libctx, const char *propq);
EVP_PKEY *d2i_PrivateKey_fp(FILE *fp, EVP_PKEY **a);
X509 *d2i_X509(X509 **a, const unsigned char **in, long len);
X509_ALGOR *d2i_X509_ALGOR(X509_ALGOR **a, const unsigned char **in, long len);
X509_ALGORS *d2i_X509_ALGORS(X509_ALGORS **a, const unsigned char **in, long len);
X509_ATTRIBUTE *d2i_X509_ATTRIBUTE(X509_ATTRIBUTE **a, const unsigned char **in, long len);
X509 *d2i_X509_AUX(X509 **a, const unsigned char **in, long len);
X509_CERT_AUX *d2i_X509_CERT_AUX(X509_CERT_AUX **a, const unsigned char **in, long len);
X509_CINF *d2i_X509_CINF(X509_CINF **a, const unsigned char **in, long len);
X509_CRL *d2i_X509_CRL(X509_CRL **a, const unsigned char **in, long len);
X509_CRL_INFO *d2i_X509_CRL_INFO(X509_CRL_INFO **a, const unsigned char **in, long len);
X509_CRL *d2i_X509_CRL_bio(BIO *bp, X509_CRL **crl);
X509_CRL *d2i_X509_CRL_fp(FILE *fp, X509_CRL **crl);
X509_EXTENSION *d2i_X509_EXTENSION(X509_EXTENSION **a, const unsigned char **in, long len);
X509_EXTENSIONS *d2i_X509_EXTENSIONS(X509_EXTENSIONS **a, const unsigned char **in, long len);
X509_NAME *d2i_X509_NAME(X509_NAME **a, const unsigned char **in, long len);
X509_NAME_ENTRY *d2i_X509_NAME_ENTRY(X509_NAME_ENTRY **a, const unsigned char **in, long len);
X509_PUBKEY *d2i_X509_PUBKEY(X509_PUBKEY **a, const unsigned char **in, long len);
X509_PUBKEY *d2i_X509_PUBKEY_bio(BIO *bp, X509_PUBKEY **xpk);
X509_PUBKEY *d2i_X509_PUBKEY_fp(FILE *fp, X509_PUBKEY **xpk);
X509_REQ *d2i_X509_REQ(X509_REQ **a, const unsigned char **in, long len);
X509_REQ_INFO *d2i_X509_REQ_INFO(X509_REQ_INFO **a, const unsigned char **in, long len);
X509_REQ *d2i_X509_REQ_bio(BIO *bp, X509_REQ **req);
X509_REQ *d2i_X509_REQ_fp(FILE *fp, X509_REQ **req);
X509_REVOKED *d2i_X509_REVOKED(X509_REVOKED **a, const unsigned char **in, long len);
X509_SIG *d2i_X509_SIG(X509_SIG **a, const unsigned char **in, long len);
X509_VAL *d2i_X509_VAL(X509_VAL **a, const unsigned char **in, long len);
X509 *d2i_X509_bio(BIO *bp, X509 **x509);
X509 *d2i_X509_fp(FILE *fp, X509 **x509);
int i2d_PUBKEY(const EVP_PKEY *a, unsigned char **out);
int i2d_PUBKEY_bio(BIO *bp, const EVP_PKEY *pkey);
int i2d_PUBKEY_fp(FILE *fp, const EVP_PKEY *pkey);
int i2d_PrivateKey(const EVP_PKEY *a, unsigned char **pp);
int i2d_PrivateKey_bio(BIO *bp, const EVP_PKEY *pkey);
int i2d_PrivateKey_fp(FILE *fp, const EVP_PKEY *pkey);
int i2d_X509(const X509 *a, unsigned char **out);
int i2d_X509_ALGOR(const X509_ALGOR *a, unsigned char **out);
int i2d_X509_ALGORS(const X509_ALGORS *a, unsigned char **out);
int i2d_X509_ATTRIBUTE(const X509_ATTRIBUTE *a, unsigned char **out);
int i2d_X509_AUX(const X509 *a, unsigned char **out);
int i2d_X509_CERT_AUX(const X509_CERT_AUX *a, unsigned char **out);
int i2d_X509_CINF(const X509_CINF *a, unsigned char **out);
int i2d_X509_CRL(const X509_CRL *a, unsigned char **out);
int i2d_X509_CRL_INFO(const X509_CRL_INFO *a, unsigned char **out);
int i2d_X509_CRL_bio(BIO *bp, const X509_CRL *crl);
int i2d_X509_CRL_fp(FILE *fp, const X509_CRL *crl);
int i2d_X509_EXTENSION(const X509_EXTENSION *a, unsigned char **out);
int i2d_X509_EXTENSIONS(const X509_EXTENSIONS *a, unsigned char **out);
int i2d_X509_NAME(const X509_NAME *a, unsigned char **out);
int i2d_X509_NAME_ENTRY(const X509_NAME_ENTRY *a, unsigned char **out);
int i2d_X509_PUBKEY(const X509_PUBKEY *a, unsigned char **out);
int i2d_X509_PUBKEY_bio(BIO *bp, const X509_PUBKEY *xpk);
int i2d_X509_PUBKEY_fp(FILE *fp, const X509_PUBKEY *xpk);
int i2d_X509_REQ(const X509_REQ *a, unsigned char **out);
int i2d_X509_REQ_INFO(const X509_REQ_INFO *a, unsigned char **out);
int i2d_X509_REQ_bio(BIO *bp, const X509_REQ *req);
int i2d_X509_REQ_fp(FILE *fp, const X509_REQ *req);
int i2d_X509_REVOKED(const X509_REVOKED *a, unsigned char **out);
int i2d_X509_SIG(const X509_SIG *a, unsigned char **out);
int i2d_X509_VAL(const X509_VAL *a, unsigned char **out);
int i2d_X509_bio(BIO *bp, const X509 *x509);
int i2d_X509_fp(FILE *fp, const X509 *x509);
