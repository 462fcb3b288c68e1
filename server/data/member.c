/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/*
 * The data directory of a group's member.
 *
 * WHAT META SAYS OF A LIFE. A primary has all that it acknowledged on its disk, so after a power
 * cut of all servers the store can go on from there: but only from the last primary's directory,
 * which etcd names, and only if what it had when it became primary is there, too. `whole` has the
 * lives of which this is so. It is written when all that the member holds is durable, and before
 * it acknowledges anything (data_vouch()): by a backup that takes over, before it answers anybody;
 * by a server that begins with its directory, before it asks etcd to be primary in its new life.
 * In that moment etcd may name the old life or the new one, so meta has two; that no third one is
 * named later is member_role.c's part (may_come_late()).
 *
 * Where --sync is not "always" the disk may lack what was acknowledged, while the kernel has it: so
 * then it counts only until the machine starts another time.
 *
 * A copy, and what was restored from a back-up, may lack what was acknowledged since, and does not
 * know it. So meta counts only in the directory in which it was written: `place`. A copy has
 * another inode number or another time of birth; one that was moved on its file system, or whose
 * disk was attached to another machine, has the same. Nor does a copy give anything back, as what
 * it was copied from may have answered since then. (What a file system or a disk restores as a
 * whole is not told apart: docs/CLUSTER.md says so.)
 *
 * A life that is in `whole` may have answered somebody, whatever is to be said of its log; one that
 * is not has answered nobody. So a server that etcd names in such a life gives back to the primary
 * before it (member_role.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/mutant.h"
#include "server/data/data_internal.h"

#define NO_BOOT 2u /* like none that read_boot() finds: nobody can tell */

/* The kernel's boot_id: proc_sys_kernel(5). 0, 0: it has none. */
static void read_boot(uint64_t out[2])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	char text[64] = "";

	out[0] = out[1] = 0;
	if (!f)
		return;
	if (fgets(text, sizeof(text), f)) {
		out[0] = hash_bytes(text, strlen(text));
		out[1] = 1;
	}
	fclose(f);
}

/* statx(2). 0: the kernel does not tell, and copies are not recognized. */
static uint32_t place_of(const char *path)
{
	struct {
		uint64_t inode;
		int64_t s;
		uint64_t ns;
	} place = { 0 };
	struct statx s;
	uint32_t hash;

	if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME, &s))
		return 0;
	place.inode = s.stx_ino;
	if (s.stx_mask & STATX_BTIME) {
		place.s = s.stx_btime.tv_sec;
		place.ns = s.stx_btime.tv_nsec;
	}
	hash = (uint32_t)hash_bytes(&place, sizeof(place));
	return hash ? hash : 1;
}

bool data_is_copy(const struct data *d)
{
	return d->meta.group && d->meta.place != place_of(d->path) && !MUTANT(any_place);
}

static int check(const struct data *d, const struct data_member *of, struct error *err)
{
	const struct data_meta *m = &d->meta;

	if (m->group && memcmp(m->cluster, of->cluster, sizeof(m->cluster)) != 0)
		return error_set(err, -EXDEV,
				 "--data-dir %s: a server of another cluster wrote it (give it the "
				 "--cluster and --etcd that it had, or an empty directory)",
				 d->path);
	if (m->group && m->group != of->group)
		return error_set(err, -EXDEV,
				 "--data-dir %s: a server of another group wrote it (give it the "
				 "--group that it had, or an empty directory)",
				 d->path);
	if (m->hash_seed != of->hash_seed && !data_is_empty(d))
		return error_set(err, -EXDEV,
				 "--data-dir %s: its records are in another order than those of "
				 "the cluster, which has been founded by another server (give it "
				 "an empty directory, and copy the records with kv-cli)",
				 d->path);
	return 0;
}

static int write_meta(struct data *d, const struct data_meta *next, struct error *err)
{
	struct data_meta m = *next;
	int rc;

	if (m.group)
		m.place = place_of(d->path);
	rc = meta_write(d->io, &m, err);
	if (rc == 0)
		d->meta = m;
	return rc;
}

int data_join(struct data *d, const struct data_member *of, struct error *err)
{
	struct data_meta next = d->meta;
	int rc = check(d, of, err);

	if (rc)
		return rc;
	if (data_is_copy(d))
		log_warn("data",
			 "%s is a copy of a member's directory, or was restored: it may lack what "
			 "that member acknowledged since, and vouches for nothing",
			 d->path);
	d->in_group = true;
	d->of = *of;
	if (next.hash_seed == of->hash_seed)
		return 0;
	next.hash_seed = of->hash_seed; /* there are no records yet */
	return write_meta(d, &next, err);
}

/* It has led in that term, or learns in it. */
static void belongs(const struct data *d, uint64_t term, struct data_meta *m)
{
	m->group = d->of.group;
	memcpy(m->cluster, d->of.cluster, sizeof(m->cluster));
	if (term > m->term)
		m->term = term;
}

void data_proposes(const struct data *d, struct data_member *out)
{
	if (d->meta.group)
		memcpy(out->cluster, d->meta.cluster, sizeof(out->cluster));
	if (d->meta.group || !data_is_empty(d))
		out->hash_seed = d->meta.hash_seed;
}

int data_alone(const struct data *d, struct error *err)
{
	return d->meta.group
		       ? error_set(err, -EXDEV,
				   "--data-dir %s: a member of a group wrote it, and others "
				   "may have newer records (give it the --cluster, --group and "
				   "--etcd that it had; kv-cluster force makes it go on alone)",
				   d->path)
		       : 0;
}

unsigned data_vouches(const struct data *d, uint64_t lives[2])
{
	uint64_t boot[2];

	lives[0] = lives[1] = 0;
	if (data_is_copy(d))
		return 0;
	read_boot(boot);
	if ((d->meta.boot[0] | d->meta.boot[1]) &&
	    (!boot[1] || memcmp(boot, d->meta.boot, sizeof(boot)) != 0) && !MUTANT(any_boot))
		return 0;
	memcpy(lives, d->meta.whole, sizeof(d->meta.whole));
	return !!lives[0] + !!lives[1];
}

void data_answered(const struct data *d, uint64_t lives[2])
{
	memcpy(lives, d->meta.whole, sizeof(d->meta.whole));
}

static int vouch(struct data *d, struct data_meta *next, uint64_t life, uint64_t named,
		 struct error *err)
{
	const bool known =
		named && !data_is_copy(d) && (named == next->whole[0] || named == next->whole[1]);

	next->whole[1] = known && named != life ? named : 0;
	next->whole[0] = life;
	next->boot[0] = next->boot[1] = 0;
	if (d->config.sync != LOG_SYNC_ALWAYS) {
		read_boot(next->boot);
		if (!next->boot[1])
			next->boot[1] = NO_BOOT;
	}
	return write_meta(d, next, err);
}

int data_vouch(struct data *d, uint64_t life, uint64_t named, struct error *err)
{
	struct data_meta next = d->meta;

	return vouch(d, &next, life, named ? named : next.whole[0], err);
}

int data_lead(struct data *d, uint64_t life, uint64_t term, const struct log_mirror *mirror,
	      struct error *err)
{
	struct data_meta next = d->meta;
	int rc = MUTANT(vouch_early) ? 0 : log_await_durable(d->log, log_tail(d->log));

	if (rc)
		return error_set(
			err, rc,
			"the log of %s cannot be made durable (look at the disk and at the "
			"kernel's messages)",
			d->path);
	belongs(d, term, &next);
	rc = vouch(d, &next, life, 0, err);
	return rc ? rc : log_mirror(d->log, mirror, err);
}

int data_is_whole(const struct data *d, struct error *err)
{
	if (!data_has_aside(d->io))
		return 0;
	return error_set(err, -EEXIST,
			 "%s/aside has what this server had before it began to learn from another "
			 "one, and %s only a part of what that had (to go on with what is aside, "
			 "stop this server and put meta, log/ and snapshot/ of aside/ in the place "
			 "of those of the directory)",
			 d->path, d->path);
}

/* Whether nothing was ever written there: a server that wanted to found its group with it, and was
 * not the first, leaves a log without a record. */
static bool is_blank(const struct data *d)
{
	struct log_survey survey;
	struct error ignored;
	bool blank;

	if (data_is_empty(d))
		return true;
	blank = log_survey_make(&survey, d->io, d->meta.store, &ignored) == 0 && !survey.end;
	log_survey_free(&survey);
	return blank;
}

/* Whether it may be replaced by what another server has. */
static int check_replaced(const struct data *d, uint64_t term, struct error *err)
{
	if (is_blank(d))
		return 0;
	if (!d->was_member)
		return error_set(err, -EEXIST,
				 "--data-dir %s has records of no group, and another server has "
				 "founded the group without them (give it an empty directory, and "
				 "copy the records with kv-cli)",
				 d->path);
	if (term < d->meta.term)
		return error_set(err, -EEXIST,
				 "--data-dir %s has records of term %llu of its group, and the "
				 "primary is one of term %llu: etcd has lost what it had, and "
				 "another server has founded the group again (stop that one, and "
				 "let kv-cluster force name the server that goes on; or give this "
				 "one an empty directory)",
				 d->path, (unsigned long long)d->meta.term,
				 (unsigned long long)term);
	return 0;
}

int data_learn(struct data *d, struct store *store, struct clients *clients, uint64_t term,
	       uint64_t position, struct error *err)
{
	struct data_meta next;
	int rc = check_replaced(d, term, err);

	d->store = store;
	d->clients = clients;
	if (rc == 0)
		rc = data_set_aside(d, err);
	if (rc)
		return rc;
	next = d->meta;
	belongs(d, term, &next);
	rc = write_meta(d, &next, err);
	return rc ? rc : data_begin_log(d, &(struct log_config){ .first = position }, err);
}
