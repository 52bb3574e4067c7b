/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of BERT against megatron-core's own results. */
#include <stdlib.h>

#include "data/dataset/bert.h"
#include "tap.h"

static void test_mapping(void)
{
    static const int32_t lengths[] = {5, 7, 3, 9, 4, 6, 8, 2, 5, 6, 3, 10, 600, 4, 7, 7};
    static const int64_t documents[] = {0, 4, 5, 5, 11, 14, 16};
    static const struct bert_range expected[] = {
        {2, 4, 10}, {0, 2, 10}, {5, 7, 10}, {14, 16, 8}, {7, 11, 10}};
    struct bert_request request = {documents, 6, lengths, -1, 10, .5, 1234, 2};
    struct bert_range *ranges;
    struct error err;
    int64_t count = bert_mapping(&request, &ranges, &err);

    ok(count == 5 && memcmp(ranges, expected, sizeof(expected)) == 0,
       "megatron-core's mapping of sentences");
    free(ranges);
    request.samples = 12;
    ok(bert_mapping(&request, &ranges, &err) >= 12, "of as many epochs as are needed");
    free(ranges);
    request.document_count = 0;
    ok(bert_mapping(&request, &ranges, &err) == 0, "none without documents");
    free(ranges);
}

static void test_bert_samples(void)
{
    static const int32_t lengths[] = {5, 7, 3, 9, 4, 6, 8, 2, 5, 6, 3, 10, 60, 4, 7, 7};
    static const struct {
        int first, end, target, number, length, binary, tokens, masked, is_random;
        uint64_t hash;
    } rows[] = {
        {0, 4, 29, 0, 32, 1, 27, 4, 0, UINT64_C(13662288216878907742)},
        {0, 4, 29, 1, 32, 1, 27, 4, 0, UINT64_C(4548497117615901281)},
        {4, 8, 10, 2, 32, 1, 13, 1, 1, UINT64_C(2430315950626013767)},
        {5, 13, 125, 3, 128, 1, 103, 15, 1, UINT64_C(16735883385464617002)},
        {5, 13, 60, 4, 128, 1, 63, 9, 1, UINT64_C(10892920443140188452)},
        {0, 16, 61, 5, 64, 1, 64, 9, 1, UINT64_C(7534545987212100558)},
        {12, 13, 40, 6, 64, 0, 42, 6, 0, UINT64_C(15628893536829181841)},
        {0, 8, 61, 7, 64, 0, 46, 7, 0, UINT64_C(15628938625622055773)},
        {14, 16, 61, 8, 64, 1, 17, 3, 0, UINT64_C(3370795143993086139)},
        {3, 9, 30, 9, 64, 1, 33, 4, 0, UINT64_C(15108301947024256026)},
        {8, 10, 7, 10, 64, 1, 10, 1, 0, UINT64_C(7310633194614128432)},
    };
    static uint8_t begins[1000];
    struct masked_config config = {
        .bos = 101,
        .sep = 102,
        .mask = {.vocabulary = 1000, .mask = 103, .probability = .15, .begins = begins}};

    for (int i = 0; i < 1000; i++)
        begins[i] = i % 3 != 2;
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        int32_t text[256], tokens[128], labels[128], types[128];
        struct bert_sample sample = {tokens, labels, types, 0, 0};
        int64_t ends[16], count = rows[r].end - rows[r].first, total = 0, start = 0, masked = 0;
        struct error err;
        uint64_t hash = 0;

        for (int i = 0; i < rows[r].first; i++)
            start += lengths[i];
        for (int i = 0; i < count; i++) {
            for (int j = 0; j < lengths[rows[r].first + i]; j++) {
                int64_t at = start + total + j;

                text[total + j] = (int32_t)(200 + (7 * at * at + 3 * j) % 700);
            }
            total += lengths[rows[r].first + i];
            ends[i] = total;
        }
        config.binary = rows[r].binary;
        bert_make(&config, 1234, rows[r].number, text, ends, count, rows[r].target, &sample, &err);
        for (int i = 0; i < sample.count; i++) {
            hash = hash * 1000003 + (uint64_t)(tokens[i] + 7);
            hash = hash * 1000003 + (uint64_t)(types[i] + 7);
            hash = hash * 1000003 + (uint64_t)(labels[i] + 8);
            masked += labels[i] != BATCH_IGNORE;
        }
        ok(sample.count == rows[r].tokens && masked == rows[r].masked &&
               sample.is_random == rows[r].is_random && hash == rows[r].hash,
           "megatron-core's sample %d of sentences %d to %d", rows[r].number, rows[r].first,
           rows[r].end);
    }
}

int main(void)
{
    test_mapping();
    test_bert_samples();
    return done_testing();
}
