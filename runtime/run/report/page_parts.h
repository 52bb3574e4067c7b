/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the report page: text, pictures other than line charts (inline SVG; nothing is drawn
 * without data), tables, and the style sheet and script, which script.c has. */
#ifndef MEGATRON_PAGE_PARTS_H
#define MEGATRON_PAGE_PARTS_H

#include <stdio.h>
#include "extras.h"
#include "run.h"

/* Write a text from a file as HTML text, also valid inside a quoted attribute. Control characters
 * become U+FFFD; so do, in the browser, bytes that are not UTF-8. */
void text_escape(const char *words, FILE *html);

/* Starts, saves, lost steps and faults of each run over time. */
void figure_timeline(const struct runs *runs, FILE *html);

/* Where the time of a run went: a bar and its legend. */
void figure_goodput(const struct run *run, FILE *html);

/* Mean step time by host and rank. */
void figure_heat(const struct extras *extras, FILE *html);

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

/* Base64 of the SHA-256 of page.js, for the page's content security policy: no other script runs.
 * t/report/report.t compares it, and prints the one of a changed script. */
#define PAGE_SCRIPT_HASH "MEUB70c1BH8mgL4C2dzP5Bm08ZnQEZ3cmeBwu1w50/0="

extern const char page_style[];
extern const char page_script[];

#endif
