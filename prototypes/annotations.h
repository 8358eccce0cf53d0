// SPDX-License-Identifier: Apache-2.0
/**
 * The words that soscope understands in these declarations beside C's own.
 *
 * All of them vanish in front of a C compiler, so that every file here is plain
 * C: the tests compile it together with the system's headers, and a declaration
 * that is not the system's is an error. A word stands behind the parameter it
 * is about; behind the closing parenthesis it is about the result or the whole
 * function; in a typedef it is the custom of the type.
 *
 * Without a word: integers are decimal, mode_t is octal, `const char *` is a
 * string at the call, a `char *` result is a string, every other pointer is an
 * address. src/soscope/prototypes/parser.py reads this language.
 */
#ifndef SOSCOPE_ANNOTATIONS_H
#define SOSCOPE_ANNOTATIONS_H

// How a number is shown.
#define OCTAL // 0644
#define HEX // 0x1f
#define SIGNED // an unsigned type whose -1 has a meaning: uid_t
#define CHAR // 'a', where it is one
#define BOOL // true, false
#define ENUM(...) // one name of a set in constants.txt; `set, parameter`: of the set
		  // that constants.txt has for the value of that parameter
#define SIGNALS // a set of signals: [INT TERM], or those that are not in it, ~[KILL STOP]
#define FLAGS(set) // names of a set in constants.txt, joined by |

// What a pointer leads to.
#define POINTER // shown as an address, although it could be followed
#define STRING // shown as a string, although it is not const; a pointer to a pointer: as the
	       // string that the pointer leads to
#define IN // shown as it is at the call
#define OUT(...) // shown as it is at the return, if the call has written it: `always`,
		 // or where all of these hold: `success`, the call did not fail by
		 // FAILS; `result` or a parameter compared with 0 or NULL by >, >=,
		 // != or ==; `result != NAN`. What a call leaves alone is the
		 // program's own, and often looks like an answer.
		 // With IN: as it was at the call, too
#define BYTES(length) // so many bytes: a parameter, two of them multiplied,
		      // `result`, `result * parameter`, `min(result, parameter)`, or
		      // `*parameter`: the int it leads to, at most what that was at
		      // the call
#define CXX_STRING // a std::string of libstdc++: its text, as it is at the call
#define ELEMENTS(parameter) // so many things lie there, one behind the other; 8 are shown.
			    // With OUT, `result`: as many as the call returned
#define DESCRIPTORS(parameter) // a set of descriptors below that number: [3 5]
#define FIELDS_BY(parameter) // a struct tm: the members that this format of strftime or
			     // strptime names
#define LIMIT(parameter) // a string of at most so many bytes, which need not end
#define FOLLOW // the function reads at least the first byte, whatever happens, or has made
	       // the result: a wild pointer would be the program's own crash, so that
	       // no check is needed up to the end of its page. A result that leads to a
	       // structure is shown as that. With OUT: what it has written, where it has
#define FOLLOW_UNLESS_0(parameter) // the same, unless that parameter is 0
#define FOLLOW_UNLESS_SAME // of BYTES: the same, unless the first two arguments are the same
#define FOLLOW_NAMED // of a FORMAT(printf): nothing but the format and what it names can make the
		     // function fail, so that it reads the strings of an ordinary one, and the va_list
#define AS(...) // (parameter, condition): it is that one, words and all, if the condition of
		// OPTIONAL holds; the first of several

// What is shown of a structure.
#define HIDDEN // a field that is not: `...` stands at the end
// When a member of a structure or union is there.
#define WHEN(...) // `tag & A | B` or `tag == A | B`, or both of two that && joins: a member beside it,
		  // or beside the union that it is in

// What follows the fixed parameters of a variadic function.
#define FORMAT(language) // a format: `printf` or `scanf`; its values are those behind it, or
			 // those of the va_list that is the next parameter, and the last
#define OPTIONAL(...) // (parameter, condition): one more, if `name & A | B` or
				       // `name == A | B`, or both of two that && joins; the
				       // first that holds, of constants or numbers.
				       // Several parameters: all of them; `void`: none
#define WORDS(n) // so many words of unknown type, marked `?`, where nothing OPTIONAL holds

// When a call failed, and where its errno is.
#define FAILS(condition) // `< 0`, `== NULL`, `== -1`, `!= 0` or `== 0`
#define ERRNO(where) // `result`: it is the result itself; `none`: there is none;
		     // `changed`: some failures leave errno alone, so that only one that
		     // is another than before the call says why. Without: all set it

// How much of the declaration is a guess, because a name of C++ does not tell it.
#define GUESSED(what) // `result`: what it returns, and so whether a hidden pointer to that stands
		      // before all arguments; `all`: whether it has a `this`, too

// The version of the symbol that this is about: others of it take something else.
#define SYMBOL_VERSION(version)

// More names of the same function.
#define ALSO(...)

#endif
