// SPDX-License-Identifier: Apache-2.0
/**
 * Objects of interpreters that stay alive: what soscope tells the agent, and where the agent keeps
 * what it knows, which soscope reads while the process waits.
 *
 * The instrument's own memory is
 *
 *	struct sosc_objects | sosc_python[] | texts | sosc_objects_place[]
 *
 * with a place for each process. All else lies in the process's own memory, so that a forked child
 * has a copy: words that say where an object begins and where it was made (the side table),
 * origins, and copies of what code says of itself.
 */
#ifndef SOSCOPE_OBJECTS_H
#define SOSCOPE_OBJECTS_H

#include <stdint.h>

enum {
	SOSC_OBJECTS_PLACES = 4096, // processes
	SOSC_OBJECTS_TEXT = 64, // bytes for a name, NUL-terminated
	SOSC_CODE_TEXT = 1 << 14, // bytes of a file's or a function's name at most
	SOSC_CODE_LINES = 1 << 22, // bytes of a line table at most
};

enum sosc_objects_flag {
	SOSC_OBJECTS_COLLECT = 1, // garbage is collected before the last look
	SOSC_OBJECTS_TYPES = 2, // no lines: all objects have the same origin
	SOSC_OBJECTS_SAMPLE = 4, // those with a byte that is chosen by chance
};

enum sosc_objects_order { // what soscope has a running interpreter do
	SOSC_OBJECTS_BEGIN = 1, // count objects, those that there are, too: they have no origin
	SOSC_OBJECTS_GARBAGE = 2, // collect it
	SOSC_OBJECTS_END = 3, // count no more; all is as it was
	SOSC_OBJECTS_REFS = 4, // tell which objects refer to which, in parts
};

enum sosc_objects_runtime {
	SOSC_RUNTIME_NONE = 0,
	SOSC_RUNTIME_PYTHON = 1,
	SOSC_RUNTIME_RUBY = 2,
};

enum sosc_objects_state {
	SOSC_OBJECTS_WAITING = 0, // there is no interpreter yet
	SOSC_OBJECTS_COUNTING = 1,
	SOSC_OBJECTS_REFUSED = 2, // see refusal
};

enum sosc_objects_refusal {
	SOSC_OBJECTS_FINE = 0,
	SOSC_OBJECTS_NO_FUNCTION = 1, // the interpreter does not define `text`
	SOSC_OBJECTS_NO_LAYOUT = 2, // its version is not known
	SOSC_OBJECTS_NO_GIL = 3, // a free-threaded build
	SOSC_OBJECTS_NO_CODE = 4, // the code that announces objects was not found, or not written
	SOSC_OBJECTS_NO_MEMORY = 5,
	SOSC_OBJECTS_NO_END = 6, // its end cannot be heard of
	SOSC_OBJECTS_WRONG = 7, // known objects were not counted right
	SOSC_OBJECTS_REPLACED = 8, // another tool has taken the tracer of references away
	SOSC_OBJECTS_RACTORS = 9, // others than the first one, whose objects are not told
	SOSC_OBJECTS_TAKEN = 10, // another agent in this process counts them
	SOSC_OBJECTS_NO_LINES = 11, // soscope has them counted by type alone
	SOSC_OBJECTS_SAMPLED = 12, // soscope has some of them counted
};

enum sosc_objects_reason { // why a process asks soscope to look at its objects
	SOSC_OBJECTS_AT_END = 1, // behind its last statement and its exit handlers
	SOSC_OBJECTS_AT_EXEC = 2, // it is about to execute another program
	SOSC_OBJECTS_HAS_REFS = 3, // a part of the references is there; the interpreter waits
};

// How the frame says which instruction it executes.
enum sosc_python_instr {
	SOSC_INSTR_BYTES = 0, // an int: bytes from the first instruction
	SOSC_INSTR_UNITS = 1, // an int: pairs of bytes
	SOSC_INSTR_POINTER = 2, // the instruction's address
};

// Where CPython 3.`minor` keeps things: bytes from the start of each struct, SOSC_NONE: not there.
struct sosc_python {
	uint32_t minor;
	uint32_t state_thread; // of a thread state: its pthread_t
	uint32_t state_frame; // of a thread state: its frame, or what leads to that
	uint32_t inner_frame; // of what leads to it (_PyCFrame)
	uint32_t frame_code;
	uint32_t frame_tag; // bits of it that are not the address
	uint32_t frame_previous;
	uint32_t frame_instr;
	uint32_t instr_kind; // enum sosc_python_instr
	uint32_t frame_owner; // a byte
	uint32_t shim; // frames with such an owner, or a higher one, have no code
	uint32_t frame_entry; // a byte: C code has called the function that runs the frame
	uint32_t code_file;
	uint32_t code_name;
	uint32_t code_first_line;
	uint32_t code_lines; // bytes object: line table
	uint32_t code_bytes; // the first instruction, in the code object
	uint32_t text_length; // of a str
	uint32_t text_state; // bits of its kind (3), then compact, then ascii
	uint32_t text_ascii; // data of an ASCII one
	uint32_t text_compact; // of another one that is compact
	uint32_t bytes_data;
	uint32_t type_flags;
	uint32_t head_flags; // types with one of them have 16 bytes more in front of an object
	uint32_t frame_values; // its variables, then its stack
	uint32_t code_values; // an int: how many variables
	uint32_t code_stack; // an int: how many words of stack
	uint32_t code_cells; // a tuple: variables more; SOSC_NONE: they are among the others
	uint32_t code_frees; // the same
	uint32_t code_consts;
};

struct sosc_objects {
	uint32_t flags; // enum sosc_objects_flag
	uint32_t layouts; // how many
	uint32_t first_layout; // bytes from this struct
	uint32_t first_place;
	uint32_t places;
	uint32_t places_used; // agent adds; may be more than there are
	uint32_t library; // bytes from this struct: path of soscope_memprof.rb, NUL-terminated; 0: none
	uint32_t source; // bytes from this struct: what Python is to run first, NUL-terminated; 0:
		// nothing
	uint64_t scale; // SAMPLE: bytes, times 2^16, per unit of a logarithm to base 2
};

struct sosc_objects_place { // what one process has
	uint32_t pid; // as the process knows itself
	uint32_t state; // enum sosc_objects_state
	uint32_t runtime; // enum sosc_objects_runtime
	uint32_t minor;
	uint32_t refusal; // enum sosc_objects_refusal
	uint32_t reason; // enum sosc_objects_reason
	uint32_t asked; // counts up when soscope is to look
	uint32_t answered; // soscope: the last one that was heeded
	uint32_t done; // the last order that was carried out
	uint32_t reserved;
	uint64_t side; // addr of the side table: u64[SOSC_SIDE_TOPS]
	uint64_t tally; // addr of struct sosc_objects_tally
	uint8_t text[SOSC_OBJECTS_TEXT];
	uint64_t ruby; // addr of struct sosc_ruby
	uint64_t refs; // addr of struct sosc_refs
};

struct sosc_objects_call { // argument of soscope_agent_objects
	uint32_t order; // enum sosc_objects_order
	uint32_t waits; // 1: the thread has left its interpreter, and waits for something else
};

// What a program asks for that counts its own objects (soscope_mem).
enum sosc_program_order {
	SOSC_PROGRAM_BEGIN = 1, // those that are made from now on
	SOSC_PROGRAM_LOOK = 2, // rows of those that are alive
	SOSC_PROGRAM_LOOK_AND_BEGIN = 3, // both: no object is made in between
	SOSC_PROGRAM_END = 4,
	SOSC_PROGRAM_CHILD = 5, // a forked child with a list of objects: sosc_program_dump
	SOSC_PROGRAM_MADE_BEGIN = 6, // count what is made, whether it stays alive or not
	SOSC_PROGRAM_MADE_LOOK = 7, // rows of that, so far
	SOSC_PROGRAM_MADE_END = 8,
};

enum sosc_program_dump_flag {
	SOSC_DUMP_ALL = 1, // not only what was made since the beginning
	SOSC_DUMP_REACHABLE = 2, // without what the collector would find to be garbage
};

struct sosc_program { // argument of soscope_agent_program
	uint32_t size; // of this struct
	uint32_t order; // enum sosc_program_order
	uint64_t tables; // SOSC_TABLES
	uint64_t images; // addr of the first struct link_map
	uint64_t layouts; // addr of struct sosc_python[]
	uint32_t layout_count;
	// the answer
	uint32_t state; // enum sosc_objects_state
	uint32_t refusal; // enum sosc_objects_refusal
	uint32_t row_count;
	uint64_t rows; // addr of struct sosc_program_row[]
	uint64_t lost; // objects that have no row, or no origin: there was no room
	uint64_t origins; // addr of struct sosc_origin[]
	uint64_t origin_count;
	uint64_t left_out; // the question: addr of u64[], objects that have no row; the last is 0
	uint8_t text[SOSC_OBJECTS_TEXT];
	uint64_t dump; // the question: addr of struct sosc_program_dump
};

// What the child of a dump is made with: functions of the C library's and of the interpreter's.
struct sosc_program_dump {
	uint64_t fork;
	uint64_t before; // PyOS_BeforeFork
	uint64_t after_parent; // PyOS_AfterFork_Parent
	uint64_t after_child; // PyOS_AfterFork_Child
	uint64_t keep; // Py_IncRef
	uint64_t call; // PyObject_CallFunctionObjArgs
	uint64_t disable; // gc.disable
	uint64_t get_objects; // gc.get_objects
	uint64_t flags; // enum sosc_program_dump_flag
	// the answer
	int64_t between; // the process that the program has to wait for; 0 in the child; -errno
	int32_t child; // its pid; -1: there is none
	uint32_t reserved;
	uint64_t objects; // addr of struct sosc_program_object[]: in the child alone
	uint64_t object_count;
	uint64_t lost; // objects for which there was no room
};

struct sosc_program_object { // one that is alive
	uint64_t addr;
	uint32_t origin; // 0, 1: it is not known
	uint32_t whole; // 1: what it refers to can be asked for
};

struct sosc_program_row { // objects of one origin and type
	uint64_t type; // addr, with a reference for whoever asks; 0: it cannot be read
	uint64_t count;
	uint32_t origin;
	uint32_t reserved;
};

struct sosc_objects_tally { // in the process's own memory
	uint64_t created; // objects, so far
	uint64_t destroyed;
	uint64_t lost; // objects for which there was no room
	uint64_t origins; // addr of struct sosc_origin[]
	uint64_t origin_count;
};

struct sosc_ruby { // what it says of its own objects, in the process's own memory
	uint64_t types; // addr of struct sosc_ruby_type[SOSC_RUBY_TYPES]
	uint64_t rows; // addr of struct sosc_ruby_row[], 0: Ruby has not been asked
	uint64_t row_count; // some are empty
	uint64_t rows_lost; // objects that no row had room for
	uint64_t moved; // objects that compaction has taken to where nobody knows
};

enum {
	SOSC_RUBY_TYPES = 65536,
	SOSC_RUBY_BUILTIN = 32, // rows with a lower type are about objects without a class
	SOSC_RUBY_KIND = 31, // bits of an object's flags: RUBY_T_...
	SOSC_RUBY_FREED = 1, // stands where a class did
};

struct sosc_ruby_type { // a class that has had an object
	uint64_t class; // addr; 0: this place is free
	uint64_t name; // addr of UTF-8; 0: it has none
	uint32_t size; // bytes of it
	uint32_t asked; // whether Ruby was asked for it
};

struct sosc_ruby_row { // objects of one origin and type
	uint32_t origin;
	uint32_t type; // SOSC_RUBY_BUILTIN + the place of the class, or RUBY_T_...
	uint64_t count; // 0: an empty row
	uint64_t bytes;
	uint64_t squares; // of the objects' sizes, added up; UINT64_MAX: or more
};

enum sosc_ref { // what a word of a part is: three low bits
	SOSC_REF_OBJECT = 0, // addr of an object that the holder refers to
	SOSC_REF_HOLDER = 1, // addr of an object; what follows is what it refers to
	SOSC_REF_TYPE = 2, // addr of the holder's own type
	SOSC_REF_FRAME = 3, // addr of a frame that runs: a holder
	SOSC_REF_THREAD = 4, // addr of a thread state: a holder
	SOSC_REF_MAYBE = 5, // what the holder has may be an address, of before or now
	SOSC_REF_ROOT = 6, // addr << 3 of a text: a holder; Ruby itself refers to what follows
	SOSC_REF_KEY = 7, // addr of a key of the holder, a dictionary
};

enum { SOSC_REF_BITS = 7 };

struct sosc_refs { // which objects refer to which, in the process's own memory
	uint64_t words; // addr of u64[count]
	uint64_t count;
	uint64_t lost; // objects whose own references are not told: there was no room
	uint64_t is_last; // 1: this part is
	uint64_t modules; // Python: addr of the dictionary sys.modules
};

// The side table: addr >> 34 leads to a table by addr >> 20, that to words by addr >> 4.
enum {
	SOSC_SIDE_TOPS = 8192,
	SOSC_SIDE_LEAVES = 16384,
	SOSC_SIDE_WORDS = 65536,
	SOSC_SIDE_ORIGIN = 0x07ffffff, // bits of a word: which origin
	SOSC_SIDE_SINCE = 0x08000000, // made since the program has begun to count its own
	SOSC_SIDE_DYING = 0x10000000, // Python: its end was announced; it may be resurrected
	SOSC_SIDE_OLDER = 0x10000000, // Ruby: the program itself does not ask for it
	SOSC_SIDE_SHIFT = 29, // two bits: the object begins so many 16 bytes behind the block; 3: 8
};

#define SOSC_SIDE_USED 0x80000000u

struct sosc_origin { // a place in code where objects are made
	uint64_t code; // the code object, and what else tells it from a later one at its address;
		// 0: none ran
	uint64_t file;
	uint64_t name;
	uint64_t lines;
	uint64_t copy; // addr of struct sosc_code
	uint32_t first_line;
	int32_t instr; // bytes from the first instruction; Ruby: the line
	uint32_t size; // SAMPLE: bytes by which its objects are chosen; 0: each one is counted
	uint32_t reserved;
};

// What a code object said of itself when it was first seen. Behind it: the file's name, the code's
// name, the line table, without padding.
struct sosc_code {
	uint32_t first_line;
	uint32_t file_size; // bytes
	uint32_t file_width; // of a character: 1 (Latin-1), 2 or 4; 0: UTF-8
	uint32_t name_size;
	uint32_t name_width;
	uint32_t lines_size;
};

#endif
