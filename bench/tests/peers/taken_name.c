/* Calls itself what the benchmark's own allocator is called. */
#define NAME "scatterheap"
#include "plugin.h"
