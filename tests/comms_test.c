/* comms_test -- communicators per set of axes, and the topology under them. Runs under mpirun at
 * any rank count. */
#include "config.h"

#include "src/mesh/comms.h"
#include "src/mesh/topology.h"
#include "tests/parallel.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Set once by make_suite. */
static int n_ranks, world_rank;

/* The ranks as a:2 b:rest c:1 when they are even in number, a:n c:1 b:1 when not. */
static pl_mesh mesh_of_all(void)
{
    pl_mesh mesh = {0};
    const int a = n_ranks % 2 == 0 ? 2 : n_ranks;

    ck_assert_int_eq(pl_mesh_add(&mesh, "a", a), PL_OK);
    ck_assert_int_eq(pl_mesh_add(&mesh, "b", n_ranks / a), PL_OK);
    ck_assert_int_eq(pl_mesh_add(&mesh, "c", 1), PL_OK);
    return mesh;
}

START_TEST(a_group_holds_the_ranks_that_differ_along_its_axes_in_mesh_order)
{
    const pl_mesh mesh = mesh_of_all();
    const pl_axes sets[] = {0, 1, 2, 3, 4, 5, 6, 7};
    pl_comms comms;
    int n_wrong = 0;

    pl_comms_create(MPI_COMM_WORLD, &mesh, sets, 8, &comms);
    for (int i = 0; i < 8; i++) {
        const pl_group *group = pl_comms_group(&comms, sets[i]);
        int *members = calloc((size_t)n_ranks, sizeof *members), size, rank;

        MPI_Comm_size(group->comm, &size);
        MPI_Comm_rank(group->comm, &rank);
        n_wrong += group->axes != sets[i] || size != group->size || rank != group->rank ||
                   size != pl_mesh_extent(&mesh, sets[i]);
        MPI_Allgather(&world_rank, 1, MPI_INT, members, 1, MPI_INT, group->comm);
        for (int p = 0; p < size; p++)
            n_wrong +=
                members[p] != pl_mesh_rank(&mesh, pl_mesh_member(&mesh, sets[i], comms.coords, p));
        free(members);
    }
    pl_comms_destroy(&comms);
    ck_all(MPI_COMM_WORLD, n_wrong == 0);
}
END_TEST

START_TEST(ranks_that_ask_for_different_sets_get_all_of_them)
{
    const pl_mesh mesh = mesh_of_all();
    const pl_axes mine[] = {world_rank % 2 ? 1 : 2, 4, 4}; /* with a duplicate */
    pl_comms comms;
    bool good;

    pl_comms_create(MPI_COMM_WORLD, &mesh, mine, world_rank == 0 ? 3 : 1, &comms);
    good = comms.n_groups == (n_ranks > 1 ? 3 : 2) && pl_comms_group(&comms, 2)->axes == 2 &&
           pl_comms_group(&comms, 4)->size == 1;
    if (n_ranks > 1)
        good = good && pl_comms_group(&comms, 1)->size == mesh.axes[0].size;
    pl_comms_destroy(&comms);
    ck_all(MPI_COMM_WORLD, good);
}
END_TEST

START_TEST(messages_on_a_group_are_not_seen_outside)
{
    const pl_mesh mesh = mesh_of_all();
    const pl_axes all = 7;
    const int right = (world_rank + 1) % n_ranks, left = (world_rank + n_ranks - 1) % n_ranks;
    const int outside = -1, inside = world_rank;
    int got_outside = 0, got_inside = 0;
    MPI_Request requests[4];
    pl_comms comms;

    pl_comms_create(MPI_COMM_WORLD, &mesh, &all, 1, &comms);
    MPI_Isend(&outside, 1, MPI_INT, right, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&inside, 1, MPI_INT, right, 5, pl_comms_group(&comms, all)->comm, &requests[1]);
    MPI_Irecv(&got_inside, 1, MPI_INT, left, 5, pl_comms_group(&comms, all)->comm, &requests[2]);
    MPI_Irecv(&got_outside, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    pl_comms_destroy(&comms);
    ck_all(MPI_COMM_WORLD, got_inside == left && got_outside == -1);
}
END_TEST

/* Called by MPI when a communicator that carries our attribute is freed. */
static int count_freed(MPI_Comm comm, int keyval, void *n_freed, void *extra)
{
    (void)comm, (void)keyval, (void)extra;
    ++*(int *)n_freed;
    return MPI_SUCCESS;
}

START_TEST(every_communicator_is_freed)
{
    const pl_mesh mesh = mesh_of_all();
    const pl_axes sets[] = {1, 2, 3};
    int keyval, n_freed = 0;
    pl_comms comms;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_freed, &keyval, NULL);
    pl_comms_create(MPI_COMM_WORLD, &mesh, sets, 3, &comms);
    MPI_Comm_set_attr(comms.world, keyval, &n_freed);
    for (int i = 0; i < 3; i++)
        MPI_Comm_set_attr(pl_comms_group(&comms, sets[i])->comm, keyval, &n_freed);
    pl_comms_destroy(&comms);
    MPI_Comm_free_keyval(&keyval);
    ck_all(MPI_COMM_WORLD, n_freed == 4);
}
END_TEST

START_TEST(the_topology_counts_hosts_ranks_and_cores_consistently)
{
    pl_topology t;
    int sum = 0, first = 0;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    /* each host's ranks counted once, by its rank 0 */
    const int mine = t.rank_on_host == 0 ? t.ranks_on_host : 0, is_first = t.rank_on_host == 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&is_first, &first, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    ck_all(MPI_COMM_WORLD, t.n_ranks == n_ranks && sum == n_ranks && first == t.n_hosts);
    ck_all(MPI_COMM_WORLD, t.host >= 0 && t.host < t.n_hosts && (world_rank > 0 || t.host == 0));
    ck_all(MPI_COMM_WORLD, t.cores_of_rank >= 1 && t.cores_on_host >= t.cores_of_rank);
    ck_all(MPI_COMM_WORLD, t.threads >= 1 && t.threads <= t.cores_of_rank);
    ck_all(MPI_COMM_WORLD, t.cpu[0] != '\0' && t.host_name[0] != '\0');
    ck_all(MPI_COMM_WORLD, t.l1_bytes >= 0 && t.l2_bytes >= 0 && t.l3_bytes >= 0);
    ck_all(MPI_COMM_WORLD, t.l3_cores >= 1);
}
END_TEST

START_TEST(ranks_are_oversubscribed_exactly_when_they_outnumber_the_cores)
{
    pl_topology t;
    int crowded, threads = 0;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    crowded = t.ranks_on_host > t.cores_on_host;
    MPI_Allreduce(MPI_IN_PLACE, &crowded, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    ck_all(MPI_COMM_WORLD, !crowded || t.oversubscribed);
    /* and when they are not, all their threads have cores */
    MPI_Allreduce(&t.threads, &threads, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    ck_all(MPI_COMM_WORLD, t.oversubscribed || t.n_hosts > 1 || threads <= t.cores_on_host);
}
END_TEST

/* Whether MPI_Comm_split_type() says that each rank is a host of its own. */
static bool a_host_each;

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *new_comm)
{
    int rank;

    if (!a_host_each)
        return PMPI_Comm_split_type(comm, type, key, info, new_comm);
    MPI_Comm_rank(comm, &rank);
    return MPI_Comm_split(comm, rank, key, new_comm);
}

START_TEST(hosts_on_one_machine_share_its_cores)
{
    pl_topology one, many;
    int n_sharing = 0;
    cpu_set_t mine, all[64];

    ck_all(MPI_COMM_WORLD, sched_getaffinity(0, sizeof mine, &mine) == 0);
    pl_topology_discover(MPI_COMM_WORLD, &one);
    a_host_each = true;
    pl_topology_discover(MPI_COMM_WORLD, &many);
    bool bound = pl_topology_spread(&many);
    a_host_each = false;
    ck_all(MPI_COMM_WORLD, many.n_hosts == n_ranks && many.ranks_on_host == 1);
    ck_all(MPI_COMM_WORLD, many.cores_of_rank == one.cores_of_rank && !many.oversubscribed);
    /* and stay where ranks of one host would */
    ck_all(MPI_COMM_WORLD,
           many.ranks_on_kernel == one.ranks_on_host && many.rank_on_kernel == one.rank_on_host);
    ck_all(MPI_COMM_WORLD, many.cores_on_kernel == one.cores_on_host);
    ck_all(MPI_COMM_WORLD, bound == pl_topology_spread(&one));
    ck_all(MPI_COMM_WORLD, sched_setaffinity(0, sizeof mine, &mine) == 0);
    MPI_Allgather(&mine, sizeof mine, MPI_CHAR, all, sizeof mine, MPI_CHAR, MPI_COMM_WORLD);
    for (int r = 0; r < n_ranks; r++) {
        cpu_set_t both;

        CPU_AND(&both, &mine, &all[r]);
        n_sharing += CPU_COUNT(&both) > 0;
    }
    /* equal where a core is one PU and no quota takes some away */
    const int least = many.cores_of_rank / n_sharing, most = CPU_COUNT(&mine) / n_sharing;
    ck_all(MPI_COMM_WORLD, many.threads >= (least < 1 ? 1 : least));
    ck_all(MPI_COMM_WORLD, many.threads <= (most < 1 ? 1 : most));
}
END_TEST

START_TEST(ranks_that_take_turns_are_spread_evenly_over_the_cores)
{
    const pl_mesh mesh = mesh_of_all();
    pl_topology before, after;
    char text[1024];
    int first, cpu[64] = {0}, n_alike = 0;
    cpu_set_t set;

    pl_topology_discover(MPI_COMM_WORLD, &before);
    int bound = pl_topology_spread(&before), n_bound = 0;
    pl_topology_discover(MPI_COMM_WORLD, &after);
    ck_all(MPI_COMM_WORLD, memcmp(&before, &after, sizeof before) == 0);
    MPI_Allreduce(&bound, &n_bound, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    ck_all(MPI_COMM_WORLD, n_bound == 0 || n_bound == n_ranks || before.n_hosts > 1);
    ck_all(MPI_COMM_WORLD, !bound || before.ranks_on_host % before.cores_on_host == 0);
    ck_all(MPI_COMM_WORLD, sched_getaffinity(0, sizeof set, &set) == 0);
    for (first = 0; first < CPU_SETSIZE && !CPU_ISSET(first, &set); first++)
        ;
    MPI_Allgather(&first, 1, MPI_INT, cpu, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < n_ranks; r++)
        n_alike += cpu[r] == first;
    if (n_bound == n_ranks && before.n_hosts == 1) {
        const int next = (world_rank + 1) % n_ranks;

        ck_all(MPI_COMM_WORLD, n_alike == n_ranks / before.cores_on_host);
        ck_all(MPI_COMM_WORLD, before.cores_on_host == 1 || cpu[next] != cpu[world_rank]);
        pl_topology_print(MPI_COMM_WORLD, &before, &mesh, text, sizeof text);
        ck_all(MPI_COMM_WORLD, strstr(text, "may run on 1 core, with 1 thread; ranks outn") != NULL);
    }
}
END_TEST

START_TEST(on_one_host_every_axis_stays_inside_it)
{
    const pl_mesh mesh = mesh_of_all();
    pl_topology t;
    char text[1024];
    bool inside = true;

    pl_topology_discover(MPI_COMM_WORLD, &t);
    for (int a = 0; a < mesh.n_axes; a++)
        inside = pl_topology_axis_inside_host(MPI_COMM_WORLD, &t, &mesh, a) && inside;
    ck_all(MPI_COMM_WORLD, t.n_hosts > 1 || inside);
    pl_topology_print(MPI_COMM_WORLD, &t, &mesh, text, sizeof text);
    ck_all(MPI_COMM_WORLD,
           strstr(text, "a:") != NULL && (t.n_hosts > 1 || strstr(text, "a,b,c") != NULL));
}
END_TEST

START_TEST(an_axis_whose_groups_span_hosts_is_not_inside)
{
    const pl_mesh mesh = mesh_of_all();
    pl_topology t;

    /* As if the ranks of each value of a were one host: b and c lie inside, a does not. */
    pl_topology_discover(MPI_COMM_WORLD, &t);
    t.n_hosts = mesh.axes[0].size;
    t.host = pl_mesh_coords(&mesh, world_rank).at[0];
    ck_all(MPI_COMM_WORLD,
           pl_topology_axis_inside_host(MPI_COMM_WORLD, &t, &mesh, 0) == (n_ranks == 1));
    ck_all(MPI_COMM_WORLD, pl_topology_axis_inside_host(MPI_COMM_WORLD, &t, &mesh, 1));
    ck_all(MPI_COMM_WORLD, pl_topology_axis_inside_host(MPI_COMM_WORLD, &t, &mesh, 2));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("comms");
    TCase *tc = tcase_create("comms");

    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    tcase_add_test(tc, a_group_holds_the_ranks_that_differ_along_its_axes_in_mesh_order);
    tcase_add_test(tc, ranks_that_ask_for_different_sets_get_all_of_them);
    tcase_add_test(tc, messages_on_a_group_are_not_seen_outside);
    tcase_add_test(tc, every_communicator_is_freed);
    tcase_add_test(tc, the_topology_counts_hosts_ranks_and_cores_consistently);
    tcase_add_test(tc, ranks_are_oversubscribed_exactly_when_they_outnumber_the_cores);
    tcase_add_test(tc, hosts_on_one_machine_share_its_cores);
    tcase_add_test(tc, ranks_that_take_turns_are_spread_evenly_over_the_cores);
    tcase_add_test(tc, on_one_host_every_axis_stays_inside_it);
    tcase_add_test(tc, an_axis_whose_groups_span_hosts_is_not_inside);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(int argc, char **argv)
{
    return ck_parallel_main(argc, argv, make_suite);
}
