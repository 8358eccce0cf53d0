// SPDX-License-Identifier: Apache-2.0
// The agent at rest: between sessions it keeps its code, its trampolines and what they lead to, since
// addresses of trampolines may have been copied anywhere. Whatever else belongs to a session is given
// back. soscope calls this when all that was changed is as it was, all threads stand still and none of
// them is in the agent, or will return there.

#include "entry/rest.h"
#include "call/cell.h"
#include "image/changes.h"
#include "thread/counts.h"
#include "hook/execs.h"
#include "base/instrument.h"
#include "objects/common/objects.h"
#include "blocks/threadstacks.h"
#include "base/memory.h"
#include "prof/prof.h"
#include "ring/record.h"
#include "base/session.h"
#include "hook/shadow.h"
#include "call/site.h"
#include "base/sys.h"
#include "thread/thread.h"

/**
 * Give memory back. Return: 0, or with nothing done -EBUSY where the objects of an interpreter are
 * counted, which goes on without a session, or -EINVAL where something is still changed.
 */
__attribute__((visibility("default"))) long soscope_agent_rest(uint64_t unused)
{
	(void)unused;
	if (sosc_inside.change_count || !sosc_threads)
		return -EINVAL;
	if (sosc_objects_count)
		return -EBUSY;
	sosc_instruments_rest();
	sosc_execs_rest();
	sosc_cells_rest();
	sosc_prof_rest();
	sosc_shadow_rest();
	sosc_threads_rest();
	sosc_memory_rest();
	sosc_made_threads_rest();
	sosc_objects_rest();
	sosc_counts_rest();
	sosc_session_rest();
	sosc_strings_again();
	sosc_memory_clear(sosc_hints, sizeof(sosc_hints));
	sosc_memory_clear(sosc_changes, sizeof(sosc_changes));
	sosc_inside.is_resting = 1;
	return 0;
}
