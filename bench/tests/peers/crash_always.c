/* Exits whenever asked for anything. */
#include <stdlib.h>
#define NAME "crash_always"
#define BEFORE_ALLOC(size) (_Exit(7), 0)
#include "plugin.h"
