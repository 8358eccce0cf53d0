// SPDX-License-Identifier: Apache-2.0
// Exceptions that leave a call of a library by way of its callback. A library for traced.py.
#include <stdexcept>
#include <string>

extern "C" {
struct sqlite3;
int sqlite3_open(const char *name, sqlite3 **base);
int sqlite3_exec(sqlite3 *base, const char *text, int (*callback)(void *, int, char **, char **),
		 void *data, char **error);
}

namespace {
int cleaned;

struct Cleaner {
	~Cleaner()
	{
		cleaned++;
	}
};

int leave(void *data, int, char **, char **)
{
	throw std::runtime_error(*static_cast<std::string *>(data));
}

void ask(sqlite3 *base, std::string &text)
{
	Cleaner cleaner;

	sqlite3_exec(base, "select 1", leave, &text, nullptr);
}
} // namespace

/** Leave sqlite3_exec @times. How often that was caught, and 1000 times the destructors that ran. */
extern "C" int thrown(int times)
{
	int caught = 0;

	cleaned = 0;
	for (int i = 0; i < times; i++) {
		std::string text = "number " + std::to_string(i);
		sqlite3 *base; // it is left, with its lock held

		sqlite3_open(":memory:", &base);
		try {
			ask(base, text);
		} catch (const std::exception &error) {
			caught += error.what() == text;
		}
	}
	return caught + 1000 * cleaned;
}
