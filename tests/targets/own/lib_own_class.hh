// SPDX-License-Identifier: Apache-2.0
// A class with functions of every kind.
#pragma once
#include <string>

namespace own {
struct vector {
	double x, y;
};

class shape {
	int id;
	std::string label;

    public:
	enum class kind : unsigned char { ROUND, SQUARE };
	shape(int id, const std::string &label);
	~shape();
	double scale(double by) const;
	std::string name(int n) const;
	vector move(vector by, kind k);
	char *bytes(); // may be any, with no end
	const char *word() const;
	static long count(const char *what, bool deep);
	template <class T> T twice(T t);
};

int none_of_it(const vector &v, shape *s, long long n);
}
