/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* A data directory: opened, its meta, and closed. */
#include "server/data/data_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/time.h"

uint64_t data_clock_ms(const struct data *d)
{
	return d->store ? store_now_ns(d->store) / NS_PER_MS : time_wall_ms();
}

int data_raise_life(struct data *d, uint64_t life, struct error *err)
{
	struct data_meta next = d->meta;
	int rc;

	if (life > LIFE_MAX)
		return error_set(err, -EOVERFLOW,
				 "%s has had %llu lives, and there are no more (copy its records "
				 "into a new directory with kv-cli)",
				 d->path, (unsigned long long)LIFE_MAX);
	next.life = life;
	next.clock_ms = data_clock_ms(d);
	rc = meta_write(d->io, &next, err);
	if (rc)
		return rc;
	d->meta = next;
	atomic_store_explicit(&d->life, life, memory_order_relaxed); /* a figure, for people */
	return 0;
}

static int ends_with(void *arg, const char *file)
{
	size_t len = strlen(file);
	const char *end = arg;

	return len > strlen(end) && strcmp(file + len - strlen(end), end) == 0;
}

/* No meta: then there must be nothing that needs it. */
static int check_orphans(const struct data *d, struct error *err)
{
	if (data_is_empty(d))
		return 0;
	return error_set(err, -EUCLEAN,
			 "%s/meta is missing, and log/ or snapshot/ has files: without it nobody "
			 "knows what they are (put it back from a copy of the directory)",
			 d->path);
}

/* Of list(): what cannot be looked at may have anything. */
static bool is_none(int rc)
{
	return rc == 0 || rc == -ENOENT;
}

bool data_is_empty(const struct data *d)
{
	char segment[] = ".log", snapshot[] = ".snap";

	return is_none(d->io->list(d->io->ctx, "log", ends_with, segment)) &&
	       is_none(d->io->list(d->io->ctx, "snapshot", ends_with, snapshot));
}

int data_make_meta(struct data *d, const struct data_meta *was, struct error *err)
{
	struct data_meta *m = &d->meta;
	int rc;

	*m = (struct data_meta){ .magic = META_MAGIC, .format = META_FORMAT };
	rc = random_fill(m->store, sizeof(m->store), err);
	if (rc == 0 && was) {
		memcpy(m->cluster, was->cluster, sizeof(m->cluster));
		m->group = was->group;
		m->place = was->place;
		m->term = was->term;
		m->hash_seed = was->hash_seed;
	} else if (rc == 0) {
		rc = random_fill(&m->hash_seed, sizeof(m->hash_seed), err);
	}
	return rc ? rc : data_raise_life(d, 0, err);
}

static int make_meta(struct data *d, struct error *err)
{
	int rc = data_has_aside(d->io) ? data_finish_aside(d, err) : check_orphans(d, err);

	return rc ? rc : data_make_meta(d, NULL, err);
}

static int make_folders(struct data *d, struct error *err)
{
	int rc = d->io->make_dir(d->io->ctx, "log");

	if (rc == 0)
		rc = d->io->make_dir(d->io->ctx, "snapshot");
	if (rc == 0)
		rc = d->io->sync_dir(d->io->ctx, "");
	return rc ? error_set(err, rc, "making the folders of %s failed: %s (make it writable)",
			      d->path, error_name(rc))
		  : 0;
}

static int take_meta(struct data *d, struct error *err)
{
	int rc = meta_read(d->io, &d->meta, err);

	if (rc == -ENOENT)
		rc = make_meta(d, err);
	if (rc)
		return error_prefix(err, "--data-dir %s", d->path);
	atomic_store_explicit(&d->life, d->meta.life, memory_order_relaxed);
	return 0;
}

static int remember_temporary(void *arg, const char *file)
{
	char *name = arg;
	size_t len = strlen(file);

	if (len < 5 || len > 40 || strcmp(file + len - 4, ".tmp") != 0)
		return 0;
	strcpy(name, "snapshot/");
	strcat(name, file);
	return 1;
}

/* What a snapshot left that was never finished. */
static void remove_temporary(struct data *d)
{
	char name[64];

	for (unsigned i = 0; i < SNAPSHOTS_MAX; i++) {
		if (d->io->list(d->io->ctx, "snapshot", remember_temporary, name) != 1)
			return;
		log_info("data", "%s/%s was never finished, and is removed", d->path, name);
		if (d->io->unlink(d->io->ctx, name))
			return;
	}
}

int data_open(struct data **out, const struct data_config *config, struct error *err)
{
	struct data *d = calloc(1, sizeof(*d));
	int rc = 0;

	if (d)
		d->path = strdup(config->path);
	if (!d || !d->path) {
		free(d);
		return error_set(err, -ENOMEM, "out of memory for --data-dir");
	}
	d->config = *config;
	d->config.path = d->path;
	d->io = config->io;
	pthread_mutex_init(&d->snapshots.lock, NULL);
	pthread_cond_init(&d->snapshots.changed, NULL);
	if (!d->io) {
		rc = log_io_kernel(&d->kernel, d->path, true, err);
		if (rc == 0)
			d->io = &d->kernel;
	}
	if (rc == 0)
		rc = make_folders(d, err);
	if (rc == 0)
		rc = take_meta(d, err);
	if (rc) {
		data_close(d);
		return rc;
	}
	remove_temporary(d);
	d->was_member = d->meta.group && (!data_is_empty(d) || data_has_aside(d->io));
	*out = d;
	return 0;
}

uint64_t data_hash_seed(const struct data *d)
{
	return d->meta.hash_seed;
}

bool data_was_member(const struct data *d)
{
	return d->was_member;
}

uint64_t data_life(const struct data *d)
{
	return d->meta.life;
}

struct log *data_log(const struct data *d)
{
	return d->log;
}

int data_close(struct data *d)
{
	int rc = 0;

	if (!d)
		return 0;
	if (d->log)
		rc = log_close(d->log);
	if (d->io && d->io == &d->kernel)
		log_io_kernel_close(&d->kernel);
	pthread_cond_destroy(&d->snapshots.changed);
	pthread_mutex_destroy(&d->snapshots.lock);
	free(d->path);
	free(d);
	return rc;
}

void data_stats_get(struct data *d, struct data_stats *out)
{
	struct data_snapshots *s = &d->snapshots;

	*out = (struct data_stats){
		.life = atomic_load_explicit(&d->life, memory_order_relaxed),
		.recovery_ms = d->recovery_ms,
		.recovery_records = d->recovery_records,
		.recovery_bytes = d->recovery_bytes,
		.recovery_rewritten_bytes = d->recovery_rewritten_bytes,
		.snapshots = atomic_load_explicit(&s->done, memory_order_relaxed),
		.snapshots_failed = atomic_load_explicit(&s->failed, memory_order_relaxed),
		.snapshot_progress = atomic_load_explicit(&s->progress, memory_order_relaxed),
		.snapshot_total = atomic_load_explicit(&s->total, memory_order_relaxed),
	};
	pthread_mutex_lock(&s->lock);
	out->snapshot_wanted = s->wanted;
	out->snapshot_time_ms = s->newest.time_ms;
	out->snapshot_start = s->newest.start;
	out->snapshot_bytes = s->newest.bytes;
	out->snapshot_took_ms = s->newest.took_ms;
	pthread_mutex_unlock(&s->lock);
	log_stats_get(d->log, &out->log);
}
