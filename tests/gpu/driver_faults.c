// Preloaded into a process of the tests, makes the CUDA driver refuse what the environment says:
//   HICACHE_TEST_PIN_LIMIT         bytes of host memory that may be registered at a time
//   HICACHE_TEST_NO_HOST_POINTERS  devices cannot use the host's addresses of registered memory
// The CUDA runtime finds cuGetProcAddress with dlsym and asks it for all other functions.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kOutOfMemory = 2, kCanUseHostPointer = 91, kMostRegions = 4096 };

typedef void* (*Lookup)(void*, const char*);
typedef int (*GetProcAddress)(const char*, void**, int, uint64_t, int*);
typedef int (*GetAttribute)(int*, int, int);
typedef int (*HostRegister)(void*, size_t, unsigned);
typedef int (*HostUnregister)(void*);

static Lookup real_lookup;
static GetProcAddress real_get_proc_address;
static GetAttribute real_get_attribute;
static HostRegister real_register;
static HostUnregister real_unregister;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void* begin;
    size_t bytes;
} regions[kMostRegions];
static size_t registered;

// How often this file answered in the driver's place, and how much it lets be registered now.
int hicache_test_faults;
size_t hicache_test_registered(void) { return registered; }

static int get_attribute(int* value, int attribute, int device) {
    const int status = real_get_attribute(value, attribute, device);
    if (attribute == kCanUseHostPointer && getenv("HICACHE_TEST_NO_HOST_POINTERS") != NULL) {
        *value = 0;
        ++hicache_test_faults;
    }
    return status;
}

static int host_register(void* begin, size_t bytes, unsigned flags) {
    const char* limit = getenv("HICACHE_TEST_PIN_LIMIT");
    pthread_mutex_lock(&mutex);
    int status = 0;
    if (limit != NULL && registered + bytes > strtoull(limit, NULL, 10)) {
        status = kOutOfMemory;
        ++hicache_test_faults;
    } else {
        status = real_register(begin, bytes, flags);
    }
    for (int i = 0; status == 0 && i < kMostRegions; ++i) {
        if (regions[i].begin != NULL) continue;
        regions[i].begin = begin;
        regions[i].bytes = bytes;
        registered += bytes;
        break;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

static int host_unregister(void* begin) {
    pthread_mutex_lock(&mutex);
    const int status = real_unregister(begin);
    for (int i = 0; status == 0 && i < kMostRegions; ++i) {
        if (regions[i].begin != begin) continue;
        registered -= regions[i].bytes;
        regions[i].begin = NULL;
        break;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

static int get_proc_address(const char* name, void** function, int version, uint64_t flags,
                            int* found) {
    const int status = real_get_proc_address(name, function, version, flags, found);
    if (status != 0 || *function == NULL) return status;
    if (strcmp(name, "cuGetProcAddress") == 0 && version >= 12000) {
        real_get_proc_address = (GetProcAddress)*function;
        *function = (void*)get_proc_address;
    } else if (strcmp(name, "cuDeviceGetAttribute") == 0) {
        real_get_attribute = (GetAttribute)*function;
        *function = (void*)get_attribute;
    } else if (strcmp(name, "cuMemHostRegister") == 0) {
        real_register = (HostRegister)*function;
        *function = (void*)host_register;
    } else if (strcmp(name, "cuMemHostUnregister") == 0) {
        real_unregister = (HostUnregister)*function;
        *function = (void*)host_unregister;
    }
    return status;
}

void* dlsym(void* handle, const char* name) {
    if (real_lookup == NULL) {
        static const char* const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
        for (size_t i = 0; real_lookup == NULL && i < sizeof versions / sizeof *versions; ++i)
            real_lookup = (Lookup)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    }
    if (strcmp(name, "cuGetProcAddress_v2") == 0) {
        void* const found = real_lookup(handle, name);
        if (found == NULL) return NULL;
        real_get_proc_address = (GetProcAddress)found;
        return (void*)get_proc_address;
    }
    return real_lookup(handle, name);  // a jump: it looks at who called
}
