// SPDX-License-Identifier: Apache-2.0
/** CPython: observe each object that it makes and each block that it frees. */
#ifndef SOSC_PYTHON_H
#define SOSC_PYTHON_H

#include "objects/common/objects.h"
#include "vm/cpython.h"

#pragma GCC visibility push(hidden)

struct sosc_allocator { // PyMemAllocatorEx (cpython/pymem.h)
	void *ctx;
	void *(*malloc)(void *ctx, size_t size);
	void *(*calloc)(void *ctx, size_t count, size_t size);
	void *(*realloc)(void *ctx, void *block, size_t size);
	void (*free)(void *ctx, void *block);
};

enum { SOSC_JUMP_SIZE = 16 }; // bytes that sosc_write_jump writes

// bytes of the garbage collector's header in front of an object (PyGC_Head)
enum { SOSC_PYTHON_HEAD = 16 };

enum { PYMEM_DOMAIN_RAW, PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ, PYMEM_DOMAINS };

typedef void *sosc_c_function(void *self, void *arguments);
typedef int sosc_tracer(void *object, int event, void *data);
typedef void *sosc_fast_function(void *self, void *const *arguments, int64_t count);

// Functions of the C API, under CPython's own names.
struct sosc_python_api {
	int (*Py_IsInitialized)(void);
	int (*Py_AtExit)(void (*function)(void));
	int (*Py_AddPendingCall)(int (*function)(void *), void *argument);
	const char *(*Py_GetVersion)(void);
	void (*Py_IncRef)(void *object);
	void (*Py_DecRef)(void *object);
	void (*PyErr_Clear)(void);
	void *(*PyImport_ImportModule)(const char *name);
	void *(*PyObject_GetAttrString)(void *object, const char *name);
	void *(*PyObject_CallFunctionObjArgs)(void *callable, ...);
	void *(*PyCFunction_NewEx)(void *def, void *self, void *module);
	void *(*PyLong_FromLong)(long value);
	void *(*PyBool_FromLong)(long value);
	void *(*PyList_New)(int64_t size);
	void *(*PyBytes_FromStringAndSize)(const char *data, int64_t size);
	void (*PyMem_GetAllocator)(int domain, struct sosc_allocator *allocator);
	void (*PyMem_SetAllocator)(int domain, const struct sosc_allocator *allocator);
	void *_Py_NoneStruct;
	void *PyCode_Type;
	void *PyCFunction_Type;
	void *PyList_Type;
	// for a process that runs already
	int (*PyGILState_Ensure)(void);
	int (*PyGILState_Check)(void);
	void (*PyGILState_Release)(int state);
	// for a program that soscope has started
	void *(*PyRun_String)(const char *text, int start, void *globals, void *locals);
	void *(*PyDict_New)(void);
	// for the references between objects
	int (*PyObject_GC_IsTracked)(void *object);
	void *(*PyImport_GetModuleDict)(void);
	void *(*PyThreadState_GetInterpreter)(void *state);
	void *(*PyInterpreterState_ThreadHead)(void *interpreter);
	void *(*PyThreadState_Next)(void *state);
	void *PyTuple_Type;
	void *PyDict_Type;
	// only in some versions
	void *(*thread_state)(void);
	int (*PyRefTracer_SetTracer)(sosc_tracer *tracer, void *data);
	sosc_tracer *(*PyRefTracer_GetTracer)(void **data);
};

struct sosc_recent;

extern struct sosc_python_api sosc_python;
extern struct sosc_python sosc_python_layout;

bool sosc_python_look_up(void *to, const char *name);
void sosc_python_refs(void);
void sosc_python_try(const struct sosc_loaded *image);
uint32_t sosc_python_origin(uint32_t size, struct sosc_recent *place);
bool sosc_python_runs(void);
bool sosc_python_is_a(const void *object, const void *type);
uint32_t sosc_python_shift(uint64_t object);
bool sosc_python_mark_older(void);
struct link_map;

void sosc_python_know(const struct sosc_loaded *image);
bool sosc_python_is_at(const struct link_map *map);
bool sosc_python_has(uint64_t addr);
void sosc_python_closed(const struct sosc_loaded *image);
bool sosc_python_begin(void);
void sosc_python_end(void);
bool sosc_python_is_told(void);
void sosc_python_look(struct sosc_program *program);
void sosc_python_look_anew(void);
bool sosc_python_is_type(uint64_t addr);
bool sosc_python_is_alive(uint64_t object, uint32_t word, uint64_t head[2]);
uint64_t sosc_python_object(uint64_t block, uint32_t word);
void sosc_python_heap(const struct sosc_program *program, struct sosc_program_dump *dump,
		      bool counted);
void sosc_python_child(struct sosc_program *program);
bool sosc_python_made_begin(void);
void sosc_python_made_end(void);
void sosc_python_made_forget(void);
void sosc_python_made(uint64_t type, uint32_t origin);
void sosc_python_made_look(struct sosc_program *program);
bool sosc_tracemalloc_is_shared(void);
bool sosc_python_order(const struct sosc_objects_call *call);
bool sosc_tracemalloc_share(bool is_behind);
void sosc_tracemalloc_leave(void);
bool sosc_tracemalloc_is_in_place(void);
void sosc_tracemalloc_forget(void);
int sosc_python_referenced(uint64_t object);
void sosc_python_freed(void *ctx, void *block);
void sosc_python_tracer(bool is_ours);
bool sosc_python_tracer_is_ours(void);
void sosc_python_forget_tracer(void);
bool sosc_python_allocator(bool is_ours);
bool sosc_python_counts_right(void);
uint64_t sosc_python_announced(void);
uint64_t sosc_returned_word(uint64_t code);
uint64_t sosc_first_call(uint64_t code, uint64_t size, const struct sosc_loaded *image);
bool sosc_write_jump(uint64_t at, uint64_t to);

#pragma GCC visibility pop

#endif
