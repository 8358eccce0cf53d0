// SPDX-License-Identifier: Apache-2.0
// The C++ run-time: operators new and delete, exceptions, static initialisers.

void *_Znwm(unsigned long size) ALSO(_Znam); // operator new, operator new[]
void *_ZnwmRKSt9nothrow_t(unsigned long size, const void *nothrow) FAILS(== NULL) ERRNO(none)
	ALSO(_ZnamRKSt9nothrow_t);
void *_ZnwmSt11align_val_t(unsigned long size, unsigned long alignment) ALSO(_ZnamSt11align_val_t);
void _ZdlPv(void *p) ALSO(_ZdaPv); // operator delete, operator delete[]
void _ZdlPvm(void *p, unsigned long size) ALSO(_ZdaPvm);
void _ZdlPvSt11align_val_t(void *p, unsigned long alignment) ALSO(_ZdaPvSt11align_val_t);
void _ZdlPvmSt11align_val_t(void *p, unsigned long size, unsigned long alignment)
	ALSO(_ZdaPvmSt11align_val_t);
void _ZdlPvRKSt9nothrow_t(void *p, const void *nothrow) ALSO(_ZdaPvRKSt9nothrow_t);

void *__cxa_allocate_exception(unsigned long size);
void __cxa_free_exception(void *exception);
void __cxa_throw(void *exception, void *type, void (*destroy)(void *));
void __cxa_rethrow(void);
void *__cxa_begin_catch(void *exception);
void __cxa_end_catch(void);
void *__cxa_get_globals(void);
int __cxa_guard_acquire(void *guard);
void __cxa_guard_release(void *guard);
void __cxa_guard_abort(void *guard);
void __cxa_pure_virtual(void);
char *__cxa_demangle(const char *name, char *to, unsigned long *size, int *status OUT(always));
int __cxa_thread_atexit(void (*function)(void *), void *data, void *object);
void *__dynamic_cast(const void *object, const void *from, const void *to, long hint);
