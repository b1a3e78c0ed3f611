/* SPDX-License-Identifier: GPL-2.0-only */
/* Loses every hundredth segment of data that comes for TCP port PORT, once: what is sent again passes. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>

#define SEC(name) __attribute__((section(name), used))

static long (*bpf_skb_load_bytes)(const void *skb, __u32 offset, void *to,
				  __u32 len) = (void *)BPF_FUNC_skb_load_bytes;

static __u64 seen, last;

SEC("tc")
int lose(struct __sk_buff *skb)
{
	struct iphdr ip;
	struct tcphdr tcp;
	__u64 segment;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.protocol != IPPROTO_TCP ||
	    bpf_skb_load_bytes(skb, ETH_HLEN + ip.ihl * 4, &tcp, sizeof(tcp)))
		return TC_ACT_OK;
	if (__builtin_bswap16(tcp.dest) != PORT || __builtin_bswap16(ip.tot_len) <= ip.ihl * 4 + tcp.doff * 4)
		return TC_ACT_OK;
	segment = (__u64)tcp.source << 32 | tcp.seq;
	if (segment == last || ++seen % 100)
		return TC_ACT_OK;
	last = segment;
	return TC_ACT_SHOT;
}

char licence[] SEC("license") = "GPL";
