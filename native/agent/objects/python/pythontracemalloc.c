// SPDX-License-Identifier: Apache-2.0
// Shares tracemalloc with the program. The program's calls of start and stop run with the agent's
// hooks removed: tracemalloc restores the allocators that it found, and the agent's allocators must
// not be among these when the agent has ended.
//
// Up to CPython 3.12, new references are announced only while tracemalloc traces, and its own
// tables have to exist, as extensions that track memory with it use them. So tracemalloc is really
// started, and then its allocators are removed again, so that it sees no allocation. is_tracing
// tells the program only about its own tracing. Later versions have one tracer of references for
// all: the agent's tracer calls tracemalloc's.

#include "image/image.h"
#include "objects/python/python.h"

enum {
	DEF = 16, // offset in a builtin function: its PyMethodDef
	FUNCTION = 8, // offset in the PyMethodDef: the function
};

static sosc_fast_function *start;
static sosc_c_function *stop, *is_tracing;
static bool is_theirs; // the program has started tracing
static bool is_blind; // tracemalloc traces only because the agent has started it
// Addresses in the interpreter's library that hold the replaced functions. NULL if none is
// replaced. As long as these words hold `ours`, it is still the same library.
static uint64_t *places[3];
static uint64_t ours[3];

static void take_down(void)
{
	struct sosc_allocator now;

	sosc_python.PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &now);
	sosc_python.Py_DecRef(
		stop(NULL, NULL)); // restores the allocator that it found, not the present one
	sosc_python.PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &now);
}

// Starts tracemalloc without letting it see any allocation.
static bool start_blind(void)
{
	struct sosc_allocator before[PYMEM_DOMAINS];
	void *depth = sosc_python.PyLong_FromLong(1), *done;

	if (!depth)
		return false;
	for (int domain = 0; domain < PYMEM_DOMAINS; domain++)
		sosc_python.PyMem_GetAllocator(domain, &before[domain]);
	done = start(NULL, &depth, 1);
	for (int domain = 0; domain < PYMEM_DOMAINS; domain++)
		sosc_python.PyMem_SetAllocator(domain, &before[domain]);
	sosc_python.Py_DecRef(depth);
	if (done)
		sosc_python.Py_DecRef(done);
	else
		sosc_python.PyErr_Clear();
	return done;
}

// ---- up to 3.12 ------------------------------------------------------------------

static void *start_theirs(void *self, void *const *arguments, int64_t count)
{
	void *done;

	if (is_blind)
		take_down();
	is_blind = false;
	(void)sosc_python_allocator(false);
	done = start(self, arguments, count);
	if (done)
		is_theirs = true;
	else if (!is_theirs)
		is_blind = start_blind();
	(void)sosc_python_allocator(true);
	return done;
}

static void *stop_theirs(void *self, void *arguments)
{
	void *done;

	if (!is_theirs) {
		sosc_python.Py_IncRef(sosc_python._Py_NoneStruct);
		return sosc_python._Py_NoneStruct;
	}
	(void)sosc_python_allocator(false);
	done = stop(self, arguments);
	is_theirs = false;
	is_blind = start_blind();
	(void)sosc_python_allocator(true);
	return done;
}

static void *tell(void *self, void *arguments)
{
	(void)self;
	(void)arguments;
	return sosc_python.PyBool_FromLong(is_theirs);
}

// ---- since 3.13 ------------------------------------------------------------------

static void *start_behind(void *self, void *const *arguments, int64_t count)
{
	void *done;

	sosc_python_tracer(false);
	(void)sosc_python_allocator(false);
	done = start(self, arguments, count);
	(void)sosc_python_allocator(true);
	sosc_python_tracer(true);
	return done;
}

static void *stop_behind(void *self, void *arguments)
{
	void *done;

	sosc_python_tracer(false);
	(void)sosc_python_allocator(false);
	done = stop(self, arguments);
	(void)sosc_python_allocator(true);
	sosc_python_tracer(true);
	return done;
}

// ---- replacing the functions -----------------------------------------------------

static uint64_t *place_of(void *module, const char *name)
{
	void *function = sosc_python.PyObject_GetAttrString(module, name);
	uint64_t def = 0;

	if (!function)
		return NULL;
	// otherwise it is the program's own function
	if (sosc_python_is_a(function, sosc_python.PyCFunction_Type))
		def = *(const uint64_t *)((uint64_t)function + DEF);
	sosc_python.Py_DecRef(function); // the module keeps a reference
	return def ? (uint64_t *)(def + FUNCTION) : NULL;
}

// Starts tracemalloc without letting it see any allocation, unless the program has started it.
static bool begin_blind(void *module)
{
	void *traces = is_tracing(module, NULL), *yes = sosc_python.PyBool_FromLong(1);

	is_theirs = traces == yes;
	if (traces)
		sosc_python.Py_DecRef(traces);
	sosc_python.Py_DecRef(yes);
	return is_theirs || start_blind();
}

/**
 * Return whether tracemalloc's functions are another agent's. Then objects are announced to that
 * agent.
 */
bool sosc_tracemalloc_is_shared(void)
{
	void *module = sosc_python.PyImport_ImportModule("_tracemalloc");
	uint64_t *starts = module ? place_of(module, "start") : NULL;
	bool is_its_own = starts && sosc_python_has(*starts);

	if (module)
		sosc_python.Py_DecRef(module);
	else
		sosc_python.PyErr_Clear();
	return starts && !is_its_own;
}

/**
 * Begin to share tracemalloc. The caller holds the interpreter's lock. @is_behind: this version has
 * a tracer of references, so nothing else is needed.
 */
bool sosc_tracemalloc_share(bool is_behind)
{
	void *module = sosc_python.PyImport_ImportModule("_tracemalloc");
	uint64_t *starts = module ? place_of(module, "start") : NULL;
	uint64_t *stops = module ? place_of(module, "stop") : NULL;
	uint64_t *tells = module ? place_of(module, "is_tracing") : NULL;
	bool done = false;

	if (starts && stops && tells) {
		memcpy(&start, starts, sizeof(start));
		memcpy(&stop, stops, sizeof(stop));
		memcpy(&is_tracing, tells, sizeof(is_tracing));
		done = is_behind || begin_blind(module);
	}
	if (done) {
		places[0] = starts;
		places[1] = stops;
		places[2] = tells;
		ours[0] = (uint64_t)(is_behind ? start_behind : start_theirs);
		ours[1] = (uint64_t)(is_behind ? stop_behind : stop_theirs);
		ours[2] = is_behind ? *tells : (uint64_t)tell;
		for (int i = 0; i < 3; i++)
			*places[i] = ours[i];
		is_blind = !is_behind && !is_theirs;
	}
	if (!done)
		sosc_python.PyErr_Clear();
	if (module)
		sosc_python.Py_DecRef(module);
	return done;
}

/** Return whether the replaced functions still lead to the agent, or none is replaced. */
bool sosc_tracemalloc_is_in_place(void)
{
	return !places[0] || *places[0] == ours[0];
}

/** The replaced functions have ended together with the interpreter's library. */
void sosc_tracemalloc_forget(void)
{
	places[0] = NULL;
	is_theirs = is_blind = false;
}

/** Leave tracemalloc to the program, in the state in which the program believes it to be. */
void sosc_tracemalloc_leave(void)
{
	if (!places[0])
		return;
	memcpy(places[0], &start, sizeof(start));
	memcpy(places[1], &stop, sizeof(stop));
	memcpy(places[2], &is_tracing, sizeof(is_tracing));
	places[0] = NULL;
	if (is_blind)
		take_down();
	is_blind = false;
}
