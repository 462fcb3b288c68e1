/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#include "tools/kv-cli/asker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/time.h"

struct asker {
	struct gkv *handle;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake; /* asked or ended has become true */
	bool asked, ended; /* by lock */
	struct answer answer; /* by lock */
	int fd; /* counts answers */
	bool busy; /* the caller's */
};

static struct answer asker_call(struct gkv *handle)
{
	struct answer answer = { 0 };
	int rc = gkv_server_stats(handle, &answer.text);
	const char *why;

	answer.at_ns = time_now_ns();
	if (rc) {
		why = gkv_error(handle);
		error_set(&answer.err, rc, "%s", why && why[0] ? why : gkv_strerror(rc));
		answer.text = NULL;
	}
	return answer;
}

static void *asker_run(void *arg)
{
	struct asker *a = arg;
	const uint64_t one = 1;
	struct answer answer;

	pthread_mutex_lock(&a->lock);
	while (!a->ended) {
		if (!a->asked) {
			pthread_cond_wait(&a->wake, &a->lock);
			continue;
		}
		a->asked = false;
		pthread_mutex_unlock(&a->lock);
		answer = asker_call(a->handle);
		pthread_mutex_lock(&a->lock);
		a->answer = answer;
		while (write(a->fd, &one, sizeof(one)) < 0 && errno == EINTR)
			continue;
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

int asker_start(struct asker **out, struct gkv *handle)
{
	struct asker *a = calloc(1, sizeof(*a));
	sigset_t all, before;
	int rc;

	if (!a)
		return -ENOMEM;
	a->handle = handle;
	a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->fd < 0) {
		rc = -errno;
		goto err_free;
	}
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->wake, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* the caller's thread has them all */
	rc = -pthread_create(&a->thread, NULL, asker_run, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		goto err_close;
	*out = a;
	return 0;

err_close:
	close(a->fd);
err_free:
	free(a);
	return rc;
}

int asker_fd(const struct asker *a)
{
	return a->fd;
}

/* Wake the thread, with one of its flags set. */
static void asker_tell(struct asker *a, bool *flag)
{
	pthread_mutex_lock(&a->lock);
	*flag = true;
	pthread_cond_signal(&a->wake);
	pthread_mutex_unlock(&a->lock);
}

void asker_ask(struct asker *a)
{
	a->busy = true;
	asker_tell(a, &a->asked);
}

bool asker_busy(const struct asker *a)
{
	return a->busy;
}

bool asker_take(struct asker *a, struct answer *out)
{
	uint64_t count;

	if (read(a->fd, &count, sizeof(count)) != sizeof(count))
		return false;
	pthread_mutex_lock(&a->lock);
	*out = a->answer;
	pthread_mutex_unlock(&a->lock);
	a->busy = false;
	return true;
}

bool asker_stop(struct asker *a, int patience_ms)
{
	struct pollfd answered = { .fd = a->fd, .events = POLLIN };
	struct answer answer;

	if (a->busy && poll(&answered, 1, patience_ms) == 0)
		return false;
	asker_tell(a, &a->ended);
	pthread_join(a->thread, NULL);
	if (asker_take(a, &answer))
		free(answer.text);
	pthread_cond_destroy(&a->wake);
	pthread_mutex_destroy(&a->lock);
	close(a->fd);
	free(a);
	return true;
}
