/* Sections 4, 6 and 8: how long training takes, what it costs, and what share of the peak it uses.
 */
#include "config.h"

#include "src/roofline/formula.h"

#include <math.h>

static void train_time(const double *in, double *out)
{
    const double params = in[0], tokens = in[1], batch = in[2], chips = in[3], C = in[4];
    const double mfu = in[5], price = in[6], T = in[8];
    const double per_token = pl_given(in[7], (6 + 2 * in[9]) * params), rate = chips * C * mfu;

    out[0] = per_token;
    out[1] = per_token * tokens;
    out[2] = per_token * batch;
    out[3] = rate;
    out[4] = out[1] / rate;
    out[5] = out[4] / 86400;
    out[6] = out[5] / 365;
    out[7] = out[2] / rate;
    out[8] = tokens / batch;
    out[9] = rate / per_token;
    out[10] = out[9] / chips;
    out[11] = out[4] / 3600 * chips * price;
    out[12] = batch / T;
    out[13] = batch / chips;
    out[14] = per_token / C;
    out[15] = ceil(out[1] / (C * mfu * 86400 * in[10]));
    out[16] = rate * 86400 * in[10] / per_token;
}

static void mfu(const double *in, double *out)
{
    const double params = in[0], tokens = in[1], chip_hours = in[2], C = in[3], rate = in[4];
    const double chips = in[5], per_token = pl_given(in[6], 6 * params), step_s = in[7];
    const double batch = in[8], whole_s = pl_given(step_s, in[10] * 86400);
    const double seconds = pl_given(chip_hours * 3600, whole_s * chips);
    const double done = pl_given(tokens, batch);

    out[0] = per_token;
    out[1] = seconds * C;
    out[2] = per_token * done;
    out[3] = pl_given(out[2] / out[1], rate * per_token / (chips * C));
    out[4] = pl_given(rate, done / seconds * chips) / chips;
    out[5] = out[4] * per_token;
    out[6] = out[3] * (3 + in[9]) / 3;
}

static void rescale_time(const double *in, double *out)
{
    out[0] = in[0] * in[1] / in[2];
    out[1] = out[0] / 365;
}

static void price(const double *in, double *out)
{
    const double C = in[0], usd = in[1], rate = in[2];

    out[0] = C * 3600 / usd;
    out[1] = usd / 3600 / rate * 1e6;
    out[2] = usd / 3600 / C;
}

static void batch(const double *in, double *out)
{
    const double seqs = in[0], T = in[1], devices = in[2], tokens = pl_given(in[3], seqs * T);

    out[0] = tokens;
    out[1] = tokens / T;
    out[2] = tokens / devices;
    out[3] = tokens / T / devices;
}

static void speedup(const double *in, double *out)
{
    out[0] = in[0] / in[1];
}

const pl_formula pl_formulas_training[] = {
    {"train_time", 6,
     "a training run of so many tokens at a share of the peak (mfu); target_days: what it may take",
     "T = 6 params tokens / (chips C mfu); 8 where the forward pass is done again once (mfu is "
     "then of all that is done); the least chips, or the most tokens, with T <= target",
     "params tokens batch_tokens chips=1 flops_per_s mfu=1 price_usd_per_hour "
     "train_flops_per_token T recomputed_passes=0 target_days",
     "train_flops_per_token total_flops step_flops rate_flops_per_s time_s days years step_s steps "
     "tokens_per_s tokens_per_s_per_chip cost_usd sequences tokens_per_chip chip_s_per_token "
     "target_chips target_tokens",
     train_time},
    {"mfu", 4,
     "share of the peak that a run used: from chip-hours, days, tokens/s, or a step's time",
     "mfu = 6 params tokens / (chip-seconds C); hardware's, with the forward pass done again so "
     "many "
     "times: x (3 + again)/3",
     "params tokens chip_hours flops_per_s tokens_per_s chips=1 train_flops_per_token step_s "
     "batch_tokens recomputed_passes=0 days",
     "train_flops_per_token available_flops used_flops mfu tokens_per_s_per_chip "
     "flops_per_s_per_chip hfu",
     mfu},
    {"rescale_time", 6, "the same run on other numbers of chips", "days x chips / new chips",
     "days chips new_chips", "days years", rescale_time},
    {"price", 8, "what a chip-hour buys",
     "FLOPs/$ = 3600 C / price; $/Mtoken = price / 3600 / rate x 1e6",
     "flops_per_s price_usd_per_hour tokens_per_s_per_chip",
     "flops_per_usd usd_per_million_tokens usd_per_flop", price},
    {"batch", 6, "tokens, sequences and devices",
     "tokens = sequences x T; a device: tokens / devices", "sequences T devices=1 B",
     "tokens sequences tokens_per_device sequences_per_device", batch},
    {"speedup", 9, "one time over another", "before / after", "before_s after_s", "speedup",
     speedup},
};
const int pl_n_formulas_training = sizeof pl_formulas_training / sizeof *pl_formulas_training;
