#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Megatron's tools/preprocess_data.py, the loop of it: the script is not in the package megatron-core, so
this does what its Encoder and Partition.process_json_file do (json.loads per line, tokenizer, EOD, a
multiprocessing pool with imap in chunks of 32, IndexedDatasetBuilder of megatron-core), nothing else.

usage: preprocess-data.py {gpt2|llama2} MODEL INPUT.jsonl OUTPUT_PREFIX [WORKERS]
       MODEL: the directory with vocab.json and merges.txt, or tokenizer.model"""

import json
import multiprocessing
import os
import sys
import time
import warnings

warnings.filterwarnings("ignore")
os.environ["TOKENIZERS_PARALLELISM"] = "false"


class Encoder:
    tokenize = eod = None

    def __init__(self, family, model):
        self.family, self.model = family, model

    def initializer(self):
        if self.family == "gpt2":
            from tokenizers import ByteLevelBPETokenizer

            tokenizer = ByteLevelBPETokenizer(os.path.join(self.model, "vocab.json"),
                                              os.path.join(self.model, "merges.txt"))
            tokenizer.add_special_tokens(["<|endoftext|>"])
            Encoder.tokenize = lambda text: tokenizer.encode(text).ids
            Encoder.eod = 50256
        else:
            import sentencepiece

            tokenizer = sentencepiece.SentencePieceProcessor(model_file=self.model)
            Encoder.tokenize = tokenizer.encode
            Encoder.eod = tokenizer.eos_id()

    def encode(self, line):
        text = json.loads(line)["text"]
        document, lengths = [], []
        for sentence in text if isinstance(text, list) else [text]:
            ids = Encoder.tokenize(sentence)
            if len(ids) > 0:
                document.extend(ids)
                lengths.append(len(ids))
        if len(document) > 0:
            document.append(Encoder.eod)
            lengths[-1] += 1
        return document, lengths, len(line)


def main():
    from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder

    family, model, path, prefix = sys.argv[1:5]
    workers = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    encoder = Encoder(family, model)
    builder = IndexedDatasetBuilder(prefix + "_text_document.bin",
                                    dtype=DType.optimal_dtype(50257 if family == "gpt2" else 32000))
    begin, done = time.time(), 0
    with open(path, encoding="utf-8") as lines, \
            multiprocessing.Pool(workers, initializer=encoder.initializer) as pool:
        for document, lengths, size in pool.imap(encoder.encode, lines, 32):
            builder.add_document(document, lengths)
            done += size
    builder.finalize(prefix + "_text_document.idx")
    print(f"{time.time() - begin:.3f} s")


if __name__ == "__main__":
    main()
