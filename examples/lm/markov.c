/* SPDX-License-Identifier: Apache-2.0 */
/*
 * markov TRAIN TEST [K]: bits a byte of TEST under Markov models of orders 0 to K that were counted in TRAIN. A model
 * of order k is smoothed by that of order k - 1 (Witten and Bell): with n bytes seen after a context, d of them
 * different, p_k(byte) = (count(byte) + d p_(k-1)(byte)) / (n + d)
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    unsigned char *bytes;
    int64_t size;
} text;

/* A context, or a context and the byte after it, by its hash of 64 bits. */
typedef struct entry {
    uint64_t key;
    uint32_t count, different;
} entry;

typedef struct table {
    entry *at;
    uint64_t mask;
} table;

static int read_text(const char *path, text *t)
{
    FILE *file = fopen(path, "rbe");
    if (!file || fseek(file, 0, SEEK_END) != 0 || (t->size = ftell(file)) < 1 || fseek(file, 0, SEEK_SET) != 0) {
        fprintf(stderr, "markov: %s: cannot be read, or is empty\n", path);
        if (file)
            fclose(file);
        return 1;
    }
    t->bytes = malloc((size_t)t->size);
    int good = t->bytes && fread(t->bytes, 1, (size_t)t->size, file) == (size_t)t->size;
    fclose(file);
    return !good;
}

static uint64_t hash(const unsigned char *bytes, int64_t count)
{
    uint64_t sum = 14695981039346656037u ^ (uint64_t)count;
    for (int64_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * 1099511628211u;
    sum = (sum ^ sum >> 31) * 0xd6e8feb86659fd93u;
    return (sum ^ sum >> 32) | 1; /* 0 is an empty place */
}

static entry *place(const table *t, uint64_t key)
{
    uint64_t i = key >> 8;
    while (t->at[i & t->mask].key && t->at[i & t->mask].key != key)
        i++;
    return &t->at[i & t->mask];
}

static void count_all(const table *contexts, const table *pairs, const text *t, int64_t order)
{
    for (int64_t i = order; i < t->size; i++) {
        entry *context = place(contexts, hash(t->bytes + i - order, order));
        entry *pair = place(pairs, hash(t->bytes + i - order, order + 1));
        context->key = hash(t->bytes + i - order, order), pair->key = hash(t->bytes + i - order, order + 1);
        context->different += pair->count == 0;
        context->count++, pair->count++;
    }
}

/* p [size] are the probabilities of order - 1, and become those of `order`; returns the bits a byte. */
static double score(const table *contexts, const table *pairs, const text *t, int64_t order, double *p)
{
    double bits = 0;
    for (int64_t i = 0; i < t->size; i++) {
        if (i >= order) {
            const entry *context = place(contexts, hash(t->bytes + i - order, order));
            const entry *pair = place(pairs, hash(t->bytes + i - order, order + 1));
            double n = context->count, d = context->different;
            if (n > 0)
                p[i] = (pair->count + d * p[i]) / (n + d);
        }
        bits -= log2(p[i]);
    }
    return bits / (double)t->size;
}

int main(int argc, char **argv)
{
    text train = {0}, test = {0};
    int64_t most = argc > 3 ? strtol(argv[3], NULL, 10) : 8, best = 0;
    double least = INFINITY;
    if (argc < 3 || most < 0 || most > 64) {
        fprintf(stderr, "usage: markov TRAIN TEST [K]\n");
        return 2;
    }
    if (read_text(argv[1], &train) || read_text(argv[2], &test))
        return 2;
    uint64_t places = 1024;
    while (places < 2 * (uint64_t)train.size)
        places *= 2;
    table contexts = {malloc(places * sizeof(entry)), places - 1}, pairs = {malloc(places * sizeof(entry)), places - 1};
    double *p = malloc((size_t)test.size * sizeof(double));
    if (!contexts.at || !pairs.at || !p) {
        fprintf(stderr, "markov: no memory\n");
        return 1;
    }
    for (int64_t i = 0; i < test.size; i++)
        p[i] = 1.0 / 256;
    for (int64_t order = 0; order <= most; order++) {
        memset(contexts.at, 0, places * sizeof(entry));
        memset(pairs.at, 0, places * sizeof(entry));
        count_all(&contexts, &pairs, &train, order);
        double bits = score(&contexts, &pairs, &test, order, p);
        printf("order %lld: %.5f bits a byte\n", (long long)order, bits);
        if (bits < least)
            least = bits, best = order;
    }
    printf("best: order %lld, %.5f bits a byte\n", (long long)best, least);
    free(contexts.at), free(pairs.at), free(p), free(train.bytes), free(test.bytes);
    return 0;
}
