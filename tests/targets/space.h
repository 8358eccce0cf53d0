// SPDX-License-Identifier: Apache-2.0
// libspace and libspace_throw: what a program asks of libraries in other namespaces.
#ifndef SOSC_SPACE_H
#define SOSC_SPACE_H
#ifdef __cplusplus
extern "C" {
#endif

int space_calls(int times); // of f0; times
int space_threads(int times); // calls of f1 in each of four threads; times
int space_memory(int times); // blocks of the namespace's own heap; times
int space_error(int times); // files that cannot be opened; times
int space_fork(int times); // calls in a child and in the parent; times
int space_throw(int times); // exceptions through a hooked frame; times
void space_report(void);

#ifdef __cplusplus
}
#endif
#endif
