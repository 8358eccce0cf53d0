// SPDX-License-Identifier: Apache-2.0
// libcurl.
// Types are those of the headers (scripts/declare.py writes them); the words behind them are ours.

typedef size_t (*curl_formget_callback)(void *arg, const char *buf, size_t len);
typedef void * (*curl_malloc_callback)(size_t size);
typedef void (*curl_free_callback)(void *ptr);
typedef void * (*curl_realloc_callback)(void *ptr, size_t size);
typedef char * (*curl_strdup_callback)(const char *str);
typedef void * (*curl_calloc_callback)(size_t nmemb, size_t size);
typedef long curl_off_t;
typedef size_t (*curl_read_callback)(char *buffer, size_t size, size_t nitems, void *instream);
typedef int (*curl_seek_callback)(void *instream, curl_off_t offset, int origin);
typedef int curl_socket_t;

void curl_easy_cleanup(CURL *curl);
CURL *curl_easy_duphandle(CURL *curl);
char *curl_easy_escape(CURL *handle, const char *string, int length);
CURLcode curl_easy_getinfo(CURL *curl, CURLINFO info, ... WORDS(1) OPTIONAL(char **value
	OUT(success) STRING, info == CURLINFO_EFFECTIVE_URL | CURLINFO_CONTENT_TYPE |
	CURLINFO_FTP_ENTRY_PATH | CURLINFO_REDIRECT_URL | CURLINFO_PRIMARY_IP |
	CURLINFO_RTSP_SESSION_ID | CURLINFO_LOCAL_IP | CURLINFO_SCHEME | CURLINFO_EFFECTIVE_METHOD
	| CURLINFO_REFERER | CURLINFO_CAINFO | CURLINFO_CAPATH) OPTIONAL(long *value OUT(success),
	info == CURLINFO_RESPONSE_CODE | CURLINFO_HEADER_SIZE | CURLINFO_REQUEST_SIZE |
	CURLINFO_SSL_VERIFYRESULT | CURLINFO_FILETIME | CURLINFO_REDIRECT_COUNT |
	CURLINFO_HTTP_CONNECTCODE | CURLINFO_HTTPAUTH_AVAIL | CURLINFO_PROXYAUTH_AVAIL |
	CURLINFO_OS_ERRNO | CURLINFO_NUM_CONNECTS | CURLINFO_LASTSOCKET | CURLINFO_CONDITION_UNMET
	| CURLINFO_RTSP_CLIENT_CSEQ | CURLINFO_RTSP_SERVER_CSEQ | CURLINFO_RTSP_CSEQ_RECV |
	CURLINFO_PRIMARY_PORT | CURLINFO_LOCAL_PORT | CURLINFO_HTTP_VERSION |
	CURLINFO_PROXY_SSL_VERIFYRESULT | CURLINFO_PROTOCOL | CURLINFO_PROXY_ERROR) OPTIONAL(double
	*value OUT(success), info == CURLINFO_TOTAL_TIME | CURLINFO_NAMELOOKUP_TIME |
	CURLINFO_CONNECT_TIME | CURLINFO_PRETRANSFER_TIME | CURLINFO_SIZE_UPLOAD |
	CURLINFO_SIZE_DOWNLOAD | CURLINFO_SPEED_DOWNLOAD | CURLINFO_SPEED_UPLOAD |
	CURLINFO_CONTENT_LENGTH_DOWNLOAD | CURLINFO_CONTENT_LENGTH_UPLOAD |
	CURLINFO_STARTTRANSFER_TIME | CURLINFO_REDIRECT_TIME | CURLINFO_APPCONNECT_TIME)
	OPTIONAL(curl_off_t *value OUT(success), info == CURLINFO_SIZE_UPLOAD_T |
	CURLINFO_SIZE_DOWNLOAD_T | CURLINFO_SPEED_DOWNLOAD_T | CURLINFO_SPEED_UPLOAD_T |
	CURLINFO_FILETIME_T | CURLINFO_CONTENT_LENGTH_DOWNLOAD_T | CURLINFO_CONTENT_LENGTH_UPLOAD_T
	| CURLINFO_TOTAL_TIME_T | CURLINFO_NAMELOOKUP_TIME_T | CURLINFO_CONNECT_TIME_T |
	CURLINFO_PRETRANSFER_TIME_T | CURLINFO_STARTTRANSFER_TIME_T | CURLINFO_REDIRECT_TIME_T |
	CURLINFO_APPCONNECT_TIME_T | CURLINFO_RETRY_AFTER) OPTIONAL(void **value OUT(success), info
	== CURLINFO_SSL_ENGINES | CURLINFO_COOKIELIST | CURLINFO_CERTINFO | CURLINFO_TLS_SESSION |
	CURLINFO_TLS_SSL_PTR | CURLINFO_PRIVATE) OPTIONAL(curl_socket_t *value OUT(success), info
	== CURLINFO_ACTIVESOCKET)) FAILS(!= 0) ERRNO(none);
CURLHcode curl_easy_header(CURL *easy, const char *name, size_t index, unsigned int origin,
	int request, struct curl_header **hout) FAILS(!= 0) ERRNO(none);
CURL *curl_easy_init(void) FAILS(== NULL) ERRNO(none);
struct curl_header *curl_easy_nextheader(CURL *easy, unsigned int origin, int request,
	struct curl_header *prev);
const struct curl_easyoption *curl_easy_option_by_id(CURLoption id);
const struct curl_easyoption *curl_easy_option_by_name(const char *name);
const struct curl_easyoption *curl_easy_option_next(const struct curl_easyoption *prev);
CURLcode curl_easy_pause(CURL *handle, int bitmask) FAILS(!= 0) ERRNO(none);
CURLcode curl_easy_perform(CURL *curl) FAILS(!= 0) ERRNO(none);
CURLcode curl_easy_recv(CURL *curl, void *buffer OUT(success) BYTES(*n), size_t buflen,
	size_t *n OUT(success)) FAILS(!= 0) ERRNO(none);
void curl_easy_reset(CURL *curl);
CURLcode curl_easy_send(CURL *curl, const void *buffer BYTES(buflen), size_t buflen, size_t
	*n OUT(success)) FAILS(!= 0) ERRNO(none);
CURLcode curl_easy_setopt(CURL *curl, CURLoption option, ... WORDS(1) OPTIONAL(const char
	*value, option == CURLOPT_URL | CURLOPT_PROXY | CURLOPT_USERPWD | CURLOPT_PROXYUSERPWD |
	CURLOPT_RANGE | CURLOPT_REFERER | CURLOPT_FTPPORT | CURLOPT_USERAGENT | CURLOPT_COOKIE |
	CURLOPT_SSLCERT | CURLOPT_KEYPASSWD | CURLOPT_COOKIEFILE | CURLOPT_CUSTOMREQUEST |
	CURLOPT_INTERFACE | CURLOPT_KRBLEVEL | CURLOPT_CAINFO | CURLOPT_RANDOM_FILE |
	CURLOPT_EGDSOCKET | CURLOPT_COOKIEJAR | CURLOPT_SSL_CIPHER_LIST | CURLOPT_SSLCERTTYPE |
	CURLOPT_SSLKEY | CURLOPT_SSLKEYTYPE | CURLOPT_SSLENGINE | CURLOPT_CAPATH |
	CURLOPT_ACCEPT_ENCODING | CURLOPT_NETRC_FILE | CURLOPT_FTP_ACCOUNT | CURLOPT_COOKIELIST |
	CURLOPT_FTP_ALTERNATIVE_TO_USER | CURLOPT_SSH_PUBLIC_KEYFILE | CURLOPT_SSH_PRIVATE_KEYFILE
	| CURLOPT_SSH_HOST_PUBLIC_KEY_MD5 | CURLOPT_CRLFILE | CURLOPT_ISSUERCERT | CURLOPT_USERNAME
	| CURLOPT_PASSWORD | CURLOPT_PROXYUSERNAME | CURLOPT_PROXYPASSWORD | CURLOPT_NOPROXY |
	CURLOPT_SOCKS5_GSSAPI_SERVICE | CURLOPT_SSH_KNOWNHOSTS | CURLOPT_MAIL_FROM |
	CURLOPT_RTSP_SESSION_ID | CURLOPT_RTSP_STREAM_URI | CURLOPT_RTSP_TRANSPORT |
	CURLOPT_TLSAUTH_USERNAME | CURLOPT_TLSAUTH_PASSWORD | CURLOPT_TLSAUTH_TYPE |
	CURLOPT_DNS_SERVERS | CURLOPT_MAIL_AUTH | CURLOPT_XOAUTH2_BEARER | CURLOPT_DNS_INTERFACE |
	CURLOPT_DNS_LOCAL_IP4 | CURLOPT_DNS_LOCAL_IP6 | CURLOPT_LOGIN_OPTIONS |
	CURLOPT_PINNEDPUBLICKEY | CURLOPT_UNIX_SOCKET_PATH | CURLOPT_PROXY_SERVICE_NAME |
	CURLOPT_SERVICE_NAME | CURLOPT_DEFAULT_PROTOCOL | CURLOPT_PROXY_CAINFO |
	CURLOPT_PROXY_CAPATH | CURLOPT_PROXY_TLSAUTH_USERNAME | CURLOPT_PROXY_TLSAUTH_PASSWORD |
	CURLOPT_PROXY_TLSAUTH_TYPE | CURLOPT_PROXY_SSLCERT | CURLOPT_PROXY_SSLCERTTYPE |
	CURLOPT_PROXY_SSLKEY | CURLOPT_PROXY_SSLKEYTYPE | CURLOPT_PROXY_KEYPASSWD |
	CURLOPT_PROXY_SSL_CIPHER_LIST | CURLOPT_PROXY_CRLFILE | CURLOPT_PRE_PROXY |
	CURLOPT_PROXY_PINNEDPUBLICKEY | CURLOPT_ABSTRACT_UNIX_SOCKET | CURLOPT_REQUEST_TARGET |
	CURLOPT_TLS13_CIPHERS | CURLOPT_PROXY_TLS13_CIPHERS | CURLOPT_DOH_URL | CURLOPT_ALTSVC |
	CURLOPT_SASL_AUTHZID | CURLOPT_PROXY_ISSUERCERT | CURLOPT_SSL_EC_CURVES | CURLOPT_HSTS |
	CURLOPT_AWS_SIGV4 | CURLOPT_SSH_HOST_PUBLIC_KEY_SHA256 | CURLOPT_PROTOCOLS_STR |
	CURLOPT_REDIR_PROTOCOLS_STR) OPTIONAL(long value, option == CURLOPT_PORT | CURLOPT_TIMEOUT
	| CURLOPT_INFILESIZE | CURLOPT_LOW_SPEED_LIMIT | CURLOPT_LOW_SPEED_TIME |
	CURLOPT_RESUME_FROM | CURLOPT_CRLF | CURLOPT_SSLVERSION | CURLOPT_TIMECONDITION |
	CURLOPT_TIMEVALUE | CURLOPT_VERBOSE | CURLOPT_HEADER | CURLOPT_NOPROGRESS | CURLOPT_NOBODY
	| CURLOPT_FAILONERROR | CURLOPT_UPLOAD | CURLOPT_POST | CURLOPT_DIRLISTONLY |
	CURLOPT_APPEND | CURLOPT_NETRC | CURLOPT_FOLLOWLOCATION | CURLOPT_TRANSFERTEXT |
	CURLOPT_PUT | CURLOPT_AUTOREFERER | CURLOPT_PROXYPORT | CURLOPT_POSTFIELDSIZE |
	CURLOPT_HTTPPROXYTUNNEL | CURLOPT_SSL_VERIFYPEER | CURLOPT_MAXREDIRS | CURLOPT_FILETIME |
	CURLOPT_MAXCONNECTS | CURLOPT_FRESH_CONNECT | CURLOPT_FORBID_REUSE | CURLOPT_CONNECTTIMEOUT
	| CURLOPT_HTTPGET | CURLOPT_SSL_VERIFYHOST | CURLOPT_HTTP_VERSION | CURLOPT_FTP_USE_EPSV |
	CURLOPT_SSLENGINE_DEFAULT | CURLOPT_DNS_USE_GLOBAL_CACHE | CURLOPT_DNS_CACHE_TIMEOUT |
	CURLOPT_COOKIESESSION | CURLOPT_BUFFERSIZE | CURLOPT_NOSIGNAL | CURLOPT_PROXYTYPE |
	CURLOPT_UNRESTRICTED_AUTH | CURLOPT_FTP_USE_EPRT | CURLOPT_HTTPAUTH |
	CURLOPT_FTP_CREATE_MISSING_DIRS | CURLOPT_PROXYAUTH | CURLOPT_SERVER_RESPONSE_TIMEOUT |
	CURLOPT_IPRESOLVE | CURLOPT_MAXFILESIZE | CURLOPT_USE_SSL | CURLOPT_TCP_NODELAY |
	CURLOPT_FTPSSLAUTH | CURLOPT_IGNORE_CONTENT_LENGTH | CURLOPT_FTP_SKIP_PASV_IP |
	CURLOPT_FTP_FILEMETHOD | CURLOPT_LOCALPORT | CURLOPT_LOCALPORTRANGE | CURLOPT_CONNECT_ONLY
	| CURLOPT_SSL_SESSIONID_CACHE | CURLOPT_SSH_AUTH_TYPES | CURLOPT_FTP_SSL_CCC |
	CURLOPT_TIMEOUT_MS | CURLOPT_CONNECTTIMEOUT_MS | CURLOPT_HTTP_TRANSFER_DECODING |
	CURLOPT_HTTP_CONTENT_DECODING | CURLOPT_NEW_FILE_PERMS | CURLOPT_NEW_DIRECTORY_PERMS |
	CURLOPT_POSTREDIR | CURLOPT_PROXY_TRANSFER_MODE | CURLOPT_ADDRESS_SCOPE | CURLOPT_CERTINFO
	| CURLOPT_TFTP_BLKSIZE | CURLOPT_SOCKS5_GSSAPI_NEC | CURLOPT_PROTOCOLS |
	CURLOPT_REDIR_PROTOCOLS | CURLOPT_FTP_USE_PRET | CURLOPT_RTSP_REQUEST |
	CURLOPT_RTSP_CLIENT_CSEQ | CURLOPT_RTSP_SERVER_CSEQ | CURLOPT_WILDCARDMATCH |
	CURLOPT_TRANSFER_ENCODING | CURLOPT_GSSAPI_DELEGATION | CURLOPT_ACCEPTTIMEOUT_MS |
	CURLOPT_TCP_KEEPALIVE | CURLOPT_TCP_KEEPIDLE | CURLOPT_TCP_KEEPINTVL | CURLOPT_SSL_OPTIONS
	| CURLOPT_SASL_IR | CURLOPT_SSL_ENABLE_NPN | CURLOPT_SSL_ENABLE_ALPN |
	CURLOPT_EXPECT_100_TIMEOUT_MS | CURLOPT_HEADEROPT | CURLOPT_SSL_VERIFYSTATUS |
	CURLOPT_SSL_FALSESTART | CURLOPT_PATH_AS_IS | CURLOPT_PIPEWAIT | CURLOPT_STREAM_WEIGHT |
	CURLOPT_TFTP_NO_OPTIONS | CURLOPT_TCP_FASTOPEN | CURLOPT_KEEP_SENDING_ON_ERROR |
	CURLOPT_PROXY_SSL_VERIFYPEER | CURLOPT_PROXY_SSL_VERIFYHOST | CURLOPT_PROXY_SSLVERSION |
	CURLOPT_PROXY_SSL_OPTIONS | CURLOPT_SUPPRESS_CONNECT_HEADERS | CURLOPT_SOCKS5_AUTH |
	CURLOPT_SSH_COMPRESSION | CURLOPT_HAPPY_EYEBALLS_TIMEOUT_MS | CURLOPT_HAPROXYPROTOCOL |
	CURLOPT_DNS_SHUFFLE_ADDRESSES | CURLOPT_DISALLOW_USERNAME_IN_URL |
	CURLOPT_UPLOAD_BUFFERSIZE | CURLOPT_UPKEEP_INTERVAL_MS | CURLOPT_HTTP09_ALLOWED |
	CURLOPT_ALTSVC_CTRL | CURLOPT_MAXAGE_CONN | CURLOPT_MAIL_RCPT_ALLLOWFAILS |
	CURLOPT_HSTS_CTRL | CURLOPT_DOH_SSL_VERIFYPEER | CURLOPT_DOH_SSL_VERIFYHOST |
	CURLOPT_DOH_SSL_VERIFYSTATUS | CURLOPT_MAXLIFETIME_CONN | CURLOPT_MIME_OPTIONS |
	CURLOPT_WS_OPTIONS | CURLOPT_CA_CACHE_TIMEOUT | CURLOPT_QUICK_EXIT) OPTIONAL(curl_off_t
	value, option == CURLOPT_INFILESIZE_LARGE | CURLOPT_RESUME_FROM_LARGE |
	CURLOPT_MAXFILESIZE_LARGE | CURLOPT_POSTFIELDSIZE_LARGE | CURLOPT_MAX_SEND_SPEED_LARGE |
	CURLOPT_MAX_RECV_SPEED_LARGE | CURLOPT_TIMEVALUE_LARGE) OPTIONAL(void *value, option ==
	CURLOPT_WRITEDATA | CURLOPT_READDATA | CURLOPT_ERRORBUFFER | CURLOPT_WRITEFUNCTION |
	CURLOPT_READFUNCTION | CURLOPT_POSTFIELDS | CURLOPT_HTTPHEADER | CURLOPT_HTTPPOST |
	CURLOPT_QUOTE | CURLOPT_HEADERDATA | CURLOPT_STDERR | CURLOPT_POSTQUOTE |
	CURLOPT_PROGRESSFUNCTION | CURLOPT_XFERINFODATA | CURLOPT_TELNETOPTIONS |
	CURLOPT_HEADERFUNCTION | CURLOPT_PREQUOTE | CURLOPT_DEBUGFUNCTION | CURLOPT_DEBUGDATA |
	CURLOPT_SHARE | CURLOPT_PRIVATE | CURLOPT_HTTP200ALIASES | CURLOPT_SSL_CTX_FUNCTION |
	CURLOPT_SSL_CTX_DATA | CURLOPT_IOCTLFUNCTION | CURLOPT_IOCTLDATA |
	CURLOPT_CONV_FROM_NETWORK_FUNCTION | CURLOPT_CONV_TO_NETWORK_FUNCTION |
	CURLOPT_CONV_FROM_UTF8_FUNCTION | CURLOPT_SOCKOPTFUNCTION | CURLOPT_SOCKOPTDATA |
	CURLOPT_OPENSOCKETFUNCTION | CURLOPT_OPENSOCKETDATA | CURLOPT_COPYPOSTFIELDS |
	CURLOPT_SEEKFUNCTION | CURLOPT_SEEKDATA | CURLOPT_SSH_KEYFUNCTION | CURLOPT_SSH_KEYDATA |
	CURLOPT_MAIL_RCPT | CURLOPT_INTERLEAVEDATA | CURLOPT_INTERLEAVEFUNCTION |
	CURLOPT_CHUNK_BGN_FUNCTION | CURLOPT_CHUNK_END_FUNCTION | CURLOPT_FNMATCH_FUNCTION |
	CURLOPT_CHUNK_DATA | CURLOPT_FNMATCH_DATA | CURLOPT_RESOLVE | CURLOPT_CLOSESOCKETFUNCTION |
	CURLOPT_CLOSESOCKETDATA | CURLOPT_XFERINFOFUNCTION | CURLOPT_PROXYHEADER |
	CURLOPT_STREAM_DEPENDS | CURLOPT_STREAM_DEPENDS_E | CURLOPT_CONNECT_TO | CURLOPT_MIMEPOST |
	CURLOPT_RESOLVER_START_FUNCTION | CURLOPT_RESOLVER_START_DATA | CURLOPT_CURLU |
	CURLOPT_TRAILERFUNCTION | CURLOPT_TRAILERDATA | CURLOPT_SSLCERT_BLOB | CURLOPT_SSLKEY_BLOB
	| CURLOPT_PROXY_SSLCERT_BLOB | CURLOPT_PROXY_SSLKEY_BLOB | CURLOPT_ISSUERCERT_BLOB |
	CURLOPT_PROXY_ISSUERCERT_BLOB | CURLOPT_HSTSREADFUNCTION | CURLOPT_HSTSREADDATA |
	CURLOPT_HSTSWRITEFUNCTION | CURLOPT_HSTSWRITEDATA | CURLOPT_CAINFO_BLOB |
	CURLOPT_PROXY_CAINFO_BLOB | CURLOPT_PREREQFUNCTION | CURLOPT_PREREQDATA |
	CURLOPT_SSH_HOSTKEYFUNCTION | CURLOPT_SSH_HOSTKEYDATA)) FAILS(!= 0) ERRNO(none);
const char *curl_easy_strerror(CURLcode arg1);
char *curl_easy_unescape(CURL *handle, const char *string, int length,
			 int *outlength OUT(result != NULL));
CURLcode curl_easy_upkeep(CURL *curl) FAILS(!= 0) ERRNO(none);
char *curl_escape(const char *string, int length);
CURLFORMcode curl_formadd(struct curl_httppost **httppost, struct curl_httppost **last_post,
	...) FAILS(!= 0) ERRNO(none);
void curl_formfree(struct curl_httppost *form);
int curl_formget(struct curl_httppost *form, void *arg, curl_formget_callback append);
void curl_free(void *p);
time_t curl_getdate(const char *p, const time_t *unused);
char *curl_getenv(const char *variable);
void curl_global_cleanup(void);
CURLcode curl_global_init(long flags FLAGS(curl_global)) FAILS(!= 0) ERRNO(none);
CURLcode curl_global_init_mem(long flags, curl_malloc_callback m, curl_free_callback f,
	curl_realloc_callback r, curl_strdup_callback s, curl_calloc_callback c) FAILS(!= 0)
	ERRNO(none);
CURLsslset curl_global_sslset(curl_sslbackend id, const char *name, const curl_ssl_backend
	***avail) FAILS(!= 0) ERRNO(none);
curl_mimepart *curl_mime_addpart(curl_mime *mime);
CURLcode curl_mime_data(curl_mimepart *part, const char *data, size_t datasize) FAILS(!= 0)
	ERRNO(none);
CURLcode curl_mime_data_cb(curl_mimepart *part, curl_off_t datasize, curl_read_callback
	readfunc, curl_seek_callback seekfunc, curl_free_callback freefunc, void *arg) FAILS(!= 0)
	ERRNO(none);
CURLcode curl_mime_encoder(curl_mimepart *part, const char *encoding) FAILS(!= 0) ERRNO(none);
CURLcode curl_mime_filedata(curl_mimepart *part, const char *filename) FAILS(!= 0) ERRNO(none);
CURLcode curl_mime_filename(curl_mimepart *part, const char *filename) FAILS(!= 0) ERRNO(none);
void curl_mime_free(curl_mime *mime);
CURLcode curl_mime_headers(curl_mimepart *part, struct curl_slist *headers, int
	take_ownership) FAILS(!= 0) ERRNO(none);
curl_mime *curl_mime_init(CURL *easy);
CURLcode curl_mime_name(curl_mimepart *part, const char *name) FAILS(!= 0) ERRNO(none);
CURLcode curl_mime_subparts(curl_mimepart *part, curl_mime *subparts) FAILS(!= 0) ERRNO(none);
CURLcode curl_mime_type(curl_mimepart *part, const char *mimetype) FAILS(!= 0) ERRNO(none);
char *curl_maprintf(const char *format FORMAT(printf) FOLLOW, ...);
int curl_mfprintf(FILE *fd, const char *format FORMAT(printf) FOLLOW, ...);
int curl_mprintf(const char *format FORMAT(printf) FOLLOW, ...);
int curl_msnprintf(char *buffer OUT(maxlength > 0) LIMIT(maxlength), size_t maxlength,
		   const char *format FORMAT(printf) FOLLOW, ...);
int curl_msprintf(char *buffer OUT(always), const char *format FORMAT(printf) FOLLOW, ...);
char *curl_mvaprintf(const char *format FORMAT(printf) FOLLOW, va_list args);
int curl_mvfprintf(FILE *fd, const char *format FORMAT(printf) FOLLOW, va_list args);
int curl_mvprintf(const char *format FORMAT(printf) FOLLOW, va_list args);
int curl_mvsnprintf(char *buffer OUT(maxlength > 0) LIMIT(maxlength), size_t maxlength,
		    const char *format FORMAT(printf) FOLLOW, va_list args);
int curl_mvsprintf(char *buffer OUT(always), const char *format FORMAT(printf) FOLLOW,
	va_list args);
CURLMcode curl_multi_add_handle(CURLM *multi_handle, CURL *curl_handle) FAILS(!= 0) ERRNO(none);
CURLMcode curl_multi_assign(CURLM *multi_handle, curl_socket_t sockfd, void *sockp) FAILS(!=
	0) ERRNO(none);
CURLMcode curl_multi_cleanup(CURLM *multi_handle) FAILS(!= 0) ERRNO(none);
CURLMcode curl_multi_fdset(CURLM *multi_handle, fd_set *read_fd_set, fd_set *write_fd_set,
	fd_set *exc_fd_set, int *max_fd) FAILS(!= 0) ERRNO(none);
CURLMsg *curl_multi_info_read(CURLM *multi_handle, int *msgs_in_queue);
CURLM *curl_multi_init(void);
CURLMcode curl_multi_perform(CURLM *multi_handle, int *running_handles OUT(success))
	FAILS(!= 0) ERRNO(none);
CURLMcode curl_multi_poll(CURLM *multi_handle, struct curl_waitfd *extra_fds, unsigned int
	extra_nfds, int timeout_ms, int *ret) FAILS(!= 0) ERRNO(none);
CURLMcode curl_multi_remove_handle(CURLM *multi_handle, CURL *curl_handle) FAILS(!= 0) ERRNO(none);
CURLMcode curl_multi_setopt(CURLM *multi_handle, CURLMoption option, ... WORDS(1)
	OPTIONAL(long value, option == CURLMOPT_PIPELINING | CURLMOPT_MAXCONNECTS |
	CURLMOPT_MAX_HOST_CONNECTIONS | CURLMOPT_MAX_PIPELINE_LENGTH |
	CURLMOPT_MAX_TOTAL_CONNECTIONS | CURLMOPT_MAX_CONCURRENT_STREAMS) OPTIONAL(curl_off_t
	value, option == CURLMOPT_CONTENT_LENGTH_PENALTY_SIZE | CURLMOPT_CHUNK_LENGTH_PENALTY_SIZE)
	OPTIONAL(void *value, option == CURLMOPT_SOCKETFUNCTION | CURLMOPT_SOCKETDATA |
	CURLMOPT_TIMERFUNCTION | CURLMOPT_TIMERDATA | CURLMOPT_PIPELINING_SITE_BL |
	CURLMOPT_PIPELINING_SERVER_BL | CURLMOPT_PUSHFUNCTION | CURLMOPT_PUSHDATA)) FAILS(!= 0)
	ERRNO(none);
CURLMcode curl_multi_socket(CURLM *multi_handle, curl_socket_t s, int *running_handles)
	FAILS(!= 0) ERRNO(none);
CURLMcode curl_multi_socket_action(CURLM *multi_handle, curl_socket_t s, int ev_bitmask, int
	*running_handles) FAILS(!= 0) ERRNO(none);
CURLMcode curl_multi_socket_all(CURLM *multi_handle, int *running_handles) FAILS(!= 0) ERRNO(none);
const char *curl_multi_strerror(CURLMcode arg1);
CURLMcode curl_multi_timeout(CURLM *multi_handle, long *milliseconds) FAILS(!= 0) ERRNO(none);
CURLMcode curl_multi_wait(CURLM *multi_handle, struct curl_waitfd *extra_fds, unsigned int
	extra_nfds, int timeout_ms, int *ret) FAILS(!= 0) ERRNO(none);
CURLMcode curl_multi_wakeup(CURLM *multi_handle) FAILS(!= 0) ERRNO(none);
char *curl_pushheader_byname(struct curl_pushheaders *h, const char *name);
char *curl_pushheader_bynum(struct curl_pushheaders *h, size_t num);
CURLSHcode curl_share_cleanup(CURLSH *share) FAILS(!= 0) ERRNO(none);
CURLSH *curl_share_init(void);
CURLSHcode curl_share_setopt(CURLSH *share, CURLSHoption option, ...) FAILS(!= 0) ERRNO(none);
const char *curl_share_strerror(CURLSHcode arg1);
struct curl_slist *curl_slist_append(struct curl_slist *list, const char *data);
void curl_slist_free_all(struct curl_slist *list);
int curl_strequal(const char *s1, const char *s2);
int curl_strnequal(const char *s1, const char *s2, size_t n);
char *curl_unescape(const char *string, int length);
CURLU *curl_url(void);
void curl_url_cleanup(CURLU *handle);
CURLU *curl_url_dup(CURLU *in);
CURLUcode curl_url_get(CURLU *handle, CURLUPart what, char **part, unsigned int flags)
	FAILS(!= 0) ERRNO(none);
CURLUcode curl_url_set(CURLU *handle, CURLUPart what, const char *part, unsigned int flags)
	FAILS(!= 0) ERRNO(none);
const char *curl_url_strerror(CURLUcode arg1);
char *curl_version(void);
curl_version_info_data *curl_version_info(CURLversion arg1);
struct curl_ws_frame *curl_ws_meta(CURL *curl);
CURLcode curl_ws_recv(CURL *curl, void *buffer, size_t buflen, size_t *recv, struct
	curl_ws_frame **metap) FAILS(!= 0) ERRNO(none);
CURLcode curl_ws_send(CURL *curl, const void *buffer, size_t buflen, size_t *sent,
	curl_off_t framesize, unsigned int sendflags) FAILS(!= 0) ERRNO(none);
