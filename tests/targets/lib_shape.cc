// SPDX-License-Identifier: Apache-2.0
#include "shape.hh"

#include <utility>

namespace {
class Square : public Shape {
    public:
	explicit Square(int side)
	    : Shape("square")
	    , side_(side)
	{
	}
	int area(int scale) const override
	{
		return side_ * side_ * scale;
	}

    private:
	int side_;
};
}

Shape::Shape(std::string name)
    : name_(std::move(name))
{
}

Shape::~Shape() = default;

std::string Shape::name() const
{
	return name_;
}

std::unique_ptr<Shape> make_square(int side)
{
	return std::make_unique<Square>(side);
}

int total(const std::vector<std::unique_ptr<Shape>> &shapes, int scale)
{
	int sum = 0;
	for (const auto &shape : shapes)
		sum += shape->area(scale);
	return sum;
}

int fshape(const Shape &shape)
{
	return shape.area(1);
}
