/* Calls functions of a libibverbs with what no program should give them, each in a process of its
 * own. What the library is linked to it finds by LD_LIBRARY_PATH.
 *
 *     exports null|garbage|sound|alive|dead|wrong SEED NAME..
 *
 * "sound" gives objects that are alive and structures of zeros, which no call may be ended by;
 * "alive" and "dead" give such objects, or objects that were destroyed, with garbage; "wrong" gives
 * an address that is too low for any object, or a device that is not listed, with structures of
 * zeros, and all calls that take an object must return. A name that
 * begins with "inline:" is that of a function of the header, which reaches the library by a table
 * of an object.
 *
 * A line a function: its name, and "exit" or the number of the signal that ended the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#define AREA 65536
#define CALLS 64
#define SECONDS 10
#define ARGUMENTS 6

typedef long (*function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

enum kind { CONTEXT, PD, CHANNEL, CQ, MR, SRQ, QP, MW, AH, DEVICE, LIST, KINDS };

static uintptr_t objects[KINDS];
static char zeros[AREA], noise[AREA], memory[AREA];
static uint64_t state;

/* What each function is given first: other functions are given any of them. */
static const struct { const char *name; enum kind kind; } first[] = {
	{ "ibv_get_device_name", DEVICE }, { "ibv_get_device_guid", DEVICE },
	{ "ibv_get_device_index", DEVICE }, { "ibv_open_device", DEVICE },
	{ "ibv_close_device", CONTEXT }, { "ibv_get_async_event", CONTEXT },
	{ "ibv_query_device", CONTEXT }, { "ibv_query_port", CONTEXT }, { "ibv_query_gid", CONTEXT },
	{ "_ibv_query_gid_ex", CONTEXT }, { "_ibv_query_gid_table", CONTEXT },
	{ "ibv_query_gid_type", CONTEXT }, { "ibv_query_pkey", CONTEXT },
	{ "ibv_get_pkey_index", CONTEXT }, { "ibv_alloc_pd", CONTEXT },
	{ "ibv_create_comp_channel", CONTEXT }, { "ibv_create_cq", CONTEXT },
	{ "ibv_init_ah_from_wc", CONTEXT }, { "ibv_dealloc_pd", PD }, { "ibv_reg_mr", PD },
	{ "ibv_reg_mr_iova", PD }, { "ibv_reg_mr_iova2", PD }, { "ibv_create_srq", PD },
	{ "ibv_create_qp", PD }, { "ibv_create_ah", PD }, { "ibv_create_ah_from_wc", PD },
	{ "ibv_rereg_mr", MR }, { "ibv_dereg_mr", MR }, { "ibv_destroy_comp_channel", CHANNEL },
	{ "ibv_get_cq_event", CHANNEL }, { "ibv_ack_cq_events", CQ }, { "ibv_resize_cq", CQ },
	{ "ibv_destroy_cq", CQ }, { "ibv_modify_srq", SRQ }, { "ibv_query_srq", SRQ },
	{ "ibv_destroy_srq", SRQ }, { "ibv_query_qp", QP }, { "ibv_modify_qp", QP },
	{ "ibv_query_qp_data_in_order", QP }, { "ibv_destroy_qp", QP }, { "ibv_attach_mcast", QP },
	{ "ibv_detach_mcast", QP }, { "ibv_qp_to_qp_ex", QP }, { "ibv_query_ece", QP },
	{ "ibv_set_ece", QP }, { "ibv_destroy_ah", AH }, { "ibv_free_device_list", LIST },
	{ "ibv_resolve_eth_l2_from_gid", CONTEXT }, { "ibv_reg_dmabuf_mr", PD },
	{ "ibv_import_pd", CONTEXT }, { "ibv_unimport_pd", PD }, { "ibv_import_mr", PD },
	{ "ibv_unimport_mr", MR }, { "ibv_import_dm", CONTEXT },
	{ "inline:ibv_post_send", QP }, { "inline:ibv_post_recv", QP },
	{ "inline:ibv_post_srq_recv", SRQ }, { "inline:ibv_poll_cq", CQ },
	{ "inline:ibv_req_notify_cq", CQ }, { "inline:ibv_alloc_mw", PD },
	{ "inline:ibv_dealloc_mw", MW }, { "inline:ibv_bind_mw", QP },
	{ "inline:ibv_create_cq_ex", CONTEXT }, { "inline:ibv_create_qp_ex", CONTEXT },
	{ "inline:ibv_create_srq_ex", CONTEXT }, { "inline:ibv_query_device_ex", CONTEXT },
	{ "inline:ibv_query_rt_values_ex", CONTEXT }, { "inline:ibv_open_xrcd", CONTEXT },
	{ "inline:ibv_alloc_td", CONTEXT }, { "inline:ibv_alloc_parent_domain", CONTEXT },
	{ "inline:ibv_alloc_dm", CONTEXT }, { "inline:ibv_create_wq", CONTEXT },
	{ "inline:ibv_create_counters", CONTEXT }, { "inline:ibv_modify_cq", CQ },
	{ "inline:ibv_advise_mr", PD }, { "inline:ibv_create_flow", QP },
	{ "inline:ibv_modify_qp_rate_limit", QP },
};

/* The functions of the header, with arguments as wide as those of exported ones. */
#define INLINE(name, ...) static long inline_##name(uintptr_t a, uintptr_t b, uintptr_t c, \
	uintptr_t d, uintptr_t e, uintptr_t f) \
{ (void)a; (void)b; (void)c; (void)d; (void)e; (void)f; return (long)name(__VA_ARGS__); }
INLINE(ibv_post_send, (void *)a, (void *)b, (void *)c)
INLINE(ibv_post_recv, (void *)a, (void *)b, (void *)c)
INLINE(ibv_post_srq_recv, (void *)a, (void *)b, (void *)c)
INLINE(ibv_poll_cq, (void *)a, (int)b, (void *)c)
INLINE(ibv_req_notify_cq, (void *)a, (int)b)
INLINE(ibv_alloc_mw, (void *)a, (int)b)
INLINE(ibv_dealloc_mw, (void *)a)
INLINE(ibv_create_cq_ex, (void *)a, (void *)b)
/* Of these the header reads the structure before the library does. */
INLINE(ibv_create_qp_ex, (void *)a, b ? (void *)b : (void *)zeros)
INLINE(ibv_create_srq_ex, (void *)a, b ? (void *)b : (void *)zeros)
INLINE(ibv_bind_mw, (void *)a, (void *)objects[MW], c ? (void *)c : (void *)zeros)
INLINE(ibv_query_device_ex, (void *)a, (void *)b, (void *)c)
INLINE(ibv_query_rt_values_ex, (void *)a, (void *)b)
INLINE(ibv_open_xrcd, (void *)a, (void *)b)
INLINE(ibv_alloc_td, (void *)a, (void *)b)
INLINE(ibv_alloc_parent_domain, (void *)a, (void *)b)
INLINE(ibv_alloc_dm, (void *)a, (void *)b)
INLINE(ibv_create_wq, (void *)a, (void *)b)
INLINE(ibv_create_counters, (void *)a, (void *)b)
INLINE(ibv_modify_cq, (void *)a, (void *)b)
INLINE(ibv_advise_mr, (void *)a, (int)b, (uint32_t)c, (void *)d, (uint32_t)e)
INLINE(ibv_create_flow, (void *)a, (void *)b)
INLINE(ibv_modify_qp_rate_limit, (void *)a, (void *)b)

#define NAMED(name) { "inline:" #name, inline_##name }
static const struct { const char *name; function called; } inlines[] = {
	NAMED(ibv_post_send), NAMED(ibv_post_recv), NAMED(ibv_post_srq_recv), NAMED(ibv_poll_cq),
	NAMED(ibv_req_notify_cq), NAMED(ibv_alloc_mw), NAMED(ibv_dealloc_mw), NAMED(ibv_bind_mw),
	NAMED(ibv_create_cq_ex), NAMED(ibv_create_qp_ex), NAMED(ibv_create_srq_ex),
	NAMED(ibv_query_device_ex), NAMED(ibv_query_rt_values_ex), NAMED(ibv_open_xrcd),
	NAMED(ibv_alloc_td), NAMED(ibv_alloc_parent_domain), NAMED(ibv_alloc_dm),
	NAMED(ibv_create_wq), NAMED(ibv_create_counters), NAMED(ibv_modify_cq),
	NAMED(ibv_advise_mr), NAMED(ibv_create_flow), NAMED(ibv_modify_qp_rate_limit),
};


static uint64_t number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void *made(void *object, const char *what)
{
	if (!object) {
		fprintf(stderr, "exports: cannot make %s\n", what);
		_exit(3);
	}
	return object;
}

static void make(void)
{
	struct ibv_device **list = made(ibv_get_device_list(NULL), "a list");
	struct ibv_context *context = made(ibv_open_device(made(list[0], "a device")), "a context");
	struct ibv_pd *pd = made(ibv_alloc_pd(context), "a domain");
	struct ibv_comp_channel *channel = made(ibv_create_comp_channel(context), "a channel");
	struct ibv_cq *cq = made(ibv_create_cq(context, 64, NULL, channel, 0), "a completion queue");
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64 } };
	made((void *)(uintptr_t)!ibv_query_gid(context, 1, 0, &to.grh.dgid), "an address");
	/* Who waits for an event is told that there is none. */
	fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
	fcntl(channel->fd, F_SETFL, O_NONBLOCK);
	objects[DEVICE] = (uintptr_t)list[0];
	objects[CONTEXT] = (uintptr_t)context;
	objects[PD] = (uintptr_t)pd;
	objects[CHANNEL] = (uintptr_t)channel;
	objects[CQ] = (uintptr_t)cq;
	objects[MR] = (uintptr_t)made(ibv_reg_mr(pd, memory, AREA, IBV_ACCESS_LOCAL_WRITE), "a region");
	objects[SRQ] = (uintptr_t)made(ibv_create_srq(pd, &shared), "a shared receive queue");
	objects[QP] = (uintptr_t)made(ibv_create_qp(pd, &attr), "a queue pair");
	objects[AH] = (uintptr_t)made(ibv_create_ah(pd, &to), "an address handle");
	objects[LIST] = (uintptr_t)ibv_get_device_list(NULL);
	objects[MW] = (uintptr_t)made(ibv_alloc_mw(pd, IBV_MW_TYPE_1), "a window");
}

static void end(void)
{
	ibv_free_device_list((void *)objects[LIST]);
	if (ibv_dealloc_mw((void *)objects[MW]) || ibv_destroy_ah((void *)objects[AH]) || ibv_destroy_qp((void *)objects[QP]) ||
	    ibv_destroy_srq((void *)objects[SRQ]) || ibv_dereg_mr((void *)objects[MR]) ||
	    ibv_destroy_cq((void *)objects[CQ]) ||
	    ibv_destroy_comp_channel((void *)objects[CHANNEL]) ||
	    ibv_dealloc_pd((void *)objects[PD]) || ibv_close_device((void *)objects[CONTEXT]))
		made(NULL, "an end");
}

static uintptr_t garbage(void)
{
	switch (number() % 9) {
	case 0: return 0;
	case 1: return 1;
	case 2: return UINTPTR_MAX;
	case 3: return INT32_MAX;
	case 4: return number() % 4096;
	case 5: return (uintptr_t)zeros;
	case 6: return (uintptr_t)noise + number() % 64;
	case 7: return (uintptr_t)memory;
	default: return number();
	}
}

/* Nothing, or memory that any structure fits in. */
static uintptr_t sound(void)
{
	switch (number() % 3) {
	case 0: return 0;
	case 1: return (uintptr_t)zeros;
	default: return (uintptr_t)memory;
	}
}

/* No object: a NULL with the offset of a field, or for a device anything that is not listed. */
static uintptr_t wrong(enum kind kind)
{
	static struct ibv_device copy;
	if (kind == LIST)
		return 0;
	if (kind == DEVICE)
		switch (number() % 4) {
		case 0: return (uintptr_t)zeros;
		case 1: return (uintptr_t)noise + number() % 64;
		case 2:
			memcpy(&copy, (void *)objects[DEVICE], sizeof(copy));
			return (uintptr_t)&copy;
		}
	return number() % 4095 + 1;
}

static uintptr_t first_of(const char *name, int is_sound, int is_wrong)
{
	for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++)
		if (!strcmp(first[i].name, name))
			return is_wrong ? wrong(first[i].kind) : objects[first[i].kind];
	return is_sound ? sound() : objects[number() % KINDS];
}

static function found(const char *name)
{
	for (size_t i = 0; i < sizeof(inlines) / sizeof(*inlines); i++)
		if (!strcmp(inlines[i].name, name))
			return inlines[i].called;
	return (function)dlsym(RTLD_DEFAULT, name);
}

static void call(const char *round, const char *name)
{
	function called = found(name);
	const char *plain = strchr(name, ':') ? strchr(name, ':') + 1 : name;
	uintptr_t given[ARGUMENTS] = { 0 };
	int is_null = !strcmp(round, "null"), is_garbage = !strcmp(round, "garbage");
	int is_wrong = !strcmp(round, "wrong"), is_sound = is_wrong || !strcmp(round, "sound");
	made((void *)called, name);
	alarm(SECONDS);
	if (!is_null && !is_garbage)
		make();
	if (!strcmp(round, "dead"))
		end();
	for (int i = 0; i < (is_null ? 1 : CALLS); i++) {
		for (int at = 0; at < ARGUMENTS && !is_null; at++)
			given[at] = is_sound ? sound() : garbage();
		if (!is_null && !is_garbage)
			given[0] = first_of(name, is_sound, is_wrong);
		if (is_sound) {
			memset(zeros, 0, AREA);
			memset(memory, 0, AREA);
		}
		called(given[0], given[1], given[2], given[3], given[4], given[5]);
		/* It may be gone by now, or not: what comes next is for another process. */
		if (is_wrong)
			continue;
		if (strstr(plain, "destroy") || strstr(plain, "_de") == plain + 3 ||
		    strstr(plain, "close") || strstr(plain, "free"))
			break;
	}
}

int main(int count, char **arguments)
{
	if (count < 4)
		return 2;
	for (int at = 3; at < count; at++) {
		int status;
		state = strtoull(arguments[2], NULL, 0) * 0x9E3779B97F4A7C15u + at;
		for (int i = 0; i < AREA; i++)
			noise[i] = (char)number();
		pid_t child = fork();
		if (child == 0) {
			call(arguments[1], arguments[at]);
			_exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 1;
		if (WIFSIGNALED(status))
			printf("%s %d\n", arguments[at], WTERMSIG(status));
		else if (WEXITSTATUS(status) == 0)
			printf("%s exit\n", arguments[at]);
		else
			printf("%s failed\n", arguments[at]);
		fflush(stdout);
	}
	return 0;
}
