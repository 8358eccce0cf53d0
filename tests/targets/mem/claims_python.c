// SPDX-License-Identifier: Apache-2.0
// Exports what an interpreter of Python is known by, and says that its version is the first
// argument. It makes pending calls, and blocks that stay; it prints how many of both.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FUNCTION(name)   \
	void *name(void) \
	{                \
		abort(); \
	}
#define VARIABLE(name) long name[64];

// Nobody may call one of them, as nobody knows where this interpreter keeps anything.
FUNCTION(Py_IncRef)
FUNCTION(Py_DecRef)
FUNCTION(PyErr_Clear)
FUNCTION(PyImport_ImportModule)
FUNCTION(PyObject_GetAttrString)
FUNCTION(PyObject_CallFunctionObjArgs)
FUNCTION(PyCFunction_NewEx)
FUNCTION(PyLong_FromLong)
FUNCTION(PyBool_FromLong)
FUNCTION(PyList_New)
FUNCTION(PyBytes_FromStringAndSize)
FUNCTION(PyMem_GetAllocator)
FUNCTION(PyMem_SetAllocator)
FUNCTION(Py_AtExit)
FUNCTION(PyThreadState_GetUnchecked)
FUNCTION(PyGILState_GetThisThreadState)
FUNCTION(PyRefTracer_SetTracer)
FUNCTION(PyRefTracer_GetTracer)
VARIABLE(_Py_NoneStruct)
VARIABLE(PyCode_Type)
VARIABLE(PyCFunction_Type)
VARIABLE(PyList_Type)

static const char *version;
static int (*pending)(void *);
static void *argument;

const char *Py_GetVersion(void)
{
	return version;
}

int Py_IsInitialized(void)
{
	return version != NULL;
}

int Py_AddPendingCall(int (*function)(void *), void *with)
{
	pending = function;
	argument = with;
	return 0;
}

int main(int argc, char **argv)
{
	static char *kept[20];
	char path[4096];
	int calls = 0;

	version = argc > 1 ? argv[1] : NULL;
	for (int i = 0; i < 20; i++) {
		if (!getcwd(path, sizeof(path)))
			return 1;
		kept[i] = malloc(1000 + i);
		if (pending) {
			calls++;
			pending(argument);
			pending = NULL;
		}
	}
	printf("%d %d\n", calls, kept[19] ? 20 : 0);
	return 4;
}
