/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes a run's own files in a work directory. A user may have a directory of that name:
 * nothing is deleted unless a run has written it. Files are recognized by their names (jobs.h,
 * work.h). */
#ifndef MEGATRON_JOBS_WORK_FILES_H
#define MEGATRON_JOBS_WORK_FILES_H

#include <stdbool.h>
#include "lib/error.h"

/* Check that 'root' can be a work directory: it is missing, or a directory and not a symbolic link.
 * Returns 0, or -1 with ERROR_USAGE. */
int work_files_check_root(const char *root, struct error *err);

/* Check that 'root' contains only a run's own files, including those of killed runs. Returns 0, or
 * -1 with ERROR_USAGE that names a foreign file. */
int work_files_check(const char *root, struct error *err);

/* Classify a name in 'root': a run's file, the directory of a plan, a directory that is being
 * removed. */
bool work_files_is_file(const char *name);
bool work_files_is_plan(const char *name);
bool work_files_is_removed(const char *name);

/* Is this name, in the directory of a plan or phase, a draft, claim or progress file of another
 * launch? */
bool work_files_is_leftover(const char *name, const char *launch);

/* Remove the directory of a plan. Foreign files in it stay, and then so does the directory. */
void work_files_remove_plan(const char *path);

/* Find slurmstepd among the ancestors of this process, behind any number of shells and wrappers,
 * and end this process when slurmstepd ends. (If a slurmstepd is killed, Slurm lets its tasks run
 * on; PR_SET_PDEATHSIG covers only the direct parent.) Does nothing if there is no slurmstepd. */
void step_guard_start(void);

#endif
