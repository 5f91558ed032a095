/* status -- the one recorded message of this process. */
#include "config.h"

#include "src/base/status.h"

#include <stdarg.h>
#include <stdio.h>

/* The header's contract is one message a process, kept from the refusal to the agreement. */
static char message[2048];

pl_status pl_refuse(pl_status status, const char *format, ...)
{
    if (message[0] == '\0') {
        va_list args;

        va_start(args, format);
        vsnprintf(message, sizeof message, format, args);
        va_end(args);
    }
    return status;
}

const char *pl_status_message(void)
{
    return message;
}

void pl_status_clear(void)
{
    message[0] = '\0';
}
