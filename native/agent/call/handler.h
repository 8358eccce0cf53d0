// SPDX-License-Identifier: Apache-2.0
/**
 * Between the assembly (arch_*.S) and C: the handlers to which cells and return trampolines lead,
 * and the C functions that these handlers call.
 */
#ifndef SOSC_HANDLER_H
#define SOSC_HANDLER_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_cell;
struct sosc_parked;
struct sosc_regs;
struct sosc_site;
struct sosc_thread;

// ---- handlers, and other code of which only the address is used ------------------

void sosc_h_jump(void);
void sosc_h_alias(void);
void sosc_h_count(void);
void sosc_h_count_callers(void);
void sosc_h_stats(void);
void sosc_h_stats_entry(void);
void sosc_h_entry(void);
void sosc_h_entry_six(void);
void sosc_h_call(void);
void sosc_h_call_six(void);
void sosc_h_program(void);
void sosc_h_count_gated(void);
void sosc_h_count_callers_gated(void);
void sosc_h_stats_gated(void);
void sosc_h_stats_entry_gated(void);
void sosc_h_entry_gated(void);
void sosc_h_entry_six_gated(void);
void sosc_h_call_gated(void);
void sosc_h_call_six_gated(void);
void sosc_h_program_gated(void);
void sosc_h_stack_gated(void);
void sosc_h_stack(void);
void sosc_h_init(void);
void sosc_h_resolve(void);
void sosc_h_layer(void);
void sosc_h_inject(void);
void sosc_h_iterate(void);
void sosc_h_backtrace(void);
void sosc_h_walk(void);
void sosc_h_walk_ip(void);
void sosc_h_walk_ip_info(void);
void sosc_x_plain(void);
void sosc_x_call(void);
void sosc_x_stats(void);
void sosc_x_layer(void);
void sosc_return_now(void);
void sosc_empty(void);
void sosc_loader_jump(void);
uint64_t sosc_call_often(uint64_t function, uint64_t times);
uint64_t sosc_call_apart(uint64_t function, uint64_t times);
long sosc_fork_apart(uint64_t function, int32_t *child);

uint64_t sosc_exit_handler_of(enum sosc_instrument_kind kind);

// ---- called from assembly -----------------------------------------------------

struct sosc_thread *sosc_thread_slow(struct sosc_cell *cell);
struct sosc_thread *sosc_thread_slow_exit(struct sosc_site *site);
uint64_t sosc_ring_slow_entry(struct sosc_cell *cell, struct sosc_thread *thread, uint32_t bytes);
uint64_t sosc_ring_slow_exit(struct sosc_site *site, struct sosc_thread *thread, uint32_t bytes);
uint64_t sosc_site_slow(struct sosc_cell *cell, struct sosc_thread *thread, uint64_t ret);
void sosc_site_rebound(uint64_t code);
uint32_t *sosc_gate_slow(struct sosc_cell *cell);
void sosc_count_slow(struct sosc_cell *cell);
uint64_t sosc_counter_learn(struct sosc_cell *cell, const void *unused, uint64_t ret);
void sosc_stats_slow(struct sosc_cell *cell);
struct sosc_parked *sosc_park_slow(struct sosc_cell *cell, struct sosc_thread *thread, uint64_t sp);
void sosc_stats_exit(struct sosc_regs *regs, uint64_t now);
uint64_t sosc_layer_entry(struct sosc_regs *regs);
uint64_t sosc_layer_entry_counted(struct sosc_regs *regs, uint64_t number);
void sosc_layer_exit(struct sosc_regs *regs);
uint64_t sosc_trace_entry(struct sosc_regs *regs);
uint64_t sosc_trace_entry_stack(struct sosc_regs *regs, uint64_t fp);
void sosc_trace_exit(struct sosc_regs *regs);
uint64_t sosc_image_init(struct sosc_cell *cell);
void sosc_preload(int argc, char **argv, char **envp);

#pragma GCC visibility pop

#endif
