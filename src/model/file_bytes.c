#include "config.h"

#include "src/model/file_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_AT_ONCE = 1 << 30 }; /* Linux reads at most 2^31 - 4096 bytes a call */

static pl_status refuse_read(const char *path, int cause)
{
    return pl_refuse(PL_BAD_INPUT, "%s: cannot read: %s", path, strerror(cause));
}

pl_status pl_file_bytes_open(const char *path, pl_file_bytes *file)
{
    pl_file_bytes f = {.fd = -1};
    struct stat about;

    if (strlen(path) >= sizeof f.path)
        return refuse_read(path, ENAMETOOLONG);
    memcpy(f.path, path, strlen(path) + 1);
    /* O_NONBLOCK: a pipe without a writer must be refused, not waited for. */
    f.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f.fd < 0)
        return refuse_read(path, errno);
    if (fstat(f.fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        pl_file_bytes_close(&f);
        return pl_refuse(PL_BAD_INPUT, "%s: cannot read: it is no regular file", path);
    }
    f.n_bytes = about.st_size;
    *file = f;
    return PL_OK;
}

pl_status pl_file_bytes_read(const pl_file_bytes *file, int64_t begin, int64_t n, void *out)
{
    char *to = out;

    while (n > 0) {
        const size_t wanted = n < MOST_AT_ONCE ? (size_t)n : MOST_AT_ONCE;
        const ssize_t got = pread(file->fd, to, wanted, begin);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return refuse_read(file->path, errno);
        if (got == 0)
            return pl_refuse(PL_BAD_INPUT,
                             "%s: ends at byte %" PRId64 ", %" PRId64
                             " bytes before the end of what is to be read; it had %" PRId64
                             " bytes when it was opened",
                             file->path, begin, n, file->n_bytes);
        to += got;
        begin += got;
        n -= got;
    }
    return PL_OK;
}

void pl_file_bytes_close(pl_file_bytes *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}
