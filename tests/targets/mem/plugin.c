// SPDX-License-Identifier: Apache-2.0
// A library that comes and goes, with slots of many functions; and a way to have it do so, for traced.py.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/** Read bytes from the beginning of a file; how many. Nothing else is called. */
int once(int file)
{
	char bytes[8];

	if (file < 0) {
		void *block = malloc(10);

		block = realloc(block, 20);
		free(block);
		block = calloc(1, 2);
		free(block);
		return open("", O_RDONLY) + openat(file, "", 0) + creat("", 0) + dup(file) +
		       dup2(file, file) + close(file) + pipe(NULL) + fsync(file) +
		       poll(NULL, 0, 0) + socket(-1, 0, 0) + connect(file, NULL, 0) +
		       (int)(read(file, bytes, 1) + readv(file, NULL, 0) + write(file, bytes, 1) +
			     writev(file, NULL, 0) + pwrite(file, bytes, 1, 0) +
			     recv(file, bytes, 1, 0) + send(file, bytes, 1, 0) +
			     recvmsg(file, NULL, 0) + sendmsg(file, NULL, 0));
	}
	return (int)pread(file, bytes, sizeof(bytes), 0);
}

/** Load the library at @path, call it and let go of it, @times; in how many of them it read 8 bytes. */
int come_and_go(const char *path, int times)
{
	int file = open("/dev/zero", O_RDONLY), done = 0;

	for (int i = 0; i < times; i++) {
		void *handle = dlopen(path, i % 2 ? RTLD_NOW : RTLD_LAZY);
		int (*function)(int) = handle ? (int (*)(int))dlsym(handle, "once") : NULL;

		done += function && function(file) == 8;
		if (handle)
			dlclose(handle);
	}
	close(file);
	return done;
}
