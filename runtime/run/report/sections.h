/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the page that are text and tables. */
#ifndef MEGATRON_SECTIONS_H
#define MEGATRON_SECTIONS_H

#include "extras.h"
#include "run.h"
#include "text.h"

/* The figures that people look for first. */
void section_summary(const struct run *run, size_t number, FILE *html);

/* All starts, and what ended them. */
void section_starts(const struct run *run, FILE *html);

/* Percentiles of the step time. */
void section_percentiles(const struct runs *runs, FILE *html);

/* Command line, versions, memory and arguments of the last start. */
void section_setup(const struct run *run, FILE *html);

/* Preflight checks, placement and plan against fact; each only if there are such records. */
void section_extras(const struct extras *extras, const struct run *run, FILE *html);

#endif
