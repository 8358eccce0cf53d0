// SPDX-License-Identifier: Apache-2.0
// Says of each call into a library of C++ what it passed and got.
#include "lib_own_class.hh"

#include <cstdio>

int main()
{
	std::string label = "label";
	alignas(own::shape) unsigned char room[sizeof(own::shape)];
	void *at = room;
	auto *shape = new (room) own::shape(3, label);
	std::printf("own::shape::shape(%p, 3, \"label\") = <void>\n", at);
	std::printf("own::shape::scale(%p, 1.5) = %g\n", at, shape->scale(1.5));
	std::string name = shape->name(-4);
	void *to = &name;
	std::printf("own::shape::name(%p, %p, -4) = %p\n", to, at, to);
	own::vector moved = shape->move({1.5, -2}, own::shape::kind::SQUARE);
	std::printf("own::shape::move(%p, {x=1.5, y=-2}, 1) = {x=%g, y=%g}\n", at, moved.x,
		    moved.y);
	std::printf("own::shape::bytes(%p) = %p\n", at, static_cast<void *>(shape->bytes()));
	std::printf("own::shape::word(%p) = \"%s\"\n", at, shape->word());
	std::printf("own::shape::count(\"abc\", true) = %ld\n", own::shape::count("abc", true));
	std::printf("own::shape::twice<float>(%p, 2.25) = %g\n", at, shape->twice(2.25f));
	std::printf("own::none_of_it({x=%g, y=%g}, %p, -5) = %d\n", moved.x, moved.y, at,
		    own::none_of_it(moved, shape, -5));
	shape->~shape();
	std::printf("own::shape::~shape(%p) = <void>\n", at);
	return 0;
}
