// SPDX-License-Identifier: Apache-2.0
// A plugin's face: what programs look up in the libraries that they dlopen.
#ifndef SOSC_PLUG_H
#define SOSC_PLUG_H

int plug_run(int times); // calls f0 that many times, says so, returns times

#endif
