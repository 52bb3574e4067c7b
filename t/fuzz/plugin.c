/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what the plugin reads from users, scripts and administrators. The first byte selects
 * the reader; the rest is NUL-separated words. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "spank/checks.h"
#include "spank/handoff.h"
#include "spank/rendezvous.h"
#include "spank/request.h"
#include "spank/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WORDS = 256 };

static int split(char *text, size_t size, char **words)
{
    int count = 0;

    for (char *word = text; word < text + size && count < WORDS - 1; word += strlen(word) + 1)
        words[count++] = word;
    words[count] = NULL;
    return count;
}

static void read_request(int reader, char *text, size_t size, char **words, int count)
{
    struct request request;
    int64_t values[4];

    request_init(&request, (enum program)(reader % 3));
    if (reader < 3)
        request_script(&request, text, size);
    else if (reader < 6)
        request_environment(&request, words);
    if (reader >= 6 && request_arguments(&request, count, words, count) > count && count > 0)
        abort();
    values[0] = request_tasks(&request);
    values[1] = request_nodes(&request);
    values[2] = request_tasks_per_node(&request);
    values[3] = request_gpus_per_node(&request);
    for (int i = 0; i < 4; i++)
        if (values[i] < -1)
            abort();
}

/* Arguments of plugstack.conf, then option values, then all checks. */
static void read_settings(char **words, int count)
{
    struct config config;
    struct settings settings;
    struct error err;
    struct counts counts = {count, 1, count, count / 2};

    memset(&settings, 0, sizeof(settings));
    config_parse(&config, count / 2, words);
    for (int i = count / 2; i < count; i++)
        settings_give(&settings, (enum option_id)((unsigned char)words[i][0] % OPTION_COUNT),
                      words[i][0] ? words[i] + 1 : NULL);
    config.bad = false; /* check the rest too */
    if (settings_resolve(&settings, &config, &err) == 0)
        check_counts(&settings, &counts, &err);
    if (settings_used(&settings, &config) && !config.always && !settings_any(&settings))
        abort();
    settings_clear(&settings);
    config_clear(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *words[WORDS], *text;
    struct handoff handoff;
    int count;

    if (size < 1)
        return 0;
    text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    count = split(text, size, words);
    if (data[0] % 11 < 9)
        read_request(data[0] % 11, text, size - 1, words, count);
    else if (data[0] % 11 == 9)
        read_settings(words, count);
    else {
        memset(&handoff, 0, sizeof(handoff));
        handoff_parse(&handoff, text);
        if (handoff.port < 0 || handoff.port > 65535 || rendezvous_reserved(text) > 65535)
            abort();
    }
    free(text);
    return 0;
}
