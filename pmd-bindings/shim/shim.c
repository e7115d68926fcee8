/* rte_intr_instance_alloc and its setters are stable in practice, but still marked experimental in 24.11. */
#define ALLOW_EXPERIMENTAL_API
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_interrupts.h>
#include <rte_prefetch.h>

uint16_t
pmd_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	uint16_t got = rte_eth_rx_burst(port, queue, bufs, n);

	for (uint16_t i = 0; i < got; i++) {
		const char *data = rte_pktmbuf_mtod(bufs[i], const char *);

		rte_prefetch0(data);
		rte_prefetch0(data + RTE_CACHE_LINE_SIZE);
	}
	return got;
}

uint16_t
pmd_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, bufs, n);
}

int
pmd_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **bufs, unsigned int n)
{
	return rte_pktmbuf_alloc_bulk(pool, bufs, n);
}

void
pmd_free_bulk(struct rte_mbuf **bufs, unsigned int n)
{
	rte_pktmbuf_free_bulk(bufs, n);
}

int
pmd_port_link_up(uint16_t port)
{
	struct rte_eth_link link;
	int ret;

	memset(&link, 0, sizeof(link));
	ret = rte_eth_link_get_nowait(port, &link);
	if (ret < 0)
		return ret;
	return link.link_status == RTE_ETH_LINK_UP;
}

int
pmd_port_mac(uint16_t port, uint8_t mac[6])
{
	struct rte_ether_addr addr;
	int ret = rte_eth_macaddr_get(port, &addr);

	if (ret == 0)
		memcpy(mac, addr.addr_bytes, sizeof(addr.addr_bytes));
	return ret;
}

int
pmd_port_stats(uint16_t port, struct pmd_stats *out)
{
	struct rte_eth_stats stats;
	int ret = rte_eth_stats_get(port, &stats);

	if (ret != 0)
		return ret;
	out->rx_frames = stats.ipackets;
	out->rx_bytes = stats.ibytes;
	out->rx_missed = stats.imissed;
	out->rx_errors = stats.ierrors;
	out->rx_no_mbuf = stats.rx_nombuf;
	out->tx_frames = stats.opackets;
	out->tx_bytes = stats.obytes;
	out->tx_errors = stats.oerrors;
	return 0;
}

int
pmd_port_capabilities(uint16_t port, struct pmd_capabilities *out)
{
	const uint64_t rx_checksum = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM |
				     RTE_ETH_RX_OFFLOAD_TCP_CKSUM;
	const uint64_t tx_checksum = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
	struct rte_eth_dev_info info;
	int ret = rte_eth_dev_info_get(port, &info);

	if (ret != 0)
		return ret;
	out->driver = info.driver_name;
	out->max_rx_frame = info.max_rx_pktlen;
	out->min_mtu = info.min_mtu;
	out->max_mtu = info.max_mtu;
	out->offloads = 0;
	if ((info.rx_offload_capa & rx_checksum) == rx_checksum)
		out->offloads |= PMD_RX_CHECKSUM;
	if ((info.tx_offload_capa & tx_checksum) == tx_checksum)
		out->offloads |= PMD_TX_CHECKSUM;
	if (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER)
		out->offloads |= PMD_RX_SCATTER;
	if (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE)
		out->offloads |= PMD_TX_FAST_FREE;
	return 0;
}

const char *
pmd_version(void)
{
	return rte_version();
}

int
pmd_errno(void)
{
	return rte_errno;
}

int
pmd_has_lcore_id(void)
{
	return rte_lcore_id() != LCORE_ID_ANY;
}

/* Where DPDK logs to while somebody wants to know. */
struct capture {
	FILE *stream;
	char *text;
	size_t length;
};

static void
capture_begin(struct capture *capture)
{
	capture->text = NULL;
	capture->length = 0;
	capture->stream = open_memstream(&capture->text, &capture->length);
	/* Without memory for a stream DPDK logs to stderr, as it does by default. */
	if (capture->stream != NULL)
		rte_openlog_stream(capture->stream);
}

static void
capture_end(struct capture *capture, struct pmd_log log)
{
	size_t skip = 0;

	log.text[0] = '\0';
	if (capture->stream == NULL)
		return;
	rte_openlog_stream(NULL);
	fclose(capture->stream);
	if (capture->length >= log.size)
		skip = capture->length - log.size + 1;
	snprintf(log.text, log.size, "%s", capture->text + skip);
	free(capture->text);
}

int
pmd_eal_init(int argc, char **argv, struct pmd_log log)
{
	struct capture capture;
	int ret, error;

	capture_begin(&capture);
	ret = rte_eal_init(argc, argv);
	error = rte_errno;
	capture_end(&capture, log);
	rte_errno = error;
	return ret;
}

int
pmd_attach(const char *bus, const char *name, const char *arguments, struct pmd_log log)
{
	struct capture capture;
	int ret, error;

	capture_begin(&capture);
	rte_errno = 0;
	ret = rte_eal_hotplug_add(bus, name, arguments);
	error = rte_errno;
	capture_end(&capture, log);
	rte_errno = error;
	return ret;
}

static int
configure(uint16_t port, uint16_t queues, uint16_t rx_descriptors, uint16_t tx_descriptors, uint16_t mtu,
	  struct rte_mempool *pool)
{
	struct rte_eth_conf conf;
	int socket = rte_eth_dev_socket_id(port);
	uint16_t queue;
	int ret;

	memset(&conf, 0, sizeof(conf));
	conf.rxmode.mtu = mtu;
	ret = rte_eth_dev_configure(port, queues, queues, &conf);
	if (ret < 0)
		return ret;
	ret = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx_descriptors, &tx_descriptors);
	if (ret < 0)
		return ret;
	for (queue = 0; queue < queues; queue++) {
		ret = rte_eth_rx_queue_setup(port, queue, rx_descriptors, socket, NULL, pool);
		if (ret < 0)
			return ret;
		ret = rte_eth_tx_queue_setup(port, queue, tx_descriptors, socket, NULL);
		if (ret < 0)
			return ret;
	}
	return 0;
}

int
pmd_port_configure(uint16_t port, uint16_t queues, uint16_t rx_descriptors, uint16_t tx_descriptors, uint16_t mtu,
		   struct rte_mempool *pool, struct pmd_log log)
{
	struct capture capture;
	int ret, error;

	capture_begin(&capture);
	rte_errno = 0;
	ret = configure(port, queues, rx_descriptors, tx_descriptors, mtu, pool);
	error = rte_errno;
	capture_end(&capture, log);
	rte_errno = error;
	return ret;
}

static void (*on_removal)(const char *name);

static void
device_event(const char *name, enum rte_dev_event_type type, void *arg)
{
	if (type == RTE_DEV_EVENT_REMOVE && name != NULL)
		on_removal(name);
}

void
pmd_listen_for_removals(void (*callback)(const char *name))
{
	on_removal = callback;
	rte_dev_event_callback_register(NULL, device_event, NULL);
	/* vfio tells of its own accord; of the others the kernel's events do. */
	rte_dev_event_monitor_start();
}

int
pmd_interrupt_register(int fd, void (*callback)(void *), void *arg)
{
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	int ret;

	if (handle == NULL)
		return -ENOMEM;
	if (rte_intr_fd_set(handle, fd) != 0 || rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) != 0)
		ret = -rte_errno;
	else
		ret = rte_intr_callback_register(handle, callback, arg);
	/* EAL keeps a copy of its own. */
	rte_intr_instance_free(handle);
	return ret;
}
