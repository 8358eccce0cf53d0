// SPDX-License-Identifier: Apache-2.0
// Finds what is needed to read threads of a Ruby interpreter: its functions, the structs of its
// version, a thread's execution context, and the state of its garbage collector.

#include "base/arch.h"
#include "image/image.h"
#include "image/lookup.h"
#include "vm/rubyreading.h"
#include "vm/rubystack.h"

enum {
	// most bytes between a static thread-local variable and the thread pointer
	STATIC_TLS_MAX = 1 << 14,
	CODE_MAX = 64, // bytes of a function that are searched
};

// Versions whose structs are known.
static const struct sosc_ruby_layout layouts[] = {
	{207, 56, 120, 8, false}, {300, 56, 120, 8, false}, {301, 64, 120, 12, false},
	{302, 64, 112, 12, true}, {303, 56, 112, 12, true}, {304, 56, 0, 0, true},
};

static bool look_up(const struct sosc_loaded *image, void *to, const char *name)
{
	uint64_t addr = sosc_function_of(image, name);

	memcpy(to, &addr, sizeof(addr));
	return addr != 0;
}

#define NEEDED(name) look_up(image, &way->name, #name)

static bool has_functions(struct sosc_ruby_way *way, const struct sosc_loaded *image)
{
	return NEEDED(ruby_native_thread_p) && NEEDED(ruby_thread_has_gvl_p) &&
	       NEEDED(rb_during_gc) && NEEDED(rb_profile_frames) && NEEDED(rb_profile_frame_path) &&
	       NEEDED(rb_profile_frame_label) && NEEDED(rb_string_value_ptr) &&
	       NEEDED(rb_iseq_line_no) && NEEDED(rb_cObject) && NEEDED(ruby_version);
}

// A thread-local variable of an image that was loaded at the program's start has the same offset in
// each thread, in memory that a thread has from its first instruction on. For other variables, a
// function would have to be called that may allocate memory.
static bool find_context(struct sosc_ruby_way *way, const struct sosc_loaded *image)
{
	void *(*get_addr)(uint64_t index) = NULL;
	uint64_t index, tp = sosc_thread_pointer();

	if (NEEDED(ruby_current_execution_context_ptr))
		return true;
	if (!sosc_first_tls((uint64_t)way->rb_profile_frames, CODE_MAX, &index, &way->context))
		return false;
	if (!index)
		return way->context < 0 && way->context >= -STATIC_TLS_MAX;
	for (uint32_t i = 0; i < sosc_loaded_count && !get_addr; i++)
		if (sosc_loaded[i].map && sosc_loaded[i].ns == image->ns)
			get_addr = (void *)sosc_function_of(&sosc_loaded[i], "__tls_get_addr");
	if (!get_addr)
		return false;
	way->context = (int64_t)((uint64_t)get_addr(index) - tp);
	return way->context < 0 && way->context >= -STATIC_TLS_MAX;
}

/**
 * Find everything that is needed to read the interpreter in @image. Return false if the interpreter
 * is not initialised yet, or if it is not supported (*why). Code in the middle of a walk may use
 * @way meanwhile. @tid: id of this thread.
 */
bool sosc_ruby_find_way(struct sosc_ruby_way *way, const struct sosc_loaded *image, uint32_t tid,
			enum sosc_ruby_frames *why)
{
	const struct sosc_ruby_layout *at = NULL;
	uint32_t version;

	*why = has_functions(way, image) ? SOSC_RUBY_FINE : SOSC_RUBY_NO_FUNCTION;
	if (*why || !*way->rb_cObject || !way->ruby_native_thread_p())
		return false;
	version = sosc_ruby_version(way->ruby_version);
	for (uint32_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		if (layouts[i].version == version)
			at = &layouts[i];
	if (!at)
		*why = SOSC_RUBY_NO_LAYOUT;
	else if (!find_context(way, image))
		*why = SOSC_RUBY_NO_CONTEXT;
	if (*why)
		return false;
	way->at = at;
	// Without this, each stack is read anew every time.
	way->collector =
		NEEDED(rb_gc_count) ?
			(const void *)sosc_last_loaded((uint64_t)way->rb_during_gc, CODE_MAX, tid) :
			NULL;
	return true;
}

/** Return whether an image is Ruby's library, or a program that contains it. */
bool sosc_ruby_is_in(const struct sosc_loaded *image)
{
	return sosc_function_of(image, "rb_tracepoint_new") &&
	       sosc_function_of(image, "ruby_native_thread_p");
}

/** Return a version as a number: 301 for "3.1.2". */
uint32_t sosc_ruby_version(const char *version)
{
	uint32_t numbers[2] = {0, 0};

	for (int i = 0; i < 2; i++, version++)
		for (; *version >= '0' && *version <= '9'; version++)
			numbers[i] = numbers[i] * 10 + (uint32_t)(*version - '0');
	return numbers[0] * 100 + numbers[1];
}
