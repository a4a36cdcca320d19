/* Prints whatever could be mistaken for messages, and a lot of it, and reads its standard input. */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
static int print(uint32_t size)
{
    for (int line = 0; line < 2000; line++)
        printf("{\"Refused\":\"%u\"}\n\"Done\"\n\377%cgarbage", size, 0);
    fflush(stdout);
    return getchar() == EOF && write(STDOUT_FILENO, "\"Done\"\n", 7) == 7 ? 0 : 5;
}
__attribute__((constructor)) static void loaded(void)
{
    print(0);
}
#define NAME "noisy"
#define BEFORE_ALLOC(size) print(size)
#include "plugin.h"
