/* Threads that use one libibverbs at once, for some seconds.
 *
 *     threads SECONDS
 *
 * Messages go from the first device to the last, which may be the same. Some threads create queue
 * pairs, send, and destroy them; some send over a pair that they share; some create and destroy
 * other objects; and some poll the two completion queues that all of them have together, one of
 * them when it is told to. Each completion must come once, and each message once and whole. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#define OWNERS 3
#define SHARERS 2
#define WORKERS (OWNERS + SHARERS)
#define POLLERS 3
#define CHURNERS 1
#define DEPTH 16
/* Receives that no message is for. */
#define SPARE 4
#define SLOTS (2 * DEPTH + SPARE)
#define SIZE 256
#define CQES 4096
#define PSN 7
/* Nothing takes so long, in seconds. */
#define PATIENCE 30

/* What must be so is so, or the program ends. */
#define must(what) do { if (!(what)) { \
	fprintf(stderr, "threads: line %d: not %s, errno %d\n", __LINE__, #what, errno); \
	_exit(3); } } while (0)

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	union ibv_gid gid;
};

struct pair {
	struct ibv_qp *from, *to;
};

/* What a thread waits for: slots 0 to DEPTH are receives, those behind are sends, and the last
 * ones receives that are spare. */
struct worker {
	_Atomic uint32_t round;
	_Atomic int seen[SLOTS];
	_Atomic unsigned long messages, pairs;
};

static char area[WORKERS * SLOTS * SIZE];
static struct side sides[2];
static struct pair shared;
static struct worker workers[WORKERS];
static atomic_int stopping, ended;
static atomic_ulong completions, woken;
/* Sums of the numbers of messages, mixed: they are equal if each message came once. */
static _Atomic uint64_t sent, received;

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static struct side opened(struct ibv_device *device)
{
	struct side side;
	must(side.context = ibv_open_device(device));
	must(side.pd = ibv_alloc_pd(side.context));
	must(side.channel = ibv_create_comp_channel(side.context));
	must(!fcntl(side.channel->fd, F_SETFL, O_NONBLOCK));
	must(side.cq = ibv_create_cq(side.context, CQES, NULL, side.channel, 0));
	must(!ibv_req_notify_cq(side.cq, 0));
	must(side.mr = ibv_reg_mr(side.pd, area, sizeof(area), IBV_ACCESS_LOCAL_WRITE));
	must(!ibv_query_gid(side.context, 1, 0, &side.gid));
	return side;
}

static void closed(struct side *side)
{
	must(!ibv_dereg_mr(side->mr));
	must(!ibv_destroy_cq(side->cq));
	must(!ibv_destroy_comp_channel(side->channel));
	must(!ibv_dealloc_pd(side->pd));
	must(!ibv_close_device(side->context));
}

static struct ibv_qp *made(struct side *side)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.send_cq = side->cq, .recv_cq = side->cq, .cap = {
		.max_send_wr = SHARERS * DEPTH, .max_recv_wr = SHARERS * DEPTH + SPARE,
		.max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(side->pd, &init);
	must(qp);
	return qp;
}

static void connected(struct ibv_qp *qp, struct ibv_qp *peer, union ibv_gid gid)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num, .rq_psn = PSN, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 64 } } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .sq_psn = PSN, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7 };
	must(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		IBV_QP_ACCESS_FLAGS));
	must(!ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	must(!ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct pair joined(void)
{
	struct pair pair = { made(&sides[0]), made(&sides[1]) };
	connected(pair.from, pair.to, sides[1].gid);
	connected(pair.to, pair.from, sides[0].gid);
	return pair;
}

static uint64_t id_of(int worker, uint32_t round, int slot)
{
	return (uint64_t)worker << 48 | (uint64_t)slot << 32 | round;
}

static struct ibv_sge place(struct side *side, int worker, int slot)
{
	char *at = area + (worker * SLOTS + slot) * SIZE;
	return (struct ibv_sge) { (uintptr_t)at, SIZE, side->mr->lkey };
}

static void post_recv(struct pair *pair, int worker, uint32_t round, int slot)
{
	struct ibv_sge sge = place(&sides[1], worker, slot);
	struct ibv_recv_wr wr = { .wr_id = id_of(worker, round, slot), .sg_list = &sge,
		.num_sge = 1 }, *bad;
	memset((void *)sge.addr, 0, SIZE);
	must(!ibv_post_recv(pair->to, &wr, &bad));
}

/* What a message says: its number, which no other has, and bytes that belong to it. */
static uint64_t mixed(uint64_t number)
{
	number = (number ^ number >> 31) * 0x9E3779B97F4A7C15u;
	return number ^ number >> 29;
}

static void said(char *bytes, uint64_t number)
{
	for (int at = 0; at < SIZE; at += 8) {
		uint64_t word = at ? mixed(number + ((uint64_t)at << 56)) : number;
		memcpy(bytes + at, &word, 8);
	}
}

static void post_send(struct pair *pair, int worker, uint32_t round, int slot)
{
	struct ibv_sge sge = place(&sides[0], worker, slot);
	uint64_t number = id_of(worker, round, slot - DEPTH);
	said((char *)sge.addr, number);
	atomic_fetch_add(&sent, mixed(number));
	struct ibv_send_wr wr = { .wr_id = id_of(worker, round, slot), .sg_list = &sge,
		.num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	must(!ibv_post_send(pair->from, &wr, &bad));
}

/* Waits until the slots have been seen. */
static void wait_for(struct worker *worker, int first, int last)
{
	double deadline = now() + PATIENCE;
	for (int slot = first; slot < last; slot++)
		while (!atomic_load(&worker->seen[slot])) {
			if (now() > deadline) {
				fprintf(stderr, "threads: worker %d never saw slot %d of round %u\n",
					(int)(worker - workers), slot, atomic_load(&worker->round));
				_exit(4);
			}
			sched_yield();
		}
}

static uint32_t began(struct worker *worker)
{
	uint32_t round = atomic_load(&worker->round) + 1;
	for (int slot = 0; slot < SLOTS; slot++)
		atomic_store(&worker->seen[slot], 0);
	atomic_store(&worker->round, round);
	return round;
}

/* Messages of a round, each with a receive of its own. */
static void exchange(struct pair *pair, struct worker *worker, uint32_t round)
{
	int number = (int)(worker - workers);
	for (int i = 0; i < DEPTH; i++)
		post_recv(pair, number, round, i);
	for (int i = 0; i < DEPTH; i++)
		post_send(pair, number, round, DEPTH + i);
	wait_for(worker, 0, 2 * DEPTH);
	atomic_fetch_add(&worker->messages, DEPTH);
}

/* Pairs of its own. In each other round their spare receives are flushed; else nobody hears of
 * them any more. */
static void *owner(void *argument)
{
	struct worker *worker = argument;
	int number = (int)(worker - workers);
	while (!atomic_load(&stopping)) {
		struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
		struct pair pair = joined();
		uint32_t round = began(worker);
		exchange(&pair, worker, round);
		for (int i = 2 * DEPTH; i < SLOTS; i++)
			post_recv(&pair, number, round, i);
		if (round % 2) {
			must(!ibv_modify_qp(pair.to, &error, IBV_QP_STATE));
			wait_for(worker, 2 * DEPTH, SLOTS);
		}
		must(!ibv_destroy_qp(pair.from));
		must(!ibv_destroy_qp(pair.to));
		atomic_fetch_add(&worker->pairs, 1);
	}
	return NULL;
}

static void *sharer(void *argument)
{
	struct worker *worker = argument;
	while (!atomic_load(&stopping))
		exchange(&shared, worker, began(worker));
	return NULL;
}

/* Other objects come and go meanwhile. */
static void *churner(void *unused)
{
	static char own[8192];
	(void)unused;
	for (unsigned long i = 0; !atomic_load(&stopping); i++) {
		struct side *side = &sides[i % 2];
		struct ibv_pd *pd = ibv_alloc_pd(side->context);
		struct ibv_cq *cq = ibv_create_cq(side->context, 8, NULL, NULL, 0);
		struct ibv_mr *mr = ibv_reg_mr(pd, own, sizeof(own), IBV_ACCESS_LOCAL_WRITE);
		struct ibv_wc wc;
		must(pd && cq && mr);
		must(!ibv_resize_cq(cq, 64));
		must(!ibv_poll_cq(cq, 1, &wc));
		must(ibv_dealloc_pd(pd) == EBUSY);
		must(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd));
		usleep(200);
	}
	return NULL;
}

/* What has come is whole. Over a pair of its own a worker's messages come in their order, which is
 * that of its receives; a shared pair brings those of any sharer. */
static void read_message(int worker, uint32_t round, int slot, uint32_t length)
{
	const char *bytes = area + (worker * SLOTS + slot) * SIZE;
	char wanted[SIZE];
	uint64_t number;
	memcpy(&number, bytes, sizeof(number));
	said(wanted, number);
	int is_meant = worker < OWNERS ? number == id_of(worker, round, slot)
		: number >> 48 >= OWNERS && number >> 48 < WORKERS;
	if (length != SIZE || !is_meant || memcmp(bytes, wanted, SIZE)) {
		fprintf(stderr, "threads: worker %d, round %u, slot %d: a message of %u bytes, number "
			"%#lx\n", worker, round, slot, length, (unsigned long)number);
		_exit(7);
	}
	atomic_fetch_add(&received, mixed(number));
}

static void judge(const struct ibv_wc *wc)
{
	int number = (int)(wc->wr_id >> 48), slot = (int)(wc->wr_id >> 32 & 0xFFFF);
	uint32_t round = (uint32_t)wc->wr_id;
	struct worker *worker = &workers[number];
	must(number < WORKERS && slot < SLOTS);
	int is_spare = slot >= 2 * DEPTH;
	if (atomic_load(&worker->round) != round ||
	    wc->status != (is_spare ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS) ||
	    (!is_spare && wc->opcode != (slot < DEPTH ? IBV_WC_RECV : IBV_WC_SEND))) {
		fprintf(stderr, "threads: worker %d is in round %u: round %u, slot %d, status %d, "
			"opcode %d\n", number, atomic_load(&worker->round), round, slot, wc->status,
			wc->opcode);
		_exit(5);
	}
	if (slot < DEPTH)
		read_message(number, round, slot, wc->byte_len);
	/* Before the worker hears of it: who has heard of all finds all counted. */
	atomic_fetch_add(&completions, 1);
	if (atomic_exchange(&worker->seen[slot], 1)) {
		fprintf(stderr, "threads: worker %d: round %u, slot %d came twice\n", number, round,
			slot);
		_exit(6);
	}
}

/* Takes some of both queues. */
static int polled(void)
{
	struct ibv_wc wc[8];
	int all = 0;
	for (int side = 0; side < 2; side++) {
		int found = ibv_poll_cq(sides[side].cq, 8, wc);
		must(found >= 0);
		for (int i = 0; i < found; i++)
			judge(&wc[i]);
		all += found;
	}
	return all;
}

static void *poller(void *unused)
{
	(void)unused;
	while (!atomic_load(&ended))
		if (!polled())
			sched_yield();
	return NULL;
}

/* Waits for events, and polls then. */
static void *waiter(void *unused)
{
	struct pollfd fds[2];
	(void)unused;
	for (int i = 0; i < 2; i++)
		fds[i] = (struct pollfd) { .fd = sides[i].channel->fd, .events = POLLIN };
	while (!atomic_load(&ended)) {
		must(poll(fds, 2, 20) >= 0);
		for (int i = 0; i < 2; i++) {
			struct ibv_cq *cq;
			void *context;
			if (!(fds[i].revents & POLLIN) ||
			    ibv_get_cq_event(sides[i].channel, &cq, &context))
				continue;
			must(cq == sides[i].cq);
			ibv_ack_cq_events(cq, 1);
			must(!ibv_req_notify_cq(cq, 0));
			atomic_fetch_add(&woken, 1);
			while (polled())
				;
		}
	}
	return NULL;
}

static pthread_t started(void *(*run)(void *), void *argument)
{
	pthread_t thread;
	must(!pthread_create(&thread, NULL, run, argument));
	return thread;
}

int main(int count, char **arguments)
{
	pthread_t working[WORKERS + CHURNERS], polling[POLLERS + 1];
	unsigned long messages = 0, pairs = 0;
	int devices;
	struct ibv_device **list = ibv_get_device_list(&devices);
	must(count == 2 && list && devices);
	sides[0] = opened(list[0]);
	sides[1] = opened(list[devices - 1]);
	ibv_free_device_list(list);
	shared = joined();
	for (int i = 0; i < POLLERS; i++)
		polling[i] = started(poller, NULL);
	polling[POLLERS] = started(waiter, NULL);
	for (int i = 0; i < WORKERS; i++)
		working[i] = started(i < OWNERS ? owner : sharer, &workers[i]);
	for (int i = 0; i < CHURNERS; i++)
		working[WORKERS + i] = started(churner, NULL);
	sleep(atoi(arguments[1]));
	atomic_store(&stopping, 1);
	for (int i = 0; i < WORKERS + CHURNERS; i++)
		must(!pthread_join(working[i], NULL));
	must(!ibv_destroy_qp(shared.from) && !ibv_destroy_qp(shared.to));
	/* Whatever comes late is wrong. */
	unsigned long before = atomic_load(&completions);
	usleep(50000);
	must(atomic_load(&completions) == before);
	atomic_store(&ended, 1);
	for (int i = 0; i < POLLERS + 1; i++)
		must(!pthread_join(polling[i], NULL));
	for (int i = 0; i < WORKERS; i++) {
		must(atomic_load(&workers[i].messages));
		messages += atomic_load(&workers[i].messages);
		pairs += atomic_load(&workers[i].pairs);
	}
	must(atomic_load(&sent) == atomic_load(&received));
	must(atomic_load(&woken));
	/* The unread events of a queue are its channel's until then. */
	closed(&sides[0]);
	closed(&sides[1]);
	printf("%lu messages, %lu completions, %lu pairs, %lu events\n", messages, before, pairs,
		atomic_load(&woken));
	return 0;
}
