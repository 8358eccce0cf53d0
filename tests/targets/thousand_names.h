// SPDX-License-Identifier: Apache-2.0
// NAMES(X) is X(0000) X(0001) ... X(1999): two thousand functions fr0000, fr0001, …
#define NAMES10(X, n) \
	X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define NAMES100(X, n)   \
	NAMES10(X, n##0) \
	NAMES10(X, n##1) \
	NAMES10(X, n##2) \
	NAMES10(X, n##3) \
	NAMES10(X, n##4) \
	NAMES10(X, n##5) NAMES10(X, n##6) NAMES10(X, n##7) NAMES10(X, n##8) NAMES10(X, n##9)
#define NAMES1000(X, n)   \
	NAMES100(X, n##0) \
	NAMES100(X, n##1) \
	NAMES100(X, n##2) \
	NAMES100(X, n##3) \
	NAMES100(X, n##4) \
	NAMES100(X, n##5) NAMES100(X, n##6) NAMES100(X, n##7) NAMES100(X, n##8) NAMES100(X, n##9)
#define NAMES(X) NAMES1000(X, 0) NAMES1000(X, 1)
