#include "config.h"

#include "src/plan/here.h"

#include "src/base/json.h"
#include "src/base/panic.h"
#include "src/plan/ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH = 1024, NOT_STARTED = 127 };

void pl_here_option(pl_here *job, const char *flag, const char *value)
{
    if (value == NULL)
        return;
    PL_ASSERT(job->n_words + 2 <= PL_HERE_WORDS);
    job->words[job->n_words++] = flag;
    job->words[job->n_words++] = value;
}

/* train beside the running program, with the same prefix when installed (purlin-plan). */
static void find_train(char *path, size_t size)
{
    const ssize_t n = readlink("/proc/self/exe", path, size - 8);
    char *name, *plan;

    if (n < 0) {
        snprintf(path, size, "./train");
        return;
    }
    path[n] = '\0';
    name = strrchr(path, '/');
    name = name == NULL ? path : name + 1;
    plan = strstr(name, "plan");
    name = plan != NULL ? plan : name;
    snprintf(name, size - (size_t)(name - path), "train");
}

/* The child's side of start(): becomes mpirun, or ends. */
static void become(char *const *argv, bool silent)
{
    if (freopen("/dev/null", "r", stdin) == NULL ||
        (silent && freopen("/dev/null", "w", stdout) == NULL))
        _exit(NOT_STARTED);
    execvp(argv[0], argv);
    _exit(NOT_STARTED);
}

/* Run train and wait for it; its exit code. */
static int start(const pl_here *job, const char *train, const char *log)
{
    const char *mpirun = getenv("MPIRUN") != NULL ? getenv("MPIRUN") : "mpirun";
    const char *argv[PL_HERE_WORDS + 8];
    char np[24];
    int n = 0, status;

    snprintf(np, sizeof np, "%lld", (long long)job->n_ranks);
    argv[n++] = mpirun;
    argv[n++] = "-np";
    argv[n++] = np;
    argv[n++] = train;
    for (int i = 0; i < job->n_words; i++)
        argv[n++] = job->words[i];
    argv[n++] = "--log";
    argv[n++] = log;
    argv[n] = NULL;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        become((char *const *)(const void *)argv, job->json);
    if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status))
        return NOT_STARTED;
    return WEXITSTATUS(status);
}

/* What train logged as one object: its verdict, and the plans in a list. */
static json_t *object_of_log(const char *path)
{
    json_t *root = json_object(), *plans = json_array();
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "r");

    while (file != NULL && getline(&line, &room, file) >= 0) {
        json_t *record = json_loads(line, 0, NULL);
        const char *what = json_string_value(json_object_get(record, "record"));
        const bool is_plan = what != NULL && strcmp(what, "plan") == 0,
                   is_verdict = what != NULL && strcmp(what, "comparison") == 0;

        json_object_del(record, "record");
        if (is_plan)
            json_array_append(plans, record);
        if (is_verdict)
            json_object_update(root, record);
        json_decref(record);
    }
    free(line);
    if (file != NULL)
        fclose(file);
    json_object_set_new(root, "plans", plans);
    return root;
}

pl_status pl_here_run(const pl_here *job)
{
    char log[] = "/tmp/purlin-plan-XXXXXX", beside[PATH];
    const int file = mkstemp(log);

    if (file < 0)
        return pl_refuse(PL_ENVIRONMENT, "cannot make a file in /tmp: %s", strerror(errno));
    close(file);
    find_train(beside, sizeof beside);
    const char *train = job->train != NULL ? job->train : beside;
    const int code = start(job, train, log);
    if (code == PL_OK && job->json)
        pl_ask_print_json(object_of_log(log));
    unlink(log);
    if (code == NOT_STARTED)
        return pl_refuse(PL_ENVIRONMENT, "cannot start %s by %s (set MPIRUN)", train,
                         getenv("MPIRUN") != NULL ? getenv("MPIRUN") : "mpirun");
    return code <= PL_INTERNAL ? (pl_status)code : PL_INTERNAL;
}
