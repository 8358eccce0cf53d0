// SPDX-License-Identifier: Apache-2.0
#include "frame.h"
#include "image.h"

struct eh_frame_hdr { // LSB, ".eh_frame_hdr"
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	int32_t frame;
	uint32_t count;
	struct {
		int32_t start, fde; // from the header
	} table[];
};

enum { // DWARF exception header encodings: LSB
	OMIT = 0xff,
	FORMAT = 0x0f,
	PCREL = 0x10,
	ULEB128 = 0x01,
	UDATA4 = 0x03,
	SDATA4 = 0x0b,
	PCREL_SDATA4 = 0x1b,
	DATAREL_SDATA4 = 0x3b,
};

static int32_t word_at(const uint8_t *at)
{
	int32_t word;

	__builtin_memcpy(&word, at, sizeof(word));
	return word;
}

// The size of a pointer in this encoding, 0 = one that nobody uses here.
static uint32_t size_of(uint8_t encoding)
{
	static const uint8_t sizes[16] = {8, 0, 2, 4, 8, 0, 0, 0, 0, 0, 2, 4, 8};

	return sizes[encoding & FORMAT];
}

// What a CIE says of the frames that belong to it; @encoding is that of the pointer to the table of
// landing pads.
static bool parse_common(const uint8_t *cie, struct sosc_frame *function, uint8_t *encoding)
{
	const uint8_t *augmentation = cie + 9, *at = augmentation;
	uint8_t version = cie[8];
	uint64_t size;

	*encoding = OMIT;
	if (!word_at(cie) || word_at(cie) == -1 || (version != 1 && version != 3))
		return false;
	while (*at)
		at++;
	at++;
	function->common.end = cie + 4 + (uint32_t)word_at(cie);
	function->code_step = sosc_uleb(&at);
	function->data_step = sosc_sleb(&at);
	function->returns = version == 1 ? *at++ : sosc_uleb(&at);
	function->common.at = at;
	if (augmentation[0] != 'z')
		return !augmentation[0];
	size = sosc_uleb(&at);
	function->common.at = at + size;
	for (const uint8_t *letter = augmentation + 1; *letter; letter++) {
		if (*letter == 'L') {
			*encoding = *at++;
		} else if (*letter == 'R') {
			if (*at++ != PCREL_SDATA4)
				return false;
		} else if (*letter == 'P') {
			size = size_of(*at++);
			if (!size)
				return false;
			at += size;
		} else if (*letter != 'S') {
			return false;
		}
	}
	return true;
}

static bool inside(const struct sosc_loaded *image, const uint8_t *at)
{
	return (uint64_t)at >= image->start && (uint64_t)at < image->end;
}

// The table of functions, NULL where there is none of the kind that linkers make.
static const struct eh_frame_hdr *find_header(const struct sosc_loaded *image)
{
	const struct eh_frame_hdr *hdr = NULL;

	for (uint32_t i = 0; i < image->phnum; i++)
		if (image->phdr[i].p_type == PT_GNU_EH_FRAME)
			hdr = (const void *)(image->bias + image->phdr[i].p_vaddr);
	if (!hdr || hdr->version != 1 || hdr->count_encoding != UDATA4 ||
	    hdr->table_encoding != DATAREL_SDATA4 || !hdr->count)
		return NULL;
	return hdr;
}

/** Whether @image has a table of its functions. */
bool sosc_has_frames(const struct sosc_loaded *image)
{
	return find_header(image);
}

/**
 * Find the function of @image that @addr is in. False where there is none, or its
 * tables are not of the kind that linkers make.
 */
bool sosc_frame_at(const struct sosc_loaded *image, uint64_t addr, struct sosc_frame *function)
{
	const struct eh_frame_hdr *hdr = find_header(image);
	const uint8_t *fde, *cie, *at;
	uint32_t low = 0, high;
	uint64_t size = 0;
	uint8_t encoding;

	if (!hdr)
		return false;
	high = hdr->count;
	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;

		if ((uint64_t)hdr + (uint64_t)(int64_t)hdr->table[middle].start <= addr)
			low = middle;
		else
			high = middle;
	}
	function->start = (uint64_t)hdr + (uint64_t)(int64_t)hdr->table[low].start;
	// length, CIE, start, size: 4 bytes each
	fde = (const uint8_t *)hdr + hdr->table[low].fde;
	if (!inside(image, fde))
		return false;
	cie = fde + 4 - word_at(fde + 4);
	if (!inside(image, cie) || !parse_common(cie, function, &encoding) ||
	    (uint64_t)(fde + 8) + (uint64_t)(int64_t)word_at(fde + 8) != function->start)
		return false;
	function->end = function->start + (uint32_t)word_at(fde + 12);
	function->lsda = NULL;
	at = fde + 16;
	if (cie[9] == 'z')
		size = sosc_uleb(&at);
	function->own.at = at + size;
	function->own.end = fde + 4 + (uint32_t)word_at(fde);
	if (encoding != OMIT) {
		if (encoding != PCREL_SDATA4 && encoding != UDATA4 && encoding != SDATA4)
			return false;
		if (word_at(at))
			function->lsda = (encoding & PCREL ? at : (const uint8_t *)image->bias) +
					 word_at(at);
	}
	return (!function->lsda || inside(image, function->lsda)) && addr >= function->start &&
	       addr < function->end && sosc_addr_executable(image, function->end - 1);
}

/**
 * Store where an exception that passes the call before the return address @addr goes
 * on in @function, 0: nowhere. False where the table is of an unusual kind.
 */
bool sosc_landing_pad(const struct sosc_frame *function, uint64_t addr, uint64_t *pad)
{
	const uint8_t *at = function->lsda, *end;
	uint64_t offset = addr - 1 - function->start;
	uint8_t encoding;

	*pad = 0;
	if (!at)
		return true;
	if (*at++ != OMIT) // landing pads in another part of the function
		return false;
	if (*at++ != OMIT)
		(void)sosc_uleb(&at); // types
	encoding = *at++;
	if (encoding != ULEB128 && encoding != UDATA4)
		return false;
	end = at;
	end += sosc_uleb(&at) + (uint64_t)(at - end);
	while (at < end) {
		uint64_t fields[3]; // start, length, landing pad

		for (int i = 0; i < 3; i++) {
			if (encoding == ULEB128) {
				fields[i] = sosc_uleb(&at);
			} else {
				fields[i] = (uint32_t)word_at(at);
				at += 4;
			}
		}
		(void)sosc_uleb(&at); // action
		if (offset - fields[0] < fields[1]) {
			*pad = fields[2] ? function->start + fields[2] : 0;
			return true;
		}
	}
	return true;
}
