/* quantities -- machines and models as named numbers, under the names that formulas ask for. */
#ifndef PURLIN_ROOFLINE_QUANTITIES_H
#define PURLIN_ROOFLINE_QUANTITIES_H

#include "src/machine/hardware.h"
#include "src/model/architecture.h"
#include "src/roofline/formula.h"

enum { PL_QUANTITIES_MOST = 96 };

/** What a machine is known by, returning how many:
 *
 *   flops_per_s (of `peak`; absent where the chip lacks it), peak_X_flops_per_s, hbm_bytes,
 *   hbm_bytes_per_s, fast_bytes, fast_bytes_per_s, host_bytes_per_s, vector_flops_per_s,
 *   price_usd_per_hour, chips_per_host
 *   torus: link_bytes_per_s (one way), net_bytes_per_s (an axis, both ways: the book's W_ici),
 *   torus_dims, pod_dim0.., pod_chips, ring_multiple, dcn_bytes_per_s (a chip)
 *   switches: chip_bytes_per_s = net_bytes_per_s, chips_per_domain, node_bytes_per_s (a domain)
 *   hop_latency_s, level0_size, level0_bytes_per_s (a chip's share) and so on
 *   and all of the file's "parts": what the chip and its switches are built of.
 *
 * Reads the file again for its parts; refuses what cannot be read. */
pl_status pl_hardware_quantities(const pl_hardware *hw, pl_peak peak,
                                 pl_quantity quantities[PL_QUANTITIES_MOST], int *n);

/** What a model is known by: L D N K H F V E k T, params (those that a token uses: FLOPs follow
 * them), active_params, total_params, kv_bytes_per_token at that many bytes an element, and
 * train_flops_per_token in sequences of T (causal attention). Returns how many. */
int pl_architecture_quantities(const pl_architecture *a, double bytes_per_element,
                               pl_quantity quantities[PL_QUANTITIES_MOST]);

#endif
