/* What Rust needs of DPDK beyond plain calls: whole bursts, structures whose layout differs between releases, and
 * static inline functions. Nothing here is called once per packet. */
#ifndef PMD_SHIM_H
#define PMD_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

/* Where Rust finds the fields of an mbuf, whatever release this is. */
enum {
	PMD_MBUF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr),
	PMD_MBUF_BUF_LEN = offsetof(struct rte_mbuf, buf_len),
	PMD_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off),
	PMD_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len),
	PMD_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len),
	PMD_MBUF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs),
	PMD_MBUF_STRUCT_SIZE = sizeof(struct rte_mbuf),
};

enum {
	PMD_HEADROOM = RTE_PKTMBUF_HEADROOM,
	PMD_MAX_PORTS = RTE_MAX_ETHPORTS,
	PMD_CACHE_MAX = RTE_MEMPOOL_CACHE_MAX_SIZE,
};

struct pmd_stats {
	uint64_t rx_frames;
	uint64_t rx_bytes;
	uint64_t rx_missed;
	uint64_t rx_errors;
	uint64_t rx_no_mbuf;
	uint64_t tx_frames;
	uint64_t tx_bytes;
	uint64_t tx_errors;
};

enum {
	PMD_RX_CHECKSUM = 1,
	PMD_TX_CHECKSUM = 2,
	PMD_RX_SCATTER = 4,
	PMD_TX_FAST_FREE = 8,
};

struct pmd_capabilities {
	const char *driver;
	uint32_t max_rx_frame;
	uint32_t offloads;
	uint16_t min_mtu;
	uint16_t max_mtu;
};

/* Receives and prefetches the first two lines of each frame. */
uint16_t pmd_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n);
uint16_t pmd_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs, uint16_t n);
/* All or none: 0, or a negative errno. */
int pmd_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **bufs, unsigned int n);
void pmd_free_bulk(struct rte_mbuf **bufs, unsigned int n);

/* 1 up, 0 down, or a negative errno. */
int pmd_port_link_up(uint16_t port);
int pmd_port_mac(uint16_t port, uint8_t mac[6]);
int pmd_port_stats(uint16_t port, struct pmd_stats *out);
int pmd_port_capabilities(uint16_t port, struct pmd_capabilities *out);

const char *pmd_version(void);
/* rte_errno of this thread, and whether this thread has an lcore id (and with it mempool caches). */
int pmd_errno(void);
int pmd_has_lcore_id(void);

/* The end of what DPDK logged during a call: `size` bytes at `text`, terminated. */
struct pmd_log {
	char *text;
	size_t size;
};

int pmd_eal_init(int argc, char **argv, struct pmd_log log);
/* Adds a device: 0, or a negative errno; -1 means that rte_errno holds it, or 0 if there is none. */
int pmd_attach(const char *bus, const char *name, const char *arguments, struct pmd_log log);

/* So many rx and tx queues with the driver's defaults, and its MTU unless that is 0: 0, or a negative errno. */
int pmd_port_configure(uint16_t port, uint16_t queues, uint16_t rx_descriptors, uint16_t tx_descriptors, uint16_t mtu,
		       struct rte_mempool *pool, struct pmd_log log);

/* Has EAL's interrupt thread call `callback` with the name of each device that is to leave or has left. */
void pmd_listen_for_removals(void (*callback)(const char *name));

/* Has EAL's interrupt thread call `callback` whenever `fd` is readable: 0, or a negative errno. */
int pmd_interrupt_register(int fd, void (*callback)(void *), void *arg);

#endif
