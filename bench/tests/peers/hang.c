/* Sleeps for ever when asked for 64 bytes, and so does a process that it starts then. */
#include <stdint.h>
#include <unistd.h>
static void note_process(long id);
static int hang(uint32_t size)
{
    if (size == 64) {
        if (fork() == 0)
            note_process((long)getpid());
        for (;;)
            pause();
    }
    return 0;
}
#define NAME "hang"
#define BEFORE_ALLOC(size) hang(size)
#include "plugin.h"
