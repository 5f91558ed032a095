#include "config.h"

#include "src/model/synthetic_text.h"
#include "src/base/rng.h"

#include <math.h>

enum { ASCII = 128, MOST_SYMBOLS = 32, MOST_SUCCESSORS = 4 };

static const char letters[MOST_SYMBOLS + 1] = "abcdefghijklmnopqrstuvwxyz .,;'\n";

static int symbol_count(int64_t vocab)
{
    return vocab < MOST_SYMBOLS ? (int)vocab : MOST_SYMBOLS;
}

static int successor_count(int64_t vocab)
{
    return vocab < MOST_SUCCESSORS ? (int)vocab : MOST_SUCCESSORS;
}

/** 0, 1, ..., k - 1 with probability 1/2, 1/4, ..., the last as often as the one before. */
static int choose(uint64_t bits, int k)
{
    int j = 0;

    for (; j < k - 1 && (bits & 1) != 0; j++)
        bits >>= 1;
    return j;
}

void pl_synthetic_text(int64_t vocab, uint64_t seed, int64_t n, uint8_t *text)
{
    const int A = symbol_count(vocab), k = successor_count(vocab);
    const uint64_t stream = pl_rng_stream("synthetic text");
    int s = 0;

    for (int64_t i = 0; i < n; i++) {
        const int j = choose(pl_rng_bits(seed, stream, (uint64_t)i), k);

        s = (k * s + (j + s + 1) % k) % A;
        text[i] = vocab >= ASCII ? (uint8_t)letters[s] : (uint8_t)s;
    }
}

double pl_synthetic_entropy_nats(int64_t vocab)
{
    const int k = successor_count(vocab);
    double bits = 0, p = 1;

    for (int j = 0; j < k; j++) {
        p = j < k - 1 ? p / 2 : p; /* the last repeats */
        bits -= p * log2(p);
    }
    return bits * log(2);
}
