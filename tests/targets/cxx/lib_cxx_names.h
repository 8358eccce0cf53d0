// SPDX-License-Identifier: Apache-2.0
// A library of C++ whose functions are known by their mangled names alone.
#pragma once
#include <iosfwd>
#include <string>

namespace shop {

enum colour { RED, GREEN = 7 };

class basket {
    public:
	basket(char const *owner, int size);
	basket(std::string const &owner, double limit);
	~basket();
	int count(int from, unsigned long to) const;
	std::string owner() const;
	std::string label(int width) const;
	basket &add(char const *what, long price);
	static int made(int how_many);
	virtual void tell(std::string const &to, bool loudly);

    private:
	std::string owner_;
	long sum_;
};

std::string titled(char const *what);
int bar(int a, double b, std::string const &c);
colour next(colour now, short by);
void fill(std::string &out, char const &c, int const &n);

} // namespace shop

int plain(char a, unsigned b, float c, long long d, bool e);
std::string joined(int a, char const *b);
long many(int a, int b, int c, int d, int e, int f, int g, std::string const &h);
int varied(char const *first, ...);
int ignoring(std::string const &one);
long by_value(int a, shop::basket b, int c);
template <class T> T twice(T of, char const *why);
template <class T> std::string text_of(T of);
