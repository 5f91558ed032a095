/* weight_check -- what the suites of weight files share: the real files' numbers, and reading. */
#ifndef PURLIN_TESTS_WEIGHT_CHECK_H
#define PURLIN_TESTS_WEIGHT_CHECK_H

#include "src/model/weight_file.h"

/* Under PURLIN_TESTDATA. */
#define STORIES "weights/stories260K/stories260K.bin"
#define STORY_FOLDER "weights/story656K"
#define STORY STORY_FOLDER "/model.safetensors"

/** pl_weight_file_open() of a file in the scratch folder. */
pl_status open_scratch(const char *name, pl_model_config *config, pl_weight_file **file);

/** The whole of a tensor; free() it. Fails the test when it cannot be read. */
float *read_whole(const pl_weight_file *file, const pl_model_config *config, const char *name);

#endif
