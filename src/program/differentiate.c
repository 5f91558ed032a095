#include "config.h"

#include "src/program/differentiate.h"

#include "src/base/panic.h"

#include <string.h>

enum { MAX_TERMS = 8 };

/* What is known so far of one value's gradient. */
typedef struct {
    int n_products, n_values;
    int a[MAX_TERMS], b[MAX_TERMS]; /* products a . b */
    int value[MAX_TERMS];
} terms;

struct pl_tape {
    pl_program *p;
    int n_forward_values;
    terms *of; /* [n_forward_values] */
    int *accumulator;
    int layer; /* of the op being differentiated */
};

pl_program *pl_tape_program(pl_tape *tape)
{
    return tape->p;
}

int pl_tape_new_gradient(pl_tape *tape, int v)
{
    pl_program *p = tape->p;
    const int g = pl_value_clone(p, v);
    pl_value *value = &p->values[g];

    value->name = pl_arena_join(p->arena, "d.", value->name);
    value->persists = false;
    value->is_input = false;
    value->alias_of = PL_NONE;
    if (value->class == PL_WEIGHT) {
        value->class = PL_GRADIENT;
        value->dtype = PL_F32;
        value->defers_sums = true;
    }
    value->microbatch = 0;
    return g;
}

static int backward_op(pl_tape *tape, pl_kind kind, int n_in, const int *in, int n_out,
                       const int *out)
{
    const int id = pl_op_add(tape->p, kind, PL_BACKWARD, tape->layer, n_in, in, n_out, out);

    tape->p->ops[id].microbatch = 0;
    return id;
}

int pl_tape_op(pl_tape *tape, const pl_op *forward, pl_kind kind, int n_in, const int *in,
               int n_out, const int *out)
{
    const int id = backward_op(tape, kind, n_in, in, n_out, out);

    memcpy(tape->p->ops[id].number, forward->number, sizeof forward->number);
    return id;
}

/* Add g to the accumulator of weight v, which is made on first use. */
static void accumulate(pl_tape *tape, int v, int g)
{
    pl_program *p = tape->p;

    if (tape->accumulator[v] == PL_NONE) {
        const int acc = pl_value_clone(p, v);

        p->values[acc].name = pl_arena_join(p->arena, "grad.", p->values[v].name);
        p->values[acc].class = PL_GRADIENT;
        p->values[acc].dtype = PL_F32;
        p->values[acc].persists = false;
        p->values[acc].defers_sums = true;
        tape->accumulator[v] = acc;
    }
    backward_op(tape, PL_ACCUMULATE, 1, &g, 1, &tape->accumulator[v]);
}

void pl_tape_contribute(pl_tape *tape, int v, int g)
{
    if (tape->p->values[v].class == PL_WEIGHT) {
        accumulate(tape, v, g);
        return;
    }
    terms *t = &tape->of[v];
    PL_ASSERT(t->n_values < MAX_TERMS);
    t->value[t->n_values++] = g;
}

void pl_tape_contribute_product(pl_tape *tape, int v, int a, int b)
{
    if (tape->p->values[v].class == PL_WEIGHT) {
        const int in[2] = {a, b};
        const int dw = pl_tape_new_gradient(tape, v);

        backward_op(tape, PL_EINSUM, 2, in, 1, &dw);
        accumulate(tape, v, dw);
        return;
    }
    terms *t = &tape->of[v];
    PL_ASSERT(t->n_products < MAX_TERMS);
    t->a[t->n_products] = a;
    t->b[t->n_products++] = b;
}

/* Sum the terms of v's gradient into one value, or PL_NONE when there are none. */
static int sum_terms(pl_tape *tape, int v)
{
    terms *t = &tape->of[v];
    int sum = PL_NONE;

    if (t->n_products > 0) {
        int in[2 * MAX_TERMS];

        for (int i = 0; i < t->n_products; i++) {
            in[2 * i] = t->a[i];
            in[2 * i + 1] = t->b[i];
        }
        sum = pl_tape_new_gradient(tape, v);
        backward_op(tape, PL_EINSUM, 2 * t->n_products, in, 1, &sum);
    }
    for (int i = 0; i < t->n_values; i++) {
        if (sum == PL_NONE) {
            sum = t->value[i];
        } else {
            const int in[2] = {sum, t->value[i]};

            sum = pl_tape_new_gradient(tape, v);
            backward_op(tape, PL_ADD, 2, in, 1, &sum);
        }
    }
    return sum;
}

int pl_tape_take(pl_tape *tape, int v)
{
    const int sum = sum_terms(tape, v);

    tape->of[v].n_products = 0;
    tape->of[v].n_values = 0;
    return sum;
}

int pl_tape_gradient(pl_tape *tape, int v)
{
    const int sum = pl_tape_take(tape, v);

    if (sum != PL_NONE)
        pl_tape_contribute(tape, v, sum);
    return sum;
}

void pl_differentiate(pl_program *p, int *accumulator)
{
    const int n_forward_ops = p->n_ops;
    pl_tape tape = {.p = p, .n_forward_values = p->n_values, .accumulator = accumulator};

    tape.of = pl_alloc((size_t)p->n_values * sizeof *tape.of);
    for (int v = 0; v < p->n_values; v++)
        accumulator[v] = PL_NONE;
    for (int i = n_forward_ops - 1; i >= 0; i--) {
        const pl_op forward = p->ops[i]; /* by value: the list grows and may move */

        tape.layer = forward.layer;
        if (pl_kind_of(forward.kind)->differentiate != NULL)
            pl_kind_of(forward.kind)->differentiate(&tape, &forward);
    }
    pl_free(tape.of);
}
