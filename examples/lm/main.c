/* SPDX-License-Identifier: Apache-2.0 */
/* lm: the command line. */
#include "lm.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HELP[] =
    "usage: lm train --data FILE [OPTION...]\n"
    "       lm eval --data FILE --checkpoint FILE [OPTION...]\n"
    "       lm generate --checkpoint FILE --prompt TEXT [OPTION...]\n"
    "       mpirun -n R lm ...          the same over R ranks\n"
    "\n"
    "A byte-level language model whose sequence is spread over ranks.\n"
    "\n"
    "  --data FILE          the text: bytes\n"
    "  --context N          bytes of a sequence (default 4096; K and M mean 1024 and 1024 * 1024)\n"
    "  --layers L           blocks of attention and MLP (default 4)\n"
    "  --embed E            width (default 256)\n"
    "  --heads H            attention heads, which divide the width (default 4)\n"
    "  --pattern P          which bytes are seen, with `causal` in it (default causal): docs/PATTERNS.md\n"
    "  --steps N            (default 200)\n"
    "  --batch B            sequences a step (default 1)\n"
    "  --seed S             of the first parameters and of what is read when (default 1)\n"
    "  --rate X             the highest learning rate (default 0.002)\n"
    "  --warmup N           steps until that rate is reached (default 20)\n"
    "  --order O            contiguous, zigzag or striped: which rank has which bytes (default zigzag)\n"
    "  --strategy S         ring, allgather or broadcast: how keys and values travel (default ring)\n"
    "  --threads N          of each rank (default: the cores, divided among the ranks of a machine)\n"
    "  --memory BYTES       that a rank may hold, with K, M or G; a plan that needs more is refused\n"
    "  --checkpoint FILE    where the training is saved, and goes on from\n"
    "  --log FILE.jsonl     a line a step; ringattn report draws it\n"
    "  --prompt TEXT        what generate goes on from\n"
    "  --length N           bytes that generate adds (default 200)\n"
    "  --temperature X      of generate: 1 by the probabilities, 0 the most probable (default 0.8)\n";

/* ---- What is wrong: kept by each rank, and said by the first that has something to say --------------------------- */

static char said[1024];

int lm_say(const lm_world *world, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
    if (code == LM_OK && world->rank == 0)
        fprintf(stderr, "lm: %s\n", said);
    return code;
}

int lm_agree(const lm_world *world, int code)
{
    return lm_world_sum_integer(world, code != LM_OK) && code == LM_OK ? LM_PEER : code;
}

/* The exit code of all ranks. */
static int end(const lm_world *world, int code)
{
    int *codes = calloc((size_t)world->ranks, sizeof *codes), result = LM_OK;
    if (!codes)
        return LM_WORK;
    lm_world_gather(world, &code, sizeof code, codes);
    for (int rank = 0; rank < world->ranks && !result; rank++)
        if (codes[rank] == LM_WORK || codes[rank] == LM_USAGE) {
            result = codes[rank];
            if (rank == world->rank)
                fprintf(stderr, "lm: %s\n", said);
        }
    free(codes);
    return result;
}

/* ---- Options ------------------------------------------------------------------------------------------------------
 */

static bool read_integer(const char *text, int64_t least, int64_t *value)
{
    static const char UNITS[] = "KMG";
    char *rest;
    errno = 0;
    long long number = strtoll(text, &rest, 10);
    const char *unit = *rest ? strchr(UNITS, *rest) : NULL;
    int shift = unit ? 10 * (int)(unit - UNITS + 1) : 0;
    if (rest == text || errno || (unit ? rest[1] : rest[0]) || number < least || number > INT64_MAX >> shift >> 1)
        return false;
    *value = (int64_t)number << shift;
    return true;
}

static bool read_real(const char *text, double *value)
{
    char *rest;
    *value = strtod(text, &rest);
    return rest != text && !*rest && *value >= 0 && *value <= 1e6;
}

static bool read_name(const char *text, const char *(*name)(int), int *value)
{
    for (int i = 0; name(i); i++)
        if (strcmp(text, name(i)) == 0) {
            *value = i;
            return true;
        }
    return false;
}

static const char *order_name(int i)
{
    return ra_order_name((ra_order)i);
}

static const char *strategy_name(int i)
{
    return ra_strategy_name((ra_strategy)i);
}

static bool read_pattern(const char *text, lm_config *c)
{
    if (strlen(text) >= sizeof c->pattern)
        return false;
    memset(c->pattern, 0, sizeof c->pattern);
    memcpy(c->pattern, text, strlen(text));
    return true;
}

typedef enum kind { TEXT, INTEGER, REAL, ORDER, STRATEGY, PATTERN } kind;

static const struct {
    const char *name;
    kind kind;
    size_t offset;
    int64_t least;
} OPTIONS[] = {{"data", TEXT, offsetof(lm_options, data), 0},
               {"checkpoint", TEXT, offsetof(lm_options, checkpoint), 0},
               {"log", TEXT, offsetof(lm_options, log), 0},
               {"prompt", TEXT, offsetof(lm_options, prompt), 0},
               {"context", INTEGER, offsetof(lm_options, config.context), 1},
               {"layers", INTEGER, offsetof(lm_options, config.layers), 1},
               {"embed", INTEGER, offsetof(lm_options, config.embed), 1},
               {"heads", INTEGER, offsetof(lm_options, config.heads), 1},
               {"steps", INTEGER, offsetof(lm_options, config.steps), 1},
               {"batch", INTEGER, offsetof(lm_options, config.batch), 1},
               {"seed", INTEGER, offsetof(lm_options, config.seed), 0},
               {"warmup", INTEGER, offsetof(lm_options, config.warmup), 0},
               {"threads", INTEGER, offsetof(lm_options, threads), 1},
               {"memory", INTEGER, offsetof(lm_options, memory), 1},
               {"length", INTEGER, offsetof(lm_options, length), 0},
               {"rate", REAL, offsetof(lm_options, config.rate), 0},
               {"temperature", REAL, offsetof(lm_options, temperature), 0},
               {"order", ORDER, offsetof(lm_options, spread.order), 0},
               {"strategy", STRATEGY, offsetof(lm_options, spread.strategy), 0},
               {"pattern", PATTERN, 0, 0}};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof *OPTIONS };

static bool read_option(int index, const char *text, lm_options *o)
{
    char *target = (char *)o + OPTIONS[index].offset;
    switch (OPTIONS[index].kind) {
    case INTEGER: return read_integer(text, OPTIONS[index].least, (int64_t *)(void *)target);
    case REAL: return read_real(text, (double *)(void *)target);
    case ORDER: return read_name(text, order_name, (int *)(void *)target);
    case STRATEGY: return read_name(text, strategy_name, (int *)(void *)target);
    case PATTERN: return read_pattern(text, &o->config);
    default: *(const char **)(void *)target = text; return true;
    }
}

static int parse(int argc, char **argv, lm_options *o, const lm_world *world)
{
    struct option all[OPTION_COUNT + 1] = {{0}};
    for (int i = 0; i < OPTION_COUNT; i++)
        all[i] = (struct option){OPTIONS[i].name, required_argument, NULL, i};
    opterr = 0;
    int index;
    while ((index = getopt_long(argc, argv, ":", all, NULL)) != -1) {
        if (index == ':' || index == '?')
            return lm_say(world, LM_USAGE, "%s: %s; see lm --help", argv[optind - 1],
                          index == ':' ? "has no value" : "is no option");
        if (!read_option(index, optarg, o))
            return lm_say(world, LM_USAGE, "--%s '%s': is no value that it can have; see lm --help",
                          OPTIONS[index].name, optarg);
        o->context_given = o->context_given || strcmp(OPTIONS[index].name, "context") == 0;
    }
    o->spread.threads = o->threads > 1 << 20 ? 1 << 20 : (int)o->threads;
    return optind < argc ? lm_say(world, LM_USAGE, "'%s': is no option; see lm --help", argv[optind]) : LM_OK;
}

/* Checks of the settings of a training before anything is read. */
static int check(const lm_options *o, const lm_world *world)
{
    enum { MOST = 1 << 16 };
    const lm_config *c = &o->config;
    if (c->embed % c->heads)
        return lm_say(world, LM_USAGE, "--heads %lld: do not divide --embed %lld", (long long)c->heads,
                      (long long)c->embed);
    if (c->embed / c->heads % 2)
        return lm_say(world, LM_USAGE, "--embed %lld, --heads %lld: a head is %lld wide; rotary positions need pairs",
                      (long long)c->embed, (long long)c->heads, (long long)(c->embed / c->heads));
    if (c->embed > MOST || c->layers > MOST || c->batch > MOST || c->context > INT64_MAX >> 24)
        return lm_say(world, LM_USAGE, "--embed, --layers and --batch are %d at most, --context is 2^39", MOST);
    if (!strstr(c->pattern, "causal") || strstr(c->pattern, "prefix"))
        return lm_say(world, LM_USAGE,
                      "--pattern '%s': lets a byte see those after it, which are to be predicted: add +causal",
                      c->pattern);
    return LM_OK;
}

static const struct {
    const char *name;
    int (*run)(const lm_options *options, const lm_world *world);
    bool data, checkpoint, prompt; /* that it needs */
} VERBS[] = {{"train", lm_train, true, false, false},
             {"eval", lm_eval, true, true, false},
             {"generate", lm_generate, false, true, true}};

static int run(int argc, char **argv, const lm_world *world)
{
    lm_options o = {.config = {4096, 4, 256, 4, 1, 200, 20, 1, 0.002, "causal"},
                    .spread = {.order = RA_ORDER_ZIGZAG},
                    .length = 200,
                    .temperature = 0.8};
    size_t verb = 0, verbs = sizeof VERBS / sizeof *VERBS;
    while (argc > 1 && verb < verbs && strcmp(argv[1], VERBS[verb].name) != 0)
        verb++;
    if (argc < 2 || verb == verbs)
        return lm_say(world, LM_USAGE, "expected train, eval or generate; see lm --help");
    int code = parse(argc - 1, argv + 1, &o, world);
    if (code)
        return code;
    const char *missing = VERBS[verb].data && !o.data                       ? "data"
                          : VERBS[verb].checkpoint && !o.checkpoint         ? "checkpoint"
                          : VERBS[verb].prompt && (!o.prompt || !*o.prompt) ? "prompt"
                                                                            : NULL;
    if (missing)
        return lm_say(world, LM_USAGE, "--%s is missing; see lm --help", missing);
    code = check(&o, world);
    return code ? code : VERBS[verb].run(&o, world);
}

int main(int argc, char **argv)
{
    lm_world world;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(HELP, stdout);
            return 0;
        }
    int code = lm_world_open(&world, &argc, &argv);
    if (code)
        return code;
    code = end(&world, run(argc, argv, &world));
    lm_world_close(&world);
    return code;
}
