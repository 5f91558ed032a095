/* span -- a fixed buffer; what does not fit is counted. */
#include "config.h"

#include "src/base/span.h"
#include "src/base/memory.h"

void pl_span_buffer_init(pl_span_buffer *buffer, int64_t n_max)
{
    *buffer = (pl_span_buffer){.n_max = n_max};
    if (n_max > 0)
        buffer->spans = pl_alloc((size_t)n_max * sizeof *buffer->spans);
}

void pl_span_buffer_free(pl_span_buffer *buffer)
{
    pl_free(buffer->spans);
    *buffer = (pl_span_buffer){0};
}

void pl_span_add(pl_span_buffer *buffer, pl_track track, int32_t what, int16_t detail,
                 double begin_s, double end_s)
{
    if (buffer->n_max == 0)
        return;
    if (buffer->n_spans == buffer->n_max) {
        buffer->n_dropped++;
        return;
    }
    buffer->spans[buffer->n_spans++] = (pl_span){.begin_s = begin_s,
                                                 .end_s = end_s,
                                                 .what = what,
                                                 .track = (int16_t)track,
                                                 .detail = detail};
}
