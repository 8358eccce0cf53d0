// SPDX-License-Identifier: Apache-2.0
// An extension of Python that works out the hash of a function, and stays in the middle of that:
// the interpreter's own code has the function's object, and has not read the table that it is in.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

static char *pages; // the second one cannot be read

// Says so on standard output, and goes on with a byte from standard input.
static void wait_inside(int signal)
{
	char byte;

	(void)signal;
	if (write(1, "inside\n", 7) != 7 || read(0, &byte, 1) != 1)
		_exit(4);
	mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE);
}

// The hash of a copy of a function's object, whose type can be read and nothing behind it.
static PyObject *hash_slowly(PyObject *self, PyObject *function)
{
	struct sigaction action = {.sa_handler = wait_inside};
	PyObject *copy;

	(void)self;
	pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	copy = (PyObject *)(pages + PAGE - sizeof(PyObject));
	memcpy(copy, function, sizeof(PyCFunctionObject));
	sigaction(SIGSEGV, &action, NULL);
	mprotect(pages + PAGE, PAGE, PROT_NONE);
	return PyLong_FromSsize_t(PyObject_Hash(copy));
}

static PyMethodDef methods[] = {
	{"hash_slowly", hash_slowly, METH_O, NULL},
	{NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "stuck", NULL, 0, methods};

PyMODINIT_FUNC PyInit_stuck(void);
PyMODINIT_FUNC PyInit_stuck(void)
{
	return PyModule_Create(&module);
}
