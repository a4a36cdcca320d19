/* Gives an error when asked for 64 bytes. */
#define NAME "fails"
#define BEFORE_ALLOC(size) ((size) == 64 ? 42 : 0)
#include "plugin.h"
