// SPDX-License-Identifier: Apache-2.0
// Method tables of Python extensions. Python calls the functions of an extension through the
// entries of method tables, which are slots like any other: words of data that are read at each
// call. No relocation marks such a word, and no symbol tells where a table is. So all words of data
// are checked for the properties of an entry: a name, a function of the same image, and flags by
// which CPython calls functions. A table gets its name from what refers to it: a module's
// definition, a type, or the description from which types are made (PyType_Spec).

#include "hook/methods.h"
#include "base/sys.h"
#include "hook/hook.h"
#include "hook/select.h"
#include "hook/slot.h"
#include "image/image.h"
#include "image/lookup.h"

enum {
	WORD = 8,
	LONGEST = 128, // longest name, in bytes
	SLOTS_MAX = 128, // most slots of a PyType_Spec
	TP_METHODS = 64, // Py_tp_methods of typeslots.h
};

// Fields of CPython's structs: by how many bytes they precede the field that refers to a table.
enum {
	MODULE_NAME = 24, // PyModuleDef: m_name, before m_methods
	MODULE_SIZE = 8, // m_size, before m_methods
	TYPE_NAME = 208, // PyTypeObject: tp_name, before tp_methods
	TYPE_SIZE = 200, // tp_basicsize, before tp_methods
	SPEC_NAME = 24, // PyType_Spec: name, before slots
	SPEC_FLAGS = 8, // flags and padding, before slots
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

/** Return the number of pages that sosc_find_methods and sosc_name_methods have to search. */
uint64_t sosc_methods_pages(const struct sosc_loaded *image)
{
	uint64_t pages = 0;

	for (uint32_t i = 0; i < image->phnum; i++)
		pages += pages_of(&image->phdr[i]);
	return pages;
}

struct part { // a part of a segment that comes from the file, in whole words
	uint64_t first, end; // bounds of the segment
	uint64_t from, to; // bounds of the part to search
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

// Returns the end of the readable segment that contains @addr, or 0 if there is none.
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

// Returns whether there is a name at @addr: of a module or type (@dotted), or of a method.
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

// METH_VARARGS 1, KEYWORDS 2, NOARGS 4, O 8, CLASS 16, STATIC 32, COEXIST 64, FASTCALL 128, METHOD
// 512: the existing calling conventions.
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
 * Prepare to hook the method tables of work->image. Return false if there is nothing to do. If true
 * is returned without memory in methods->found, the image is the interpreter, and only the
 * functions that hash and compare its objects are to be replaced. That is done as soon as possible,
 * before there is a table to hook.
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

	if (methods->count) { // the last entry found may reach into this page
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

// Returns the name of the module or static type whose field at @addr refers to a table. Returns
// NULL if it is neither.
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

// If the word at @addr is the `slots` field of a PyType_Spec, gives its name to the table among
// these slots.
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

/** Find the owners of tables: references to tables in one page of work->image's data. */
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

// Returns "OWNER.METHOD". If nothing refers to the table, as with functions of Cython, the owner is
// the name of the file up to its first dot.
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

// Returns whether the interpreter compares this entry's function with its own address, which it
// does to see whether a type has its own __new__.
static bool is_compared(const struct sosc_method *method)
{
	return sosc_same(((const struct sosc_method_def *)method->addr)->name, "__new__");
}

/** Another session begins. The functions that the last session replaced may have been restored. */
void sosc_methods_again(void)
{
	if (!sosc_methodobjects_are_minded())
		sosc_inside.method_state = SOSC_METHODS_FREE;
	else if (sosc_inside.method_state)
		sosc_inside.method_state = SOSC_METHODS_WAIT;
}

// Returns whether the interpreter's code has not run yet.
static bool is_new(const struct sosc_hooking *work)
{
	const struct sosc_image *images = sosc_section(SOSC_SEC_IMAGES);
	const struct sosc_loaded *image = work->image;

	return work->alone || (image == work->methods.interpreter && image->index != SOSC_NONE &&
			       !(images[image->index].flags & SOSC_IMAGE_LATE));
}

/**
 * Before methods are hooked: replace the functions by which objects are hashed and compared. In a
 * process that runs (@turns), threads may still be in the original functions, and would take an
 * address that they read from a hooked table for the function's own. soscope sees where the threads
 * stand, and tells when none is there. Return whether hooking has to wait for that.
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

/** Hook method @i of work->methods, if an instrument has chosen it. */
void sosc_hook_method(struct sosc_hooking *work, uint64_t i)
{
	struct sosc_methods *methods = &work->methods;
	struct sosc_method *method = &methods->found[i];
	struct sosc_method_def *def = (void *)method->addr;
	struct sosc_candidate at;

	if (!method->owner && i && method[-1].addr + sizeof(*def) == method->addr)
		method->owner = method[-1].owner; // an entry of the same table
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
