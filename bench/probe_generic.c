#include <string.h>

#define PROBE_NAME probe_generic
#define PROBE_ID RA_KERNEL_GENERIC
#define WIDTH 4
#define VECTORS 2
typedef float vec __attribute__((vector_size(16)));
static inline vec p_load(const float *from)
{
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}
#define p_set(x) ((vec){x, x, x, x})
/* An empty statement that seems to change the sum keeps every product. */
#define p_fma(c, a, b)                                                                                                 \
    do {                                                                                                               \
        (c) += (a) * (b);                                                                                              \
        __asm__ volatile("" : "+x"(c));                                                                                \
    } while (0)

#include "probe_loops.h"
