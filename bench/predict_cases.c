#include "config.h"

#include "bench/predict_cases.h"

#include "src/base/panic.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORDS = 8, WORD = 96 };

static const struct {
    const char *name;
    pl_model_config config; /* n_layers 0: a preset */
    int seq, batch_a_rank;
} models[N_MODELS] = {
    {"small", {.n_layers = 0}, 256, 4},
    {"wide",
     {.n_layers = 2,
      .d_model = 1024,
      .n_heads = 16,
      .n_kv_heads = 8,
      .head_dim = 64,
      .d_ff = 4096,
      .vocab = 256,
      .max_seq = 128,
      .rms_eps = 1e-5,
      .rope_theta = 10000},
     128,
     4},
    {"deep",
     {.n_layers = 16,
      .d_model = 256,
      .n_heads = 8,
      .n_kv_heads = 8,
      .head_dim = 32,
      .d_ff = 768,
      .vocab = 256,
      .max_seq = 256,
      .rms_eps = 1e-5,
      .rope_theta = 10000},
     256,
     4},
};

static const char *const strategies[N_STRATEGIES] = {"dp", "fsdp", "tp", "pp"};

const char *case_model(int i)
{
    return models[i / N_STRATEGIES].name;
}

const char *case_strategy(int i)
{
    return strategies[i % N_STRATEGIES];
}

bool case_choose(const char *name, bool chosen[N_CASES])
{
    bool any = false;

    for (int i = 0; i < N_CASES; i++) {
        char both[WORD];

        snprintf(both, sizeof both, "%s/%s", case_model(i), case_strategy(i));
        if (strcmp(name, both) == 0 || strcmp(name, case_model(i)) == 0 ||
            strcmp(name, case_strategy(i)) == 0)
            any = chosen[i] = true;
    }
    return any;
}

static void path_of(int model, const char *folder, char path[WORD])
{
    PL_ASSERT(snprintf(path, WORD, "%s/%s.json", folder, models[model].name) < WORD);
}

void cases_write(const char *folder)
{
    for (int m = 0; m < N_MODELS; m++) {
        char path[WORD];

        path_of(m, folder, path);
        if (models[m].config.n_layers > 0)
            PL_ASSERT(pl_model_config_write(path, &models[m].config) == PL_OK);
    }
}

void cases_remove(const char *folder)
{
    for (int m = 0; m < N_MODELS; m++) {
        char path[WORD];

        path_of(m, folder, path);
        if (models[m].config.n_layers > 0)
            remove(path);
    }
    rmdir(folder);
}

bool case_options(int i, const char *folder, int n_ranks, pl_options *options)
{
    static char words[MOST_WORDS][2 * WORD]; /* the options point into them */
    static char *argv[MOST_WORDS + 1];
    const int m = i / N_STRATEGIES, batch = models[m].batch_a_rank * n_ranks;
    const bool is_preset = models[m].config.n_layers == 0;
    pl_model_config config = models[m].config;
    char path[WORD];
    pl_spec spec;
    int argc = 0;

    if (is_preset)
        PL_ASSERT(pl_model_config_preset(models[m].name, &config) == PL_OK);
    path_of(m, folder, path);
    snprintf(words[argc++], sizeof *words, "predict_bench");
    snprintf(words[argc++], sizeof *words, "--strategy=%s:%d", case_strategy(i), n_ranks);
    PL_ASSERT(pl_spec_parse(words[1] + strlen("--strategy="), &spec) == PL_OK);
    if (pl_spec_check(&spec, &config, batch, n_ranks) != PL_OK) {
        pl_status_clear();
        return false;
    }
    snprintf(words[argc++], sizeof *words, "--model=%s", is_preset ? models[m].name : path);
    snprintf(words[argc++], sizeof *words, "--batch=%d", batch);
    snprintf(words[argc++], sizeof *words, "--seq=%d", models[m].seq);
    if (strcmp(case_strategy(i), "pp") == 0)
        snprintf(words[argc++], sizeof *words, "--micro-batch=%d", (batch + 3) / 4);
    for (int w = 0; w < argc; w++)
        argv[w] = words[w];
    argv[argc] = NULL;
    PL_ASSERT(pl_options_parse(argc, argv, options) == PL_OK);
    return true;
}
