/* data -- a text as token ids, and which windows of it a step trains on.
 *
 * Every rank opens the same file and computes the same windows; nothing here is collective. */
#ifndef PURLIN_MODEL_DATA_H
#define PURLIN_MODEL_DATA_H

#include "src/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    char name[256];      /* the path, or "synthetic text" */
    const uint8_t *u8;   /* ids of one byte, or NULL */
    const uint16_t *u16; /* ids of two bytes, or NULL */
    void *map;           /* the mapped file, or NULL */
    void *owned;         /* memory of a made text, or NULL */
    size_t map_bytes;
    int64_t n_tokens;    /* all */
    int64_t n_train;     /* from token 0; windows of training lie in these */
    int64_t eval_begin;  /* windows of evaluation lie in [eval_begin, n_tokens) */
    double entropy_nats; /* per token, when it is known; else 0 */
} pl_corpus;

typedef enum { PL_ORDER_RANDOM, PL_ORDER_SEQUENTIAL } pl_order;

/** Open `path`, whose ids must be below `vocab`. A file that begins with the magic number of
 * llm.c's token files (256 int32: 20240520, version 1, count; then uint16 ids) is one; any other is
 * bytes as tokens, unless it is called *.bin. Refuses what is unreadable, no file, empty, truncated
 * or grown, and an id beyond the vocabulary (all are looked at). */
pl_status pl_corpus_open(const char *path, int64_t vocab, pl_corpus *corpus);

/** A text made from `seed`, whose entropy is known exactly (src/model/synthetic_text.h). */
void pl_corpus_open_synthetic(int64_t vocab, uint64_t seed, pl_corpus *corpus);

void pl_corpus_close(pl_corpus *corpus);

/** Keep the last 5% of the text (rounded down) for evaluation and train on the rest. Refuses when
 * that holds no window of T + 1 tokens. */
pl_status pl_corpus_split(pl_corpus *corpus, int64_t T);

/** Refuses when the text to train on is shorter than one window: T tokens and the one that follows.
 */
pl_status pl_corpus_check_window(const pl_corpus *corpus, int64_t T);

int32_t pl_corpus_token(const pl_corpus *corpus, int64_t offset);

/** out[n] = tokens begin .. begin + n - 1. */
void pl_corpus_copy(const pl_corpus *corpus, int64_t begin, int64_t n, int32_t *out);

/** First token of the window that sequence `index` of the global batch has in `step`; the window is
 * T tokens and the one that follows. With i = step x batch + index, counted over the whole run:
 *   random       uniform over all windows, as a function of (seed, i)
 *   sequential   (i T) mod max(1, n_train - T - 1)  */
int64_t pl_window_begin(const pl_corpus *corpus, pl_order order, uint64_t seed, int64_t step,
                        int64_t index, int64_t batch, int64_t T);

/** How many full windows of T tokens, no two sharing a predicted token, evaluation has. */
int64_t pl_eval_window_count(const pl_corpus *corpus, int64_t T);
/** First token of the i-th of them. */
int64_t pl_eval_window_begin(const pl_corpus *corpus, int64_t T, int64_t i);

#endif
