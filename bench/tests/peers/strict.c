/* Refuses to be reset while blocks are allocated. */
#define NAME "strict"
#define MAY_RESET (used == 0)
#include "plugin.h"
