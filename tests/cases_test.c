/* Shapes and splits that have broken other programs, replayed. What each was, and which test here
 * has it (of this file unless another is named):
 *
 *  model files
 *    loads, but the output is junk             a_file_of_another_layout_is_worse_than_uniform
 *    header lengths 0, 2^40, 2^63, 132095296   refusals_test.sh, safetensors_test
 *    trailing bytes, on every loading path     refusals_test.sh
 *    truncated at 0, 4, 8, 1000, ... bytes     refusals_test.sh; overlaps: safetensors_test
 *    missing, doubled, renamed, unknown names  safetensors_test, refusals_test.sh
 *  data
 *    ids beyond the vocabulary                 data_test, refusals_test.sh
 *    an empty validation split                 data_test, refusals_test.sh
 *    shorter than a window; T and T + 1        data_test, refusals_test.sh
 *    too short on one rank only                refusals_test.sh
 *  batches and gradients
 *    mean of unequal shares                    parity_test (7 sequences over 2, 3, 4, 5 ranks),
 *                                              uneven_shares_weigh_as_much_as_they_hold
 *    4 as 4x1, 2x2, 3+1                        oracle_test
 *    non-finite gradient                       stops_test.sh
 *    norm of the local shard only              oracle_test (fsdp 2, 3, 4), fsdp 1 here
 *    fsdp:1+dp:2                               oracle_test
 *  sharding shapes
 *    tp beyond the key/value heads             strategies_train_alike (story656K, tp:8),
 * oracle_test heads that tp does not divide             refusals_test.sh odd vocabulary, six heads
 * strategies_train_alike fsdp that divides no dim                  strategies_train_alike
 * (stories260K, fsdp 3, 5, 7) ranks that own nothing                    strategies_train_alike (D
 * 8, fsdp:16) pipeline fewer microbatches than stages            oracle_test (pp:5) the message
 * names the flag                refusals_test.sh unequal stages oracle_test (pp:2 of 5 layers,
 * pp:3) labels of another microbatch              a_pipeline_keeps_sequences_and_labels_together
 *
 * Bound of a comparison with one rank: 5e-6 relative, derived in parity_test.c. */
#include "config.h"

#include "tests/parallel.h"
#include "tests/training.h"

#include "src/base/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double limit = 5e-6;

/* ODD_VOCAB: six heads, 257 rows of vocabulary: neither 2 nor 3 ranks share them evenly.
 * NARROW: D is 8: of 16 ranks half own nothing of a norm vector. */
typedef enum { STORIES260K, STORY656K, ODD_VOCAB, NARROW } case_model;

typedef struct {
    int n_ranks;
    case_model model;
    int batch;
    const char *options;
} shape_case;

static const shape_case cases[] = {
    {1, STORIES260K, 4, "--strategy fsdp:1"},
    {2, STORY656K, 4, "--strategy tp:2"},
    {2, STORY656K, 4, "--strategy pp:2 --micro-batch 1"},
    {2, ODD_VOCAB, 3, "--strategy tp:2"},
    {2, ODD_VOCAB, 3, "--strategy dp:2 --zero 1"},
    {3, ODD_VOCAB, 3, "--strategy tp:3"},
    {3, STORY656K, 4, "--strategy fsdp:3"},
    {3, STORIES260K, 8, "--strategy fsdp:3"},
    {5, STORIES260K, 8, "--strategy fsdp:5"},
    {7, STORIES260K, 8, "--strategy fsdp:7"},
    {8, STORY656K, 4, "--strategy tp:8"},
    {16, NARROW, 17, "--strategy fsdp:16"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* The options that say what is trained; false: there are no real data. */
static bool model_options(case_model model, char *options, size_t size)
{
    static const char *const files[2][2] = {
        {"weights/stories260K/stories260K.bin", "corpora/tinystories_sample.tok512.bin"},
        {"weights/story656K/model.safetensors", "corpora/tinystories_sample.story656K.bin"}};
    const char *srcdir = getenv("srcdir");
    char init[512], data[512];

    if (model == ODD_VOCAB || model == NARROW) {
        const char *root = srcdir != NULL ? srcdir : ".";

        snprintf(options, size, "--model %s/tests/%s.json --data %s/COPYING --lr 3e-3", root,
                 model == NARROW ? "narrow" : "odd_vocab", root);
        return true;
    }
    if (!ck_testdata_path(files[model][0], init, sizeof init) ||
        !ck_testdata_path(files[model][1], data, sizeof data))
        return false;
    snprintf(options, size, "--init %s --data %s --seq 64 --lr 1e-3 --order sequential", init,
             data);
    return true;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= limit * fabs(b);
}

START_TEST(strategies_train_alike)
{
    const shape_case *c = &cases[_i];
    char common[1200], options[2048];
    double norm_bound[TRAINING_MAX_STEPS] = {0};
    training t, one = {0};

    if (!model_options(c->model, common, sizeof common))
        ck_skip("no real data");
    snprintf(options, sizeof options, "%s --steps 10 --batch %d %s", common, c->batch, c->options);
    training_run(MPI_COMM_WORLD, options, &t);
    ck_all_msg(MPI_COMM_WORLD, t.status == PL_OK, "%s", c->options);
    ck_all_msg(MPI_COMM_WORLD, t.allocations == 0 && t.n_unlike == 0,
               "%s: steps allocated, or used what was not predicted", c->options);
    const bool root = pl_log_rank() == 0;
    if (root) {
        snprintf(options, sizeof options, "%s --steps 10 --batch %d --strategy dp:1", common,
                 c->batch);
        training_run(MPI_COMM_SELF, options, &one);
        training_norm_bounds(options, &one, norm_bound);
    }
    for (int i = 0; i < 10; i++) {
        ck_all_msg(MPI_COMM_WORLD, !root || near(t.loss[i], one.loss[i]),
                   "%s: step %d: loss %.9g against %.9g", c->options, i, t.loss[i], one.loss[i]);
        ck_all_msg(
            MPI_COMM_WORLD, !root || fabs(t.grad_norm[i] / one.grad_norm[i] - 1) <= norm_bound[i],
            "%s: step %d: norm %.9g against %.9g", c->options, i, t.grad_norm[i], one.grad_norm[i]);
    }
    ck_all(MPI_COMM_WORLD, !root || t.n_weights == one.n_weights);
    training_free(&t);
    training_free(&one);
}
END_TEST

/* The figures are of a program that shares nothing with purlin but the files: the model card's own
 * formulas in f64, loop by loop (rotary halves; query head n reads key/value head n / 2). Other
 * orders of heads or pairs give 5.2 to 11.2. */
START_TEST(story656k_has_the_loss_of_an_independent_forward_pass_and_trains)
{
    char common[1200], options[2048];
    training t;

    if (!model_options(STORY656K, common, sizeof common))
        ck_skip("no real data");
    snprintf(options, sizeof options,
             "%s --steps 10 --batch 4 --warmup 0 --lr-schedule constant --strategy fsdp", common);
    training_run(MPI_COMM_WORLD, options, &t);
    ck_all(MPI_COMM_WORLD, t.status == PL_OK);
    ck_all_msg(MPI_COMM_WORLD, near(t.loss[0], 3.940503790), "loss %.9g", t.loss[0]);
    ck_all_msg(MPI_COMM_WORLD, t.loss[9] < t.loss[0], "loss %g", t.loss[9]);
    training_free(&t);
    snprintf(options, sizeof options, "%s --seq 256 --eval-only --strategy fsdp", common);
    training_run(MPI_COMM_WORLD, options, &t);
    ck_all(MPI_COMM_WORLD, t.status == PL_OK && t.eval_tokens == 3 * 256);
    ck_all_msg(MPI_COMM_WORLD, near(t.eval_loss, 3.8350255), "loss %.9g", t.eval_loss);
    training_free(&t);
}
END_TEST

START_TEST(a_file_of_another_layout_is_worse_than_uniform)
{
    char init[512], data[512], options[2048];
    training t;

    if (!ck_testdata_path("weights/stories260K/stories260K_wrong_layout.bin", init, sizeof init) ||
        !ck_testdata_path("corpora/tinystories_sample.tok512.bin", data, sizeof data))
        ck_skip("no real data");
    snprintf(options, sizeof options,
             "--init %s --data %s --eval-only --seq 256 --strategy dp --batch 2", init, data);
    training_run(MPI_COMM_WORLD, options, &t);
    ck_all(MPI_COMM_WORLD, t.status == PL_OK);
    ck_all_msg(MPI_COMM_WORLD, fabs(t.eval_loss - 11.18) < 0.005, /* known to two decimals */
               "loss %.7f", t.eval_loss);
    training_free(&t);
}
END_TEST

/* With next to no learning rate four steps of one sequence give the losses of the sequences of one
 * step of four. */
static void sequence_losses(MPI_Comm comm, const char *common, const char *strategy, training *t)
{
    char options[2048];

    snprintf(options, sizeof options,
             "%s --lr 1e-30 --weight-decay 0 --steps 4 --batch 1 --strategy %s", common, strategy);
    training_run(comm, options, t);
}

START_TEST(a_pipeline_keeps_sequences_and_labels_together)
{
    char common[1200], options[2048];
    training one, each, together;

    if (!model_options(STORIES260K, common, sizeof common))
        ck_skip("no real data");
    sequence_losses(MPI_COMM_SELF, common, "dp:1", &one);
    ck_all(MPI_COMM_WORLD, one.status == PL_OK);
    sequence_losses(MPI_COMM_WORLD, common, "pp", &each);
    ck_all(MPI_COMM_WORLD, each.status == PL_OK);
    for (int i = 0; i < 4; i++)
        ck_all_msg(MPI_COMM_WORLD, near(each.loss[i], one.loss[i]),
                   "sequence %d: %.9g against %.9g", i, each.loss[i], one.loss[i]);
    for (int gpipe = 0; gpipe < 2; gpipe++) {
        snprintf(options, sizeof options,
                 "%s --steps 1 --batch 4 --micro-batch 1 --strategy pp --schedule %s", common,
                 gpipe ? "gpipe" : "1f1b");
        training_run(MPI_COMM_WORLD, options, &together);
        ck_all(MPI_COMM_WORLD, together.status == PL_OK);
        ck_all_msg(
            MPI_COMM_WORLD,
            near(together.loss[0], (one.loss[0] + one.loss[1] + one.loss[2] + one.loss[3]) / 4),
            "%s: %.9g", options, together.loss[0]);
        training_free(&together);
    }
    training_free(&one);
    training_free(&each);
}
END_TEST

/* Three sequences over two ranks: two and one. The loss is their mean, not the mean of the ranks'
 * means; the sequences' losses differ by a tenth and more, so that it shows. */
START_TEST(uneven_shares_weigh_as_much_as_they_hold)
{
    char common[1200], options[2048];
    training one, t;

    if (!model_options(STORIES260K, common, sizeof common))
        ck_skip("no real data");
    sequence_losses(MPI_COMM_SELF, common, "dp:1", &one);
    snprintf(options, sizeof options, "%s --steps 1 --batch 3 --strategy dp:2", common);
    training_run(MPI_COMM_WORLD, options, &t);
    ck_all(MPI_COMM_WORLD, t.status == PL_OK && one.status == PL_OK);
    const double mean = (one.loss[0] + one.loss[1] + one.loss[2]) / 3;
    const double of_means = ((one.loss[0] + one.loss[1]) / 2 + one.loss[2]) / 2;
    ck_all_msg(MPI_COMM_WORLD, near(t.loss[0], mean), "%.9g against %.9g", t.loss[0], mean);
    ck_all_msg(MPI_COMM_WORLD, !near(of_means, mean), "%.9g tells nothing", of_means);
    training_free(&t);
    training_free(&one);
}
END_TEST

/* Every family of strategies; with the mean over ranks of a step's work in any order the bits would
 * differ from run to run. */
static const shape_case repeated[] = {
    {1, ODD_VOCAB, 8, "--strategy dp:1 --micro-batch 3"},
    {2, ODD_VOCAB, 8, "--strategy dp:2"},
    {2, ODD_VOCAB, 8, "--strategy dp:2 --zero 1"},
    {2, ODD_VOCAB, 8, "--strategy tp:2"},
    {2, ODD_VOCAB, 8, "--strategy pp:2 --micro-batch 2"},
    {3, ODD_VOCAB, 8, "--strategy dp:3 --zero 2 --micro-batch 1"},
    {3, ODD_VOCAB, 8, "--strategy fsdp:3"},
    {3, ODD_VOCAB, 8, "--strategy tp:3"},
    {5, ODD_VOCAB, 8, "--strategy dp:5"},
    {7, ODD_VOCAB, 8, "--strategy fsdp:7"},
    {8, ODD_VOCAB, 8, "--strategy fsdp:4+tp:2"},
    {8, ODD_VOCAB, 8, "--strategy dp:2+fsdp:2+tp:2 --zero 1"},
    {8, ODD_VOCAB, 8, "--strategy pp:2+fsdp:2+tp:2 --micro-batch 1 --schedule gpipe"},
    {8, ODD_VOCAB, 8, "--strategy pp:2+dp:2+tp:2 --micro-batch 1 --zero 2"},
};
enum { N_REPEATED = sizeof repeated / sizeof *repeated };

START_TEST(the_same_run_gives_the_same_bits)
{
    const shape_case *c = &repeated[_i];
    char common[1200], options[2048];
    training a, b;

    model_options(c->model, common, sizeof common);
    snprintf(options, sizeof options, "%s --steps 5 --batch %d %s", common, c->batch, c->options);
    training_run(MPI_COMM_WORLD, options, &a);
    training_run(MPI_COMM_WORLD, options, &b);
    ck_all_msg(MPI_COMM_WORLD, a.status == PL_OK && b.status == PL_OK, "%s", c->options);
    ck_all_msg(MPI_COMM_WORLD,
               memcmp(a.loss, b.loss, sizeof a.loss) == 0 &&
                   memcmp(a.grad_norm, b.grad_norm, sizeof a.grad_norm) == 0,
               "%s: losses or norms differ", c->options);
    ck_all_msg(MPI_COMM_WORLD,
               pl_log_rank() != 0 ||
                   memcmp(a.weights, b.weights, (size_t)a.n_weights * sizeof *a.weights) == 0,
               "%s: weights differ", c->options);
    training_free(&a);
    training_free(&b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("cases");
    TCase *tcase = tcase_create("shapes and splits");
    int size;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < N_CASES; i++)
        if (cases[i].n_ranks == size)
            tcase_add_loop_test(tcase, strategies_train_alike, i, i + 1);
    for (int i = 0; i < N_REPEATED; i++)
        if (repeated[i].n_ranks == size)
            tcase_add_loop_test(tcase, the_same_run_gives_the_same_bits, i, i + 1);
    if (size <= 3)
        tcase_add_test(tcase, story656k_has_the_loss_of_an_independent_forward_pass_and_trains);
    if (size <= 2)
        tcase_add_test(tcase, a_file_of_another_layout_is_worse_than_uniform);
    if (size == 2 || size == 3)
        tcase_add_test(tcase, a_pipeline_keeps_sequences_and_labels_together);
    if (size == 2)
        tcase_add_test(tcase, uneven_shares_weigh_as_much_as_they_hold);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
