// SPDX-License-Identifier: Apache-2.0
// A class whose virtual functions are overridden in another image.
#ifndef SOSC_SHAPE_HH
#define SOSC_SHAPE_HH

#include <memory>
#include <string>
#include <vector>

class Shape {
    public:
	explicit Shape(std::string name);
	virtual ~Shape();
	virtual int area(int scale) const = 0;
	std::string name() const;

    private:
	std::string name_;
};

std::unique_ptr<Shape> make_square(int side); // libshape's own
int total(const std::vector<std::unique_ptr<Shape>> &shapes, int scale);
extern "C" int fshape(const Shape &shape); // area(1), by a virtual call

#endif
