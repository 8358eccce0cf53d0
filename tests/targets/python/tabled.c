// SPDX-License-Identifier: Apache-2.0
// An extension of Python that counts its own calls, by name: each way to call a function of a
// method table, in tables of a module, of a static type and of one that is made of a PyType_Spec.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define COUNTED(name) __atomic_fetch_add(&name##_calls, 1, __ATOMIC_RELAXED)

#define FUNCTION(name, ...)                                \
	static unsigned long name##_calls;                 \
	static PyObject *name(PyObject *self, __VA_ARGS__) \
	{                                                  \
		(void)self;                                \
		COUNTED(name);                             \
		Py_RETURN_NONE;                            \
	}
FUNCTION(none, PyObject *nothing)
FUNCTION(one, PyObject *argument)
FUNCTION(varargs, PyObject *arguments)
FUNCTION(keywords, PyObject *arguments, PyObject *words)
FUNCTION(fast, PyObject *const *arguments, Py_ssize_t count)
FUNCTION(fast_keywords, PyObject *const *arguments, Py_ssize_t count, PyObject *words)
FUNCTION(Static_none, PyObject *nothing)
FUNCTION(Static_fast, PyObject *const *arguments, Py_ssize_t count)
FUNCTION(Static_of_class, PyObject *nothing)
FUNCTION(Static_of_nobody, PyObject *argument)
FUNCTION(__new__, PyObject *argument)
FUNCTION(Made_one, PyObject *argument)
FUNCTION(Made_defined, PyTypeObject *type, PyObject *const *arguments, Py_ssize_t count,
	 PyObject *words)

static unsigned long fails_calls, again_calls, counts_calls, tables_calls;

static PyObject *fails(PyObject *self, PyObject *argument)
{
	(void)self;
	COUNTED(fails);
	return PyErr_Format(PyExc_ValueError, "%R", argument);
}

static PyObject *again(PyObject *self, PyObject *called)
{
	(void)self;
	COUNTED(again);
	return PyObject_CallObject(called, NULL);
}

static const struct {
	const char *name;
	const unsigned long *calls;
} counters[] = {
	{"none", &none_calls},
	{"one", &one_calls},
	{"varargs", &varargs_calls},
	{"keywords", &keywords_calls},
	{"fast", &fast_calls},
	{"fast_keywords", &fast_keywords_calls},
	{"fails", &fails_calls},
	{"again", &again_calls},
	{"counts", &counts_calls},
	{"tables", &tables_calls},
	{"Static_none", &Static_none_calls},
	{"Static_fast", &Static_fast_calls},
	{"Static_of_class", &Static_of_class_calls},
	{"Static_of_nobody", &Static_of_nobody_calls},
	{"__new__", &__new___calls},
	{"Made_one", &Made_one_calls},
	{"Made_defined", &Made_defined_calls},
};

static PyObject *counts(PyObject *self, PyObject *nothing)
{
	PyObject *found = PyDict_New();

	(void)self;
	(void)nothing;
	COUNTED(counts);
	for (size_t i = 0; found && i < sizeof(counters) / sizeof(*counters); i++) {
		PyObject *number = PyLong_FromUnsignedLong(*counters[i].calls);

		if (!number || PyDict_SetItemString(found, counters[i].name, number))
			return NULL;
		Py_DECREF(number);
	}
	return found;
}

static PyObject *tables(PyObject *self, PyObject *nothing);

#define CALL(function) (PyCFunction)(void (*)(void)) function

static PyMethodDef static_methods[] = {
	{"none", CALL(Static_none), METH_NOARGS, NULL},
	{"fast", CALL(Static_fast), METH_FASTCALL, NULL},
	{"of_class", CALL(Static_of_class), METH_NOARGS | METH_CLASS, NULL},
	{"of_nobody", CALL(Static_of_nobody), METH_O | METH_STATIC, NULL},
	{0},
};

static PyTypeObject Static = {
	PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tabled.Static",
	.tp_basicsize = sizeof(PyObject),
	.tp_flags = Py_TPFLAGS_DEFAULT,
	.tp_new = PyType_GenericNew,
	.tp_methods = static_methods,
};

static const PyMethodDef made_methods[] = {
	// read-only once it is relocated
	{"one", CALL(Made_one), METH_O, NULL},
	{"defined", CALL(Made_defined), METH_METHOD | METH_FASTCALL | METH_KEYWORDS, NULL},
	{0},
};

static PyType_Slot made_slots[] = {
	{Py_tp_doc, (void *)"Made"},
	{Py_tp_new, (void *)PyType_GenericNew},
	{Py_tp_methods, (void *)made_methods},
	{0, NULL},
};

static PyType_Spec made = {
	.name = "tabled.Made",
	.basicsize = sizeof(PyObject),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = made_slots,
};

static PyMethodDef methods[] = {
	{"none", CALL(none), METH_NOARGS, NULL},
	{"one", CALL(one), METH_O, NULL},
	{"varargs", CALL(varargs), METH_VARARGS, NULL},
	{"keywords", CALL(keywords), METH_VARARGS | METH_KEYWORDS, NULL},
	{"fast", CALL(fast), METH_FASTCALL, NULL},
	{"fast_keywords", CALL(fast_keywords), METH_FASTCALL | METH_KEYWORDS, NULL},
	{"fails", CALL(fails), METH_O, NULL},
	{"again", CALL(again), METH_O, NULL},
	{"__new__", CALL(__new__), METH_O, NULL},
	{"counts", CALL(counts), METH_NOARGS, NULL},
	{"tables", CALL(tables), METH_NOARGS, NULL},
	{"alias", CALL(none), METH_NOARGS, NULL}, // by another name
	{0},
};

// The words that somebody may change: the tables, and what two types compare functions by.
static PyObject *tables(PyObject *self, PyObject *nothing)
{
	void *words[] = {(void *)PyCFunction_Type.tp_hash, (void *)PyCFunction_Type.tp_richcompare,
			 (void *)PyCMethod_Type.tp_hash, (void *)PyCMethod_Type.tp_richcompare};

	(void)self;
	(void)nothing;
	COUNTED(tables);
	return Py_BuildValue("y#y#y#y#", methods, (Py_ssize_t)sizeof(methods), static_methods,
			     (Py_ssize_t)sizeof(static_methods), made_methods,
			     (Py_ssize_t)sizeof(made_methods), words, (Py_ssize_t)sizeof(words));
}

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "tabled", .m_size = -1,
				    .m_methods = methods};

PyMODINIT_FUNC PyInit_tabled(void)
{
	PyObject *self = PyModule_Create(&module), *type = PyType_FromSpec(&made);

	if (!self || !type || PyModule_AddObject(self, "Made", type) || PyType_Ready(&Static))
		return NULL;
	Py_INCREF(&Static);
	return PyModule_AddObject(self, "Static", (PyObject *)&Static) ? NULL : self;
}
