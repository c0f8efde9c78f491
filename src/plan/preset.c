/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns that people ask for by name, and the scores that go with them. Of models there are those whose texts hold no
 * setting of a single model; docs/MODELS.md has the others.
 */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *pattern, *scores; /* NULL: none */
} PRESETS[] = {
    /* LongNet's published segments and rates. */
    {"longnet", "dilated:2048/1,4096/2,8192/4,16384/6,32768/12", NULL},
    {"longnet-causal", "dilated:2048/1,4096/2,8192/4,16384/6,32768/12+causal", NULL},
    /* Blocks of 64 with their neighbours, two global blocks, three random ones. */
    {"bigbird", "blocks:64:local=1:global=2:random=3", NULL},
    /* A window of 512, in blocks, and a block of global tokens. */
    {"longformer", "blocks:64:local=4:global=1", NULL},
    /* A tenth of the blocks is kept. */
    {"sparse90", "blocks:64:density=0.1", NULL},
    /* Models. Where layers differ, NAME-local is a layer that sees its surroundings only; the others see all before. */
    {"bert", "full", NULL},
    {"vit", "full", NULL},
    {"modernbert-local", "window:64,64", NULL},
    {"llama", "causal", NULL},
    {"llama4-local", "causal+chunks:8192", NULL},
    {"mixtral", "causal", NULL},
    {"qwen3", "causal", NULL},
    {"gemma", "causal", NULL},
    {"gemma2", "causal", "softcap:50"},
    {"gemma2-local", "window:4095,0", "softcap:50"},
    {"gpt-oss-local", "window:127,0", NULL},
    {"bloom", "causal", "alibi"},
    {"mpt", "causal", "alibi"},
};
enum { COUNT = sizeof PRESETS / sizeof *PRESETS };

const char *ra_preset_name(int i)
{
    return i >= 0 && i < COUNT ? PRESETS[i].name : NULL;
}

/* The place of a name in the table; -1: it is not there. */
static int find(const char *name)
{
    for (int i = 0; name && i < COUNT; i++) {
        if (strcmp(name, PRESETS[i].name) == 0)
            return i;
    }
    return -1;
}

const char *ra_preset(const char *name)
{
    int found = find(name);
    if (found >= 0)
        return PRESETS[found].pattern;
    char known[256] = "";
    for (int i = 0; i < COUNT; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", PRESETS[i].name);
    }
    ra_fail(RA_ERROR_ARGUMENT, "preset \"%.40s\": must be one of %s", name ? name : "(null)", known);
    return NULL;
}

const char *ra_preset_scores(const char *name)
{
    int found = find(name);
    return found >= 0 ? PRESETS[found].scores : NULL;
}
