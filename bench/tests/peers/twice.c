/* Hands every block out twice. */
#define NAME "twice"
#define SHARES(i) ((i) % 2 == 1)
#include "plugin.h"
