/* SPDX-License-Identifier: Apache-2.0 */
// The C program is C++ too: what is tested is that the header's names link.
#include "consumer.c"
