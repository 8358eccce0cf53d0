// SPDX-License-Identifier: Apache-2.0
// target: select=iconv@MAIN,iconv_open@MAIN,getpwuid@MAIN,getaddrinfo@MAIN
// Libraries that libc itself loads: character sets and name services.
#include "truth.h"

#include <iconv.h>
#include <netdb.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

COUNTED(iconv);
COUNTED(iconv_open);
COUNTED(getpwuid);
COUNTED(getaddrinfo);

int main(void)
{
	int sum = 0;
	static const char *const sets[] = {"UTF-16LE", "UTF-32", "KOI8-R", "ISO-8859-15"};
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 4; i++) {
			char from[] = "text", to[64];
			char *in = from, *out = to;
			size_t left = 4, room = sizeof to;
			iconv_t cd = CALL(iconv_open, sets[i], "ISO-8859-1");
			if (cd == (iconv_t)-1)
				continue; // a machine without that module
			CHECK(CALL(iconv, cd, &in, &left, &out, &room) == 0);
			sum += (int)(sizeof to - room);
			iconv_close(cd);
		}
	struct passwd *user = CALL(getpwuid, 0);
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *found = 0;
	int error = CALL(getaddrinfo, "127.0.0.1", "80", &hints, &found);
	CHECK(!error && found);
	freeaddrinfo(found);
	REPORT(iconv);
	REPORT(iconv_open);
	REPORT(getpwuid);
	REPORT(getaddrinfo);
	printf("iconv %d %s\n", sum, user ? user->pw_name : "nobody");
	return 0;
}
