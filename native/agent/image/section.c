// SPDX-License-Identifier: Apache-2.0
// Sections by name. Nothing in memory tells where they are. Section headers are read from the
// image's file, if it is still the file that was mapped.

#include "image/section.h"
#include "base/memory.h"
#include "base/state.h"
#include "base/sys.h"
#include "image/image.h"

enum {
	OUT_OF_THE_WAY = 900, // programs seldom use descriptors with such numbers
	HEADERS = 32, // headers that are read at a time
	NAME_MOST = 64, // bytes
};

static union {
	Elf64_Shdr headers[HEADERS];
	uint8_t bytes[HEADERS * sizeof(Elf64_Shdr)];
} buffer;

static bool read_at(long fd, void *to, uint64_t size, uint64_t offset)
{
	return sosc_sys6(SYS_PREAD64, fd, (long)to, (long)size, (long)offset, 0, 0) == (long)size;
}

// Returns whether @fd has at @offset the same bytes as memory at @addr.
static bool has_same(long fd, uint64_t offset, uint64_t addr, uint64_t size)
{
	return size <= sizeof(buffer) && read_at(fd, buffer.bytes, size, offset) &&
	       memcmp(buffer.bytes, (const void *)addr, size) == 0;
}

// Returns whether @fd is the image's file: it has the same headers and the same build-id.
static bool is_file_of(const struct sosc_loaded *image, long fd, Elf64_Ehdr *ehdr)
{
	bool has_headers = false;

	if (!read_at(fd, ehdr, sizeof(*ehdr), 0) || ehdr->e_phnum != image->phnum ||
	    ehdr->e_shentsize != sizeof(Elf64_Shdr) ||
	    !has_same(fd, ehdr->e_phoff, (uint64_t)image->phdr,
		      (uint64_t)image->phnum * sizeof(Elf64_Phdr)))
		return false;
	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];
		uint64_t addr = image->bias + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && !phdr->p_offset && phdr->p_flags & PF_R)
			has_headers = has_same(fd, 0, addr, sizeof(*ehdr));
		if (phdr->p_type == PT_NOTE && !has_same(fd, phdr->p_offset, addr, phdr->p_filesz))
			return false;
	}
	return has_headers;
}

// Opens the image's file. Other threads may close descriptors that they have not opened, and open
// files of their own that get the same number. The agent must not close such a file. @alone: no
// other thread runs.
static long open_file(const struct sosc_loaded *image, const char *path, bool alone,
		      Elf64_Ehdr *ehdr)
{
	long fd = sosc_sys3(SYS_OPEN, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
	long moved = fd;

	if (fd < 0)
		return fd;
	if (!alone)
		moved = sosc_sys3(SYS_FCNTL, fd, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
	if (moved >= 0 && is_file_of(image, moved, ehdr)) {
		if (moved != fd)
			(void)sosc_sys3(SYS_CLOSE, fd, 0, 0);
		return moved;
	}
	if (moved >= 0)
		(void)sosc_sys3(SYS_CLOSE, moved, 0, 0);
	else if (is_file_of(image, fd, ehdr)) // the number is beyond the limit of open files
		return fd;
	return -ENOENT;
}

static void add(struct sosc_extent *ranges, uint32_t *count, uint32_t most,
		struct sosc_extent found)
{
	struct sosc_extent *last = *count ? &ranges[*count - 1] : NULL;

	if (last && last->addr + last->size == found.addr)
		last->size += found.size;
	else if (*count < most)
		ranges[(*count)++] = found;
}

// Returns whether the section lies in loaded memory.
static bool is_loaded(const struct sosc_loaded *image, const Elf64_Shdr *header)
{
	uint64_t addr = image->bias + header->sh_addr;

	return header->sh_type != SHT_NOBITS && header->sh_flags & SHF_ALLOC && header->sh_size &&
	       header->sh_size < image->end - image->start &&
	       sosc_segment_flags(image, addr) & PF_R &&
	       sosc_segment_flags(image, addr + header->sh_size - 1) & PF_R;
}

static bool is_called(long fd, uint64_t names, const Elf64_Shdr *header, const char *name)
{
	char found[NAME_MOST];
	uint64_t size = 0;

	while (name[size++])
		;
	return size <= sizeof(found) && read_at(fd, found, size, names + header->sh_name) &&
	       memcmp(found, name, size) == 0;
}

static uint32_t search(const struct sosc_loaded *image, long fd, const Elf64_Ehdr *ehdr,
		       const char *name, struct sosc_extent *ranges, uint32_t most)
{
	uint64_t number = ehdr->e_shnum, strings = ehdr->e_shstrndx, names;
	uint32_t count = 0;

	if (!ehdr->e_shoff || !read_at(fd, buffer.headers, sizeof(Elf64_Shdr), ehdr->e_shoff))
		return 0;
	if (!number)
		number = buffer.headers[0].sh_size;
	if (strings == SHN_XINDEX)
		strings = buffer.headers[0].sh_link;
	if (strings >= number || !read_at(fd, buffer.headers, sizeof(Elf64_Shdr),
					  ehdr->e_shoff + strings * sizeof(Elf64_Shdr)))
		return 0;
	names = buffer.headers[0].sh_offset;
	for (uint64_t first = 0; first < number; first += HEADERS) {
		uint64_t some = number - first < HEADERS ? number - first : HEADERS;

		if (!read_at(fd, buffer.headers, some * sizeof(Elf64_Shdr),
			     ehdr->e_shoff + first * sizeof(Elf64_Shdr)))
			break;
		for (uint64_t i = 0; i < some; i++) {
			const Elf64_Shdr *header = &buffer.headers[i];

			if (is_loaded(image, header) && is_called(fd, names, header, name))
				add(ranges, &count, most,
				    (struct sosc_extent){image->bias + header->sh_addr,
							 header->sh_size});
		}
	}
	return count;
}

/**
 * Store the addresses of the sections called @name that are loaded with @image, at most @most, with
 * adjacent sections as one. Return how many there are. Return SOSC_NONE if the image's file cannot
 * be read or has been replaced. @alone: no other thread runs.
 */
uint32_t sosc_find_sections(const struct sosc_loaded *image, const char *name, bool alone,
			    struct sosc_extent *ranges, uint32_t most)
{
	static const char program[] = "/proc/self/exe";
	uint32_t count;
	Elf64_Ehdr ehdr;
	long fd = -ENOENT;

	if (sosc_is_process_sealed())
		return SOSC_NONE;
	if (image->main)
		fd = open_file(image, program, alone, &ehdr);
	if (fd < 0)
		fd = open_file(image, image->path, alone, &ehdr);
	if (fd < 0)
		return SOSC_NONE;
	count = search(image, fd, &ehdr, name, ranges, most);
	(void)sosc_sys3(SYS_CLOSE, fd, 0, 0);
	return count;
}
