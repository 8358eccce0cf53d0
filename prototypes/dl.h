// SPDX-License-Identifier: Apache-2.0
// The loader. Those that look at their caller get the entry record alone
// (special.txt), so that their results are not seen.

void *dlopen(const char *path, int mode FLAGS(dlopen)) FAILS(== NULL) ERRNO(none);
void *dlmopen(long list ENUM(link_map_list), const char *path, int mode FLAGS(dlopen))
	FAILS(== NULL) ERRNO(none);
void *__libc_dlopen_mode(const char *path FOLLOW, int mode HEX) FAILS(== NULL) ERRNO(none);
int dlclose(void *handle) FAILS(!= 0) ERRNO(none);
void *dlsym(void *handle ENUM(dl_handle), const char *name FOLLOW);
void *dlvsym(void *handle ENUM(dl_handle), const char *name FOLLOW, const char *version FOLLOW);
char *dlerror(void);
int dladdr(const void *addr, Dl_info *info) FAILS(== 0) ERRNO(none);
int dladdr1(const void *addr, Dl_info *info, void **extra, int flags) FAILS(== 0) ERRNO(none);
int dlinfo(void *handle, int request, void *info) FAILS(!= 0) ERRNO(none);
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data);
int _dl_find_object(void *addr, struct dl_find_object *found) FAILS(< 0) ERRNO(none);
void *__tls_get_addr(void *index);
