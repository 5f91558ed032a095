/* sanitizers -- what the sanitizer build must know about MPI (see configure --enable-sanitizers).
 *
 * MPI keeps memory until the process ends. It is told from ours by the library that allocated it,
 * so plugins are not unloaded: a plugin that is gone when leaks are looked for has no name any
 * more. */
#include "config.h"

const char *__asan_default_options(void);
const char *__lsan_default_suppressions(void);
int dlclose(void *handle);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:print_suppressions=0";
}

const char *__lsan_default_suppressions(void)
{
    return "leak:libmpi\n"
           "leak:libopen-\n"
           "leak:libpmix\n"
           "leak:libevent\n"
           "leak:libhwloc\n"
           "leak:libltdl\n"
           "leak:libfabric\n"
           "leak:libuc\n"
           "leak:mca_\n"
           /* MPI's texts; the stack above is not walked rightly. Ours come from pl_arena_printf. */
           "leak:vasprintf_internal\n";
}

int dlclose(void *handle)
{
    (void)handle;
    return 0;
}
