/* The model and its training against an independent program: PyTorch on llama2.c's model
 * (stories260K_torch.json), in f64. Within f32 rounding: 1e-5 relative, as PyTorch's own f32 run
 * is. */
#include "config.h"

#include "tests/parallel.h"
#include "tests/training.h"

#include "src/base/log.h"
#include "src/model/hf_tensors.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double limit = 1e-5;

typedef struct {
    int n_ranks;
    const char *options;
} oracle_case;

static const oracle_case cases[] = {
    {1, "--strategy dp"},
    {1, "--strategy dp --micro-batch 1"},
    {1, "--strategy dp --micro-batch 2"},
    {1, "--strategy dp --micro-batch 3"}, /* 3 + 1 */
    {2, "--strategy dp:2"},
    {2, "--strategy dp:2 --zero 1"},
    {2, "--strategy dp:2 --zero 2 --micro-batch 1"},
    {2, "--strategy fsdp:1+dp:2"},
    {2, "--strategy fsdp:2"},
    {2, "--strategy tp:2"},
    {2, "--strategy pp:2 --micro-batch 1"},
    {2, "--strategy pp:2 --micro-batch 3 --schedule gpipe"},
    {3, "--strategy dp:3"},
    {3, "--strategy fsdp:3"},
    {3, "--strategy pp:3 --micro-batch 1"},
    {4, "--strategy dp:4 --zero 2"},
    {4, "--strategy fsdp:4"},
    {4, "--strategy tp:4"},
    {4, "--strategy fsdp:2+tp:2"},
    {5, "--strategy pp:5 --micro-batch 4"}, /* fewer microbatches than stages */
    {5, "--strategy pp:5 --micro-batch 2 --schedule gpipe"},
    {5, "--strategy pp:5 --micro-batch 1"},
    {6, "--strategy dp:2+pp:3 --micro-batch 1"},
    {8, "--strategy tp:8"},
    {8, "--strategy fsdp:4+tp:2"},
    {8, "--strategy dp:2+fsdp:2+tp:2 --zero 1"},
    {8, "--strategy pp:2+fsdp:2+tp:2 --micro-batch 1"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* The oracle's name of a tensor. */
static void oracle_name(const pl_hf_tensor *t, char *name, size_t size)
{
    static const char *const names[] = {
        [PL_HF_EMBED] = "tok_embeddings", [PL_HF_ATTENTION_NORM] = "attention_norm",
        [PL_HF_Q] = "attention.wq",       [PL_HF_K] = "attention.wk",
        [PL_HF_V] = "attention.wv",       [PL_HF_O] = "attention.wo",
        [PL_HF_MLP_NORM] = "ffn_norm",    [PL_HF_GATE] = "feed_forward.w1",
        [PL_HF_UP] = "feed_forward.w3",   [PL_HF_DOWN] = "feed_forward.w2",
        [PL_HF_FINAL_NORM] = "norm",
    };

    if (t->layer >= 0)
        snprintf(name, size, "layers.%d.%s.weight", t->layer, names[t->kind]);
    else
        snprintf(name, size, "%s.weight", names[t->kind]);
}

static double l2(const float *x, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return sqrt(sum);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= limit * fabs(b);
}

/* How many tensors of `all` have an L2 norm unlike the oracle's; the first is printed. */
static int wrong_norms(const json_t *oracle, const char *key, const pl_model_config *model,
                       const float *all)
{
    const json_t *norms = json_object_get(oracle, key);
    int n_wrong = 0;

    for (int64_t i = 0; i < pl_hf_tensor_count(model); i++) {
        const pl_hf_tensor t = pl_hf_tensor_at(model, i);
        char name[96];
        int64_t n;
        const float *x = training_tensor(all, model, i, &n);

        oracle_name(&t, name, sizeof name);
        const json_t *expected = json_object_get(norms, name);
        if (expected == NULL || !near(l2(x, n), json_number_value(expected))) {
            if (n_wrong++ == 0)
                printf("%s of %s: %.9g against %.9g\n", key, name, l2(x, n),
                       json_number_value(expected));
        }
    }
    return n_wrong;
}

/* Steps whose loss or norm is unlike the oracle's. */
static int wrong_steps(const json_t *oracle, const training *t)
{
    const json_t *history = json_object_get(oracle, "hist");
    int n_wrong = 0;

    for (int i = 0; i < 10; i++) {
        const json_t *step = json_array_get(history, (size_t)i);
        const double loss = json_number_value(json_object_get(step, "loss"));
        const double norm = json_number_value(json_object_get(step, "grad_norm_before_clip"));

        if (loss == 0 || !near(t->loss[i], loss) || !near(t->grad_norm[i], norm)) {
            if (n_wrong++ == 0)
                printf("step %d: loss %.9g against %.9g, norm %.9g against %.9g\n", i, t->loss[i],
                       loss, t->grad_norm[i], norm);
        }
    }
    return n_wrong;
}

static json_t *read_oracle(void)
{
    char path[512];

    return ck_testdata_path("oracles/stories260K_torch.json", path, sizeof path)
               ? json_load_file(path, 0, NULL)
               : NULL;
}

/* What opens every command: the model and its data. */
static bool oracle_options(const char *more, char *options, size_t size)
{
    char model[512], data[512];

    if (!ck_testdata_path("weights/stories260K/stories260K.bin", model, sizeof model) ||
        !ck_testdata_path("corpora/tinystories_sample.tok512.bin", data, sizeof data))
        return false;
    snprintf(options, size, "--init %s --data %s %s", model, data, more);
    return true;
}

START_TEST(ten_steps_equal_pytorch)
{
    const oracle_case *c = &cases[_i];
    char more[512], options[2048];
    training t;
    pl_model_config model;
    int size;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(more, sizeof more,
             "--order sequential --batch 4 --seq 64 --steps 10 --lr 1e-3 --lr-schedule constant "
             "--warmup 0 --weight-decay 0.1 --beta1 0.9 --beta2 0.95 --eps 1e-8 --clip 1.0 %s",
             c->options);
    if (!oracle_options(more, options, sizeof options))
        ck_skip("no real data");
    training_run(MPI_COMM_WORLD, options, &t);
    ck_all_msg(MPI_COMM_WORLD, t.status == PL_OK, "%s", c->options);
    int n_wrong = 0;
    if (pl_log_rank() == 0) {
        json_t *root = read_oracle();
        const json_t *oracle = json_object_get(json_object_get(root, "train"), "f64");

        pl_weight_file *file;
        char path[512];
        ck_testdata_path("weights/stories260K/stories260K.bin", path, sizeof path);
        ck_assert(pl_weight_file_open(path, &model, &file) == PL_OK);
        pl_weight_file_close(file);
        n_wrong = wrong_steps(oracle, &t) +
                  wrong_norms(oracle, "first_step_grad_l2_per_tensor", &model, t.gradients) +
                  wrong_norms(oracle, "final_weight_l2_per_tensor", &model, t.weights);
        json_decref(root);
    }
    ck_all_msg(MPI_COMM_WORLD, n_wrong == 0, "%s: %d figures are wrong", c->options, n_wrong);
    training_free(&t);
}
END_TEST

START_TEST(evaluation_equals_pytorch)
{
    char options[2048];
    training t;

    if (!oracle_options("--eval-only --seq 256 --strategy dp", options, sizeof options))
        ck_skip("no real data");
    training_run(MPI_COMM_WORLD, options, &t);
    ck_all(MPI_COMM_WORLD, t.status == PL_OK);
    ck_all(MPI_COMM_WORLD, t.eval_tokens == 7 * 256);
    ck_all_msg(MPI_COMM_WORLD, near(t.eval_loss, 1.3412144169288531), "loss %.9g", t.eval_loss);
    training_free(&t);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("oracle");
    TCase *tcase = tcase_create("stories260K");

    int size;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < N_CASES; i++)
        if (cases[i].n_ranks == size)
            tcase_add_loop_test(tcase, ten_steps_equal_pytorch, i, i + 1);
    tcase_add_test(tcase, evaluation_equals_pytorch);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
