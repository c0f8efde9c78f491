/* SPDX-License-Identifier: Apache-2.0 */
/* The values that an option's text is chosen from. See arg_table.h. */
#include "arg_table.h"

const char *const ARG_DTYPES[] = {"float32", "float16", "bfloat16", "f32", "f16", "bf16", NULL};

const char *const *arg_choices(const arg_option *option)
{
    return option->kind == ARG_CHOICE ? option->choices : option->kind == ARG_DTYPE ? ARG_DTYPES : NULL;
}
