// SPDX-License-Identifier: Apache-2.0
// target: ldflags=-pthread
// Executes cat from a second thread, which takes the first one's place.
#include <pthread.h>
#include <unistd.h>

static void *in_thread(void *argument)
{
	execl("/bin/cat", "cat", (char *)0);
	return argument;
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, in_thread, 0);
	pthread_join(thread, 0);
	return 1;
}
