/* plan formula -- any formula of the book that purlin knows, with its numbers. */
#include "config.h"

#include "src/plan/ask.h"
#include "src/plan/commands.h"

#include <stdio.h>

static const pl_ask_option options[] = {{0}};

static const pl_ask_command command = {
    .usage = "[FORMULA [NAME=NUMBER...]]",
    .about = "Answer a formula of the book, with the formula and the numbers put in; without a "
             "name, list all. Numbers that are not given come from --model and --hw.",
    .options = options,
    .most_words = 1,
};

static void list(bool json)
{
    json_t *root = json ? json_object() : NULL;

    for (int i = 0; pl_formula_at(i) != NULL; i++) {
        const pl_formula *f = pl_formula_at(i);

        if (json)
            json_object_set_new(root, f->name,
                                json_pack("{s:i, s:s, s:s, s:s, s:s}", "section", f->section,
                                          "what", f->what, "text", f->text, "inputs", f->inputs,
                                          "answers", f->outputs));
        else
            printf("%-20s section %2d  %s\n%32s%s\n%32sin:  %s\n%32sout: %s\n", f->name, f->section,
                   f->what, "", f->text, "", f->inputs, "", f->outputs);
    }
    pl_ask_print_json(root);
}

static pl_status refuse_name(const char *name)
{
    char known[2048];
    size_t n = 0;

    for (int i = 0; pl_formula_at(i) != NULL && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "",
                              pl_formula_at(i)->name);
    return pl_refuse(PL_BAD_INPUT, "there is no formula \"%s\"; there are: %s", name, known);
}

/* Numbers that this formula does not take are more likely mistakes than wishes. */
static pl_status check_given(const pl_ask *ask, const pl_formula *f)
{
    pl_quantity in[PL_FORMULA_MOST];
    const int n_in = pl_formula_inputs(f, in);

    for (int i = 0; i < ask->n; i++)
        if (pl_ask_is_given(ask, ask->known[i].name) &&
            !pl_quantity_set(in, n_in, ask->known[i].name, 0))
            return pl_refuse(PL_BAD_INPUT, "%s takes no %s; it takes: %s", f->name,
                             ask->known[i].name, f->inputs);
    return PL_OK;
}

pl_status pl_plan_formula(int argc, char **argv)
{
    pl_ask ask;
    pl_status status = pl_ask_parse(&command, argc, argv, &ask);

    if (status != PL_OK || ask.done)
        return status;
    if (ask.n_words == 0) {
        list(ask.json);
        return PL_OK;
    }
    if (pl_formula_find(ask.words[0]) == NULL)
        return refuse_name(ask.words[0]);
    status = check_given(&ask, pl_formula_find(ask.words[0]));
    if (status != PL_OK)
        return status;
    json_t *root = ask.json ? json_object() : NULL;
    status = pl_ask_answer(&ask, ask.words[0], true, root);
    if (status == PL_OK)
        pl_ask_print_json(root);
    else
        json_decref(root);
    return status;
}
