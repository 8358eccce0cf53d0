// SPDX-License-Identifier: Apache-2.0
// Calls functions whose arguments are what another argument says, and says of each call what it
// passed and got.
#include <curl/curl.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static const char *const failed(int result)
{
	return result ? "CURLE_UNKNOWN_OPTION" : "CURLE_OK";
}

static void processes(void)
{
	char name[16] = "";
	int value = 0;

	printf("prctl(PR_SET_NAME, \"chosen\") = %d\n", prctl(PR_SET_NAME, "chosen"));
	value = prctl(PR_GET_NAME, name);
	printf("prctl(PR_GET_NAME, \"%s\") = %d\n", name, value);
	printf("prctl(PR_SET_PDEATHSIG, SIGTERM) = %d\n", prctl(PR_SET_PDEATHSIG, 15));
	int result = prctl(PR_GET_PDEATHSIG, &value);
	printf("prctl(PR_GET_PDEATHSIG, [%d]) = %d\n", value, result);
	printf("prctl(PR_GET_DUMPABLE) = %d\n", prctl(PR_GET_DUMPABLE));
	printf("mallopt(M_MMAP_THRESHOLD, 65536) = %d\n", mallopt(M_MMAP_THRESHOLD, 65536));
	int set = semget(IPC_PRIVATE, 1, 0600);
	printf("semctl(%d, 0, SETVAL, 7) = %d\n", set, semctl(set, 0, SETVAL, 7));
	printf("semctl(%d, 0, GETVAL) = %d\n", set, semctl(set, 0, GETVAL));
	printf("semctl(%d, 0, IPC_RMID) = %d\n", set, semctl(set, 0, IPC_RMID));
}

static void files(void)
{
	int fds[2], count = -1, on = 1;
	struct flock lock = {F_WRLCK, SEEK_SET, 3, 4, 0};
	FILE *file = tmpfile();
	int fd = fileno(file);

	pipe(fds);
	write(fds[1], "four", 4);
	int result = ioctl(fds[0], FIONREAD, &count);
	printf("ioctl(%d, FIONREAD, [%d]) = %d\n", fds[0], count, result);
	printf("ioctl(%d, FIONBIO, [1]) = %d\n", fds[0], ioctl(fds[0], FIONBIO, &on));
	result = fcntl(fd, F_SETLK, &lock);
	printf("fcntl(%d, F_SETLK, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=3, l_len=4, "
	       "l_pid=0}) = %d\n",
	       fd, result);
	result = fcntl(fd, F_GETLK, &lock);
	printf("fcntl(%d, F_GETLK, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=3, l_len=4, "
	       "l_pid=0} => {l_type=F_UNLCK, l_whence=SEEK_SET, l_start=3, l_len=4, l_pid=0}) = %d\n",
	       fd, result);
	printf("fcntl(%d, F_GETFD) = %d\n", fd, fcntl(fd, F_GETFD));
}

static void sockets(void)
{
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0), error = -1;
	struct linger linger = {1, 30};
	struct timeval limit = {2, 500};
	socklen_t size = sizeof(error);

	int result = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	printf("setsockopt(%d, SOL_SOCKET, SO_REUSEADDR, [1], 4) = %d\n", fd, result);
	result = setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	printf("setsockopt(%d, IPPROTO_TCP, TCP_NODELAY, [1], 4) = %d\n", fd,
	       setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	result = setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	printf("setsockopt(%d, SOL_SOCKET, SO_LINGER, {l_onoff=true, l_linger=30}, 8) = %d\n", fd,
	       result);
	result = setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	printf("setsockopt(%d, SOL_SOCKET, SO_RCVTIMEO, {tv_sec=2, tv_usec=500}, 16) = %d\n", fd,
	       result);
	result = getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	printf("getsockopt(%d, SOL_SOCKET, SO_ERROR, [%d], [4]) = %d\n", fd, error, result);
	size = 100;
	result = getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &size);
	printf("getsockopt(%d, SOL_SOCKET, SO_LINGER, {l_onoff=true, l_linger=%d}, [100] => [8]) "
	       "= %d\n",
	       fd, linger.l_linger, result);
}

static void libraries(void)
{
	CURL *curl = curl_easy_init();
	char *url = NULL;
	long code = -1;
	double spent = -1;

	printf("curl_easy_setopt(%p, CURLOPT_URL, \"http://localhost/x\") = %s\n", curl,
	       failed(curl_easy_setopt(curl, CURLOPT_URL, "http://localhost/x")));
	printf("curl_easy_setopt(%p, CURLOPT_TIMEOUT, 30) = %s\n", curl,
	       failed(curl_easy_setopt(curl, CURLOPT_TIMEOUT, 30l)));
	printf("curl_easy_setopt(%p, CURLOPT_USERAGENT, nil) = %s\n", curl,
	       failed(curl_easy_setopt(curl, CURLOPT_USERAGENT, NULL)));
	printf("curl_easy_setopt(%p, CURLOPT_MAXFILESIZE_LARGE, 5000000000) = %s\n", curl,
	       failed(curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)5000000000)));
	int result = curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
	printf("curl_easy_getinfo(%p, CURLINFO_RESPONSE_CODE, [%ld]) = %s\n", curl, code,
	       failed(result));
	result = curl_easy_getinfo(curl, CURLINFO_TOTAL_TIME, &spent);
	printf("curl_easy_getinfo(%p, CURLINFO_TOTAL_TIME, [%g]) = %s\n", curl, spent,
	       failed(result));
	result = curl_easy_getinfo(curl, CURLINFO_EFFECTIVE_URL, &url);
	printf("curl_easy_getinfo(%p, CURLINFO_EFFECTIVE_URL, [\"%s\"]) = %s\n", curl, url,
	       failed(result));
	curl_easy_cleanup(curl);

	printf("sqlite3_config(SQLITE_CONFIG_URI, 1) = SQLITE_%s\n",
	       sqlite3_config(SQLITE_CONFIG_URI, 1) ? "MISUSE" : "OK");
	printf("sqlite3_config(SQLITE_CONFIG_MMAP_SIZE, 4096, 8192) = SQLITE_%s\n",
	       sqlite3_config(SQLITE_CONFIG_MMAP_SIZE, 4096ll, 8192ll) ? "MISUSE" : "OK");
	sqlite3 *db;
	sqlite3_open(":memory:", &db);
	int is = -1;
	result = sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, &is);
	printf("sqlite3_db_config(%p, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, [%d]) = SQLITE_%s\n", db,
	       is, result ? "MISUSE" : "OK");

	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	unsigned char tag[17] = "", key[32] = "";
	int size;
	EVP_EncryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, key);
	EVP_EncryptFinal_ex(ctx, tag, &size);
	EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, 16, tag);
	EVP_DecryptInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, key);
	printf("EVP_CIPHER_CTX_ctrl(%p, EVP_CTRL_AEAD_SET_TAG, 5, \"hello\") = %d\n", ctx,
	       EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, 5, "hello"));
}

int main(void)
{
	processes();
	files();
	sockets();
	libraries();
	return 0;
}
