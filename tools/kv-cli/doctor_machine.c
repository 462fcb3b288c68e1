/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* doctor: limits and settings of the machine, as they bind RDMA. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/memory_default.h"
#include "common/layout/limits.h"
#include "tools/kv-cli/doctor.h"
#include "tools/kv-cli/text.h"

#define CAP_IPC_LOCK_BIT   14 /* linux/capability.h */
#define CAP_SYS_PTRACE_BIT 19
#define NOFILE_WISH	   1024u
#define HUGEPAGES	   "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define MEMLOCK_REMEDY                                                                  \
	"'ulimit -l unlimited', a memlock line in /etc/security/limits.conf and a new " \
	"login (deploy/rxe-up writes one), or LimitMEMLOCK=infinity in the systemd unit"

static const char *path_of(const struct doctor_machine *m, const char *path, char out[512])
{
	snprintf(out, 512, "%s%s", m->root, path);
	return out;
}

static bool there(const struct doctor_machine *m, const char *path)
{
	char whole[512];

	return access(path_of(m, path, whole), F_OK) == 0;
}

/* The first line of a small file. Returns false where there is none. */
static bool first_line(const struct doctor_machine *m, const char *path, char *text, size_t cap)
{
	char whole[512];
	FILE *f = fopen(path_of(m, path, whole), "re");
	bool got = f && fgets(text, (int)cap, f);

	if (f)
		fclose(f);
	if (!got)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return true;
}

static bool number_in(const struct doctor_machine *m, const char *path, uint64_t *out)
{
	char text[64], *end;

	if (!first_line(m, path, text, sizeof(text)))
		return false;
	*out = strtoull(text, &end, 10);
	return end != text;
}

static uint64_t capabilities(void)
{
	char line[128];
	uint64_t caps = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "CapEff: %" SCNx64, &caps) == 1)
			break;
	}
	if (f)
		fclose(f);
	return caps;
}

void doctor_machine_here(struct doctor_machine *m)
{
	static struct utsname name;
	uint64_t caps = capabilities();

	uname(&name);
	*m = (struct doctor_machine){
		.root = "",
		.release = name.release,
		.may_lock = caps >> CAP_IPC_LOCK_BIT & 1,
		.may_trace = caps >> CAP_SYS_PTRACE_BIT & 1,
		.server_memory = memory_default(SLAB_BYTES),
	};
	getrlimit(RLIMIT_MEMLOCK, &m->memlock);
	getrlimit(RLIMIT_NOFILE, &m->nofile);
}

static const char *limit_words(char text[TEXT_SIZE_MAX], rlim_t limit)
{
	if (limit == RLIM_INFINITY)
		snprintf(text, TEXT_SIZE_MAX, "unlimited");
	else
		text_size_binary(text, limit);
	return text;
}

static void look_at_memlock(const struct doctor_machine *m, bool hardware, json_t *out)
{
	char soft[TEXT_SIZE_MAX], hard[TEXT_SIZE_MAX], want[TEXT_SIZE_MAX];
	bool fits = m->memlock.rlim_cur == RLIM_INFINITY ||
		    m->memlock.rlim_cur / 2 >= m->server_memory / 2 + (SLAB_BYTES * 16);

	limit_words(soft, m->memlock.rlim_cur);
	limit_words(hard, m->memlock.rlim_max);
	text_size_binary(want, m->server_memory);
	if (fits)
		finding_add(out, FINDING_OK, "locked memory", "",
			    "limit %s (hard %s): kv-server's default of %s fits", soft, hard, want);
	else if (m->may_lock)
		finding_add(out, FINDING_OK, "locked memory", "",
			    "limit %s (hard %s), which does not bind this user (CAP_IPC_LOCK)",
			    soft, hard);
	else
		finding_add(out, hardware ? FINDING_PROBLEM : FINDING_NOTE, "locked memory",
			    MEMLOCK_REMEDY,
			    "limit %s (hard %s): kv-server's default of %s cannot be registered%s",
			    soft, hard, want, hardware ? "" : " on real devices; soft0 locks none");
}

/* "always [madvise] never" becomes "madvise". */
static void chosen(char *text)
{
	char *from = strchr(text, '['), *to = from ? strchr(from, ']') : NULL;

	if (to) {
		memmove(text, from + 1, (size_t)(to - from - 1));
		text[to - from - 1] = '\0';
	}
}

static void look_at_hugepages(const struct doctor_machine *m, json_t *out)
{
	char thp[128] = "?", shmem[128] = "?";
	uint64_t reserved = 0, unused = 0;
	bool shared;

	number_in(m, HUGEPAGES "nr_hugepages", &reserved);
	number_in(m, HUGEPAGES "free_hugepages", &unused);
	first_line(m, "/sys/kernel/mm/transparent_hugepage/enabled", thp, sizeof(thp));
	first_line(m, "/sys/kernel/mm/transparent_hugepage/shmem_enabled", shmem, sizeof(shmem));
	chosen(thp);
	chosen(shmem);
	shared = strstr("always advise within_size force", shmem) != NULL;
	finding_add(out, unused || shared ? FINDING_OK : FINDING_NOTE, "hugepages",
		    unused || shared ? ""
				     : "fewer translations for CPU and NIC: 'echo advise > "
				       "/sys/kernel/mm/transparent_hugepage/shmem_enabled', or "
				       "reserve some in /proc/sys/vm/nr_hugepages",
		    "2 MiB: %" PRIu64 " reserved, %" PRIu64 " free; transparent: %s; for shared "
		    "memory, as kv-server's: %s",
		    reserved, unused, thp, shmem);
}

static bool in_container(const struct doctor_machine *m)
{
	return there(m, "/.dockerenv") || there(m, "/run/.containerenv") ||
	       there(m, "/run/systemd/container");
}

/* rdma_rxe of the running kernel: in it, or to be had. */
static void look_at_rxe(const struct doctor_machine *m, json_t *out)
{
	static const char *const ends[] = { "", ".xz", ".zst", ".gz" };
	char path[400];
	bool found = false;

	if (there(m, "/sys/module/rdma_rxe")) {
		finding_add(out, FINDING_OK, "Soft-RoCE", "",
			    "rdma_rxe is loaded; deploy/rxe-up adds links");
		return;
	}
	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]) && !found; i++) {
		snprintf(path, sizeof(path),
			 "/lib/modules/%.128s/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko%s",
			 m->release, ends[i]);
		found = there(m, path);
	}
	if (found && !in_container(m))
		finding_add(out, FINDING_OK, "Soft-RoCE", "sudo deploy/rxe-up makes a device",
			    "rdma_rxe is there for kernel %s and not loaded", m->release);
	else if (in_container(m))
		finding_add(out, FINDING_NOTE, "Soft-RoCE",
			    "run deploy/rxe-up on the host, and give the container "
			    "/dev/infiniband; soft0 needs neither",
			    "this is a container: modules belong to its host");
	else
		finding_add(out, FINDING_NOTE, "Soft-RoCE",
			    "deploy/rxe-up says what to install; soft0 needs no module",
			    "no rdma_rxe for kernel %s%s", m->release,
			    strstr(m->release, "cloud") ? ", a cloud kernel, built without it"
							: "");
}

/* The first node of a device, whatever its number. */
static const char *verbs_node(const struct doctor_machine *m, char out[64])
{
	char whole[512];

	for (unsigned i = 0; i < SURVEY_DEVICES_MAX; i++) {
		snprintf(out, 64, "/dev/infiniband/uverbs%u", i);
		if (access(path_of(m, out, whole), F_OK) == 0)
			break;
	}
	return out;
}

static void look_at_nodes(const struct doctor_machine *m, bool hardware, json_t *out)
{
	char path[512], node[64];

	if (!there(m, "/dev/infiniband")) {
		finding_add(
			out, hardware ? FINDING_PROBLEM : FINDING_NOTE, "/dev/infiniband",
			"load ib_uverbs and the device's driver (lspci shows a NIC; "
			"deploy/rxe-up makes a device of any), or stay with soft0",
			"not there: no RDMA driver is loaded, or this container was not given it");
		return;
	}
	if (access(path_of(m, verbs_node(m, node), path), F_OK))
		finding_add(
			out, hardware ? FINDING_PROBLEM : FINDING_NOTE, "/dev/infiniband",
			"load the device's driver; in a container: give it the device nodes",
			"there, but without uverbs0 and others: no device is registered with ib_uverbs");
	else if (access(path, R_OK | W_OK))
		finding_add(out, hardware ? FINDING_PROBLEM : FINDING_NOTE, "/dev/infiniband",
			    "chmod 666 /dev/infiniband/uverbs* (rdma-core's udev rules do so)",
			    "%s may not be opened by this user: %s", node, error_name(errno));
	else
		finding_add(out, FINDING_OK, "/dev/infiniband", "", "%s may be opened", node);
	path_of(m, "/dev/infiniband/rdma_cm", path);
	if (access(path, R_OK | W_OK))
		finding_add(out, FINDING_NOTE, "rdma_cm",
			    "for --connect cm only: modprobe rdma_ucm; TCP needs it not",
			    "/dev/infiniband/rdma_cm: %s", error_name(errno));
	else
		finding_add(out, FINDING_OK, "rdma_cm", "",
			    "/dev/infiniband/rdma_cm may be opened");
}

static void look_at_ptrace(const struct doctor_machine *m, json_t *out)
{
	uint64_t scope = 0;

	if (!number_in(m, "/proc/sys/kernel/yama/ptrace_scope", &scope))
		finding_add(out, FINDING_OK, "ptrace scope", "",
			    "no Yama: soft0 copies between processes of one user");
	else if (scope <= 1)
		finding_add(out, FINDING_OK, "ptrace scope", "",
			    "Yama %" PRIu64 ": soft0 copies between processes of one user", scope);
	else if (scope == 2 && m->may_trace)
		finding_add(out, FINDING_OK, "ptrace scope", "",
			    "Yama 2: soft0 copies for this user (CAP_SYS_PTRACE), not for others");
	else
		finding_add(
			out, FINDING_NOTE, "ptrace scope",
			"sysctl kernel.yama.ptrace_scope=1 (3 lasts until a reboot), or register "
			"shared memory, as GraceKV does itself",
			"Yama %" PRIu64 ": on soft0, memory that is not shared cannot be read or "
			"written by other processes",
			scope);
}

static void look_at_files(const struct doctor_machine *m, json_t *out)
{
	bool few = m->nofile.rlim_max < NOFILE_WISH;

	finding_add(out, few ? FINDING_NOTE : FINDING_OK, "open files",
		    few ? "ulimit -n 4096, or LimitNOFILE= in the systemd unit" : "",
		    "%" PRIu64 " (hard %" PRIu64 "): a client of kv-server takes one, and one for "
		    "each handle",
		    (uint64_t)m->nofile.rlim_cur, (uint64_t)m->nofile.rlim_max);
}

/* Of the control group this process sees as its own (cgroup v2, and in containers). */
static void look_at_cgroup(const struct doctor_machine *m, json_t *out)
{
	char text[TEXT_SIZE_MAX], want[TEXT_SIZE_MAX];
	uint64_t max;
	bool fits;

	if (!number_in(m, "/sys/fs/cgroup/memory.max", &max) &&
	    !number_in(m, "/sys/fs/cgroup/memory/memory.limit_in_bytes", &max))
		return;
	if (max >> 50) /* the first version's way to say "none" */
		return;
	fits = max > m->server_memory;
	text_size_binary(text, max);
	text_size_binary(want, m->server_memory);
	finding_add(out, fits ? FINDING_OK : FINDING_PROBLEM, "control group",
		    fits ? "" : "raise the limit, or give kv-server less --memory",
		    "memory up to %s; kv-server takes %s by default", text, want);
}

json_t *doctor_machine(const struct doctor_machine *m, bool hardware)
{
	json_t *findings = json_array();

	if (!findings)
		return NULL;
	look_at_memlock(m, hardware, findings);
	look_at_cgroup(m, findings);
	look_at_hugepages(m, findings);
	look_at_nodes(m, hardware, findings);
	look_at_rxe(m, findings);
	look_at_ptrace(m, findings);
	look_at_files(m, findings);
	return json_pack("{s:s, s:b, s:I, s:o}", "kernel", m->release, "container",
			 (int)in_container(m), "server_memory_default_bytes",
			 (json_int_t)m->server_memory, "findings", findings);
}

void doctor_machine_print(const json_t *machine, FILE *out)
{
	fprintf(out, "Machine (kernel %s)\n",
		json_string_value(json_object_get(machine, "kernel")));
	findings_print(json_object_get(machine, "findings"), out);
}
