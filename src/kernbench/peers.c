#include "config.h"

#include "src/kernbench/peers.h"

#include "kernels/matmul_openblas.h"
#include "src/base/bf16.h"
#include "src/base/memory.h"
#include "src/kernbench/onednn.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* The BLAS of BLIS, column-major. */
typedef void sgemm(const char *trans_a, const char *trans_b, const int *m, const int *n,
                   const int *k, const float *alpha, const float *a, const int *lda, const float *b,
                   const int *ldb, const float *beta, float *c, const int *ldc);

struct pl_peer_call {
    pl_peer peer;
    const pl_product *p;
    const void *a, *b;
    void *c;
    pl_array result;
    float *a_f32, *b_f32; /* of a bf16 case, for a peer without bf16 */
    sgemm *blis;
    pl_onednn_call *onednn;
};

const char *pl_peer_name(pl_peer peer)
{
    static const char *const names[PL_N_PEERS] = {"openblas", "onednn", "blis"};

    return names[peer];
}

static pl_status refuse_missing(pl_peer peer, const char *package)
{
    return pl_refuse(PL_BAD_INPUT,
                     "--vs: %s is not here (%s); install the Debian package %s, or leave it out",
                     pl_peer_name(peer), dlerror(), package);
}

static pl_status open_blis(pl_peers *peers)
{
    peers->blis = dlopen("libblis.so.4", RTLD_NOW | RTLD_LOCAL);
    if (peers->blis == NULL)
        return refuse_missing(PL_PEER_BLIS, "libblis4");
    const char *(*version)(void) =
        (const char *(*)(void))dlsym(peers->blis, "bli_info_get_version_str");
    void (*set_threads)(int64_t) =
        (void (*)(int64_t))dlsym(peers->blis, "bli_thread_set_num_threads");

    if (dlsym(peers->blis, "sgemm_") == NULL)
        return refuse_missing(PL_PEER_BLIS, "libblis4");
    if (set_threads != NULL)
        set_threads(1);
    snprintf(peers->version[PL_PEER_BLIS], sizeof peers->version[0], "BLIS %s",
             version != NULL ? version() : "of unknown version");
    return PL_OK;
}

pl_status pl_peers_open(const bool asked[PL_N_PEERS], pl_peers *peers)
{
    pl_status status = PL_OK;

    *peers = (pl_peers){.onednn = NULL};
    memcpy(peers->asked, asked, sizeof peers->asked);
    if (asked[PL_PEER_OPENBLAS])
        snprintf(peers->version[PL_PEER_OPENBLAS], sizeof peers->version[0], "%s",
                 pl_matmul_openblas_name());
    if (asked[PL_PEER_ONEDNN]) {
        peers->onednn = pl_onednn_open(peers->version[PL_PEER_ONEDNN], sizeof peers->version[0]);
        if (peers->onednn == NULL)
            status = refuse_missing(PL_PEER_ONEDNN, "libdnnl2");
    }
    if (status == PL_OK && asked[PL_PEER_BLIS])
        status = open_blis(peers);
    return status;
}

void pl_peers_close(pl_peers *peers)
{
    /* The libraries stay: their threads and caches do not like to be unloaded. */
    *peers = (pl_peers){.onednn = NULL};
}

static float *in_f32(const pl_array *array)
{
    float *x = pl_alloc((size_t)array->n * sizeof *x);

    for (int64_t i = 0; i < array->n; i++)
        x[i] = (float)pl_array_element(array, i);
    return x;
}

/* Operands and c in f32, whatever the case's are. */
static void take_f32(pl_peer_call *call, const pl_case *c)
{
    if (c->dtype == PL_BF16) {
        call->a = call->a_f32 = in_f32(&c->in[0]);
        call->b = call->b_f32 = in_f32(&c->in[1]);
    }
    call->result.dtype = PL_F32;
}

pl_peer_call *pl_peer_call_create(const pl_peers *peers, pl_peer peer, const pl_case *c)
{
    if (!c->is_product)
        return NULL;
    pl_peer_call *call = pl_alloc(sizeof *call);

    *call = (pl_peer_call){.peer = peer,
                           .p = &c->product,
                           .a = c->in[0].data,
                           .b = c->in[1].data,
                           .result = c->out[0]};
    if (peer != PL_PEER_ONEDNN)
        take_f32(call, c);
    call->c = pl_alloc((size_t)call->result.n * pl_dtype_bytes(call->result.dtype));
    call->result.data = call->c;
    if (peer == PL_PEER_BLIS)
        call->blis = (sgemm *)dlsym(peers->blis, "sgemm_");
    if (peer == PL_PEER_ONEDNN) {
        call->onednn = pl_onednn_call_create(peers->onednn, call->p, call->c);
        if (call->onednn == NULL) {
            pl_peer_call_destroy(call);
            return NULL;
        }
    }
    return call;
}

void pl_peer_call_destroy(pl_peer_call *call)
{
    if (call == NULL)
        return;
    pl_onednn_call_destroy(call->onednn);
    pl_free(call->a_f32);
    pl_free(call->b_f32);
    pl_free(call->c);
    pl_free(call);
}

/* c^T = op(b)^T . op(a)^T in the order of columns. */
static void run_blis(const pl_peer_call *call)
{
    const pl_product *p = call->p;
    const int m = (int)p->N, n = (int)p->M, k = (int)p->K;
    const int lda = (int)p->lda, ldb = (int)p->ldb, ldc = (int)p->ldc;
    const float one = 1, zero = 0;

    call->blis(p->trans_b == PL_TRANS ? "T" : "N", p->trans_a == PL_TRANS ? "T" : "N", &m, &n, &k,
               &one, call->b, &ldb, call->a, &lda, &zero, call->c, &ldc);
}

void pl_peer_call_run(pl_peer_call *call)
{
    const pl_product *p = call->p;

    switch (call->peer) {
    case PL_PEER_OPENBLAS:
        pl_matmul_openblas(p->trans_a, p->trans_b, p->M, p->N, p->K, call->a, p->lda, call->b,
                           p->ldb, false, call->c, p->ldc, NULL);
        break;
    case PL_PEER_ONEDNN:
        pl_onednn_call_run(call->onednn);
        break;
    default:
        run_blis(call);
        break;
    }
}

pl_array pl_peer_call_result(const pl_peer_call *call)
{
    return call->result;
}
