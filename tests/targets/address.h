// SPDX-License-Identifier: Apache-2.0
#ifndef SOSC_ADDRESS_H
#define SOSC_ADDRESS_H

int (*gaddress(void))(int); // what libaddress takes f0's address for

#endif
