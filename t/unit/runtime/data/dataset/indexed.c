/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"
#include "corpus.h"
#include "data/dataset/indexed.h"

static const int32_t lengths[] = {5, 7, 0, 9, 4, 6};
enum { SEQUENCES = 6, TOKENS = 31, POINTERS = 34 + 24, DOCUMENTS = 34 + 72 };

static void test_types(void)
{
    static const int types[] = {IDX_U8, IDX_I8, IDX_I16, IDX_I32, IDX_I64, IDX_U16};

    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        struct error err = {.text = ""};
        struct indexed *d;
        int32_t out[TOKENS];
        int64_t tokens = 0, at = 0;
        int same = 1;

        corpus_write(scratch_path("c"), types[t], lengths, SEQUENCES);
        d = indexed_open(scratch_path("c"), &err);
        if (!ok(d != NULL, "a corpus of %s opens", idx_dtype_name(types[t]))) {
            diag("%s", err.text);
            continue;
        }
        ok(indexed_info(d)->dtype == (enum idx_dtype)types[t] &&
               indexed_info(d)->sequences == SEQUENCES && indexed_info(d)->documents == SEQUENCES,
           "its counts");
        ok(indexed_verify(d, &tokens, &err) == 0 && tokens == TOKENS, "it verifies");
        for (int64_t i = 0; i < SEQUENCES; at += lengths[i++]) {
            same &= indexed_length(d, i, &err) == lengths[i];
            same &= indexed_tokens(d, i, 0, -1, out, TOKENS, &err) == lengths[i];
            for (int32_t j = 0; j < lengths[i]; j++)
                same &= out[j] ==
                        (types[t] == IDX_I8 ? (int8_t)corpus_token(at + j) : corpus_token(at + j));
        }
        ok(same, "its tokens");
        ok(indexed_tokens(d, 3, 2, 4, out, 4, &err) == 4 &&
               out[3] == (types[t] == IDX_I8 ? (int8_t)corpus_token(17) : corpus_token(17)),
           "a part of a sequence");
        indexed_close(d);
    }
}

#define AGAIN "; copy the file again, or run `megatron preprocess` again"

/* Change bytes of a good .idx file, or cut it; what is said then. 'late' faults (1) are found by
 * indexed_verify, some (2) whenever the array is read, the others when opening. */
static const struct {
    const char *name;
    int at, size;
    int64_t value;
    int cut, late;
    const char *text;
} hostile[] = {
    {"empty", 0, 0, 0, 0, 0, ".idx has 0 bytes, less than the header of 34; it is truncated" AGAIN},
    {"header cut", 0, 0, 0, 33, 0,
     ".idx has 33 bytes, less than the header of 34; it is truncated" AGAIN},
    {"magic", 3, 1, 'x', -1, 0,
     ".idx: offset 0: not an index of tokens (it must begin with MMIDIDX); give the prefix of a "
     ".bin and .idx file"},
    {"magic's last zero", 8, 1, 1, -1, 0,
     ".idx: offset 0: not an index of tokens (it must begin with MMIDIDX); give the prefix of a "
     ".bin and .idx file"},
    {"version", 9, 8, 2, -1, 0,
     ".idx: index version 2 is not supported, only 1; tokenize the corpus again"},
    {"type 0", 17, 1, 0, -1, 0, ".idx: offset 17: token type 0 is unknown; expected 1 to 10" AGAIN},
    {"type 11", 17, 1, 11, -1, 0,
     ".idx: offset 17: token type 11 is unknown; expected 1 to 10" AGAIN},
    {"type float", 17, 1, 7, -1, 0,
     ".idx: offset 17: token type 7 (float32) cannot hold tokens" AGAIN},
    {"sequences overflow", 18, 8, INT64_MAX, -1, 0,
     ".idx: offset 18: damaged: the header claims 9223372036854775807 sequences" AGAIN},
    {"sequences wrap", 18, 8, INT64_C(0x5555555555555556), -1, 0,
     ".idx: offset 18: damaged: the header claims 6148914691236517206 sequences" AGAIN},
    {"sequences negative", 18, 8, -1, -1, 0,
     ".idx: offset 18: damaged: the header claims 18446744073709551615 sequences" AGAIN},
    {"no document entry", 26, 8, 0, -1, 0,
     ".idx: offset 26: damaged: the header claims 0 entries in the document array" AGAIN},
    {"more sequences than bytes", 18, 8, 7, -1, 0,
     ".idx: 7 sequences and 7 document entries need 174 bytes, the file has 162; it is truncated: "
     "copy the file again, or run `megatron preprocess` again"},
    {"cut", 0, 0, 0, 161, 0,
     ".idx: 6 sequences and 7 document entries need 162 bytes, the file has 161; it is truncated: "
     "copy the file again, or run `megatron preprocess` again"},
    {"longer", 0, 0, 0, 163, 0,
     ".idx: 6 sequences and 7 document entries need 162 bytes, the file has 163; it is damaged: "
     "copy the file again, or run `megatron preprocess` again"},
    {"first document", DOCUMENTS, 8, 1, -1, 0,
     ".idx: offset 106: the first document begins at sequence 1, not 0" AGAIN},
    {"last document", DOCUMENTS + 48, 8, 5, -1, 0,
     ".idx: offset 154: the last document ends at sequence 5 of 6" AGAIN},
    {"last length negative", 34 + 20, 4, -1, -1, 0,
     ".idx: offset 54: sequence 5 has length -1; the file is damaged" AGAIN},
    {"last pointer far", POINTERS + 40, 8, INT64_MAX, -1, 0,
     ".idx: offset 98: sequence 5 of 6 tokens at byte 9223372036854775807 is not within the "
     "62 bytes of "},
    {"length negative", 34 + 4, 4, -7, -1, 2,
     ".idx: offset 38: sequence 1 has length -7; the file is damaged" AGAIN},
    {"length too large", 34 + 4, 4, INT32_MAX, -1, 1,
     ".idx: offset 66: sequence 1 of 2147483647 tokens at byte 10 is not within the 62 bytes "
     "of "},
    {"pointer negative", POINTERS + 8, 8, -2, -1, 1,
     ".idx: offset 66: sequence 1 of 7 tokens at byte -2 is not within the 62 bytes of "},
    {"pointer moved", POINTERS + 8, 8, 8, -1, 1,
     ".idx: offset 66: sequence 1 begins at byte 8, the one before it ends at 10" AGAIN},
    {"documents out of order", DOCUMENTS + 16, 8, 0, -1, 2,
     ".idx: offset 122: document 2 begins at sequence 0; expected 1 to 6" AGAIN},
    {"document beyond", DOCUMENTS + 16, 8, 99, -1, 2,
     ".idx: offset 122: document 2 begins at sequence 99; expected 1 to 6" AGAIN},
};

static void test_hostile(void)
{
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        struct error err = {.text = ""};
        struct indexed *d;
        char path[128], expected[512];
        FILE *file;

        corpus_write(scratch_path("h"), IDX_U16, lengths, SEQUENCES);
        snprintf(path, sizeof(path), "%s", scratch_path("h.idx"));
        file = fopen(path, "r+b");
        fseek(file, hostile[i].at, SEEK_SET);
        fwrite(&hostile[i].value, 1, (size_t)hostile[i].size, file);
        fclose(file);
        if (hostile[i].cut >= 0 && truncate(path, hostile[i].cut) < 0)
            perror(path);
        snprintf(expected, sizeof(expected), "%s%s", scratch_path("h"), hostile[i].text);
        if (hostile[i].text[strlen(hostile[i].text) - 1] == ' ')
            snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%s%s",
                     scratch_path("h.bin"), AGAIN);
        d = indexed_open(scratch_path("h"), &err);
        ok((d != NULL) == (hostile[i].late > 0), "%s: %s", hostile[i].name,
           hostile[i].late ? "opens" : "is refused");
        if (d && hostile[i].late > 1) {
            int64_t documents[SEQUENCES + 1];
            int32_t all[SEQUENCES];

            ok(indexed_lengths(d, 0, SEQUENCES, all, &err) +
                       indexed_documents(d, 0, SEQUENCES + 1, documents, &err) ==
                   -1,
               "cannot be read");
            is(err.text, expected, "with the sentence");
        }
        if (d)
            ok(indexed_verify(d, NULL, &err) == -1, "does not verify");
        is(err.text, expected, "with the sentence");
        indexed_close(d);
    }
}

/* More documents than indexed_verify reads at once. */
static void test_many(void)
{
    enum { MANY = 70000, BLOCK = 65536 };
    static const int32_t none[MANY];

    for (int64_t at = BLOCK - 3; at < BLOCK + 3; at++) {
        struct error err = {.text = ""};
        int64_t wrong = at - 2;
        struct indexed *d;
        FILE *file;

        corpus_write(scratch_path("m"), IDX_U16, none, MANY);
        file = fopen(scratch_path("m.idx"), "r+b");
        fseek(file, 34 + 12 * (long)MANY + 8 * (long)at, SEEK_SET);
        fwrite(&wrong, 8, 1, file);
        fclose(file);
        d = indexed_open(scratch_path("m"), &err);
        ok(d && indexed_verify(d, NULL, &err) == -1, "document %d out of order", (int)at);
        indexed_close(d);
    }
}

static void test_bin(void)
{
    struct error err = {.text = ""};
    struct indexed *d;
    int32_t out[TOKENS];
    char expected[512];

    corpus_write(scratch_path("b"), IDX_U16, lengths, SEQUENCES);
    ok(truncate(scratch_path("b.bin"), 61) == 0, "a .bin file is cut");
    ok(!indexed_open(scratch_path("b"), &err), "it is rejected");
    corpus_write(scratch_path("b"), IDX_U16, lengths, SEQUENCES);
    d = indexed_open(scratch_path("b"), &err);
    ok(d != NULL, "a complete file opens");
    ok(truncate(scratch_path("b.bin"), 30) == 0, "and cut then");
    ok(indexed_tokens(d, 1, 0, -1, out, TOKENS, &err) == 7, "the remaining data can be read");
    ok(indexed_tokens(d, 3, 0, -1, out, TOKENS, &err) == -1, "the missing data cannot");
    snprintf(expected, sizeof(expected),
             "%s: unexpected end at offset 30, 12 more bytes expected; it was truncated after it "
             "was opened: run again when nothing else writes to it",
             scratch_path("b.bin"));
    is(err.text, expected, "with the sentence");
    ok(truncate(scratch_path("b.idx"), 40) == 0 && indexed_length(d, 5, &err) == -1,
       "the same for the .idx file");
    indexed_close(d);
    ok(!indexed_open(scratch_path("nothing"), &err), "no file");
    snprintf(expected, sizeof(expected),
             "%s: cannot open: No such file or directory; check the path",
             scratch_path("nothing.idx"));
    is(err.text, expected, "with the sentence");
    corpus_write(scratch_path("e"), IDX_I32, lengths, 0);
    d = indexed_open(scratch_path("e"), &err);
    ok(d && indexed_verify(d, NULL, &err) == 0, "a corpus without sequences");
    ok(d && indexed_length(d, 0, &err) == -1, "has none");
    indexed_close(d);
}

static void test_ranges(void)
{
    struct error err = {.text = ""};
    struct indexed *d;
    int32_t out[TOKENS];
    int64_t wide[] = {1, INT64_C(1) << 40, 3};

    corpus_write(scratch_path("r"), IDX_I64, (const int32_t[]){3}, 1);
    write_file(scratch_path("r.bin"), wide, sizeof(wide));
    d = indexed_open(scratch_path("r"), &err);
    ok(d != NULL, "opens");
    ok(indexed_tokens(d, 0, 0, 3, out, 3, &err) == -1 && strstr(err.text, "offset 8: token"),
       "a token beyond int32");
    ok(indexed_tokens(d, 0, 2, 1, out, 1, &err) == 1 && out[0] == 3, "its neighbor is fine");
    ok(indexed_tokens(d, 0, 2, 2, out, 9, &err) == -1, "beyond the end of a sequence");
    ok(indexed_tokens(d, 0, -1, 2, out, 9, &err) == -1, "before its beginning");
    ok(indexed_tokens(d, 1, 0, 1, out, 9, &err) == -1, "beyond the last sequence");
    ok(indexed_tokens(d, -1, 0, 1, out, 9, &err) == -1, "before the first");
    ok(indexed_tokens(d, 0, 0, 3, out, 2, &err) == -1, "more than there is room for");
    indexed_close(d);
}

/* fairseq's .idx: Megatron's without documents. */
static void test_fairseq(void)
{
    static const int32_t lengths[] = {3, 1, 4};
    static const uint32_t wide[] = {9, UINT32_MAX, 9, 9, 9, 9, 9, 9};
    struct error err = {.text = ""};
    unsigned char idx[256];
    int64_t documents[4], tokens;
    struct indexed *d;
    int32_t out[8];
    FILE *file;
    size_t size;

    corpus_write(scratch_path("f"), IDX_U32, lengths, 3);
    file = fopen(scratch_path("f.idx"), "rb");
    size = fread(idx, 1, sizeof(idx), file);
    fclose(file);
    memmove(idx + 26, idx + 34, size - 34);
    write_file(scratch_path("f.idx"), idx, 26 + 3 * 12);
    d = indexed_open(scratch_path("f"), &err);
    if (!ok(d != NULL, "fairseq's files open"))
        return;
    ok(indexed_info(d)->fairseq && indexed_info(d)->documents == 3 &&
           indexed_verify(d, &tokens, &err) == 0 && tokens == 8,
       "with a document for each sequence");
    ok(indexed_documents(d, 0, 4, documents, &err) == 0 && documents[3] == 3 &&
           indexed_documents(d, 1, 4, documents, &err) < 0,
       "which are counted from 0");
    ok(indexed_tokens(d, 2, 1, 3, out, 3, &err) == 3 && out[0] == corpus_token(5),
       "and tokens of 32 bits");
    ok(indexed_stream(d, 2, 3, out, &err) == 0 && out[2] == corpus_token(4) &&
           indexed_stream(d, 6, 3, out, &err) < 0,
       "which can be read across sequences");
    write_file(scratch_path("f.bin"), wide, sizeof(wide));
    ok(indexed_stream(d, 0, 3, out, &err) < 0 &&
           strstr(err.text, "token 4294967295 is out of range"),
       "a token beyond int32 is an error");
    indexed_close(d);
    write_file(scratch_path("f.idx"), idx, 26 + 3 * 12 - 1);
    ok(!indexed_open(scratch_path("f"), &err), "a truncated file does not open");
}

int main(void)
{
    scratch_make();
    test_fairseq();
    test_types();
    test_hostile();
    test_many();
    test_bin();
    test_ranges();
    scratch_remove();
    return done_testing();
}
