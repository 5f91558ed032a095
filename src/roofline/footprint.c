#include "config.h"

#include "src/roofline/footprint.h"

#include <math.h>
#include <string.h>

/* Parameters inside the layers, and those of the larger end: embedding, or head. */
static void split_params(const pl_architecture *a, double *layers, double *end)
{
    pl_part parts[PL_MAX_PARTS];
    const int n = pl_architecture_parts(a, parts);
    double embedding = 0, head = 0;

    *layers = 0;
    for (int i = 0; i < n; i++) {
        const pl_part *p = &parts[i];
        const double elements = (double)(p->rows * p->cols * p->n_layers * p->n_each);

        if (p->group == PL_PART_EMBEDDING)
            embedding += elements;
        else if (p->group == PL_PART_HEAD)
            head += elements; /* a tied head has a copy where its stage is another */
        else
            *layers += elements;
    }
    *end = fmax(embedding, head);
}

pl_footprint pl_footprint_of(const pl_architecture *a, const pl_layout *l)
{
    const double L = (double)a->n_layers, stage_layers = ceil(L / l->pp);
    const double split = l->fsdp * (l->zero >= 3 ? l->dp : 1), dp = l->dp;
    double in_layers, end;
    pl_footprint f;

    split_params(a, &in_layers, &end);
    const double ends = l->pp > 1 ? end : (double)pl_architecture_params(a).total - in_layers;
    const double params = (in_layers / L * stage_layers + ends) / l->tp;
    f.weights_bytes = l->weight_bytes * params / split;
    f.gradients_bytes = l->gradient_bytes * params / l->fsdp / (l->zero >= 2 ? dp : 1);
    f.moments_bytes = l->moment_bytes * params / l->fsdp / (l->zero >= 1 ? dp : 1);
    f.gathered_bytes = split > 1 ? 2 * l->weight_bytes * in_layers / L / l->tp : 0;

    const double tokens = l->sequences * l->seq / (l->dp * l->fsdp);
    const double kept = pl_architecture_kept_elements(a, l->keep) / l->tp;
    const double all = pl_architecture_kept_elements(a, PL_KEEP_ALL) / l->tp;
    const double in_flight = fmin(l->microbatches, l->pp);

    f.activations_bytes = l->activation_bytes * tokens * kept * stage_layers * in_flight;
    f.working_bytes =
        l->activation_bytes * tokens *
        (pl_architecture_kept_by_loss(a) / l->tp + (l->keep == PL_KEEP_ALL ? 0 : all - kept));
    f.total_bytes = f.weights_bytes + f.gradients_bytes + f.moments_bytes + f.gathered_bytes +
                    f.activations_bytes + f.working_bytes;
    return f;
}
