/* What NVIDIA's cuFile needs of a machine, for one that does not have it: a CUDA driver with one device, whose memory is the host's; the
 * list of kernel modules; what udev knows of a disk. It is loaded before all else into a process of a test, under the driver's name, and
 * variables tell it the files to open in place of those that are missing. What else of a driver cuFile looks up, the test adds: functions
 * that refuse to do anything. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Contexts: the device has one, and each thread a stack of what is current. */
static __thread void *current, *below[64];
static __thread int depth;
#define CONTEXT ((void *)0x1000)

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int number) { return *device = number, 0; }
int cuDeviceGetName(char *name, int room, int device) { return snprintf(name, room, "A machine"), 0; }
int cuDeviceGetPCIBusId(char *name, int room, int device) { return snprintf(name, room, "0000:01:00.0"), 0; }
int cuDeviceGetUuid(char *name, int device) { return memset(name, 1, 16), 0; }
int cuDeviceGetUuid_v2(char *name, int device) { return memset(name, 1, 16), 0; }
int cuDeviceGetAttribute(int *value, int which, int device) { return *value = which == 75 ? 8 : which != 76, 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return *bytes = 8UL << 30, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = CONTEXT, 0; }
int cuDevicePrimaryCtxRelease(int device) { return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { return *flags = 0, *active = 1, 0; }
int cuCtxGetCurrent(void **context) { return *context = current, 0; }
int cuCtxSetCurrent(void *context) { return current = context, 0; }
int cuCtxGetDevice(int *device) { return current ? (*device = 0) : 201; }
int cuCtxSynchronize(void) { return 0; }
int cuCtxGetStreamPriorityRange(int *least, int *greatest) { return *least = *greatest = 0; }
int cuCtxPushCurrent_v2(void *context) {
    below[depth++ % 64] = current;
    current = context;
    return 0;
}
int cuCtxPopCurrent_v2(void **context) {
    if (context) *context = current;
    if (depth == 0) return 201;
    current = below[--depth % 64];
    return 0;
}

/* Memory: what was allocated is the device's, and all else is the host's. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { char *at; size_t bytes; } memory[4096];
static int allocations;

static int allocation(void *address) {
    int found = -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < allocations; i++)
        if ((char *)address >= memory[i].at && (char *)address < memory[i].at + memory[i].bytes) found = i;
    pthread_mutex_unlock(&lock);
    return found;
}

int cuMemAlloc_v2(void **address, size_t bytes) {
    if (posix_memalign(address, 65536, bytes)) return 2;
    pthread_mutex_lock(&lock);
    memory[allocations].at = *address;
    memory[allocations++].bytes = bytes;
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuMemFree_v2(void *address) { return 0; }
int cuMemGetInfo_v2(size_t *left, size_t *all) { return *left = *all = 8UL << 30, 0; }
int cuMemGetAddressRange_v2(void **start, size_t *bytes, void *address) {
    int found = allocation(address);
    if (found < 0) return 1;
    if (start) *start = memory[found].at;
    if (bytes) *bytes = memory[found].bytes;
    return 0;
}
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) { return posix_memalign(address, 65536, bytes) ? 2 : 0; }
int cuMemAllocHost_v2(void **address, size_t bytes) { return cuMemHostAlloc(address, bytes, 0); }
int cuMemFreeHost(void *address) { return 0; }
int cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) { return 0; }
int cuMemHostUnregister(void *address) { return 0; }
int cuMemHostGetDevicePointer_v2(void **there, void *address, unsigned flags) { return *there = address, 0; }

int cuPointerGetAttribute(void *value, int which, void *address) {
    int found = allocation(address);
    if (found < 0) return 1;
    switch (which) {
    case 1: return *(void **)value = CONTEXT, 0;
    case 2: return *(int *)value = 2, 0; /* on the device */
    case 3: return *(void **)value = address, 0;
    case 4: return 1; /* the host has no such address */
    case 7: return *(unsigned long *)value = found + 1, 0;
    case 11: return *(void **)value = memory[found].at, 0;
    case 12: return *(size_t *)value = memory[found].bytes, 0;
    default: return *(int *)value = which == 6, 0;
    }
}
int cuPointerGetAttributes(unsigned count, int *which, void **values, void *address) {
    for (unsigned i = 0; i < count; i++) cuPointerGetAttribute(values[i], which[i], address);
    return 0;
}
int cuPointerSetAttribute(const void *value, int which, void *address) { return 0; }

#define COPY(name)                                                             \
    int name(void *to, const void *from, size_t bytes, void *stream) { return memcpy(to, from, bytes), 0; }
COPY(cuMemcpy)
COPY(cuMemcpy_ptds)
COPY(cuMemcpyAsync)
COPY(cuMemcpyAsync_ptsz)
COPY(cuMemcpyHtoD_v2)
COPY(cuMemcpyHtoD_v2_ptds)
COPY(cuMemcpyHtoDAsync_v2)
COPY(cuMemcpyHtoDAsync_v2_ptsz)
COPY(cuMemcpyDtoH_v2)
COPY(cuMemcpyDtoH_v2_ptds)
COPY(cuMemcpyDtoHAsync_v2)
COPY(cuMemcpyDtoHAsync_v2_ptsz)
COPY(cuMemcpyDtoD_v2)
COPY(cuMemcpyDtoD_v2_ptds)
COPY(cuMemcpyDtoDAsync_v2)
COPY(cuMemcpyDtoDAsync_v2_ptsz)

/* Streams and events: everything has been done when it is asked for. */
int cuStreamCreate(void **stream, unsigned flags) { return *stream = CONTEXT, 0; }
int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) { return *stream = CONTEXT, 0; }
int cuStreamDestroy_v2(void *stream) { return 0; }
int cuStreamQuery(void *stream) { return 0; }
int cuStreamSynchronize(void *stream) { return 0; }
int cuStreamSynchronize_ptsz(void *stream) { return 0; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return 0; }
int cuEventCreate(void **event, unsigned flags) { return *event = CONTEXT, 0; }
int cuEventDestroy_v2(void *event) { return 0; }
int cuEventRecord(void *event, void *stream) { return 0; }
int cuEventRecord_ptsz(void *event, void *stream) { return 0; }
int cuEventQuery(void *event) { return 0; }
int cuEventSynchronize(void *event) { return 0; }

int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long flags, int *found) {
    char newer[256];
    snprintf(newer, sizeof newer, "%s_v2", name);
    *function = dlsym(RTLD_DEFAULT, newer);
    if (!*function) *function = dlsym(RTLD_DEFAULT, name);
    if (found) *found = *function ? 0 : 1;
    return *function ? 0 : 500;
}
int cuGetProcAddress(const char *name, void **function, int version, unsigned long flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
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
