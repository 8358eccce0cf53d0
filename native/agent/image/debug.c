// SPDX-License-Identifier: Apache-2.0
// Tests whether an image may have debug information, so that no thread waits for soscope to read
// files that have none. For most images this can be told from memory: a stripped file has hardly
// anything behind its loaded segments.

#include "image/debug.h"
#include "base/sys.h"
#include "image/image.h"

enum {
	// most bytes between the segments and the section headers of a stripped file; most have 400
	SHORT = 1024,
	PIECE = 512, // bytes of section names that are read at a time
	PATH = 1024,
	OUT_OF_THE_WAY = 900, // programs seldom use descriptors with such numbers
};

static bool read_at(long fd, void *to, uint64_t size, uint64_t at)
{
	return sosc_sys6(SYS_PREAD64, fd, (long)to, (long)size, (long)at, 0, 0) == (long)size;
}

// Returns the ELF header, which lies in the same page as the program headers. Returns NULL if its
// address is not known.
static const Elf64_Ehdr *header_of(const struct sosc_loaded *image)
{
	uint64_t page = (uint64_t)image->phdr & ~(uint64_t)(SOSC_PAGE - 1);

	return image->main ? NULL : (const Elf64_Ehdr *)page;
}

static bool is_stripped(const struct sosc_loaded *image)
{
	uint64_t end = 0;

	if (!header_of(image))
		return false;
	for (uint32_t i = 0; i < image->phnum; i++) {
		const Elf64_Phdr *phdr = &image->phdr[i];

		if (phdr->p_type == PT_LOAD && phdr->p_offset + phdr->p_filesz > end)
			end = phdr->p_offset + phdr->p_filesz;
	}
	return header_of(image)->e_shoff < end + SHORT;
}

// Returns whether the file has a section .debug_info: searches the table of section names.
static bool names_section(long fd, const Elf64_Ehdr *ehdr)
{
	static const char wanted[] = ".debug_info"; // with its NUL
	Elf64_Shdr names;
	char piece[PIECE];

	if (ehdr->e_shstrndx == SHN_UNDEF || ehdr->e_shentsize != sizeof(names) ||
	    !read_at(fd, &names, sizeof(names),
		     ehdr->e_shoff + (uint64_t)ehdr->e_shstrndx * sizeof(names)))
		return false;
	for (uint64_t at = 0; at + sizeof(wanted) <= names.sh_size;
	     at += PIECE - sizeof(wanted) + 1) {
		uint64_t size = names.sh_size - at < PIECE ? names.sh_size - at : PIECE;

		if (!read_at(fd, piece, size, names.sh_offset + at))
			return false;
		for (uint64_t i = 0; i + sizeof(wanted) <= size; i++)
			if (memcmp(piece + i, wanted, sizeof(wanted)) == 0)
				return true;
	}
	return false;
}

// Returns whether the file has debug information. Other threads may close descriptors that they
// have not opened, and open files of their own that get the same number. So the descriptor gets
// another number, and the file's header is compared before the file is trusted.
static bool file_has_some(const struct sosc_loaded *image)
{
	long low = sosc_sys3(SYS_OPEN, (long)image->path, O_CLOEXEC | O_NONBLOCK, 0), fd;
	Elf64_Ehdr ehdr;
	bool found;

	if (low < 0)
		return false;
	fd = sosc_sys3(SYS_FCNTL, low, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
	if (fd < 0) // the number is beyond the limit of open files
		fd = low;
	found = read_at(fd, &ehdr, sizeof(ehdr), 0) &&
		(header_of(image) ? memcmp(&ehdr, header_of(image), sizeof(ehdr)) == 0 :
				    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) == 0) &&
		names_section(fd, &ehdr);
	if (fd != low)
		(void)sosc_sys3(SYS_CLOSE, fd, 0, 0);
	(void)sosc_sys3(SYS_CLOSE, low, 0, 0);
	return found;
}

static char *append(char *to, const char *end, const char *text, uint64_t size)
{
	if (!to || (uint64_t)(end - to) <= size)
		return NULL;
	memcpy(to, text, size);
	to[size] = 0;
	return to + size;
}

static uint64_t length(const char *text)
{
	uint64_t size = 0;

	while (text[size])
		size++;
	return size;
}

static bool is_there(const char *path)
{
	return sosc_sys3(SYS_ACCESS, (long)path, 0, 0) == 0;
}

static bool has_file_by_build_id(const struct sosc_loaded *image)
{
	static const char folder[] = "/usr/lib/debug/.build-id/", ending[] = ".debug";
	static const char digits[] = "0123456789abcdef";
	char path[sizeof(folder) + 2 * sizeof(image->build_id) + 1 + sizeof(ending)];
	char *at = append(path, path + sizeof(path), folder, sizeof(folder) - 1);

	if (image->build_id_size < 2)
		return false;
	for (uint32_t i = 0; i < image->build_id_size; i++) {
		*at++ = digits[image->build_id[i] >> 4];
		*at++ = digits[image->build_id[i] & 15];
		if (i == 0)
			*at++ = '/';
	}
	return append(at, path + sizeof(path), ending, sizeof(ending) - 1) && is_there(path);
}

// Returns whether the file exists that .gnu_debuglink usually names: FILE.debug, next to FILE or in
// the folder .debug there.
static bool has_file_beside(const struct sosc_loaded *image)
{
	static const char below[] = ".debug/", ending[] = ".debug";
	uint64_t size = length(image->path), folder = size;
	char path[PATH], *at;
	const char *end = path + sizeof(path);

	while (folder && image->path[folder - 1] != '/')
		folder--;
	at = append(path, end, image->path, size);
	at = append(at, end, ending, sizeof(ending) - 1);
	if (at && is_there(path))
		return true;
	at = append(path, end, image->path, folder);
	at = append(at, end, below, sizeof(below) - 1);
	at = append(at, end, image->path + folder, size - folder);
	at = append(at, end, ending, sizeof(ending) - 1);
	return at && is_there(path);
}

/**
 * Return whether soscope may find debug information of the image, in its file or in a separate one.
 */
bool sosc_may_be_described(struct sosc_loaded *image)
{
	bool some;

	if (image->described == SOSC_DESCRIBED_UNKNOWN) {
		some = *image->path && ((!is_stripped(image) && file_has_some(image)) ||
					has_file_by_build_id(image) || has_file_beside(image));
		image->described = some ? SOSC_DESCRIBED_MAYBE : SOSC_DESCRIBED_NO;
	}
	return image->described == SOSC_DESCRIBED_MAYBE;
}
