/* SPDX-License-Identifier: Apache-2.0 */
/* The .idx file of a tokenized corpus, as Megatron writes it. All numbers are little-endian:
 *
 *     offset  0  9 bytes  "MMIDIDX\0\0"
 *             9  u64      version, 1
 *            17  u8       type of the tokens in the .bin file (enum idx_dtype)
 *            18  u64      sequences, n
 *            26  u64      entries of the document array, m (documents + 1)
 *            34  i32[n]   tokens per sequence
 *       34+ 4n  i64[n]   byte offset of each sequence in the .bin file
 *       34+12n  i64[m]   first sequence of each document; begins with 0 and ends with n
 *    34+12n+8m  i8[n]    modes, only in multimodal corpora
 *
 * A text without tokens has an entry in the document array and no sequence.
 *
 * fairseq's files ("mmap") are the same without the document array and its count:
 *
 *     offset 26  i32[n]   tokens per sequence
 *       26+ 4n  i64[n]   byte offset of each sequence in the .bin file
 *
 * They are recognized by their size. Every sequence, a line of the text, counts as a document. */
#ifndef MEGATRON_IDX_FORMAT_H
#define MEGATRON_IDX_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "token files are little-endian and are read and written in place"
#endif

#define IDX_MAGIC         "MMIDIDX\0" /* with the terminating NUL: 9 bytes */
#define IDX_MAGIC_SIZE    9
#define IDX_VERSION       1
#define IDX_VERSION_AT    9
#define IDX_DTYPE_AT      17
#define IDX_SEQUENCES_AT  18
#define IDX_DOCUMENTS_AT  26
#define IDX_HEADER_SIZE   34
#define IDX_FAIRSEQ_SIZE  26 /* of fairseq's header */
#define IDX_LENGTH_SIZE   4
#define IDX_POINTER_SIZE  8
#define IDX_DOCUMENT_SIZE 8
#define IDX_SMALL_VOCAB   65500 /* vocabularies below this are written as u16, others as i32 */

enum idx_dtype {
    IDX_U8 = 1,
    IDX_I8 = 2,
    IDX_I16 = 3,
    IDX_I32 = 4,
    IDX_I64 = 5,
    IDX_F64 = 6,
    IDX_F32 = 7,
    IDX_U16 = 8,
    IDX_U32 = 9, /* this and the next one are fairseq's */
    IDX_U64 = 10,
};

/* Bytes per token; 0 for an unknown type. */
static inline size_t idx_dtype_size(int dtype)
{
    static const unsigned char sizes[] = {0, 1, 1, 2, 4, 8, 8, 4, 2, 4, 8};

    return dtype >= IDX_U8 && dtype <= IDX_U64 ? sizes[dtype] : 0;
}

/* "uint16"; "unknown" for an unknown type. */
static inline const char *idx_dtype_name(int dtype)
{
    static const char *const names[] = {"unknown", "uint8",   "int8",   "int16",  "int32", "int64",
                                        "float64", "float32", "uint16", "uint32", "uint64"};

    return names[dtype >= IDX_U8 && dtype <= IDX_U64 ? dtype : 0];
}

#endif
