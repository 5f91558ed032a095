/* plan search -- the best plans for a model on a machine. */
#include "config.h"

#include "src/base/memory.h"
#include "src/plan/ask.h"
#include "src/plan/commands.h"
#include "src/plan/curve.h"
#include "src/plan/show.h"

#include <stdio.h>

static pl_status answer(const pl_search_command *c, pl_search_result *r)
{
    static pl_plan_curve curve;
    double mfu;
    pl_status status = c->measured_step_s > 0 ? pl_measured_mfu(c, &mfu) : PL_OK;

    if (status == PL_OK)
        status = pl_search(&c->search, r);
    if (status != PL_OK)
        return status;
    json_t *root = c->json ? pl_plans_json(c, r) : NULL;
    if (!c->json)
        pl_show_plans(c, r);
    if (c->vary != PL_VARY_NOTHING) {
        pl_curve_of(c, &curve);
        if (c->json)
            json_object_set_new(root, c->vary == PL_VARY_CHIPS ? "vary_chips" : "vary_batch",
                                pl_curve_json(&curve));
        else
            pl_curve_print(&curve);
        if (c->plot != NULL)
            status = pl_curve_plot(c, &curve, c->plot);
    }
    pl_ask_print_json(root);
    return status;
}

pl_status pl_plan_search(int argc, char **argv)
{
    pl_search_command *c = pl_alloc(sizeof *c);
    pl_search_result *r = pl_alloc(sizeof *r);
    pl_status status = pl_search_options_parse(argc, argv, false, c);

    if (status == PL_OK && c->is_here)
        status = pl_here_run(&c->here);
    else if (status == PL_OK && !c->done)
        status = answer(c, r);
    pl_free(c);
    pl_free(r);
    return status;
}
