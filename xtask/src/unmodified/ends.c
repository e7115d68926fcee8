/* Programs that end, or begin, as libraries do not like it. The library is loaded by dlopen.
 *
 *     ends unload|unload-open|fork
 *     ends receive|send|drain|flood PORT
 *
 * The first three have both ends in one process. Of the others "receive" and "drain" wait at a TCP
 * port of this host for their peer, "send" and "flood": the one sends some messages, and exits
 * without closing anything once they are complete; the other sends until a request fails. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#define DEPTH 32
#define SIZE 1024
#define AREA (DEPTH * SIZE)
#define PSN 7

/* The functions that are no inline ones of the header. */
#define FUNCTIONS(each) \
	each(get_device_list) each(free_device_list) each(open_device) each(close_device) \
	each(query_gid) each(alloc_pd) each(dealloc_pd) each(create_cq) each(destroy_cq) \
	each(reg_mr) each(dereg_mr) each(create_qp) each(modify_qp) each(destroy_qp)
#define DECLARE(name) static __typeof__(&ibv_##name) v_##name;
FUNCTIONS(DECLARE)

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	char *area;
};

struct place {
	uint32_t qpn;
	union ibv_gid gid;
};

static void *library;

/* What must be so is so, or the program ends. */
#define must(what) do { if (!(what)) { \
	fprintf(stderr, "ends: line %d: not %s, errno %d\n", __LINE__, #what, errno); exit(3); } } while (0)

static void load(void)
{
	must(library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL));
#define FIND(name) must(v_##name = (__typeof__(v_##name))dlsym(library, "ibv_" #name));
	FUNCTIONS(FIND)
}

static void unload(void)
{
	must(!dlclose(library));
}

static struct end opened(void)
{
	struct end end;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = {
		.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_device **list = v_get_device_list(NULL);
	must(list && list[0]);
	must(end.context = v_open_device(list[0]));
	v_free_device_list(list);
	must(end.area = calloc(1, AREA));
	must(end.pd = v_alloc_pd(end.context));
	must(end.cq = v_create_cq(end.context, 2 * DEPTH, NULL, NULL, 0));
	must(end.mr = v_reg_mr(end.pd, end.area, AREA, IBV_ACCESS_LOCAL_WRITE));
	init.send_cq = init.recv_cq = end.cq;
	must(end.qp = v_create_qp(end.pd, &init));
	return end;
}

static void closed(struct end *end)
{
	must(!v_destroy_qp(end->qp));
	must(!v_dereg_mr(end->mr));
	must(!v_destroy_cq(end->cq));
	must(!v_dealloc_pd(end->pd));
	must(!v_close_device(end->context));
	free(end->area);
}

static struct place place_of(struct end *end)
{
	struct place place = { .qpn = end->qp->qp_num };
	must(!v_query_gid(end->context, 1, 0, &place.gid));
	return place;
}

static void connected(struct end *end, struct place peer)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer.qpn, .rq_psn = PSN, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = peer.gid, .hop_limit = 64 } } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .sq_psn = PSN, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7 };
	must(!v_modify_qp(end->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		IBV_QP_ACCESS_FLAGS));
	must(!v_modify_qp(end->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	must(!v_modify_qp(end->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct ibv_sge slot(struct end *end, int index)
{
	return (struct ibv_sge) { (uintptr_t)end->area + index * SIZE, SIZE, end->mr->lkey };
}

static int post_recv(struct end *end, int index)
{
	struct ibv_sge sge = slot(end, index);
	struct ibv_recv_wr wr = { .wr_id = index, .sg_list = &sge, .num_sge = 1 }, *bad;
	return ibv_post_recv(end->qp, &wr, &bad);
}

static int post_send(struct end *end, int index)
{
	struct ibv_sge sge = slot(end, index);
	struct ibv_send_wr wr = { .wr_id = index, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND }, *bad;
	return ibv_post_send(end->qp, &wr, &bad);
}

static struct ibv_wc completion(struct end *end)
{
	struct ibv_wc wc;
	int found;
	while (!(found = ibv_poll_cq(end->cq, 1, &wc)))
		;
	must(found == 1);
	return wc;
}

static void fill(struct end *end)
{
	for (int i = 0; i < AREA; i++)
		end->area[i] = (char)(i * 31 + i / SIZE);
}

static void receive_all(struct end *end)
{
	for (int i = 0; i < DEPTH; i++) {
		struct ibv_wc wc = completion(end);
		must(wc.status == IBV_WC_SUCCESS);
		must(wc.opcode == IBV_WC_RECV && wc.byte_len == SIZE);
	}
	for (int i = 0; i < AREA; i++)
		must(end->area[i] == (char)(i * 31 + i / SIZE));
}

static void send_all(struct end *end)
{
	fill(end);
	for (int i = 0; i < DEPTH; i++)
		must(!post_send(end, i));
	for (int i = 0; i < DEPTH; i++)
		must(completion(end).status == IBV_WC_SUCCESS);
}

static void post_recvs(struct end *end)
{
	memset(end->area, 0, AREA);
	for (int i = 0; i < DEPTH; i++)
		must(!post_recv(end, i));
}

/* Two ends of this process, and messages between them. */
static void both(struct end *pair)
{
	pair[0] = opened();
	pair[1] = opened();
	connected(&pair[0], place_of(&pair[1]));
	connected(&pair[1], place_of(&pair[0]));
}

static void traffic(struct end *pair)
{
	post_recvs(&pair[1]);
	send_all(&pair[0]);
	receive_all(&pair[1]);
}

static void unload_twice(void)
{
	struct end pair[2];
	for (int i = 0; i < 2; i++) {
		if (i)
			load();
		both(pair);
		traffic(pair);
		closed(&pair[0]);
		closed(&pair[1]);
		unload();
	}
}

static void unload_open(void)
{
	struct end pair[2];
	both(pair);
	traffic(pair);
	unload();
	/* What still runs of the library does so. */
	usleep(200000);
}

/* The parent's device is none of the child's, which may open its own. */
static void forked(void)
{
	struct end pair[2], own[2];
	int status;
	both(pair);
	traffic(pair);
	pid_t child = fork();
	must(child >= 0);
	if (!child) {
		struct ibv_wc wc;
		must(post_send(&pair[0], 0));
		must(post_recv(&pair[1], 0));
		must(ibv_poll_cq(pair[0].cq, 1, &wc) <= 0);
		must(!v_create_cq(pair[0].context, 1, NULL, NULL, 0));
		both(own);
		traffic(own);
		exit(0);
	}
	must(waitpid(child, &status, 0) == child);
	must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	traffic(pair);
	closed(&pair[0]);
	closed(&pair[1]);
}

static int meet(int waits, int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0), listener = fd;
	must(fd >= 0);
	if (waits) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		must(!bind(fd, (void *)&at, sizeof(at)) && !listen(fd, 1));
		must((fd = accept(listener, NULL, NULL)) >= 0);
		close(listener);
	} else {
		must(!connect(fd, (void *)&at, sizeof(at)));
	}
	return fd;
}

static void swapped(int fd, const void *mine, void *theirs, size_t size)
{
	must(write(fd, mine, size) == (ssize_t)size);
	must(recv(fd, theirs, size, MSG_WAITALL) == (ssize_t)size);
}

/* One end, connected with another process's. */
static struct end met(int receives, int port)
{
	struct end end = opened();
	struct place mine = place_of(&end), theirs;
	int fd = meet(receives, port);
	char ready = 1;
	swapped(fd, &mine, &theirs, sizeof(mine));
	connected(&end, theirs);
	if (receives)
		post_recvs(&end);
	swapped(fd, &ready, &ready, 1);
	return end;
}

static void drain(struct end *end)
{
	for (;;) {
		struct ibv_wc wc = completion(end);
		must(wc.status == IBV_WC_SUCCESS);
		must(!post_recv(end, (int)wc.wr_id));
	}
}

static void flood(struct end *end)
{
	unsigned long sent = 0;
	for (;; sent++) {
		must(!post_send(end, 0));
		struct ibv_wc wc = completion(end);
		if (wc.status != IBV_WC_SUCCESS) {
			printf("ended after %lu with status %d\n", sent, wc.status);
			must(wc.status == IBV_WC_RETRY_EXC_ERR);
			return;
		}
		if (!sent) {
			puts("began");
			fflush(stdout);
		}
	}
}

int main(int count, char **arguments)
{
	const char *mode = count > 1 ? arguments[1] : "";
	int port = count > 2 ? atoi(arguments[2]) : 0;
	struct end end;
	load();
	if (!strcmp(mode, "unload")) {
		unload_twice();
	} else if (!strcmp(mode, "unload-open")) {
		unload_open();
	} else if (!strcmp(mode, "fork")) {
		forked();
	} else if (!strcmp(mode, "receive")) {
		end = met(1, port);
		receive_all(&end);
	} else if (!strcmp(mode, "send")) {
		end = met(0, port);
		send_all(&end);
	} else if (!strcmp(mode, "drain")) {
		end = met(1, port);
		drain(&end);
	} else if (!strcmp(mode, "flood")) {
		end = met(0, port);
		flood(&end);
	} else {
		fprintf(stderr, "ends: what is `%s`?\n", mode);
		return 2;
	}
	return 0;
}
