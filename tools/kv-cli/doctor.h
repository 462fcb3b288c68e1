/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/*
 * The parts of `kv-cli doctor`. Each looks and fills a JSON object, {"findings": [...], ...}; the
 * text for people is printed from the same object, so that the two cannot differ.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

#include "common/rdma/survey.h"
#include "tools/kv-cli/cli.h"
#include "tools/kv-cli/findings.h"

#define DOCTOR_SCHEMA 1

/* What doctor looks at; tests give it a machine of their own. */
struct doctor_machine {
	const char *root; /* put before /proc, /sys, /dev, /lib; "" is this machine */
	const char *release; /* of the kernel, as uname -r */
	struct rlimit memlock, nofile;
	bool may_lock; /* CAP_IPC_LOCK: the limit does not bind */
	bool may_trace; /* CAP_SYS_PTRACE */
	uint64_t server_memory; /* bytes that kv-server takes by default */
};

/* doctor_machine_here - the machine, and the rights and limits of this process. */
void doctor_machine_here(struct doctor_machine *m);

/*
 * doctor_machine - @hardware: a device other than soft0 would be used, so that what binds only
 * such a one is a problem; otherwise it is a note. Returns the object, NULL: no memory.
 */
json_t *doctor_machine(const struct doctor_machine *m, bool hardware);
void doctor_machine_print(const json_t *machine, FILE *out);

/* doctor_device - one device, and a READ on it from itself. Returns the object, or NULL. */
json_t *doctor_device(const struct survey_device *d, const struct rdma_options *options);
void doctor_device_print(const json_t *device, FILE *out);

/*
 * doctor_rail - which device, port and GID a connection would take, and why, in @choice. @name:
 * NULL, auto. @address: of the exchange, or NULL. Notes where no device has it go to @findings.
 * Returns whether there is one; then @device is its name. @choice: ERROR_TEXT_MAX bytes.
 */
bool doctor_rail(const char *name, const char *address, const struct rdma_options *options,
		 char device[64], char *choice, json_t *findings);

/* doctor_device_active - the number of its first ACTIVE port (or of options' port), 0: none. */
unsigned doctor_device_active(const struct survey_device *d, const struct rdma_options *options);

/* doctor_limits - needed against there, into findings and a table. Returns the table, or NULL. */
json_t *doctor_limits(const struct ibv_device_attr *attr, json_t *findings);

/* doctor_server - a connection to cli->server, step by step. Returns enum cli_exit. */
int doctor_server(struct cli *cli);

/* doctor_memory - what @statistics of a server say of NUMA, in @words. False: nothing is wrong. */
bool doctor_memory(const char *statistics, char *words, size_t cap);

/* doctor_log - what they say of the disk, whether it has a log or none. False: no memory. */
bool doctor_log(const char *statistics, char *words, size_t cap);

/* doctor_group - what they say of the server's group, in @words. False: it is of none. */
bool doctor_group(const char *statistics, char *words, size_t cap);

/* doctor_step_hint - what to look at next when a step (of gkv_trace, or "ping", "close") failed. */
const char *doctor_step_hint(const char *step);
