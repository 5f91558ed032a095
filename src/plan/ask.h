/* ask -- what the commands of ./plan that answer single questions share: a model, a machine, number
 * formats, numbers by name, and formulas answered from them on the screen or as JSON. Local. */
#ifndef PURLIN_PLAN_ASK_H
#define PURLIN_PLAN_ASK_H

#include "src/base/json.h"
#include "src/machine/hardware.h"
#include "src/model/architecture.h"
#include "src/roofline/formula.h"

/* A long option that is another name of a quantity: --seq 8192 is T=8192. */
typedef struct {
    const char *flag, *quantity, *what;
} pl_ask_option;

typedef struct {
    const char *usage;            /* "[NAME=NUMBER...]" */
    const char *about;            /* for --help; after \v what the formulas say is added */
    const pl_ask_option *options; /* ended by a NULL flag */
    const char *const *formulas;  /* ended by NULL: whose inputs NAME=NUMBER may give; NULL: all */
    int most_words;               /* other arguments */
} pl_ask_command;

enum { PL_ASK_MOST = 192, PL_ASK_WORDS = 4 };

typedef struct {
    bool done; /* --help or --version was answered */
    bool json;
    bool has_model, has_hw, has_dtype, has_kv_dtype;
    pl_architecture model;
    pl_hardware hw;
    pl_peak peak;                     /* the format of products */
    double weight_bytes, kv_bytes;    /* of an element; of the format of products where not given */
    const char *model_name, *hw_name; /* as typed; NULL: none */
    int n_words;
    const char *words[PL_ASK_WORDS];
    /* What is known, the first of a name counts: given, of the machine, of the model. */
    int n;
    pl_quantity known[PL_ASK_MOST];
    const char *source[PL_ASK_MOST];
} pl_ask;

/** Parse the command's options, find model and machine. Refuses an unknown model, machine, format
 * or quantity with those that there are. */
pl_status pl_ask_parse(const pl_ask_command *command, int argc, char **argv, pl_ask *ask);

/** The number known by that name; NaN if none is. */
double pl_ask_get(const pl_ask *ask, const char *name);
/** Where it comes from: "given", a machine's or a model's name; NULL if it is not known. */
const char *pl_ask_source(const pl_ask *ask, const char *name);
/** Whether the command line gave it. */
bool pl_ask_is_given(const pl_ask *ask, const char *name);
/** Let `name` be known as `value`, before all others. */
void pl_ask_know(pl_ask *ask, const char *name, double value, const char *source);

/** Answer a formula from what is known: printed with its text and the numbers put in, or, with
 * --json, added to `root` under the formula's name (or into `root` itself when `alone`). Refuses
 * when nothing can be answered, with the inputs that are missing. */
pl_status pl_ask_answer(const pl_ask *ask, const char *formula, bool alone, json_t *root);

/** Print a JSON object on one line and release it; NULL prints nothing. */
void pl_ask_print_json(json_t *root);

/** A number as people read it, its unit taken from the end of its name: ("step_s", 0.01) gives
 * "10.0 ms". */
const char *pl_ask_text(const char *name, double value, char text[48]);

#endif
