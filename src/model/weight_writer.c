#include "config.h"

#include "src/model/weight_writer.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/model/hf_tensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors files are little-endian");

enum { LENGTH_BYTES = 8, ALIGNMENT = 8, F32_BYTES = 4, MOST_AT_ONCE = 1 << 30, ENTRY_ROOM = 256 };

struct pl_weight_writer {
    pl_model_config config;
    int fd;
    int64_t n_appended;
    pl_status status; /* of the save so far */
    char folder[PATH_MAX];
    char partial[PATH_MAX + 32]; /* written here, then renamed to whole */
    char whole[PATH_MAX + 32];
};

static pl_status refuse_write(const char *path, int cause)
{
    return pl_refuse(PL_BAD_INPUT, "--save: cannot write %s: %s", path, strerror(cause));
}

/* --- the folder --- */

static pl_status make_folder(const char *folder)
{
    char path[PATH_MAX];
    struct stat about;

    if (folder[0] == '\0' || strlen(folder) >= sizeof path)
        return refuse_write(folder, folder[0] == '\0' ? ENOENT : ENAMETOOLONG);
    snprintf(path, sizeof path, "%s", folder);
    for (char *p = path + 1;; p++) {
        const char here = *p;

        if (here != '/' && here != '\0')
            continue;
        *p = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return refuse_write(path, errno);
        *p = here;
        if (here == '\0')
            break;
    }
    if (stat(folder, &about) == 0 && !S_ISDIR(about.st_mode))
        return refuse_write(folder, ENOTDIR);
    return PL_OK;
}

/* The limit of `ulimit -f` raises a signal that would end the rank without a word. */
static void ignore_file_size_signal(void)
{
    signal(SIGXFSZ, SIG_IGN);
}

pl_status pl_weight_writer_check(const char *folder)
{
    char probe[PATH_MAX + 32];
    pl_status status = make_folder(folder);
    int fd;

    ignore_file_size_signal();
    if (status != PL_OK)
        return status;
    snprintf(probe, sizeof probe, "%s/.writable.%ld", folder, (long)getpid());
    fd = open(probe, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return refuse_write(folder, errno);
    if (write(fd, "x", 1) != 1)
        status = refuse_write(folder, errno);
    close(fd);
    unlink(probe);
    return status;
}

/* --- writing --- */

static pl_status write_bytes(pl_weight_writer *w, const void *data, int64_t n)
{
    const char *from = data;

    while (n > 0) {
        const size_t wanted = n < MOST_AT_ONCE ? (size_t)n : MOST_AT_ONCE;
        const ssize_t put = write(w->fd, from, wanted);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return refuse_write(w->whole, put < 0 ? errno : ENOSPC);
        from += put;
        n -= put;
    }
    return PL_OK;
}

typedef struct {
    char *text;
    size_t used, room;
} header_text;

static void add(header_text *h, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(header_text *h, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(h->text + h->used, h->room - h->used, format, args);
    va_end(args);
    PL_ASSERT(n >= 0 && (size_t)n < h->room - h->used);
    h->used += (size_t)n;
}

static void describe(header_text *h, const pl_model_config *config)
{
    const int64_t n = pl_hf_tensor_count(config);
    int64_t at = 0;

    add(h, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int64_t i = 0; i < n; i++) {
        const pl_hf_tensor t = pl_hf_tensor_at(config, i);
        const int64_t end = at + t.rows * t.cols * F32_BYTES;

        add(h, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[", t.name);
        if (t.n_dims == 2)
            add(h, "%" PRId64 ",", t.rows);
        add(h, "%" PRId64 "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", t.cols, at, end);
        at = end;
    }
    add(h, "}");
    while ((LENGTH_BYTES + h->used) % ALIGNMENT != 0)
        add(h, " ");
}

static pl_status write_header(pl_weight_writer *w)
{
    const size_t room = (size_t)(pl_hf_tensor_count(&w->config) + 1) * ENTRY_ROOM;
    header_text h = {.text = pl_alloc(room), .room = room};
    uint64_t length;
    pl_status status;

    describe(&h, &w->config);
    length = h.used;
    status = write_bytes(w, &length, sizeof length);
    if (status == PL_OK)
        status = write_bytes(w, h.text, (int64_t)h.used);
    pl_free(h.text);
    return status;
}

pl_status pl_weight_writer_open(const char *folder, const pl_model_config *config,
                                pl_weight_writer **writer)
{
    pl_status status = make_folder(folder);
    pl_weight_writer *w;

    ignore_file_size_signal();
    if (status != PL_OK)
        return status;
    w = pl_alloc(sizeof *w);
    w->config = *config;
    snprintf(w->folder, sizeof w->folder, "%s", folder);
    snprintf(w->whole, sizeof w->whole, "%s/model.safetensors", folder);
    snprintf(w->partial, sizeof w->partial, "%s/model.safetensors.partial", folder);
    w->fd = open(w->partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        status = refuse_write(w->partial, errno);
        pl_free(w);
        return status;
    }
    status = w->status = write_header(w);
    if (status != PL_OK) {
        pl_weight_writer_close(w, false);
        return status;
    }
    *writer = w;
    return PL_OK;
}

pl_status pl_weight_writer_append(pl_weight_writer *w, const char *name, const float *data,
                                  int64_t n)
{
    pl_hf_tensor t;

    if (w->status != PL_OK)
        return w->status;
    PL_ASSERT(w->n_appended < pl_hf_tensor_count(&w->config));
    t = pl_hf_tensor_at(&w->config, w->n_appended);
    if (strcmp(t.name, name) != 0 || n != t.rows * t.cols) {
        w->status = pl_refuse(PL_INTERNAL,
                              "--save: %s of %" PRId64 " elements came where %s of %" PRId64
                              " was to be written",
                              name, n, t.name, t.rows * t.cols);
        return w->status;
    }
    w->status = write_bytes(w, data, n * F32_BYTES);
    w->n_appended++;
    return w->status;
}

/** Makes the renames themselves survive a power cut, where the file system can. */
static void sync_folder(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

/** Gives the files their names; the data are complete. */
static pl_status publish(pl_weight_writer *w)
{
    char config_path[PATH_MAX + 32];
    pl_status status;

    snprintf(config_path, sizeof config_path, "%s/config.json", w->folder);
    status = pl_model_config_write(config_path, &w->config);
    if (status == PL_OK && rename(w->partial, w->whole) != 0)
        status = refuse_write(w->whole, errno);
    if (status == PL_OK)
        sync_folder(w->folder);
    return status;
}

pl_status pl_weight_writer_close(pl_weight_writer *w, bool complete)
{
    pl_status status = complete ? w->status : PL_OK;

    if (complete && status == PL_OK && w->n_appended != pl_hf_tensor_count(&w->config))
        status = pl_refuse(PL_INTERNAL, "--save: only %" PRId64 " of %" PRId64 " tensors came",
                           w->n_appended, pl_hf_tensor_count(&w->config));
    /* EINVAL: the file system has nothing to synchronise. */
    if (complete && status == PL_OK && fsync(w->fd) != 0 && errno != EINVAL)
        status = refuse_write(w->whole, errno);
    if (close(w->fd) != 0 && complete && status == PL_OK)
        status = refuse_write(w->whole, errno);
    if (complete && status == PL_OK)
        status = publish(w);
    if (!complete || status != PL_OK)
        unlink(w->partial);
    pl_free(w);
    return status;
}
