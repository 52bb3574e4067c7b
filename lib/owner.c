/* SPDX-License-Identifier: Apache-2.0 */
#include "owner.h"
#include "checksum.h"
#include "clock.h"
#include "file.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

static void read_host(char host[65])
{
    struct utsname names;

    uname(&names);
    snprintf(host, 65, "%.64s", names.nodename);
    for (char *c = host; *c; c++)
        if (strchr("/@, \n", *c))
            *c = '_';
}

/* Identifies this boot and PID namespace, within which a PID is unique. 0 if /proc is not
 * available. */
static uint64_t read_place(void)
{
    struct file_bytes boot;
    struct stat space = {0};
    char place[128];

    if (file_read("/proc/sys/kernel/random/boot_id", 63, &boot, NULL) < 0)
        return 0;
    snprintf(place, sizeof(place), "%s/", boot.data);
    file_bytes_clear(&boot);
    if (place[0] == '/' || stat("/proc/self/ns/pid", &space) < 0)
        return 0;
    snprintf(place + strlen(place), 32, "%" PRIu64, (uint64_t)space.st_ino);
    return checksum_of(place, strlen(place));
}

void owner_name(char owner[OWNER_SIZE])
{
    char host[65];
    uint64_t number = 0;

    read_host(host);
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        number = (uint64_t)(clock_now() * 1e9);
    snprintf(owner, OWNER_SIZE, "%s,%d,%016" PRIx64 ",%016" PRIx64, host, (int)getpid(),
             read_place(), number);
}

size_t owner_length(const char *text)
{
    static const char hexadecimal[] = "0123456789abcdef";
    size_t host = strcspn(text, "/@, \n"), pid, length;

    if (host < 1 || host > 64 || text[host] != ',')
        return 0;
    length = host + 1;
    pid = strspn(text + length, "0123456789");
    if (pid < 1 || pid > 10)
        return 0;
    length += pid;
    for (int i = 0; i < 2; i++) {
        if (text[length] != ',' || strspn(text + length + 1, hexadecimal) < 16)
            return 0;
        length += 17;
    }
    return length;
}

enum owner_fate owner_fate(const char *text)
{
    char host[65], mine[65];
    uint64_t place, number;
    int pid;

    if (owner_length(text) == 0 ||
        sscanf(text, "%64[^,],%d,%16" SCNx64 ",%16" SCNx64, host, &pid, &place, &number) != 4 ||
        pid < 1)
        return OWNER_UNKNOWN;
    read_host(mine);
    if (strcmp(host, mine) != 0)
        return OWNER_ELSEWHERE;
    if (place == 0 || place != read_place())
        return OWNER_BEFORE;
    return kill(pid, 0) < 0 && errno == ESRCH ? OWNER_GONE : OWNER_LIVES;
}
