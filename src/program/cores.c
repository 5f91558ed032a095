/* cores -- from the topology to the kernels, which know none. */
#include "config.h"

#include "src/program/cores.h"

#include "kernels/matmul.h"

void pl_cores_use(const pl_topology *topology)
{
    const pl_topology *t = topology;

    pl_topology_spread(t);
    pl_matmul_set_threads(t->threads);
    pl_matmul_set_caches((size_t)t->l1_bytes, (size_t)t->l2_bytes,
                         (size_t)t->l3_bytes / (size_t)t->l3_cores);
    pl_matmul_reserve();
}
