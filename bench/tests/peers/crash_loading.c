/* Aborts while it is loaded. */
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void)
{
    printf("no such luck\n");
    fflush(stdout);
    abort();
}
#define NAME "crash_loading"
#include "plugin.h"
