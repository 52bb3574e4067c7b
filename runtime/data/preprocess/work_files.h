/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of a work directory are a run's own. A user may have a directory of that name:
 * nothing in it is deleted unless a run has written it. Files are told by their names (work.h, and
 * curate/curate.h for the directories of phases). */
#ifndef MEGATRON_PREPROCESS_WORK_FILES_H
#define MEGATRON_PREPROCESS_WORK_FILES_H

#include "lib/error.h"

/* Can 'root' be a work directory: is there none yet, or a directory that is not a symbolic link?
 * Returns 0, or -1 with ERROR_USAGE. */
int work_files_check_root(const char *root, struct error *err);

/* Is everything in 'root' a run's own? That includes what killed runs have left, and an empty
 * directory. Returns 0; -1 with ERROR_USAGE that names a file that is not. */
int work_files_check(const char *root, struct error *err);

/* Is this a run's file, or the directory of a plan or a removed one, by its name in 'root'? */
int work_files_is_file(const char *name);
int work_files_is_plan(const char *name);
int work_files_is_removed(const char *name);

/* Is this a draft, a claim or the progress of another launch, by its name in the directory of a
 * plan or of a phase? */
int work_files_is_leftover(const char *name, const char *launch);

/* Remove the directory of a plan with a run's files in it. If it contains others, they stay, and so
 * does the directory. */
void work_files_remove_plan(const char *path);

#endif
