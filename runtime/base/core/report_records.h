/* SPDX-License-Identifier: Apache-2.0 */
/* JSON-lines records that commands of this program write and `megatron report` reads.
 *
 * A --metrics-file contains one object per log line (see train/log_line.h), which has no "record"
 * member, and records: objects with "record", which names the kind, and "version". Records may also
 * be in files of their own (*.jsonl) in the directory of a run. A reader skips records of a kind it
 * does not know and of a newer version, and reports the latter. All members but those two are
 * optional. Times are seconds since 1970.
 *
 *   start       a start of a run: "time", "program", "command" (array of words), "host", "job",
 *               "world_size", "seq_length", "device", "began" (time at which the process started)
 *   validation  "iteration", "lm_loss", "set" ("validation" or "test"), "time"
 *   fault       "time", "iteration", "text"
 *   ranks       step times of all ranks, for the heat map: "iteration", "hosts" and "ms", arrays
 *               with one element per rank
 *   power       over all GPUs: "iteration", "time", "watts", "mhz", "celsius", each an array of the
 *               minimum, mean and maximum
 *   placement   "host", "tasks": the array that `megatron topo --json` prints; with "rank", a later
 *               record of the same rank replaces it
 *   preflight   one check: "host", "check", "verdict" ("ok", "warn", "fail"), "value", "expected",
 *               "advice" (strings)
 *   plan        predicted by `megatron plan`: "layout" (string), "step_s", "tflops",
 *               "tokens_per_s", "memory_gib"
 */
#ifndef MEGATRON_REPORT_RECORDS_H
#define MEGATRON_REPORT_RECORDS_H

#define RECORDS_VERSION 1

#endif
