/* Outputs large enough to bypass the caches (kernels/bypass.h) do so, every byte of them once, and
 * hold the bits of small ones: each kernel runs once on everything, and once in pieces too small to
 * be streamed. The linker sends calls of pl_bypass through counters here; AVX-512 kernels that
 * store past the caches from registers are seen to complete it. */
#include "config.h"

#include "kernels/elementwise.h"
#include "kernels/embed.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "kernels/bypass.h"
#include "kernels/swiglu.h"
#include "kernels/xent.h"

#include "tests/check_main.h"
#include "tests/kernel_check.h"

#include <string.h>

void __real_pl_bypass(void *to, const void *from, size_t bytes);
void __real_pl_bypass_end(void);
void __wrap_pl_bypass(void *to, const void *from, size_t bytes);
void __wrap_pl_bypass_end(void);

static size_t n_streamed; /* bytes */
static bool is_pending;   /* some of them not completed */
static int n_ends;        /* completions */

void __wrap_pl_bypass(void *to, const void *from, size_t bytes)
{
    n_streamed += bytes;
    is_pending = true;
    __real_pl_bypass(to, from, bytes);
}

void __wrap_pl_bypass_end(void)
{
    is_pending = false;
    n_ends++;
    __real_pl_bypass_end();
}

/* Rows of D, D being no multiple of a line: D R elements are streamed, in either type. Or of LINES,
 * which is one. */
enum {
    D = 1021,
    HEADS = 17,
    H = 60,
    R = PL_BYPASS_LEAST / 2 / (HEADS * H) + 1,
    LINES = 1024,
    N = R * LINES,
    PIECES = 5,
    EMBED_BEGIN = 5 /* tokens before it are another shard's */
};

typedef struct {
    float *x, *y, *z, *row;
    float *whole, *pieces, *whole_2, *pieces_2; /* bf16 takes the first half */
    float *stats;                               /* [R] */
    int32_t *ids;                               /* [R] */
} arrays;

/** n values that are harmless both as f32 and as two bf16. */
static float *twofold(int64_t n, uint64_t seed)
{
    float *x = floats(n, seed, -1.0, 1.0);

    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)pl_bf16_of_f32(x[i]) * 0x10001u;

        memcpy(x + i, &bits, sizeof bits);
    }
    return x;
}

static arrays arrays_create(void)
{
    arrays a = {
        .x = twofold(N, 1), .y = twofold(N, 2), .z = twofold(N, 3), .row = twofold(LINES, 4)};

    a.whole = sentinels(N);
    a.pieces = sentinels(N);
    a.whole_2 = sentinels(N);
    a.pieces_2 = sentinels(N);
    a.stats = floats(R, 5, 1.0, 2.0);
    a.ids = keep(pl_alloc(R * sizeof *a.ids));
    for (int32_t r = 0; r < R; r++)
        a.ids[r] = (int32_t)((int64_t)r * 7919 % D);
    return a;
}

typedef enum {
    ADD,
    NARROW,
    WIDEN,
    SWIGLU,
    SWIGLU_BACK,
    ROPE,
    NORM,
    NORM_LINES,
    NORM_BACK,
    XENT,
    EMBED,
    EMBED_LINES,
    N_KINDS
} kind;

static size_t size_of(kind which, int bf16)
{
    return which == NARROW || (bf16 && which != WIDEN) ? 2 : 4;
}

/** Elements of a row. */
static int64_t width_of(kind which)
{
    return which == ROPE ? HEADS * H : which == NORM_LINES || which == EMBED_LINES ? LINES : D;
}

/** `count` rows from r on, of both outputs. */
static void run_f32(kind which, const arrays *a, int64_t r, int64_t count, float *out, float *out_2)
{
    const int64_t n = count * D, at = r * D;
    float dg[D];

    if (which == ADD)
        pl_add(n, a->x + at, a->y + at, out);
    else if (which == NARROW)
        pl_bf16_from_f32(n, a->x + at, (pl_bf16 *)out);
    else if (which == WIDEN)
        pl_f32_from_bf16(n, (const pl_bf16 *)a->x + at, out);
    else if (which == SWIGLU)
        pl_swiglu_forward(n, a->x + at, a->y + at, out);
    else if (which == SWIGLU_BACK)
        pl_swiglu_backward(n, a->x + at, a->y + at, a->z + at, out, out_2);
    else if (which == ROPE)
        pl_rope_forward(count, HEADS, H, a->ids + r, a->x, a->y, a->z + r * HEADS * H, out);
    else if (which == NORM)
        pl_rmsnorm_forward(count, D, 1e-5f, a->x + at, a->row, out, out_2);
    else if (which == NORM_LINES)
        pl_rmsnorm_forward(count, LINES, 1e-5f, a->x + r * LINES, a->row, out, out_2);
    else if (which == NORM_BACK)
        pl_rmsnorm_backward(count, D, a->x + at, a->row, a->stats + r, a->y + at, a->z + at, out,
                            false, dg);
    else if (which == XENT)
        pl_xent_grad(count, D, 0, a->x + at, a->ids + r, a->stats + r, a->stats + r, 0.5, out);
    else
        pl_embed_forward(count, R, width_of(which), EMBED_BEGIN, a->ids + r, a->x, out);
}

static void run_bf16(kind which, const arrays *a, int64_t r, int64_t count, float *to, float *to_2)
{
    const int64_t n = count * D, at = r * D;
    const pl_bf16 *x = (const pl_bf16 *)a->x, *y = (const pl_bf16 *)a->y;
    const pl_bf16 *z = (const pl_bf16 *)a->z, *row = (const pl_bf16 *)a->row;
    pl_bf16 *out = (pl_bf16 *)to, *out_2 = (pl_bf16 *)to_2;
    float dg[D];

    if (which == ADD)
        pl_add_bf16(n, x + at, y + at, out);
    else if (which == SWIGLU)
        pl_swiglu_forward_bf16(n, x + at, y + at, out);
    else if (which == SWIGLU_BACK)
        pl_swiglu_backward_bf16(n, x + at, y + at, z + at, out, out_2);
    else if (which == ROPE)
        pl_rope_forward_bf16(count, HEADS, H, a->ids + r, a->x, a->y, z + r * HEADS * H, out);
    else if (which == NORM)
        pl_rmsnorm_forward_bf16(count, D, 1e-5f, x + at, row, out, to_2);
    else if (which == NORM_LINES)
        pl_rmsnorm_forward_bf16(count, LINES, 1e-5f, x + r * LINES, row, out, to_2);
    else if (which == NORM_BACK)
        pl_rmsnorm_backward_bf16(count, D, x + at, row, a->stats + r, y + at, z + at, out, false,
                                 dg);
    else if (which == XENT)
        pl_xent_grad_bf16(count, D, 0, x + at, a->ids + r, a->stats + r, a->stats + r, 0.5, out);
    else if (which == EMBED || which == EMBED_LINES)
        pl_embed_forward_bf16(count, R, width_of(which), EMBED_BEGIN, a->ids + r, x, out);
    else
        run_f32(which, a, r, count, to, to_2);
}

/** Whether a kernel streams from registers on the ISA in use. */
static bool by_hand(kind which)
{
    return pl_isa_get() >= PL_ISA_AVX512 &&
           (which == SWIGLU || which == SWIGLU_BACK || which == XENT || which == NORM_LINES ||
            which == EMBED_LINES);
}

/** Bytes of its first output that a kernel streams by pl_bypass: all but the embedding's rows of
 * zeros; a training step lets swiglu's gradients overwrite what they are made from. */
static size_t bytes_to_stream(kind which, const arrays *a, size_t row)
{
    size_t n_rows = R;

    for (int64_t r = 0; r < R && (which == EMBED || which == EMBED_LINES); r++)
        n_rows -= a->ids[r] < EMBED_BEGIN;
    return which == SWIGLU_BACK || by_hand(which) ? 0 : n_rows * row;
}

START_TEST(streamed_outputs_hold_the_same_bits)
{
    const kind which = (kind)(_i / 2 % N_KINDS);
    const int bf16 = _i % 2;
    void (*const run)(kind, const arrays *, int64_t, int64_t, float *, float *) =
        bf16 ? run_bf16 : run_f32;

    if (!use_isa(_i / 2 / N_KINDS))
        ck_skip("this CPU lacks the ISA");
    const arrays a = arrays_create();
    const int64_t width = width_of(which);
    const size_t row = (size_t)width * size_of(which, bf16);

    ck_assert(pl_bypasses(R * width, size_of(which, bf16)));
    run(which, &a, 0, R, a.whole, a.whole_2);
    ck_assert_uint_eq(n_streamed, bytes_to_stream(which, &a, row));
    ck_assert(!is_pending);
    ck_assert_int_eq(n_ends, which != SWIGLU_BACK || by_hand(which));
    n_streamed = 0;
    n_ends = 0;
    for (int i = 0; i < PIECES; i++) {
        const int64_t r = R * i / PIECES, count = R * (i + 1) / PIECES - r;
        const size_t second =
            which == NORM || which == NORM_LINES ? 4 : row; /* its second output is rstd */

        ck_assert(!pl_bypasses(count * width, size_of(which, bf16)));
        run(which, &a, r, count, (float *)((char *)a.pieces + (size_t)r * row),
            (float *)((char *)a.pieces_2 + (size_t)r * second));
    }
    ck_assert_uint_eq(n_streamed, 0);
    ck_assert_int_eq(n_ends, 0);
    ck_assert(memcmp(a.whole, a.pieces, N * sizeof(float)) == 0); /* to the end: sentinels */
    ck_assert(memcmp(a.whole_2, a.pieces_2, N * sizeof(float)) == 0);
}
END_TEST

/** The ends of a range are stored as usual, the lines between past the caches. */
START_TEST(streaming_copies_any_range_exactly)
{
    enum { BYTES = 300 };
    char from[BYTES], to[BYTES], want[BYTES];

    if (!use_isa(_i))
        ck_skip("this CPU lacks the ISA");
    for (int i = 0; i < BYTES; i++)
        from[i] = (char)(i + 1);
    for (int begin = 0; begin < 70; begin++)
        for (int length = 0; length + begin < BYTES; length += 13) {
            memset(to, 0, BYTES);
            memset(want, 0, BYTES);
            memcpy(want + begin, from, (size_t)length);
            pl_bypass(to + begin, from, (size_t)length);
            pl_bypass_end();
            ck_assert_mem_eq(to, want, BYTES);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bypass");
    TCase *tests = tcase_create("bypass");

    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, streamed_outputs_hold_the_same_bits, 0, PL_N_ISA * N_KINDS * 2);
    tcase_add_loop_test(tests, streaming_copies_any_range_exactly, 0, PL_N_ISA);
    suite_add_tcase(suite, tests);
    return ck_main(suite);
}
