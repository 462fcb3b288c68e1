/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* What stands for functions of devices, contexts and ports. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "common/softrdma/preload/real.h"
#include "common/softrdma/preload/undeclared.h"

#undef ibv_query_port

SOFT_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	if (soft_our_device(device))
		return device->name;
	return SOFT_FORWARD(NULL, ibv_get_device_name, device);
}

SOFT_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	if (soft_our_device(device))
		return softrdma_device_guid();
	return SOFT_FORWARD(0, ibv_get_device_guid, device);
}

SOFT_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	/* The kernel numbers devices, and has not numbered this one. */
	if (soft_our_device(device))
		return -1;
	return SOFT_FORWARD(-1, ibv_get_device_index, device);
}

SOFT_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	if (soft_our_device(device))
		return softrdma_open_device(device);
	return SOFT_FORWARD(NULL, ibv_open_device, device);
}

SOFT_EXPORT int ibv_close_device(struct ibv_context *context)
{
	int rc;

	if (!soft_ours(context))
		return SOFT_FORWARD(ENOSYS, ibv_close_device, context);
	rc = softrdma_close_device(context);
	/*
	 * libibverbs closes whatever is left, and programs count on it: ib_send_bw leaves a CQ.
	 * Here, what is left lives until it is released or the process ends.
	 */
	return rc == EBUSY ? 0 : rc;
}

SOFT_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	if (soft_ours(context))
		return softrdma_query_device(context, attr);
	return SOFT_FORWARD(ENOSYS, ibv_query_device, context, attr);
}

/*
 * The exported function takes the struct ibv_port_attr of before 2018, which ended in front of
 * port_cap_flags2: what is after it is not the caller's attribute. Programs that were compiled
 * since call verbs_context::query_port.
 */
enum { COMPAT_PORT_ATTR_SIZE = 48 };
_Static_assert(offsetof(struct ibv_port_attr, flags) == COMPAT_PORT_ATTR_SIZE - 1 &&
		       offsetof(struct ibv_port_attr, port_cap_flags2) == COMPAT_PORT_ATTR_SIZE,
	       "struct ibv_port_attr grew at its end only");

SOFT_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port,
			       struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr all;
	int rc;

	if (!soft_ours(context))
		return SOFT_FORWARD(ENOSYS, ibv_query_port, context, port, attr);
	rc = softrdma_query_port(context, port, &all);
	if (rc == 0)
		memcpy(attr, &all, COMPAT_PORT_ATTR_SIZE);
	return rc;
}

SOFT_EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index,
			      union ibv_gid *gid)
{
	if (soft_ours(context))
		return softrdma_query_gid(context, port, index, gid);
	return SOFT_FORWARD(-1, ibv_query_gid, context, port, index, gid);
}

/* Programs of another release may know a longer struct: what this one does not know is 0. */
SOFT_EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
				  struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry known;
	int rc;

	if (!soft_ours(context))
		return SOFT_FORWARD(ENOSYS, _ibv_query_gid_ex, context, port, index, entry, flags,
				    entry_size);
	if (entry_size < sizeof(known))
		return EINVAL;
	rc = softrdma_query_gid_ex(context, port, index, &known, flags);
	if (rc)
		return rc;
	memset(entry, 0, entry_size);
	*entry = known;
	return 0;
}

SOFT_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
					 size_t max, uint32_t flags, size_t entry_size)
{
	if (soft_ours(context))
		return softrdma_query_gid_table(context, entries, max, flags, entry_size);
	return SOFT_FORWARD(-ENOSYS, _ibv_query_gid_table, context, entries, max, flags,
			    entry_size);
}

SOFT_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
				   int *type)
{
	struct ibv_gid_entry entry;
	int rc;

	if (!soft_ours(context))
		return SOFT_FORWARD(-1, ibv_query_gid_type, context, port, index, type);
	rc = softrdma_query_gid_ex(context, port, index, &entry, 0);
	if (rc) {
		errno = rc;
		return -1;
	}
	*type = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
	return 0;
}

SOFT_EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	if (soft_ours(context))
		return softrdma_query_pkey(context, port, index, pkey);
	return SOFT_FORWARD(-1, ibv_query_pkey, context, port, index, pkey);
}

SOFT_EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	if (soft_ours(context))
		return softrdma_get_pkey_index(context, port, pkey);
	return SOFT_FORWARD(-1, ibv_get_pkey_index, context, port, pkey);
}
