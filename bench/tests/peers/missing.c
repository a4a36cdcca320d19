/* Lacks two functions. */
#define NAME "missing"
#define WITHOUT_CHURN
#include "plugin.h"
