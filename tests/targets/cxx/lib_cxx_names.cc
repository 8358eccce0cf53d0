// SPDX-License-Identifier: Apache-2.0
#include "lib_cxx_names.h"

namespace shop {

basket::basket(char const *owner, int size)
    : owner_(owner)
    , sum_(size)
{
}
basket::basket(std::string const &owner, double limit)
    : owner_(owner)
    , sum_((long)limit)
{
}
basket::~basket() = default;
int basket::count(int from, unsigned long to) const
{
	return (int)(to - (unsigned long)from);
}
std::string basket::owner() const
{
	return owner_;
}
std::string basket::label(int width) const
{
	return owner_ + std::string((size_t)width, '.');
}
basket &basket::add(char const *what, long price)
{
	sum_ += price + (what ? 1 : 0);
	return *this;
}
int basket::made(int how_many)
{
	return how_many + 1;
}
void basket::tell(std::string const &to, bool loudly)
{
	sum_ += (long)to.size() + loudly;
}

std::string titled(char const *what)
{
	return what;
}
int bar(int a, double b, std::string const &c)
{
	return a + (int)b + (int)c.size();
}
colour next(colour now, short by)
{
	return by ? GREEN : now;
}
void fill(std::string &out, char const &c, int const &n)
{
	out.assign((size_t)n, c);
}

} // namespace shop

int plain(char a, unsigned b, float c, long long d, bool e)
{
	return a + (int)b + (int)c + (int)d + e;
}
std::string joined(int a, char const *b)
{
	return b + std::to_string(a);
}
long many(int a, int b, int c, int d, int e, int f, int g, std::string const &h)
{
	return a + b + c + d + e + f + g + (long)h.size();
}
int ignoring(std::string const &)
{
	return 1;
}
int varied(char const *first, ...)
{
	return first ? 1 : 0;
}
long by_value(int a, shop::basket b, int c)
{
	return a + b.count(0, 1) + c;
}
template <class T> T twice(T of, char const *)
{
	return of + of;
}
template int twice<int>(int, char const *);
template double twice<double>(double, char const *);
template <class T> std::string text_of(T of)
{
	return std::to_string(of);
}
template std::string text_of<int>(int);
