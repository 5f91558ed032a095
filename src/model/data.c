#include "config.h"

#include "src/model/data.h"
#include "src/base/memory.h"
#include "src/base/panic.h"
#include "src/base/rng.h"
#include "src/model/synthetic_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "token files are little-endian");

enum {
    HEADER_WORDS = 256, /* int32 each */
    HEADER_BYTES = 4 * HEADER_WORDS,
    MAGIC = 20240520,
    FORMAT_VERSION = 1,
    VALIDATION_SHARE = 20, /* one token in so many */
};

/* --- opening --- */

static pl_status refuse_read(const char *path, int cause)
{
    return pl_refuse(PL_BAD_INPUT, "%s: cannot read: %s", path, strerror(cause));
}

static pl_status map_descriptor(const char *path, int fd, void **map, size_t *n_bytes)
{
    struct stat about;

    if (fstat(fd, &about) != 0)
        return refuse_read(path, errno);
    if (S_ISDIR(about.st_mode))
        return refuse_read(path, EISDIR);
    if (!S_ISREG(about.st_mode))
        return pl_refuse(PL_BAD_INPUT, "%s: cannot read: it is no regular file", path);
    if (about.st_size == 0)
        return pl_refuse(PL_BAD_INPUT, "%s: the file is empty", path);

    void *found = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

    if (found == MAP_FAILED)
        return refuse_read(path, errno);
    *map = found;
    *n_bytes = (size_t)about.st_size;
    return PL_OK;
}

static pl_status map_file(const char *path, void **map, size_t *n_bytes)
{
    /* O_NONBLOCK: a pipe without a writer must be refused, not waited for. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    pl_status status;

    if (fd < 0)
        return refuse_read(path, errno);
    status = map_descriptor(path, fd, map, n_bytes);
    close(fd);
    return status;
}

/** Whether the mapped file is one of token ids; a *.bin that is none would be trained on as noise.
 */
static pl_status look_at_kind(const pl_corpus *c, const char *path, int *is_token_file)
{
    const size_t length = strlen(path);
    int32_t magic = 0;

    if (c->map_bytes >= sizeof magic)
        memcpy(&magic, c->map, sizeof magic);
    *is_token_file = magic == MAGIC;
    if (magic != MAGIC && length >= 4 && strcmp(path + length - 4, ".bin") == 0)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: a .bin of token ids begins with the number %d, this one with %" PRId32
                         "; rename the file to train on its bytes",
                         path, MAGIC, magic);
    return PL_OK;
}

static pl_status open_ids(pl_corpus *c, const char *path)
{
    int32_t header[3]; /* magic, version, count */
    const int64_t file_bytes = (int64_t)c->map_bytes;

    if (file_bytes < HEADER_BYTES)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: a file of token ids has a header of %d bytes, this file is %" PRId64
                         " bytes: it is truncated",
                         path, HEADER_BYTES, file_bytes);
    memcpy(header, c->map, sizeof header);
    if (header[1] != FORMAT_VERSION)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: token ids of version %" PRId32 "; purlin reads version %d (uint16)",
                         path, header[1], FORMAT_VERSION);

    const int64_t wanted_bytes = HEADER_BYTES + 2 * (int64_t)header[2];

    if (header[2] < 0)
        return pl_refuse(PL_BAD_INPUT, "%s: the header says %" PRId32 " token ids", path,
                         header[2]);
    if (wanted_bytes != file_bytes)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: the header says %" PRId32 " token ids, %" PRId64
                         " bytes in all, but the file is %" PRId64 " bytes: it %s",
                         path, header[2], wanted_bytes, file_bytes,
                         wanted_bytes > file_bytes ? "is truncated" : "has grown");
    if (header[2] == 0)
        return pl_refuse(PL_BAD_INPUT, "%s: the file holds no token ids", path);
    c->u16 = (const uint16_t *)((const char *)c->map + HEADER_BYTES);
    c->n_tokens = header[2];
    return PL_OK;
}

static pl_status check_ids(const pl_corpus *c, const char *path, int64_t vocab)
{
    int largest = 0;
    int64_t at = 0;

    if (vocab > (c->u8 != NULL ? UINT8_MAX : UINT16_MAX))
        return PL_OK;
    for (int64_t i = 0; i < c->n_tokens; i++) {
        const int id = c->u8 != NULL ? c->u8[i] : c->u16[i];

        if (id > largest) {
            largest = id;
            at = i;
        }
    }
    if (largest >= vocab)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: the largest token id is %d (token %" PRId64
                         "), but the model's vocabulary has %" PRId64 " ids, 0 to %" PRId64
                         "; choose a --model that was made for this --data",
                         path, largest, at, vocab, vocab - 1);
    return PL_OK;
}

static void cover_all(pl_corpus *c)
{
    c->n_train = c->n_tokens;
    c->eval_begin = 0;
}

pl_status pl_corpus_open(const char *path, int64_t vocab, pl_corpus *corpus)
{
    pl_corpus c = {0};
    int is_token_file = 0;
    pl_status status = map_file(path, &c.map, &c.map_bytes);

    if (status != PL_OK)
        return status;
    snprintf(c.name, sizeof c.name, "%s", path);
    status = look_at_kind(&c, path, &is_token_file);
    if (status == PL_OK && is_token_file) {
        status = open_ids(&c, path);
    } else {
        c.u8 = c.map;
        c.n_tokens = (int64_t)c.map_bytes;
    }
    if (status == PL_OK)
        status = check_ids(&c, path, vocab);
    cover_all(&c);
    if (status == PL_OK)
        *corpus = c;
    else
        pl_corpus_close(&c);
    return status;
}

void pl_corpus_open_synthetic(int64_t vocab, uint64_t seed, pl_corpus *corpus)
{
    pl_corpus c = {.name = "synthetic text", .n_tokens = PL_SYNTHETIC_TOKENS};
    uint8_t *text = pl_alloc(PL_SYNTHETIC_TOKENS);

    pl_synthetic_text(vocab, seed, c.n_tokens, text);
    c.u8 = c.owned = text;
    c.entropy_nats = pl_synthetic_entropy_nats(vocab);
    cover_all(&c);
    *corpus = c;
}

void pl_corpus_close(pl_corpus *c)
{
    if (c->map != NULL)
        munmap(c->map, c->map_bytes);
    pl_free(c->owned);
    *c = (pl_corpus){0};
}

/* --- windows --- */

pl_status pl_corpus_split(pl_corpus *c, int64_t T)
{
    const int64_t n_eval = c->n_tokens / VALIDATION_SHARE;

    if (n_eval < T + 1)
        return pl_refuse(PL_BAD_INPUT,
                         "%s: has %" PRId64
                         " tokens, so the last 5%%, kept for validation, is %" PRId64
                         ", but one window of --seq %" PRId64 " needs %" PRId64 " there (%" PRId64
                         " in all); lower --seq or set --eval-every 0",
                         c->name, c->n_tokens, n_eval, T, T + 1, VALIDATION_SHARE * (T + 1));
    c->n_train = c->n_tokens - n_eval;
    c->eval_begin = c->n_train;
    return PL_OK;
}

pl_status pl_corpus_check_window(const pl_corpus *c, int64_t T)
{
    if (c->n_train < T + 1)
        return pl_refuse(
            PL_BAD_INPUT,
            "%s: has %" PRId64 " tokens%s, but one window of --seq %" PRId64 " needs %" PRId64
            " (%" PRId64 " and the one that follows); lower --seq or give more text",
            c->name, c->n_train, c->n_train < c->n_tokens ? " to train on" : "", T, T + 1, T);
    return PL_OK;
}

int32_t pl_corpus_token(const pl_corpus *c, int64_t offset)
{
    return c->u8 != NULL ? c->u8[offset] : c->u16[offset];
}

void pl_corpus_copy(const pl_corpus *c, int64_t begin, int64_t n, int32_t *out)
{
    PL_ASSERT(begin >= 0 && n >= 0 && begin <= c->n_tokens - n);
    for (int64_t i = 0; i < n; i++)
        out[i] = pl_corpus_token(c, begin + i);
}

int64_t pl_window_begin(const pl_corpus *c, pl_order order, uint64_t seed, int64_t step,
                        int64_t index, int64_t batch, int64_t T)
{
    const int64_t i = step * batch + index;

    if (order == PL_ORDER_RANDOM)
        return pl_rng_below(seed, pl_rng_stream("window"), (uint64_t)i, c->n_train - T);

    const int64_t starts = c->n_train - T - 1 > 1 ? c->n_train - T - 1 : 1;

    return i % starts * (T % starts) % starts;
}

int64_t pl_eval_window_count(const pl_corpus *c, int64_t T)
{
    const int64_t n = c->n_tokens - c->eval_begin;

    return n < 1 ? 0 : (n - 1) / T;
}

int64_t pl_eval_window_begin(const pl_corpus *c, int64_t T, int64_t i)
{
    return c->eval_begin + i * T;
}
