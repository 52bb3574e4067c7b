/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"

enum { LABEL = 250, BAR = 560, NUMBER = 80, ROW = 24, TOP = 76, THICK = 16 };

/* The model's name may come from the command line. */
static void print_escaped(const char *text, FILE *stream)
{
    for (; *text; text++)
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            fprintf(stream, "&#%d;", *text);
        else if ((unsigned char)*text >= 0x20)
            fputc(*text, stream);
}

static void draw_key(FILE *stream)
{
    const struct plan_time none = {0};
    struct show_part parts[SHOW_PARTS];

    show_parts(&none, parts);
    for (int i = 0; i < SHOW_PARTS; i++) {
        int x = 10 + i % 6 * 145, y = 34 + i / 6 * 18;

        fprintf(stream,
                "<rect x=\"%d\" y=\"%d\" width=\"11\" height=\"11\" fill=\"%s\"/>"
                "<text x=\"%d\" y=\"%d\">%s</text>\n",
                x, y, parts[i].color, x + 16, y + 10, parts[i].name);
    }
}

static void draw_bar(const struct candidate *c, size_t row, double longest, FILE *stream)
{
    struct show_part parts[SHOW_PARTS];
    double x = LABEL, y = TOP + (double)row * ROW;

    show_parts(&c->time, parts);
    fprintf(stream,
            "<text x=\"10\" y=\"%.0f\">tp %lld pp %lld vp %lld cp %lld micro %lld %s</text>\n",
            y + 13, (long long)c->layout.tp, (long long)c->layout.pp, (long long)c->layout.chunks,
            (long long)c->layout.cp, (long long)c->layout.micro_batch,
            show_recompute(c->layout.recompute));
    for (int i = 0; i < SHOW_PARTS; i++) {
        double width = BAR * parts[i].seconds / longest;

        if (width <= 0)
            continue;
        fprintf(stream,
                "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" fill=\"%s\">"
                "<title>%s: %.4g s</title></rect>\n",
                x, y, width, THICK, parts[i].color, parts[i].name, parts[i].seconds);
        x += width;
    }
    fprintf(stream, "<text x=\"%.2f\" y=\"%.0f\">%.3g s</text>\n", x + 6, y + 13, c->time.total);
}

void show_svg(const struct show *show, FILE *stream)
{
    const struct search *search = show->search;
    size_t rows = search->count < show->top ? search->count : show->top;
    double longest = 0;

    for (size_t i = 0; i < rows; i++)
        if (search->items[i].time.total > longest)
            longest = search->items[i].time.total;
    fprintf(stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%zu\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"10\" y=\"20\" font-size=\"15\">Time of a step by part: ",
            LABEL + BAR + NUMBER, TOP + rows * ROW + 10);
    print_escaped(show->model, stream);
    fprintf(stream, " on %lld ", (long long)show->request->nodes);
    print_escaped(show->request->machine->name, stream);
    fprintf(stream, "</text>\n");
    draw_key(stream);
    for (size_t i = 0; i < rows; i++)
        draw_bar(&search->items[i], i, longest, stream);
    fprintf(stream, "</svg>\n");
}
