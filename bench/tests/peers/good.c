/* Does all that it should. */
#define NAME "good"
#include "plugin.h"
