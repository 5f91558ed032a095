/* onednn -- matrix products by oneDNN's C interface, loaded when asked for: dnnl_sgemm in f32, the
 * matmul primitive in bf16. What the configured headers do not describe is not computed. */
#ifndef PURLIN_KERNBENCH_ONEDNN_H
#define PURLIN_KERNBENCH_ONEDNN_H

#include "kernels/matmul.h"

#include <stddef.h>

/** The library, one thread, or NULL when it is not installed (dlerror() says why); its name and
 * version. Never unloaded. Local, as is all here. */
void *pl_onednn_open(char *version, size_t size);

typedef struct pl_onednn_call pl_onednn_call;

/** The product *p (borrowed) into c, of p's types; NULL when this oneDNN cannot. */
pl_onednn_call *pl_onednn_call_create(void *library, const pl_product *p, void *c);
void pl_onednn_call_destroy(pl_onednn_call *call); /* NULL is allowed */
void pl_onednn_call_run(pl_onednn_call *call);

#endif
