/* Every strategy trains as one rank does: same losses, gradient norms and final weights.
 *
 * The text is English (the licence), since training on it at this rate is well-behaved: where the
 * gradient norm jumps, as on the synthetic text, steps amplify differences of one rounding a
 * hundredfold and nothing could be told from a comparison.
 *
 * Bounds. Losses and norms of all strategies differ from the one-rank run's only by the order of
 * f32 sums. A gradient is a sum of n = B T terms, so it is off by about sqrt(n) u of its size
 * (u = 2^-24; errors of either sign): 1.3e-6 for n = 441. The loss, a mean of well-conditioned
 * terms, is better than that; it gets 5e-6, which leaves a factor of 4 for ten steps. Norms get
 * training_norm_bounds(): the same, but where training magnifies roundings (a tied model's norm
 * jumps from 4 to 10 at this rate).
 *
 * Weights. AdamW's step is m / sqrt(v), about g / |g|: an element whose gradient is smaller than
 * its error nu = sqrt(n) u sigma (sigma the tensor's typical gradient) moves by up to 1 lr in a
 * random direction, one of gradient x by about lr nu / x. With a density of at most 1 / sigma at 0
 * the mean square of the difference of one step is  2 lr^2 nu / sigma (from |x| < nu) + 2 lr^2 nu /
 * sigma (from above)  = 4 lr^2 sqrt(n) u. Differences of successive steps add up linearly at worst,
 * so the root mean square difference of all weights after steps of rates lr_t is at most sum lr_t *
 * sqrt(4 sqrt(n) u).
 *
 * bf16. A rounding is off by up to u = 2^-8 of the value, 0.4 u in the root mean square. On its way
 * through L layers an activation of the residual stream is rounded twice a layer, and each block's
 * part of it five times more: 12 L roundings forward, 24 L with the backward pass. Of independent
 * ones a logit gets e = 0.4 u sqrt(12 L) of its size (about 1 in the first ten steps: the loss falls
 * from log V), a token's loss sqrt(2) e, the mean over n tokens 1 / sqrt(n) of that; four deviations
 * make the bound. A gradient is off by g = 0.4 u sqrt(24 L) of its size, and so is, at most, its
 * norm, and the bound on weights takes g for sqrt(n) u. Where sums over ranks are not rounded on
 * their way (no tp) the first step reads the same bf16 weights and, as matmul's order of summation
 * depends neither on M nor on N, makes the same bf16 activations: then it differs by the order of
 * f32 sums only, as f32 does. With tp every later step reads other weights, by more than the
 * one-rank runs that training_norm_bounds() compares, and on these first steps training magnifies
 * that in norms without a bound that we could derive: there norms are compared on the first step
 * only, losses and weights on all. The rate is lower: at 3e-3 norms jump, on different steps. */
#include "config.h"

#include "tests/parallel.h"
#include "tests/training.h"

#include "src/base/log.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double limit = 5e-6;

enum { N_LAYERS = 5, N_POSITIONS = 63 }; /* of model tiny */

typedef struct {
    int n_ranks;
    int batch;
    const char *options;
} parity_case;

/* Batches are chosen so that shares and last microbatches are uneven. */
static const parity_case cases[] = {
    {1, 7, "--strategy dp --micro-batch 4"},
    {1, 7, "--strategy dp --micro-batch 3 --tied"},
    {1, 8, "--strategy dp:1+tp:1 --micro-batch 4"},
    {2, 7, "--strategy dp:2"},
    {2, 7, "--strategy dp:2 --zero 1"},
    {2, 7, "--strategy dp:2 --zero 2 --micro-batch 3"},
    {2, 7, "--strategy dp:2 --zero 2 --tied"},
    {2, 7, "--strategy fsdp:2"},
    {2, 7, "--strategy fsdp:2 --micro-batch 2 --tied"},
    {2, 7, "--strategy fsdp:1+dp:2"},
    {2, 7, "--strategy tp:2"},
    {2, 7, "--strategy tp:2 --micro-batch 4 --tied"},
    {3, 7, "--strategy dp:3"},
    {3, 7, "--strategy dp:3 --zero 1 --micro-batch 2"},
    {3, 7, "--strategy dp:3 --zero 2 --tied"},
    {3, 7, "--strategy fsdp:3"},
    {4, 7, "--strategy dp:4"},
    {4, 7, "--strategy dp:4 --zero 1"},
    {4, 7, "--strategy dp:4 --zero 2 --micro-batch 1"},
    {4, 7, "--strategy tp:4"},
    {4, 7, "--strategy fsdp:2+tp:2"},
    {4, 7, "--strategy fsdp:2+tp:2 --micro-batch 2 --tied"},
    {4, 7, "--strategy dp:2+tp:2 --zero 1"},
    {5, 7, "--strategy fsdp:5"},
    {5, 7, "--strategy fsdp:5 --tied"},
    {6, 7, "--strategy dp:2+pp:3 --micro-batch 2"},
    {6, 7, "--strategy dp:2+pp:3 --micro-batch 2 --zero 2 --schedule gpipe --tied"},
    {7, 7, "--strategy fsdp:7"},
    {8, 7, "--strategy tp:8"},
    {8, 7, "--strategy tp:8 --tied --micro-batch 4"},
    {8, 7, "--strategy fsdp:4+tp:2"},
    {8, 7, "--strategy dp:2+fsdp:2+tp:2"},
    {8, 7, "--strategy dp:2+fsdp:2+tp:2 --zero 2 --tied"},
    {8, 7, "--strategy pp:2+fsdp:2+tp:2 --micro-batch 1"},
    {8, 7, "--strategy pp:2+fsdp:2+tp:2 --micro-batch 2 --tied --schedule gpipe"},
    {8, 7, "--strategy pp:2+dp:2+tp:2 --micro-batch 2 --zero 1"},
    {1, 7, "--dtype bf16 --strategy dp --micro-batch 3"},
    {2, 7, "--dtype bf16 --strategy dp:2"},
    {2, 7, "--dtype bf16 --strategy dp:2 --zero 1"},
    {2, 7, "--dtype bf16 --strategy dp:2 --zero 2 --micro-batch 3 --tied"},
    {2, 7, "--dtype bf16 --strategy fsdp:2"},
    {2, 7, "--dtype bf16 --strategy tp:2 --tied"},
    {3, 7, "--dtype bf16 --strategy pp:3 --micro-batch 2 --tied"},
    {3, 7, "--dtype bf16 --strategy fsdp:3"},
    {4, 7, "--dtype bf16 --strategy fsdp:2+tp:2"},
    {8, 7, "--dtype bf16 --strategy tp:8"},
    {8, 7, "--dtype bf16 --strategy dp:2+fsdp:2+tp:2 --zero 2 --tied"},
    {8, 7, "--dtype bf16 --strategy pp:2+dp:2+tp:2 --micro-batch 2 --zero 1"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* Pipelines of 2, 3 and 5 stages, both schedules, 1 to 5 microbatches, tied and untied: numbered.
 */
enum { N_STAGE_COUNTS = 3, N_MICROBATCHES = 5, PIPELINES_A_COUNT = 2 * N_MICROBATCHES * 2 };
static const int stage_counts[N_STAGE_COUNTS] = {2, 3, 5};

static parity_case pipeline_case(int i, char *options, size_t size)
{
    /* Batch and microbatch that give 1, 2, ..., 5 microbatches, the last one smaller. */
    static const int batches[N_MICROBATCHES] = {7, 7, 7, 7, 9},
                     micro[N_MICROBATCHES] = {7, 4, 3, 2, 2};
    const int stages = stage_counts[i / PIPELINES_A_COUNT], m = i / 2 % N_MICROBATCHES;

    snprintf(options, size, "--strategy pp:%d --micro-batch %d --schedule %s%s", stages, micro[m],
             i % 2 == 0 ? "gpipe" : "1f1b", i / 2 / N_MICROBATCHES % 2 == 0 ? "" : " --tied");
    return (parity_case){stages, batches[m], options};
}

/* The last reference run, kept while cases ask for the same, and how far its norms bind. */
static training reference;
static double norm_bound[TRAINING_MAX_STEPS];
static char reference_options[1024];

static bool is_bf16(const parity_case *c)
{
    return strstr(c->options, "--dtype bf16") != NULL;
}

/* What a case and its reference share. */
static void common_options(const parity_case *c, char *options, size_t size)
{
    const char *srcdir = getenv("srcdir");

    snprintf(options, size, "--data %s/COPYING --model tiny --steps 10 --batch %d %s %s",
             srcdir != NULL ? srcdir : ".", c->batch,
             strstr(c->options, "--tied") != NULL ? "--tied" : "--untied",
             is_bf16(c) ? "--dtype bf16 --lr 1e-3" : "--lr 3e-3");
}

/* The root mean square error of what has been rounded n times to bf16, relative. */
static double after_roundings(double n)
{
    return 0.4 / 256 * sqrt(n);
}

/* Whether activations are rounded on their way over ranks. */
static bool rounds_sums(const parity_case *c)
{
    return is_bf16(c) && strstr(c->options, "tp:") != NULL;
}

static bool has_f32_bounds(const parity_case *c, int step)
{
    return !is_bf16(c) || (step == 0 && !rounds_sums(c));
}

static double loss_limit(const parity_case *c, int step, double loss)
{
    const double n_tokens = N_POSITIONS * c->batch;

    if (has_f32_bounds(c, step))
        return limit;
    return 4 * sqrt(2) * after_roundings(12 * N_LAYERS) / sqrt(n_tokens) / loss;
}

static double norm_limit(const parity_case *c, int step)
{
    const double rounded = after_roundings(24 * N_LAYERS);

    if (has_f32_bounds(c, step) || norm_bound[step] > rounded)
        return norm_bound[step];
    return rounded;
}

static double relative(double a, double b)
{
    return fabs(a - b) / fabs(b);
}

static void make_reference(const parity_case *c)
{
    char options[1024];

    common_options(c, options, sizeof options);
    strcat(options, " --strategy dp:1");
    if (strcmp(options, reference_options) == 0)
        return;
    training_free(&reference);
    training_run(MPI_COMM_SELF, options, &reference);
    snprintf(reference_options, sizeof reference_options, "%s", options);
    training_norm_bounds(reference_options, &reference, norm_bound);
}

static double weights_bound(const training *t, const parity_case *c)
{
    const double u = FLT_EPSILON / 2, n = N_POSITIONS * c->batch;
    const double error = is_bf16(c) ? after_roundings(24 * N_LAYERS) : sqrt(n) * u;
    double sum = 0;

    for (int i = 0; i < t->n_steps; i++)
        sum += t->lr[i];
    return sum * sqrt(4 * error);
}

static double rms_difference(const training *a, const training *b)
{
    double sum = 0;

    for (int64_t i = 0; i < a->n_weights; i++)
        sum += ((double)a->weights[i] - b->weights[i]) * ((double)a->weights[i] - b->weights[i]);
    return sqrt(sum / (double)a->n_weights);
}

static void check_case(const parity_case *c)
{
    char options[512];
    training t;
    int size;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    common_options(c, options, sizeof options);
    snprintf(options + strlen(options), sizeof options - strlen(options), " %s", c->options);
    training_run(MPI_COMM_WORLD, options, &t);
    if (pl_log_rank() == 0) /* the others poll and sleep in the agreement below */
        make_reference(c);
    ck_all_msg(MPI_COMM_WORLD, t.status == PL_OK, "%s", c->options);
    ck_all_msg(MPI_COMM_WORLD, t.allocations == 0, "%s: steps allocated", c->options);
    ck_all_msg(MPI_COMM_WORLD, t.n_unlike == 0,
               "%s: %d classes of memory or wires unlike the prediction", c->options, t.n_unlike);
    ck_all_msg(MPI_COMM_WORLD, (t.wire_bytes > 0) == (size > 1), "%s: %lld bytes on the wire",
               c->options, (long long)t.wire_bytes);
    for (int i = 0; i < 10; i++) {
        const bool root = pl_log_rank() == 0;

        ck_all_msg(MPI_COMM_WORLD,
                   !root || relative(t.loss[i], reference.loss[i]) <
                                loss_limit(c, i, reference.loss[i]),
                   "%s: step %d: loss %.9g against %.9g", c->options, i, t.loss[i],
                   reference.loss[i]);
        if (rounds_sums(c) && i > 0)
            continue;
        ck_all_msg(MPI_COMM_WORLD,
                   !root || relative(t.grad_norm[i], reference.grad_norm[i]) < norm_limit(c, i),
                   "%s: step %d: norm %.9g against %.9g", c->options, i, t.grad_norm[i],
                   reference.grad_norm[i]);
    }
    const double rms = pl_log_rank() == 0 ? rms_difference(&t, &reference) : 0;
    ck_all_msg(MPI_COMM_WORLD, rms <= weights_bound(&t, c),
               "%s: weights differ by %g (rms), bound %g", c->options, rms,
               weights_bound(&t, c));
    ck_all_msg(MPI_COMM_WORLD, t.n_unrounded == 0,
               "%s: %lld weights are not their masters rounded", c->options,
               (long long)t.n_unrounded);
    training_free(&t);
}

START_TEST(strategy_trains_like_one_rank)
{
    check_case(&cases[_i]);
}
END_TEST

START_TEST(pipeline_trains_like_one_rank)
{
    char options[128];
    const parity_case c = pipeline_case(_i, options, sizeof options);

    check_case(&c);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("parity");
    TCase *f32 = tcase_create("f32"), *bf16 = tcase_create("bf16");
    TCase *pipelines = tcase_create("pipelines"); /* CK_RUN_CASE chooses one */
    int size;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < N_CASES; i++)
        if (cases[i].n_ranks == size)
            tcase_add_loop_test(is_bf16(&cases[i]) ? bf16 : f32, strategy_trains_like_one_rank, i,
                                i + 1);
    for (int k = 0; k < N_STAGE_COUNTS; k++)
        if (stage_counts[k] == size)
            tcase_add_loop_test(pipelines, pipeline_trains_like_one_rank, k * PIPELINES_A_COUNT,
                                (k + 1) * PIPELINES_A_COUNT);
    suite_add_tcase(suite, f32);
    suite_add_tcase(suite, bf16);
    suite_add_tcase(suite, pipelines);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
