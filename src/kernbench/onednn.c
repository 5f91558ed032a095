#include "config.h"

#include "src/kernbench/onednn.h"

#include "src/base/memory.h"
#include "src/base/panic.h"

#include <dlfcn.h>
#include <stdio.h>

#ifdef HAVE_DNNL_H
#include <dnnl.h>
#if DNNL_VERSION_MAJOR == 2
#define HAVE_PRIMITIVE 1 /* version 3 has another interface */
#endif
#endif

typedef struct {
    int major, minor, patch; /* the first members of dnnl_version_t, in versions 1 to 3 */
} version_head;

typedef int sgemm(char trans_a, char trans_b, int64_t M, int64_t N, int64_t K, float alpha,
                  const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                  int64_t ldc);

struct pl_onednn_call {
    const pl_product *p;
    void *c, *library;
    sgemm *sgemm; /* f32 */
#ifdef HAVE_PRIMITIVE
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[3];
    __typeof__(dnnl_primitive_execute) *execute;
    __typeof__(dnnl_stream_wait) *wait;
#endif
};

void *pl_onednn_open(char *version, size_t size)
{
    void *library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL)
        library = dlopen("libdnnl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || dlsym(library, "dnnl_sgemm") == NULL)
        return NULL;
    const version_head *(*version_of)(void) =
        (const version_head *(*)(void))dlsym(library, "dnnl_version");
    const version_head *v = version_of != NULL ? version_of() : NULL;

    snprintf(version, size, "oneDNN %d.%d.%d", v ? v->major : 0, v ? v->minor : 0,
             v ? v->patch : 0);
    return library;
}

#ifdef HAVE_PRIMITIVE
#define FIND(call, name) ((__typeof__(name) *)dlsym((call)->library, #name))

/* rows x cols, as stored [rows, cols] or, transposed, [cols, rows]. */
static bool describe(const pl_onednn_call *call, int64_t rows, int64_t cols, bool transposed,
                     int64_t ld, pl_dtype dtype, dnnl_memory_desc_t *d)
{
    const dnnl_dims_t dims = {rows, cols}, strides = {transposed ? 1 : ld, transposed ? ld : 1};

    return FIND(call, dnnl_memory_desc_init_by_strides)(
               d, 2, dims, dtype == PL_BF16 ? dnnl_bf16 : dnnl_f32, strides) == dnnl_success;
}

static bool bind(pl_onednn_call *call, int i, int arg, const dnnl_memory_desc_t *d,
                 const void *data)
{
    call->args[i].arg = arg;
    return FIND(call, dnnl_memory_create)(&call->args[i].memory, d, call->engine, (void *)data) ==
           dnnl_success;
}

static bool prepare_primitive(pl_onednn_call *call)
{
    const pl_product *p = call->p;
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t described = NULL;

    call->execute = FIND(call, dnnl_primitive_execute);
    call->wait = FIND(call, dnnl_stream_wait);
    bool good =
        FIND(call, dnnl_engine_create)(&call->engine, dnnl_cpu, 0) == dnnl_success &&
        FIND(call, dnnl_stream_create)(&call->stream, call->engine, dnnl_stream_default_flags) ==
            dnnl_success &&
        describe(call, p->M, p->K, p->trans_a == PL_TRANS, p->lda, p->dtype, &a) &&
        describe(call, p->K, p->N, p->trans_b == PL_TRANS, p->ldb, p->dtype, &b) &&
        describe(call, p->M, p->N, false, p->ldc, p->c_dtype, &c) &&
        FIND(call, dnnl_matmul_desc_init)(&desc, &a, &b, NULL, &c) == dnnl_success &&
        FIND(call, dnnl_primitive_desc_create)(&described, &desc, NULL, call->engine, NULL) ==
            dnnl_success &&
        FIND(call, dnnl_primitive_create)(&call->primitive, described) == dnnl_success &&
        bind(call, 0, DNNL_ARG_SRC, &a, p->a) && bind(call, 1, DNNL_ARG_WEIGHTS, &b, p->b) &&
        bind(call, 2, DNNL_ARG_DST, &c, call->c);

    if (described != NULL)
        FIND(call, dnnl_primitive_desc_destroy)(described);
    return good;
}

static void destroy_primitive(pl_onednn_call *call)
{
    for (int i = 0; i < 3; i++)
        if (call->args[i].memory != NULL)
            FIND(call, dnnl_memory_destroy)(call->args[i].memory);
    if (call->primitive != NULL)
        FIND(call, dnnl_primitive_destroy)(call->primitive);
    if (call->stream != NULL)
        FIND(call, dnnl_stream_destroy)(call->stream);
    if (call->engine != NULL)
        FIND(call, dnnl_engine_destroy)(call->engine);
}

static void run_primitive(pl_onednn_call *call)
{
    if (call->execute(call->primitive, call->stream, 3, call->args) != dnnl_success ||
        call->wait(call->stream) != dnnl_success)
        PL_PANIC("oneDNN fails");
}
#else
static bool prepare_primitive(pl_onednn_call *call)
{
    (void)call;
    return false;
}

static void destroy_primitive(pl_onednn_call *call)
{
    (void)call;
}

static void run_primitive(pl_onednn_call *call)
{
    (void)call;
}
#endif

pl_onednn_call *pl_onednn_call_create(void *library, const pl_product *p, void *c)
{
    pl_onednn_call *call = pl_alloc(sizeof *call);

    *call = (pl_onednn_call){.p = p, .c = c, .library = library};
    if (p->dtype == PL_F32)
        call->sgemm = (sgemm *)dlsym(library, "dnnl_sgemm");
    else if (!prepare_primitive(call)) {
        pl_onednn_call_destroy(call);
        return NULL;
    }
    return call;
}

void pl_onednn_call_destroy(pl_onednn_call *call)
{
    if (call == NULL)
        return;
    destroy_primitive(call);
    pl_free(call);
}

void pl_onednn_call_run(pl_onednn_call *call)
{
    const pl_product *p = call->p;

    if (call->sgemm == NULL)
        run_primitive(call);
    else if (call->sgemm(p->trans_a == PL_TRANS ? 'T' : 'N', p->trans_b == PL_TRANS ? 'T' : 'N',
                         p->M, p->N, p->K, 1, p->a, p->lda, p->b, p->ldb, 0, call->c, p->ldc) != 0)
        PL_PANIC("oneDNN fails");
}
