// SPDX-License-Identifier: Apache-2.0
// libmid: a library that calls libleaf, so that a library has slots of its own.
#ifndef SOSC_MID_H
#define SOSC_MID_H

int gmid(int x, int times); // calls f0 that many times on x
void gmid_report(void); // says how many calls of f0 that were

#endif
