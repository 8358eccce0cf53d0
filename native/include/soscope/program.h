// SPDX-License-Identifier: Apache-2.0
/** Capture programs: what to keep of the calls of one function. */
#ifndef SOSCOPE_PROGRAM_H
#define SOSCOPE_PROGRAM_H

#include <stdint.h>

// A capture program: ops up to SOSC_OP_END, in order of arguments.
enum sosc_op_code {
	SOSC_OP_END = 0,
	SOSC_OP_WORDS = 1, // the first .arg integer registers (1..6)
	SOSC_OP_STACK = 2, // the first .arg words above the return address
	SOSC_OP_FLOAT = 3, // low 8 bytes of xmm0 .. xmm(.arg - 1); at exit: xmm0
	SOSC_OP_STRING = 4, // NUL-terminated string at integer register .arg
	SOSC_OP_BYTES = 5, // bytes at integer register .arg; .length gives the length
	SOSC_OP_WORD_AT = 6, // the 8 bytes that integer register .arg points to
	SOSC_OP_FORMAT = 7, // printf format at .arg, with the strings and words that it names
	SOSC_OP_ERRNO = 8, // entry only: errno at the call, 4 bytes, item SOSC_ITEM_ERRNO
	// exit only: .limit bytes of the registers that hold results: rax, rdx, low 8 bytes of xmm0
	// and xmm1; st0 and st1, each in 16 bytes
	SOSC_OP_RESULT = 9,
	// skip the next .item ops, unless integer register .arg lies in one of the .limit struct
	// sosc_values that follow this op
	SOSC_OP_WHEN = 10,
	// as FORMAT, with the values in the va_list at register .length_arg: item SOSC_ITEM_VALUES,
	// 8 bytes for each value, 16 for a long double
	SOSC_OP_VA_FORMAT = 11,
	// as SCANF, with the pointers in the va_list at register .length_arg: item SOSC_ITEM_VALUES
	SOSC_OP_VA_SCANF = 12,
	// .limit bytes (16, 32, 64) of vector registers 0 to .arg - 1, item SOSC_ITEM_VECTORS; at
	// exit: of the first one, item SOSC_ARG_RESULT
	SOSC_OP_VECTOR = 13,
	// scanf format at .arg, with the pointers that follow it. The agent keeps these pointers
	// until the exit
	SOSC_OP_SCANF = 14,
	// exit only: what the call stored through these pointers, by argument number. A number is
	// kept as BYTES. Characters are kept as BYTES, or as a STRING if they end with a NUL
	SOSC_OP_FILLED = 15,
};

struct sosc_values { // stands in place of an op
	uint32_t first; // with SOSC_OP_ANY_BIT: a mask
	uint32_t last;
};

enum { SOSC_ARG_RESULT = 0xff }; // sosc_op.arg at exit: the result
enum {
	SOSC_ARG_STACK = 0x40
}; // added to a number n in .arg or .length_arg: word n above the return address
enum { SOSC_ARG_STACK_END = 0xc0 };
enum { SOSC_ITEM_ERRNO = 0xfe }; // sosc_op.item of errno
enum { SOSC_ITEM_INJECTED = 0xfd }; // item of a struct sosc_injected, at an entry
enum { SOSC_ITEM_VALUES = 0xfb }; // item of the values of a va_list
enum { SOSC_ITEM_VECTORS = 0xfa }; // item of whole vector registers
// item of an entry: u32, the number of its call stack, 0 if there is none
enum { SOSC_ITEM_STACK = 0xfc };

enum sosc_op_length { // for SOSC_OP_BYTES; SOSC_OP_STRING has only the first two
	SOSC_LENGTH_LIMIT = 0, // .limit bytes
	SOSC_LENGTH_ARG = 1, // the value of integer register .length_arg
	// the values of registers .length_arg and .length_arg + 1, multiplied
	SOSC_LENGTH_PRODUCT = 2,
	SOSC_LENGTH_RESULT = 3, // exit only: the result, if positive
	SOSC_LENGTH_RESULT_PRODUCT = 4, // exit only: the result times register .length_arg
	// exit only: the result, at most the value of register .length_arg
	SOSC_LENGTH_RESULT_ARG = 5,
	// exit only: the int at register .length_arg, at most its value at the entry
	SOSC_LENGTH_AT = 6,
};

enum sosc_op_flag {
	SOSC_OP_IS_READ = 1, // the callee reads the first bytes itself, so that page is not checked
	SOSC_OP_INT_LENGTH = 2, // register .length_arg is an int: 32 bits
	SOSC_OP_INT_RESULT = 4, // the result is an int: 32 bits
	SOSC_OP_UNLESS_0 = 8, // IS_READ applies only if register .length_arg is not 0
	SOSC_OP_INT_ARG = 16, // WHEN: register .arg is an int
	SOSC_OP_ANY_BIT = 32, // WHEN: each range is a mask, of which at least one bit has to be set
	// STRING, FORMAT, VA_FORMAT: characters have 4 bytes, and .limit counts characters
	SOSC_OP_WCHAR = 32,
	// register .arg points to the address; for BYTES, the length is the word behind the address
	SOSC_OP_TEXT_AT = 64,
	// FORMAT, VA_FORMAT: if the format has only common conversions, the callee itself
	// reads the strings and the va_list, so they are not checked
	SOSC_OP_NAMES_READ = 128,
	SOSC_OP_UNLESS_NEGATIVE =
		16, // STRING, exit: IS_READ applies unless the result, an int, is negative
	// BYTES, entry: IS_READ applies unless the first two words are equal
	SOSC_OP_UNLESS_SAME = 16,
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
