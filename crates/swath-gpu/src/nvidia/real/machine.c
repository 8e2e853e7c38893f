/* What NVIDIA's cuFile needs of a machine, for one that does not have it: a CUDA driver, which finds no device and takes all memory for the
 * host's; the list of kernel modules; what udev knows of a disk. It is loaded before all else into a process of a test, under the driver's
 * name, and variables tell it the files to open in place of those that are missing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cuInit(unsigned flags) {
    (void)flags;
    return 100;
}

int cuPointerGetAttribute(void *answer, int attribute, unsigned long long address) {
    (void)answer, (void)attribute, (void)address;
    return 1;
}

static const char *instead(const char *path) {
    const char *other = NULL;
    if (path && strcmp(path, "/proc/modules") == 0) other = getenv("MACHINE_MODULES");
    if (path && strncmp(path, "/run/udev/", 10) == 0) other = getenv("MACHINE_UDEV");
    return other && access(path, R_OK) != 0 ? other : path;
}

#define OPEN(name)                                                             \
    int name(const char *path, int flags, ...) {                               \
        va_list rest;                                                          \
        va_start(rest, flags);                                                 \
        int mode = va_arg(rest, int);                                          \
        va_end(rest);                                                          \
        int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #name);         \
        return real(instead(path), flags, mode);                               \
    }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                                            \
    FILE *name(const char *path, const char *mode) {                           \
        FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, #name);   \
        return real(instead(path), mode);                                      \
    }
FOPEN(fopen)
FOPEN(fopen64)

/* A byte of every file that cannot be read. */
#define PREAD(name)                                                            \
    ssize_t name(int file, void *to, size_t bytes, off_t from) {               \
        const char *told = getenv("MACHINE_BAD_BYTE");                         \
        off_t bad = told ? atol(told) : -1;                                    \
        if (from <= bad && bad < from + (off_t)bytes) {                        \
            errno = EIO;                                                       \
            return -1;                                                         \
        }                                                                      \
        ssize_t (*real)(int, void *, size_t, off_t) = dlsym(RTLD_NEXT, #name); \
        return real(file, to, bytes, from);                                    \
    }
PREAD(pread)
PREAD(pread64)
