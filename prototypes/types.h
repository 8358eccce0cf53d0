// SPDX-License-Identifier: Apache-2.0
// The type names that the declarations use, as on Linux x86-64.
// A name that appears only behind a `*` needs no line here.

typedef unsigned long size_t;
typedef long ssize_t;
typedef long ptrdiff_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef long intptr_t HEX;
typedef unsigned long uintptr_t HEX;
typedef long intmax_t;
typedef unsigned long uintmax_t;
typedef unsigned long osize_t SIGNED; // size_t of an object that may be of unknown size

typedef int pid_t;
typedef unsigned int id_t SIGNED;
typedef unsigned int uid_t SIGNED;
typedef unsigned int gid_t SIGNED;
typedef unsigned int mode_t OCTAL;
typedef unsigned long dev_t HEX;
typedef unsigned long ino_t;
typedef unsigned long nfds_t;
typedef long off_t;
typedef long off64_t;
typedef long time_t;
typedef long clock_t;
typedef long suseconds_t;
typedef unsigned int useconds_t;
typedef int clockid_t ENUM(clock);
typedef int key_t HEX;
typedef unsigned long rlim_t SIGNED;

typedef unsigned int socklen_t;
typedef unsigned short in_port_t;
typedef unsigned int in_addr_t HEX;

typedef int wchar_t CHAR;
typedef unsigned int wint_t CHAR;
typedef unsigned long wctype_t HEX;
typedef int nl_item HEX;
typedef void *iconv_t;
typedef struct __locale_struct *locale_t;

typedef unsigned long pthread_t HEX;
typedef unsigned int pthread_key_t;
typedef int pthread_once_t;
typedef volatile int pthread_spinlock_t;
typedef unsigned long thrd_t HEX;

typedef unsigned int speed_t OCTAL;
typedef void *timer_t;
typedef enum __priority_which __priority_which_t;
typedef enum __rlimit_resource __rlimit_resource_t;
typedef enum __rusage_who __rusage_who_t;
typedef enum __itimer_which __itimer_which_t;

typedef struct _IO_FILE FILE;
typedef struct __dirstream DIR;
typedef void (*sighandler_t)(int) ENUM(handler);
