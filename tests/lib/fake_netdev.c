/* SPDX-License-Identifier: Apache-2.0 */
/* SPDX-FileCopyrightText: The GraceKV authors */
/* The network devices that a test makes up; without any, those of the machine. */
#include "tests/lib/fake_internal.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct made {
	struct ifaddrs entry;
	struct sockaddr_storage address;
	char name[IF_NAMESIZE];
};

/* The symbol that this file stands before. */
#define REAL(name) ((typeof(&(name)))dlsym(RTLD_NEXT, #name))

static void address_of(const char *text, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
		v4->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
		v6->sin6_family = AF_INET6;
}

/* The 20 bytes of IP over InfiniBand: a queue pair, and the port's GID. */
static void hardware_of(const union ibv_gid *gid, struct sockaddr_storage *out)
{
	struct sockaddr_ll *ll = (struct sockaddr_ll *)out;

	ll->sll_family = AF_PACKET;
	ll->sll_hatype = ARPHRD_INFINIBAND;
	ll->sll_halen = 20;
	memcpy((char *)out + offsetof(struct sockaddr_ll, sll_addr) + 4, gid->raw,
	       sizeof(gid->raw));
}

/* Those that were said, each before its hardware address, and lo: one array. Must hold the lock. */
static int make_list(struct ifaddrs **out)
{
	unsigned count = 2 * fake.netdevs + 1;
	struct made *all = calloc(count, sizeof(*all));

	if (!all)
		return -1;
	for (unsigned i = 0; i < count; i++) {
		const struct fake_netdev *n = i + 1 < count ? &fake.netdev[i / 2] : NULL;

		snprintf(all[i].name, sizeof(all[i].name), "%s", n ? n->name : "lo");
		if (i % 2)
			hardware_of(&n->ib_gid, &all[i].address);
		else
			address_of(n ? n->address : "127.0.0.1", &all[i].address);
		all[i].entry =
			(struct ifaddrs){ .ifa_name = all[i].name,
					  .ifa_addr = (struct sockaddr *)&all[i].address,
					  .ifa_next = i + 1 < count ? &all[i + 1].entry : NULL };
	}
	*out = &all[0].entry;
	return 0;
}

static unsigned netdevs(void)
{
	unsigned n;

	fake_follow();
	pthread_mutex_lock(&fake.lock);
	n = fake.netdevs;
	pthread_mutex_unlock(&fake.lock);
	return n;
}

int getifaddrs(struct ifaddrs **list)
{
	int rc;

	if (!netdevs())
		return REAL(getifaddrs)(list);
	pthread_mutex_lock(&fake.lock);
	rc = make_list(list);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

void freeifaddrs(struct ifaddrs *list)
{
	free(list); /* the C library's list is one block as well */
}

unsigned if_nametoindex(const char *name)
{
	unsigned index = 0;

	if (strcmp(name, "lo") == 0 || !netdevs()) /* soft0 asks so under the lock */
		return REAL(if_nametoindex)(name);
	pthread_mutex_lock(&fake.lock);
	for (unsigned i = 0; i < fake.netdevs; i++) {
		if (strcmp(fake.netdev[i].name, name) == 0)
			index = fake.netdev[i].index;
	}
	pthread_mutex_unlock(&fake.lock);
	return index;
}

char *if_indextoname(unsigned index, char name[IF_NAMESIZE])
{
	bool found = false;

	netdevs();
	pthread_mutex_lock(&fake.lock);
	for (unsigned i = 0; i < fake.netdevs && !found; i++) {
		found = fake.netdev[i].index == index;
		if (found)
			snprintf(name, IF_NAMESIZE, "%s", fake.netdev[i].name);
	}
	pthread_mutex_unlock(&fake.lock);
	return found ? name : REAL(if_indextoname)(index, name);
}
