// SPDX-License-Identifier: Apache-2.0
// methodtables: which words of an image's data are entries of method tables, and which only nearly are.
#include "host.h"

#include <string.h>

// methods.c hooks what it finds; here it only has to find.
#include "hook/methods.c"

#include "base/memory.h"

void sosc_slot_refuse(struct sosc_candidate *at, enum sosc_slot_refusal refusal)
{
	(void)at;
	(void)refusal;
}

bool sosc_slot_is_wanted(struct sosc_candidate *at)
{
	(void)at;
	return false;
}

void sosc_slot_hook(struct sosc_candidate *at)
{
	(void)at;
}

enum { PAGES = 6, FOUND = 4 * SOSC_PAGE / 32 };

static const Elf64_Phdr phdrs[] = {
	{.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = SOSC_PAGE, .p_memsz = SOSC_PAGE},
	{.p_type = PT_LOAD,
	 .p_flags = PF_R | PF_X,
	 .p_vaddr = SOSC_PAGE,
	 .p_filesz = SOSC_PAGE,
	 .p_memsz = SOSC_PAGE},
	{.p_type = PT_LOAD,
	 .p_flags = PF_R | PF_W,
	 .p_vaddr = 2 * SOSC_PAGE,
	 .p_filesz = 2 * SOSC_PAGE,
	 .p_memsz = 3 * SOSC_PAGE},
};

static struct sosc_loaded image = {.phdr = phdrs, .phnum = 3, .name = "odd.so"};
static char *text, *names;
static uint64_t code, data;

static struct sosc_method_def entry(const char *name)
{
	struct sosc_method_def def = {.name = name, .function = code + 64, .flags = 8};

	return def;
}

// Puts an entry at @offset of the data; whether it is found there.
static bool is_found(struct sosc_method_def def, uint64_t offset)
{
	static struct sosc_method found[FOUND];
	struct sosc_hooking work = {.image = &image, .methods = {.found = found}};

	memset((void *)data, 0, 2ul * SOSC_PAGE);
	memcpy((void *)(data + offset), &def, sizeof(def));
	for (uint64_t page = 0; page < sosc_methods_pages(&image); page++)
		sosc_find_methods(&work, page);
	CHECK(work.methods.count <= 1);
	CHECK(!work.methods.count || found[0].addr == data + offset);
	return work.methods.count;
}

static bool is_found_with_flags(uint64_t flags)
{
	struct sosc_method_def def = entry(names);

	def.flags = flags;
	return is_found(def, 64);
}

static bool is_found_with_function(uint64_t function)
{
	struct sosc_method_def def = entry(names);

	def.function = function;
	return is_found(def, 64);
}

static void check_flags(void)
{
	static const uint64_t good[] = {1, 3, 4, 8, 128, 130, 642, 8 | 16, 1 | 32, 4 | 64};
	static const uint64_t bad[] = {0,   2,	 5,   12,  6,	     10,	   16,
				       129, 640, 513, 256, 1024 | 1, 1ul << 32 | 8};

	for (uint64_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		CHECK(is_found_with_flags(good[i]));
	for (uint64_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(!is_found_with_flags(bad[i]));
}

static void check_functions(void)
{
	CHECK(is_found_with_function(code));
	CHECK(is_found_with_function(code + SOSC_PAGE - 1));
	CHECK(!is_found_with_function(0));
	CHECK(!is_found_with_function(code - 1)); // read-only data
	CHECK(!is_found_with_function(code + SOSC_PAGE)); // data
	CHECK(!is_found_with_function((uint64_t)check_flags)); // of another image
}

static void check_names(void)
{
	static const char elsewhere[] = "method";
	const char *last = text + SOSC_PAGE - 4;

	CHECK(!is_found(entry(NULL), 64));
	CHECK(!is_found(entry(elsewhere), 64));
	CHECK(!is_found(entry(""), 64));
	strcpy(names, "9method");
	CHECK(!is_found(entry(names), 64));
	CHECK(is_found(entry(names + 1), 64));
	strcpy(names, "a method");
	CHECK(!is_found(entry(names), 64));
	strcpy(names, "a.method"); // that is a module's, or a type's
	CHECK(!is_found(entry(names), 64));
	strcpy(names, "_m\xc3\xa9thod9");
	CHECK(is_found(entry(names), 64));
	memset(names, 'x', 128); // too long
	names[128] = 0;
	CHECK(!is_found(entry(names), 64));
	CHECK(is_found(entry(names + 1), 64));
	strcpy(names, "method");
	// the read-only segment ends in front of a closing zero, or with it
	memcpy((char *)last, "open", 4);
	CHECK(!is_found(entry(last), 64));
	memcpy((char *)last, "end", 4);
	CHECK(is_found(entry(last), 64));
}

static void check_places(void)
{
	for (uint64_t at = 0; at <= 2ul * SOSC_PAGE - 32; at += 8)
		CHECK(is_found(entry(names), at));
	CHECK(!is_found(entry(names), 68)); // not aligned
	// behind what the file fills: all of it was zero when the image came
	memset((void *)data, 0, 2ul * SOSC_PAGE);
	CHECK(!is_found(entry(names), 2ul * SOSC_PAGE - 24));
}

// Two entries side by side are two, wherever a page ends: nothing is found twice or in the middle.
static void check_rows(void)
{
	static struct sosc_method found[FOUND];

	for (uint64_t first = 0; first < 32; first += 8) {
		struct sosc_hooking work = {.image = &image, .methods = {.found = found}};
		uint64_t count = (2ul * SOSC_PAGE - first) / 32;

		memset((void *)data, 0, 2ul * SOSC_PAGE);
		for (uint64_t i = 0; i < count; i++)
			((struct sosc_method_def *)(data + first))[i] = entry(names);
		for (uint64_t page = 0; page < 2; page++)
			sosc_find_methods(&work, page);
		CHECK(work.methods.count == count);
		for (uint64_t i = 0; i < count; i++)
			CHECK(found[i].addr == data + first + 32 * i);
	}
}

int main(void)
{
	text = (char *)sosc_mmap(NULL, PAGES * SOSC_PAGE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(!sosc_mmap_failed(text) && sosc_protect((uint64_t)text + 5ul * SOSC_PAGE,
						      (uint64_t)text + 6ul * SOSC_PAGE, PROT_NONE));
	host_control(SOSC_INSTRUMENT_COUNT, 1);
	image.bias = image.start = (uint64_t)text;
	image.end = image.start + 5 * SOSC_PAGE;
	code = image.start + SOSC_PAGE;
	data = image.start + 2ul * SOSC_PAGE;
	names = text + 64;
	strcpy(names, "method");
	CHECK(sosc_methods_pages(&image) == 2);
	check_flags();
	check_functions();
	check_names();
	check_places();
	check_rows();
	return 0;
}
