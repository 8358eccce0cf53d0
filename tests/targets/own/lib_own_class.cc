// SPDX-License-Identifier: Apache-2.0
#include "lib_own_class.hh"

namespace own {
shape::shape(int id, const std::string &label)
    : id(id)
    , label(label)
{
}

shape::~shape()
{
}

double shape::scale(double by) const
{
	return by * id;
}

std::string shape::name(int n) const
{
	return label + std::to_string(n);
}

vector shape::move(vector by, kind k)
{
	return {by.x + id, k == kind::ROUND ? by.y : -by.y};
}

char *shape::bytes()
{
	return &label[0];
}

const char *shape::word() const
{
	return label.c_str();
}

long shape::count(const char *what, bool deep)
{
	return what[0] + deep;
}

template <class T> T shape::twice(T t)
{
	return t + t;
}

template float shape::twice<float>(float);

int none_of_it(const vector &v, shape *s, long long n)
{
	return s ? static_cast<int>(v.x + n) : 0;
}
}
