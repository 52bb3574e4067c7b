#include "config.h"
#include "workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { MOST = 64 };

struct shared_loop {
    atomic_int_least64_t next;
    atomic_int failed;
    int64_t count;
    int (*task)(void *arg, int64_t i, struct error *err);
    void *arg;
    struct error err;
};

static void *work(void *arg)
{
    struct shared_loop *loop = arg;
    struct error err;

    while (!atomic_load(&loop->failed)) {
        int64_t i = atomic_fetch_add(&loop->next, 1);

        if (i >= loop->count)
            break;
        err.text[0] = '\0';
        /* Only the first to fail may write the shared error; it is read after all have ended. */
        if (loop->task(loop->arg, i, &err) < 0 && atomic_exchange(&loop->failed, 1) == 0)
            loop->err = err;
    }
    return NULL;
}

int workers_run(int threads, int64_t count, int (*task)(void *arg, int64_t i, struct error *err),
                void *arg, struct error *err)
{
    struct shared_loop loop = {.count = count, .task = task, .arg = arg};
    pthread_t others[MOST];
    int started = 0;

    if (threads > MOST)
        threads = MOST;
    while (started < threads - 1 && started < count - 1) {
        if (pthread_create(&others[started], NULL, work, &loop) != 0)
            break;
        started++;
    }
    work(&loop);
    for (int i = 0; i < started; i++)
        pthread_join(others[i], NULL);
    if (!atomic_load(&loop.failed))
        return 0;
    if (err)
        *err = loop.err;
    return -1;
}

int workers_count(int wanted)
{
    cpu_set_t cpus;

    if (wanted > 0)
        return wanted < MOST ? wanted : MOST;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
        return 1;
    return CPU_COUNT(&cpus) < 16 ? CPU_COUNT(&cpus) : 16;
}
