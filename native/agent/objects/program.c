// SPDX-License-Identifier: Apache-2.0
// A program that counts its own objects (soscope_mem, integrations/python). It calls this library
// like any C function, with its interpreter's lock held. If soscope observes the program, objects
// may be counted already. Then only the objects made after the program's request to begin are
// returned to it. Otherwise the program has loaded the agent as a library, and the interpreter's
// image is the only one that the agent knows.

#include "base/sys.h"
#include "image/image.h"
#include "objects/common/objects.h"
#include "objects/common/picks.h"
#include "objects/python/python.h"

static void know_interpreter(const struct sosc_program *program)
{
	static struct sosc_loaded image;
	struct link_map *images = (void *)program->images;

	for (struct link_map *map = images; map; map = map->l_next)
		if (sosc_python_is_at(map))
			return;
	for (struct link_map *map = images; map; map = map->l_next) {
		memset(&image, 0, sizeof(image));
		image.map = map;
		if (sosc_image_parse(&image, NULL) == 0 && sosc_python_is_in(&image)) {
			sosc_python_know(&image);
			return;
		}
	}
}

static void mark_older(uint64_t block, uint32_t *word, void *data)
{
	(void)block;
	(void)data;
	*word &= ~(uint32_t)SOSC_SIDE_SINCE;
}

static void be_told(const struct sosc_program *program)
{
	sosc_objects_alone((const void *)program->layouts, program->layout_count);
	if (!sosc_objects_count)
		sosc_objects_begun = sosc_python_begin() && sosc_objects_count;
}

static void begin(const struct sosc_program *program)
{
	be_told(program);
	if (sosc_objects_count && (sosc_objects_types || sosc_picks.is_on))
		return;
	sosc_side_each(mark_older, NULL);
	sosc_objects_since = sosc_objects_count ? SOSC_SIDE_SINCE : 0;
}

static void end(void)
{
	if (sosc_objects_begun && !sosc_objects_since && !sosc_objects_made) {
		sosc_python_end();
		sosc_objects_begun = false;
	}
}

static void made_begin(const struct sosc_program *program)
{
	be_told(program);
	if (!sosc_python_made_begin())
		sosc_objects_refuse(SOSC_OBJECTS_NO_MEMORY, NULL);
	sosc_objects_made = sosc_objects_count;
}

static void made_look(struct sosc_program *program)
{
	if (sosc_objects_count && !sosc_python_is_told())
		sosc_objects_refuse(SOSC_OBJECTS_REPLACED, NULL);
	sosc_python_made_look(program);
}

static bool look(struct sosc_program *program)
{
	if (sosc_objects_count && !sosc_python_is_told())
		sosc_objects_refuse(SOSC_OBJECTS_REPLACED, NULL);
	if (sosc_objects_count)
		sosc_python_look(program);
	return sosc_objects_count;
}

/**
 * Carry out an order of the program, which holds the interpreter's lock. Return 0, or -EINVAL if
 * the program was built for another version of the structs.
 */
__attribute__((visibility("default"))) long soscope_agent_program(struct sosc_program *program)
{
	if (program->size != sizeof(*program) || program->tables != SOSC_TABLES)
		return -EINVAL;
	know_interpreter(program);
	switch ((enum sosc_program_order)program->order) {
	case SOSC_PROGRAM_BEGIN:
		begin(program);
		break;
	case SOSC_PROGRAM_LOOK:
		(void)look(program);
		break;
	case SOSC_PROGRAM_LOOK_AND_BEGIN:
		if (look(program))
			sosc_side_each(mark_older, NULL);
		break;
	case SOSC_PROGRAM_END:
		sosc_objects_since = 0;
		end();
		break;
	case SOSC_PROGRAM_MADE_BEGIN:
		made_begin(program);
		break;
	case SOSC_PROGRAM_MADE_LOOK:
		made_look(program);
		break;
	case SOSC_PROGRAM_MADE_END:
		sosc_objects_made = false;
		sosc_python_made_end();
		end();
		break;
	case SOSC_PROGRAM_CHILD:
		sosc_objects_alone((const void *)program->layouts, program->layout_count);
		sosc_python_child(program);
		break;
	}
	sosc_objects_tell(program);
	if (sosc_objects_count && (sosc_objects_types || sosc_picks.is_on)) {
		program->state = SOSC_OBJECTS_REFUSED;
		program->refusal = sosc_objects_types ? SOSC_OBJECTS_NO_LINES :
							SOSC_OBJECTS_SAMPLED;
	}
	return 0;
}
