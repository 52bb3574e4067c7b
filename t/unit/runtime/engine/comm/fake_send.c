/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: swaps the first two numbers of every message between ranks in transit; with FAKE_END
 * the last two. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

typedef ssize_t send_function(int fd, const struct msghdr *message, int flags);

__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message,
                                                       int flags)
{
    send_function *real = (send_function *)dlsym(RTLD_NEXT, "sendmsg");
    struct iovec parts[2], *data = &parts[message->msg_iovlen - 1];
    struct msghdr changed = *message;
    int at_end = getenv("FAKE_END") != NULL;
    float *numbers, swapped;
    size_t first;
    ssize_t sent;

    if (message->msg_iovlen > 2)
        return real(fd, message, flags);
    memcpy(parts, message->msg_iov, message->msg_iovlen * sizeof(*parts));
    /* The first call for a message has its head, too. */
    if (data->iov_len < 2 * sizeof(float) || (!at_end && message->msg_iovlen < 2))
        return real(fd, message, flags);
    numbers = malloc(data->iov_len);
    if (!numbers)
        abort();
    memcpy(numbers, data->iov_base, data->iov_len);
    first = at_end ? data->iov_len / sizeof(float) - 2 : 0;
    swapped = numbers[first];
    numbers[first] = numbers[first + 1];
    numbers[first + 1] = swapped;
    data->iov_base = numbers;
    changed.msg_iov = parts;
    sent = real(fd, &changed, flags);
    free(numbers);
    return sent;
}
