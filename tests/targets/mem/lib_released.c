// SPDX-License-Identifier: Apache-2.0
// An extension of Ruby that allocates without the GVL, and keeps what it has. Ruby's headers need not
// be there.
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long VALUE;

VALUE rb_define_module(const char *name);
void rb_define_module_function(VALUE module, const char *name, VALUE (*function)(), int count);
long rb_num2long(VALUE number);
void *rb_thread_call_without_gvl(void *(*function)(void *), void *data, void (*stop)(void *),
				 void *stop_data);
__attribute__((weak)) void rb_ext_ractor_safe(bool is_safe);

struct order {
	long size, count;
};

static struct order of_handler;

static void *take_blocks(void *data)
{
	const struct order *order = data;

	for (long i = 0; i < order->count; i++)
		*(void *volatile *)malloc((size_t)order->size) = NULL;
	return NULL;
}

static void *take_in_thread(void *data)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, take_blocks, data) || pthread_join(thread, NULL))
		abort();
	return NULL;
}

static void *take_in_child(void *data)
{
	pid_t child = fork();
	int status = 0;

	if (!child) {
		take_blocks(data);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		abort();
	return NULL;
}

static void handle(int signal)
{
	(void)signal;
	take_blocks(&of_handler);
}

// On a stack that has room for little else.
static void *take_in_handler(void *data)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK}, kept;
	stack_t small = {.ss_sp = malloc(8192), .ss_size = 8192}, was;

	of_handler = *(struct order *)data;
	if (sigaltstack(&small, &was) || sigaction(SIGWINCH, &action, &kept) || raise(SIGWINCH) ||
	    sigaction(SIGWINCH, &kept, NULL) || sigaltstack(&was, NULL))
		abort();
	return NULL;
}

static VALUE release(void *(*function)(void *), VALUE size, VALUE count)
{
	struct order order = {rb_num2long(size), rb_num2long(count)};

	(void)rb_thread_call_without_gvl(function, &order, NULL, NULL);
	return size;
}

static VALUE take(VALUE self, VALUE size, VALUE count)
{
	(void)self;
	return release(take_blocks, size, count);
}

static VALUE in_thread(VALUE self, VALUE size, VALUE count)
{
	(void)self;
	return release(take_in_thread, size, count);
}

static VALUE in_child(VALUE self, VALUE size, VALUE count)
{
	(void)self;
	return release(take_in_child, size, count);
}

static VALUE in_handler(VALUE self, VALUE size, VALUE count)
{
	(void)self;
	return release(take_in_handler, size, count);
}

void Init_released(void)
{
	VALUE module;

	if (rb_ext_ractor_safe)
		rb_ext_ractor_safe(true);
	module = rb_define_module("Released");
	rb_define_module_function(module, "take", take, 2);
	rb_define_module_function(module, "in_thread", in_thread, 2);
	rb_define_module_function(module, "in_child", in_child, 2);
	rb_define_module_function(module, "in_handler", in_handler, 2);
}
