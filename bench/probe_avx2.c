#include <immintrin.h>

#define PROBE_NAME probe_avx2
#define PROBE_ID RA_KERNEL_AVX2
#define WIDTH 8
#define VECTORS 3
typedef __m256 vec;
#define p_load _mm256_loadu_ps
#define p_set _mm256_set1_ps
#define p_fma(c, a, b) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b))

#include "probe_loops.h"
