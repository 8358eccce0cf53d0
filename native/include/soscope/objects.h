// SPDX-License-Identifier: Apache-2.0
/**
 * Objects of interpreters that stay alive: what soscope tells the agent, and where the agent keeps
 * its data, which soscope reads while the process waits.
 *
 * The instrument's own memory is
 *
 *	struct sosc_objects | sosc_python[] | texts | sosc_objects_place[]
 *
 * with one place for each process. All other data lies in the process's private memory, so that a
 * forked child has a copy: the side table (words that record where an object begins and where it
 * was made), the origins, and copies of names and line tables of code objects.
 */
#ifndef SOSCOPE_OBJECTS_H
#define SOSCOPE_OBJECTS_H

#include <stdint.h>

enum {
	SOSC_OBJECTS_PLACES = 4096, // processes
	SOSC_OBJECTS_TEXT = 64, // bytes for a name, with its NUL
	SOSC_CODE_TEXT = 1 << 14, // most bytes of a file's or a function's name
	SOSC_CODE_LINES = 1 << 22, // most bytes of a line table
};

enum sosc_objects_flag {
	SOSC_OBJECTS_COLLECT = 1, // collect garbage before the last look
	SOSC_OBJECTS_TYPES = 2, // without lines: all objects get the same origin
	SOSC_OBJECTS_SAMPLE = 4, // only objects that contain a randomly chosen byte
};

enum sosc_objects_order { // what soscope makes a running interpreter do
	// count objects; those that exist already count too, without an origin
	SOSC_OBJECTS_BEGIN = 1,
	SOSC_OBJECTS_GARBAGE = 2, // collect garbage
	SOSC_OBJECTS_END = 3, // stop counting and restore the interpreter's state
	SOSC_OBJECTS_REFS = 4, // list which objects refer to which, in parts
};

enum sosc_objects_runtime {
	SOSC_RUNTIME_NONE = 0,
	SOSC_RUNTIME_PYTHON = 1,
	SOSC_RUNTIME_RUBY = 2,
};

enum sosc_objects_state {
	SOSC_OBJECTS_WAITING = 0, // no interpreter yet
	SOSC_OBJECTS_COUNTING = 1,
	SOSC_OBJECTS_REFUSED = 2, // see refusal
};

enum sosc_objects_refusal {
	SOSC_OBJECTS_FINE = 0,
	SOSC_OBJECTS_NO_FUNCTION = 1, // the interpreter does not define the function `text`
	SOSC_OBJECTS_NO_LAYOUT = 2, // its version is not known
	SOSC_OBJECTS_NO_GIL = 3, // a free-threaded build
	// the code that announces new objects was not found or could not be changed
	SOSC_OBJECTS_NO_CODE = 4,
	SOSC_OBJECTS_NO_MEMORY = 5,
	SOSC_OBJECTS_NO_END = 6, // the agent has no way to run code at the interpreter's end
	SOSC_OBJECTS_WRONG = 7, // a test with known objects gave wrong counts
	SOSC_OBJECTS_REPLACED = 8, // another tool has replaced the reference tracer
	// there are Ractors beside the first, whose objects are not announced
	SOSC_OBJECTS_RACTORS = 9,
	SOSC_OBJECTS_TAKEN = 10, // another agent in this process counts them
	SOSC_OBJECTS_NO_LINES = 11, // only a note: soscope asked for types without lines
	SOSC_OBJECTS_SAMPLED = 12, // only a note: soscope asked for samples of objects
};

enum sosc_objects_reason { // why a process asks soscope to look at its objects
	SOSC_OBJECTS_AT_END = 1, // after its last statement and its exit handlers
	SOSC_OBJECTS_AT_EXEC = 2, // it is about to execute another program
	SOSC_OBJECTS_HAS_REFS = 3, // one part of the references is ready; the interpreter waits
};

// How a frame stores the instruction that it executes.
enum sosc_python_instr {
	SOSC_INSTR_BYTES = 0, // an int: bytes from the first instruction
	SOSC_INSTR_UNITS = 1, // an int: pairs of bytes from the first instruction
	SOSC_INSTR_POINTER = 2, // the instruction's address
};

// Offsets in structs of CPython 3.`minor`, in bytes from the start of each struct; SOSC_NONE: this
// version has no such field.
struct sosc_python {
	uint32_t minor;
	uint32_t state_thread; // in a thread state: its pthread_t
	uint32_t state_frame; // in a thread state: its frame, or the struct that leads to the frame
	uint32_t inner_frame; // in that struct (_PyCFrame): the frame
	uint32_t frame_code;
	uint32_t frame_tag; // low bits of frame_code that are not part of the address
	uint32_t frame_previous;
	uint32_t frame_instr;
	uint32_t instr_kind; // enum sosc_python_instr
	uint32_t frame_owner; // a byte: enum _frameowner
	uint32_t shim; // frames whose owner is this value or higher have no code
	uint32_t frame_entry; // a byte: C code called the evaluator for this frame
	uint32_t code_file;
	uint32_t code_name;
	uint32_t code_first_line;
	uint32_t code_lines; // a bytes object: the line table
	uint32_t code_bytes; // offset of the first instruction in the code object
	uint32_t text_length; // in a str
	uint32_t text_state; // in a str: 3 bits of kind, then compact, then ascii
	uint32_t text_ascii; // the characters of an ASCII str
	uint32_t text_compact; // the characters of another compact str
	uint32_t bytes_data;
	uint32_t type_flags;
	// objects of types with any of these flags have 16 more bytes in front of them
	uint32_t head_flags;
	uint32_t frame_values; // local variables, then the value stack
	uint32_t code_values; // an int: number of local variables
	uint32_t code_stack; // an int: words of value stack
	// a tuple: cell variables; SOSC_NONE: they are among the local variables
	uint32_t code_cells;
	uint32_t code_frees; // the same for free variables
	uint32_t code_consts;
};

struct sosc_objects {
	uint32_t flags; // enum sosc_objects_flag
	uint32_t layouts; // how many
	uint32_t first_layout; // bytes from this struct
	uint32_t first_place;
	uint32_t places;
	uint32_t places_used; // agent adds; may exceed `places`
	// bytes from this struct: path of soscope_memprof.rb, NUL-terminated, 0 if there is none
	uint32_t library;
	// bytes from this struct: source that Python is to run first, NUL-terminated, 0 if there is
	// none
	uint32_t source;
	uint64_t scale; // SAMPLE: as in struct sosc_blocks
};

struct sosc_objects_place { // the data of one process
	uint32_t pid; // as the process knows itself
	uint32_t state; // enum sosc_objects_state
	uint32_t runtime; // enum sosc_objects_runtime
	uint32_t minor;
	uint32_t refusal; // enum sosc_objects_refusal
	uint32_t reason; // enum sosc_objects_reason
	uint32_t asked; // the agent adds one when soscope is to look
	uint32_t answered; // soscope: the last value of `asked` that it has served
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
	// 1: the thread has released its interpreter (GIL) and waits for something else
	uint32_t waits;
};

// Requests of a program that counts its own objects (soscope_mem).
enum sosc_program_order {
	SOSC_PROGRAM_BEGIN = 1, // count objects that are made from now on
	SOSC_PROGRAM_LOOK = 2, // return rows of the counted objects that are alive
	SOSC_PROGRAM_LOOK_AND_BEGIN = 3, // both, with no object made in between
	SOSC_PROGRAM_END = 4,
	// fork a child that has a list of all objects: struct sosc_program_dump
	SOSC_PROGRAM_CHILD = 5,
	// count all objects that are made, whether they stay alive or not
	SOSC_PROGRAM_MADE_BEGIN = 6,
	SOSC_PROGRAM_MADE_LOOK = 7, // return rows of these, so far
	SOSC_PROGRAM_MADE_END = 8,
};

enum sosc_program_dump_flag {
	SOSC_DUMP_ALL = 1, // also objects made before counting began
	SOSC_DUMP_REACHABLE = 2, // without objects that the collector would find to be garbage
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
	uint64_t lost; // objects that have no row or no origin because there was no room
	uint64_t origins; // addr of struct sosc_origin[]
	uint64_t origin_count;
	uint64_t left_out; // request: addr of u64[] of objects that get no row; the last is 0
	uint8_t text[SOSC_OBJECTS_TEXT];
	uint64_t dump; // request: addr of struct sosc_program_dump
};

// Functions of the C library and of the interpreter by which the child of a dump is made.
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
	// the intermediate process that the program has to wait for; 0 in the child; -errno on
	// failure
	int64_t between;
	int32_t child; // pid of the child; -1: there is none
	uint32_t reserved;
	uint64_t objects; // addr of struct sosc_program_object[]; only in the child
	uint64_t object_count;
	uint64_t lost; // objects for which there was no room
};

struct sosc_program_object { // one living object
	uint64_t addr;
	uint32_t origin; // 0 or 1: the origin is not known
	uint32_t whole; // 1: its references can be listed
};

struct sosc_program_row { // the objects of one origin and type
	uint64_t type; // addr, with a reference that the requester owns, 0 if it cannot be read
	uint64_t count;
	uint32_t origin;
	uint32_t reserved;
};

struct sosc_objects_tally { // in the process's private memory
	uint64_t created; // objects, so far
	uint64_t destroyed;
	uint64_t lost; // objects for which there was no room
	uint64_t origins; // addr of struct sosc_origin[]
	uint64_t origin_count;
};

struct sosc_ruby { // what Ruby reports of its objects, in the process's private memory
	uint64_t types; // addr of struct sosc_ruby_type[SOSC_RUBY_TYPES]
	uint64_t rows; // addr of struct sosc_ruby_row[], 0 if Ruby was not asked yet
	uint64_t row_count; // including empty rows
	uint64_t rows_lost; // objects for which no row was left
	uint64_t moved; // objects that compaction has moved to an unknown address
};

enum {
	SOSC_RUBY_TYPES = 65536,
	SOSC_RUBY_BUILTIN = 32, // rows with a lower type are for objects without a class
	SOSC_RUBY_KIND = 31, // the bits of an object's flags that hold its RUBY_T_... type
	SOSC_RUBY_FREED = 1, // stands in place of a class that was freed
};

struct sosc_ruby_type { // a class that has had objects
	uint64_t class; // addr, 0 if this entry is free
	uint64_t name; // addr of UTF-8 text, 0 if there is no name
	uint32_t size; // bytes of the name
	uint32_t asked; // whether Ruby was asked for the name
};

struct sosc_ruby_row { // the objects of one origin and type
	uint32_t origin;
	uint32_t type; // SOSC_RUBY_BUILTIN + index of the class, or RUBY_T_...
	uint64_t count; // 0 if the row is empty
	uint64_t bytes;
	uint64_t squares; // sum of the squares of the objects' sizes; UINT64_MAX: or more
};

enum sosc_ref { // kinds of the words of a part, in the three low bits
	SOSC_REF_OBJECT = 0, // addr of an object that the holder refers to
	SOSC_REF_HOLDER = 1, // addr of an object; the following words are what it refers to
	SOSC_REF_TYPE = 2, // addr of the type object of the holder
	SOSC_REF_FRAME = 3, // addr of a running frame, as holder
	SOSC_REF_THREAD = 4, // addr of a thread state, as holder
	// a word in the holder that may be an object's address, current or stale
	SOSC_REF_MAYBE = 5,
	// addr of a text << 3, as holder: roots of Ruby itself that refer to what follows
	SOSC_REF_ROOT = 6,
	SOSC_REF_KEY = 7, // addr of a key of the holder, which is a dictionary
};

enum { SOSC_REF_BITS = 7 };

struct sosc_refs { // which objects refer to which, in the process's private memory
	uint64_t words; // addr of u64[count]
	uint64_t count;
	uint64_t lost; // objects whose references are missing for lack of room
	uint64_t is_last; // 1: this part is the last
	uint64_t modules; // Python: addr of the dictionary sys.modules
};

// The side table: addr >> 34 selects a table, addr >> 20 selects an array of words in that, addr >>
// 4 selects the word.
enum {
	SOSC_SIDE_TOPS = 8192,
	SOSC_SIDE_LEAVES = 16384,
	SOSC_SIDE_WORDS = 65536,
	SOSC_SIDE_ORIGIN = 0x07ffffff, // bits of a word: index of the origin
	SOSC_SIDE_SINCE = 0x08000000, // made after the program began to count its own objects
	// Python: its deallocation was announced; it may be resurrected
	SOSC_SIDE_DYING = 0x10000000,
	// Ruby: an object that the program's own request does not count
	SOSC_SIDE_OLDER = 0x10000000,
	// two bits: offset of the object in its block, in units of 16 bytes; 3: 8 bytes
	SOSC_SIDE_SHIFT = 29,
};

#define SOSC_SIDE_USED 0x80000000u

struct sosc_origin { // a place in code that makes objects
	// the code object, with bits that tell it from a later code object at its address, 0 if no
	// code ran
	uint64_t code;
	uint64_t file;
	uint64_t name;
	uint64_t lines;
	uint64_t copy; // addr of struct sosc_code
	uint32_t first_line;
	int32_t instr; // offset in bytes from the first instruction; Ruby: the line number
	// SAMPLE: size in bytes by which its objects are chosen, 0 if each one is counted
	uint32_t size;
	uint32_t reserved;
};

// What a code object contained when it was first seen. Behind it: the file's name, the code's name,
// the line table, without padding.
struct sosc_code {
	uint32_t first_line;
	uint32_t file_size; // bytes
	uint32_t file_width; // bytes of a character: 1 (Latin-1), 2 or 4, 0 if the text is UTF-8
	uint32_t name_size;
	uint32_t name_width;
	uint32_t lines_size;
};

#endif
