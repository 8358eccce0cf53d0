// SPDX-License-Identifier: Apache-2.0
// What these functions return is made of what they take, so that nothing is left out.
#include "libcxx.h"

namespace shop {

basket::basket(const std::string &name, int count)
    : count_(count)
    , name_(name)
{
}

int basket::add(const std::string &what, int count)
{
	return count_ += count * (int)what.size();
}

int basket::count() const
{
	return count_;
}

long basket::sum(short a, double b, const char *c) const
{
	return a + (long)b + c[0];
}

int basket::made(int more)
{
	return more + 1;
}

std::string basket::name() const
{
	return name_;
}

basket &basket::operator+=(int count)
{
	count_ += count;
	return *this;
}

bool basket::operator==(const basket &other) const
{
	return count_ == other.count_;
}

int basket::operator[](long at) const
{
	return name_[at];
}

void basket::swap(basket &other) noexcept
{
	std::swap(count_, other.count_);
}

int basket::kind(int n) const
{
	return n;
}

point operator+(point a, point b)
{
	return {a.x + b.x, a.y + b.y};
}

point operator-(const point &a)
{
	return {-a.x, -a.y};
}

double length(const point &p)
{
	return p.x + p.y;
}

void move(point &p, double by)
{
	p.x += by;
}

item next(item i, unsigned char by)
{
	return {i.id + by, i.count - by};
}

large turned(large l, int n)
{
	l.a[0] = n;
	return l;
}

long by_value(std::string text, int n)
{
	return (long)text.size() + n;
}

long two(const std::string &a, std::string &&b)
{
	return (long)a.size() - (long)b.size();
}

std::string made_of(const char *text, int n)
{
	return text + n;
}

color after(color c, size s)
{
	return c == color::red && s == big ? color::green : color::red;
}

bool flags(bool a, char b, signed char c, unsigned short d)
{
	return a && b != c && d;
}

long many(int a, long b, short c, int d, int e, int f, const std::string &g, const char *h,
	  long double i, point j)
{
	return a + b + c + d + e + f + (long)g.size() + h[0] + (long)i + (long)j.x;
}

double price(const derived &d, int n)
{
	return d.price * n;
}

derived dearer(derived d, double by)
{
	d.price += by;
	return d;
}

template int twice<int>(int, const char *);
template double twice<double>(double, const char *);

} // namespace shop
