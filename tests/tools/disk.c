/* Preloaded into palisade by tests/it/power.rs: writes down what it does to the files below one directory, and fails what
 * the test tells it to fail.
 *
 *   PALISADE_DISK_ROOT     the directory
 *   PALISADE_DISK_LOG      where the records go, appended; read by tests/it/power/trace.rs
 *   PALISADE_DISK_CONTROL  a file of eight 64-bit numbers, shared with the test: see the words below
 *
 * One lock around each call and its record, so that the order of the records is the order of the calls. A call that a
 * preloaded library cannot see (a raw system call, a store through a mapping) shows up in the test's self-check: the
 * records played back must give the files byte for byte.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum what { OPEN = 1, WRITE, TRUNCATE, SYNC, SYNC_FAILED, RENAME, UNLINK, MKDIR, UNKNOWN };

/* Words of the control file. */
enum word {
    WRITE_ERROR, /* errno of every changing call but a sync; 0 is none */
    WRITE_SKIP,  /* so many still succeed */
    SYNC_ERROR,  /* errno of every sync; 0 is none */
    SYNC_SKIP,   /* so many still succeed */
    ONLY,        /* of which files: 0 all, otherwise the last byte of their names */
    ROOM,        /* bytes that may still be written, plus one; 0 is no limit */
    DELAY,       /* microseconds before each sync */
    ONCE,        /* 1: the first failure is the only one */
    WORDS
};

struct record {
    uint32_t magic, what;
    uint64_t inode;
    int64_t at;
    uint64_t length; /* of the data */
    uint32_t name, other; /* their lengths; they come before the data */
};

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static const char *root;
static int log_file = -1;
static int64_t *control;

__attribute__((constructor)) static void begin(void) {
    const char *log = getenv("PALISADE_DISK_LOG"), *shared = getenv("PALISADE_DISK_CONTROL");
    root = getenv("PALISADE_DISK_ROOT");
    if (!root || !log || !shared) {
        root = NULL;
        return;
    }
    log_file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int file = syscall(SYS_openat, AT_FDCWD, shared, O_RDWR | O_CLOEXEC, 0);
    control = mmap(NULL, WORDS * sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (log_file < 0 || file < 0 || control == MAP_FAILED) {
        dprintf(2, "disk.c: cannot set up\n");
        abort();
    }
    close(file);
}

static void lock(void) { pthread_mutex_lock(&one_at_a_time); }

static void unlock(void) {
    int error = errno;
    pthread_mutex_unlock(&one_at_a_time);
    errno = error;
}

static int below(const char *path) {
    size_t length = root ? strlen(root) : 0;
    return root && strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* Whether a descriptor is a file or directory below the root; its inode, and the last byte of its name. */
static int traced(int fd, uint64_t *inode, char *last, char *path) {
    struct stat found;
    char link[64];
    if (!root || fd == log_file || fstat(fd, &found) != 0) return 0;
    if (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    *inode = found.st_ino;
    *last = path[length - 1];
    return below(path);
}

static void put(struct record record, const char *name, const char *other, const struct iovec *data, int pieces) {
    struct iovec all[3 + 64];
    if (pieces > 64) abort();
    record.magic = 0x6b736944;
    record.name = strlen(name);
    record.other = strlen(other);
    all[0] = (struct iovec){&record, sizeof record};
    all[1] = (struct iovec){(void *)name, record.name};
    all[2] = (struct iovec){(void *)other, record.other};
    size_t left = record.length, total = sizeof record + record.name + record.other + left;
    int n = 3;
    for (int i = 0; i < pieces && left > 0; i++) {
        size_t part = data[i].iov_len < left ? data[i].iov_len : left;
        all[n++] = (struct iovec){data[i].iov_base, part};
        left -= part;
    }
    if (syscall(SYS_writev, log_file, all, n) != (long)total) abort();
}

static void note(enum what what, uint64_t inode, int64_t at, const char *name, const char *other) {
    int error = errno;
    put((struct record){.what = what, .inode = inode, .at = at}, name, other, NULL, 0);
    errno = error;
}

/* Whether the test wants this call to fail; errno is set then. */
static int fails(enum word error, enum word skip, char last) {
    int number = (int)control[error];
    if (number == 0 || (control[ONLY] != 0 && control[ONLY] != last)) return 0;
    if (control[skip] > 0) {
        control[skip]--;
        return 0;
    }
    if (control[ONCE]) control[error] = 0;
    errno = number;
    return 1;
}

static int refused(const char *path) { return fails(WRITE_ERROR, WRITE_SKIP, path[strlen(path) - 1]); }

/* How much of a write there is room for; -1 where it fails. */
static ssize_t room(size_t wanted, char last) {
    if (fails(WRITE_ERROR, WRITE_SKIP, last)) return -1;
    if (control[ROOM] == 0 || wanted == 0) return wanted;
    size_t left = control[ROOM] - 1;
    if (left == 0) {
        errno = ENOSPC;
        return -1;
    }
    if (wanted > left) wanted = left;
    control[ROOM] -= wanted;
    return wanted;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* Opens: a made file and an emptied one are changes; the others tell which name has which inode. */
static int opened(int fd, int flags) {
    char path[PATH_MAX], last;
    uint64_t inode;
    if (fd >= 0 && traced(fd, &inode, &last, path)) note(OPEN, inode, flags & (O_CREAT | O_TRUNC), path, "");
    return fd;
}

#define OPENS(name, parameters, arguments, path) \
    int name parameters { \
        REAL(name); \
        mode_t mode = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        if (!root) return real arguments; \
        lock(); \
        int changes = (flags & O_TRUNC) || ((flags & O_CREAT) && access(path, F_OK) != 0); \
        int fd = changes && below(path) && refused(path) ? -1 : opened(real arguments, flags); \
        unlock(); \
        return fd; \
    }

OPENS(open, (const char *path, int flags, ...), (path, flags, mode), path)
OPENS(open64, (const char *path, int flags, ...), (path, flags, mode), path)
OPENS(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode), path)
OPENS(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode), path)

/* Writes, all by way of one vectored write at a place. */
static ssize_t write_pieces(int fd, const struct iovec *pieces, int count, off_t at, int moves) {
    char path[PATH_MAX], last;
    uint64_t inode;
    size_t wanted = 0;
    struct iovec cut[64];
    struct stat found;
    if (count > 64) abort();
    lock();
    if (!traced(fd, &inode, &last, path)) {
        unlock();
        return moves ? syscall(SYS_writev, fd, pieces, count) : pwritev(fd, pieces, count, at);
    }
    for (int i = 0; i < count; i++) wanted += pieces[i].iov_len;
    ssize_t left = room(wanted, last), done = left;
    int used = 0;
    for (; used < count && left > 0; used++) {
        cut[used] = pieces[used];
        if (cut[used].iov_len > (size_t)left) cut[used].iov_len = left;
        left -= cut[used].iov_len;
    }
    if (moves) {
        at = lseek(fd, 0, SEEK_CUR);
        if ((fcntl(fd, F_GETFL) & O_APPEND) && fstat(fd, &found) == 0) at = found.st_size;
    }
    if (done > 0) {
        long low = (long)at;
        done = moves ? syscall(SYS_writev, fd, cut, used) : syscall(SYS_pwritev, fd, cut, used, low, 0L);
    }
    if (done > 0) {
        struct record record = {.what = WRITE, .inode = inode, .at = at, .length = done};
        put(record, "", "", cut, used);
    }
    unlock();
    return done;
}

ssize_t write(int fd, const void *data, size_t length) {
    struct iovec piece = {(void *)data, length};
    struct stat found;
    /* Sockets and pipes go the usual way. */
    if (!root || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) return syscall(SYS_write, fd, data, length);
    return write_pieces(fd, &piece, 1, 0, 1);
}

ssize_t writev(int fd, const struct iovec *pieces, int count) {
    struct stat found;
    if (!root || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) return syscall(SYS_writev, fd, pieces, count);
    return write_pieces(fd, pieces, count, 0, 1);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at) {
    struct iovec piece = {(void *)data, length};
    return root ? write_pieces(fd, &piece, 1, at, 0) : syscall(SYS_pwrite64, fd, data, length, at);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) { return pwrite(fd, data, length, at); }

/* Lengths. */
int ftruncate(int fd, off_t length) {
    char path[PATH_MAX], last;
    uint64_t inode;
    if (!root) return syscall(SYS_ftruncate, fd, length);
    lock();
    int ours = traced(fd, &inode, &last, path);
    int done = ours && fails(WRITE_ERROR, WRITE_SKIP, last) ? -1 : syscall(SYS_ftruncate, fd, length);
    if (ours && done == 0) note(TRUNCATE, inode, length, "", "");
    unlock();
    return done;
}

int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

/* What the store does not use and the test cannot play back: it must notice. */
static int unplayed(int fd, const char *call) {
    char path[PATH_MAX], last;
    uint64_t inode;
    lock();
    if (traced(fd, &inode, &last, path)) note(UNKNOWN, inode, 0, call, path);
    unlock();
    errno = ENOSYS;
    return -1;
}

int fallocate(int fd, int mode, off_t at, off_t length) {
    REAL(fallocate);
    return root ? unplayed(fd, "fallocate") : real(fd, mode, at, length);
}

int posix_fallocate(int fd, off_t at, off_t length) {
    REAL(posix_fallocate);
    return root ? unplayed(fd, "posix_fallocate") : real(fd, at, length);
}

/* Syncs. */
static int synced(int fd, long call) {
    char path[PATH_MAX], last;
    uint64_t inode;
    if (!root) return syscall(call, fd);
    if (control[DELAY] > 0) usleep(control[DELAY]);
    lock();
    int ours = traced(fd, &inode, &last, path);
    int done = ours && fails(SYNC_ERROR, SYNC_SKIP, last) ? -1 : syscall(call, fd);
    /* A directory's names are no data: nobody may count on them after an fdatasync of it. */
    struct stat found;
    int names = ours && call == SYS_fdatasync && fstat(fd, &found) == 0 && S_ISDIR(found.st_mode);
    if (ours && !(names && done == 0)) note(done == 0 ? SYNC : SYNC_FAILED, inode, 0, "", "");
    unlock();
    return done;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }

int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

/* Names. */
#define NAMES(name, parameters, arguments, what, one, other) \
    int name parameters { \
        REAL(name); \
        if (!root || !below(one)) return real arguments; \
        lock(); \
        int done = refused(one) ? -1 : real arguments; \
        if (done == 0) note(what, 0, 0, one, other); \
        unlock(); \
        return done; \
    }

NAMES(rename, (const char *from, const char *to), (from, to), RENAME, from, to)
NAMES(unlink, (const char *path), (path), UNLINK, path, "")
NAMES(mkdir, (const char *path, mode_t mode), (path, mode), MKDIR, path, "")
NAMES(rmdir, (const char *path), (path), UNKNOWN, path, "rmdir")
NAMES(link, (const char *from, const char *to), (from, to), UNKNOWN, from, "link")
