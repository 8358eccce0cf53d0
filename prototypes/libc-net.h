// SPDX-License-Identifier: Apache-2.0
// libc: sockets, waiting for descriptors, names of hosts and services.

// Sockets.
int socket(int domain ENUM(address_family), int type FLAGS(socket_type),
	   int protocol ENUM(socket_protocol, domain)) FAILS(< 0);
int socketpair(int domain ENUM(address_family), int type FLAGS(socket_type),
	       int protocol ENUM(socket_protocol, domain),
	       int fds[2] OUT(success)) FAILS(< 0);
int bind(int fd, const struct sockaddr *address IN BYTES(size), socklen_t size) FAILS(< 0);
int connect(int fd, const struct sockaddr *address IN BYTES(size), socklen_t size)
	FAILS(< 0) ALSO(__connect);
int listen(int fd, int backlog) FAILS(< 0);
int accept(int fd, struct sockaddr *address OUT(success) BYTES(*size),
	   socklen_t *size IN OUT(success, address != NULL)) FAILS(< 0);
int accept4(int fd, struct sockaddr *address OUT(success) BYTES(*size),
	    socklen_t *size IN OUT(success, address != NULL), int flags FLAGS(accept)) FAILS(< 0);
int getsockname(int fd, struct sockaddr *address OUT(success) BYTES(*size),
		socklen_t *size IN OUT(success, address != NULL)) FAILS(< 0);
int getpeername(int fd, struct sockaddr *address OUT(success) BYTES(*size),
		socklen_t *size IN OUT(success, address != NULL)) FAILS(< 0);
int shutdown(int fd, int how ENUM(shutdown)) FAILS(< 0);
ssize_t send(int fd, const void *buffer BYTES(size), size_t size, int flags FLAGS(message))
	FAILS(< 0) ALSO(__send);
ssize_t sendto(int fd, const void *buffer BYTES(size), size_t size, int flags FLAGS(message),
	       const struct sockaddr *address IN BYTES(address_size), socklen_t address_size)
	FAILS(< 0);
ssize_t sendmsg(int fd, const struct msghdr *message, int flags FLAGS(message)) FAILS(< 0);
int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags FLAGS(message))
	FAILS(< 0);
ssize_t recv(int fd, void *buffer OUT(success) BYTES(min(result, size)), size_t size,
	     int flags FLAGS(message)) FAILS(< 0);
ssize_t recvfrom(int fd, void *buffer OUT(success) BYTES(min(result, size)), size_t size,
		 int flags FLAGS(message),
		 struct sockaddr *address OUT(success) BYTES(*address_size),
		 socklen_t *address_size IN OUT(success, address != NULL)) FAILS(< 0);
ssize_t recvmsg(int fd, struct msghdr *message, int flags FLAGS(message)) FAILS(< 0);
int setsockopt(int fd, int level ENUM(socket_level), int option ENUM(socket_option, level),
	       const void *value BYTES(size)
	       AS(const struct linger *value IN, level == SOL_SOCKET && option == SO_LINGER)
	       AS(const struct timeval *value IN,
		  level == SOL_SOCKET && option == SO_RCVTIMEO | SO_SNDTIMEO)
	       AS(const struct ip_mreq *value IN,
		  level == IPPROTO_IP && option == IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP)
	       AS(const struct in_addr *value IN,
		  level == IPPROTO_IP && option == IP_MULTICAST_IF)
	       AS(const int *value IN, size == 4),
	       socklen_t size) FAILS(< 0);
int getsockopt(int fd, int level ENUM(socket_level), int option ENUM(socket_option, level),
	       void *value OUT(success) BYTES(*size)
	       AS(struct linger *value OUT(success), level == SOL_SOCKET && option == SO_LINGER)
	       AS(struct timeval *value OUT(success),
		  level == SOL_SOCKET && option == SO_RCVTIMEO | SO_SNDTIMEO)
	       AS(struct ucred *value OUT(success), level == SOL_SOCKET && option == SO_PEERCRED)
	       AS(int *value OUT(success), level == SOL_SOCKET && option == SO_DEBUG |
		  SO_REUSEADDR | SO_TYPE | SO_ERROR | SO_DONTROUTE | SO_BROADCAST | SO_SNDBUF |
		  SO_RCVBUF | SO_KEEPALIVE | SO_PRIORITY | SO_REUSEPORT | SO_RCVLOWAT |
		  SO_SNDLOWAT | SO_ACCEPTCONN | SO_MARK | SO_PROTOCOL | SO_DOMAIN)
	       AS(int *value OUT(success), level == IPPROTO_TCP && option == TCP_NODELAY |
		  TCP_MAXSEG | TCP_CORK | TCP_KEEPIDLE | TCP_KEEPINTVL | TCP_KEEPCNT |
		  TCP_QUICKACK | TCP_USER_TIMEOUT),
	       socklen_t *size IN OUT(success)) FAILS(< 0);

// Waiting.
int poll(struct pollfd *fds IN ELEMENTS(count), nfds_t count, int limit) FAILS(< 0)
	ALSO(__poll);
int ppoll(struct pollfd *fds IN ELEMENTS(count), nfds_t count, const struct timespec *limit IN,
	  const sigset_t *mask IN) FAILS(< 0);
int select(int count, fd_set *read IN OUT(success) DESCRIPTORS(count),
	   fd_set *write IN OUT(success) DESCRIPTORS(count),
	   fd_set *except IN OUT(success) DESCRIPTORS(count), struct timeval *limit IN) FAILS(< 0) ALSO(__select);
int pselect(int count, fd_set *read IN OUT(success) DESCRIPTORS(count),
	    fd_set *write IN OUT(success) DESCRIPTORS(count),
	    fd_set *except IN OUT(success) DESCRIPTORS(count), const struct timespec *limit IN,
	    const sigset_t *mask IN) FAILS(< 0);
long __fdelt_chk(long fd);
int epoll_create(int size) FAILS(< 0);
int epoll_create1(int flags FLAGS(epoll_create)) FAILS(< 0);
int epoll_ctl(int epoll, int operation ENUM(epoll), int fd,
	      struct epoll_event *event IN) FAILS(< 0);
int epoll_wait(int epoll, struct epoll_event *events OUT(success) ELEMENTS(result), int count,
	       int limit) FAILS(< 0);
int epoll_pwait(int epoll, struct epoll_event *events OUT(success) ELEMENTS(result), int count,
		int limit, const sigset_t *mask IN) FAILS(< 0);
int eventfd(unsigned int value, int flags FLAGS(eventfd)) FAILS(< 0);

// Hosts, services, addresses.
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **found OUT(success)) ENUM(address_error) FAILS(!= 0) ERRNO(none);
void freeaddrinfo(struct addrinfo *found);
int getnameinfo(const struct sockaddr *address IN BYTES(size), socklen_t size, char *host,
		socklen_t host_size, char *service, socklen_t service_size, int flags HEX)
	ENUM(address_error) FAILS(!= 0) ERRNO(none);
const char *gai_strerror(int error ENUM(address_error));
struct hostent *gethostbyname(const char *name FOLLOW);
struct hostent *gethostbyname2(const char *name FOLLOW, int family ENUM(address_family));
struct hostent *gethostbyaddr(const void *address, socklen_t size, int family ENUM(address_family));
struct servent *getservbyname(const char *name FOLLOW, const char *protocol);
struct servent *getservbyport(int port, const char *protocol);
struct protoent *getprotobyname(const char *name FOLLOW);
int *__h_errno_location(void);
const char *hstrerror(int error);
int getifaddrs(struct ifaddrs **found OUT(success)) FAILS(< 0);
void freeifaddrs(struct ifaddrs *found);
unsigned int if_nametoindex(const char *name FOLLOW) FAILS(== 0);
char *if_indextoname(unsigned int index, char *name) FAILS(== NULL);
in_addr_t inet_addr(const char *s FOLLOW);
int inet_aton(const char *s FOLLOW, struct in_addr *address);
char *inet_ntoa(struct in_addr address);
int inet_pton(int family ENUM(address_family), const char *s, void *address) FAILS(< 0);
const char *inet_ntop(int family ENUM(address_family), const void *address, char *s,
		      socklen_t size) FAILS(== NULL);
uint16_t htons(uint16_t n);
uint16_t ntohs(uint16_t n);
uint32_t htonl(uint32_t n);
uint32_t ntohl(uint32_t n);
int __res_init(void) FAILS(< 0) ERRNO(changed);
