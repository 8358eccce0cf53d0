// SPDX-License-Identifier: Apache-2.0
// target: libs=shape,leaf
// Virtual functions, destructors, dynamic_cast and strings across images.
#include "leaf.h"
#include "shape.hh"
#include "truth.h"

#include <cstdio>
#include <functional>
#include <map>
#include <typeinfo>

COUNTED(f0);
COUNTED(fshape);
static long squares, totals;

class Line : public Shape {
    public:
	explicit Line(int length)
	    : Shape("line")
	    , length_(length)
	{
	}
	int area(int scale) const override
	{
		return CALL(f0, length_) * scale;
	}

    private:
	int length_;
};

int main()
{
	std::vector<std::unique_ptr<Shape>> shapes;
	std::map<std::string, std::function<std::unique_ptr<Shape>(int)>> makers = {
		{"square", [](int n) { return squares++, make_square(n); }},
		{"line", [](int n) { return std::make_unique<Line>(n); }},
	};
	for (int i = 0; i < 100; i++)
		shapes.push_back(makers[i % 2 ? "square" : "line"](i));
	int sum = 0, lines = 0;
	for (int i = 0; i < 10; i++, totals++)
		sum += total(shapes, i);
	for (const auto &shape : shapes) {
		sum += CALL(fshape, *shape);
		lines += dynamic_cast<const Line *>(shape.get()) != nullptr;
		sum += static_cast<int>(shape->name().size());
	}
	try {
		(void)dynamic_cast<const Line &>(*shapes[1]);
	} catch (const std::bad_cast &) {
		sum++;
	}
	REPORT(f0);
	REPORT(fshape);
	truth_calls("_Z11make_squarei", squares);
	truth_calls("_Z5totalRKSt6vectorISt10unique_ptrI5ShapeSt14default_deleteIS1_EESaIS4_EEi",
		    totals);
	std::printf("virtual %d %d\n", sum, lines);
}
