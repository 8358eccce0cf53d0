// SPDX-License-Identifier: Apache-2.0
// How code finds a variable that each thread has for itself.

#include "image.h"
#include "rubystack.h"

enum {
	GENERAL = 14, // lea index(%rip), %rdi; call __tls_get_addr, both with padding
	LOCAL = 9, // mov %fs:offset, %register
};

/**
 * Of the first such variable in @size bytes of code at @code: its offset from the thread pointer,
 * or the address of what __tls_get_addr is called with (*index, which is 0 otherwise). Whether
 * there is one; looked for byte by byte, as these sequences stand for nothing else (the ABI's
 * supplement for x86-64, 4.11).
 */
bool sosc_first_tls(uint64_t code, uint32_t size, uint64_t *index, int64_t *offset)
{
	const uint8_t *bytes = (const uint8_t *)code;
	const struct sosc_loaded *image = sosc_image_of(code);
	int32_t distance;

	if (!image || !sosc_code_readable(image, code) ||
	    !sosc_code_readable(image, code + size - 1))
		return false;
	for (uint32_t i = 0; i + GENERAL <= size; i++) {
		const uint8_t *at = bytes + i;

		*index = 0;
		// 66 lea; 66 66 rex.W call, or by the word that holds the address: 66 rex.W call
		if (at[0] == 0x66 && at[1] == 0x48 && at[2] == 0x8d && at[3] == 0x3d &&
		    at[8] == 0x66 &&
		    ((at[9] == 0x66 && at[10] == 0x48 && at[11] == 0xe8) ||
		     (at[9] == 0x48 && at[10] == 0xff && at[11] == 0x15))) {
			memcpy(&distance, at + 4, sizeof(distance));
			*index = code + i + 8 + (uint64_t)(int64_t)distance;
			return true;
		}
		if (at[0] == 0x64 && (at[1] & 0xfb) == 0x48 && at[2] == 0x8b &&
		    (at[3] & 0xc7) == 0x04 && at[4] == 0x25) {
			memcpy(&distance, at + 5, sizeof(distance));
			if (distance == 0x28)
				continue; // what the stack protector has there
			*offset = distance;
			return true;
		}
	}
	return false;
}
