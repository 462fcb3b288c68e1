/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The RDMA CM: what both sides share. cm.h opens with the protocol. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/rdma/cm_internal.h"

#define CM_DEVICE "/dev/infiniband/rdma_cm"

int cm_errno(void)
{
	return errno ? -errno : -EIO;
}

static int no_channel(int rc, struct error *err)
{
	/* librdmacm looks for another path of it then, and says that there is none */
	if (rc == -ENOENT && access(CM_DEVICE, F_OK) == 0 && access(CM_DEVICE, R_OK | W_OK))
		rc = cm_errno();
	switch (rc) {
	case -ENODEV:
	case -ENOSYS:
	case -EOPNOTSUPP: /* soft0 under other programs says so */
		return error_set(err, -ENODEV,
				 "the RDMA CM finds no RDMA device on this machine, and it knows "
				 "real ones only (load the driver, or rdma link add for Soft-RoCE; "
				 "soft0 is connected with --connect tcp)");
	case -ENOENT:
	case -ENXIO:
		return error_set(err, -ENOENT,
				 "opening " CM_DEVICE " failed: %s (modprobe rdma_ucm; in a "
				 "container, hand the device in)",
				 error_name(rc));
	case -EACCES:
	case -EPERM:
		return error_set(err, -EACCES,
				 "opening " CM_DEVICE
				 " failed: %s (modprobe rdma_ucm, and let this "
				 "user read and write it: chmod 666 " CM_DEVICE ", or a udev rule)",
				 error_name(rc));
	}
	return error_set(err, rc, "opening " CM_DEVICE " failed: %s (modprobe rdma_ucm)",
			 error_name(rc));
}

int cm_channel(struct rdma_event_channel **out, struct error *err)
{
	struct rdma_event_channel *channel;
	int rc;

	errno = 0;
	channel = rdma_create_event_channel();
	if (!channel)
		return no_channel(cm_errno(), err);
	if (fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) ||
	    fcntl(channel->fd, F_SETFD, FD_CLOEXEC)) {
		rc = error_set(err, cm_errno(), "fcntl of a CM event channel failed: %s",
			       error_name(errno));
		rdma_destroy_event_channel(channel);
		return rc;
	}
	*out = channel;
	return 0;
}

void cm_route_of(const struct rdma_cm_id *id, struct cm_route *out)
{
	memset(out, 0, sizeof(*out));
	if (!id->verbs)
		return;
	snprintf(out->device, sizeof(out->device), "%s", ibv_get_device_name(id->verbs->device));
	out->port = id->port_num;
}

void cm_address_text(const struct sockaddr *address, char *text, size_t cap)
{
	socklen_t len = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						       : sizeof(struct sockaddr_in);

	if (getnameinfo(address, len, text, (socklen_t)cap, NULL, 0, NI_NUMERICHOST))
		snprintf(text, cap, "?");
}

void cm_bound(struct cm *cm)
{
	cm_route_of(cm->id, &cm->route);
	cm_address_text(rdma_get_peer_addr(cm->id), cm->peer, sizeof(cm->peer));
}

struct rdma_conn_param cm_param(const struct rdma_qp *qp, const void *data, size_t len)
{
	const struct rdma_options *o = &qp->dev->options;

	return (struct rdma_conn_param){
		.private_data = data,
		.private_data_len = (uint8_t)len,
		.flow_control = 1,
		.retry_count = (uint8_t)o->retry_cnt,
		.rnr_retry_count = (uint8_t)o->rnr_retry,
		.qp_num = qp->qp->qp_num,
		.srq = qp->qp->srq != NULL,
	};
}

void cm_destroy(struct cm *cm)
{
	if (!cm)
		return;
	errno = 0;
	if (cm->id && rdma_destroy_id(cm->id))
		log_error("rdma", "rdma_destroy_id of a connection with %s failed: %s", cm->peer,
			  error_name(cm_errno()));
	if (cm->channel)
		rdma_destroy_event_channel(cm->channel);
	free(cm);
}
