/* options -- the command line of ./train. */
#ifndef PURLIN_TRAIN_OPTIONS_H
#define PURLIN_TRAIN_OPTIONS_H

#include "kernels/matmul.h"
#include "src/base/command.h"
#include "src/base/status.h"
#include "src/model/data.h"
#include "src/model/optimizer.h"
#include "strategies/pipeline.h"
#include "strategies/strategy.h"

enum { PL_COMPARE_ALL = 1 << 20, PL_COMPARE_STEPS = 1000 };

typedef struct {
    /* how */
    pl_spec spec; /* --strategy and --zero */
    pl_pipeline_kind pipeline;
    int64_t batch;       /* sequences a step, all ranks */
    int64_t micro_batch; /* sequences a microbatch and data-parallel rank; 0: chosen */
    pl_dtype dtype; /* of activations and working weights */
    pl_matmul_choice matmul;
    /* what */
    const char *model; /* preset, or path of a config.json; NULL: from --init, else small */
    const char *init;  /* llama2.c .bin or model.safetensors */
    const char *save;  /* directory */
    const char *data;  /* NULL: synthetic text */
    pl_order order;
    int tied;    /* -1: as the model says */
    int64_t seq; /* 0: the model's */
    int64_t steps;
    uint64_t seed;
    /* optimizer */
    pl_adamw_config adamw;
    double lr;
    bool lr_constant; /* else cosine */
    int64_t warmup;   /* -1: a tenth of the steps */
    double clip;
    /* evaluation */
    int64_t eval_every; /* 0: never */
    bool eval_only;
    /* what is printed and kept */
    const char *log, *trace, *machine;
    const char *algo; /* collectives by name: "all_reduce=ring"; NULL: all by price */
    bool explain; /* the book's inequalities */
    int64_t compare; /* plans to run in turn; 0: not asked for */
    bool measure; /* around where they change sides */
    const char *against; /* with measure: another strategy, or NULL */
    double within_s;     /* the most that measuring may take */
    bool print, print_all, dry_run, check, recalibrate;
    pl_command_asked asked;
    int argc;
    char **argv;
} pl_options;

/** Parse the command line. Every rank calls it alike; only rank 0 prints what argp has to say. */
pl_status pl_options_parse(int argc, char **argv, pl_options *options);

/** Learning rate of step `step` (from 0): linear warm-up, then constant or a cosine down to a
 * tenth. */
double pl_options_lr(const pl_options *options, int64_t step);

#endif
