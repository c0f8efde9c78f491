/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options --pattern and --preset as one pattern text, positions and scores. The library parses the texts. See
 * pattern_args.h.
 */
#include "pattern_args.h"

#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pattern_args_options(pattern_args *args, arg_option options[PATTERN_OPTIONS])
{
    *args = (pattern_args){.query_position = RA_SAME};
    const arg_option table[PATTERN_OPTIONS] = {
        {.name = "pattern",
         .kind = ARG_TEXT,
         .metavar = "P",
         .target = &args->pattern,
         .help = "which keys a query sees (default full); terms joined with '+' all apply:\n"
                 "full, causal[:prefix=N], window:LEFT,RIGHT, chunks:SIZE, documents:LEN,LEN,...,\n"
                 "documents:Q/K,Q/K,..., documents:@FILE.npy, lengths:@FILE.npy, mask:@FILE.npy,\n"
                 "dilated:W/R,W/R,...[:mode=paper|union|grouped|torchscale],\n"
                 "blocks:SIZE[:local=N][:global=N][:stride=N][:random=N][:seed=S]\n"
                 "[:density=F][:mask=@FILE.npy]"},
        {.name = "preset",
         .kind = ARG_TEXT,
         .metavar = "NAME",
         .target = &args->preset,
         .help = "a pattern by its name: longnet, longnet-causal, bigbird, longformer, sparse90, or a\n"
                 "model's pattern and scores: bert, vit, modernbert-local, llama, llama4-local,\n"
                 "mixtral, qwen3, gemma, gemma2, gemma2-local, gpt-oss-local, bloom, mpt;\n"
                 "--pattern and --scores are added to it"},
        {.name = "query-position",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .target = &args->query_position,
         .min = 0,
         .max = INT64_MAX,
         .help = "position of the first query (default: such that the last query sits at the last key)"},
        {.name = "key-position",
         .kind = ARG_INTEGER,
         .metavar = "N",
         .target = &args->key_position,
         .min = 0,
         .max = INT64_MAX,
         .help = "position of the first key (default 0)"},
        {.name = "scores",
         .kind = ARG_TEXT,
         .metavar = "S",
         .target = &args->scores,
         .help = "what changes a score before keys are hidden (default nothing); terms joined with '+'\n"
                 "apply from left to right: softcap:C, alibi[:@FILE.npy], relative:@FILE.npy,\n"
                 "bias:@FILE.npy; per row: sinks:@FILE.npy, dropout:P[:seed=S]"},
    };
    memcpy(options, table, sizeof table);
}

/* "named+given", or the one that there is; *joined is then the caller's. NULL, reported: out of memory. */
static const char *join(const char *named, const char *given, char **joined)
{
    if (!named || !given)
        return named ? named : given;
    size_t size = strlen(named) + strlen(given) + 2;
    *joined = malloc(size);
    if (*joined)
        snprintf(*joined, size, "%s+%s", named, given);
    else
        report(EXIT_USAGE, "out of memory: a text of %zu characters", size);
    return *joined;
}

const char *pattern_args_text(pattern_args *args)
{
    if (!args->preset)
        return args->pattern ? args->pattern : "full";
    const char *named = ra_preset(args->preset);
    if (!named) {
        report_refusal();
        return NULL;
    }
    const char *scores = ra_preset_scores(args->preset);
    if (scores && !(args->scores = join(scores, args->scores, &args->joined_scores)))
        return NULL;
    return join(named, args->pattern, &args->joined);
}

void pattern_args_place(const pattern_args *args, ra_problem *problem)
{
    problem->query_position = args->query_position;
    problem->key_position = args->key_position;
    problem->scores = args->scores;
}

void pattern_args_free(pattern_args *args)
{
    free(args->joined);
    free(args->joined_scores);
    args->joined = args->joined_scores = NULL;
}
