/* Has a name that does not fit into a table. */
#define NAME "Bad, Name"
#include "plugin.h"
