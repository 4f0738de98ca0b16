#include "quantise/awq_search.h"
