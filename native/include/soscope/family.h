/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The malloc family: one row for each function, for C, for assembly, and for Python.
 *
 * A new member is one row of SOSC_FAMILY_RARE (it makes a block), SOSC_FAMILY_FREES (it only frees
 * one) or SOSC_FAMILY_MAPPINGS; `python scripts/wire.py` then writes the names into Python, into
 * the sets of prototypes/ and into the manual. The columns of a function that makes a block:
 *
 *	name	    its symbol, and the end of its handlers' names
 *	API, number its constant of enum sosc_block_api; recordings hold the number
 *	frees	    the argument with the block that it frees, or NONE
 *	asks	    SIZE: argument `first` is the size; PRODUCT: the size is `first` times `second`
 *	gets	    BLOCK: the result is the new address; BLOCK_AT: argument 0 says where to store it
 *	operation   its name in the counts of soscope_prof
 */
#ifndef SOSCOPE_FAMILY_H
#define SOSCOPE_FAMILY_H

/* clang-format off */
/* its handlers are written by hand */
#define SOSC_FAMILY_MALLOC(ROW) \
	ROW(malloc, MALLOC, 1, NONE, SIZE, 0, 0, BLOCK, "malloc")
/* their handlers of SAMPLE are written by hand */
#define SOSC_FAMILY_FREQUENT(ROW) \
	ROW(calloc, CALLOC, 2, NONE, PRODUCT, 0, 1, BLOCK, "calloc") \
	ROW(realloc, REALLOC, 3, 0, SIZE, 1, 0, BLOCK, "realloc")
#define SOSC_FAMILY_RARE(ROW) \
	ROW(reallocarray, REALLOCARRAY, 4, 0, PRODUCT, 1, 2, BLOCK, "realloc") \
	ROW(posix_memalign, POSIX_MEMALIGN, 5, NONE, SIZE, 2, 0, BLOCK_AT, "memalign") \
	ROW(aligned_alloc, ALIGNED_ALLOC, 6, NONE, SIZE, 1, 0, BLOCK, "memalign") \
	ROW(memalign, MEMALIGN, 7, NONE, SIZE, 1, 0, BLOCK, "memalign") \
	ROW(valloc, VALLOC, 8, NONE, SIZE, 0, 0, BLOCK, "memalign") \
	ROW(pvalloc, PVALLOC, 9, NONE, SIZE, 0, 0, BLOCK, "memalign")
/* operator new and new[]: their symbols begin with _Znw and _Zna */
#define SOSC_FAMILY_NEW(ROW) \
	ROW(new, NEW, 10, NONE, SIZE, 0, 0, BLOCK, "") \
	ROW(new_array, NEW_ARRAY, 11, NONE, SIZE, 0, 0, BLOCK, "")

/* all that have a symbol; of those with handlers of their own, all */
#define SOSC_FAMILY_ALLOCATORS(ROW) \
	SOSC_FAMILY_MALLOC(ROW) SOSC_FAMILY_FREQUENT(ROW) SOSC_FAMILY_RARE(ROW)
#define SOSC_FAMILY_MAKERS(ROW) SOSC_FAMILY_ALLOCATORS(ROW) SOSC_FAMILY_NEW(ROW)

/* functions that free a block: name */
#define SOSC_FAMILY_FREES(ROW) ROW(free) ROW(cfree) ROW(free_sized) ROW(free_aligned_sized)

/* functions that make, move or remove mappings: name, the end of the handler's name */
#define SOSC_FAMILY_MAPPINGS(ROW) \
	ROW(mmap, mmap) ROW(mmap64, mmap) ROW(munmap, munmap) ROW(mremap, mremap) ROW(brk, brk) \
	ROW(sbrk, sbrk)
/* their constants of enum sosc_block_api; those of new threads are made of their stacks */
#define SOSC_FAMILY_MAPPING_APIS(ROW) \
	ROW(MMAP, 12) ROW(MREMAP, 13) ROW(BRK, 14) ROW(SBRK, 15) \
	ROW(PTHREAD_CREATE, 16) ROW(THRD_CREATE, 17)
/* clang-format on */

#endif
