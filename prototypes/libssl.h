// SPDX-License-Identifier: Apache-2.0
// OpenSSL: TLS.
// Types are those of the headers (scripts/declare.py writes them); the words behind them are ours.

typedef unsigned int (*DTLS_timer_cb)(SSL *s, unsigned int timer_us);
typedef int (*custom_ext_add_cb)(SSL *s, unsigned int ext_type, const unsigned char **out,
	size_t *outlen, int *al, void *add_arg);
typedef void (*custom_ext_free_cb)(SSL *s, unsigned int ext_type, const unsigned char *out,
	void *add_arg);
typedef int (*custom_ext_parse_cb)(SSL *s, unsigned int ext_type, const unsigned char *in,
	size_t inlen, int *al, void *parse_arg);
typedef int (*SSL_custom_ext_add_cb_ex)(SSL *s, unsigned int ext_type, unsigned int context,
	const unsigned char **out, size_t *outlen, X509 *x, size_t chainidx, int *al, void
	*add_arg);
typedef void (*SSL_custom_ext_free_cb_ex)(SSL *s, unsigned int ext_type, unsigned int
	context, const unsigned char *out, void *add_arg);
typedef int (*SSL_custom_ext_parse_cb_ex)(SSL *s, unsigned int ext_type, unsigned int
	context, const unsigned char *in, size_t inlen, X509 *x, size_t chainidx, int *al, void
	*parse_arg);
typedef void (*SSL_CTX_keylog_cb_func)(const SSL *ssl, const char *line);
typedef int (*SSL_verify_cb)(int preverify_ok, X509_STORE_CTX *x509_ctx);
typedef int (*SSL_allow_early_data_cb_fn)(SSL *s, void *arg);
typedef int (*SSL_CTX_alpn_select_cb_func)(SSL *ssl, const unsigned char **out, unsigned
	char *outlen, const unsigned char *in, unsigned int inlen, void *arg);
typedef int (*SSL_async_callback_fn)(SSL *s, void *arg);
typedef int (*SSL_client_hello_cb_fn)(SSL *s, int *al, void *arg);
typedef int (*ssl_ct_validation_cb)(const CT_POLICY_EVAL_CTX *ctx, const struct stack_st_SCT
	*scts, void *arg);
typedef int (*GEN_SESSION_CB)(SSL *ssl, unsigned char *id, unsigned int *id_len);
typedef int (*SSL_CTX_npn_select_cb_func)(SSL *s, unsigned char **out, unsigned char
	*outlen, const unsigned char *in, unsigned int inlen, void *arg);
typedef int (*SSL_CTX_npn_advertised_cb_func)(SSL *ssl, const unsigned char **out, unsigned
	int *outlen, void *arg);
typedef unsigned int (*SSL_psk_client_cb_func)(SSL *ssl, const char *hint, char *identity,
	unsigned int max_identity_len, unsigned char *psk, unsigned int max_psk_len);
typedef int (*SSL_psk_find_session_cb_func)(SSL *ssl, const unsigned char *identity, size_t
	identity_len, SSL_SESSION **sess);
typedef unsigned int (*SSL_psk_server_cb_func)(SSL *ssl, const char *identity, unsigned char
	*psk, unsigned int max_psk_len);
typedef int (*SSL_psk_use_session_cb_func)(SSL *ssl, const EVP_MD *md, const unsigned char
	**id, size_t *idlen, SSL_SESSION **sess);
typedef int (*SSL_CTX_generate_session_ticket_fn)(SSL *s, void *arg);
typedef SSL_TICKET_RETURN (*SSL_CTX_decrypt_session_ticket_fn)(SSL *s, SSL_SESSION *ss,
	const unsigned char *keyname, size_t keyname_length, SSL_TICKET_STATUS status, void *arg);
typedef int (*tls_session_secret_cb_fn)(SSL *s, void *secret, int *secret_len, struct
	stack_st_SSL_CIPHER *peer_ciphers, const SSL_CIPHER **cipher, void *arg);
typedef int (*tls_session_ticket_ext_cb_fn)(SSL *s, const unsigned char *data, int len, void *arg);

const BIO_METHOD *BIO_f_ssl(void);
BIO *BIO_new_buffer_ssl_connect(SSL_CTX *ctx);
BIO *BIO_new_ssl(SSL_CTX *ctx, int client);
BIO *BIO_new_ssl_connect(SSL_CTX *ctx);
int BIO_ssl_copy_session_id(BIO *to, BIO *from);
void BIO_ssl_shutdown(BIO *ssl_bio);
const SSL_METHOD *DTLS_client_method(void);
size_t DTLS_get_data_mtu(const SSL *s);
const SSL_METHOD *DTLS_method(void);
const SSL_METHOD *DTLS_server_method(void);
void DTLS_set_timer_cb(SSL *s, DTLS_timer_cb cb);
const SSL_METHOD *DTLSv1_2_client_method(void);
const SSL_METHOD *DTLSv1_2_method(void);
const SSL_METHOD *DTLSv1_2_server_method(void);
const SSL_METHOD *DTLSv1_client_method(void);
int DTLSv1_listen(SSL *s, BIO_ADDR *client);
const SSL_METHOD *DTLSv1_method(void);
const SSL_METHOD *DTLSv1_server_method(void);
int ERR_load_SSL_strings(void);
const char *OPENSSL_cipher_name(const char *rfc_name);
int OPENSSL_init_ssl(uint64_t opts, const OPENSSL_INIT_SETTINGS *settings);
const char *OSSL_default_cipher_list(void);
const char *OSSL_default_ciphersuites(void);
SSL_SESSION *PEM_read_SSL_SESSION(FILE *out, SSL_SESSION **x, pem_password_cb *cb, void *u);
SSL_SESSION *PEM_read_bio_SSL_SESSION(BIO *out, SSL_SESSION **x, pem_password_cb *cb, void *u);
int PEM_write_SSL_SESSION(FILE *out, const SSL_SESSION *x);
int PEM_write_bio_SSL_SESSION(BIO *out, const SSL_SESSION *x);
int SRP_Calc_A_param(SSL *s);
char *SSL_CIPHER_description(const SSL_CIPHER *arg1, char *buf, int size);
const SSL_CIPHER *SSL_CIPHER_find(SSL *ssl, const unsigned char *ptr);
int SSL_CIPHER_get_auth_nid(const SSL_CIPHER *c);
int SSL_CIPHER_get_bits(const SSL_CIPHER *c, int *alg_bits);
int SSL_CIPHER_get_cipher_nid(const SSL_CIPHER *c);
int SSL_CIPHER_get_digest_nid(const SSL_CIPHER *c);
const EVP_MD *SSL_CIPHER_get_handshake_digest(const SSL_CIPHER *c);
uint32_t SSL_CIPHER_get_id(const SSL_CIPHER *c);
int SSL_CIPHER_get_kx_nid(const SSL_CIPHER *c);
const char *SSL_CIPHER_get_name(const SSL_CIPHER *c);
uint16_t SSL_CIPHER_get_protocol_id(const SSL_CIPHER *c);
const char *SSL_CIPHER_get_version(const SSL_CIPHER *c);
int SSL_CIPHER_is_aead(const SSL_CIPHER *c);
const char *SSL_CIPHER_standard_name(const SSL_CIPHER *c);
int SSL_COMP_add_compression_method(int id, COMP_METHOD *cm);
const char *SSL_COMP_get0_name(const SSL_COMP *comp);
struct stack_st_SSL_COMP *SSL_COMP_get_compression_methods(void);
int SSL_COMP_get_id(const SSL_COMP *comp);
const char *SSL_COMP_get_name(const COMP_METHOD *comp);
struct stack_st_SSL_COMP *SSL_COMP_set0_compression_methods(struct stack_st_SSL_COMP *meths);
unsigned int SSL_CONF_CTX_clear_flags(SSL_CONF_CTX *cctx, unsigned int flags);
int SSL_CONF_CTX_finish(SSL_CONF_CTX *cctx);
void SSL_CONF_CTX_free(SSL_CONF_CTX *cctx);
SSL_CONF_CTX *SSL_CONF_CTX_new(void);
int SSL_CONF_CTX_set1_prefix(SSL_CONF_CTX *cctx, const char *pre);
unsigned int SSL_CONF_CTX_set_flags(SSL_CONF_CTX *cctx, unsigned int flags);
void SSL_CONF_CTX_set_ssl(SSL_CONF_CTX *cctx, SSL *ssl);
void SSL_CONF_CTX_set_ssl_ctx(SSL_CONF_CTX *cctx, SSL_CTX *ctx);
int SSL_CONF_cmd(SSL_CONF_CTX *cctx, const char *cmd, const char *value);
int SSL_CONF_cmd_argv(SSL_CONF_CTX *cctx, int *pargc, char ***pargv);
int SSL_CONF_cmd_value_type(SSL_CONF_CTX *cctx, const char *cmd);
int SSL_CTX_SRP_CTX_free(SSL_CTX *ctx);
int SSL_CTX_SRP_CTX_init(SSL_CTX *ctx);
int SSL_CTX_add1_to_CA_list(SSL_CTX *ctx, const X509 *x);
int SSL_CTX_add_client_CA(SSL_CTX *ctx, X509 *x);
int SSL_CTX_add_client_custom_ext(SSL_CTX *ctx, unsigned int ext_type, custom_ext_add_cb
	add_cb, custom_ext_free_cb free_cb, void *add_arg, custom_ext_parse_cb parse_cb, void
	*parse_arg);
int SSL_CTX_add_custom_ext(SSL_CTX *ctx, unsigned int ext_type, unsigned int context,
	SSL_custom_ext_add_cb_ex add_cb, SSL_custom_ext_free_cb_ex free_cb, void *add_arg,
	SSL_custom_ext_parse_cb_ex parse_cb, void *parse_arg);
int SSL_CTX_add_server_custom_ext(SSL_CTX *ctx, unsigned int ext_type, custom_ext_add_cb
	add_cb, custom_ext_free_cb free_cb, void *add_arg, custom_ext_parse_cb parse_cb, void
	*parse_arg);
int SSL_CTX_add_session(SSL_CTX *ctx, SSL_SESSION *session);
long SSL_CTX_callback_ctrl(SSL_CTX *arg1, int arg2, void (*arg3)(void));
int SSL_CTX_check_private_key(const SSL_CTX *ctx);
uint64_t SSL_CTX_clear_options(SSL_CTX *ctx, uint64_t op FLAGS(ssl_options)) FLAGS(ssl_options);
int SSL_CTX_config(SSL_CTX *ctx, const char *name);
int SSL_CTX_ct_is_enabled(const SSL_CTX *ctx);
long SSL_CTX_ctrl(SSL_CTX *ctx, int cmd ENUM(ssl_ctrl), long larg
	AS(long larg FLAGS(ssl_mode), cmd == SSL_CTRL_MODE | SSL_CTRL_CLEAR_MODE)
	AS(long larg FLAGS(ssl_cache), cmd == SSL_CTRL_SET_SESS_CACHE_MODE)
	AS(long larg ENUM(ssl_version), cmd == SSL_CTRL_SET_MIN_PROTO_VERSION |
	SSL_CTRL_SET_MAX_PROTO_VERSION), void *parg
	AS(const char *parg, cmd == SSL_CTRL_SET_TLSEXT_HOSTNAME | SSL_CTRL_SET_GROUPS_LIST |
	SSL_CTRL_SET_SIGALGS_LIST | SSL_CTRL_SET_CLIENT_SIGALGS_LIST));
unsigned long SSL_CTX_dane_clear_flags(SSL_CTX *ctx, unsigned long flags);
int SSL_CTX_dane_enable(SSL_CTX *ctx);
int SSL_CTX_dane_mtype_set(SSL_CTX *ctx, const EVP_MD *md, uint8_t mtype, uint8_t ord);
unsigned long SSL_CTX_dane_set_flags(SSL_CTX *ctx, unsigned long flags);
int SSL_CTX_enable_ct(SSL_CTX *ctx, int validation_mode);
void SSL_CTX_flush_sessions(SSL_CTX *ctx, long tm);
void SSL_CTX_free(SSL_CTX *arg1);
const struct stack_st_X509_NAME *SSL_CTX_get0_CA_list(const SSL_CTX *ctx);
X509 *SSL_CTX_get0_certificate(const SSL_CTX *ctx);
const CTLOG_STORE *SSL_CTX_get0_ctlog_store(const SSL_CTX *ctx);
X509_VERIFY_PARAM *SSL_CTX_get0_param(SSL_CTX *ctx);
EVP_PKEY *SSL_CTX_get0_privatekey(const SSL_CTX *ctx);
void *SSL_CTX_get0_security_ex_data(const SSL_CTX *ctx);
X509_STORE *SSL_CTX_get_cert_store(const SSL_CTX *arg1);
struct stack_st_SSL_CIPHER *SSL_CTX_get_ciphers(const SSL_CTX *ctx);
struct stack_st_X509_NAME *SSL_CTX_get_client_CA_list(const SSL_CTX *s);
pem_password_cb *SSL_CTX_get_default_passwd_cb(SSL_CTX *ctx);
void *SSL_CTX_get_default_passwd_cb_userdata(SSL_CTX *ctx);
void *SSL_CTX_get_ex_data(const SSL_CTX *ssl, int idx);
SSL_CTX_keylog_cb_func SSL_CTX_get_keylog_callback(const SSL_CTX *ctx);
uint32_t SSL_CTX_get_max_early_data(const SSL_CTX *ctx);
size_t SSL_CTX_get_num_tickets(const SSL_CTX *ctx);
uint64_t SSL_CTX_get_options(const SSL_CTX *ctx) FLAGS(ssl_options);
int SSL_CTX_get_quiet_shutdown(const SSL_CTX *ctx);
void *SSL_CTX_get_record_padding_callback_arg(const SSL_CTX *ctx);
uint32_t SSL_CTX_get_recv_max_early_data(const SSL_CTX *ctx);
int SSL_CTX_get_security_level(const SSL_CTX *ctx);
const SSL_METHOD *SSL_CTX_get_ssl_method(const SSL_CTX *ctx);
long SSL_CTX_get_timeout(const SSL_CTX *ctx);
SSL_verify_cb SSL_CTX_get_verify_callback(const SSL_CTX *ctx);
int SSL_CTX_get_verify_depth(const SSL_CTX *ctx);
int SSL_CTX_get_verify_mode(const SSL_CTX *ctx) FLAGS(ssl_verify);
int SSL_CTX_has_client_custom_ext(const SSL_CTX *ctx, unsigned int ext_type);
int SSL_CTX_load_verify_dir(SSL_CTX *ctx, const char *CApath);
int SSL_CTX_load_verify_file(SSL_CTX *ctx, const char *CAfile);
int SSL_CTX_load_verify_locations(SSL_CTX *ctx, const char *CAfile, const char *CApath);
int SSL_CTX_load_verify_store(SSL_CTX *ctx, const char *CAstore);
SSL_CTX *SSL_CTX_new(const SSL_METHOD *meth) FAILS(== NULL) ERRNO(none);
SSL_CTX *SSL_CTX_new_ex(OSSL_LIB_CTX *libctx, const char *propq, const SSL_METHOD *meth);
int SSL_CTX_remove_session(SSL_CTX *ctx, SSL_SESSION *session);
void SSL_CTX_sess_set_get_cb(SSL_CTX *ctx, SSL_SESSION * (*get_session_cb)(struct ssl_st
	*ssl, const unsigned char *data, int len, int *copy));
void SSL_CTX_sess_set_new_cb(SSL_CTX *ctx, int (*new_session_cb)(struct ssl_st *ssl,
	SSL_SESSION *sess));
void SSL_CTX_sess_set_remove_cb(SSL_CTX *ctx, void (*remove_session_cb)(struct ssl_ctx_st
	*ctx, SSL_SESSION *sess));
struct lhash_st_SSL_SESSION *SSL_CTX_sessions(SSL_CTX *ctx);
void SSL_CTX_set0_CA_list(SSL_CTX *ctx, struct stack_st_X509_NAME *name_list);
void SSL_CTX_set0_ctlog_store(SSL_CTX *ctx, CTLOG_STORE *logs);
void SSL_CTX_set0_security_ex_data(SSL_CTX *ctx, void *ex);
int SSL_CTX_set0_tmp_dh_pkey(SSL_CTX *ctx, EVP_PKEY *dhpkey);
void SSL_CTX_set1_cert_store(SSL_CTX *arg1, X509_STORE *arg2);
int SSL_CTX_set1_param(SSL_CTX *ctx, X509_VERIFY_PARAM *vpm);
void SSL_CTX_set_allow_early_data_cb(SSL_CTX *ctx, SSL_allow_early_data_cb_fn cb, void *arg);
int SSL_CTX_set_alpn_protos(SSL_CTX *ctx, const unsigned char *protos BYTES(protos_len),
	unsigned int protos_len);
void SSL_CTX_set_alpn_select_cb(SSL_CTX *ctx, SSL_CTX_alpn_select_cb_func cb, void *arg);
int SSL_CTX_set_async_callback(SSL_CTX *ctx, SSL_async_callback_fn callback);
int SSL_CTX_set_async_callback_arg(SSL_CTX *ctx, void *arg);
int SSL_CTX_set_block_padding(SSL_CTX *ctx, size_t block_size);
void SSL_CTX_set_cert_cb(SSL_CTX *c, int (*cb)(SSL *ssl, void *arg), void *arg);
void SSL_CTX_set_cert_store(SSL_CTX *arg1, X509_STORE *arg2);
void SSL_CTX_set_cert_verify_callback(SSL_CTX *ctx, int (*cb)(X509_STORE_CTX *, void *), void *arg);
int SSL_CTX_set_cipher_list(SSL_CTX *arg1, const char *str);
int SSL_CTX_set_ciphersuites(SSL_CTX *ctx, const char *str);
void SSL_CTX_set_client_CA_list(SSL_CTX *ctx, struct stack_st_X509_NAME *name_list);
void SSL_CTX_set_client_cert_cb(SSL_CTX *ctx, int (*client_cert_cb)(SSL *ssl, X509 **x509,
	EVP_PKEY **pkey));
int SSL_CTX_set_client_cert_engine(SSL_CTX *ctx, ENGINE *e);
void SSL_CTX_set_client_hello_cb(SSL_CTX *c, SSL_client_hello_cb_fn cb, void *arg);
void SSL_CTX_set_cookie_generate_cb(SSL_CTX *ctx, int (*app_gen_cookie_cb)(SSL *ssl,
	unsigned char *cookie, unsigned int *cookie_len));
void SSL_CTX_set_cookie_verify_cb(SSL_CTX *ctx, int (*app_verify_cookie_cb)(SSL *ssl, const
	unsigned char *cookie, unsigned int cookie_len));
int SSL_CTX_set_ct_validation_callback(SSL_CTX *ctx, ssl_ct_validation_cb callback, void *arg);
int SSL_CTX_set_ctlog_list_file(SSL_CTX *ctx, const char *path);
int SSL_CTX_set_default_ctlog_list_file(SSL_CTX *ctx);
void SSL_CTX_set_default_passwd_cb(SSL_CTX *ctx, pem_password_cb *cb);
void SSL_CTX_set_default_passwd_cb_userdata(SSL_CTX *ctx, void *u);
void SSL_CTX_set_default_read_buffer_len(SSL_CTX *ctx, size_t len);
int SSL_CTX_set_default_verify_dir(SSL_CTX *ctx);
int SSL_CTX_set_default_verify_file(SSL_CTX *ctx);
int SSL_CTX_set_default_verify_paths(SSL_CTX *ctx);
int SSL_CTX_set_default_verify_store(SSL_CTX *ctx);
int SSL_CTX_set_ex_data(SSL_CTX *ssl, int idx, void *data);
int SSL_CTX_set_generate_session_id(SSL_CTX *ctx, GEN_SESSION_CB cb);
void SSL_CTX_set_info_callback(SSL_CTX *ctx, void (*cb)(const SSL *ssl, int type, int val));
void SSL_CTX_set_keylog_callback(SSL_CTX *ctx, SSL_CTX_keylog_cb_func cb);
int SSL_CTX_set_max_early_data(SSL_CTX *ctx, uint32_t max_early_data);
void SSL_CTX_set_msg_callback(SSL_CTX *ctx, void (*cb)(int write_p, int version, int
	content_type, const void *buf, size_t len, SSL *ssl, void *arg));
void SSL_CTX_set_next_proto_select_cb(SSL_CTX *s, SSL_CTX_npn_select_cb_func cb, void *arg);
void SSL_CTX_set_next_protos_advertised_cb(SSL_CTX *s, SSL_CTX_npn_advertised_cb_func cb,
	void *arg);
void SSL_CTX_set_not_resumable_session_callback(SSL_CTX *ctx, int (*cb)(SSL *ssl, int
	is_forward_secure));
int SSL_CTX_set_num_tickets(SSL_CTX *ctx, size_t num_tickets);
uint64_t SSL_CTX_set_options(SSL_CTX *ctx, uint64_t op FLAGS(ssl_options)) FLAGS(ssl_options);
void SSL_CTX_set_post_handshake_auth(SSL_CTX *ctx, int val);
void SSL_CTX_set_psk_client_callback(SSL_CTX *ctx, SSL_psk_client_cb_func cb);
void SSL_CTX_set_psk_find_session_callback(SSL_CTX *ctx, SSL_psk_find_session_cb_func cb);
void SSL_CTX_set_psk_server_callback(SSL_CTX *ctx, SSL_psk_server_cb_func cb);
void SSL_CTX_set_psk_use_session_callback(SSL_CTX *ctx, SSL_psk_use_session_cb_func cb);
int SSL_CTX_set_purpose(SSL_CTX *ctx, int purpose);
void SSL_CTX_set_quiet_shutdown(SSL_CTX *ctx, int mode);
void SSL_CTX_set_record_padding_callback(SSL_CTX *ctx, size_t (*cb)(SSL *ssl, int type,
	size_t len, void *arg));
void SSL_CTX_set_record_padding_callback_arg(SSL_CTX *ctx, void *arg);
int SSL_CTX_set_recv_max_early_data(SSL_CTX *ctx, uint32_t recv_max_early_data);
void SSL_CTX_set_security_callback(SSL_CTX *ctx, int (*cb)(const SSL *s, const SSL_CTX *ctx,
	int op, int bits, int nid, void *other, void *ex));
void SSL_CTX_set_security_level(SSL_CTX *ctx, int level);
int SSL_CTX_set_session_id_context(SSL_CTX *ctx, const unsigned char *sid_ctx, unsigned int
	sid_ctx_len);
int SSL_CTX_set_session_ticket_cb(SSL_CTX *ctx, SSL_CTX_generate_session_ticket_fn gen_cb,
	SSL_CTX_decrypt_session_ticket_fn dec_cb, void *arg);
int SSL_CTX_set_srp_cb_arg(SSL_CTX *ctx, void *arg);
int SSL_CTX_set_srp_client_pwd_callback(SSL_CTX *ctx, char * (*cb)(SSL *, void *));
int SSL_CTX_set_srp_password(SSL_CTX *ctx, char *password);
int SSL_CTX_set_srp_strength(SSL_CTX *ctx, int strength);
int SSL_CTX_set_srp_username(SSL_CTX *ctx, char *name);
int SSL_CTX_set_srp_username_callback(SSL_CTX *ctx, int (*cb)(SSL *, int *, void *));
int SSL_CTX_set_srp_verify_param_callback(SSL_CTX *ctx, int (*cb)(SSL *, void *));
int SSL_CTX_set_ssl_version(SSL_CTX *ctx, const SSL_METHOD *meth);
void SSL_CTX_set_stateless_cookie_generate_cb(SSL_CTX *ctx, int
	(*gen_stateless_cookie_cb)(SSL *ssl, unsigned char *cookie, size_t *cookie_len));
void SSL_CTX_set_stateless_cookie_verify_cb(SSL_CTX *ctx, int
	(*verify_stateless_cookie_cb)(SSL *ssl, const unsigned char *cookie, size_t cookie_len));
long SSL_CTX_set_timeout(SSL_CTX *ctx, long t);
int SSL_CTX_set_tlsext_max_fragment_length(SSL_CTX *ctx, uint8_t mode);
int SSL_CTX_set_tlsext_ticket_key_evp_cb(SSL_CTX *ctx, int (*fp)(SSL *, unsigned char *,
	unsigned char *, EVP_CIPHER_CTX *, EVP_MAC_CTX *, int));
int SSL_CTX_set_tlsext_use_srtp(SSL_CTX *ctx, const char *profiles);
void SSL_CTX_set_tmp_dh_callback(SSL_CTX *ctx, DH * (*dh)(SSL *ssl, int is_export, int keylength));
int SSL_CTX_set_trust(SSL_CTX *ctx, int trust);
void SSL_CTX_set_verify(SSL_CTX *ctx, int mode FLAGS(ssl_verify), SSL_verify_cb callback);
void SSL_CTX_set_verify_depth(SSL_CTX *ctx, int depth);
int SSL_CTX_up_ref(SSL_CTX *ctx);
int SSL_CTX_use_PrivateKey(SSL_CTX *ctx, EVP_PKEY *pkey);
int SSL_CTX_use_PrivateKey_ASN1(int pk, SSL_CTX *ctx, const unsigned char *d, long len);
int SSL_CTX_use_PrivateKey_file(SSL_CTX *ctx, const char *file, int type);
int SSL_CTX_use_RSAPrivateKey(SSL_CTX *ctx, RSA *rsa);
int SSL_CTX_use_RSAPrivateKey_ASN1(SSL_CTX *ctx, const unsigned char *d, long len);
int SSL_CTX_use_RSAPrivateKey_file(SSL_CTX *ctx, const char *file, int type);
int SSL_CTX_use_cert_and_key(SSL_CTX *ctx, X509 *x509, EVP_PKEY *privatekey, struct
	stack_st_X509 *chain, int override);
int SSL_CTX_use_certificate(SSL_CTX *ctx, X509 *x);
int SSL_CTX_use_certificate_ASN1(SSL_CTX *ctx, int len, const unsigned char *d);
int SSL_CTX_use_certificate_chain_file(SSL_CTX *ctx, const char *file);
int SSL_CTX_use_certificate_file(SSL_CTX *ctx, const char *file, int type);
int SSL_CTX_use_psk_identity_hint(SSL_CTX *ctx, const char *identity_hint);
int SSL_CTX_use_serverinfo(SSL_CTX *ctx, const unsigned char *serverinfo, size_t serverinfo_length);
int SSL_CTX_use_serverinfo_ex(SSL_CTX *ctx, unsigned int version, const unsigned char
	*serverinfo, size_t serverinfo_length);
int SSL_CTX_use_serverinfo_file(SSL_CTX *ctx, const char *file);
SSL_SESSION *SSL_SESSION_dup(const SSL_SESSION *src);
void SSL_SESSION_free(SSL_SESSION *ses);
void SSL_SESSION_get0_alpn_selected(const SSL_SESSION *s, const unsigned char **alpn, size_t *len);
const SSL_CIPHER *SSL_SESSION_get0_cipher(const SSL_SESSION *s);
const char *SSL_SESSION_get0_hostname(const SSL_SESSION *s);
const unsigned char *SSL_SESSION_get0_id_context(const SSL_SESSION *s, unsigned int *len);
X509 *SSL_SESSION_get0_peer(SSL_SESSION *s);
void SSL_SESSION_get0_ticket(const SSL_SESSION *s, const unsigned char **tick, size_t *len);
int SSL_SESSION_get0_ticket_appdata(SSL_SESSION *ss, void **data, size_t *len);
unsigned int SSL_SESSION_get_compress_id(const SSL_SESSION *s);
void *SSL_SESSION_get_ex_data(const SSL_SESSION *ss, int idx);
const unsigned char *SSL_SESSION_get_id(const SSL_SESSION *s, unsigned int *len);
size_t SSL_SESSION_get_master_key(const SSL_SESSION *sess, unsigned char *out, size_t outlen);
uint32_t SSL_SESSION_get_max_early_data(const SSL_SESSION *s);
uint8_t SSL_SESSION_get_max_fragment_length(const SSL_SESSION *sess);
int SSL_SESSION_get_protocol_version(const SSL_SESSION *s) ENUM(ssl_version);
unsigned long SSL_SESSION_get_ticket_lifetime_hint(const SSL_SESSION *s);
long SSL_SESSION_get_time(const SSL_SESSION *s);
long SSL_SESSION_get_timeout(const SSL_SESSION *s);
int SSL_SESSION_has_ticket(const SSL_SESSION *s);
int SSL_SESSION_is_resumable(const SSL_SESSION *s);
SSL_SESSION *SSL_SESSION_new(void);
int SSL_SESSION_print(BIO *fp, const SSL_SESSION *ses);
int SSL_SESSION_print_fp(FILE *fp, const SSL_SESSION *ses);
int SSL_SESSION_print_keylog(BIO *bp, const SSL_SESSION *x);
int SSL_SESSION_set1_alpn_selected(SSL_SESSION *s, const unsigned char *alpn, size_t len);
int SSL_SESSION_set1_hostname(SSL_SESSION *s, const char *hostname);
int SSL_SESSION_set1_id(SSL_SESSION *s, const unsigned char *sid, unsigned int sid_len);
int SSL_SESSION_set1_id_context(SSL_SESSION *s, const unsigned char *sid_ctx, unsigned int
	sid_ctx_len);
int SSL_SESSION_set1_master_key(SSL_SESSION *sess, const unsigned char *in, size_t len);
int SSL_SESSION_set1_ticket_appdata(SSL_SESSION *ss, const void *data, size_t len);
int SSL_SESSION_set_cipher(SSL_SESSION *s, const SSL_CIPHER *cipher);
int SSL_SESSION_set_ex_data(SSL_SESSION *ss, int idx, void *data);
int SSL_SESSION_set_max_early_data(SSL_SESSION *s, uint32_t max_early_data);
int SSL_SESSION_set_protocol_version(SSL_SESSION *s, int version);
long SSL_SESSION_set_time(SSL_SESSION *s, long t);
long SSL_SESSION_set_timeout(SSL_SESSION *s, long t);
int SSL_SESSION_up_ref(SSL_SESSION *ses);
int SSL_SRP_CTX_free(SSL *ctx);
int SSL_SRP_CTX_init(SSL *s);
int SSL_accept(SSL *ssl) FAILS(< 0) ERRNO(none);
int SSL_add1_host(SSL *s, const char *hostname);
int SSL_add1_to_CA_list(SSL *ssl, const X509 *x);
int SSL_add_client_CA(SSL *ssl, X509 *x);
int SSL_add_dir_cert_subjects_to_stack(struct stack_st_X509_NAME *stackCAs, const char *dir);
int SSL_add_file_cert_subjects_to_stack(struct stack_st_X509_NAME *stackCAs, const char *file);
void SSL_add_ssl_module(void);
int SSL_add_store_cert_subjects_to_stack(struct stack_st_X509_NAME *stackCAs, const char *uri);
const char *SSL_alert_desc_string(int value);
const char *SSL_alert_desc_string_long(int value);
const char *SSL_alert_type_string(int value);
const char *SSL_alert_type_string_long(int value);
int SSL_alloc_buffers(SSL *ssl);
int SSL_bytes_to_cipher_list(SSL *s, const unsigned char *bytes, size_t len, int isv2format,
	struct stack_st_SSL_CIPHER **sk, struct stack_st_SSL_CIPHER **scsvs);
long SSL_callback_ctrl(SSL *arg1, int arg2, void (*arg3)(void));
void SSL_certs_clear(SSL *s);
int SSL_check_chain(SSL *s, X509 *x, EVP_PKEY *pk, struct stack_st_X509 *chain);
int SSL_check_private_key(const SSL *ctx);
int SSL_clear(SSL *s);
uint64_t SSL_clear_options(SSL *s, uint64_t op FLAGS(ssl_options)) FLAGS(ssl_options);
size_t SSL_client_hello_get0_ciphers(SSL *s, const unsigned char **out);
size_t SSL_client_hello_get0_compression_methods(SSL *s, const unsigned char **out);
int SSL_client_hello_get0_ext(SSL *s, unsigned int type, const unsigned char **out, size_t *outlen);
unsigned int SSL_client_hello_get0_legacy_version(SSL *s);
size_t SSL_client_hello_get0_random(SSL *s, const unsigned char **out);
size_t SSL_client_hello_get0_session_id(SSL *s, const unsigned char **out);
int SSL_client_hello_get1_extensions_present(SSL *s, int **out, size_t *outlen);
int SSL_client_hello_isv2(SSL *s);
int SSL_client_version(const SSL *s) ENUM(ssl_version);
int SSL_config(SSL *s, const char *name);
int SSL_connect(SSL *ssl) FAILS(< 0) ERRNO(none);
int SSL_copy_session_id(SSL *to, const SSL *from);
int SSL_ct_is_enabled(const SSL *s);
long SSL_ctrl(SSL *ssl, int cmd ENUM(ssl_ctrl), long larg
	AS(long larg FLAGS(ssl_mode), cmd == SSL_CTRL_MODE | SSL_CTRL_CLEAR_MODE)
	AS(long larg FLAGS(ssl_cache), cmd == SSL_CTRL_SET_SESS_CACHE_MODE)
	AS(long larg ENUM(ssl_version), cmd == SSL_CTRL_SET_MIN_PROTO_VERSION |
	SSL_CTRL_SET_MAX_PROTO_VERSION), void *parg
	AS(const char *parg, cmd == SSL_CTRL_SET_TLSEXT_HOSTNAME | SSL_CTRL_SET_GROUPS_LIST |
	SSL_CTRL_SET_SIGALGS_LIST | SSL_CTRL_SET_CLIENT_SIGALGS_LIST));
unsigned long SSL_dane_clear_flags(SSL *ssl, unsigned long flags);
int SSL_dane_enable(SSL *s, const char *basedomain);
unsigned long SSL_dane_set_flags(SSL *ssl, unsigned long flags);
int SSL_dane_tlsa_add(SSL *s, uint8_t usage, uint8_t selector, uint8_t mtype, const unsigned
	char *data, size_t dlen);
int SSL_do_handshake(SSL *s) FAILS(< 0) ERRNO(none);
SSL *SSL_dup(SSL *ssl);
struct stack_st_X509_NAME *SSL_dup_CA_list(const struct stack_st_X509_NAME *sk);
int SSL_enable_ct(SSL *s, int validation_mode);
int SSL_export_keying_material(SSL *s, unsigned char *out, size_t olen, const char *label,
	size_t llen, const unsigned char *context, size_t contextlen, int use_context);
int SSL_export_keying_material_early(SSL *s, unsigned char *out, size_t olen, const char
	*label, size_t llen, const unsigned char *context, size_t contextlen);
int SSL_extension_supported(unsigned int ext_type);
void SSL_free(SSL *ssl);
int SSL_free_buffers(SSL *ssl);
const struct stack_st_X509_NAME *SSL_get0_CA_list(const SSL *s);
void SSL_get0_alpn_selected(const SSL *ssl, const unsigned char **data OUT(always),
	unsigned int *len OUT(always));
SSL_DANE *SSL_get0_dane(SSL *ssl);
int SSL_get0_dane_authority(SSL *s, X509 **mcert, EVP_PKEY **mspki);
int SSL_get0_dane_tlsa(SSL *s, uint8_t *usage, uint8_t *selector, uint8_t *mtype, const
	unsigned char **data, size_t *dlen);
void SSL_get0_next_proto_negotiated(const SSL *s, const unsigned char **data, unsigned *len);
X509_VERIFY_PARAM *SSL_get0_param(SSL *ssl);
const struct stack_st_X509_NAME *SSL_get0_peer_CA_list(const SSL *s);
X509 *SSL_get0_peer_certificate(const SSL *s);
const struct stack_st_SCT *SSL_get0_peer_scts(SSL *s);
const char *SSL_get0_peername(SSL *s);
void *SSL_get0_security_ex_data(const SSL *s);
struct stack_st_X509 *SSL_get0_verified_chain(const SSL *s);
X509 *SSL_get1_peer_certificate(const SSL *s);
SSL_SESSION *SSL_get1_session(SSL *ssl);
struct stack_st_SSL_CIPHER *SSL_get1_supported_ciphers(SSL *s);
SSL_CTX *SSL_get_SSL_CTX(const SSL *ssl);
int SSL_get_all_async_fds(SSL *s, int *fds, size_t *numfds);
int SSL_get_async_status(SSL *s, int *status);
X509 *SSL_get_certificate(const SSL *ssl);
int SSL_get_changed_async_fds(SSL *s, int *addfd, size_t *numaddfds, int *delfd, size_t *numdelfds);
const char *SSL_get_cipher_list(const SSL *s, int n);
struct stack_st_SSL_CIPHER *SSL_get_ciphers(const SSL *s);
struct stack_st_X509_NAME *SSL_get_client_CA_list(const SSL *s);
struct stack_st_SSL_CIPHER *SSL_get_client_ciphers(const SSL *s);
size_t SSL_get_client_random(const SSL *ssl, unsigned char *out, size_t outlen);
const SSL_CIPHER *SSL_get_current_cipher(const SSL *s);
const COMP_METHOD *SSL_get_current_compression(const SSL *s);
const COMP_METHOD *SSL_get_current_expansion(const SSL *s);
pem_password_cb *SSL_get_default_passwd_cb(SSL *s);
void *SSL_get_default_passwd_cb_userdata(SSL *s);
long SSL_get_default_timeout(const SSL *s);
int SSL_get_early_data_status(const SSL *s);
int SSL_get_error(const SSL *s, int ret_code) ENUM(ssl_error);
void *SSL_get_ex_data(const SSL *ssl, int idx);
int SSL_get_ex_data_X509_STORE_CTX_idx(void);
int SSL_get_fd(const SSL *s);
size_t SSL_get_finished(const SSL *s, void *buf, size_t count);
int SSL_get_key_update_type(const SSL *s);
uint32_t SSL_get_max_early_data(const SSL *s);
size_t SSL_get_num_tickets(const SSL *s);
uint64_t SSL_get_options(const SSL *s) FLAGS(ssl_options);
struct stack_st_X509 *SSL_get_peer_cert_chain(const SSL *s);
size_t SSL_get_peer_finished(const SSL *s, void *buf, size_t count);
int SSL_get_peer_signature_type_nid(const SSL *s, int *pnid);
const SSL_CIPHER *SSL_get_pending_cipher(const SSL *s);
struct evp_pkey_st *SSL_get_privatekey(const SSL *ssl);
const char *SSL_get_psk_identity(const SSL *s);
const char *SSL_get_psk_identity_hint(const SSL *s);
int SSL_get_quiet_shutdown(const SSL *ssl);
BIO *SSL_get_rbio(const SSL *s);
int SSL_get_read_ahead(const SSL *s);
void *SSL_get_record_padding_callback_arg(const SSL *ssl);
uint32_t SSL_get_recv_max_early_data(const SSL *s);
int SSL_get_rfd(const SSL *s);
int SSL_get_security_level(const SSL *s);
SRTP_PROTECTION_PROFILE *SSL_get_selected_srtp_profile(SSL *s);
size_t SSL_get_server_random(const SSL *ssl, unsigned char *out, size_t outlen);
const char *SSL_get_servername(const SSL *s, const int type);
int SSL_get_servername_type(const SSL *s);
SSL_SESSION *SSL_get_session(const SSL *ssl);
char *SSL_get_shared_ciphers(const SSL *s, char *buf, int size);
int SSL_get_shared_sigalgs(SSL *s, int idx, int *psign, int *phash, int *psignandhash,
	unsigned char *rsig, unsigned char *rhash);
int SSL_get_shutdown(const SSL *ssl) FLAGS(ssl_shutdown);
int SSL_get_sigalgs(SSL *s, int idx, int *psign, int *phash, int *psignandhash, unsigned
	char *rsig, unsigned char *rhash);
int SSL_get_signature_type_nid(const SSL *s, int *pnid);
BIGNUM *SSL_get_srp_N(SSL *s);
BIGNUM *SSL_get_srp_g(SSL *s);
char *SSL_get_srp_userinfo(SSL *s);
char *SSL_get_srp_username(SSL *s);
struct stack_st_SRTP_PROTECTION_PROFILE *SSL_get_srtp_profiles(SSL *ssl);
const SSL_METHOD *SSL_get_ssl_method(const SSL *s);
OSSL_HANDSHAKE_STATE SSL_get_state(const SSL *ssl);
SSL_verify_cb SSL_get_verify_callback(const SSL *s);
int SSL_get_verify_depth(const SSL *s);
int SSL_get_verify_mode(const SSL *s) FLAGS(ssl_verify);
long SSL_get_verify_result(const SSL *ssl) ENUM(x509_verify);
const char *SSL_get_version(const SSL *s);
BIO *SSL_get_wbio(const SSL *s);
int SSL_get_wfd(const SSL *s);
const char *SSL_group_to_name(SSL *s, int id);
int SSL_has_matching_session_id(const SSL *s, const unsigned char *id, unsigned int id_len);
int SSL_has_pending(const SSL *s);
int SSL_in_before(const SSL *s);
int SSL_in_init(const SSL *s);
int SSL_is_dtls(const SSL *s);
int SSL_is_init_finished(const SSL *s);
int SSL_is_server(const SSL *s);
int SSL_key_update(SSL *s, int updatetype);
struct stack_st_X509_NAME *SSL_load_client_CA_file(const char *file);
struct stack_st_X509_NAME *SSL_load_client_CA_file_ex(const char *file, OSSL_LIB_CTX
	*libctx, const char *propq);
SSL *SSL_new(SSL_CTX *ctx) FAILS(== NULL) ERRNO(none);
int SSL_new_session_ticket(SSL *s);
int SSL_peek(SSL *ssl, void *buf OUT(result > 0) BYTES(result), int num) FAILS(< 0) ERRNO(none);
int SSL_peek_ex(SSL *ssl, void *buf OUT(result > 0) BYTES(*readbytes), size_t num, size_t
	*readbytes OUT(result > 0)) FAILS(== 0) ERRNO(none);
int SSL_pending(const SSL *s);
int SSL_read(SSL *ssl, void *buf OUT(result > 0) BYTES(result), int num) FAILS(< 0) ERRNO(none);
int SSL_read_early_data(SSL *s, void *buf, size_t num, size_t *readbytes);
int SSL_read_ex(SSL *ssl, void *buf OUT(result > 0) BYTES(*readbytes), size_t num, size_t
	*readbytes OUT(result > 0)) FAILS(== 0) ERRNO(none);
int SSL_renegotiate(SSL *s);
int SSL_renegotiate_abbreviated(SSL *s);
int SSL_renegotiate_pending(const SSL *s);
const char *SSL_rstate_string(const SSL *s);
const char *SSL_rstate_string_long(const SSL *s);
int SSL_select_next_proto(unsigned char **out, unsigned char *outlen, const unsigned char
	*in, unsigned int inlen, const unsigned char *client, unsigned int client_len);
ssize_t SSL_sendfile(SSL *s, int fd, off_t offset, size_t size, int flags);
int SSL_session_reused(const SSL *s);
void SSL_set0_CA_list(SSL *s, struct stack_st_X509_NAME *name_list);
void SSL_set0_rbio(SSL *s, BIO *rbio);
void SSL_set0_security_ex_data(SSL *s, void *ex);
int SSL_set0_tmp_dh_pkey(SSL *s, EVP_PKEY *dhpkey);
void SSL_set0_wbio(SSL *s, BIO *wbio);
int SSL_set1_host(SSL *s, const char *hostname);
int SSL_set1_param(SSL *ssl, X509_VERIFY_PARAM *vpm);
SSL_CTX *SSL_set_SSL_CTX(SSL *ssl, SSL_CTX *ctx);
void SSL_set_accept_state(SSL *s);
void SSL_set_allow_early_data_cb(SSL *s, SSL_allow_early_data_cb_fn cb, void *arg);
int SSL_set_alpn_protos(SSL *ssl, const unsigned char *protos BYTES(protos_len),
	unsigned int protos_len);
int SSL_set_async_callback(SSL *s, SSL_async_callback_fn callback);
int SSL_set_async_callback_arg(SSL *s, void *arg);
void SSL_set_bio(SSL *s, BIO *rbio, BIO *wbio);
int SSL_set_block_padding(SSL *ssl, size_t block_size);
void SSL_set_cert_cb(SSL *s, int (*cb)(SSL *ssl, void *arg), void *arg);
int SSL_set_cipher_list(SSL *s, const char *str);
int SSL_set_ciphersuites(SSL *s, const char *str);
void SSL_set_client_CA_list(SSL *s, struct stack_st_X509_NAME *name_list);
void SSL_set_connect_state(SSL *s);
int SSL_set_ct_validation_callback(SSL *s, ssl_ct_validation_cb callback, void *arg);
void SSL_set_debug(SSL *s, int debug);
void SSL_set_default_passwd_cb(SSL *s, pem_password_cb *cb);
void SSL_set_default_passwd_cb_userdata(SSL *s, void *u);
void SSL_set_default_read_buffer_len(SSL *s, size_t len);
int SSL_set_ex_data(SSL *ssl, int idx, void *data);
int SSL_set_fd(SSL *s, int fd);
int SSL_set_generate_session_id(SSL *s, GEN_SESSION_CB cb);
void SSL_set_hostflags(SSL *s, unsigned int flags);
void SSL_set_info_callback(SSL *ssl, void (*cb)(const SSL *ssl, int type, int val));
int SSL_set_max_early_data(SSL *s, uint32_t max_early_data);
void SSL_set_msg_callback(SSL *ssl, void (*cb)(int write_p, int version, int content_type,
	const void *buf, size_t len, SSL *ssl, void *arg));
void SSL_set_not_resumable_session_callback(SSL *ssl, int (*cb)(SSL *ssl, int is_forward_secure));
int SSL_set_num_tickets(SSL *s, size_t num_tickets);
uint64_t SSL_set_options(SSL *s, uint64_t op FLAGS(ssl_options)) FLAGS(ssl_options);
void SSL_set_post_handshake_auth(SSL *s, int val);
void SSL_set_psk_client_callback(SSL *ssl, SSL_psk_client_cb_func cb);
void SSL_set_psk_find_session_callback(SSL *s, SSL_psk_find_session_cb_func cb);
void SSL_set_psk_server_callback(SSL *ssl, SSL_psk_server_cb_func cb);
void SSL_set_psk_use_session_callback(SSL *s, SSL_psk_use_session_cb_func cb);
int SSL_set_purpose(SSL *ssl, int purpose);
void SSL_set_quiet_shutdown(SSL *ssl, int mode);
void SSL_set_read_ahead(SSL *s, int yes);
int SSL_set_record_padding_callback(SSL *ssl, size_t (*cb)(SSL *ssl, int type, size_t len,
	void *arg));
void SSL_set_record_padding_callback_arg(SSL *ssl, void *arg);
int SSL_set_recv_max_early_data(SSL *s, uint32_t recv_max_early_data);
int SSL_set_rfd(SSL *s, int fd);
void SSL_set_security_callback(SSL *s, int (*cb)(const SSL *s, const SSL_CTX *ctx, int op,
	int bits, int nid, void *other, void *ex));
void SSL_set_security_level(SSL *s, int level);
int SSL_set_session(SSL *to, SSL_SESSION *session);
int SSL_set_session_id_context(SSL *ssl, const unsigned char *sid_ctx, unsigned int sid_ctx_len);
int SSL_set_session_secret_cb(SSL *s, tls_session_secret_cb_fn session_secret_cb, void *arg);
int SSL_set_session_ticket_ext(SSL *s, void *ext_data, int ext_len);
int SSL_set_session_ticket_ext_cb(SSL *s, tls_session_ticket_ext_cb_fn cb, void *arg);
void SSL_set_shutdown(SSL *ssl, int mode FLAGS(ssl_shutdown));
int SSL_set_srp_server_param(SSL *s, const BIGNUM *N, const BIGNUM *g, BIGNUM *sa, BIGNUM
	*v, char *info);
int SSL_set_srp_server_param_pw(SSL *s, const char *user, const char *pass, const char *grp);
int SSL_set_ssl_method(SSL *s, const SSL_METHOD *method);
int SSL_set_tlsext_max_fragment_length(SSL *ssl, uint8_t mode);
int SSL_set_tlsext_use_srtp(SSL *ssl, const char *profiles);
void SSL_set_tmp_dh_callback(SSL *ssl, DH * (*dh)(SSL *ssl, int is_export, int keylength));
int SSL_set_trust(SSL *ssl, int trust);
void SSL_set_verify(SSL *s, int mode FLAGS(ssl_verify), SSL_verify_cb callback);
void SSL_set_verify_depth(SSL *s, int depth);
void SSL_set_verify_result(SSL *ssl, long v);
int SSL_set_wfd(SSL *s, int fd);
int SSL_shutdown(SSL *s);
int SSL_srp_server_param_with_username(SSL *s, int *ad);
const char *SSL_state_string(const SSL *s);
const char *SSL_state_string_long(const SSL *s);
int SSL_stateless(SSL *s);
const struct openssl_ssl_test_functions *SSL_test_functions(void);
void SSL_trace(int write_p, int version, int content_type, const void *buf, size_t len, SSL
	*ssl, void *arg);
int SSL_up_ref(SSL *s);
int SSL_use_PrivateKey(SSL *ssl, EVP_PKEY *pkey);
int SSL_use_PrivateKey_ASN1(int pk, SSL *ssl, const unsigned char *d, long len);
int SSL_use_PrivateKey_file(SSL *ssl, const char *file, int type);
int SSL_use_RSAPrivateKey(SSL *ssl, RSA *rsa);
int SSL_use_RSAPrivateKey_ASN1(SSL *ssl, const unsigned char *d, long len);
int SSL_use_RSAPrivateKey_file(SSL *ssl, const char *file, int type);
int SSL_use_cert_and_key(SSL *ssl, X509 *x509, EVP_PKEY *privatekey, struct stack_st_X509
	*chain, int override);
int SSL_use_certificate(SSL *ssl, X509 *x);
int SSL_use_certificate_ASN1(SSL *ssl, const unsigned char *d, int len);
int SSL_use_certificate_chain_file(SSL *ssl, const char *file);
int SSL_use_certificate_file(SSL *ssl, const char *file, int type);
int SSL_use_psk_identity_hint(SSL *s, const char *identity_hint);
int SSL_verify_client_post_handshake(SSL *s);
int SSL_version(const SSL *ssl) ENUM(ssl_version);
int SSL_waiting_for_async(SSL *s);
int SSL_want(const SSL *s) ENUM(ssl_want);
int SSL_write(SSL *ssl, const void *buf BYTES(num), int num) FAILS(< 0) ERRNO(none);
int SSL_write_early_data(SSL *s, const void *buf, size_t num, size_t *written);
int SSL_write_ex(SSL *s, const void *buf BYTES(num), size_t num, size_t *written OUT(result
	> 0)) FAILS(== 0) ERRNO(none);
const SSL_METHOD *TLS_client_method(void);
const SSL_METHOD *TLS_method(void);
const SSL_METHOD *TLS_server_method(void);
const SSL_METHOD *TLSv1_1_client_method(void);
const SSL_METHOD *TLSv1_1_method(void);
const SSL_METHOD *TLSv1_1_server_method(void);
const SSL_METHOD *TLSv1_2_client_method(void);
const SSL_METHOD *TLSv1_2_method(void);
const SSL_METHOD *TLSv1_2_server_method(void);
const SSL_METHOD *TLSv1_client_method(void);
const SSL_METHOD *TLSv1_method(void);
const SSL_METHOD *TLSv1_server_method(void);
SSL_SESSION *d2i_SSL_SESSION(SSL_SESSION **a, const unsigned char **pp, long length);
int i2d_SSL_SESSION(const SSL_SESSION *in, unsigned char **pp);
