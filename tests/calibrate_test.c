/* calibrate_test -- a calibration is whole, alike on all ranks, and cached. Runs under mpirun. */
#include "config.h"

#include "collectives/region.h"
#include "src/roofline/after.h"
#include "src/roofline/calibrate.h"
#include "src/roofline/kernel_model.h"
#include "src/roofline/line.h"
#include "src/roofline/links.h"
#include "src/roofline/measure.h"
#include "tests/parallel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

/* Set once by make_suite: this rank and a folder of this run's own. */
static int rank;
static char folder[PATH_BYTES];

/* Let rank 0 do something alone, then go on together. */
static void on_rank_0(void (*act)(const char *), const char *what)
{
    if (rank == 0)
        act(what);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void use_cache(const char *path)
{
    setenv("XDG_CACHE_HOME", path, 1);
}

static void remove_all(const char *path)
{
    char command[PATH_BYTES + 32];

    snprintf(command, sizeof command, "rm -rf '%s'", path);
    ck_assert_int_eq(system(command), 0);
}

/* Run a shell command on each cached file. */
static void on_files(const char *command)
{
    char line[2 * PATH_BYTES];

    snprintf(line, sizeof line, "for f in '%s'/purlin/*; do %s; done", folder, command);
    ck_assert_int_eq(system(line), 0);
}

static bool is_whole_curve(const pl_curve *curve)
{
    bool good = curve->n_points >= 1;

    for (int i = 0; i < curve->n_points; i++)
        good = good && curve->rate[i] > 0 && isfinite(curve->rate[i]) &&
               curve->size[i] > (i > 0 ? curve->size[i - 1] : 0);
    return good;
}

static bool is_whole_link(const pl_link *link)
{
    return link->latency_s > 0 && link->message_s > 0 && link->one_way_bytes_per_s > 0 &&
           link->both_ways_bytes_per_s > 0 && isfinite(link->latency_s) &&
           link->message_s <= link->latency_s &&
           isfinite(link->one_way_bytes_per_s) && isfinite(link->both_ways_bytes_per_s);
}

static bool is_like_rank_0(const pl_machine *machine)
{
    pl_machine theirs = *machine;

    MPI_Bcast(&theirs, (int)sizeof theirs, MPI_BYTE, 0, MPI_COMM_WORLD);
    return memcmp(&theirs, machine, sizeof theirs) == 0;
}

/* With no heap nobody looks where cores are, which may change at any time. */
static pl_machine cached_with(const pl_topology *t, pl_heap *heap, pl_dtype dtype)
{
    pl_machine machine;

    memset(&machine, 0xee, sizeof machine);
    ck_all(MPI_COMM_WORLD, pl_machine_cached(MPI_COMM_WORLD, t, heap, false, true, dtype,
                                             &machine) ==
                               PL_OK);
    return machine;
}

static pl_machine cached(const pl_topology *t)
{
    return cached_with(t, NULL, PL_F32);
}

START_TEST(a_calibration_measures_everything_and_is_the_same_on_all_ranks)
{
    pl_topology t;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    use_cache(folder);
    on_rank_0(remove_all, folder);
    pl_heap *heap = pl_heap_create(MPI_COMM_WORLD);
    const pl_machine m = cached_with(&t, heap, PL_F32);

    pl_heap_destroy(heap);
    ck_all(MPI_COMM_WORLD, is_like_rank_0(&m));
    ck_all(MPI_COMM_WORLD, m.line_s >= 0 && m.spread.line_s >= 0 && isfinite(m.spread.line_s));
    ck_all(MPI_COMM_WORLD, is_whole_curve(&m.matmul_flops_per_s));
    ck_all(MPI_COMM_WORLD, pl_machine_has(&m, PL_F32) && !pl_machine_has(&m, PL_BF16));
    ck_all(MPI_COMM_WORLD, is_whole_curve(&m.memory_bytes_per_s));
    ck_all(MPI_COMM_WORLD, m.attention_flops_per_s > 0 && m.op_overhead_s > 0);
    ck_all(MPI_COMM_WORLD, m.comm_overhead_s > 0 && m.reduce_bytes_per_s > 0);
    ck_all(MPI_COMM_WORLD, m.copy_bytes_per_s > 0 && m.ranks_per_host >= 1);
    ck_all(MPI_COMM_WORLD, is_whole_link(&m.link[PL_LINK_SAME_HOST]));
    ck_all(MPI_COMM_WORLD, is_whole_link(&m.link[PL_LINK_OTHER_HOST]) == (t.n_hosts > 1));
    ck_all(MPI_COMM_WORLD, m.signal_s > 0 && isfinite(m.signal_s));
    for (int c = 0; c < PL_N_SHARED; c++)
        ck_all(MPI_COMM_WORLD, is_whole_curve(&m.shared_bytes_per_s[c]));
    ck_all(MPI_COMM_WORLD, m.near_bytes > 0 && m.mid_bytes >= m.near_bytes);
    ck_all(MPI_COMM_WORLD, m.ranks_per_core >= 1 && m.jitter_s >= 0 && isfinite(m.jitter_s));
    ck_all(MPI_COMM_WORLD, (m.shared_made_bytes_per_s.n_points > 0) == (t.ranks_on_host > 1));
    for (int c = 0; c < PL_N_SHARED; c++)
        ck_all(MPI_COMM_WORLD, (m.shared_far_bytes_per_s[c] > 0) == (t.ranks_on_host > 1) &&
                                   isfinite(m.shared_far_bytes_per_s[c]));
    ck_all(MPI_COMM_WORLD, t.ranks_on_host > 1 ? m.memory_contention >= 1 : m.memory_contention == 0);
    ck_all(MPI_COMM_WORLD, (m.handover_s > 0) == (m.ranks_per_core > 1) && isfinite(m.handover_s));
    /* what it may be of a system: from a part of a millisecond to a part of a second */
    ck_all(MPI_COMM_WORLD,
           m.ranks_per_core > 1 ? m.slice_s > 1e-5 && m.slice_s < 1 : m.slice_s == 0);
    ck_all(MPI_COMM_WORLD, m.drift >= 0 && isfinite(m.drift));
    ck_all(MPI_COMM_WORLD, m.spread.attention_flops_per_s > 0 && m.spread.signal_s >= 0);
    for (int i = 0; i < m.matmul_flops_per_s.n_points; i++)
        ck_all(MPI_COMM_WORLD, m.matmul_flops_per_s.spread[i] >= 0 &&
                                   isfinite(m.matmul_flops_per_s.spread[i]));
    for (int i = 0; i < m.matmul_flops_per_s.n_points; i++)
        ck_all(MPI_COMM_WORLD, m.peak_flops_per_s >= m.matmul_flops_per_s.rate[i]);
}
END_TEST

static bool has_terms(const pl_kernel_fit *fit)
{
    double sum = 0;

    for (int t = 0; t < PL_N_KERNEL_TERMS; t++) {
        if (!(fit->term_s[t] >= 0 && isfinite(fit->term_s[t])))
            return false;
        sum += fit->term_s[t];
    }
    return sum > 0 && fit->n_samples > 0 && fit->residual >= 0 && isfinite(fit->residual);
}

static bool has_kernel(const pl_machine *m, const char *name)
{
    const pl_kernel_fit *fit = pl_kernel_fit_find(m, name);

    return fit != NULL && has_terms(fit);
}

START_TEST(every_kernel_of_a_training_step_has_terms_of_its_own)
{
    static const char *const names[] = {
        "einsum.nn",       "einsum.nt",        "einsum.tn",          "attention",
        "rmsnorm",         "rmsnorm_backward", "attention_backward", "rope",
        "rope_backward",   "swiglu",           "swiglu_backward",    "add",
        "embed",           "embed_backward",   "xent_max",           "xent_sum",
        "xent_loss",       "xent_grad",        "sum_squares",        "adamw",
        NULL};
    pl_topology t;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    use_cache(folder);
    const pl_machine m = cached(&t);

    for (int i = 0; names[i] != NULL; i++)
        ck_all(MPI_COMM_WORLD, has_kernel(&m, names[i]));
}
END_TEST

START_TEST(what_bf16_needs_is_measured_when_asked_for_and_kept)
{
    static const char *const names[] = {"einsum.nn.bf16", "einsum.nt.bf16", "einsum.tn.bf16",
                                        "attention.bf16", "rmsnorm.bf16",   "adamw.bf16"};
    pl_topology t;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    use_cache(folder);
    const pl_machine before = cached(&t), m = cached_with(&t, NULL, PL_BF16), again = cached(&t);

    ck_all(MPI_COMM_WORLD, is_like_rank_0(&m) && pl_machine_has(&m, PL_BF16));
    ck_all(MPI_COMM_WORLD, is_whole_curve(&m.matmul_bf16_flops_per_s));
    for (int i = 0; i < m.matmul_bf16_flops_per_s.n_points; i++)
        ck_all(MPI_COMM_WORLD, m.peak_bf16_flops_per_s >= m.matmul_bf16_flops_per_s.rate[i]);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_all(MPI_COMM_WORLD, !has_kernel(&before, names[i]) && has_kernel(&m, names[i]));
    /* the rest is as it was, and all of it is there the next time */
    ck_all(MPI_COMM_WORLD, m.op_overhead_s == before.op_overhead_s);
    ck_all(MPI_COMM_WORLD, memcmp(&m, &again, sizeof m) == 0);
}
END_TEST

static bool is_kept(const pl_topology *t, pl_machine *machine)
{
    char line[PATH_BYTES + 64];
    bool kept = false;

    on_rank_0(remove_all, folder);
    pl_machine_keep(t, false, machine);
    if (rank == 0) {
        snprintf(line, sizeof line, "ls '%s'/purlin/machine-*.json >/dev/null 2>&1", folder);
        kept = system(line) == 0;
    }
    MPI_Bcast(&kept, sizeof kept, MPI_BYTE, 0, MPI_COMM_WORLD);
    return kept;
}

START_TEST(a_disturbed_calibration_is_marked_and_not_kept)
{
    pl_topology t;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    use_cache(folder);
    pl_machine m = cached(&t);
    m.ranks_per_core = 1;
    m.difference = 0.5 * PL_MOST_DIFFERENCE;

    m.jitter_s = 2 * PL_MOST_JITTER_S;
    ck_all(MPI_COMM_WORLD, !is_kept(&t, &m) && m.disturbed);
    m.jitter_s = 0.5 * PL_MOST_JITTER_S;
    ck_all(MPI_COMM_WORLD, is_kept(&t, &m) && !m.disturbed);
    m.difference = 2 * PL_MOST_DIFFERENCE;
    ck_all(MPI_COMM_WORLD, !is_kept(&t, &m) && m.disturbed);
    m.ranks_per_core = 2; /* they differ by their turns */
    ck_all(MPI_COMM_WORLD, is_kept(&t, &m) && !m.disturbed);
    m.spread.line_s = 2 * PL_MOST_SPREAD; /* cores have moved */
    ck_all(MPI_COMM_WORLD, !is_kept(&t, &m) && m.disturbed);
}
END_TEST

/* `like`, but for the place and for what it is known by afterwards. */
static void keep(const pl_topology *t, const pl_machine *like, double line_s, double signal_s)
{
    pl_machine m = *like;

    m.line_s = line_s;
    m.signal_s = signal_s;
    pl_machine_keep(t, true, &m);
}

/* Rank 0 alone writes and reads the cache. */
static double recalled_signal_s(const pl_topology *t, double line_s)
{
    pl_machine m = {.signal_s = 0};
    double signal_s = rank == 0 && pl_machine_recall(t, true, line_s, &m) ? m.signal_s : 0;

    MPI_Bcast(&signal_s, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return signal_s;
}

START_TEST(cores_that_are_as_far_apart_are_the_same_machine_and_others_are_not)
{
    pl_topology t;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    use_cache(folder);
    const pl_machine m = cached(&t);
    on_rank_0(remove_all, folder);
    keep(&t, &m, 40e-9, 1);
    keep(&t, &m, 190e-9, 2);
    keep(&t, &m, 45e-9, 3); /* instead of the first */
    ck_all(MPI_COMM_WORLD, recalled_signal_s(&t, 42e-9) == 3);
    ck_all(MPI_COMM_WORLD, recalled_signal_s(&t, 200e-9) == 2);
    ck_all(MPI_COMM_WORLD, recalled_signal_s(&t, 90e-9) == 0);
    ck_all(MPI_COMM_WORLD, recalled_signal_s(&t, 0) > 0); /* not known: any */
    keep(&t, &m, 20e-9, 4);
    keep(&t, &m, 400e-9, 5);
    keep(&t, &m, 300e-9, 6); /* no room: instead of the nearest */
    ck_all(MPI_COMM_WORLD, recalled_signal_s(&t, 300e-9) == 6 && recalled_signal_s(&t, 400e-9) == 0);
    ck_all(MPI_COMM_WORLD, recalled_signal_s(&t, 40e-9) == 3 && recalled_signal_s(&t, 20e-9) == 4);
    on_rank_0(remove_all, folder);
}
END_TEST

START_TEST(a_line_is_measured_where_ranks_of_one_host_have_a_core_each)
{
    pl_topology t;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    pl_heap *heap = pl_heap_create(MPI_COMM_WORLD);
    const double without = pl_measure_line(MPI_COMM_WORLD, &t, NULL);
    const double known_s = pl_measure_line(MPI_COMM_WORLD, &t, heap);
    double of_rank_0 = known_s;

    MPI_Bcast(&of_rank_0, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    ck_all(MPI_COMM_WORLD, known_s == of_rank_0 && without == 0);
    /* Nothing is as near as one's own first cache, nor so far that messages would be faster. On a
     * busy machine it may remain unknown. */
    ck_all(MPI_COMM_WORLD, known_s == 0 || (known_s > 1e-9 && known_s < 3e-6));
    ck_all(MPI_COMM_WORLD, known_s == 0 || (heap != NULL && t.n_hosts == 1 && t.ranks_on_host > 1 &&
                                            t.ranks_on_host <= t.cores_on_host));
    pl_heap_destroy(heap);
}
END_TEST

/* Ranks that are taken to be on a host each: what passes between them leaves their hosts. */
static pl_link link_between_hosts(pl_topology *t)
{
    pl_measure m;
    pl_link link;
    double overhead_s, spread;

    pl_topology_discover(MPI_COMM_WORLD, t);
    t->host = rank;
    t->n_hosts = t->n_ranks;
    t->ranks_on_host = 1;
    t->rank_on_host = 0;
    pl_heap *heap = pl_heap_create(MPI_COMM_WORLD);
    pl_measure_init(&m, MPI_COMM_WORLD, t, true);
    pl_measure_set_turns(&m, false); /* each host has cores of its own */
    pl_measure_link(&m, t, heap, PL_LINK_OTHER_HOST, &link, &overhead_s, &spread);
    pl_measure_free(&m);
    pl_heap_destroy(heap);
    return link;
}

START_TEST(what_messages_to_other_hosts_cost_is_measured_on_every_rank)
{
    pl_topology t;
    const pl_link link = link_between_hosts(&t);

    pl_link theirs = link;

    MPI_Bcast(&theirs, (int)sizeof theirs, MPI_BYTE, 0, MPI_COMM_WORLD);
    ck_all(MPI_COMM_WORLD, memcmp(&theirs, &link, sizeof link) == 0);
    ck_all(MPI_COMM_WORLD, is_whole_link(&link) == (t.n_ranks > 1));
    ck_all(MPI_COMM_WORLD, link.n_cores == (t.n_ranks > 1 ? t.n_ranks : 0));
    ck_all(MPI_COMM_WORLD, link.late_s >= 0 && isfinite(link.late_s));
    for (int r = 0; r < link.n_cores; r++) {
        const pl_core_cost *c = &link.core[r];
        const bool is_alone = r == t.n_ranks - 1 && r % 2 == 0;

        ck_all(MPI_COMM_WORLD, isfinite(c->byte_s) && c->polled_byte_s >= 0);
        ck_all(MPI_COMM_WORLD, c->polled_byte_s <= c->byte_s);
        ck_all(MPI_COMM_WORLD, c->sent_byte_s >= 0 && isfinite(c->sent_byte_s));
        ck_all(MPI_COMM_WORLD, c->received_byte_s >= 0 && isfinite(c->received_byte_s));
        /* one way is measured by pairs of ranks */
        ck_all(MPI_COMM_WORLD,
               !is_alone || (c->sent_byte_s == c->byte_s && c->received_byte_s == c->byte_s &&
                             c->buffered_bytes == 0 && c->start_byte_s == 0));
        ck_all(MPI_COMM_WORLD, c->buffered_bytes >= 0 && c->buffered_bytes <= 1 << 24);
        ck_all(MPI_COMM_WORLD, (c->start_byte_s > 0) == (c->buffered_bytes > 0));
    }
}
END_TEST

START_TEST(what_was_measured_before_is_read_back_bit_for_bit)
{
    pl_topology t;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    use_cache(folder);
    const pl_machine first = cached(&t), again = cached(&t);

    /* two measurements never agree in all their digits */
    ck_all(MPI_COMM_WORLD, memcmp(&first, &again, sizeof first) == 0);
    ck_all(MPI_COMM_WORLD, is_like_rank_0(&again));
}
END_TEST

START_TEST(another_number_of_threads_is_another_machine)
{
    pl_topology t;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    use_cache(folder);
    const pl_machine first = cached(&t);
    t.threads++;
    const pl_machine other = cached(&t);

    ck_all(MPI_COMM_WORLD, other.threads_per_rank == first.threads_per_rank + 1);
}
END_TEST

START_TEST(a_broken_cache_file_is_measured_again_and_replaced)
{
    pl_topology t;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    use_cache(folder);
    cached(&t);
    on_rank_0(on_files, "printf '{\"name\"' >\"$f\"");
    const pl_machine measured = cached(&t), again = cached(&t);

    ck_all(MPI_COMM_WORLD, is_whole_curve(&measured.matmul_flops_per_s));
    ck_all(MPI_COMM_WORLD, memcmp(&measured, &again, sizeof again) == 0);
}
END_TEST

START_TEST(without_a_usable_cache_every_call_measures)
{
    pl_topology t;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    use_cache("/dev/null/nowhere");
    const pl_machine m = cached(&t);
    use_cache(folder);

    ck_all(MPI_COMM_WORLD, is_whole_curve(&m.matmul_flops_per_s) && is_like_rank_0(&m));
}
END_TEST

/* Work of a known duration: it sleeps, so that ranks that share a core do not share it. */
static void sleep_2_ms(void *data)
{
    const struct timespec pause = {.tv_nsec = 2000000};

    nanosleep(&pause, NULL);
    ++*(int *)data;
}

START_TEST(the_median_is_the_middle_and_a_quarter_lies_below_the_lower_quartile)
{
    double x[] = {5, 1, 4, 2, 3}, y[] = {8, 3, 7, 1, 6, 2, 5, 4};

    ck_all(MPI_COMM_WORLD, pl_median(x, 1) == 5);
    ck_all(MPI_COMM_WORLD, pl_median(x, 3) == 4);
    ck_all(MPI_COMM_WORLD, pl_median(x, 5) == 3);
    ck_all(MPI_COMM_WORLD, pl_lower_quartile(y, 1) == 8);
    ck_all(MPI_COMM_WORLD, pl_lower_quartile(y, 3) == 3);
    ck_all(MPI_COMM_WORLD, pl_lower_quartile(y, 8) == 3);
}
END_TEST

START_TEST(a_rate_counts_runs_per_second)
{
    pl_topology t;
    pl_measure m;
    int n_runs = 0;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    pl_measure_init(&m, MPI_COMM_WORLD, &t, false);
    const double rate = pl_measure_rate(&m, sleep_2_ms, &n_runs);
    pl_measure_free(&m);

    /* a sleep is never shorter than asked for; on a busy machine it may be many times as long */
    ck_all(MPI_COMM_WORLD, rate <= 500 && rate > 5);
}
END_TEST

/* A collective that lets odd ranks take longer. */
static void sleep_longer_on_odd_ranks(void *data)
{
    sleep_2_ms(data);
    if (rank % 2 == 1)
        sleep_2_ms(&(int){0});
}

START_TEST(a_collective_is_timed_by_as_many_runs_on_every_rank)
{
    pl_topology t;
    pl_measure m;
    int n_runs = 0, most, size;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    pl_measure_init(&m, MPI_COMM_WORLD, &t, false);
    const double time_s = pl_measure_time_s(&m, sleep_longer_on_odd_ranks, &n_runs);
    pl_measure_free(&m);

    MPI_Allreduce(&n_runs, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    ck_all(MPI_COMM_WORLD, n_runs == most);
    /* the slowest rank's time */
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ck_all(MPI_COMM_WORLD, time_s >= (size > 1 ? 0.004 : 0.002) && time_s < 0.200);
}
END_TEST

enum { N_COPIED = 1 << 22 };

/* What the ranks of a host do before a copy that the last of them makes alone: it says which copy
 * comes next, the others look whether the one before has ended. */
typedef struct {
    bool copies;
    const float *into; /* of the last rank: what the copy fills */
    float *from;       /* of this rank */
    int n_calls, n_early;
} beginning;

static void begin_copy(void *data)
{
    beginning *b = data;
    const volatile float *last = &b->into[N_COPIED - 1];

    b->n_early += *last != (float)b->n_calls;
    b->n_calls++;
    if (b->copies)
        b->from[N_COPIED - 1] = (float)b->n_calls;
}

START_TEST(nobody_begins_something_else_while_another_still_moves)
{
    pl_heap *heap = pl_heap_create(MPI_COMM_WORLD);
    pl_topology t;
    pl_measure m;
    int size;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pl_topology_discover(MPI_COMM_WORLD, &t);
    if (heap == NULL || t.ranks_on_host < size) {
        pl_heap_destroy(heap);
        ck_skip("ranks of one host that share memory");
    }
    pl_measure_init(&m, MPI_COMM_WORLD, &t, true);
    const pl_group group = {.comm = MPI_COMM_WORLD, .size = size, .rank = rank};
    void *arrays[2] = {pl_measure_array(heap, N_COPIED), pl_measure_array(heap, N_COPIED)};
    const pl_piece from = pl_piece_of(0, 0, N_COPIED), into = pl_piece_of(1, 0, N_COPIED);
    int64_t offset = pl_heap_offset(heap, arrays[1]);
    pl_schedule *s = pl_schedule_create();

    MPI_Bcast(&offset, 1, MPI_INT64_T, size - 1, MPI_COMM_WORLD);
    beginning b = {.copies = rank == size - 1,
                   .into = pl_heap_at(heap, size - 1, offset),
                   .from = arrays[0]};
    ((float *)arrays[1])[N_COPIED - 1] = 0;
    if (b.copies)
        pl_schedule_copy(s, (pl_region){1, &into}, (pl_region){1, &from});
    MPI_Barrier(MPI_COMM_WORLD);
    pl_measure_after_s(&m, heap, &group, s, arrays, 2, begin_copy, &b);
    ck_all(MPI_COMM_WORLD, b.n_calls > 0 && b.n_early == 0);
    pl_schedule_destroy(s);
    pl_measure_free(&m);
    for (int a = 0; a < 2; a++)
        pl_heap_free(heap, arrays[a]);
    pl_heap_destroy(heap);
}
END_TEST

START_TEST(what_is_moved_in_a_measurement_is_nowhere_zero)
{
    enum { N = 100003 };
    pl_heap *heap = pl_heap_create(MPI_COMM_WORLD);
    float *x = pl_measure_array(heap, N), *y = pl_measure_array(NULL, N);
    int64_t n_wrong = 0;

    for (int64_t i = 0; i < N; i++)
        n_wrong += x[i] != 1 || y[i] != 1;
    ck_all(MPI_COMM_WORLD, n_wrong == 0);
    pl_heap_free(NULL, y);
    pl_heap_free(heap, x);
    MPI_Barrier(MPI_COMM_WORLD);
    pl_heap_destroy(heap);
}
END_TEST

static void remove_folder(void)
{
    on_rank_0(remove_all, folder);
}

static Suite *make_suite(void)
{
    Suite *suite = suite_create("calibrate");
    TCase *tc = tcase_create("calibrate");
    const char *parent = getenv("TMPDIR");
    long id = (long)getpid();

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Bcast(&id, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    snprintf(folder, sizeof folder, "%s/purlin-calibrate-%ld", parent != NULL ? parent : "/tmp",
             id);
    tcase_add_unchecked_fixture(tc, NULL, remove_folder);
    tcase_add_test(tc, a_calibration_measures_everything_and_is_the_same_on_all_ranks);
    tcase_add_test(tc, every_kernel_of_a_training_step_has_terms_of_its_own);
    tcase_add_test(tc, what_bf16_needs_is_measured_when_asked_for_and_kept);
    tcase_add_test(tc, what_was_measured_before_is_read_back_bit_for_bit);
    tcase_add_test(tc, another_number_of_threads_is_another_machine);
    tcase_add_test(tc, a_broken_cache_file_is_measured_again_and_replaced);
    tcase_add_test(tc, without_a_usable_cache_every_call_measures);
    tcase_add_test(tc, a_disturbed_calibration_is_marked_and_not_kept);
    tcase_add_test(tc, cores_that_are_as_far_apart_are_the_same_machine_and_others_are_not);
    tcase_add_test(tc, a_line_is_measured_where_ranks_of_one_host_have_a_core_each);
    tcase_add_test(tc, the_median_is_the_middle_and_a_quarter_lies_below_the_lower_quartile);
    tcase_add_test(tc, a_rate_counts_runs_per_second);
    tcase_add_test(tc, a_collective_is_timed_by_as_many_runs_on_every_rank);
    tcase_add_test(tc, nobody_begins_something_else_while_another_still_moves);
    tcase_add_test(tc, what_messages_to_other_hosts_cost_is_measured_on_every_rank);
    tcase_add_test(tc, what_is_moved_in_a_measurement_is_nowhere_zero);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
