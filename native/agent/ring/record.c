// SPDX-License-Identifier: Apache-2.0
// Records of images, and the section of strings that holds the names in all records. soscope reads
// both, and processes that share the control block share both.

#include "ring/record.h"
#include "base/arch.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sys.h"
#include "image/image.h"
#include "image/lookup.h"

enum { BITS = 13, PROBES = 8 };
static struct {
	uint32_t hash, at;
} cache[(1 << BITS) + PROBES];

/** Another control block: it has none of the strings yet. */
void sosc_strings_again(void)
{
	sosc_memory_clear(cache, sizeof(cache));
}

/**
 * Return the offset in SEC_STRINGS of a copy of @text. Return 0, the empty string, if the section
 * is full. Equal strings are stored once, as far as a small cache finds them.
 */
uint32_t sosc_string(const char *text)
{
	uint32_t hash = sosc_gnu_hash(text), place = hash * 0x9e3779b1u >> (32 - BITS);
	char *strings = sosc_section(SOSC_SEC_STRINGS);
	uint64_t room = sosc_session->section[SOSC_SEC_STRINGS].size;
	uint32_t size = 1, at, free = place;

	if (!*text)
		return 0;
	for (uint32_t i = place; i < place + PROBES; i++) {
		if (!cache[i].at) {
			free = i;
			break;
		}
		if (cache[i].hash == hash && sosc_same(strings + cache[i].at, text))
			return cache[i].at;
	}
	while (text[size - 1])
		size++;
	at = __atomic_fetch_add(&sosc_control->strings, size, __ATOMIC_RELAXED);
	if ((uint64_t)at + size > room)
		return 0;
	memcpy(strings + at, text, size);
	cache[free].hash = hash;
	cache[free].at = at;
	return at;
}

/** Return the string at an offset from a record; "" if the offset is not valid. */
const char *sosc_string_at(uint32_t offset)
{
	static const char none[] = "";
	const char *strings = sosc_section(SOSC_SEC_STRINGS);

	return offset < sosc_session->section[SOSC_SEC_STRINGS].size ? strings + offset : none;
}

static bool same_record(const struct sosc_image *record, const struct sosc_loaded *image)
{
	return record->ready && record->ns == image->ns && record->load_bias == image->bias &&
	       record->start == image->start && record->end == image->end &&
	       record->build_id_size == image->build_id_size &&
	       memcmp(record->build_id, image->build_id, sizeof(record->build_id)) == 0 &&
	       sosc_same(sosc_string_at(record->path), image->path);
}

// Finds a record of @image among the first @count.
static uint32_t find_record(const struct sosc_loaded *image, uint32_t count)
{
	const struct sosc_image *records = sosc_section(SOSC_SEC_IMAGES);

	for (uint32_t i = 0; i < count && i < SOSC_MAX_IMAGES; i++)
		if (same_record(&records[i], image))
			return i;
	return SOSC_NONE;
}

// Waits while another process writes a record. That takes microseconds unless the process loses its
// processor. If the process was killed meanwhile, the record will never be complete: it is
// abandoned, so that no process waits for it again.
static void wait_for_record(struct sosc_image *record)
{
	enum { LOOKS = 1000, NAP_NS = 1000000, PATIENCE_NS = 100000000 };
	uint32_t pid = __atomic_load_n(&record->pid, __ATOMIC_RELAXED), looks = 0;
	uint64_t waited = 0;

	while (!__atomic_load_n(&record->ready, __ATOMIC_ACQUIRE) && pid != SOSC_NONE) {
		if (looks++ < LOOKS)
			sosc_pause();
		else if (waited < PATIENCE_NS)
			waited += sosc_wait(&record->ready, 0, NAP_NS);
		else if (__atomic_compare_exchange_n(&record->pid, &pid, SOSC_NONE, false,
						     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return;
		pid = __atomic_load_n(&record->pid, __ATOMIC_RELAXED);
	}
}

// ---- which image was at an address at some time -----------------------------------

bool sosc_images_told_apart;

// tsc of the last move of this process or its ancestors, 0 if there is none
static uint64_t last_move;

static void move(enum sosc_move_kind kind, uint32_t image, uint32_t pid, uint32_t parent,
		 uint64_t tsc)
{
	struct sosc_move *moves = sosc_section(SOSC_SEC_MOVES), *mine;
	uint32_t at = __atomic_load_n(&sosc_control->moves, __ATOMIC_RELAXED);

	if (at <= SOSC_MAX_MOVES) // else it is already known that some are lost
		at = __atomic_fetch_add(&sosc_control->moves, 1, __ATOMIC_RELAXED);
	if (at < SOSC_MAX_MOVES) {
		mine = &moves[at];
		mine->image = image;
		mine->pid = pid;
		mine->parent = parent;
		mine->tsc = tsc;
		mine->since = last_move;
		__atomic_store_n(&mine->kind, kind, __ATOMIC_RELEASE);
	}
	if (kind != SOSC_MOVE_FORKED)
		last_move = tsc;
}

/** This process, @pid, was forked by @parent, and has its parent's images. */
void sosc_images_forked(uint32_t pid, uint32_t parent)
{
	if (last_move && pid)
		move(SOSC_MOVE_FORKED, SOSC_NONE, pid, parent, sosc_ticks());
}

static uint32_t this_process(void)
{
	return (uint32_t)sosc_sys3(SYS_GETPID, 0, 0, 0);
}

/** A session begins with another control block. */
void sosc_images_again(void)
{
	sosc_images_told_apart = false;
	last_move = 0;
}

/** Return the number that marks an address in the image (SOSC_IMAGE_SHIFT). */
uint64_t sosc_image_number(const struct sosc_loaded *image)
{
	return image && image->index < SOSC_MAX_IMAGES ? image->index + 1 : SOSC_NO_IMAGE;
}

/**
 * Return a return address with the number of its image, if another image was at that address
 * before, because the address would not tell them apart. So an address without a number lies in the
 * first image that was there.
 */
uint64_t sosc_with_image(uint64_t ret)
{
	const struct sosc_loaded *image = sosc_image_of(ret - 1);

	if (ret >> SOSC_IMAGE_SHIFT || (image && !image->told_apart))
		return ret;
	return ret | sosc_image_number(image) << SOSC_IMAGE_SHIFT;
}

// Returns whether an image with an earlier record was mapped where this one is. All earlier records
// are complete by now.
static bool has_followed(const struct sosc_loaded *image)
{
	const struct sosc_image *records = sosc_section(SOSC_SEC_IMAGES);

	if (image->index >= SOSC_MAX_IMAGES)
		return true;
	for (uint32_t i = 0; i < image->index; i++)
		if (records[i].ready && records[i].start < image->end &&
		    image->start < records[i].end)
			return true;
	return false;
}

// The image was loaded just now, and none of its code has run.
static void has_come(struct sosc_loaded *image)
{
	image->told_apart = has_followed(image);
	if (image->told_apart)
		sosc_images_told_apart = true;
	if (image->index < SOSC_MAX_IMAGES)
		move(SOSC_MOVE_CAME, image->index, this_process(), 0, sosc_ticks());
}

/** The image was unloaded. None of its code has run @since. If that is 0, use the present time. */
void sosc_image_closed(const struct sosc_loaded *image, uint64_t since)
{
	struct sosc_image *records = sosc_section(SOSC_SEC_IMAGES);

	if (image->index >= SOSC_MAX_IMAGES || image->loader)
		return;
	records[image->index].flags |= SOSC_IMAGE_CLOSED;
	move(SOSC_MOVE_WENT, image->index, this_process(), 0, since ? since : sosc_ticks());
}

// An image that is loaded again at the same address gets its old record. So does an image that
// another process has loaded, if the processes share their records. If both write a record, the
// first is kept.
static void give_record(struct sosc_loaded *image, uint32_t flags)
{
	struct sosc_image *records = sosc_section(SOSC_SEC_IMAGES), *record;
	uint32_t index = SOSC_NONE;

	if (!(flags & SOSC_IMAGE_STARTUP))
		index = find_record(image,
				    __atomic_load_n(&sosc_control->images, __ATOMIC_ACQUIRE));
	image->index = index;
	if (index != SOSC_NONE) {
		records[index].flags &= ~(uint32_t)SOSC_IMAGE_CLOSED;
		return;
	}
	index = __atomic_fetch_add(&sosc_control->images, 1, __ATOMIC_ACQ_REL);
	if (index >= SOSC_MAX_IMAGES) {
		__atomic_fetch_add(&sosc_control->images_dropped, 1, __ATOMIC_RELAXED);
		return;
	}
	record = &records[index];
	record->name = sosc_string(image->name);
	record->path = sosc_string(image->path);
	record->load_bias = image->bias;
	record->start = image->start;
	record->end = image->end;
	memcpy(record->build_id, image->build_id, sizeof(record->build_id));
	record->build_id_size = image->build_id_size;
	record->flags = flags | (image->main ? SOSC_IMAGE_MAIN : 0) |
			(image->loader ? SOSC_IMAGE_LOADER : 0);
	record->ns = image->ns;
	record->pid = this_process();
	record->tsc = sosc_ticks();
	image->index = index;
	if (!(flags & SOSC_IMAGE_STARTUP) && sosc_session->flags & SOSC_FLAG_FOLLOW) {
		for (uint32_t i = 0; i < index; i++)
			wait_for_record(&records[i]);
		image->index = find_record(image, index);
		if (image->index != SOSC_NONE) {
			__atomic_store_n(&record->pid, SOSC_NONE, __ATOMIC_RELAXED);
			return; // this record never becomes ready
		}
		image->index = index;
	}
	__atomic_store_n(&record->ready, 1, __ATOMIC_RELEASE);
}

/** Give the image its record. The image counts as loaded from now on. */
void sosc_image_record(struct sosc_loaded *image, uint32_t flags)
{
	give_record(image, flags);
	if (!(flags & SOSC_IMAGE_STARTUP))
		has_come(image);
}
