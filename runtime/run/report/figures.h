/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures other than line charts, as inline SVG. Nothing is drawn if there is no data. */
#ifndef MEGATRON_FIGURES_H
#define MEGATRON_FIGURES_H

#include "extras.h"
#include "run.h"
#include "text.h"

/* Starts, saves, lost steps and faults of each run over time. */
void figure_timeline(const struct runs *runs, FILE *html);

/* Where the time of a run went: a bar and its legend. */
void figure_goodput(const struct run *run, FILE *html);

/* Mean step time by host and rank. */
void figure_heat(const struct extras *extras, FILE *html);

#endif
