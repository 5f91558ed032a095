/* footprint_test -- memory by formula against what the engine allocates, class by class. */
#include "config.h"

#include "src/roofline/choose.h"
#include "src/roofline/footprint.h"
#include "tests/check_main.h"

#include <math.h>

static const pl_model_config model = {.n_layers = 8,
                                      .d_model = 64,
                                      .n_heads = 8,
                                      .n_kv_heads = 4,
                                      .head_dim = 16,
                                      .d_ff = 96,
                                      .vocab = 128,
                                      .max_seq = 32,
                                      .rms_eps = 1e-5,
                                      .rope_theta = 1e4};

typedef struct {
    const char *spec;
    int zero;
    pl_dtype dtype;
} layout_case;

static pl_footprint formula(const layout_case *c, const pl_spec *spec)
{
    const bool is_f32 = c->dtype == PL_F32;
    const pl_layout l = {.dp = pl_spec_degree(spec, "dp"),
                         .fsdp = pl_spec_degree(spec, "fsdp"),
                         .tp = pl_spec_degree(spec, "tp"),
                         .pp = pl_spec_degree(spec, "pp"),
                         .zero = c->zero,
                         .sequences = 16,
                         .microbatches = 1,
                         .seq = 32,
                         .weight_bytes = is_f32 ? 4 : 2,
                         .gradient_bytes = 4,
                         .moment_bytes = is_f32 ? 8 : 12,
                         .activation_bytes = is_f32 ? 4 : 2};
    pl_architecture a;

    pl_model_config_describe(&model, &a);
    return pl_footprint_of(&a, &l);
}

/* What the engine sets aside for the stage that keeps most. */
static void allocated(const layout_case *c, const pl_spec *spec, double bytes[PL_N_CLASSES])
{
    const pl_plan plan = {.spec = *spec,
                          .model = model,
                          .adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
                          .batch = 16,
                          .seq = 32,
                          .pipeline = PL_1F1B,
                          .dtype = c->dtype};
    double most = -1;
    pl_mesh mesh;

    ck_assert(pl_spec_mesh(spec, &model, &mesh) == PL_OK);
    for (int s = 0; s < pl_spec_degree(spec, "pp"); s++) {
        pl_program *p = pl_build(&plan, &mesh, s);
        double sum = 0;

        for (int k = PL_WEIGHT; k <= PL_MASTER; k++)
            sum += (double)p->pool_bytes[k];
        for (int k = 0; k < PL_N_CLASSES && sum > most; k++)
            bytes[k] = (double)p->pool_bytes[k];
        most = fmax(most, sum);
        pl_program_destroy(p);
    }
}

/* Arrays begin at multiples of 64 bytes: each of n may waste 63, of (9 L + 3) weights, twice as
 * many moments. */
static void ck_class(const char *spec, const char *what, double expected, double counted, int n)
{
    ck_assert_msg(counted >= expected && counted - expected <= 63.0 * n, "%s %s: %.0f, not %.0f",
                  spec, what, expected, counted);
}

START_TEST(what_persists_equals_what_is_allocated)
{
    static const layout_case cases[] = {
        {"dp:1", 0, PL_F32},        {"dp:4", 0, PL_F32},         {"dp:4", 1, PL_F32},
        {"dp:4", 2, PL_F32},        {"fsdp:4", 0, PL_F32},       {"tp:4", 0, PL_F32},
        {"tp:8", 0, PL_F32},        {"dp:2+tp:2", 1, PL_F32},    {"fsdp:4+tp:2", 0, PL_F32},
        {"dp:2+fsdp:2", 1, PL_F32}, {"pp:4", 0, PL_F32},         {"pp:2+fsdp:2+tp:2", 0, PL_F32},
        {"dp:4", 1, PL_BF16},       {"fsdp:4+tp:2", 0, PL_BF16}, {"pp:2+dp:4+tp:2", 2, PL_BF16},
    };
    const int n_weights = 9 * model.n_layers + 3;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const layout_case *c = &cases[i];
        double bytes[PL_N_CLASSES] = {0};
        pl_spec spec;

        ck_assert(pl_spec_parse(c->spec, &spec) == PL_OK);
        spec.zero = c->zero;
        const pl_footprint f = formula(c, &spec);
        allocated(c, &spec, bytes);
        ck_class(c->spec, "weights", f.weights_bytes, bytes[PL_WEIGHT], n_weights);
        ck_class(c->spec, "gradients", f.gradients_bytes, bytes[PL_GRADIENT], n_weights);
        ck_class(c->spec, "moments and masters", f.moments_bytes,
                 bytes[PL_MOMENT] + bytes[PL_MASTER], 3 * n_weights);
        ck_assert(f.weights_bytes + f.gradients_bytes + f.moments_bytes ==
                  pl_footprint_persistent(&f));
    }
}
END_TEST

/* Mixtral's experts make up 96% of it; over 8 ranks each has one of 8. */
START_TEST(experts_are_split_over_their_axis)
{
    pl_layout l = {.dp = 8,
                   .fsdp = 1,
                   .tp = 1,
                   .pp = 1,
                   .sequences = 8,
                   .microbatches = 1,
                   .seq = 4096,
                   .weight_bytes = 2,
                   .gradient_bytes = 4,
                   .moment_bytes = 12,
                   .activation_bytes = 2};
    const double experts = 32.0 * 8 * 3 * 4096 * 14336;
    pl_architecture a;

    ck_assert(pl_architecture_find("mixtral-8x7b", &a) == PL_OK);
    const double all = (double)pl_architecture_params(&a).total;
    ck_assert(pl_footprint_of(&a, &l).weights_bytes == 2 * all);
    l.ep = 8;
    ck_assert(pl_footprint_of(&a, &l).weights_bytes == 2 * (all - experts + experts / 8));
    l.zero = 1; /* one expert's only replica is here: its moments cannot be split further */
    ck_assert(pl_footprint_of(&a, &l).moments_bytes == 12 * ((all - experts) / 8 + experts / 8));
    l.dp = 16;
    ck_assert(pl_footprint_of(&a, &l).moments_bytes == 12 * ((all - experts) / 16 + experts / 16));
    l.dp = 1;
    l.fsdp = 16;
    ck_assert(pl_footprint_of(&a, &l).weights_bytes == 2 * ((all - experts) / 16 + experts / 16));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("footprint");
    TCase *tc = tcase_create("classes");

    tcase_add_test(tc, what_persists_equals_what_is_allocated);
    tcase_add_test(tc, experts_are_split_over_their_axis);
    suite_add_tcase(suite, tc);
    return ck_main(suite);
}
