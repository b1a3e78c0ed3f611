/* SPDX-License-Identifier: GPL-2.0-only */
/* Network: device queue, driver, receive, TCP. */

#define NET_WANTED \
	u32 tid = current_tid(); \
	if (!wanted(tid) || thinned(PLUMB_THIN_NET)) \
	return 0

#define SKB_EVENT(name_) \
	{ \
		NET_WANTED; \
		EMIT(name_, tid, { \
			e->skb = (u64)skb; \
			e->len = skb->len; \
			e->ifindex = skb->dev->ifindex; \
		}); \
		return 0; \
	}

SEC("tp_btf/net_dev_queue")
int BPF_PROG(net_dev_queue, struct sk_buff *skb) SKB_EVENT(net_dev_queue)

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(net_dev_start_xmit, struct sk_buff *skb) SKB_EVENT(net_dev_start_xmit)

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(netif_receive_skb, struct sk_buff *skb) SKB_EVENT(netif_receive_skb)

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit_skb, struct sock *sk, struct sk_buff *skb)
{
	NET_WANTED;
	EMIT(tcp_retransmit_skb, tid, {
		e->sk = (u64)sk;
		e->skb = (u64)skb;
	});
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(inet_sock_set_state, struct sock *sk, int old_state, int new_state)
{
	NET_WANTED;
	EMIT(inet_sock_set_state, tid, {
		e->sk = (u64)sk;
		e->old_state = old_state;
		e->new_state = new_state;
	});
	return 0;
}
