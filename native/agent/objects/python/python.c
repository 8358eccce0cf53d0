// SPDX-License-Identifier: Apache-2.0
// Starts and ends the counting of CPython's objects. Up to 3.12 the function that announces
// references to tracemalloc is replaced. Later versions have a tracer for references. All hooks are
// set while the interpreter's lock (the GIL) is held: in a pending call, or by a thread that takes
// the lock.
//
// The hooks belong to the interpreter's library, and Python objects that were made for them belong
// to the interpreter. Both may end before the program does, if the program only embeds Python, and
// both may come back later. The library reports the interpreter's end. The loader reports that the
// library is unloaded, but only during a session. So the library is searched for again at each
// order.

#include "objects/python/python.h"
#include "base/memory.h"
#include "image/image.h"
#include "image/lookup.h"
#include "objects/common/picks.h"
#include "objects/common/side.h"
#include "objects/python/pythonrecent.h"
#include "stack/walk.h"

enum {
	METH_NOARGS = 4, // methodobject.h
	FILE_INPUT = 257, // Py_file_input
	MINOR_WITH_TRACER = 13,
};

struct sosc_python_api sosc_python;
struct sosc_python sosc_python_layout;

// a copy, since each session makes its lists anew; .map is NULL if none is known
static struct sosc_loaded interpreter;
static bool is_pending;
static bool is_in_place; // some hook is set and has to be removed
static uint64_t jump_at; // where the jump was written, 0 if there is none
static uint8_t jump_before[SOSC_JUMP_SIZE], jump[SOSC_JUMP_SIZE];
static void *at_exit_function; // a Python object that belongs to the interpreter
static bool has_run; // the source that soscope has given has been run
static bool is_heard_last; // Py_AtExit will call taken_apart

static struct { // PyMethodDef
	const char *name;
	sosc_c_function *function;
	int flags;
	const char *text;
} at_exit;

// ---- names -----------------------------------------------------------------------

/**
 * Return whether the interpreter has a function or a variable of this name. Its address is stored
 * at @to.
 */
bool sosc_python_look_up(void *to, const char *name)
{
	uint64_t addr = sosc_function_of(&interpreter, name);

	memcpy(to, &addr, sizeof(addr));
	return addr != 0;
}

static bool look_up(void *to, const char *name)
{
	if (sosc_python_look_up(to, name))
		return true;
	sosc_objects_refuse(SOSC_OBJECTS_NO_FUNCTION, name);
	return false;
}

#define NEEDED(name) look_up(&sosc_python.name, #name)

static bool look_all_up(void)
{
	return NEEDED(Py_GetVersion) && NEEDED(Py_IncRef) && NEEDED(Py_DecRef) &&
	       NEEDED(PyErr_Clear) && NEEDED(PyImport_ImportModule) &&
	       NEEDED(PyObject_GetAttrString) && NEEDED(PyObject_CallFunctionObjArgs) &&
	       NEEDED(PyCFunction_NewEx) && NEEDED(PyLong_FromLong) && NEEDED(PyBool_FromLong) &&
	       NEEDED(PyList_New) && NEEDED(PyBytes_FromStringAndSize) &&
	       NEEDED(PyMem_GetAllocator) && NEEDED(PyMem_SetAllocator) && NEEDED(_Py_NoneStruct) &&
	       NEEDED(PyCode_Type) && NEEDED(PyCFunction_Type) && NEEDED(PyList_Type) &&
	       NEEDED(Py_AtExit);
}

static bool choose_layout(void)
{
	const char *version = sosc_python.Py_GetVersion();
	uint32_t count;
	const struct sosc_python *layouts = sosc_objects_layouts(&count);
	const struct sosc_python *known = sosc_python_known(version, layouts, count);

	if (known)
		sosc_python_layout = *known;
	else if (sosc_python_is_free_threaded(version))
		sosc_objects_refuse(SOSC_OBJECTS_NO_GIL, NULL);
	else
		sosc_objects_refuse(SOSC_OBJECTS_NO_LAYOUT, version);
	return known;
}

static bool look_up_of_version(void)
{
	sosc_python.PyRefTracer_SetTracer = NULL;
	sosc_python.PyRefTracer_GetTracer = NULL;
	if (sosc_python_layout.minor < MINOR_WITH_TRACER)
		return look_up(&sosc_python.thread_state, "_PyThreadState_UncheckedGet");
	return look_up(&sosc_python.thread_state, "PyThreadState_GetUnchecked") &&
	       NEEDED(PyRefTracer_SetTracer) && NEEDED(PyRefTracer_GetTracer);
}

// ---- references ------------------------------------------------------------------

// 3.9 exports the function. In later versions it is the first function that _Py_NewReference calls,
// and gets the object. Link-time optimisation may have inlined it into _Py_NewReference. Then the
// first call there is of another function with another argument, and no function can be replaced.
static uint64_t announcement(void)
{
	uint64_t code = sosc_function_of(&interpreter, "_PyTraceMalloc_NewReference");
	const char *caller = "_Py_NewReference";
	const Elf64_Sym *symbol;

	if (code)
		return sosc_code_readable(&interpreter, code) ? code : 0;
	symbol = sosc_lookup(&interpreter, caller, sosc_gnu_hash(caller), NULL);
	if (!symbol)
		return 0;
	code = interpreter.bias + symbol->st_value;
	return sosc_first_call(code, symbol->st_size, &interpreter);
}

static bool hear_of_references(void)
{
	uint64_t code;

	sosc_recent_begin(&sosc_python_layout,
			  sosc_returned_word((uint64_t)sosc_python.thread_state));
	if (sosc_python.PyRefTracer_SetTracer) {
		sosc_python_tracer(true);
		return sosc_python_tracer_is_ours() && sosc_tracemalloc_share(true);
	}
	code = announcement();
	if (!code || !sosc_tracemalloc_share(false))
		return false;
	memcpy(jump_before, (const void *)code, sizeof(jump_before));
	if (!sosc_write_jump(code, sosc_python_announced()))
		return false;
	memcpy(jump, (const void *)code, sizeof(jump));
	jump_at = code;
	return true;
}

/**
 * Return whether objects are still announced to the agent. Another tool may have taken the tracer.
 */
bool sosc_python_is_told(void)
{
	return !sosc_python.PyRefTracer_GetTracer || sosc_python_tracer_is_ours();
}

// ---- the end ---------------------------------------------------------------------

// Calls a function of a module and drops its result. Returns whether it has returned without an
// exception.
static bool call_in(const char *module_name, const char *name, void *argument)
{
	void *module = sosc_python.PyImport_ImportModule(module_name);
	void *function = module ? sosc_python.PyObject_GetAttrString(module, name) : NULL;
	void *done = NULL;

	if (function)
		done = sosc_python.PyObject_CallFunctionObjArgs(function, argument, NULL);
	for (int i = 0; i < 3; i++) {
		void *object = i == 0 ? done : i == 1 ? function : module;

		if (object)
			sosc_python.Py_DecRef(object);
	}
	if (!done)
		sosc_python.PyErr_Clear();
	return done;
}

// Calls gc.collect, since PyGC_Collect does nothing if the program has switched the collector off.
static void collect_garbage(void)
{
	(void)call_in("gc", "collect", NULL);
}

static int hear_again(void *unused)
{
	(void)unused;
	if (at_exit_function)
		(void)call_in("atexit", "register", at_exit_function);
	return 0;
}

// The program ends by itself: its exit handlers have run, and this one, the first registered, is
// called last. If Python code is still running, that code has called the exit handlers.
static void *ended(void *self, void *arguments)
{
	const struct sosc_objects *plan = sosc_objects_plan();

	(void)self;
	(void)arguments;
	if (sosc_objects_count && sosc_python_runs()) {
		(void)sosc_python.Py_AddPendingCall(hear_again, NULL);
		sosc_python.Py_IncRef(sosc_python._Py_NoneStruct);
		return sosc_python._Py_NoneStruct;
	}
	if (sosc_objects_count && !sosc_python_is_told())
		sosc_objects_refuse(SOSC_OBJECTS_REPLACED, NULL);
	if (sosc_objects_count && plan) {
		if (plan->flags & SOSC_OBJECTS_COLLECT)
			collect_garbage();
		(void)sosc_objects_ask(SOSC_OBJECTS_AT_END);
	}
	sosc_objects_count = false;
	sosc_picks_end();
	sosc_python.Py_IncRef(sosc_python._Py_NoneStruct);
	return sosc_python._Py_NoneStruct;
}

// All objects have ended, together with the counting that the program has asked for, and with all
// that was registered with the interpreter.
static void forget_objects(void)
{
	at_exit_function = NULL;
	is_heard_last = false;
	has_run = false;
	sosc_objects_begun = sosc_objects_made = false;
	sosc_objects_since = 0;
	sosc_python_made_forget();
}

// The interpreter has been finalized. If soscope was not asked before that began, the objects are
// no longer those that lived at the program's end. The hooks stay: the library may be initialized
// again.
static void taken_apart(void)
{
	if (sosc_objects_count)
		sosc_objects_refuse(SOSC_OBJECTS_NO_END, NULL);
	forget_objects();
}

static bool hear_of_end(void)
{
	if (!is_heard_last && !sosc_python.Py_AtExit(taken_apart))
		is_heard_last = true;
	if (!sosc_objects_plan())
		return true; // the program itself counts, and calls the agent when it ends
	at_exit.name = "soscope";
	at_exit.function = ended;
	at_exit.flags = METH_NOARGS;
	at_exit_function = sosc_python.PyCFunction_NewEx(&at_exit, NULL, NULL);
	if (!at_exit_function)
		sosc_python.PyErr_Clear();
	return at_exit_function && call_in("atexit", "register", at_exit_function);
}

static void forget_end(void)
{
	if (!at_exit_function)
		return;
	(void)call_in("atexit", "unregister", at_exit_function);
	sosc_python.Py_DecRef(at_exit_function);
	at_exit_function = NULL;
}

// ---- Python source that soscope wants to be run ------------------------------------

// Runs before objects are counted, so the objects that it makes are not counted.
static void run_source(void)
{
	const struct sosc_objects *plan = sosc_objects_plan();
	void *names, *done = NULL;

	if (!plan || !plan->source || has_run || !NEEDED(PyRun_String) || !NEEDED(PyDict_New))
		return;
	has_run = true;
	names = sosc_python.PyDict_New();
	if (names)
		done = sosc_python.PyRun_String((const char *)plan + plan->source, FILE_INPUT,
						names, names);
	if (done)
		sosc_python.Py_DecRef(done);
	else
		sosc_python.PyErr_Clear();
	if (names)
		sosc_python.Py_DecRef(names);
}

// ---- which interpreter -------------------------------------------------------------

// The library has been unloaded, with all hooks in it. None of its memory may be accessed any more.
static void forget(void)
{
	interpreter.map = NULL;
	sosc_objects_count = false;
	is_in_place = false;
	is_pending = false;
	jump_at = 0;
	forget_objects();
	sosc_tracemalloc_forget();
	sosc_python_forget_tracer();
	sosc_recent_forget();
}

static bool is_known(const struct sosc_loaded *image)
{
	return interpreter.map && image->map && interpreter.bias == image->bias &&
	       interpreter.dynamic == image->dynamic && interpreter.symtab == image->symtab;
}

/** From now on @image is the image that contains the interpreter. */
void sosc_python_know(const struct sosc_loaded *image)
{
	// the same library may have been unloaded and loaded again at the same address
	if (interpreter.map && (!is_known(image) || !sosc_tracemalloc_is_in_place()))
		forget();
	interpreter = *image;
}

/** Return whether @map is the library that contains the known interpreter. */
bool sosc_python_is_at(const struct link_map *map)
{
	return interpreter.map && interpreter.bias == map->l_addr &&
	       interpreter.dynamic == map->l_ld;
}

/** Return whether @addr lies in the interpreter's image. */
bool sosc_python_has(uint64_t addr)
{
	return addr >= interpreter.start && addr < interpreter.end;
}

/** An image has been unloaded. */
void sosc_python_closed(const struct sosc_loaded *image)
{
	if (!is_known(image))
		return;
	if (sosc_objects_count)
		sosc_objects_refuse(SOSC_OBJECTS_NO_END, NULL);
	forget();
}

static bool find_interpreter(void)
{
	const struct sosc_loaded *found = NULL;

	for (uint32_t i = 0; i < sosc_loaded_count; i++) {
		const struct sosc_loaded *image = &sosc_loaded[i];

		if (image->map && (is_known(image) || (!found && sosc_python_is_in(image))))
			found = image;
	}
	if (found)
		sosc_python_know(found);
	else if (interpreter.map)
		forget();
	return found;
}

// ---- begin and end -----------------------------------------------------------------

// Removes all hooks. If others have been set on top of a hook, it stays, with all that it needs.
static void leave(void)
{
	sosc_objects_count = false;
	if (!is_in_place)
		return; // the interpreter's functions may be unknown
	is_in_place = false;
	if (jump_at && !memcmp((const void *)jump_at, jump, sizeof(jump)))
		(void)sosc_write(jump_at, jump_before, sizeof(jump_before), true);
	if (sosc_python.PyRefTracer_GetTracer && sosc_python_tracer_is_ours())
		sosc_python_tracer(false);
	jump_at = 0;
	sosc_tracemalloc_leave();
	(void)sosc_python_allocator(false);
	forget_end();
}

static void refuse(enum sosc_objects_refusal why)
{
	leave();
	sosc_objects_refuse(why, NULL);
}

static void begin_counting(bool with_older)
{
	leave(); // hooks that a child has inherited, if its counting was stopped
	sosc_side_clear();
	if (!look_all_up() || !choose_layout() || !look_up_of_version())
		return;
	run_source();
	is_in_place = true;
	if (!hear_of_end())
		refuse(SOSC_OBJECTS_NO_END);
	else if (!sosc_objects_begin(SOSC_RUNTIME_PYTHON, sosc_python_layout.minor))
		refuse(SOSC_OBJECTS_NO_MEMORY);
	else if (sosc_tracemalloc_is_shared())
		refuse(SOSC_OBJECTS_TAKEN);
	else if (!hear_of_references())
		refuse(SOSC_OBJECTS_NO_CODE);
	else if (!sosc_python_allocator(true) || !sosc_python_counts_right())
		refuse(SOSC_OBJECTS_WRONG);
	else if (with_older && !sosc_python_mark_older())
		refuse(SOSC_OBJECTS_NO_MEMORY);
	else
		sosc_objects_ready();
}

// The interpreter's allocations during this are not the program's, so they are not recorded.
static int begin(void *with_older)
{
	if (sosc_objects_count)
		return 0; // counted since an earlier session
	sosc_stack_visitor = sosc_thread_pointer();
	begin_counting(with_older);
	sosc_stack_visitor = 0;
	return 0;
}

/**
 * An image that contains an interpreter makes a call. If the interpreter is initialized, add a
 * pending call that begins to count.
 */
void sosc_python_try(const struct sosc_loaded *image)
{
	if (__atomic_load_n(&is_pending, __ATOMIC_RELAXED) ||
	    __atomic_exchange_n(&is_pending, true, __ATOMIC_ACQ_REL))
		return;
	sosc_python_know(image);
	if (!NEEDED(Py_IsInitialized) || !NEEDED(Py_AddPendingCall) ||
	    !sosc_python.Py_IsInitialized() || sosc_python.Py_AddPendingCall(begin, NULL))
		// or too many pending calls are waiting
		__atomic_store_n(&is_pending, false, __ATOMIC_RELEASE);
}

// ---- orders ----------------------------------------------------------------------

static int carry_out(void *order)
{
	switch ((enum sosc_objects_order)(uint64_t)order) {
	case SOSC_OBJECTS_BEGIN:
		(void)begin(order);
		break;
	case SOSC_OBJECTS_GARBAGE:
		if (sosc_objects_count)
			collect_garbage();
		break;
	case SOSC_OBJECTS_END:
		leave();
		break;
	case SOSC_OBJECTS_REFS:
		if (sosc_objects_count)
			sosc_python_refs();
		break;
	}
	sosc_objects_done((enum sosc_objects_order)(uint64_t)order);
	return 0;
}

/** Begin to count objects for the program itself, which holds the interpreter's lock. */
bool sosc_python_begin(void)
{
	if (!interpreter.map)
		return false;
	__atomic_store_n(&is_pending, true, __ATOMIC_RELEASE);
	(void)begin(&is_pending);
	return true;
}

/** The program does not count any more. */
void sosc_python_end(void)
{
	leave();
	sosc_objects_done(SOSC_OBJECTS_END);
}

/**
 * Carry out an order, now or soon. A thread that waits for soscope has usually released the
 * interpreter's lock and can take it. Any other thread may be in the middle of the interpreter's
 * own work, so it adds a pending call. Return whether there is an interpreter.
 */
bool sosc_python_order(const struct sosc_objects_call *call)
{
	void *order = (void *)(uint64_t)call->order;
	int state;

	if (!find_interpreter() || !NEEDED(Py_IsInitialized) || !NEEDED(Py_AddPendingCall) ||
	    !NEEDED(PyGILState_Ensure) || !NEEDED(PyGILState_Check) ||
	    !NEEDED(PyGILState_Release) || !sosc_python.Py_IsInitialized())
		return false;
	__atomic_store_n(&is_pending, true, __ATOMIC_RELEASE);
	if (!call->waits || sosc_python.PyGILState_Check())
		return !sosc_python.Py_AddPendingCall(carry_out, order);
	state = sosc_python.PyGILState_Ensure();
	(void)carry_out(order);
	sosc_python.PyGILState_Release(state);
	return true;
}
