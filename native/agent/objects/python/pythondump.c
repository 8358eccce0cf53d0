// SPDX-License-Identifier: Apache-2.0
// The child of a Python program in which its objects are written out, while the program goes on.
// It is no child that the program hears of: a process in between forks it (sosc_fork_apart).
//
// The list of objects is made before the interpreter gets to know that it is a child's: it ends the
// other threads' states then. All objects that there are have one reference more, so nothing of the
// program's is ended by that, and none of its finalizers runs.

#include "base/sys.h"
#include "call/handler.h"
#include "objects/python/python.h"

enum { SIGNALS_SIZE = 8 }; // bytes of a set of signals

typedef void *callable(void *function, ...);

static void in_child(struct sosc_program *program, struct sosc_program_dump *dump)
{
	callable *call = (callable *)dump->call;
	bool counted = sosc_objects_count;

	dump->between = dump->child = 0;
	sosc_objects_count = false; // what the child makes itself is no object of the program's
	(void)call((void *)dump->disable, NULL);
	sosc_python_heap(program, dump, counted);
	program->origins = sosc_objects_tally.origins;
	program->origin_count = counted ? sosc_objects_tally.origin_count : 0;
	((void (*)(void))dump->after_child)();
}

/** Fork a child that has a list of objects, and says nothing to anybody: signals are blocked. */
void sosc_python_child(struct sosc_program *program)
{
	struct sosc_program_dump *dump = (struct sosc_program_dump *)program->dump;
	uint64_t all = ~0ull, before;

	dump->child = -1;
	((void (*)(void))dump->before)();
	(void)sosc_sys6(SYS_RT_SIGPROCMASK, SIG_SETMASK, (long)&all, (long)&before, SIGNALS_SIZE, 0,
			0);
	dump->between = sosc_fork_apart(dump->fork, &dump->child);
	if (dump->between == 0) {
		in_child(program, dump);
		return;
	}
	(void)sosc_sys6(SYS_RT_SIGPROCMASK, SIG_SETMASK, (long)&before, 0, SIGNALS_SIZE, 0, 0);
	((void (*)(void))dump->after_parent)();
}
