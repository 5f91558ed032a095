/* hardware_test -- machines as data: the files that are shipped, and what is refused. */
#include "config.h"

#include "src/machine/hardware.h"
#include "src/machine/wires.h"
#include "tests/check_main.h"
#include "tests/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every file that is shipped, with the figures that the book's tables of machines open with. */
static const struct {
    const char *name;
    pl_peak peak;
    double flops, hbm_bytes, hbm_bytes_per_s, one_way_bytes_per_s;
    int64_t node;       /* chips inside the first level that is no torus and more than the node */
    double node_egress; /* bytes/s out of it, one way; 0: a torus */
} shipped[] = {
    {"tpu-v3", PL_PEAK_BF16, 1.4e14, 32e9, 9e11, 1e11, 0, 0},
    {"tpu-v4", PL_PEAK_BF16, 2.75e14, 32e9, 1.2e12, 4.5e10, 0, 0},
    {"tpu-v5e", PL_PEAK_BF16, 1.97e14, 16e9, 8.2e11, 4.5e10, 0, 0},
    {"tpu-v5p", PL_PEAK_BF16, 4.59e14, 96e9, 2.8e12, 9e10, 0, 0},
    {"tpu-v6e", PL_PEAK_BF16, 9.2e14, 32e9, 1.6e12, 9e10, 0, 0},
    {"tpu-7x", PL_PEAK_BF16, 2.3e15, 192e9, 7.4e12, 9e10, 0, 0},
    {"v100", PL_PEAK_FP16, 1.25e14, 32e9, 9e11, 1.5e11, 16, 1e11},
    {"a100", PL_PEAK_BF16, 3.12e14, 80e9, 2e12, 3e11, 8, 2e11},
    {"h100", PL_PEAK_BF16, 9.9e14, 80e9, 3.35e12, 4.5e11, 8, 4e11},
    {"h100-96gb", PL_PEAK_BF16, 9.9e14, 96e9, 2.4e12, 4.5e11, 8, 4e11},
    {"h200", PL_PEAK_BF16, 9.9e14, 141e9, 4.8e12, 4.5e11, 8, 4e11},
    {"b200", PL_PEAK_BF16, 2.25e15, 192e9, 8e12, 9e11, 8, 4e11},
    {"gb200-nvl72", PL_PEAK_BF16, 2.25e15, 192e9, 8e12, 9e11, 72, 3.6e12},
};
enum { N_SHIPPED = sizeof shipped / sizeof shipped[0] };

START_TEST(every_file_that_is_shipped_is_read)
{
    char names[1024];
    int n = 1;

    pl_hardware_names(names, sizeof names);
    for (const char *c = names; *c != '\0'; c++)
        n += *c == ',';
    ck_assert_int_eq(n, N_SHIPPED);
    for (int i = 0; i < N_SHIPPED; i++) {
        pl_hardware hw;

        ck_assert_msg(pl_hardware_find(shipped[i].name, &hw) == PL_OK, "%s", pl_status_message());
        ck_assert(hw.chip.peak_flops_per_s[shipped[i].peak] == shipped[i].flops);
        ck_assert(hw.chip.hbm_bytes == shipped[i].hbm_bytes);
        ck_assert(hw.chip.hbm_bytes_per_s == shipped[i].hbm_bytes_per_s);
        ck_assert(hw.level[0].one_way_bytes_per_s == shipped[i].one_way_bytes_per_s);
        if (shipped[i].node > 0) {
            ck_assert_int_eq(pl_hardware_chips_below(&hw, 1), shipped[i].node);
            for (int l = 1; l < hw.n_levels; l++) /* a fat tree keeps it */
                ck_assert(hw.level[l].one_way_bytes_per_s * (double)shipped[i].node ==
                          shipped[i].node_egress);
        }
        ck_assert_int_eq(pl_hardware_chips(&hw), 0);
    }
}
END_TEST

START_TEST(an_unknown_name_lists_those_known)
{
    pl_hardware hw;

    ck_assert_int_eq(pl_hardware_find("tpu-v9", &hw), PL_BAD_INPUT);
    ck_assert(strstr(pl_status_message(), "tpu-v5p") != NULL);
    ck_assert(strstr(pl_status_message(), "gb200-nvl72") != NULL);
}
END_TEST

START_TEST(a_format_that_the_chip_lacks_names_those_it_has)
{
    pl_hardware hw;
    pl_machine machine;

    ck_assert(pl_hardware_find("v100", &hw) == PL_OK);
    ck_assert_int_eq(pl_hardware_machine(&hw, PL_PEAK_BF16, &machine), PL_BAD_INPUT);
    ck_assert(strstr(pl_status_message(), "peak_bf16_flops_per_s") != NULL);
    ck_assert(strstr(pl_status_message(), "fp16") != NULL);
}
END_TEST

START_TEST(narrow_numbers_are_for_products_alone)
{
    pl_hardware hw;
    pl_machine wide, narrow;

    ck_assert(pl_hardware_find("h100", &hw) == PL_OK);
    ck_assert(pl_hardware_machine(&hw, PL_PEAK_BF16, &wide) == PL_OK);
    ck_assert(pl_hardware_machine(&hw, PL_PEAK_FP8, &narrow) == PL_OK);
    ck_assert(narrow.matmul_bf16_flops_per_s.rate[0] == hw.chip.peak_flops_per_s[PL_PEAK_FP8]);
    ck_assert(narrow.attention_bf16_flops_per_s == wide.attention_bf16_flops_per_s);
    ck_assert(wide.cast_bytes == 0);
    ck_assert(narrow.cast_bytes == 2 + 2 + 1);
}
END_TEST

#define CHIP                                                                                       \
    "\"chip\":{\"peak_bf16_flops_per_s\":1e12,\"hbm_bytes\":1e9,\"hbm_bytes_per_s\":1e11,"         \
    "\"source\":\"s\"}"
#define LEVEL                                                                                      \
    "\"network\":[{\"name\":\"n\",\"kind\":\"switch\",\"size\":0,\"one_way_bytes_per_s\":1e9,"     \
    "\"latency_s\":1e-6,\"source\":\"s\"}]"

/* What is wrong with a file, and the word that its refusal has to hold. */
static const struct {
    const char *text, *word;
} bad[] = {
    {"{" CHIP "," LEVEL "}", "\"name\""},
    {"{\"name\":\"x\"," LEVEL "}", "\"chip\""},
    {"{\"name\":\"x\"," CHIP "}", "\"network\""},
    {"{\"name\":\"x\",\"chip\":{\"hbm_bytes\":1e9,\"hbm_bytes_per_s\":1e11,\"source\":\"s\"}," LEVEL
     "}",
     "no peak"},
    {"{\"name\":\"x\",\"chip\":{\"peak_bf16_flops_per_s\":-1,\"hbm_bytes\":1e9,"
     "\"hbm_bytes_per_s\":1e11,\"source\":\"s\"}," LEVEL "}",
     "peak_bf16_flops_per_s"},
    {"{\"name\":\"x\",\"chip\":{\"peak_bf16_flops_per_s\":1e12,\"hbm_bytes\":1e9,"
     "\"source\":\"s\"}," LEVEL "}",
     "hbm_bytes_per_s"},
    {"{\"name\":\"x\",\"chip\":{\"peak_bf16_flops_per_s\":1e12,\"hbm_bytes\":1e9,"
     "\"hbm_bytes_per_s\":1e11}," LEVEL "}",
     "\"source\""},
    {"{\"name\":\"x\"," CHIP ",\"network\":[]}", "1 to"},
    {"{\"name\":\"x\"," CHIP ",\"network\":[{\"name\":\"n\",\"kind\":\"bus\",\"size\":0,"
     "\"one_way_bytes_per_s\":1e9,\"latency_s\":1e-6,\"source\":\"s\"}]}",
     "neither torus nor switch"},
    {"{\"name\":\"x\"," CHIP ",\"network\":[{\"name\":\"n\",\"kind\":\"switch\",\"size\":0,"
     "\"one_way_bytes_per_s\":0,\"latency_s\":1e-6,\"source\":\"s\"}]}",
     "one_way_bytes_per_s"},
    {"{\"name\":\"x\"," CHIP ",\"network\":[{\"name\":\"n\",\"kind\":\"switch\",\"size\":0,"
     "\"one_way_bytes_per_s\":1e9,\"unit_one_way_bytes_per_s\":1e9,\"latency_s\":1e-6,"
     "\"source\":\"s\"}]}",
     "not both"},
    {"{\"name\":\"x\"," CHIP "," LEVEL ",\"efficiency\":{\"matmul\":1.5,\"source\":\"s\"}}",
     "matmul"},
};
enum { N_BAD = sizeof bad / sizeof bad[0] };

static pl_status read_text(const char *text, pl_hardware *hw)
{
    char path[SCRATCH_PATH];

    scratch_write("hardware.json", text, strlen(text));
    return pl_hardware_read(scratch_path("hardware.json", path), hw);
}

START_TEST(a_file_is_refused_by_the_key_that_is_wrong)
{
    pl_hardware hw;

    ck_accepted(read_text("{\"name\":\"x\"," CHIP "," LEVEL "}", &hw));
    ck_assert(hw.efficiency.matmul == 1 && hw.efficiency.network == 1);
    for (int i = 0; i < N_BAD; i++) {
        ck_refused(read_text(bad[i].text, &hw), bad[i].word, NULL);
    }
}
END_TEST

START_TEST(an_axis_is_a_ring_only_where_it_wraps_around)
{
    pl_hardware hw;

    ck_assert(pl_hardware_find("tpu-v5e", &hw) == PL_OK);
    ck_assert(pl_wire_dim_of(&hw, 0, 16, 1, 16).is_ring);
    ck_assert(!pl_wire_dim_of(&hw, 0, 8, 1, 8).is_ring);  /* the book: v5e wraps at 16 only */
    ck_assert(!pl_wire_dim_of(&hw, 0, 8, 1, 16).is_ring); /* half of it */
    ck_assert(pl_wire_dim_of(&hw, 0, 8, 2, 16).is_ring);  /* every second chip all round */
    ck_assert(pl_wire_dim_of(&hw, 0, 8, 2, 16).one_way_bytes_per_s ==
              hw.level[0].one_way_bytes_per_s / 2);
    ck_assert(pl_hardware_find("tpu-v5p", &hw) == PL_OK);
    ck_assert(pl_wire_dim_of(&hw, 0, 8, 1, 8).is_ring); /* cubes of 4 */
    ck_assert(!pl_wire_dim_of(&hw, 0, 2, 1, 2).is_ring);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("hardware");
    TCase *tc = tcase_create("files");

    tcase_add_checked_fixture(tc, scratch_create, scratch_remove);
    tcase_add_test(tc, narrow_numbers_are_for_products_alone);
    tcase_add_test(tc, every_file_that_is_shipped_is_read);
    tcase_add_test(tc, an_unknown_name_lists_those_known);
    tcase_add_test(tc, a_format_that_the_chip_lacks_names_those_it_has);
    tcase_add_test(tc, a_file_is_refused_by_the_key_that_is_wrong);
    tcase_add_test(tc, an_axis_is_a_ring_only_where_it_wraps_around);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
