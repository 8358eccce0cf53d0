// SPDX-License-Identifier: Apache-2.0
// A library of C++, whose types are known by its debug information alone.
#include <string>

namespace shop {

struct point {
	double x, y;
};

struct item {
	long id;
	int count;
};

struct large {
	long a[4];
	double b;
};

struct base {
	int kind;
	long weight;
};

struct derived : base {
	double price;
};

enum class color : unsigned char { red, green = 5 };
enum size { small = -1, big = 7 };

class basket {
    public:
	basket(const std::string &name, int count);
	int add(const std::string &what, int count = 1);
	int count() const;
	long sum(short a, double b, const char *c) const;
	static int made(int more);
	std::string name() const;
	basket &operator+=(int count);
	bool operator==(const basket &other) const;
	int operator[](long at) const;
	void swap(basket &other) noexcept;
	virtual int kind(int n) const;

    private:
	int count_;
	std::string name_;
};

point operator+(point a, point b);
point operator-(const point &a);
double length(const point &p);
void move(point &p, double by);
item next(item i, unsigned char by);
large turned(large l, int n);
long by_value(std::string text, int n);
long two(const std::string &a, std::string &&b);
std::string made_of(const char *text, int n);
color after(color c, size s);
bool flags(bool a, char b, signed char c, unsigned short d);
long many(int a, long b, short c, int d, int e, int f, const std::string &g, const char *h,
	  long double i, point j);
double price(const derived &d, int n);
derived dearer(derived d, double by);
template <typename T> T twice(T value, const char *why)
{
	return value + (why ? value : T());
}
extern template int twice<int>(int, const char *);
extern template double twice<double>(double, const char *);

} // namespace shop
