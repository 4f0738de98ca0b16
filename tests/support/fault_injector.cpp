// A shared library for LD_PRELOAD that refuses the n-th call of one kind, as a machine without
// threads, memory, descriptors or disk space does. Never linked into the product.
//
//   CAPTION_FAULT=thread:3        refuses the third pthread_create() with EAGAIN
//   CAPTION_FAULT=malloc:1000+    refuses the thousandth allocation and all later ones
//   CAPTION_FAULT_COUNTS=FILE     writes at exit one line "kind count" for every kind
//   CAPTION_FAULT_TRACE=FILE      appends the stack of every refused call
//
// Counting begins when main() is entered. Calls that glibc makes within itself (the write() below
// fflush(), the mmap() below malloc()) do not come through here; their callers do. Nothing in this
// file allocates once main() runs, and a refused call never enters the library again.
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// glibc's allocator under the names that a program cannot replace.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* block, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}

namespace {

enum Kind { kThread, kMalloc, kOpen, kWrite, kMmap, kFsync, kRename, kRead, kTruncate, kNumKinds };

constexpr std::array<const char*, kNumKinds> kNames = {
    "thread", "malloc", "open", "write", "mmap", "fsync", "rename", "read", "ftruncate"};
constexpr std::array<int, kNumKinds> kErrors = {EAGAIN, ENOMEM, EMFILE, ENOSPC, ENOMEM,
                                                EIO,    EIO,    EIO,    EIO};

std::array<std::atomic<long>, kNumKinds> g_counts{};
std::atomic<bool> g_is_counting{false};
int g_refused_kind = -1;
long g_first_refused = 0;
bool g_refuses_later_ones = false;
const char* g_counts_file = nullptr;
int g_trace_file = -1;
// Set while a trace is written. The TLS model is the one that needs no allocation.
__attribute__((tls_model("initial-exec"))) thread_local bool t_is_tracing = false;

using Main = int (*)(int, char**, char**);
Main g_main = nullptr;

void trace(Kind kind) {
  if (g_trace_file < 0) return;
  t_is_tracing = true;
  std::array<void*, 64> frames{};
  const int depth = ::backtrace(frames.data(), frames.size());
  ::dprintf(g_trace_file, "refused %s\n", kNames[kind]);
  ::backtrace_symbols_fd(frames.data(), depth, g_trace_file);
  t_is_tracing = false;
}

// Counts a call; true, and errno set, when it is to be refused.
bool refuses(Kind kind) {
  if (!g_is_counting.load(std::memory_order_relaxed) || t_is_tracing) return false;
  const long number = g_counts[kind].fetch_add(1, std::memory_order_relaxed) + 1;
  if (kind != g_refused_kind) return false;
  if (number != g_first_refused && !(g_refuses_later_ones && number > g_first_refused)) {
    return false;
  }
  trace(kind);
  errno = kErrors[kind];
  return true;
}

void parse_fault(const char* text) {
  for (int kind = 0; kind < kNumKinds; ++kind) {
    const std::size_t length = std::strlen(kNames[kind]);
    if (std::strncmp(text, kNames[kind], length) != 0 || text[length] != ':') continue;
    char* end = nullptr;
    g_first_refused = std::strtol(text + length + 1, &end, 10);
    g_refuses_later_ones = *end == '+';
    g_refused_kind = kind;
    return;
  }
  ::dprintf(STDERR_FILENO, "CAPTION_FAULT: kind:number or kind:number+ was expected\n");
  ::_exit(126);
}

__attribute__((constructor)) void prepare() {
  g_counts_file = std::getenv("CAPTION_FAULT_COUNTS");
  if (const char* fault = std::getenv("CAPTION_FAULT")) parse_fault(fault);
  if (const char* file = std::getenv("CAPTION_FAULT_TRACE")) {
    g_trace_file = ::open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    std::array<void*, 4> frames{};
    ::backtrace(frames.data(), frames.size());  // loads what later calls need
  }
}

__attribute__((destructor)) void write_counts() {
  g_is_counting.store(false);
  if (g_counts_file == nullptr) return;
  const int file = ::open(g_counts_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return;
  for (int kind = 0; kind < kNumKinds; ++kind) {
    ::dprintf(file, "%s %ld\n", kNames[kind], g_counts[kind].load());
  }
  ::close(file);
}

int counted_main(int argc, char** argv, char** environment) {
  g_is_counting.store(true);
  return g_main(argc, argv, environment);
}

}  // namespace

// next_NAME: the function of that name in the libraries that follow. Looked up before main() runs,
// because dlsym() may allocate.
#define CAPTION_NEXT(result, name, parameters)                                        \
  static result(*next_##name) parameters = nullptr;                                   \
  __attribute__((constructor)) static void find_##name() {                            \
    if (next_##name != nullptr) return;                                               \
    next_##name = reinterpret_cast<decltype(next_##name)>(::dlsym(RTLD_NEXT, #name)); \
  }

// A definition that refuses with `refusal` when it is its turn, and else calls the next one.
#define CAPTION_FORWARD(kind, result, refusal, name, parameters, arguments) \
  CAPTION_NEXT(result, name, parameters)                                    \
  extern "C" result name parameters {                                       \
    find_##name();                                                          \
    if (refuses(kind)) return refusal;                                      \
    return next_##name arguments;                                           \
  }

// open() and its kin take a mode where they may create a file.
#define CAPTION_FORWARD_OPEN(name)                                               \
  CAPTION_NEXT(int, name, (const char*, int, ...))                               \
  extern "C" int name(const char* path, int flags, ...) {                        \
    find_##name();                                                               \
    if (refuses(kOpen)) return -1;                                               \
    if ((flags & (O_CREAT | __O_TMPFILE)) == 0) return next_##name(path, flags); \
    va_list rest;                                                                \
    va_start(rest, flags);                                                       \
    const mode_t mode = va_arg(rest, mode_t);                                    \
    va_end(rest);                                                                \
    return next_##name(path, flags, mode);                                       \
  }
#define CAPTION_FORWARD_OPENAT(name)                                                     \
  CAPTION_NEXT(int, name, (int, const char*, int, ...))                                  \
  extern "C" int name(int folder, const char* path, int flags, ...) {                    \
    find_##name();                                                                       \
    if (refuses(kOpen)) return -1;                                                       \
    if ((flags & (O_CREAT | __O_TMPFILE)) == 0) return next_##name(folder, path, flags); \
    va_list rest;                                                                        \
    va_start(rest, flags);                                                               \
    const mode_t mode = va_arg(rest, mode_t);                                            \
    va_end(rest);                                                                        \
    return next_##name(folder, path, flags, mode);                                       \
  }

CAPTION_NEXT(int, __libc_start_main, (Main, int, char**, void (*)(), void (*)(), void (*)(), void*))

extern "C" int __libc_start_main(Main main_function, int argc, char** argv, void (*init)(),
                                 void (*fini)(), void (*rtld_fini)(), void* stack_end) {
  g_main = main_function;
  find___libc_start_main();
  return next___libc_start_main(&counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}

CAPTION_FORWARD(kThread, int, EAGAIN, pthread_create,
                (pthread_t * thread, const pthread_attr_t* attributes, void* (*start)(void*),
                 void* argument),
                (thread, attributes, start, argument))

CAPTION_FORWARD_OPEN(open)
CAPTION_FORWARD_OPEN(open64)
CAPTION_FORWARD_OPENAT(openat)
CAPTION_FORWARD_OPENAT(openat64)
CAPTION_FORWARD(kOpen, int, -1, __open_2, (const char* path, int flags), (path, flags))
CAPTION_FORWARD(kOpen, int, -1, __open64_2, (const char* path, int flags), (path, flags))
CAPTION_FORWARD(kOpen, int, -1, __openat_2, (int folder, const char* path, int flags),
                (folder, path, flags))
CAPTION_FORWARD(kOpen, int, -1, __openat64_2, (int folder, const char* path, int flags),
                (folder, path, flags))
CAPTION_FORWARD(kOpen, FILE*, nullptr, fopen, (const char* path, const char* mode), (path, mode))
CAPTION_FORWARD(kOpen, FILE*, nullptr, fopen64, (const char* path, const char* mode), (path, mode))
CAPTION_FORWARD(kOpen, DIR*, nullptr, opendir, (const char* path), (path))

CAPTION_FORWARD(kWrite, ssize_t, -1, write, (int file, const void* bytes, std::size_t size),
                (file, bytes, size))
CAPTION_FORWARD(kWrite, ssize_t, -1, writev, (int file, const iovec* parts, int count),
                (file, parts, count))
CAPTION_FORWARD(kWrite, ssize_t, -1, pwrite,
                (int file, const void* bytes, std::size_t size, off_t position),
                (file, bytes, size, position))
CAPTION_FORWARD(kWrite, ssize_t, -1, pwrite64,
                (int file, const void* bytes, std::size_t size, off64_t position),
                (file, bytes, size, position))
CAPTION_FORWARD(kWrite, std::size_t, 0, fwrite,
                (const void* items, std::size_t size, std::size_t count, FILE* stream),
                (items, size, count, stream))
CAPTION_FORWARD(kWrite, int, EOF, fflush, (FILE * stream), (stream))
CAPTION_FORWARD(kWrite, int, EOF, putc, (int character, FILE* stream), (character, stream))
CAPTION_FORWARD(kWrite, int, EOF, fputs, (const char* text, FILE* stream), (text, stream))

CAPTION_FORWARD(kMmap, void*, MAP_FAILED, mmap,
                (void* address, std::size_t size, int protection, int flags, int file,
                 off_t offset),
                (address, size, protection, flags, file, offset))
CAPTION_FORWARD(kMmap, void*, MAP_FAILED, mmap64,
                (void* address, std::size_t size, int protection, int flags, int file,
                 off64_t offset),
                (address, size, protection, flags, file, offset))

CAPTION_FORWARD(kFsync, int, -1, fsync, (int file), (file))
CAPTION_FORWARD(kFsync, int, -1, fdatasync, (int file), (file))

CAPTION_FORWARD(kRename, int, -1, rename, (const char* from, const char* to), (from, to))
CAPTION_FORWARD(kRename, int, -1, renameat,
                (int from_folder, const char* from, int to_folder, const char* to),
                (from_folder, from, to_folder, to))
CAPTION_FORWARD(kRename, int, -1, renameat2,
                (int from_folder, const char* from, int to_folder, const char* to, unsigned flags),
                (from_folder, from, to_folder, to, flags))

CAPTION_FORWARD(kTruncate, int, -1, ftruncate, (int file, off_t size), (file, size))
CAPTION_FORWARD(kTruncate, int, -1, ftruncate64, (int file, off64_t size), (file, size))

CAPTION_FORWARD(kRead, ssize_t, -1, read, (int file, void* bytes, std::size_t size),
                (file, bytes, size))
CAPTION_FORWARD(kRead, ssize_t, -1, readv, (int file, const iovec* parts, int count),
                (file, parts, count))
CAPTION_FORWARD(kRead, ssize_t, -1, pread,
                (int file, void* bytes, std::size_t size, off_t position),
                (file, bytes, size, position))
CAPTION_FORWARD(kRead, ssize_t, -1, pread64,
                (int file, void* bytes, std::size_t size, off64_t position),
                (file, bytes, size, position))
CAPTION_FORWARD(kRead, ssize_t, -1, __read_chk,
                (int file, void* bytes, std::size_t size, std::size_t capacity),
                (file, bytes, size, capacity))
CAPTION_FORWARD(kRead, ssize_t, -1, __pread_chk,
                (int file, void* bytes, std::size_t size, off_t position, std::size_t capacity),
                (file, bytes, size, position, capacity))
CAPTION_FORWARD(kRead, ssize_t, -1, __pread64_chk,
                (int file, void* bytes, std::size_t size, off64_t position, std::size_t capacity),
                (file, bytes, size, position, capacity))
CAPTION_FORWARD(kRead, std::size_t, 0, fread,
                (void* items, std::size_t size, std::size_t count, FILE* stream),
                (items, size, count, stream))

// Memory. operator new comes through malloc() and aligned_alloc().
extern "C" void* malloc(std::size_t size) {
  return refuses(kMalloc) ? nullptr : __libc_malloc(size);
}
extern "C" void* calloc(std::size_t count, std::size_t size) {
  return refuses(kMalloc) ? nullptr : __libc_calloc(count, size);
}
extern "C" void* realloc(void* block, std::size_t size) {
  return refuses(kMalloc) ? nullptr : __libc_realloc(block, size);
}
extern "C" void* memalign(std::size_t alignment, std::size_t size) {
  return refuses(kMalloc) ? nullptr : __libc_memalign(alignment, size);
}
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return refuses(kMalloc) ? nullptr : __libc_memalign(alignment, size);
}
extern "C" int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  if (refuses(kMalloc)) return ENOMEM;
  void* const found = __libc_memalign(alignment, size);
  if (found == nullptr) return ENOMEM;
  *block = found;
  return 0;
}
