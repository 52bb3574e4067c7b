/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "threads.h"
#include "lib/cpuset.h"
#include "xmalloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct threads {
    int count;   /* including the caller */
    int started; /* workers */
    pthread_t *workers;
    pthread_mutex_t lock;
    pthread_cond_t wake, finished;
    int64_t job; /* number of the current job; the workers wait for it to change */
    bool stop;
    int busy; /* workers that have not finished the job */
    void (*task)(void *context, int64_t i);
    void *context;
    int64_t tasks;
    atomic_int_fast64_t next; /* next task to run */
};

static void take_tasks(struct threads *threads)
{
    for (;;) {
        int64_t i = atomic_fetch_add(&threads->next, 1);

        if (i >= threads->tasks)
            return;
        threads->task(threads->context, i);
    }
}

static void *worker(void *argument)
{
    struct threads *threads = argument;
    int64_t seen = 0;

    pthread_mutex_lock(&threads->lock);
    for (;;) {
        while (threads->job == seen && !threads->stop)
            pthread_cond_wait(&threads->wake, &threads->lock);
        if (threads->stop)
            break;
        seen = threads->job;
        pthread_mutex_unlock(&threads->lock);
        take_tasks(threads);
        pthread_mutex_lock(&threads->lock);
        if (--threads->busy == 0)
            pthread_cond_signal(&threads->finished);
    }
    pthread_mutex_unlock(&threads->lock);
    return NULL;
}

struct threads *threads_create(int count, struct error *err)
{
    struct threads *threads = xcalloc(1, sizeof(*threads));

    threads->count = count > 0 ? count : cpuset_usable();
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->wake, NULL);
    pthread_cond_init(&threads->finished, NULL);
    threads->workers = xcalloc((size_t)threads->count, sizeof(*threads->workers));
    for (int i = 1; i < threads->count; i++) {
        int rc = pthread_create(&threads->workers[threads->started], NULL, worker, threads);

        if (rc != 0) {
            error_set_errno(err, rc, "cannot start thread %d of %d", i + 1, threads->count);
            threads_destroy(threads);
            return NULL;
        }
        threads->started++;
    }
    return threads;
}

void threads_destroy(struct threads *threads)
{
    if (!threads)
        return;
    pthread_mutex_lock(&threads->lock);
    threads->stop = true;
    pthread_cond_broadcast(&threads->wake);
    pthread_mutex_unlock(&threads->lock);
    for (int i = 0; i < threads->started; i++)
        pthread_join(threads->workers[i], NULL);
    pthread_mutex_destroy(&threads->lock);
    pthread_cond_destroy(&threads->wake);
    pthread_cond_destroy(&threads->finished);
    free(threads->workers);
    free(threads);
}

int threads_count(const struct threads *threads)
{
    return threads->count;
}

void threads_run(struct threads *threads, int64_t tasks, void (*task)(void *context, int64_t i),
                 void *context)
{
    if (tasks <= 1 || threads->started == 0) {
        for (int64_t i = 0; i < tasks; i++)
            task(context, i);
        return;
    }
    pthread_mutex_lock(&threads->lock);
    threads->task = task;
    threads->context = context;
    threads->tasks = tasks;
    atomic_store(&threads->next, 0);
    threads->busy = threads->started;
    threads->job++;
    pthread_cond_broadcast(&threads->wake);
    pthread_mutex_unlock(&threads->lock);
    take_tasks(threads);
    pthread_mutex_lock(&threads->lock);
    while (threads->busy > 0)
        pthread_cond_wait(&threads->finished, &threads->lock);
    pthread_mutex_unlock(&threads->lock);
}

/* --- A loop whose tasks can fail -------------------------------------------------------------- */

struct loop {
    int (*task)(void *context, int64_t i, struct error *err);
    void *context;
    atomic_int failed;
    struct error err;
};

static void run_task(void *argument, int64_t i)
{
    struct loop *loop = argument;
    struct error err = {.text = ""};

    /* Only the first task to fail writes the shared error; it is read after all have finished. */
    if (!atomic_load(&loop->failed) && loop->task(loop->context, i, &err) < 0 &&
        atomic_exchange(&loop->failed, 1) == 0)
        loop->err = err;
}

int threads_loop(int count, int64_t tasks, int (*task)(void *context, int64_t i, struct error *err),
                 void *context, struct error *err)
{
    struct loop loop = {.task = task, .context = context};
    struct threads *threads = NULL;

    if (tasks < count)
        count = (int)tasks;
    for (; count > 1 && !threads; count /= 2)
        threads = threads_create(count, NULL);
    if (threads)
        threads_run(threads, tasks, run_task, &loop);
    else
        for (int64_t i = 0; i < tasks; i++)
            run_task(&loop, i);
    threads_destroy(threads);
    if (!atomic_load(&loop.failed))
        return 0;
    if (err)
        *err = loop.err;
    return -1;
}
