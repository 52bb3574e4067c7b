/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by rendezvous.c and rendezvous_accept.c. */
#ifndef MEGATRON_COMM_RENDEZVOUS_PRIVATE_H
#define MEGATRON_COMM_RENDEZVOUS_PRIVATE_H

/* Set what every connection between ranks needs. */
void rendezvous_prepare(int fd);

#endif
