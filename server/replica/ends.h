/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* What the two ends of a ring tell each other before the first WRITE, over whatever exchange. */
#include <stdatomic.h>
#include <stdint.h>

#include "common/layout/wire_tcp.h"

/* From the backup. */
struct replica_ring_offer {
	struct wire_qp qp;
	uint64_t addr, bytes; /* of the ring */
	uint64_t key;
	uint64_t ring_term;
	uint32_t rkey;
};

/* From the primary. */
struct replica_flow_offer {
	struct wire_qp qp;
	uint64_t addr; /* of its struct replica_flow for this backup */
	uint32_t rkey;
};

/* From either end of a pulse. */
struct replica_pulse_offer {
	struct wire_qp qp;
	uint64_t addr; /* of the word that the other end WRITEs */
	uint32_t rkey;
};

/* What a backup WRITEs back, each an aligned word that only grows. */
struct replica_flow {
	_Atomic uint64_t taken; /* place: the ring is free below */
	_Atomic uint64_t applied; /* position: below it all is in its store */
};
