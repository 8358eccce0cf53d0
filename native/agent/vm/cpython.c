// SPDX-License-Identifier: Apache-2.0
// CPython's internals: which version an image is, and the texts of code objects.

#include "vm/cpython.h"
#include "image/lookup.h"

enum {
	MINOR_OLDEST = 9,
	SIZE = 16, // ob_size of a bytes object
	STATE_SHIFT = 2, // lower bits of a str's state that do not describe its characters
	STATE_LATER = 14, // additional ones in early builds of 3.14
	STATE_KIND = 7,
	STATE_COMPACT = 1 << 3,
	STATE_ASCII = 1 << 4,
};

/**
 * Return whether an image is an interpreter's library, or a program that contains an interpreter.
 */
bool sosc_python_is_in(const struct sosc_loaded *image)
{
	return sosc_function_of(image, "Py_IsInitialized") && sosc_function_of(image, "PyList_New");
}

static uint32_t minor_of(const char *version) // "3.11.2 (main, …"
{
	uint32_t minor = 0;

	if (version[0] != '3' || version[1] != '.')
		return 0;
	for (version += 2; *version >= '0' && *version <= '9'; version++)
		minor = minor * 10 + (uint32_t)(*version - '0');
	return minor;
}

static bool says(const char *text, const char *word)
{
	for (; *text; text++) {
		uint32_t i = 0;

		while (word[i] && text[i] == word[i])
			i++;
		if (!word[i])
			return true;
	}
	return false;
}

/** Return whether a version string of Py_GetVersion belongs to a build without a GIL. */
bool sosc_python_is_free_threaded(const char *version)
{
	return says(version, "free-threading");
}

/** Return the layout of a version with a GIL, or NULL if it is unknown. */
const struct sosc_python *sosc_python_known(const char *version, const struct sosc_python *layouts,
					    uint32_t count)
{
	uint32_t minor = minor_of(version);

	for (uint32_t i = 0; i < count && !sosc_python_is_free_threaded(version); i++)
		if (layouts[i].minor == minor && minor >= MINOR_OLDEST)
			return &layouts[i];
	return NULL;
}

static struct sosc_text text_of(const struct sosc_python *at, uint64_t object)
{
	uint32_t state = *(const uint32_t *)(object + at->text_state) >> STATE_SHIFT;
	uint32_t width;
	uint64_t length = sosc_word_at(object + at->text_length);

	if (!(state & STATE_KIND)) // the kind is never 0, so this is an early 3.14
		state >>= STATE_LATER;
	width = state & STATE_KIND;

	if (!(state & STATE_COMPACT) || !width || length > 1 << 20)
		return (struct sosc_text){NULL, 0, 1};
	return (struct sosc_text){
		(const void *)(object + (state & STATE_ASCII ? at->text_ascii : at->text_compact)),
		(uint32_t)length * width,
		width,
	};
}

/** Return the texts of a code object that have to be copied. */
struct sosc_code_texts sosc_python_texts(const struct sosc_python *at,
					 const struct sosc_origin *code)
{
	return (struct sosc_code_texts){
		text_of(at, code->file),
		text_of(at, code->name),
		{(const void *)(code->lines + at->bytes_data),
		 (uint32_t)sosc_word_at(code->lines + SIZE), 1},
	};
}
