// SPDX-License-Identifier: Apache-2.0
#include "image/frame.h"
#include "image/image.h"

struct eh_frame_hdr { // LSB, ".eh_frame_hdr"
	uint8_t version, frame_encoding, count_encoding, table_encoding;
	int32_t frame;
	uint32_t count;
	struct {
		int32_t start, fde; // offsets from the header
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

// Returns the size of a pointer in this encoding, 0 = an encoding that is not expected here.
static uint32_t size_of(uint8_t encoding)
{
	static const uint8_t sizes[16] = {8, 0, 2, 4, 8, 0, 0, 0, 0, 0, 2, 4, 8};

	return sizes[encoding & FORMAT];
}

// Finds the entry at @at, a CIE or an FDE, without its length. Returns whether all of it can be
// read and it has at least @least bytes.
static bool find_entry(const struct sosc_loaded *image, const uint8_t *at, uint32_t least,
		       struct sosc_cfi *entry)
{
	const uint8_t *end = sosc_readable_until(image, at);
	uint32_t size;

	if (end - at < 4)
		return false;
	size = (uint32_t)word_at(at);
	entry->at = at + 4;
	entry->end = entry->at + size;
	return size >= least && size <= (uint64_t)(end - entry->at);
}

// Reads what a CIE tells about its functions. @encoding is the encoding of the pointer to the table
// of landing pads.
static bool parse_common(struct sosc_cfi cie, struct sosc_frame *function, uint8_t *encoding)
{
	const uint8_t *augmentation = cie.at + 5, *at = augmentation;
	uint8_t version = cie.at[4];
	uint64_t size;

	*encoding = OMIT;
	if (version != 1 && version != 3)
		return false;
	while (at < cie.end && *at)
		at++;
	if (cie.end - at < 4) // its NUL, the factors, and the column of the return address
		return false;
	at++;
	function->code_step = sosc_uleb(&at, cie.end);
	function->data_step = sosc_sleb(&at, cie.end);
	if (at == cie.end)
		return false;
	function->returns = version == 1 ? *at++ : sosc_uleb(&at, cie.end);
	function->common.at = at;
	function->common.end = cie.end;
	if (augmentation[0] != 'z')
		return !augmentation[0];
	size = sosc_uleb(&at, cie.end);
	if (size > (uint64_t)(cie.end - at))
		return false;
	function->common.at = at + size;
	for (const uint8_t *letter = augmentation + 1; *letter; letter++) {
		if (*letter == 'S')
			continue;
		if (at >= function->common.at)
			return false;
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
		} else {
			return false;
		}
	}
	return true;
}

// Returns the table of functions, or NULL if it is not in the format that linkers write.
static const struct eh_frame_hdr *find_header(const struct sosc_loaded *image)
{
	const struct eh_frame_hdr *hdr = NULL;
	uint64_t size;

	for (uint32_t i = 0; i < image->phnum; i++)
		if (image->phdr[i].p_type == PT_GNU_EH_FRAME)
			hdr = (const void *)(image->bias + image->phdr[i].p_vaddr);
	size = (uint64_t)(sosc_readable_until(image, (const void *)hdr) - (const uint8_t *)hdr);
	if (size < sizeof(*hdr) || hdr->version != 1 || hdr->count_encoding != UDATA4 ||
	    hdr->table_encoding != DATAREL_SDATA4 || !hdr->count ||
	    hdr->count > (size - sizeof(*hdr)) / sizeof(hdr->table[0]))
		return NULL;
	return hdr;
}

/** Return whether @image has a table of its functions. */
bool sosc_has_frames(const struct sosc_loaded *image)
{
	return find_header(image);
}

// Finds the table of landing pads, to which the pointer at @at leads. Returns false if its encoding
// is not a usual one.
static bool find_lsda(const struct sosc_loaded *image, const uint8_t *at, const uint8_t *end,
		      uint8_t encoding, struct sosc_cfi *lsda)
{
	if (encoding == OMIT)
		return true;
	if ((encoding != PCREL_SDATA4 && encoding != UDATA4 && encoding != SDATA4) || end - at < 4)
		return false;
	if (!word_at(at))
		return true;
	lsda->at = (encoding & PCREL ? at : (const uint8_t *)image->bias) + word_at(at);
	lsda->end = sosc_readable_until(image, lsda->at);
	return lsda->at < lsda->end;
}

/**
 * Find the function of @image that contains @addr. Return false if there is none, or if the tables
 * are not in the format that linkers write: an image may be damaged without any other code ever
 * reading these tables.
 */
bool sosc_frame_at(const struct sosc_loaded *image, uint64_t addr, struct sosc_frame *function)
{
	const struct eh_frame_hdr *hdr = find_header(image);
	struct sosc_cfi fde, cie;
	const uint8_t *at;
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
	// the CIE, start, size: 4 bytes each
	if (!find_entry(image, (const uint8_t *)hdr + hdr->table[low].fde, 12, &fde) ||
	    !find_entry(image, fde.at - word_at(fde.at), 9, &cie) ||
	    !parse_common(cie, function, &encoding) ||
	    (uint64_t)(fde.at + 4) + (uint64_t)(int64_t)word_at(fde.at + 4) != function->start)
		return false;
	function->end = function->start + (uint32_t)word_at(fde.at + 8);
	function->lsda = (struct sosc_cfi){NULL, NULL};
	at = fde.at + 12;
	if (cie.at[5] == 'z')
		size = sosc_uleb(&at, fde.end);
	if (size > (uint64_t)(fde.end - at))
		return false;
	function->own = (struct sosc_cfi){at + size, fde.end};
	return find_lsda(image, at, fde.end, encoding, &function->lsda) &&
	       addr >= function->start && addr < function->end &&
	       sosc_is_code_of(image, function->start, function->end);
}

/**
 * Store the address where an exception continues in @function if it passes the call before the
 * return address @addr, or 0 if there is none. Return false if the table is of an unusual kind.
 */
bool sosc_landing_pad(const struct sosc_frame *function, uint64_t addr, uint64_t *pad)
{
	const uint8_t *at = function->lsda.at, *end = function->lsda.end;
	uint64_t offset = addr - 1 - function->start, size;
	uint8_t encoding;

	*pad = 0;
	if (!at)
		return true;
	if (end - at < 3 || *at++ != OMIT) // the landing pads are in another part of the function
		return false;
	if (*at++ != OMIT)
		(void)sosc_uleb(&at, end); // types
	if (at == end)
		return false;
	encoding = *at++;
	if (encoding != ULEB128 && encoding != UDATA4)
		return false;
	size = sosc_uleb(&at, end);
	if (size > (uint64_t)(end - at))
		return false;
	end = at + size;
	while (at < end) {
		uint64_t fields[3]; // start, length, landing pad

		for (int i = 0; i < 3; i++) {
			if (encoding == ULEB128) {
				fields[i] = sosc_uleb(&at, end);
			} else if (end - at < 4) {
				return false;
			} else {
				fields[i] = (uint32_t)word_at(at);
				at += 4;
			}
		}
		(void)sosc_uleb(&at, end); // action
		if (offset - fields[0] < fields[1]) {
			*pad = fields[2] ? function->start + fields[2] : 0;
			return true;
		}
	}
	return true;
}
