// SPDX-License-Identifier: Apache-2.0
/**
 * The control blocks of this process, and what the plan of the present one contains: struct
 * sosc_session.
 */
#ifndef SOSC_SESSION_H
#define SOSC_SESSION_H

#include "base/agent.h"

#pragma GCC visibility push(hidden)

struct sosc_start;

enum { SOSC_BLOCKS = 8 }; // places that control blocks take in turn

long sosc_session_map(const struct sosc_start *start);
void sosc_session_forget_plan(void);
const struct sosc_plan_head *sosc_session_plan(void);
bool sosc_session_begin(uint64_t control_size, const struct sosc_plan_head *head, uint64_t size);
uint32_t sosc_session_place(void);
void sosc_session_see_no_exits(void);
void sosc_session_replace(uint64_t at, uint64_t size, uint64_t kept);
void sosc_session_leave(void);
void sosc_session_rest(void);

#pragma GCC visibility pop

#endif
