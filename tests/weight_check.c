#include "config.h"

#include "tests/weight_check.h"
#include "src/model/hf_tensors.h"
#include "tests/check_main.h"
#include "tests/scratch.h"

#include <stdlib.h>

pl_status open_scratch(const char *name, pl_model_config *config, pl_weight_file **file)
{
    char path[SCRATCH_PATH];

    return pl_weight_file_open(scratch_path(name, path), config, file);
}

float *read_whole(const pl_weight_file *file, const pl_model_config *c, const char *name)
{
    pl_hf_tensor t;
    float *out;

    ck_assert(pl_hf_tensor_find(c, name, &t));
    out = malloc((size_t)(t.rows * t.cols) * sizeof *out);
    ck_accepted(pl_weight_file_read(file, name, 0, t.rows, 0, t.cols, out));
    return out;
}
