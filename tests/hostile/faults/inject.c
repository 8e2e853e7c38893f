/* Fails one chosen call of the C library: LD_PRELOAD=inject.so FAULT_PLAN=kind:number:error:stays FAULT_REPORT=file program
 *
 * Calls of one kind are counted from 1. The call with the given number fails with `error` (a number of errno, or -1 to
 * transfer only half of the bytes); with `stays`, all later calls of the kind fail too. The report is a file of 16 bytes
 * that holds the number of calls and the number of failures; it is mapped, so it is right even if the process is killed.
 * A program can also call fault_arm, fault_calls and fault_disarm.
 *
 * Allocations count from FAULT_BYTES bytes on (default 65536): smaller ones may end the process, as in any Rust program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { NONE, READ, WRITE, SYNC, NAME, OPEN, SPACE, STATUS, ATTRIBUTE, MEMORY, THREAD, NETWORK, KINDS };
static const char *const NAMES[KINDS] = {"none",   "read",      "write",  "sync",   "name",   "open",
                                         "space",  "status",    "attribute", "memory", "thread", "network"};

#define SHORT (-1)

static struct counts {
    _Atomic uint64_t calls, failures;
} own_counts, *counts = &own_counts;
static _Atomic int armed_kind = NONE;
static int armed_error, armed_stays;
static uint64_t armed_number;
static size_t least_bytes = 65536;

void fault_arm(const char *kind, uint64_t number, int error, int stays) {
    atomic_store(&armed_kind, NONE);
    armed_number = number;
    armed_error = error;
    armed_stays = stays;
    atomic_store(&counts->calls, 0);
    atomic_store(&counts->failures, 0);
    for (int i = 1; i < KINDS; i++)
        if (strcmp(kind, NAMES[i]) == 0) atomic_store(&armed_kind, i);
}

uint64_t fault_calls(void) { return atomic_load(&counts->calls); }

/* Returns the number of failures since fault_arm. */
uint64_t fault_disarm(void) {
    atomic_store(&armed_kind, NONE);
    return atomic_load(&counts->failures);
}

__attribute__((constructor)) static void start(void) {
    const char *bytes = getenv("FAULT_BYTES"), *report = getenv("FAULT_REPORT"), *plan = getenv("FAULT_PLAN");
    char kind[16];
    unsigned long long number;
    int error, stays;
    if (bytes) least_bytes = strtoull(bytes, NULL, 10);
    if (report) {
        int fd = syscall(SYS_openat, AT_FDCWD, report, O_RDWR | O_CREAT, 0600);
        if (fd < 0 || syscall(SYS_ftruncate, fd, sizeof *counts) != 0) _exit(125);
        void *map = (void *)syscall(SYS_mmap, NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) _exit(125);
        syscall(SYS_close, fd);
        counts = map;
    }
    if (plan && sscanf(plan, "%15[^:]:%llu:%d:%d", kind, &number, &error, &stays) == 4)
        fault_arm(kind, number, error, stays);
}

/* Counts a call. Returns 0 if it is to be made, SHORT, or 1 with errno set if it fails. */
static int fails(enum kind kind) {
    if (atomic_load_explicit(&armed_kind, memory_order_relaxed) != (int)kind) return 0;
    uint64_t call = atomic_fetch_add(&counts->calls, 1) + 1;
    if (call != armed_number && !(armed_stays && armed_number != 0 && call > armed_number)) return 0;
    atomic_fetch_add(&counts->failures, 1);
    if (armed_error == SHORT) return SHORT;
    errno = armed_error;
    return 1;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* A function that returns -1 if it fails and transfers nothing. */
#define SIMPLE(kind, type, name, parameters, arguments) \
    type name parameters { \
        REAL(name); \
        if (fails(kind)) return (type)-1; \
        return real arguments; \
    }

/* A function that may transfer fewer bytes than requested. */
#define TRANSFER(kind, name, parameters, arguments, shorten) \
    ssize_t name parameters { \
        REAL(name); \
        int fault = fails(kind); \
        if (fault > 0) return -1; \
        if (fault == SHORT) { shorten; } \
        return real arguments; \
    }

#define HALF(len) if (len > 1) len /= 2
/* Of several parts, only the first: at most one part is transferred whole. */
#define ONE_PART(count) if (count > 1) count = 1

TRANSFER(READ, read, (int fd, void *to, size_t len), (fd, to, len), HALF(len))
TRANSFER(READ, pread, (int fd, void *to, size_t len, off_t at), (fd, to, len, at), HALF(len))
TRANSFER(READ, pread64, (int fd, void *to, size_t len, off64_t at), (fd, to, len, at), HALF(len))
TRANSFER(READ, readv, (int fd, const struct iovec *to, int count), (fd, to, count), ONE_PART(count))
TRANSFER(READ, preadv, (int fd, const struct iovec *to, int count, off_t at), (fd, to, count, at), ONE_PART(count))
TRANSFER(READ, preadv64, (int fd, const struct iovec *to, int count, off64_t at), (fd, to, count, at), ONE_PART(count))
TRANSFER(WRITE, write, (int fd, const void *from, size_t len), (fd, from, len), HALF(len))
TRANSFER(WRITE, pwrite, (int fd, const void *from, size_t len, off_t at), (fd, from, len, at), HALF(len))
TRANSFER(WRITE, pwrite64, (int fd, const void *from, size_t len, off64_t at), (fd, from, len, at), HALF(len))
TRANSFER(WRITE, writev, (int fd, const struct iovec *from, int count), (fd, from, count), ONE_PART(count))
TRANSFER(WRITE, pwritev, (int fd, const struct iovec *from, int count, off_t at), (fd, from, count, at), ONE_PART(count))
TRANSFER(WRITE, copy_file_range, (int in, off64_t *from, int out, off64_t *to, size_t len, unsigned flags),
         (in, from, out, to, len, flags), HALF(len))
extern ssize_t sendfile64(int, int, off64_t *, size_t);
TRANSFER(WRITE, sendfile64, (int out, int in, off64_t *at, size_t len), (out, in, at, len), HALF(len))
TRANSFER(NETWORK, send, (int fd, const void *from, size_t len, int flags), (fd, from, len, flags), HALF(len))
TRANSFER(NETWORK, recv, (int fd, void *to, size_t len, int flags), (fd, to, len, flags), HALF(len))

SIMPLE(SYNC, int, fsync, (int fd), (fd))
SIMPLE(SYNC, int, fdatasync, (int fd), (fd))
SIMPLE(NAME, int, rename, (const char *from, const char *to), (from, to))
SIMPLE(NAME, int, link, (const char *from, const char *to), (from, to))
SIMPLE(NAME, int, linkat, (int in, const char *from, int out, const char *to, int flags), (in, from, out, to, flags))
SIMPLE(NAME, int, unlink, (const char *path), (path))
SIMPLE(NAME, int, unlinkat, (int in, const char *path, int flags), (in, path, flags))
SIMPLE(NAME, int, mkdir, (const char *path, mode_t mode), (path, mode))
SIMPLE(NAME, int, rmdir, (const char *path), (path))
SIMPLE(NAME, int, symlink, (const char *from, const char *to), (from, to))
SIMPLE(SPACE, int, ftruncate, (int fd, off_t len), (fd, len))
SIMPLE(SPACE, int, ftruncate64, (int fd, off64_t len), (fd, len))
SIMPLE(SPACE, int, fallocate, (int fd, int mode, off_t at, off_t len), (fd, mode, at, len))
SIMPLE(SPACE, int, fallocate64, (int fd, int mode, off64_t at, off64_t len), (fd, mode, at, len))
SIMPLE(SPACE, off_t, lseek, (int fd, off_t at, int from), (fd, at, from))
SIMPLE(SPACE, off64_t, lseek64, (int fd, off64_t at, int from), (fd, at, from))
SIMPLE(STATUS, int, fstat, (int fd, struct stat *to), (fd, to))
SIMPLE(STATUS, int, stat, (const char *path, struct stat *to), (path, to))
SIMPLE(STATUS, int, lstat, (const char *path, struct stat *to), (path, to))
SIMPLE(STATUS, int, fstat64, (int fd, struct stat64 *to), (fd, to))
SIMPLE(STATUS, int, stat64, (const char *path, struct stat64 *to), (path, to))
SIMPLE(STATUS, int, lstat64, (const char *path, struct stat64 *to), (path, to))
SIMPLE(STATUS, int, statx, (int in, const char *path, int flags, unsigned mask, struct statx *to),
       (in, path, flags, mask, to))
SIMPLE(STATUS, ssize_t, readlink, (const char *path, char *to, size_t len), (path, to, len))
extern int fchmod(int, mode_t);
SIMPLE(ATTRIBUTE, int, fchmod, (int fd, mode_t mode), (fd, mode))
SIMPLE(ATTRIBUTE, int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group))
extern int fsetxattr(int, const char *, const void *, size_t, int);
extern int fremovexattr(int, const char *);
extern ssize_t lgetxattr(const char *, const char *, void *, size_t);
extern ssize_t llistxattr(const char *, char *, size_t);
extern int flock(int, int);
SIMPLE(ATTRIBUTE, int, fsetxattr, (int fd, const char *name, const void *value, size_t len, int flags),
       (fd, name, value, len, flags))
SIMPLE(ATTRIBUTE, int, fremovexattr, (int fd, const char *name), (fd, name))
SIMPLE(ATTRIBUTE, ssize_t, lgetxattr, (const char *path, const char *name, void *to, size_t len), (path, name, to, len))
SIMPLE(ATTRIBUTE, ssize_t, llistxattr, (const char *path, char *to, size_t len), (path, to, len))
SIMPLE(ATTRIBUTE, int, flock, (int fd, int operation), (fd, operation))
SIMPLE(NETWORK, int, socket, (int family, int type, int protocol), (family, type, protocol))
SIMPLE(NETWORK, int, connect, (int fd, const struct sockaddr *to, socklen_t len), (fd, to, len))

/* The mode is present only if the call can create a file. */
#define OPENED(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        return fails(OPEN) ? -1 : real(path, flags, mode); \
    }
#define OPENED_AT(name) \
    int name(int in, const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        return fails(OPEN) ? -1 : real(in, path, flags, mode); \
    }
OPENED(open)
OPENED(open64)
OPENED_AT(openat)
OPENED_AT(openat64)

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument) {
    REAL(pthread_create);
    return fails(THREAD) ? armed_error : real(thread, how, run, argument);
}

/* The functions of the C library under their other names: dlsym allocates. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static int is_refused(size_t bytes) { return bytes >= least_bytes && fails(MEMORY); }

void *malloc(size_t bytes) { return is_refused(bytes) ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) {
    size_t total;
    if (!__builtin_mul_overflow(count, bytes, &total) && is_refused(total)) return NULL;
    return __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) { return is_refused(bytes) ? NULL : __libc_realloc(old, bytes); }
void *memalign(size_t align, size_t bytes) { return is_refused(bytes) ? NULL : __libc_memalign(align, bytes); }
void *aligned_alloc(size_t align, size_t bytes) { return memalign(align, bytes); }
int posix_memalign(void **to, size_t align, size_t bytes) {
    void *made = memalign(align, bytes);
    if (!made) return ENOMEM;
    *to = made;
    return 0;
}
void *mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset) {
    REAL(mmap);
    return is_refused(bytes) ? MAP_FAILED : real(at, bytes, access, flags, fd, offset);
}
void *mmap64(void *at, size_t bytes, int access, int flags, int fd, off64_t offset) {
    REAL(mmap64);
    return is_refused(bytes) ? MAP_FAILED : real(at, bytes, access, flags, fd, offset);
}
