// SPDX-License-Identifier: Apache-2.0
/**
 * Capture programs: what is kept of the calls of one function.
 */
#ifndef SOSCOPE_PROGRAM_H
#define SOSCOPE_PROGRAM_H

#include <stdint.h>

// A capture program: ops up to SOSC_OP_END, in order of arguments.
enum sosc_op_code {
	SOSC_OP_END = 0,
	SOSC_OP_WORDS = 1, // first .arg integer registers (1..6)
	SOSC_OP_STACK = 2, // first .arg words above the return address
	SOSC_OP_FLOAT = 3, // low 8 bytes of xmm0 .. xmm(.arg - 1); exit: xmm0
	SOSC_OP_STRING = 4, // NUL-terminated at integer register .arg
	SOSC_OP_BYTES = 5, // bytes at integer register .arg, length as .length says
	SOSC_OP_WORD_AT = 6, // the 8 bytes that integer register .arg points to
	SOSC_OP_FORMAT = 7, // printf format at .arg: also its strings and words
	SOSC_OP_ERRNO = 8, // entry only: errno as it was, 4 bytes, item SOSC_ITEM_ERRNO
	SOSC_OP_RESULT = 9, // exit only: .limit bytes of the registers that results are in:
	// rax, rdx, low 8 bytes of xmm0, xmm1; st0, st1, each in 16
	SOSC_OP_WHEN = 10, // the .item words behind its .limit struct sosc_values are skipped,
	// unless integer register .arg is in one of those
	SOSC_OP_VA_FORMAT = 11, // as FORMAT, whose values are in the va_list at register
	// .length_arg: item SOSC_ITEM_VALUES, of 8 bytes each, or 16 of a long double
	SOSC_OP_VA_SCANF = 12, // as SCANF, whose words are in the va_list at register .length_arg:
	// item SOSC_ITEM_VALUES
	SOSC_OP_VECTOR = 13, // .limit bytes (16, 32, 64) of vector registers 0 to .arg - 1, item
	// SOSC_ITEM_VECTORS; exit: of the first, item SOSC_ARG_RESULT
	SOSC_OP_SCANF = 14, // scanf format at .arg: also the words behind it. Until the exit the
	// agent keeps where they lead
	SOSC_OP_FILLED = 15, // exit only: what the call has stored there, by number of argument.
	// A number is in BYTES, characters are in BYTES or, where they end, in a STRING
};

struct sosc_values { // in the place of an op
	uint32_t first; // of SOSC_OP_ANY_BIT a mask
	uint32_t last;
};

enum { SOSC_ARG_RESULT = 0xff }; // as sosc_op.arg at exit: the result
enum {
	SOSC_ARG_STACK = 0x40
}; // added to a number, as .arg or .length_arg of what leads to memory:
// that word above the return address
enum { SOSC_ARG_STACK_END = 0xc0 };
enum { SOSC_ITEM_ERRNO = 0xfe }; // as sosc_op.item: errno
enum { SOSC_ITEM_INJECTED = 0xfd }; // item of an entry: struct sosc_injected
enum { SOSC_ITEM_VALUES = 0xfb }; // and of what a va_list had
enum { SOSC_ITEM_VECTORS = 0xfa }; // and of whole vector registers
enum { SOSC_ITEM_STACK = 0xfc }; // item of an entry: u32, the number of its stack; 0: none

enum sosc_op_length { // for SOSC_OP_BYTES; the first two for SOSC_OP_STRING
	SOSC_LENGTH_LIMIT = 0, // .limit bytes
	SOSC_LENGTH_ARG = 1, // integer register .length_arg
	SOSC_LENGTH_PRODUCT = 2, // registers .length_arg times .length_arg + 1
	SOSC_LENGTH_RESULT = 3, // exit only: the result, if positive
	SOSC_LENGTH_RESULT_PRODUCT = 4, // result times register .length_arg
	SOSC_LENGTH_RESULT_ARG = 5, // exit only: the result, at most register .length_arg
	SOSC_LENGTH_AT = 6, // exit only: the int at register .length_arg, at most what it was
	// at the entry
};

enum sosc_op_flag {
	SOSC_OP_IS_READ = 1, // the callee itself reads its beginning: that page is not checked
	SOSC_OP_INT_LENGTH = 2, // register .length_arg is an int: 32 bits
	SOSC_OP_INT_RESULT = 4, // the result is an int
	SOSC_OP_UNLESS_0 = 8, // IS_READ where register .length_arg is not 0
	SOSC_OP_INT_ARG = 16, // WHEN: register .arg is an int
	SOSC_OP_ANY_BIT = 32, // WHEN: a range is a mask, of which a bit is to be set
	SOSC_OP_WCHAR =
		32, // STRING, FORMAT, VA_FORMAT: of characters of 4 bytes; .limit counts those
	SOSC_OP_TEXT_AT = 64, // register .arg leads to the address: BYTES: behind it is the length
	SOSC_OP_NAMES_READ =
		128, // FORMAT, VA_FORMAT: with a format that names nothing unusual, the
	// callee itself reads the strings of it, and the va_list: they are not checked
	SOSC_OP_UNLESS_NEGATIVE =
		16, // STRING, exit: IS_READ unless the result, an int, is negative
	SOSC_OP_UNLESS_SAME = 16, // BYTES, entry: IS_READ unless the first two words are the same
};

struct sosc_op {
	uint8_t op; // enum sosc_op_code
	uint8_t arg; // integer register 0..5, count, SOSC_ARG_STACK + n, or SOSC_ARG_RESULT
	uint8_t length; // enum sosc_op_length
	uint8_t length_arg;
	uint16_t limit; // most bytes to keep; 0 = control.string_limit
	uint8_t flags; // enum sosc_op_flag
	uint8_t item; // argument number shown by soscope (0-based); 0xff = result
};

#endif
