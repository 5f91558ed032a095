/* peers -- matrix products of other libraries, for comparison only: loaded when asked for, so that
 * no program depends on them. OpenBLAS is the one that purlin links with. One thread each. */
#ifndef PURLIN_KERNBENCH_PEERS_H
#define PURLIN_KERNBENCH_PEERS_H

#include "src/base/status.h"
#include "src/kernbench/case.h"

typedef enum { PL_PEER_OPENBLAS, PL_PEER_ONEDNN, PL_PEER_BLIS, PL_N_PEERS } pl_peer;

/** "openblas", "onednn", "blis". */
const char *pl_peer_name(pl_peer peer);

typedef struct {
    bool asked[PL_N_PEERS];
    char version[PL_N_PEERS][128]; /* what it calls itself */
    void *onednn, *blis;           /* libraries */
} pl_peers;

/** Load those asked for. Refuses one that is not installed. Local, as is all here. */
pl_status pl_peers_open(const bool asked[PL_N_PEERS], pl_peers *peers);
void pl_peers_close(pl_peers *peers);

/** The product of a case, as a peer computes it. */
typedef struct pl_peer_call pl_peer_call;

/** Prepare it: operands as the case has them, or, where the peer has no bf16, the same in f32; a c
 * of its own. NULL when this peer cannot compute it. The case is filled already. */
pl_peer_call *pl_peer_call_create(const pl_peers *peers, pl_peer peer, const pl_case *c);
void pl_peer_call_destroy(pl_peer_call *call); /* NULL is allowed */
void pl_peer_call_run(pl_peer_call *call);
/** Its c. */
pl_array pl_peer_call_result(const pl_peer_call *call);

#endif
