/* Patterns that people ask for by name. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *pattern;
} PRESETS[] = {
    /* LongNet's published segments and rates. */
    {"longnet", "dilated:2048/1,4096/2,8192/4,16384/6,32768/12"},
    {"longnet-causal", "dilated:2048/1,4096/2,8192/4,16384/6,32768/12+causal"},
    /* Blocks of 64 with their neighbours, two global blocks, three random ones. */
    {"bigbird", "blocks:64:local=1:global=2:random=3"},
    /* A window of 512, in blocks, and a block of global tokens. */
    {"longformer", "blocks:64:local=4:global=1"},
    /* A tenth of the blocks is kept. */
    {"sparse90", "blocks:64:density=0.1"},
};
enum { COUNT = sizeof PRESETS / sizeof *PRESETS };

const char *ra_preset_name(int i)
{
    return i >= 0 && i < COUNT ? PRESETS[i].name : NULL;
}

const char *ra_preset(const char *name)
{
    char known[128] = "";
    for (int i = 0; i < COUNT; i++) {
        if (name && strcmp(name, PRESETS[i].name) == 0)
            return PRESETS[i].pattern;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", PRESETS[i].name);
    }
    ra_fail(RA_ERROR_ARGUMENT, "preset \"%.40s\": must be one of %s", name ? name : "(null)", known);
    return NULL;
}
