// SPDX-License-Identifier: Apache-2.0
// Python calls the functions of an extension through the entries of method tables, which are slots
// like any other: words of data, read at each call. No relocation says that a word is one, and no
// symbol says where a table is. So all words of data are looked at for what an entry must be: a
// name, a function of the same image, flags by which CPython calls functions. Tables are named by
// who refers to them: a module's definition, a type, or what types are made of (PyType_Spec).

#include "hook/methods.h"
#include "base/sys.h"
#include "hook/hook.h"
#include "hook/select.h"
#include "hook/slot.h"
#include "image/image.h"
#include "image/lookup.h"

enum {
	WORD = 8,
	LONGEST = 128, // name, in bytes
	SLOTS_MAX = 128, // of a PyType_Spec
	TP_METHODS = 64, // Py_tp_methods of typeslots.h
};

// Fields of CPython's structs: how many bytes they stand in front of the one that refers to a
// table.
enum {
	MODULE_NAME = 24, // PyModuleDef: m_name, of m_methods
	MODULE_SIZE = 8, // m_size
	TYPE_NAME = 208, // PyTypeObject: tp_name, of tp_methods
	TYPE_SIZE = 200, // tp_basicsize
	SPEC_NAME = 24, // PyType_Spec: name, of slots
	SPEC_FLAGS = 8, // flags, and what fills them up
};

static uint64_t word_at(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

// ---- where data is -----------------------------------------------------------

static uint64_t pages_of(const Elf64_Phdr *phdr)
{
	if (phdr->p_type != PT_LOAD || (phdr->p_flags & (PF_R | PF_W)) != (PF_R | PF_W))
		return 0;
	return (phdr->p_filesz + SOSC_PAGE - 1) / SOSC_PAGE;
}

/** How many pages sosc_find_methods and sosc_name_methods have to look at. */
uint64_t sosc_methods_pages(const struct sosc_loaded *image)
{
	uint64_t pages = 0;

	for (uint32_t i = 0; i < image->phnum; i++)
		pages += pages_of(&image->phdr[i]);
	return pages;
}

struct part { // of a segment that the file fills, whole words
	uint64_t first, end; // of the segment
	uint64_t from, to; // what is to be looked at
};

static struct part part_of(const struct sosc_loaded *image, uint64_t page)
{
	struct part part = {0};

	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];
		uint64_t pages = pages_of(phdr);

		if (page >= pages) {
			page -= pages;
			continue;
		}
		part.first = (image->bias + phdr->p_vaddr + WORD - 1) & ~(uint64_t)(WORD - 1);
		part.end = (image->bias + phdr->p_vaddr + phdr->p_filesz) & ~(uint64_t)(WORD - 1);
		part.from = part.first + page * SOSC_PAGE;
		part.to = part.from + SOSC_PAGE < part.end ? part.from + SOSC_PAGE : part.end;
		break;
	}
	return part;
}

// Where the readable segment of @addr ends; 0: it is in none.
static uint64_t end_around(const struct sosc_loaded *image, uint64_t addr)
{
	if (addr < image->start || addr >= image->end)
		return 0;
	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];
		uint64_t start = image->bias + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && phdr->p_flags & PF_R && addr >= start &&
		    addr < start + phdr->p_memsz)
			return start + phdr->p_memsz;
	}
	return 0;
}

// ---- what an entry is ----------------------------------------------------------

static bool is_letter(uint8_t byte)
{
	return ((byte | 32) >= 'a' && (byte | 32) <= 'z') || byte == '_' || byte >= 128;
}

// Whether a name stands at @addr: of a module or type (@dotted), or of a method.
static bool is_name(const struct sosc_loaded *image, uint64_t addr, bool dotted)
{
	uint64_t end = end_around(image, addr);
	const char *text = (const char *)addr;

	if (!end || !is_letter((uint8_t)*text))
		return false;
	for (uint32_t i = 1; i < LONGEST && addr + i < end; i++) {
		uint8_t byte = (uint8_t)text[i];

		if (!byte)
			return true;
		if (!is_letter(byte) && (byte < '0' || byte > '9') && !(dotted && byte == '.'))
			return false;
	}
	return false;
}

// METH_VARARGS 1, KEYWORDS 2, NOARGS 4, O 8, CLASS 16, STATIC 32, COEXIST 64, FASTCALL 128,
// METHOD 512: the ways to call a function that there are.
static bool is_call(uint64_t flags)
{
	switch (flags & ~(uint64_t)(16 | 32 | 64)) {
	case 1:
	case 1 | 2:
	case 4:
	case 8:
	case 128:
	case 128 | 2:
	case 128 | 2 | 512:
		return true;
	default:
		return false;
	}
}

static bool is_entry(const struct sosc_loaded *image, uint64_t addr)
{
	const struct sosc_method_def *def = (const void *)addr;

	return is_call(def->flags) && sosc_addr_executable(image, def->function) &&
	       is_name(image, (uint64_t)def->name, false);
}

// ---- stages --------------------------------------------------------------------

static void leave_unseen(const struct sosc_loaded *image)
{
	struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);

	if (image->index != SOSC_NONE)
		images[image->index].flags |= SOSC_IMAGE_METHODS_UNSEEN;
}

/**
 * Get ready for the method tables of work->image; false: there is nothing to be done for it.
 * Where nothing is found memory for, it is the interpreter, and only what its objects are
 * compared by is to be replaced: as soon as can be, before there is a table to hook.
 */
bool sosc_methods_begin(struct sosc_hooking *work)
{
	struct sosc_loaded *image = work->image, *interpreter;
	struct sosc_methods *methods = &work->methods;
	bool own;

	if (!sosc_selects_any_methods())
		return false;
	interpreter = sosc_interpreter(image->ns);
	own = interpreter == image;
	methods->interpreter = interpreter;
	if (!sosc_selects_methods(image, own) || !sosc_exports(image, "PyInit_"))
		return own;
	if (!interpreter) {
		if (sosc_has_interpreter(image->ns))
			leave_unseen(image);
		return false;
	}
	methods->size = sosc_methods_pages(image) * SOSC_PAGE / sizeof(struct sosc_method_def) *
			sizeof(struct sosc_method);
	methods->found = sosc_mmap(NULL, methods->size, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sosc_mmap_failed(methods->found)) {
		methods->found = NULL;
		methods->size = 0;
		leave_unseen(image);
		return own;
	}
	return true;
}

void sosc_methods_end(struct sosc_methods *methods)
{
	if (methods->size)
		(void)sosc_sys3(SYS_MUNMAP, (long)methods->found, (long)methods->size, 0);
}

/** Find the entries that begin in one page of work->image's data. */
void sosc_find_methods(struct sosc_hooking *work, uint64_t page)
{
	struct sosc_methods *methods = &work->methods;
	struct part part = part_of(work->image, page);
	uint64_t at = part.from;

	if (methods->count) { // the last one may reach into this page
		uint64_t behind =
			methods->found[methods->count - 1].addr + sizeof(struct sosc_method_def);

		if (behind > at && behind <= part.end)
			at = behind;
	}
	while (at < part.to && at + sizeof(struct sosc_method_def) <= part.end)
		if (is_entry(work->image, at)) {
			methods->found[methods->count++].addr = at;
			at += sizeof(struct sosc_method_def);
		} else {
			at += WORD;
		}
}

static struct sosc_method *find(const struct sosc_methods *methods, uint64_t addr)
{
	uint64_t low = 0, high = methods->count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (methods->found[middle].addr < addr)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == methods->count || methods->found[low].addr != addr)
		return NULL;
	return &methods->found[low];
}

// The name of the module or static type whose field @addr refers to a table; NULL: it is neither.
static const char *owner_at(const struct sosc_loaded *image, uint64_t addr, uint64_t first)
{
	if (addr - first >= MODULE_NAME && (int64_t)word_at(addr - MODULE_SIZE) >= -1 &&
	    is_name(image, word_at(addr - MODULE_NAME), true))
		return (const char *)word_at(addr - MODULE_NAME);
	if (addr - first >= TYPE_NAME && word_at(addr - TYPE_SIZE) <= INT32_MAX &&
	    is_name(image, word_at(addr - TYPE_NAME), true))
		return (const char *)word_at(addr - TYPE_NAME);
	return NULL;
}

// If the word at @addr is a PyType_Spec's, of slots, give the table among them its name.
static void name_by_spec(const struct sosc_loaded *image, const struct sosc_methods *methods,
			 uint64_t addr, uint64_t first)
{
	uint64_t slot = word_at(addr), end;
	struct sosc_method *method;

	if (addr - first < SPEC_NAME || word_at(addr - SPEC_FLAGS) > UINT32_MAX || slot % WORD)
		return;
	end = end_around(image, slot);
	if (!end || !is_name(image, word_at(addr - SPEC_NAME), true))
		return;
	for (uint32_t i = 0; i < SLOTS_MAX && slot + 2ul * WORD <= end; i++, slot += 2ul * WORD) {
		if (!word_at(slot) || word_at(slot) >= SLOTS_MAX)
			return;
		if (word_at(slot) != TP_METHODS)
			continue;
		method = find(methods, word_at(slot + WORD));
		if (method && !method->owner)
			method->owner = (const char *)word_at(addr - SPEC_NAME);
		return;
	}
}

/** Find in one page of work->image's data who refers to tables. */
void sosc_name_methods(struct sosc_hooking *work, uint64_t page)
{
	const struct sosc_methods *methods = &work->methods;
	struct part part = part_of(work->image, page);

	for (uint64_t at = part.from; methods->count && at + WORD <= part.to; at += WORD) {
		uint64_t value = word_at(at);
		struct sosc_method *method;

		if (value < work->image->start || value >= work->image->end)
			continue;
		method = find(methods, value);
		if (!method)
			name_by_spec(work->image, methods, at, part.first);
		else if (!method->owner)
			method->owner = owner_at(work->image, at, part.first);
	}
}

static char *append(char *at, const char *end, const char *text, char until)
{
	while (*text && *text != until && at < end)
		*at++ = *text++;
	return at;
}

// "OWNER.METHOD". A table that nobody owns, as functions of Cython are in, has the name of its
// file, without what follows a dot.
static const char *name_of(const struct sosc_loaded *image, const struct sosc_method *method)
{
	static char name[2 * LONGEST + 2];
	const struct sosc_method_def *def = (const void *)method->addr;
	const char *end = name + sizeof(name) - 1;
	char *at = name;

	if (method->owner)
		at = append(at, name + LONGEST, method->owner, 0);
	else
		at = append(at, name + LONGEST, image->name, '.');
	*at++ = '.';
	at = append(at, end, def->name, 0);
	*at = 0;
	return name;
}

// The interpreter compares this one with its own address, to see whether a type has another.
static bool is_compared(const struct sosc_method *method)
{
	return sosc_same(((const struct sosc_method_def *)method->addr)->name, "__new__");
}

/** Another session begins: what the last one has waited for may have been put back. */
void sosc_methods_again(void)
{
	if (!sosc_methodobjects_are_minded())
		sosc_inside.method_state = SOSC_METHODS_FREE;
	else if (sosc_inside.method_state)
		sosc_inside.method_state = SOSC_METHODS_WAIT;
}

// Whether the interpreter's code has not run yet.
static bool is_new(const struct sosc_hooking *work)
{
	const struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);
	const struct sosc_loaded *image = work->image;

	return work->alone || (image == work->methods.interpreter && image->index != SOSC_NONE &&
			       !(images[image->index].flags & SOSC_IMAGE_LATE));
}

/**
 * Before methods are hooked: replace what objects are compared by. In a process that runs (@turns)
 * threads may still be in the functions that are replaced, and would take what they read of a
 * hooked table for the original. soscope, which sees where they stand, says when they are not.
 */
bool sosc_methods_wait(struct sosc_hooking *work, bool turns)
{
	struct sosc_methods *methods = &work->methods;

	if (!methods->count && work->image != methods->interpreter)
		return false;
	if (!sosc_methodobjects_are_minded() && (turns || is_new(work)) &&
	    sosc_methodobjects_mind(work->image->ns))
		sosc_inside.method_state = turns ? SOSC_METHODS_WAIT : SOSC_METHODS_FREE;
	return turns && sosc_inside.method_state == SOSC_METHODS_WAIT;
}

/** Hook method @i of work->methods, if it is wanted. */
void sosc_hook_method(struct sosc_hooking *work, uint64_t i)
{
	struct sosc_methods *methods = &work->methods;
	struct sosc_method *method = &methods->found[i];
	struct sosc_method_def *def = (void *)method->addr;
	struct sosc_candidate at;

	if (!method->owner && i && method[-1].addr + sizeof(*def) == method->addr)
		method->owner = method[-1].owner; // the same table
	if (!is_entry(work->image, method->addr))
		return;
	memset(&at, 0, sizeof(at));
	at.image = at.callee = work->image;
	at.caller = methods->interpreter;
	at.symbol = name_of(work->image, method);
	at.addr = (uint64_t)&def->function;
	at.value = def->function;
	at.kind = SOSC_SLOT_METHOD;
	if (!sosc_select_method(at.symbol, at.callee, at.image == at.caller, &at.choice))
		return;
	if (is_compared(method))
		sosc_slot_refuse(&at, SOSC_REFUSED_ADDRESS_TAKEN);
	else if (!sosc_methodobjects_are_minded())
		sosc_slot_refuse(&at, work->alone ? SOSC_REFUSED_WRITE : SOSC_REFUSED_IN_USE);
	else if (sosc_inside.method_state != SOSC_METHODS_FREE)
		sosc_slot_refuse(&at, SOSC_REFUSED_IN_USE);
	else if (sosc_slot_is_wanted(&at))
		sosc_slot_hook(&at);
}
