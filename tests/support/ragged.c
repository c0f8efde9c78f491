/* Made-up packed sequences. See ragged.h. */
#include "support/ragged.h"

#include <stdio.h>
#include <string.h>

/* Some of what is left, or nothing; all of it for the last. */
static int64_t choose_length(choices *c, int64_t left, bool last)
{
    return last ? left : chance(c, 4) ? 0 : choose(c, 0, chance(c, 2) ? left : left < 5 ? left : 5);
}

void append_packed(choices *c, int64_t q_len, int64_t kv_len, char *text, size_t size)
{
    int64_t count = choose(c, 1, 9);
    for (int64_t i = 0; i < count; i++) {
        int64_t queries = choose_length(c, q_len, i + 1 == count), keys = choose_length(c, kv_len, i + 1 == count);
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%lld/%lld", i ? "," : "documents:", (long long)queries, (long long)keys);
        q_len -= queries;
        kv_len -= keys;
    }
}

void choose_ragged(choices *c, ra_problem *p, char *text, size_t size)
{
    bool by_position = strstr(text, "dilated:") || strstr(text, "blocks:");
    if (p->query_position == RA_SAME && !by_position && chance(c, 3)) {
        strncat(text, "+", size - strlen(text) - 1);
        append_packed(c, p->q_len, p->kv_len, text, size);
    }
}
