// SPDX-License-Identifier: Apache-2.0
// Threads: pthread_*, semaphores, C11's threads. They return their errors
// instead of setting errno.

int pthread_create(pthread_t *thread OUT(success), const pthread_attr_t *attributes,
		   void *(*function)(void *), void *argument) FAILS(!= 0) ERRNO(result);
int pthread_join(pthread_t thread, void **result) FAILS(!= 0) ERRNO(result);
int pthread_tryjoin_np(pthread_t thread, void **result) FAILS(!= 0) ERRNO(result);
int pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *until IN)
	FAILS(!= 0) ERRNO(result);
int pthread_detach(pthread_t thread) FAILS(!= 0) ERRNO(result);
void pthread_exit(void *result);
pthread_t pthread_self(void) ALSO(thrd_current);
int pthread_equal(pthread_t a, pthread_t b);
int pthread_cancel(pthread_t thread) FAILS(!= 0) ERRNO(result);
int pthread_setcancelstate(int state ENUM(cancel_state), int *old) FAILS(!= 0) ERRNO(result);
int pthread_setcanceltype(int type ENUM(cancel_type), int *old) FAILS(!= 0) ERRNO(result);
void pthread_testcancel(void);
int pthread_kill(pthread_t thread, int signal ENUM(signal)) FAILS(!= 0) ERRNO(result);
int pthread_sigmask(int how ENUM(sigmask), const sigset_t *set IN, sigset_t *old OUT(success))
	FAILS(!= 0) ERRNO(result);
int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
	FAILS(!= 0) ERRNO(result);
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
		      void *object) FAILS(!= 0) ERRNO(result);
int pthread_once(pthread_once_t *once, void (*function)(void))
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_once);
int pthread_setname_np(pthread_t thread, const char *name) FAILS(!= 0) ERRNO(result);
int pthread_getname_np(pthread_t thread, char *name OUT(success) LIMIT(size), size_t size)
	FAILS(!= 0) ERRNO(result);
int pthread_getcpuclockid(pthread_t thread, clockid_t *clock) FAILS(!= 0) ERRNO(result);
int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
	FAILS(!= 0) ERRNO(result);
int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *set)
	FAILS(!= 0) ERRNO(result);
int pthread_setschedparam(pthread_t thread, int policy ENUM(sched),
			  const struct sched_param *parameter) FAILS(!= 0) ERRNO(result);
int pthread_getschedparam(pthread_t thread, int *policy OUT(success) ENUM(sched),
			  struct sched_param *parameter) FAILS(!= 0) ERRNO(result);
int pthread_setconcurrency(int level) FAILS(!= 0) ERRNO(result);

// Attributes of threads.
int pthread_attr_init(pthread_attr_t *attributes) FAILS(!= 0) ERRNO(result);
int pthread_attr_destroy(pthread_attr_t *attributes) FAILS(!= 0) ERRNO(result);
int pthread_attr_setdetachstate(pthread_attr_t *attributes, int state ENUM(detach_state))
	FAILS(!= 0) ERRNO(result);
int pthread_attr_getdetachstate(const pthread_attr_t *attributes,
				int *state OUT(success) ENUM(detach_state)) FAILS(!= 0)
	ERRNO(result);
int pthread_attr_setstacksize(pthread_attr_t *attributes, size_t size) FAILS(!= 0) ERRNO(result);
int pthread_attr_getstacksize(const pthread_attr_t *attributes, size_t *size OUT(success))
	FAILS(!= 0) ERRNO(result);
int pthread_attr_setstack(pthread_attr_t *attributes, void *addr, size_t size)
	FAILS(!= 0) ERRNO(result);
int pthread_attr_getstack(const pthread_attr_t *attributes, void **addr OUT(success),
			  size_t *size OUT(success)) FAILS(!= 0) ERRNO(result);
int pthread_attr_setguardsize(pthread_attr_t *attributes, size_t size) FAILS(!= 0) ERRNO(result);
int pthread_attr_getguardsize(const pthread_attr_t *attributes, size_t *size OUT(success))
	FAILS(!= 0) ERRNO(result);
int pthread_attr_setscope(pthread_attr_t *attributes, int scope) FAILS(!= 0) ERRNO(result);
int pthread_attr_setschedpolicy(pthread_attr_t *attributes, int policy ENUM(sched))
	FAILS(!= 0) ERRNO(result);
int pthread_attr_setinheritsched(pthread_attr_t *attributes, int inherit) FAILS(!= 0) ERRNO(result);
int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes) FAILS(!= 0) ERRNO(result);
int pthread_getattr_default_np(pthread_attr_t *attributes) FAILS(!= 0) ERRNO(result);

// Mutexes.
int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_mutex_init);
int pthread_mutex_destroy(pthread_mutex_t *mutex)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_mutex_destroy);
int pthread_mutex_lock(pthread_mutex_t *mutex) FAILS(!= 0) ERRNO(result) ALSO(__pthread_mutex_lock);
int pthread_mutex_trylock(pthread_mutex_t *mutex)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_mutex_trylock);
int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until IN)
	FAILS(!= 0) ERRNO(result);
int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
			    const struct timespec *until IN) FAILS(!= 0) ERRNO(result);
int pthread_mutex_unlock(pthread_mutex_t *mutex)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_mutex_unlock);
int pthread_mutex_consistent(pthread_mutex_t *mutex) FAILS(!= 0) ERRNO(result);
int pthread_mutexattr_init(pthread_mutexattr_t *attributes)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_mutexattr_init);
int pthread_mutexattr_destroy(pthread_mutexattr_t *attributes)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_mutexattr_destroy);
int pthread_mutexattr_settype(pthread_mutexattr_t *attributes, int type ENUM(mutex_type))
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_mutexattr_settype);
int pthread_mutexattr_setpshared(pthread_mutexattr_t *attributes, int shared)
	FAILS(!= 0) ERRNO(result);
int pthread_mutexattr_setrobust(pthread_mutexattr_t *attributes, int robust)
	FAILS(!= 0) ERRNO(result);
int pthread_mutexattr_setprotocol(pthread_mutexattr_t *attributes, int protocol)
	FAILS(!= 0) ERRNO(result);

// Conditions.
int pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes)
	FAILS(!= 0) ERRNO(result);
int pthread_cond_destroy(pthread_cond_t *condition) FAILS(!= 0) ERRNO(result);
int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) FAILS(!= 0) ERRNO(result);
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
			   const struct timespec *until IN) FAILS(!= 0) ERRNO(result);
int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
			   const struct timespec *until IN) FAILS(!= 0) ERRNO(result);
int pthread_cond_signal(pthread_cond_t *condition) FAILS(!= 0) ERRNO(result);
int pthread_cond_broadcast(pthread_cond_t *condition) FAILS(!= 0) ERRNO(result);
int pthread_condattr_init(pthread_condattr_t *attributes) FAILS(!= 0) ERRNO(result);
int pthread_condattr_destroy(pthread_condattr_t *attributes) FAILS(!= 0) ERRNO(result);
int pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock)
	FAILS(!= 0) ERRNO(result);
int pthread_condattr_setpshared(pthread_condattr_t *attributes, int shared)
	FAILS(!= 0) ERRNO(result);

// Reader-writer locks, spin locks, barriers.
int pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attributes)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_rwlock_init);
int pthread_rwlock_destroy(pthread_rwlock_t *lock)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_rwlock_destroy);
int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_rwlock_rdlock);
int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_rwlock_tryrdlock);
int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_rwlock_wrlock);
int pthread_rwlock_trywrlock(pthread_rwlock_t *lock)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_rwlock_trywrlock);
int pthread_rwlock_unlock(pthread_rwlock_t *lock)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_rwlock_unlock);
int pthread_spin_init(pthread_spinlock_t *lock, int shared) FAILS(!= 0) ERRNO(result);
int pthread_spin_destroy(pthread_spinlock_t *lock) FAILS(!= 0) ERRNO(result);
int pthread_spin_lock(pthread_spinlock_t *lock) FAILS(!= 0) ERRNO(result);
int pthread_spin_trylock(pthread_spinlock_t *lock) FAILS(!= 0) ERRNO(result);
int pthread_spin_unlock(pthread_spinlock_t *lock) FAILS(!= 0) ERRNO(result);
int pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes,
			 unsigned int count) FAILS(!= 0) ERRNO(result);
int pthread_barrier_destroy(pthread_barrier_t *barrier) FAILS(!= 0) ERRNO(result);
int pthread_barrier_wait(pthread_barrier_t *barrier);

// Data of threads.
int pthread_key_create(pthread_key_t *key OUT(success), void (*destroy)(void *))
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_key_create);
int pthread_key_delete(pthread_key_t key) FAILS(!= 0) ERRNO(result);
void *pthread_getspecific(pthread_key_t key) ALSO(__pthread_getspecific);
int pthread_setspecific(pthread_key_t key, const void *value)
	FAILS(!= 0) ERRNO(result) ALSO(__pthread_setspecific);

// Semaphores. These do set errno.
int sem_init(sem_t *semaphore, int shared, unsigned int value) FAILS(< 0);
int sem_destroy(sem_t *semaphore) FAILS(< 0);
sem_t *sem_open(const char *name FOLLOW, int flags FLAGS(sem_open), ...
		OPTIONAL(mode_t mode, unsigned int value, flags & O_CREAT)) FAILS(== NULL);
int sem_close(sem_t *semaphore) FAILS(< 0);
int sem_unlink(const char *name FOLLOW) FAILS(< 0);
int sem_wait(sem_t *semaphore) FAILS(< 0);
int sem_trywait(sem_t *semaphore) FAILS(< 0);
int sem_timedwait(sem_t *semaphore, const struct timespec *until IN) FAILS(< 0);
int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until IN) FAILS(< 0);
int sem_post(sem_t *semaphore) FAILS(< 0);
int sem_getvalue(sem_t *semaphore, int *value OUT(success)) FAILS(< 0);

// C11. They do not set errno.
int thrd_create(thrd_t *thread OUT(success), int (*function)(void *), void *argument) ENUM(thrd)
	FAILS(!= 0) ERRNO(none);
int thrd_join(thrd_t thread, int *result OUT(success)) ENUM(thrd) FAILS(!= 0) ERRNO(none);
int thrd_sleep(const struct timespec *time IN, struct timespec *left);
void thrd_yield(void);
int mtx_init(mtx_t *mutex, int type) ENUM(thrd) FAILS(!= 0) ERRNO(none);
int mtx_lock(mtx_t *mutex) ENUM(thrd) FAILS(!= 0) ERRNO(none);
int mtx_trylock(mtx_t *mutex) ENUM(thrd) FAILS(!= 0) ERRNO(none);
int mtx_unlock(mtx_t *mutex) ENUM(thrd) FAILS(!= 0) ERRNO(none);
void mtx_destroy(mtx_t *mutex);
int cnd_init(cnd_t *condition) ENUM(thrd) FAILS(!= 0) ERRNO(none);
int cnd_wait(cnd_t *condition, mtx_t *mutex) ENUM(thrd) FAILS(!= 0) ERRNO(none);
int cnd_signal(cnd_t *condition) ENUM(thrd) FAILS(!= 0) ERRNO(none);
int cnd_broadcast(cnd_t *condition) ENUM(thrd) FAILS(!= 0) ERRNO(none);
void call_once(once_flag *once, void (*function)(void));
