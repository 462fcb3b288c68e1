/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
#pragma once
/* Between peer.c and peer_map.c: requests over the connection, and mapped files. */
#include "common/softrdma/process/peer.h"
#include "common/softrdma/process/wire.h"

/*
 * soft_peer_request - ask and wait. @fds: WIRE_FDS_MAX places, the caller's on success.
 * Returns 0 or a negative errno: -ETIMEDOUT, -EPIPE, the peer's own. Holds peer->requests, or the
 * peer is not known to others yet.
 */
int soft_peer_request(struct soft_peer *peer, enum wire_op op, uint64_t arg, int timeout_ms,
		      struct wire_reply *reply, int *fds);

/* soft_peer_map_free - unmap. @map may be NULL. */
void soft_peer_map_free(struct soft_peer_map *map);

/* soft_peer_sweep - see soft_peer_sweep_all(). */
bool soft_peer_sweep(struct soft_peer *peer);
