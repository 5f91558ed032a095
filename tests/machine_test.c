/* machine_test -- the peaks of a machine, between measured points and through JSON. */
#include "config.h"

#include "src/machine/machine.h"
#include "tests/check_main.h"
#include "tests/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file of this test's own, removed when the test is done. */
static char *temporary(char *path, size_t size)
{
    const char *folder = getenv("TMPDIR");

    snprintf(path, size, "%s/purlin-machine-%ld.json", folder != NULL ? folder : "/tmp",
             (long)getpid());
    return path;
}

START_TEST(a_curve_goes_through_its_points)
{
    const pl_curve curve = synthetic().matmul_flops_per_s;

    ck_assert_int_eq(curve.n_points, 3);
    for (int i = 0; i < curve.n_points; i++)
        ck_assert(pl_curve_at(&curve, curve.size[i]) == curve.rate[i]);
}
END_TEST

START_TEST(a_curve_is_flat_outside_its_points)
{
    const pl_curve curve = synthetic().matmul_flops_per_s;

    ck_assert(pl_curve_at(&curve, 0) == curve.rate[0]);
    ck_assert(pl_curve_at(&curve, 1) == curve.rate[0]);
    ck_assert(pl_curve_at(&curve, 1e15) == curve.rate[2]);
}
END_TEST

START_TEST(a_curve_is_linear_in_the_logarithm_of_the_size)
{
    const pl_curve curve = {.n_points = 3, .size = {4, 16, 256}, .rate = {7, 1, 5}};
    /* 8 is half way from 2^2 to 2^4, 64 from 2^4 to 2^8, 32 a quarter. Each log carries 1 ulp, the
     * rest a few roundings; the values are below 8. */
    const double bound = 16 * 8 * 0x1p-53;

    ck_assert_double_le(fabs(pl_curve_at(&curve, 8) - 4), bound);
    ck_assert_double_le(fabs(pl_curve_at(&curve, 64) - 3), bound);
    ck_assert_double_le(fabs(pl_curve_at(&curve, 32) - 2), bound);
}
END_TEST

START_TEST(a_curve_of_one_point_is_flat)
{
    const pl_curve curve = {.n_points = 1, .size = {16}, .rate = {3}};

    ck_assert(pl_curve_at(&curve, 1) == 3 && pl_curve_at(&curve, 16) == 3 &&
              pl_curve_at(&curve, 1e9) == 3);
}
END_TEST

START_TEST(every_field_is_read_from_its_key)
{
    const pl_machine m = synthetic();

    ck_assert_str_eq(m.name, "synthetic: 8 ranks a host");
    ck_assert(m.ranks_per_host == 8 && m.threads_per_rank == 1);
    ck_assert(m.peak_flops_per_s == 4e10 && m.attention_flops_per_s == 1e10);
    ck_assert(m.peak_bf16_flops_per_s == 7.5e10 && m.attention_bf16_flops_per_s == 1.5e10);
    ck_assert(m.matmul_bf16_flops_per_s.n_points == 3);
    ck_assert(m.matmul_bf16_flops_per_s.rate[1] == 1.5e10);
    ck_assert(m.memory_bytes_per_s.n_points == 4 && m.memory_bytes_per_s.size[3] == 268435456);
    ck_assert(m.op_overhead_s == 1e-6 && m.comm_overhead_s == 2e-6);
    ck_assert(m.reduce_bytes_per_s == 5e9 && m.copy_bytes_per_s == 8e9);
    ck_assert(m.signal_s == 2.5e-7);
    ck_assert(m.shared_bytes_per_s[PL_SHARED_COPY].rate[0] == 2.4e10);
    ck_assert(m.shared_bytes_per_s[PL_SHARED_REDUCE].rate[0] == 2e10);
    ck_assert(m.shared_bytes_per_s[PL_SHARED_SPREAD].rate[0] == 1e10);
    ck_assert(m.shared_bytes_per_s[PL_SHARED_FRESH].rate[0] == 2.1e9);
    ck_assert(m.shared_bytes_per_s[PL_SHARED_STAGED].rate[0] == 1.1e9);
    ck_assert(m.link[PL_LINK_SAME_HOST].latency_s == 1e-6);
    ck_assert(m.link[PL_LINK_SAME_HOST].one_way_bytes_per_s == 4e9);
    ck_assert(m.link[PL_LINK_SAME_HOST].both_ways_bytes_per_s == 3e9);
    ck_assert(m.link[PL_LINK_SAME_HOST].eager_bytes == 4096);
    ck_assert(m.link[PL_LINK_OTHER_HOST].latency_s == 1e-5);
    ck_assert(m.link[PL_LINK_OTHER_HOST].eager_bytes == 65536);
}
END_TEST

START_TEST(what_is_written_is_read_back_bit_for_bit)
{
    pl_machine m = synthetic(), again;
    char path[512];

    /* figures with all their digits, as a measurement has */
    m.peak_flops_per_s = 1e11 / 3;
    m.matmul_flops_per_s.rate[1] = 1e10 / 7;
    m.peak_bf16_flops_per_s = 1e11 / 17;
    m.matmul_bf16_flops_per_s.rate[1] = 1e10 / 19;
    m.attention_bf16_flops_per_s = 1e10 / 23;
    m.link[PL_LINK_SAME_HOST].latency_s = 1e-6 / 3;
    m.link[PL_LINK_SAME_HOST].message_s = 1e-7 / 3;
    m.link[PL_LINK_OTHER_HOST].n_cores = 2;
    m.link[PL_LINK_OTHER_HOST].core[0] = (pl_core_cost){.byte_s = 1e-9 / 3,
                                                        .polled_byte_s = 1e-10 / 7,
                                                        .sent_byte_s = 1e-9 / 5,
                                                        .received_byte_s = 1e-9 / 9,
                                                        .start_byte_s = 1e-9 / 11,
                                                        .buffered_bytes = 1e6 / 3};
    m.link[PL_LINK_OTHER_HOST].core[1] = (pl_core_cost){.byte_s = 1e-9 / 13};
    m.link[PL_LINK_OTHER_HOST].late_s = 1e-3 / 3;
    m.signal_s = 1e-6 / 7;
    m.shared_bytes_per_s[PL_SHARED_FRESH].rate[0] = 1e10 / 11;
    m.link[PL_LINK_SAME_HOST].both_ways_by_size =
        (pl_curve){.n_points = 2, .size = {1e3 / 3, 1e6}, .rate = {1e9 / 13, 3e9}};
    m.ranks_per_core = 8.0 / 3;
    m.jitter_s = 1e-6 / 17;
    m.drift = 0.01 / 3;
    m.memory_contention = 4.0 / 3;
    m.handover_s = 1e-6 / 19;
    m.slice_s = 1e-2 / 3;
    m.line_s = 1e-7 / 21;
    m.spread = (pl_spreads){.attention_flops_per_s = 0.1 / 3,
                            .signal_s = 0.1 / 7,
                            .handover_s = 0.1 / 9,
                            .slice_s = 0.1 / 21,
                            .line_s = 0.1 / 15};
    m.link[PL_LINK_SAME_HOST].latency_spread = 0.1 / 11;
    m.memory_bytes_per_s.spread[0] = 0.1 / 13;
    m.near_bytes = 1e6 / 3;
    m.mid_bytes = 1e7 / 3;
    m.shared_made_bytes_per_s = (pl_curve){.n_points = 1, .size = {1e5 / 3}, .rate = {1e10 / 3}};
    for (int c = 0; c < PL_N_SHARED; c++) {
        m.shared_far_bytes_per_s[c] = 1e10 / (2 * c + 3);
        m.spread.shared_far_bytes_per_s[c] = 0.1 / (2 * c + 17);
    }
    m.n_kernels = 2;
    m.kernel[0] = (pl_kernel_fit){.name = "einsum.nt", .residual = 0.01 / 3, .n_samples = 7};
    for (int t = 0; t < PL_N_KERNEL_TERMS; t++)
        m.kernel[0].term_s[t] = 1e-9 / (t + 3);
    m.kernel[1] = (pl_kernel_fit){.name = "add", .term_s = {[PL_TERM_FAR] = 1e-10 / 3}};
    for (int hosts = 2; hosts >= 1; hosts--) {
        if (hosts == 1)
            memset(&m.link[PL_LINK_OTHER_HOST], 0, sizeof m.link[0]);
        ck_assert_int_eq(pl_machine_write(temporary(path, sizeof path), &m), PL_OK);
        ck_assert_msg(pl_machine_read(path, &again) == PL_OK, "%s", pl_status_message());
        unlink(path);
        ck_assert_mem_eq(&again, &m, sizeof m);
    }
}
END_TEST

START_TEST(a_rank_that_was_not_measured_pays_what_the_dearest_does)
{
    pl_machine m = synthetic();
    pl_link *link = &m.link[PL_LINK_OTHER_HOST];

    ck_assert(pl_machine_core_cost(&m, 0).byte_s == 0); /* the network moves messages by itself */
    link->n_cores = 3;
    link->core[1] = (pl_core_cost){.byte_s = 3e-9, .polled_byte_s = 1e-9};
    link->core[2] = (pl_core_cost){.byte_s = 2e-9, .polled_byte_s = 2e-9};
    ck_assert(pl_machine_core_cost(&m, 0).byte_s == 0);
    ck_assert(pl_machine_core_cost(&m, 2).byte_s == 2e-9);
    ck_assert(pl_machine_core_cost(&m, 3).byte_s == 3e-9);
    ck_assert(pl_machine_core_cost(&m, 3).polled_byte_s == 1e-9);
}
END_TEST

/* One text of the good file replaced by another, and what the refusal then names. */
static const struct {
    const char *was, *is, *named;
} faults[] = {
    {"\"name\"", "\"nom\"", "\"name\" is missing"},
    {"\"ranks_per_host\": 8", "\"ranks_per_host\": 0", "\"ranks_per_host\""},
    {"\"ranks_per_host\": 8", "\"ranks_per_host\": 1.5", "\"ranks_per_host\""},
    {"\"peak_flops_per_s\": 4e10,", "", "\"peak_flops_per_s\" is missing"},
    {"\"peak_flops_per_s\": 4e10", "\"peak_flops_per_s\": -4e10", "\"peak_flops_per_s\""},
    {"\"peak_flops_per_s\": 4e10", "\"peak_flops_per_s\": \"fast\"", "\"peak_flops_per_s\""},
    {"\"peak_bf16_flops_per_s\": 7.5e10", "\"peak_bf16_flops_per_s\": 0",
     "\"peak_bf16_flops_per_s\""},
    {"\"op_overhead_s\": 1e-6", "\"op_overhead_s\": 0", "\"op_overhead_s\""},
    {"\"signal_s\": 2.5e-7,", "", "\"signal_s\" is missing"},
    {"\"signal_s\": 2.5e-7", "\"signal_s\": 0", "\"signal_s\""},
    {"\"shared_spread_bytes_per_s\"", "\"spread\"", "\"shared_spread_bytes_per_s\" is missing"},
    {"\"rate\": 2.8e10", "\"rate\": -1", "shared_reduce_bytes_per_s[1]: \"rate\""},
    {"\"eager_bytes\": 4096", "\"both_ways_by_size\": []", "\"both_ways_by_size\" must hold"},
    {"{\"size\": 1e6, ", "{\"size\": 1e4, ", "matmul_flops_per_s[1]: sizes must increase"},
    {"\"rate\": 3.2e10", "\"rate\": 0", "memory_bytes_per_s[1]: \"rate\""},
    {"\"size\": 65536, ", "", "memory_bytes_per_s[0]: \"size\" is missing"},
    {"\"same_host\"", "\"here\"", "link: \"same_host\" is missing"},
    {"\"latency_s\": 1e-5", "\"latency_s\": 0", "link.other_host: \"latency_s\""},
    {"\"eager_bytes\": 4096", "\"eager_bytes\": -1", "link.same_host: \"eager_bytes\""},
    {"\"eager_bytes\": 4096", "\"core\": [{\"byte_s\": 1e-9}]",
     "link.same_host: core[0]: \"polled_byte_s\" is missing"},
    {"\"eager_bytes\": 4096", "\"core\": [{\"byte_s\": 1e-9, \"polled_byte_s\": 2e-9}]",
     "link.same_host: core[0]: \"sent_byte_s\" is missing"},
    {"\"eager_bytes\": 4096",
     "\"core\": [{\"byte_s\": 1e-9, \"polled_byte_s\": 2e-9, \"sent_byte_s\": 1e-9, "
     "\"received_byte_s\": 1e-9, \"start_byte_s\": 0, \"buffered_bytes\": 0}]",
     "link.same_host: core[0]: \"polled_byte_s\" is a part of \"byte_s\""},
    {"\"link\"", "\"links\"", "\"link\" is missing"},
    {"\"copy_bytes_per_s\": 8e9,", "\"copy_bytes_per_s\": 8e9", "line"},
};

static void write_faulty(const char *path, const char *was, const char *is)
{
    char good_path[512], text[4096];
    FILE *f = fopen(synthetic_path(good_path, sizeof good_path), "r");

    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    char *at = strstr(text, was);
    ck_assert_ptr_nonnull(at);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "%.*s%s%s", (int)(at - text), text, is, at + strlen(was));
    fclose(f);
}

START_TEST(a_fault_is_refused_by_file_and_key)
{
    pl_machine m = synthetic();
    const pl_machine before = m;
    char path[512];

    write_faulty(temporary(path, sizeof path), faults[_i].was, faults[_i].is);
    ck_assert_int_eq(pl_machine_read(path, &m), PL_BAD_INPUT);
    unlink(path);
    ck_assert_msg(strstr(pl_status_message(), faults[_i].named) != NULL, "%s", pl_status_message());
    ck_assert_ptr_nonnull(strstr(pl_status_message(), path));
    ck_assert_mem_eq(&m, &before, sizeof m);
}
END_TEST

/* One entry more than there is room for. */
START_TEST(a_list_that_is_too_long_is_refused)
{
    static const char entry[] =
        "{\"byte_s\": 0, \"polled_byte_s\": 0, \"sent_byte_s\": 0, "
        "\"received_byte_s\": 0, \"start_byte_s\": 0, \"buffered_bytes\": 0}, ";
    char list[(PL_MACHINE_RANKS + 1) * sizeof entry + 16] = "\"core\": [", path[512];
    pl_machine m;

    for (int r = 0; r < PL_MACHINE_RANKS; r++)
        strcat(list, entry);
    strcat(list, "{\"byte_s\": 0, \"polled_byte_s\": 0}]");
    write_faulty(temporary(path, sizeof path), "\"eager_bytes\": 4096", list);
    ck_assert_int_eq(pl_machine_read(path, &m), PL_BAD_INPUT);
    unlink(path);
    ck_assert_ptr_nonnull(
        strstr(pl_status_message(), "link.same_host: \"core\" holds more than 64"));
}
END_TEST

START_TEST(a_machine_without_bf16_rates_has_f32_only)
{
    const pl_machine whole = synthetic();
    static const char *const keys[] = {"\"peak_bf16_flops_per_s\"",
                                       "\"attention_bf16_flops_per_s\"",
                                       "\"matmul_bf16_flops_per_s\""};

    ck_assert(pl_machine_has(&whole, PL_F32) && pl_machine_has(&whole, PL_BF16));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        pl_machine m;
        char path[512];

        write_faulty(temporary(path, sizeof path), keys[i], "\"unknown\"");
        ck_assert_msg(pl_machine_read(path, &m) == PL_OK, "%s", pl_status_message());
        ck_assert(pl_machine_has(&m, PL_F32) && !pl_machine_has(&m, PL_BF16));
        /* and it is written without them */
        ck_assert_int_eq(pl_machine_write(path, &m), PL_OK);
        ck_assert_msg(pl_machine_read(path, &m) == PL_OK, "%s", pl_status_message());
        ck_assert(!pl_machine_has(&m, PL_BF16));
        unlink(path);
    }
}
END_TEST

START_TEST(a_file_that_is_not_there_is_refused_by_name)
{
    pl_machine m;

    ck_assert_int_eq(pl_machine_read("/nowhere/machine.json", &m), PL_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "/nowhere/machine.json"));
    pl_status_clear();
    m = synthetic();
    ck_assert_int_eq(pl_machine_write("/nowhere/machine.json", &m), PL_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(pl_status_message(), "/nowhere/machine.json"));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("machine");
    TCase *tc = tcase_create("machine");

    tcase_add_test(tc, a_curve_goes_through_its_points);
    tcase_add_test(tc, a_curve_is_flat_outside_its_points);
    tcase_add_test(tc, a_curve_is_linear_in_the_logarithm_of_the_size);
    tcase_add_test(tc, a_curve_of_one_point_is_flat);
    tcase_add_test(tc, every_field_is_read_from_its_key);
    tcase_add_test(tc, what_is_written_is_read_back_bit_for_bit);
    tcase_add_test(tc, a_rank_that_was_not_measured_pays_what_the_dearest_does);
    tcase_add_loop_test(tc, a_fault_is_refused_by_file_and_key, 0,
                        (int)(sizeof faults / sizeof faults[0]));
    tcase_add_test(tc, a_list_that_is_too_long_is_refused);
    tcase_add_test(tc, a_machine_without_bf16_rates_has_f32_only);
    tcase_add_test(tc, a_file_that_is_not_there_is_refused_by_name);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return ck_main(make_suite());
}
