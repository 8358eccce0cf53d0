// SPDX-License-Identifier: Apache-2.0
// Images: the link map, program headers and PT_DYNAMIC.
//
// The program headers of the main program come from the auxiliary vector. Those of other images are
// read where the image begins in memory, after a check that does not fault.

#include "image/image.h"
#include "base/memory.h"
#include "base/sys.h"
#include "image/lookup.h"

enum {
	PATH_MOST = 4096,
	PAGES_MOST = 1 << 18,
};

struct sosc_loaded sosc_loaded[SOSC_MAX_IMAGES];
uint32_t sosc_loaded_count; // entries used so far, including free ones

static bool checked_read(void *to, uint64_t from, uint64_t size)
{
	return sosc_read((uint32_t)sosc_sys3(SYS_GETTID, 0, 0, 0), to, from, size) == size;
}

// Reads the headers of the image whose first byte may be at @start.
static bool headers_at(struct sosc_loaded *image, uint64_t start)
{
	Elf64_Ehdr ehdr;
	const Elf64_Phdr *phdr;

	if (!checked_read(&ehdr, start, sizeof(ehdr)) ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || ehdr.e_phentsize != sizeof(Elf64_Phdr) ||
	    ehdr.e_phoff + (uint64_t)ehdr.e_phnum * sizeof(Elf64_Phdr) > SOSC_PAGE)
		return false;
	phdr = (const void *)(start + ehdr.e_phoff);
	for (uint32_t i = 0; i < ehdr.e_phnum; i++)
		if (phdr[i].p_type == PT_DYNAMIC &&
		    phdr[i].p_vaddr + image->bias == (uint64_t)image->map->l_ld) {
			image->phdr = phdr;
			image->phnum = ehdr.e_phnum;
			return true;
		}
	return false;
}

// Finds the headers, which usually lie at the load bias. An image whose first p_vaddr is not 0, or
// a prelinked image, begins somewhere below its dynamic section. A damaged list may have thousands
// of entries that are no images, so the total number of pages searched is limited.
static bool find_headers(struct sosc_loaded *image)
{
	static uint32_t looked_at;
	uint64_t at = (uint64_t)image->map->l_ld & ~(uint64_t)(SOSC_PAGE - 1);

	if (image->bias && headers_at(image, image->bias))
		return true;
	for (int pages = 0; pages < 32768 && looked_at < PAGES_MOST;
	     pages++, looked_at++, at -= SOSC_PAGE)
		if (headers_at(image, at))
			return true;
	return false;
}

// Returns the path of @map, or "" if its name has no end.
static const char *path_of(const struct link_map *map)
{
	const char *path = map->l_name;

	for (uint32_t i = 0; path && i < PATH_MOST; i++)
		if (!path[i])
			return path;
	return "";
}

static const char *file_name(const char *path)
{
	const char *name = path;

	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return name;
}

/**
 * Return the address that a pointer in the dynamic section stands for, 0 if none. glibc has added
 * the load bias in place, except where it may not write (vDSO, -z rodynamic). musl never does. A
 * prelinked image that is not at its intended address may have a bias of any size and sign.
 */
uint64_t sosc_dynamic_addr(const struct sosc_loaded *image, uint64_t value)
{
	uint64_t size = image->end - image->start;

	if (value - image->start < size)
		return value;
	value += image->bias;
	return value - image->start < size ? value : 0;
}

static const void *pointer(const struct sosc_loaded *image, uint64_t value)
{
	return (const void *)sosc_dynamic_addr(image, value);
}

static void parse_dynamic(struct sosc_loaded *image)
{
	uint64_t soname = UINT64_MAX, relasz = 0, pltrelsz = 0;

	for (const Elf64_Dyn *dyn = image->dynamic; dyn->d_tag != DT_NULL; dyn++) {
		uint64_t value = dyn->d_un.d_val;

		switch (dyn->d_tag) {
		case DT_SYMTAB:
			image->symtab = pointer(image, value);
			break;
		case DT_STRTAB:
			image->strtab = pointer(image, value);
			break;
		case DT_STRSZ:
			image->strsz = value;
			break;
		case DT_VERSYM:
			image->versym = pointer(image, value);
			break;
		case DT_VERNEED:
			image->verneed = pointer(image, value);
			break;
		case DT_VERNEEDNUM:
			image->verneednum = value;
			break;
		case DT_VERDEF:
			image->verdef = pointer(image, value);
			break;
		case DT_VERDEFNUM:
			image->verdefnum = value;
			break;
		case DT_GNU_HASH:
			image->gnu_hash = pointer(image, value);
			break;
		case DT_HASH:
			image->sysv_hash = pointer(image, value);
			break;
		case DT_RELA:
			image->rela = pointer(image, value);
			break;
		case DT_RELASZ:
			relasz = value;
			break;
		case DT_JMPREL:
			image->jmprel = pointer(image, value);
			break;
		case DT_PLTRELSZ:
			pltrelsz = value;
			break;
		case DT_PLTGOT:
			image->pltgot = (uint64_t *)pointer(image, value);
			break;
		case DT_SONAME:
			soname = value;
			break;
		default:
			break;
		}
	}
	image->relacount = image->rela ? relasz / sizeof(Elf64_Rela) : 0;
	image->jmprelcount = image->jmprel ? pltrelsz / sizeof(Elf64_Rela) : 0;
	if (image->strtab && soname < image->strsz)
		image->name = image->strtab + soname;
}

static void parse_note(struct sosc_loaded *image, const Elf64_Phdr *phdr)
{
	uint64_t at = image->bias + phdr->p_vaddr, end = at + phdr->p_memsz;

	while (at + sizeof(Elf64_Nhdr) <= end) {
		const Elf64_Nhdr *note = (const void *)at;
		uint64_t name = at + sizeof(*note);
		uint64_t desc = name + ((note->n_namesz + 3ull) & ~3ull);

		if (desc + note->n_descsz > end)
			return;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
		    memcmp((const void *)name, "GNU", 4) == 0) {
			image->build_id_size = note->n_descsz > 32 ? 32 : (uint8_t)note->n_descsz;
			memcpy(image->build_id, (const void *)desc, image->build_id_size);
			return;
		}
		at = desc + ((note->n_descsz + 3ull) & ~3ull);
	}
}

// Continues the CRC-32 @sum of earlier bytes with @size more, four bits at a time. The result
// equals zlib's.
static uint32_t sum_of(uint32_t sum, const uint8_t *bytes, uint64_t size)
{
	static const uint32_t table[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
		0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
		0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
	sum = ~sum;
	for (uint64_t i = 0; i < size; i++) {
		sum ^= bytes[i];
		sum = sum >> 4 ^ table[sum & 15];
		sum = sum >> 4 ^ table[sum & 15];
	}
	return ~sum;
}

// Returns whether a readable segment has all bytes of @part from the file.
static bool has_all(const struct sosc_loaded *image, const Elf64_Phdr *part)
{
	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];
		uint64_t before = part->p_vaddr - phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && phdr->p_flags & PF_R && before < phdr->p_filesz &&
		    part->p_filesz <= phdr->p_filesz - before)
			return true;
	}
	return false;
}

enum { SUM_MOST = 1 << 20, SUM_PIECE = 1 << 10 }; // bytes of a table: enough for 131,000 functions

// Returns the checksum of a table with checked reads: the file may have been truncated, and only
// unwinders ever read this table.
static uint32_t sum_of_table(uint64_t addr, uint64_t size)
{
	uint8_t piece[SUM_PIECE];
	uint32_t sum = 0;

	for (uint64_t done = 0, next; done < size; done += next) {
		next = size - done < sizeof(piece) ? size - done : sizeof(piece);
		if (!checked_read(piece, addr + done, next))
			return 0;
		sum = sum_of(sum, piece, next);
	}
	return sum;
}

// Computes two checksums that identify a file without a build-id, as in ElfImage.checksum: one of
// the program headers, and one of the table of the functions' start addresses. The loader changes
// neither.
static void take_checksum(struct sosc_loaded *image)
{
	const uint64_t headers = image->phnum * sizeof(*image->phdr);
	uint32_t sums[2] = {sum_of(0, (const void *)image->phdr, headers)};

	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];

		if (phdr->p_type != PT_GNU_EH_FRAME)
			continue;
		if (has_all(image, phdr))
			sums[1] =
				sum_of_table(image->bias + phdr->p_vaddr,
					     phdr->p_filesz < SUM_MOST ? phdr->p_filesz : SUM_MOST);
		break;
	}
	memcpy(image->build_id, sums, sizeof(sums));
}

static void parse_headers(struct sosc_loaded *image)
{
	const uint64_t page = ~(uint64_t)(SOSC_PAGE - 1);

	image->start = UINT64_MAX;
	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];
		uint64_t addr = image->bias + phdr->p_vaddr, end = addr + phdr->p_memsz;

		if (phdr->p_type == PT_LOAD) {
			if (addr < image->start)
				image->start = addr & page;
			if (end > image->end)
				image->end = end;
		} else if (phdr->p_type == PT_GNU_RELRO) { // rounded as the loader does
			image->relro_start = addr & page;
			image->relro_end = end & page;
		} else if (phdr->p_type == PT_NOTE && !image->build_id_size) {
			parse_note(image, phdr);
		}
	}
}

/**
 * Fill in the contents of the headers and the dynamic section of image->map. For the main program
 * @start is needed. Return 0, or -EINVAL if the headers cannot be found.
 */
int sosc_image_parse(struct sosc_loaded *image, const struct sosc_start *start)
{
	struct link_map *map = image->map;

	image->bias = map->l_addr;
	image->dynamic = map->l_ld;
	image->path = path_of(map);
	image->name = file_name(image->path);
	image->init_cell = SOSC_NONE;
	if (start && image->main) {
		image->phdr = (const void *)start->phdr;
		image->phnum = start->phnum;
	} else if (!find_headers(image)) {
		return -EINVAL;
	}
	parse_headers(image);
	if (!image->build_id_size)
		take_checksum(image);
	parse_dynamic(image);
	if (image->main) {
		const char *names = sosc_section(SOSC_SEC_FUNCTIONS);

		image->name = names + sosc_session->head->main_name;
		image->path = names + sosc_session->head->main_path;
	}
	image->identity = sosc_gnu_hash(image->path) + image->ns;
	for (uint32_t i = 0; i < sizeof(image->build_id); i++)
		image->identity = image->identity * 33 + image->build_id[i];
	return 0;
}

/** Return the flags of the segment that contains @addr; 0 if none does. */
int sosc_segment_flags(const struct sosc_loaded *image, uint64_t addr)
{
	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];
		uint64_t start = image->bias + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && addr >= start && addr < start + phdr->p_memsz)
			return (int)phdr->p_flags;
	}
	return 0;
}

// Returns whether a segment with all of these flags contains @addr.
static bool lies_in(const struct sosc_loaded *image, uint64_t addr, uint32_t flags)
{
	if (addr < image->start || addr >= image->end)
		return false;
	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];
		uint64_t start = image->bias + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && (phdr->p_flags & flags) == flags && addr >= start &&
		    addr < start + phdr->p_memsz)
			return true;
	}
	return false;
}

bool sosc_addr_executable(const struct sosc_loaded *image, uint64_t addr)
{
	return lies_in(image, addr, PF_X);
}

/**
 * Return whether the code at @addr can be read. Some images have code that can only be executed.
 */
bool sosc_code_readable(const struct sosc_loaded *image, uint64_t addr)
{
	return lies_in(image, addr, PF_R | PF_X);
}

/**
 * Return the end of the readable bytes that begin at @addr: the end of what the segment has from
 * the file. Return @addr if nothing can be read there.
 */
const uint8_t *sosc_readable_until(const struct sosc_loaded *image, const uint8_t *addr)
{
	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];
		uint64_t before = (uint64_t)addr - image->bias - phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && phdr->p_flags & PF_R && before < phdr->p_filesz)
			return addr + (phdr->p_filesz - before);
	}
	return addr;
}

/** Return whether one code segment contains everything from @start to @end. */
bool sosc_is_code_of(const struct sosc_loaded *image, uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];
		uint64_t before = start - image->bias - phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && phdr->p_flags & PF_X && before < phdr->p_memsz)
			return end - start <= phdr->p_memsz - before;
	}
	return false;
}

struct sosc_loaded *sosc_image_of(uint64_t addr)
{
	static struct sosc_loaded *last;
	struct sosc_loaded *image = __atomic_load_n(&last, __ATOMIC_RELAXED);

	if (image && image->map && addr >= image->start && addr < image->end)
		return image;
	for (uint32_t i = 0; i < sosc_loaded_count; i++) {
		image = &sosc_loaded[i];
		if (image->map && addr >= image->start && addr < image->end) {
			__atomic_store_n(&last, image, __ATOMIC_RELAXED);
			return image;
		}
	}
	return NULL;
}
