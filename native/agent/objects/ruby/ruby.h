// SPDX-License-Identifier: Apache-2.0
/** Ruby (CRuby 2.7 and newer): observe each object that it makes and frees. */
#ifndef SOSC_RUBY_H
#define SOSC_RUBY_H

#include "objects/common/objects.h"
#include "vm/cruby.h"

#pragma GCC visibility push(hidden)

struct sosc_loaded;

enum { SOSC_RUBY_SLOT = 40 }; // bytes that each object counts as in sampling

typedef int sosc_slots(void *start, void *end, size_t stride, void *data);

// Functions of the C API, under Ruby's own names.
struct sosc_ruby_api {
	int (*ruby_native_thread_p)(void);
	int (*ruby_thread_has_gvl_p)(void);
	sosc_value (*rb_tracepoint_new)(sosc_value thread, uint32_t events,
					void (*function)(sosc_value point, void *data), void *data);
	sosc_value (*rb_tracepoint_enable)(sosc_value point);
	sosc_value (*rb_tracepoint_disable)(sosc_value point);
	void *(*rb_tracearg_from_tracepoint)(sosc_value point);
	sosc_value (*rb_tracearg_object)(void *argument);
	void (*rb_set_end_proc)(void (*function)(sosc_value data), sosc_value data);
	void (*rb_gc_register_address)(sosc_value *at);
	void (*rb_gc_mark)(sosc_value object);
	sosc_value (*rb_gc_start)(void);
	sosc_value (*rb_gc_disable)(void);
	sosc_value (*rb_gc_enable)(void);
	sosc_value (*rb_gc_location)(sosc_value object);
	sosc_value (*rb_data_typed_object_wrap)(sosc_value class, void *data, const void *type);
	void (*rb_objspace_each_objects)(sosc_slots *function, void *data);
	int (*rb_objspace_internal_object_p)(sosc_value object);
	size_t (*rb_obj_memsize_of)(sosc_value object);
	sosc_value (*rb_class_real)(sosc_value class);
	sosc_value (*rb_mod_name)(sosc_value module);
	const char *(*rb_string_value_ptr)(volatile sosc_value *string);
	sosc_value (*rb_str_length)(sosc_value string);
	sosc_value (*rb_str_new)(const char *data, long size);
	uint64_t (*rb_intern)(const char *name);
	int (*rb_const_defined)(sosc_value class, uint64_t id);
	const sosc_value *rb_cObject;
	const char *ruby_version;
	// for the references between objects
	void (*rb_objspace_reachable_objects_from)(sosc_value object,
						   void (*function)(sosc_value object, void *data),
						   void *data);
	void (*rb_objspace_reachable_objects_from_root)(
		void (*function)(const char *category, sosc_value object, void *data), void *data);
	// only in some versions
	const char *(*rb_source_location_cstr)(int *line);
	const char *(*rb_sourcefile)(void);
	int (*rb_sourceline)(void);
	const sosc_value *rb_cRactor;
	sosc_value (*rb_gv_get)(const char *name);
	sosc_value (*rb_filesystem_str_new)(const char *data, long size);
	sosc_value (*rb_ary_new)(void);
	sosc_value (*rb_ary_push)(sosc_value array, sosc_value element);
	sosc_value (*rb_utf8_str_new)(const char *data, long size);
	sosc_value (*rb_define_module)(const char *name);
	sosc_value (*rb_define_module_under)(sosc_value outer, const char *name);
	void (*rb_define_module_function)(sosc_value module, const char *name,
					  void (*function)(void), int arguments);
	int (*rb_postponed_job_register_one)(unsigned flags, void (*function)(void *), void *data);
	unsigned (*rb_postponed_job_preregister)(unsigned flags, void (*function)(void *), void *);
	void (*rb_postponed_job_trigger)(unsigned handle);
};

struct sosc_text;

struct sosc_ruby_place { // a live object
	uint64_t addr;
	uint32_t origin;
	uint32_t type; // as in a row
};

struct sosc_ruby_places {
	struct sosc_ruby_place *places;
	uint64_t count;
	uint64_t size; // bytes
};

struct sosc_ruby_rows { // counts of live objects
	const struct sosc_ruby_row *rows; // some rows are empty
	uint64_t count;
	uint64_t lost; // objects for which there was no row left
};

extern struct sosc_ruby_api sosc_rb;

/** Return whether an object is a class or a module, which may have a name. */
static inline bool sosc_ruby_is_class(sosc_value object)
{
	uint32_t kind = sosc_ruby_kind(object);

	return kind == KIND_CLASS || kind == KIND_MODULE;
}

/** Return whether the second word of objects of this kind is a class, or 0. */
static inline bool sosc_ruby_has_class(uint32_t kind)
{
	return kind < KIND_IMEMO;
}

void sosc_ruby_refs(void);
void sosc_ruby_try(const struct sosc_loaded *image);
uint32_t sosc_ruby_origin(void);
void sosc_ruby_origins_rest(void);
void sosc_ruby_disown(const char *text);
void sosc_ruby_offer(void);
void sosc_ruby_meet(const char *file);
bool sosc_ruby_postpone(unsigned *handle, void (*job)(void *));
bool sosc_ruby_places(uint32_t bits, struct sosc_ruby_places *places);
void sosc_ruby_places_free(const struct sosc_ruby_places *places);
struct sosc_text sosc_ruby_type_text(uint32_t type);
struct sosc_text sosc_ruby_file_text(uint32_t origin);
uint32_t sosc_ruby_line(uint32_t origin);
sosc_value sosc_ruby_stats(uint32_t bits, uint64_t *lost);
bool sosc_ruby_resume(void);
bool sosc_ruby_look_up(void *to, const char *name);
bool sosc_ruby_types_begin(void);
void sosc_ruby_types_end(void);
void sosc_ruby_types_rest(void);
void sosc_ruby_types_ask(void);
void sosc_ruby_types_walk(void);
void sosc_ruby_types_walked(void);
void sosc_ruby_types_keep(void);
void sosc_ruby_types_forget(sosc_value class);
bool sosc_ruby_type_note(sosc_value class);
uint32_t sosc_ruby_type_meet(sosc_value class);
void sosc_ruby_look(void);
bool sosc_ruby_count(uint32_t bits, struct sosc_ruby_rows *counted);
void sosc_ruby_rows_free(const struct sosc_ruby_rows *counted);
void sosc_ruby_take_older(void);
bool sosc_ruby_order(const struct sosc_objects_call *call);
void sosc_ruby_hear_of_moves(void);
void sosc_ruby_type_move(uint32_t at, sosc_value class);

extern bool sosc_ruby_has_compacted;
extern bool sosc_ruby_looks; // the last look: objects made during it are not the program's
extern uint64_t sosc_ruby_hidden; // pointer of the thread whose objects are not the program's
extern uint64_t sosc_ruby_made[SOSC_RUBY_KIND + 1]; // objects that were made so far, by RUBY_T_...

extern struct sosc_ruby_type *sosc_ruby_types;

enum { TYPES_TRIED = 64 }; // entries that are tried behind the first one

static inline uint32_t sosc_ruby_type_first(sosc_value class)
{
	return (uint32_t)((class >> 3) * 0x9e3779b97f4a7c15 >> 48);
}

/** Return whether a class is already known, and stands in the first entry for its address. */
static inline bool sosc_ruby_type_is_known(sosc_value class)
{
	return sosc_ruby_types[sosc_ruby_type_first(class)].class == class;
}

#pragma GCC visibility pop

#endif
