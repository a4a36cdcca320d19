/* Crashes when asked for 64 bytes. */
#include <stdint.h>
#include <stdio.h>
static int *volatile nowhere;
static int crash(uint32_t size)
{
    if (size == 64) {
        fprintf(stderr, "about to crash\n");
        *nowhere = 1;
    }
    return 0;
}
#define NAME "crash"
#define BEFORE_ALLOC(size) crash(size)
#include "plugin.h"
