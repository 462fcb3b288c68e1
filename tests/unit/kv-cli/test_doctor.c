/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* doctor's judgement of machines and devices that are made here. */
#include "tests/lib/folder.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/kv-cli/doctor.h"

#define MIB (1ull << 20)

static struct doctor_machine machine(void)
{
	return (struct doctor_machine){
		.root = folder,
		.release = "6.1.0-9-amd64",
		.memlock = { RLIM_INFINITY, RLIM_INFINITY },
		.nofile = { 4096, 4096 },
		.server_memory = 1024 * MIB,
	};
}

/* "level: words -> remedy" of what was found about something; "" where nothing was. */
static const char *found(const struct doctor_machine *m, bool hardware, const char *about)
{
	static char text[2048];
	json_t *d = doctor_machine(m, hardware), *f;
	size_t i;

	assert_non_null(d);
	text[0] = '\0';
	json_array_foreach (json_object_get(d, "findings"), i, f) {
		if (strcmp(json_string_value(json_object_get(f, "about")), about) == 0)
			snprintf(text, sizeof(text), "%s: %s -> %s",
				 json_string_value(json_object_get(f, "level")),
				 json_string_value(json_object_get(f, "words")),
				 json_string_value(json_object_get(f, "remedy")));
	}
	json_decref(d);
	return text;
}

#define assert_says(text, word) assert_non_null(strstr(text, word))

UNIT_TEST(locked_memory_must_hold_the_server, folder_empty)
{
	struct doctor_machine m = machine();

	assert_says(found(&m, true, "locked memory"), "ok: limit unlimited");
	m.memlock = (struct rlimit){ 8 * MIB, 8 * MIB };
	assert_says(found(&m, true, "locked memory"), "problem: limit 8.0 MiB");
	assert_says(found(&m, true, "locked memory"), "ulimit -l unlimited");
	assert_says(found(&m, false, "locked memory"), "note: ");
	m.memlock = (struct rlimit){ 1024 * MIB, 1024 * MIB }; /* the buffers need some too */
	assert_says(found(&m, true, "locked memory"), "problem: ");
	m.memlock = (struct rlimit){ 2048 * MIB, 2048 * MIB };
	assert_says(found(&m, true, "locked memory"), "ok: ");
	m.memlock = (struct rlimit){ 8 * MIB, 8 * MIB };
	m.may_lock = true;
	assert_says(found(&m, true, "locked memory"), "ok: ");
}

UNIT_TEST(hugepages_of_either_sort, folder_empty)
{
	struct doctor_machine m = machine();

	folder_put("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
		   "always advise [never] deny\n");
	folder_put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
	assert_says(found(&m, false, "hugepages"), "note: 2 MiB: 0 reserved, 0 free; transparent: "
						   "madvise; for shared memory");
	folder_put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
	folder_put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n");
	assert_says(found(&m, false, "hugepages"), "ok: 2 MiB: 512 reserved, 500 free");
	folder_put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0\n");
	assert_says(found(&m, false, "hugepages"), "note: ");
	folder_put("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
		   "always [advise] never deny\n");
	assert_says(found(&m, false, "hugepages"), "ok: ");
}

UNIT_TEST(nodes_of_devices, folder_empty)
{
	struct doctor_machine m = machine();

	assert_says(found(&m, true, "/dev/infiniband"), "problem: not there");
	assert_says(found(&m, false, "/dev/infiniband"), "note: not there");
	folder_put("/dev/infiniband/rdma_cm", "");
	assert_says(found(&m, true, "/dev/infiniband"), "problem: there, but without");
	assert_says(found(&m, true, "rdma_cm"), "ok: ");
	folder_put("/dev/infiniband/uverbs3", ""); /* numbers need not begin with 0 */
	assert_says(found(&m, true, "/dev/infiniband"), "ok: /dev/infiniband/uverbs3");
}

UNIT_TEST(soft_roce_and_why_not, folder_empty)
{
	struct doctor_machine m = machine();

	assert_says(found(&m, false, "Soft-RoCE"), "note: no rdma_rxe for kernel 6.1.0-9-amd64 ->");
	m.release = "6.1.0-9-cloud-amd64";
	assert_says(found(&m, false, "Soft-RoCE"), "a cloud kernel");
	m.release = "6.1.0-9-amd64";
	folder_put("/lib/modules/6.1.0-9-amd64/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz",
		   "");
	assert_says(found(&m, false, "Soft-RoCE"), "rxe-up");
	assert_says(found(&m, false, "Soft-RoCE"), "ok: rdma_rxe is there");
	folder_put("/.dockerenv", "");
	assert_says(found(&m, false, "Soft-RoCE"), "note: this is a container");
	folder_put("/sys/module/rdma_rxe/refcnt", "0");
	assert_says(found(&m, false, "Soft-RoCE"), "ok: rdma_rxe is loaded");
}

UNIT_TEST(ptrace_scope_and_soft0, folder_empty)
{
	struct doctor_machine m = machine();

	assert_says(found(&m, false, "ptrace scope"), "ok: no Yama");
	folder_put("/proc/sys/kernel/yama/ptrace_scope", "1\n");
	assert_says(found(&m, false, "ptrace scope"), "ok: Yama 1");
	folder_put("/proc/sys/kernel/yama/ptrace_scope", "2\n");
	assert_says(found(&m, false, "ptrace scope"), "note: Yama 2");
	m.may_trace = true;
	assert_says(found(&m, false, "ptrace scope"), "ok: Yama 2");
	folder_put("/proc/sys/kernel/yama/ptrace_scope", "3\n");
	assert_says(found(&m, false, "ptrace scope"), "note: Yama 3");
}

UNIT_TEST(files_and_control_group, folder_empty)
{
	struct doctor_machine m = machine();

	assert_says(found(&m, false, "open files"), "ok: 4096");
	m.nofile.rlim_max = 256;
	assert_says(found(&m, false, "open files"), "note: ");
	assert_string_equal(found(&m, false, "control group"), "");
	folder_put("/sys/fs/cgroup/memory.max", "max\n");
	assert_string_equal(found(&m, false, "control group"), "");
	folder_put("/sys/fs/cgroup/memory.max", "1048576\n");
	assert_says(found(&m, false, "control group"), "problem: memory up to 1.0 MiB");
	folder_put("/sys/fs/cgroup/memory.max", "8589934592\n");
	assert_says(found(&m, false, "control group"), "ok: ");
}

static struct ibv_device_attr plenty(void)
{
	return (struct ibv_device_attr){ .max_mr_size = UINT64_MAX,
					 .max_qp = 1000,
					 .max_qp_wr = 4096,
					 .max_cqe = 32767,
					 .max_srq_wr = 4096,
					 .max_qp_rd_atom = 16,
					 .max_qp_init_rd_atom = 16 };
}

UNIT_TEST(limits_needed_and_wished)
{
	struct ibv_device_attr attr = plenty();
	json_t *findings = json_array(), *table = doctor_limits(&attr, findings);

	assert_int_equal(json_array_size(findings), 0);
	assert_int_equal(json_array_size(table), 7);
	json_decref(table);
	attr.max_qp_rd_atom = 4;
	json_decref(doctor_limits(&attr, findings));
	assert_int_equal(finding_count(findings, FINDING_NOTE), 1);
	assert_int_equal(finding_count(findings, FINDING_PROBLEM), 0);
	attr.max_mr_size = 128 * MIB; /* the largest extent does not go in: they are smaller then */
	json_decref(doctor_limits(&attr, findings));
	assert_int_equal(finding_count(findings, FINDING_PROBLEM), 0);
	attr.max_mr_size = 16 * MIB; /* nor does the largest record */
	attr.max_qp_rd_atom = 0;
	json_decref(doctor_limits(&attr, findings));
	assert_int_equal(finding_count(findings, FINDING_PROBLEM), 2);
	json_decref(findings);
}

UNIT_TEST(memory_on_another_node_is_said)
{
	char words[512];

	assert_false(doctor_memory("memory_other_node_bytes 0\nmemory_numa_node 1\n", words,
				   sizeof(words)));
	assert_false(doctor_memory("records 1\n", words, sizeof(words))); /* an older server */
	assert_false(doctor_memory("memory_other_node_bytes 5\n", words, sizeof(words)));
	assert_true(doctor_memory("memory_other_node_bytes 268435456\nmemory_numa_node 1\n", words,
				  sizeof(words)));
	assert_says(words, "256.0 MiB of the server's memory");
	assert_says(words, "at node 1");
	assert_says(words, "numactl");
}

UNIT_TEST(a_server_with_a_log_and_one_without)
{
	char words[ERROR_TEXT_MAX];

	assert_true(doctor_log("records 1\n", words, sizeof(words)));
	assert_says(words, "all records are lost");
	assert_says(words, "--data-dir");
	assert_true(doctor_log("data_life 1\nlog_bytes 268435456\nlog_segments 2\n"
			       "snapshots 4\nsnapshots_failed 0\nlog_refused_space 0\n",
			       words, sizeof(words)));
	assert_says(words, "256.0 MiB of log, snapshots since the start: 4");
	assert_null(strstr(words, ";"));
	assert_true(doctor_log("data_life 1\nlog_refused_space 1\n", words, sizeof(words)));
	assert_says(words, "writes were refused");
	assert_true(doctor_log("data_life 1\nsnapshots_failed 1\n", words, sizeof(words)));
	assert_says(words, "could not be written");
	assert_true(doctor_log("log_position 9\ngroup_term 1\n", words, sizeof(words)));
	assert_says(words, "when the last server of the group ends");
}

UNIT_TEST(a_server_of_a_group)
{
	char words[ERROR_TEXT_MAX];

	assert_false(doctor_group("records 1\n", words, sizeof(words)));
	assert_true(doctor_group("group_term 7\ngroup_members 3\ngroup_in_sync 2\n"
				 "group_lease_ms 300\ngroup_lease_left_us 271500\n"
				 "group_lag_bytes 1048576\n",
				 words, sizeof(words)));
	assert_says(words, "primary in term 7; 2 of 3 in sync; lease 300 ms, 271 ms left");
	assert_says(words, "lacks 1.0 MiB of the log (kv-cluster status says why");
	assert_true(doctor_group("group_term 7\ngroup_members 3\ngroup_in_sync 3\n", words,
				 sizeof(words)));
	assert_null(strstr(words, "kv-cluster"));
	assert_true(doctor_group("group_term 1\ngroup_members 1\ngroup_in_sync 1\n", words,
				 sizeof(words)));
	assert_says(words, "nobody can take over");
}

UNIT_TEST(every_step_has_a_hint)
{
	static const char *const steps[] = { "resolve", "tcp",	 "device", "gid",    "welcome",
					     "qp",	"offer", "answer", "settle", "rtr",
					     "rts",	"live",	 "root",   "ping",   "close" };

	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		assert_true(strlen(doctor_step_hint(steps[i])) > 10);
	assert_string_equal(doctor_step_hint("nothing"), "");
}

UNIT_TEST(speed_of_ports)
{
	struct ibv_port_attr attr = { .active_speed = 32, .active_width = 2 };

	assert_int_equal(survey_speed_mbps(&attr), 4 * 25781);
	attr = (struct ibv_port_attr){ .active_speed = 1, .active_width = 1 };
	assert_int_equal(survey_speed_mbps(&attr), 2500);
	attr = (struct ibv_port_attr){ .active_speed = 3, .active_width = 1 };
	assert_int_equal(survey_speed_mbps(&attr), 0); /* not known */
}

UNIT_TEST(text_is_folded)
{
	static char long_text[1000];
	char *out = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&out, &len);

	for (unsigned i = 0; i < 60; i++)
		strcat(long_text, "fourteen-bytes ");
	text_folded(f, long_text, 20, 20);
	fclose(f);
	for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n")) {
		assert_true(strlen(line) <= TEXT_COLUMNS);
		assert_true(line == out || strspn(line, " ") == 20);
	}
	free(out);
}

UNIT_GROUP(folder_make, folder_remove);
