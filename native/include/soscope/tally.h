// SPDX-License-Identifier: Apache-2.0
/**
 * Calls that a program counts itself, by purpose (soscope_mem.trace): the program's requests and
 * the agent's answers.
 */
#ifndef SOSCOPE_TALLY_H
#define SOSCOPE_TALLY_H

#include <stdint.h>

enum {
	SOSC_TALLY_KINDS = 12, // kinds of statements, or of answers
	SOSC_TALLY_NAME = 48, // bytes of a function's name, with its NUL
	SOSC_TALLY_OPERATION = 24,
	SOSC_TALLY_PATH = 120,
	SOSC_TALLY_LEFTS = 256, // most rows for slots that are not counted
};

enum sosc_tally_order {
	SOSC_TALLY_OPEN = 1, // hook slots; when repeated, slots of images loaded since
	SOSC_TALLY_LOOK = 2, // copy the counters
	SOSC_TALLY_CLOSE = 3, // give all slots their old values back
};

enum sosc_tally_group {
	SOSC_TALLY_NONE = 0, // no group: the function only announces that images are loaded
	SOSC_TALLY_FD = 1,
	SOSC_TALLY_MEMORY = 2,
	SOSC_TALLY_POSTGRES = 3,
	SOSC_TALLY_MYSQL = 4,
	SOSC_TALLY_MEMCACHE = 5,
	SOSC_TALLY_REDIS = 6,
	SOSC_TALLY_SQLITE = 7,
	SOSC_TALLY_SSL = 8,
	SOSC_TALLY_GROUPS = 9,
};

enum sosc_tally_requested { // what a call requests
	SOSC_ASKS_NOTHING = 0,
	SOSC_ASKS_SIZE = 1, // argument `first`, in bytes
	SOSC_ASKS_PRODUCT = 2, // `first` times `second`
	SOSC_ASKS_VECTOR = 3, // struct iovec[] at `first`, `second` of them
	SOSC_ASKS_MESSAGE = 4, // struct msghdr at `first`
	// a statement at `first`, of `second` bytes; if `second` is SOSC_TALLY_NO, up to its NUL
	SOSC_ASKS_TEXT = 5,
	SOSC_ASKS_STEP = 6, // the SQLite statement (sqlite3_stmt *) at `first`
	SOSC_ASKS_PREPARED = 7, // a prepared statement, given by name only
	SOSC_ASKS_INT = 8, // as SOSC_ASKS_SIZE, with 32 bits
};

enum sosc_tally_actual { // what a call obtained
	SOSC_GETS_NOTHING = 0,
	SOSC_GETS_RESULT = 1, // the result, if it is above zero
	SOSC_GETS_BLOCK = 2, // the result is a block of memory
	// the address of a block is stored at argument `third`, if the result is zero
	SOSC_GETS_BLOCK_AT = 3,
	SOSC_GIVES_BLOCK = 4, // frees the block at argument `first`
	SOSC_GETS_SIZE_AT = 5, // a size_t at argument `third`, if the result is not NULL
	SOSC_GETS_INT = 6, // as SOSC_GETS_RESULT, with 32 bits
	SOSC_GETS_SIZE_IF = 7, // as SOSC_GETS_SIZE_AT, if the result (32 bits) is not zero
};

enum sosc_tally_flag {
	SOSC_TALLY_QUERY = 1, // the call is a query
	SOSC_TALLY_GOES_ON = 2, // its return is not seen
	SOSC_TALLY_ANSWER = 4, // the result is an answer (a code of libmemcached)
	SOSC_TALLY_ANSWER_AT = 8, // argument `fourth` points to the answer
	SOSC_TALLY_IN = 16, // the first argument is a descriptor that is read from
	SOSC_TALLY_OUT = 32, // … that is written to
	SOSC_TALLY_CONNECT = 64, // … that is connected
	SOSC_TALLY_ENDS = 128, // … that is closed
	SOSC_TALLY_MAKES = 256, // the result is a new descriptor
	SOSC_TALLY_COMES = 512, // the call may load an image
	SOSC_TALLY_VFORKS = 1024,
};

#define SOSC_TALLY_NO 255 // in place of an argument's number

enum sosc_tally_kind { // of a statement, then of an answer
	SOSC_TALLY_SELECT = 0,
	SOSC_TALLY_INSERT = 1,
	SOSC_TALLY_UPDATE = 2,
	SOSC_TALLY_DELETE = 3,
	SOSC_TALLY_PREPARED = 4,
	SOSC_TALLY_OTHER = 5,

	SOSC_TALLY_SUCCESS = 0,
	SOSC_TALLY_NOT_FOUND = 1,
	SOSC_TALLY_NOT_STORED = 2,
	SOSC_TALLY_EXISTS = 3,
	SOSC_TALLY_FAILED = 5,

	SOSC_TALLY_UNSIZED = 0, // memory: blocks whose size no function may be asked for
};

struct sosc_tally_function {
	char name[SOSC_TALLY_NAME];
	char operation[SOSC_TALLY_OPERATION]; // name under which the call is counted
	uint8_t group;
	uint8_t requested;
	uint8_t first;
	uint8_t second;
	uint8_t actual;
	uint8_t third;
	uint8_t fourth;
	uint8_t words; // arguments on the stack, in words; even
	uint16_t flags;
	uint16_t reserved[3];
};

struct sosc_tally_count { // of one function
	uint64_t calls;
	uint64_t ticks; // total ticks from call to return
	uint64_t requested; // bytes
	uint64_t actual;
	uint64_t kinds[SOSC_TALLY_KINDS];
};

struct sosc_tally_wire { // of one group's connections
	uint64_t connects;
	uint64_t sends;
	uint64_t sent; // bytes
	uint64_t receives;
	uint64_t received; // bytes
	uint64_t round_trips;
	uint64_t ticks;
	uint64_t reserved;
};

enum sosc_tally_why { // why a slot is not counted
	SOSC_TALLY_ADDRESS = 1, // code loads the address from it: the calls cannot be told apart
	SOSC_TALLY_FOREIGN = 2, // it leads to code outside all images
	SOSC_TALLY_READ_ONLY = 3, // it cannot be written
	SOSC_TALLY_FULL = 4, // there is no room
	SOSC_TALLY_STUBS = 5, // it is not bound, and its stubs are of an unknown kind
	SOSC_TALLY_LOADING = 6, // its image is being loaded
	SOSC_TALLY_TAKEN = 7, // other code has changed it meanwhile
	SOSC_TALLY_WHYS = 8,
};

struct sosc_tally_left { // a slot that is not counted
	uint32_t function;
	uint32_t why;
	uint8_t path[SOSC_TALLY_PATH]; // path of the image
};

struct sosc_tally { // argument of soscope_agent_tally
	uint32_t size; // of this struct
	uint32_t order; // enum sosc_tally_order
	uint64_t tables; // SOSC_TABLES
	uint64_t images; // addr of the first struct link_map
	uint64_t iterate; // addr of dl_iterate_phdr
	uint64_t usable; // addr of malloc_usable_size, 0 if the process has none
	uint64_t resident; // base address of an agent that soscope has put in, 0 if there is none
	uint64_t counts; // addr of struct sosc_tally_count[], for the answer
	uint64_t wires; // addr of struct sosc_tally_wire[SOSC_TALLY_GROUPS], for the answer
	uint32_t count_room; // elements of `counts`
	uint32_t flags; // 1: the clock may not be read
	// the answer
	uint64_t functions; // addr of struct sosc_tally_function[]
	uint32_t function_count;
	uint32_t slots; // number of slots that are counted
	uint64_t lefts; // addr of struct sosc_tally_left[]
	uint32_t left_count; // slots that have a row in `lefts`
	uint32_t left_more; // slots that are not counted and have no row
	uint64_t ticks; // current time
	uint64_t found; // addr of u32[]: the number of counted slots of each function
	// images that contain SQLite; if there are several, no text of statements is read
	uint32_t sqlites;
	uint32_t reserved;
};

#endif
