#include <immintrin.h>

#define PROBE_NAME probe_avx512
#define PROBE_ID RA_KERNEL_AVX512
#define WIDTH 16
#define VECTORS 4
typedef __m512 vec;
#define p_load _mm512_loadu_ps
#define p_set _mm512_set1_ps
#define p_fma(c, a, b) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b))

#include "probe_loops.h"
