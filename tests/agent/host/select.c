// SPDX-License-Identifier: Apache-2.0
// select PATTERNS RULES FUNCTIONS QUERIES: the agent's answer to each query. A query is a line
//
//	SYMBOL CALLER CALLER_PATH CALLER_MAIN CALLEE CALLEE_PATH CALLEE_MAIN
//
// tab separated; CALLEE "-" is an unknown one. Prints 0, or 1 and what the table of functions
// says: flags, prototype.
#include "host.h"

#include "image/image.h"
#include "hook/select.h"

#include <string.h>

static char *field(char **line)
{
	return strsep(line, "\t\n");
}

static void read_image(struct sosc_loaded *image, char **line)
{
	memset(image, 0, sizeof(*image));
	image->name = field(line);
	image->path = field(line);
	image->main = *field(line) == '1';
}

int main(int argc, char **argv)
{
	static const enum sosc_section sections[] = {SOSC_SEC_PATTERNS, SOSC_SEC_RULES,
						     SOSC_SEC_FUNCTIONS};
	char text[8192], *line;
	FILE *queries;

	CHECK(argc == 5);
	host_control(SOSC_INSTRUMENT_COUNT, 1);
	for (int i = 0; i < 3; i++) {
		uint64_t size;
		void *bytes = host_read(argv[i + 1], &size);

		host_section(sections[i], bytes, size);
	}
	queries = fopen(argv[4], "r");
	CHECK(queries);
	while ((line = fgets(text, sizeof(text), queries))) {
		char *symbol = field(&line), *version = field(&line);
		struct sosc_loaded caller, callee;
		struct sosc_choice choice;
		bool wanted;

		read_image(&caller, &line);
		read_image(&callee, &line);
		sosc_select_image(&caller, false);
		wanted = sosc_select_slot(symbol, strcmp(version, "-") ? version : NULL,
					  strcmp(callee.name, "-") ? &callee : NULL, &choice);
		if (wanted)
			printf("1 %u %u\n", choice.of[0].flags, choice.of[0].function->prototype);
		else
			puts("0");
	}
	for (uint32_t i = 0; i < sosc_session->rules; i++)
		printf("rule %u\n", ((uint32_t *)sosc_section(SOSC_SEC_MATCHES))[i]);
	return 0;
}
