// SPDX-License-Identifier: Apache-2.0
// The room at a function's entry, and the call that is written there, for x86-64.

#include "base/jump.h"
#include "prof/entries.h"

enum {
	CALL = 0xe8,
	CALL_SIZE = 5,
	NO_PREFIX = 0x2e, // the prefix cs:, which has no effect in front of a call
	BREAK = 0xcc,
	SPLIT_MOST = 8, // most bytes, if several instructions are replaced
};

/** Return the size of an endbr64 at @code, or 0 if there is none. */
uint32_t sosc_mark_size(const uint8_t *code, const uint8_t *end)
{
	static const uint8_t mark[] = {0xf3, 0x0f, 0x1e, 0xfa}; // endbr64

	return end - code >= (long)sizeof(mark) && !memcmp(code, mark, sizeof(mark)) ?
		       sizeof(mark) :
		       0;
}

static uint32_t nop_at(const uint8_t *code, const uint8_t *end)
{
	uint32_t size = code < end && *code != BREAK ? sosc_nop_size(code, end) : 0;

	return size <= end - code ? size : 0;
}

/** Return the number of bytes of no-operations with which @code begins. */
uint32_t sosc_nops_size(const uint8_t *code, const uint8_t *end)
{
	uint32_t size = 0, next;

	while ((next = nop_at(code + size, end)))
		size += next;
	return size;
}

/** Return the room at @code. It consists of whole no-operations, of as few as possible. */
struct sosc_room sosc_room_at(const uint8_t *code, const uint8_t *end)
{
	uint32_t first = nop_at(code, end), size = first, next = first;

	while (next && size < CALL_SIZE) {
		next = nop_at(code + size, end);
		size += next;
	}
	if (size < CALL_SIZE || size > (size == first ? SOSC_ROOM_MOST : SPLIT_MOST))
		return (struct sosc_room){.is_other = !first};
	return (struct sosc_room){.size = size, .is_split = size != first};
}

/**
 * Write one call of @to into @code, for the address @at. It takes @size bytes and ends where the
 * last no-operation has ended. Return false if @to is out of reach.
 */
bool sosc_write_call(uint8_t *code, uint32_t size, uint64_t at, uint64_t to)
{
	int64_t distance = (int64_t)(to - (at + size));
	int32_t rel32 = (int32_t)distance;

	if (distance != rel32)
		return false;
	memset(code, NO_PREFIX, size - CALL_SIZE);
	code[size - CALL_SIZE] = CALL;
	memcpy(&code[size - sizeof(rel32)], &rel32, sizeof(rel32));
	return true;
}

/** Return the target of the call that stands at @at, or 0 if there is another instruction. */
uint64_t sosc_called_at(const uint8_t *code, const uint8_t *end, uint64_t at)
{
	uint32_t size = CALL_SIZE;
	int32_t rel32;

	while (code < end && *code == NO_PREFIX)
		code++, size++;
	if (end - code < CALL_SIZE || *code != CALL)
		return 0;
	memcpy(&rel32, code + 1, sizeof(rel32));
	return at + size + (uint64_t)(int64_t)rel32;
}

/** Write code that does the same as an entry trampoline for the cell at @cell, and keeps r11. */
void sosc_write_stub(uint8_t code[SOSC_ENTRY_STUB], uint64_t cell)
{
	static const uint8_t keep[] = {0x41, 0x53}; // push %r11
	static const uint8_t load[] = {0x49, 0xbb}; // movabs $cell, %r11
	static const uint8_t jump[] = {0x41, 0xff, 0x23}; // jmp *(%r11)

	memset(code, BREAK, SOSC_ENTRY_STUB);
	memcpy(code, keep, sizeof(keep));
	memcpy(code + sizeof(keep), load, sizeof(load));
	memcpy(code + sizeof(keep) + sizeof(load), &cell, sizeof(cell));
	memcpy(code + sizeof(keep) + sizeof(load) + sizeof(cell), jump, sizeof(jump));
}
