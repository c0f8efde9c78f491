/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan says that a query sees, against the words of the definition; and masks of blocks out of files. */
#include "ringattn/ringattn.h"
#include "support/naive.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_KEYS = 200, MOST_BLOCKS = 40 };

static ra_status plan_of(const char *pattern, int64_t q_len, int64_t kv_len, int64_t heads, ra_plan **plan)
{
    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = q_len, problem.kv_len = kv_len, problem.heads = heads, problem.head_dim = 1;
    problem.pattern = pattern;
    return ra_plan_create(&problem, NULL, plan);
}

/* Every pair of every head, and the number of pairs. */
static void check_all_pairs(const char *text, const naive_pattern *naive, int64_t q_len)
{
    ra_plan *plan;
    ra_plan_info info = RA_PLAN_INFO_INIT;
    double pairs = 0;
    REQUIRE(!plan_of(text, q_len, naive->kv_len, naive->heads, &plan), "%s", ra_last_message());
    for (int64_t row = 0; row < naive->heads * q_len; row++) {
        uint8_t counts[MOST_KEYS];
        int64_t head = row / q_len, query = row % q_len;
        assert_int_equal(ra_plan_visible(plan, head, query, 0, naive->kv_len, counts), RA_OK);
        for (int64_t key = 0; key < naive->kv_len; key++) {
            int expected = naive_query_sees(naive, q_len, head, query, key);
            REQUIRE(counts[key] == expected,
                    "%s, %lld:%lld, head %lld of %lld: query %lld sees key %lld %d times, not %d", text,
                    (long long)q_len, (long long)naive->kv_len, (long long)head, (long long)naive->heads,
                    (long long)query, (long long)key, counts[key], expected);
            pairs += expected;
        }
    }
    assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
    REQUIRE(info.pairs_visible == pairs, "%s, %lld:%lld: %.0f pairs, not %.0f", text, (long long)q_len,
            (long long)naive->kv_len, info.pairs_visible, pairs);
    ra_plan_free(plan);
}

static const char *const terms[] = {
    "dilated:1/1",       "dilated:16/1",           "dilated:16/2",      "dilated:16/3",
    "dilated:7/7",       "dilated:1000/1",         "dilated:1000/4",    "dilated:8/1,16/2,32/4",
    "dilated:10/2,10/2", "dilated:10/3,25/4,60/5", "blocks:1",          "blocks:8",
    "blocks:8:local=1",  "blocks:8:global=1",      "blocks:5:stride=3", "blocks:5:local=1:global=2:stride=4",
    "blocks:1000"};
enum { TERMS = sizeof terms / sizeof *terms, DILATED = 10 };

static const char *const modes[] = {"", ":mode=union", ":mode=grouped", ":mode=torchscale"};
static const char *const others[] = {"", "+causal", "+window:9,3", "+documents:L", "+causal+window:20"};
static const int64_t shapes[][3] = {{40, 40, 1}, {65, 65, 3}, {33, 70, 4}, {70, 33, 5}, {5, 5, 7}};

/* "L" stands for documents that fit the length. */
static void fill_in(char *text, size_t size, const char *term, const char *mode, const char *other, int64_t kv_len)
{
    char documents[64];
    const char *end = strchr(other, 'L');
    snprintf(documents, sizeof documents, "%lld,%lld", (long long)(kv_len / 3 + 1),
             (long long)(kv_len - kv_len / 3 - 1));
    if (end)
        snprintf(text, size, "%s%s%.*s%s", term, mode, (int)(end - other), other, documents);
    else
        snprintf(text, size, "%s%s%s", term, mode, other);
}

static void plans_against_the_definition(void **state)
{
    (void)state;
    for (int term = 0; term < TERMS; term++)
        for (int mode = 0; mode < (term < DILATED ? 4 : 1); mode++)
            for (int other = 0; other < 5; other++)
                for (int shape = (term + mode + other) % 2; shape < 5; shape += 2) {
                    char text[256];
                    fill_in(text, sizeof text, terms[term], modes[mode], others[other], shapes[shape][1]);
                    naive_pattern naive = naive_read(text, shapes[shape][1], shapes[shape][2]);
                    check_all_pairs(text, &naive, shapes[shape][0]);
                }
}

/* Both kinds together. */
static void dilated_blocks_against_the_definition(void **state)
{
    (void)state;
    for (int term = 0; term < DILATED; term++)
        for (int blocks = DILATED; blocks < TERMS; blocks++) {
            char text[256];
            snprintf(text, sizeof text, "%s%s+%s%s", terms[term], modes[(term + blocks) % 4], terms[blocks],
                     blocks % 2 ? "+causal" : "");
            const int64_t *shape = shapes[(term + blocks) % 5];
            naive_pattern naive = naive_read(text, shape[1], shape[2]);
            check_all_pairs(text, &naive, shape[0]);
        }
}

/* Packed sequences: queries at the end of their keys, none of either, more queries than keys. */
static void packed_sequences_against_the_definition(void **state)
{
    (void)state;
    static const char *const packed[] = {"documents:2/9,0/3,5/5,1/20,4/0,3/2", /* 15 and 39 */
                                         "documents:15/39", "documents:7/1,8/38", "documents:0/20,15/19",
                                         "documents:0/0,1/13,1/13,1/13,12/0,0/0"};
    static const char *const with[] = {"",
                                       "causal+",
                                       "window:3,1+",
                                       "chunks:7+",
                                       "causal:prefix=12+",
                                       "documents:11,28+",
                                       "causal+window:4,0+chunks:16+"};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 7; j++) {
            char text[256];
            snprintf(text, sizeof text, "%s%s", with[j], packed[i]);
            naive_pattern naive = naive_read(text, 39, 2);
            check_all_pairs(text, &naive, 15);
        }
}

/* ---- Lengths and masks ------------------------------------------------------------------------------------------- */

enum { ELEMENTS = 3, MASK_HEADS = 2, MASK_QUERIES = 45, MASK_KEYS = 70 };
static const int64_t valid[ELEMENTS][3] = {{13, 70, 4}, {0, 41, 60}, {20, 20, 0}};
static uint8_t pairs[ELEMENTS][MASK_HEADS][MASK_QUERIES][MASK_KEYS];

/* Of element 0 every pair, of all together the number of pairs; `columns` 0: no lengths. */
static void check_elements(const char *text, const char *plain, int columns, bool masked)
{
    ra_tensor lengths = {(void *)valid, RA_I64, ELEMENTS, 1, 1, columns, 3, 0, 0, 1};
    ra_tensor mask = {pairs,
                      RA_BOOL,
                      ELEMENTS,
                      MASK_QUERIES,
                      MASK_HEADS,
                      MASK_KEYS,
                      sizeof *pairs,
                      MASK_KEYS,
                      MASK_QUERIES * MASK_KEYS,
                      1};
    ra_score_arrays arrays = RA_SCORE_ARRAYS_INIT;
    ra_problem problem = RA_PROBLEM_INIT;
    ra_plan *plan;
    arrays.lengths = columns ? &lengths : NULL, arrays.mask = masked ? &mask : NULL;
    problem.batch = ELEMENTS, problem.q_len = MASK_QUERIES, problem.kv_len = MASK_KEYS, problem.heads = MASK_HEADS;
    problem.head_dim = 1, problem.pattern = text, problem.score_arrays = &arrays;
    REQUIRE(!ra_plan_create(&problem, NULL, &plan), "%s", ra_last_message());
    naive_pattern naive = naive_read(plain, MASK_KEYS, MASK_HEADS);
    double sum = 0;
    for (int64_t i = 0; i < ELEMENTS * MASK_HEADS * MASK_QUERIES; i++) {
        int64_t batch = i / MASK_QUERIES / MASK_HEADS, head = i / MASK_QUERIES % MASK_HEADS, query = i % MASK_QUERIES;
        uint8_t counts[MASK_KEYS];
        assert_int_equal(ra_plan_visible_element(plan, batch, head, query, 0, MASK_KEYS, counts), RA_OK);
        for (int64_t key = 0; key < MASK_KEYS; key++) {
            int64_t first = columns == 3 ? valid[batch][2] : MASK_KEYS - MASK_QUERIES;
            int expected = naive_sees(&naive, head, query + first, key);
            expected *= !columns || (key >= valid[batch][0] && key < valid[batch][1]);
            expected *= !masked || pairs[batch][head][query][key];
            REQUIRE(counts[key] == expected,
                    "%s, batch element %lld, head %lld: query %lld sees key %lld %d times, not %d", text,
                    (long long)batch, (long long)head, (long long)query, (long long)key, counts[key], expected);
            sum += expected;
        }
    }
    ra_plan_info info = RA_PLAN_INFO_INIT;
    assert_int_equal(ra_plan_describe(plan, &info), RA_OK);
    REQUIRE(info.pairs_visible == sum, "%s: %.0f pairs, not %.0f", text, info.pairs_visible, sum);
    ra_plan_free(plan);
}

static void lengths_and_masks_against_the_definition(void **state)
{
    (void)state;
    static const char *const plain[] = {"full",
                                        "causal",
                                        "window:9,3",
                                        "causal+chunks:13",
                                        "dilated:16/3,40/5",
                                        "dilated:10/2,25/4:mode=union",
                                        "blocks:8:local=1",
                                        "blocks:5:stride=3+causal"};
    for (int i = 0; i < ELEMENTS * MASK_HEADS * MASK_QUERIES * MASK_KEYS; i++)
        (&pairs[0][0][0][0])[i] = (i * 7 / 3 + i / 11) % 5 < 2;
    for (int i = 0; i < 8; i++)
        for (int which = 1; which < 6; which++) { /* lengths of no, two or three columns; with a mask or without */
            char text[128];
            int columns = which % 3 ? 1 + which % 3 : 0;
            bool masked = which >= 3;
            snprintf(text, sizeof text, "%s%s%s", plain[i], columns ? "+lengths" : "", masked ? "+mask" : "");
            check_elements(text, plain[i], columns, masked);
        }
}

/* ---- Masks out of files ------------------------------------------------------------------------------------------ */

static char path[64];

static void write_file(ra_dtype dtype, int dims, const int64_t *shape, const void *elements)
{
    ra_array *array;
    int64_t count = 1;
    for (int i = 0; i < dims; i++)
        count *= shape[i];
    assert_int_equal(ra_array_create(path, dtype, dims, shape, &array), RA_OK);
    assert_int_equal(ra_array_write(array, 0, count, elements), RA_OK);
    assert_int_equal(ra_array_commit(array), RA_OK);
    ra_array_close(array);
}

static void masks_keep_the_blocks_that_they_have(void **state)
{
    (void)state;
    enum { HEADS = 3 };
    static uint8_t mask[HEADS * MOST_BLOCKS * MOST_BLOCKS];
    for (int i = 0; i < HEADS * MOST_BLOCKS * MOST_BLOCKS; i++)
        mask[i] = (i * 7 / 3 + i / 11) % 5 == 0;
    for (int64_t size = 5; size <= 70; size += 13)
        for (int by_head = 0; by_head < 2; by_head++) {
            const int64_t kv_len = 190, blocks = (kv_len + size - 1) / size, shape[] = {HEADS, blocks, blocks};
            char text[128];
            write_file(RA_BOOL, by_head ? 3 : 2, by_head ? shape : shape + 1, mask);
            for (int other = 0; other < 9; other++) {
                static const char *const before[] = {"", "causal+", "dilated:40/1,90/2+"};
                static const char *const settings[] = {"", ":local=0", ":local=1:stride=3"};
                snprintf(text, sizeof text, "%sblocks:%lld%s:mask=@%s", before[other % 3], (long long)size,
                         settings[other / 3], path);
                naive_pattern naive = naive_read(text, kv_len, HEADS);
                naive.mask = mask;
                naive.mask_by_head = by_head;
                check_all_pairs(text, &naive, kv_len);
            }
        }
}

/* The message names the file, what it is and what it should be. */
static void require_refusal(const char *message)
{
    char text[128], expected[512];
    ra_plan *plan;
    snprintf(text, sizeof text, "blocks:10:mask=@%s", path);
    ra_status status = plan_of(text, 40, 40, 2, &plan);
    REQUIRE(status == RA_ERROR_FORMAT, "%s: %s", message, ra_status_name(status));
    assert_null(plan);
    snprintf(expected, sizeof expected, "pattern \"%s\", character 17: %s: %s", text, path, message);
    assert_string_equal(ra_last_message(), expected);
}

static void other_files_are_refused(void **state)
{
    (void)state;
#define SHOULD "a mask of blocks must be bool [4, 4] or [2, 4, 4]"
    static const float floats[32];
    uint8_t bytes[64] = {0};
    write_file(RA_U8, 2, (const int64_t[]){4, 4}, bytes);
    require_refusal("uint8 [4, 4]: " SHOULD);
    write_file(RA_F32, 2, (const int64_t[]){4, 4}, floats);
    require_refusal("float32 [4, 4]: " SHOULD);
    write_file(RA_F16, 2, (const int64_t[]){4, 4}, floats);
    require_refusal("float16 [4, 4]: " SHOULD);
    write_file(RA_I64, 2, (const int64_t[]){2, 2}, floats);
    require_refusal("int64 [2, 2]: " SHOULD);
    write_file(RA_BOOL, 2, (const int64_t[]){4, 5}, bytes);
    require_refusal("bool [4, 5]: " SHOULD);
    write_file(RA_BOOL, 2, (const int64_t[]){3, 3}, bytes);
    require_refusal("bool [3, 3]: " SHOULD);
    write_file(RA_BOOL, 2, (const int64_t[]){2, 8}, bytes);
    require_refusal("bool [2, 8]: " SHOULD);
    write_file(RA_BOOL, 3, (const int64_t[]){1, 4, 4}, bytes);
    require_refusal("bool [1, 4, 4]: " SHOULD);
    write_file(RA_BOOL, 3, (const int64_t[]){2, 4, 5}, bytes);
    require_refusal("bool [2, 4, 5]: " SHOULD);
    write_file(RA_BOOL, 4, (const int64_t[]){1, 2, 4, 4}, bytes);
    require_refusal("bool [1, 2, 4, 4]: " SHOULD);
    bytes[7] = 2;
    write_file(RA_BOOL, 2, (const int64_t[]){4, 4}, bytes);
    require_refusal("a byte that is 2 among booleans: must be 0 or 1");
    bytes[7] = 1, bytes[31] = 255;
    write_file(RA_BOOL, 3, (const int64_t[]){2, 4, 4}, bytes);
    require_refusal("a byte that is 255 among booleans: must be 0 or 1");
}

/* A file of the right size whose number of axes is not that of any mask. */
static void vectors_and_scalars_are_refused(void **state)
{
    (void)state;
    const uint8_t bytes[16] = {0};
    char text[128];
    ra_plan *plan;
    snprintf(text, sizeof text, "blocks:10:mask=@%s", path);
    write_file(RA_BOOL, 1, (const int64_t[]){16}, bytes);
    assert_int_equal(plan_of(text, 40, 40, 2, &plan), RA_ERROR_FORMAT);
    assert_non_null(strstr(ra_last_message(), "bool [16"));
    write_file(RA_BOOL, 0, NULL, bytes);
    assert_int_equal(plan_of(text, 40, 40, 2, &plan), RA_ERROR_FORMAT);
    assert_non_null(strstr(ra_last_message(), "bool"));
}

static void a_file_that_is_not_there(void **state)
{
    (void)state;
    ra_plan *plan;
    assert_int_equal(plan_of("blocks:10:mask=@/nowhere/mask.npy", 40, 40, 2, &plan), RA_ERROR_FILE);
    assert_non_null(strstr(ra_last_message(), "/nowhere/mask.npy"));
}

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ringattn-mask-%ld.npy", (long)getpid());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_against_the_definition),
        cmocka_unit_test(dilated_blocks_against_the_definition),
        cmocka_unit_test(packed_sequences_against_the_definition),
        cmocka_unit_test(lengths_and_masks_against_the_definition),
        cmocka_unit_test(masks_keep_the_blocks_that_they_have),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(vectors_and_scalars_are_refused),
        cmocka_unit_test(a_file_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
