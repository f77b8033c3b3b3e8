package infiniband

import "reckon/metric"

// counterField describes a counter of a port: its file and its series.
type counterField struct {
	file  string // below the directory of the port
	desc  *metric.Desc
	scale float64
	// top is the value at which the counter of the device saturates; 0 if unknown.
	top int64
}

// top4 to top32 are the maximum values of counters with 4, 8, 16 and 32 bits, which stop there instead of wrapping
// (InfiniBand Architecture Specification, volume 1, PortCounters).
const (
	top4  = 1<<4 - 1
	top8  = 1<<8 - 1
	top16 = 1<<16 - 1
	top32 = 1<<32 - 1
)

// bytesPerWord is the unit of the data counters: four octets, on any number of lanes.
const bytesPerWord = 4

func portDesc(name, help string, unit metric.Unit) *metric.Desc {
	return &metric.Desc{Name: "node_infiniband_" + name, Help: help, Kind: metric.Counter, Unit: unit, Labels: portLabels}
}

var (
	deviceLabels = []string{"device", "board_id", "firmware_version", "hca_type"}
	portLabels   = []string{"device", "port"}

	infoDesc = &metric.Desc{Name: "node_infiniband_info", Help: "Non-numeric data of the device; the value is always 1.",
		Kind: metric.Gauge, Labels: deviceLabels}
	stateID = &metric.Desc{Name: "node_infiniband_state_id", Kind: metric.Gauge, Labels: portLabels,
		Help: "State of the port (0: no change, 1: down, 2: init, 3: armed, 4: active, 5: act defer)."}
	physicalID = &metric.Desc{Name: "node_infiniband_physical_state_id", Kind: metric.Gauge, Labels: portLabels,
		Help: "Physical state of the port (0: no change, 1: sleep, 2: polling, 3: disable, 4: shift, 5: link up, 6: link error recover, " +
			"7: phytest)."}
	rateDesc = &metric.Desc{Name: "node_infiniband_rate_bytes_per_second", Kind: metric.Gauge, Labels: portLabels,
		Help: "Rate of the link as it was trained, in each direction."}
	layerDesc = &metric.Desc{Name: "reckon_infiniband_port_info", Kind: metric.Gauge, Labels: []string{"device", "port", "link_layer"},
		Help: "Link layer of the port: InfiniBand (Omni-Path too), or Ethernet where it is RoCE or iWARP; the value is always 1."}
	saturatedDesc = &metric.Desc{Name: "reckon_infiniband_saturated", Kind: metric.Gauge, Labels: []string{"device", "port", "counter"},
		Help: "1 for a saturated counter of the port, until it is cleared. Its own series is absent meanwhile."}

	receivedDesc = portDesc("port_data_received_bytes_total", "Octets of data received by the port.", metric.Bytes)
	sentDesc     = portDesc("port_data_transmitted_bytes_total", "Octets of data sent by the port.", metric.Bytes)
)

// portCounters are the counters, under the names of node_exporter.
var portCounters = []counterField{
	{"counters/port_rcv_data", receivedDesc, bytesPerWord, top32},
	{"counters/port_xmit_data", sentDesc, bytesPerWord, top32},
	{"counters/port_rcv_packets", portDesc("port_packets_received_total", "Packets received by the port, those with errors included.", ""),
		1,
		top32},
	{"counters/port_xmit_packets", portDesc("port_packets_transmitted_total", "Packets sent by the port, those with errors included.", ""),
		1,
		top32},
	{"counters/unicast_rcv_packets", portDesc("unicast_packets_received_total", "Unicast packets received, those with errors included.",
		""), 1,
		0},
	{"counters/unicast_xmit_packets", portDesc("unicast_packets_transmitted_total", "Unicast packets sent, those with errors included.",
		""), 1,
		0},
	{"counters/multicast_rcv_packets",
		portDesc("multicast_packets_received_total", "Multicast packets received, those with errors included.", ""), 1, 0},
	{"counters/multicast_xmit_packets",
		portDesc("multicast_packets_transmitted_total", "Multicast packets sent, those with errors included.", ""), 1, 0},
	{"counters/symbol_error", portDesc("symbol_error_total", "Minor errors of the link detected on one or more physical lanes.", ""), 1,
		top16},
	{"counters/link_error_recovery", portDesc("link_error_recovery_total", "How often the link recovered from an error by training again.",
		""),
		1, top8},
	{"counters/link_downed", portDesc("link_downed_total", "How often the link failed to recover from an error and went down.", ""), 1,
		top8},
	{"counters/local_link_integrity_errors",
		portDesc("local_link_integrity_errors_total", "How often local physical errors passed their threshold.", ""), 1, top4},
	{"counters/excessive_buffer_overrun_errors",
		portDesc("excessive_buffer_overrun_errors_total", "How often buffers overran in successive periods of flow control.", ""), 1, top4},
	{"counters/port_rcv_errors", portDesc("port_errors_received_total", "Packets with an error that the port received.", ""), 1, top16},
	{"counters/port_rcv_remote_physical_errors",
		portDesc("port_receive_remote_physical_errors_total", "Packets received that were marked as bad on their way.", ""), 1, top16},
	{"counters/port_rcv_switch_relay_errors",
		portDesc("port_receive_switch_relay_errors_total", "Packets received that the switch could not forward.", ""), 1, top16},
	{"counters/port_rcv_constraint_errors",
		portDesc("port_constraint_errors_received_total", "Packets received that were discarded on the physical port of the switch.", ""),
		1,
		top8},
	{"counters/port_xmit_constraint_errors",
		portDesc("port_constraint_errors_transmitted_total", "Packets not sent from the physical port of the switch.", ""), 1, top8},
	{"counters/port_rcv_discards",
		portDesc("port_discards_received_total", "Inbound packets discarded because the port was down or congested.", ""), 1, 0},
	{"counters/port_xmit_discards",
		portDesc("port_discards_transmitted_total", "Outbound packets discarded because the port was down or congested.", ""), 1, top16},
	{"counters/port_xmit_wait", portDesc("port_transmit_wait_total", "Ticks of the port with data to send in which none could be sent.",
		""), 1,
		top32},
	{"counters/VL15_dropped", portDesc("vl15_dropped_total", "Inbound packets of management that were dropped for lack of resources.", ""),
		1,
		top16},

	{"counters_ext/port_rcv_data_64",
		portDesc("legacy_data_received_bytes_total", "Octets of data received on all links, of kernels before 4.5.", metric.Bytes),
		bytesPerWord, 0},
	{"counters_ext/port_xmit_data_64",
		portDesc("legacy_data_transmitted_bytes_total", "Octets of data sent on all links, of kernels before 4.5.", metric.Bytes),
		bytesPerWord, 0},
	{"counters_ext/port_rcv_packets_64", portDesc("legacy_packets_received_total", "Packets received on all links, of kernels before 4.5.",
		""),
		1, 0},
	{"counters_ext/port_xmit_packets_64", portDesc("legacy_packets_transmitted_total", "Packets sent on all links, of kernels before 4.5.",
		""),
		1, 0},
	{"counters_ext/port_unicast_rcv_packets",
		portDesc("legacy_unicast_packets_received_total", "Unicast packets received, of kernels before 4.5.", ""), 1, 0},
	{"counters_ext/port_unicast_xmit_packets",
		portDesc("legacy_unicast_packets_transmitted_total", "Unicast packets sent, of kernels before 4.5.", ""), 1, 0},
	{"counters_ext/port_multicast_rcv_packets",
		portDesc("legacy_multicast_packets_received_total", "Multicast packets received, of kernels before 4.5.", ""), 1, 0},
	{"counters_ext/port_multicast_xmit_packets",
		portDesc("legacy_multicast_packets_transmitted_total", "Multicast packets sent, of kernels before 4.5.", ""), 1, 0},

	{"hw_counters/duplicate_request", portDesc("duplicate_requests_packets_total", "Requests received that had been executed before.", ""),
		1,
		0},
	{"hw_counters/implied_nak_seq_err",
		portDesc("implied_nak_seq_errors_total", "Answers with a sequence number beyond the one expected of an RDMA read or response.",
			""), 1,
		0},
	{"hw_counters/local_ack_timeout_err",
		portDesc("local_ack_timeout_errors_total", "How often a sender waited too long for an acknowledgement and tried again.", ""), 1, 0},
	{"hw_counters/np_cnp_sent", portDesc("np_cnp_packets_sent_total", "Notifications of congestion sent.", ""), 1, 0},
	{"hw_counters/np_ecn_marked_roce_packets",
		portDesc("np_ecn_marked_roce_packets_received_total", "RoCE packets received that were marked for congestion (ECN).", ""), 1, 0},
	{"hw_counters/out_of_buffer", portDesc("out_of_buffer_drops_total", "Packets dropped because the queue pair had no buffer for them.",
		""),
		1, 0},
	{"hw_counters/out_of_sequence", portDesc("out_of_sequence_packets_received_total", "Packets received out of sequence.", ""), 1, 0},
	{"hw_counters/packet_seq_err", portDesc("packet_sequence_errors_total", "Negative acknowledgements received for sequence errors.", ""),
		1,
		0},
	{"hw_counters/req_cqe_error", portDesc("req_cqes_errors_total", "Completions with errors at the requester.", ""), 1, 0},
	{"hw_counters/req_cqe_flush_error", portDesc("req_cqes_flush_errors_total", "Completions flushed with errors at the requester.", ""),
		1, 0},
	{"hw_counters/req_remote_access_errors", portDesc("req_remote_access_errors_total", "Errors of remote access at the requester.", ""),
		1, 0},
	{"hw_counters/req_remote_invalid_request",
		portDesc("req_remote_invalid_request_errors_total", "Requests that the other side refused as invalid.", ""), 1, 0},
	{"hw_counters/resp_cqe_error", portDesc("resp_cqes_errors_total", "Completions with errors at the responder.", ""), 1, 0},
	{"hw_counters/resp_cqe_flush_error", portDesc("resp_cqes_flush_errors_total", "Completions flushed with errors at the responder.", ""),
		1,
		0},
	{"hw_counters/resp_local_length_error", portDesc("resp_local_length_errors_total", "Errors of local length at the responder.", ""), 1,
		0},
	{"hw_counters/resp_remote_access_errors", portDesc("resp_remote_access_errors_total", "Errors of remote access at the responder.", ""),
		1,
		0},
	{"hw_counters/rnr_nak_retry_err", portDesc("rnr_nak_retry_packets_received_total", "Answers received that the receiver was not ready.",
		""),
		1, 0},
	{"hw_counters/roce_adp_retrans", portDesc("roce_adp_retransmits_total", "Adaptive retransmissions of RoCE.", ""), 1, 0},
	{"hw_counters/roce_adp_retrans_to",
		portDesc("roce_adp_retransmits_timeout_total", "Adaptive retransmissions of RoCE that ran into their time limit.", ""), 1, 0},
	{"hw_counters/roce_slow_restart", portDesc("roce_slow_restart_used_total", "How often slow restart was used by RoCE.", ""), 1, 0},
	{"hw_counters/roce_slow_restart_cnps",
		portDesc("roce_slow_restart_cnps_total", "Notifications of congestion that slow restart of RoCE made.", ""), 1, 0},
	{"hw_counters/roce_slow_restart_trans", portDesc("roce_slow_restart_total", "How often RoCE went over to slow restart.", ""), 1, 0},
	{"hw_counters/rp_cnp_handled", portDesc("rp_cnp_packets_handled_total", "Notifications of congestion that slowed sending down.", ""),
		1, 0},
	{"hw_counters/rp_cnp_ignored", portDesc("rp_cnp_ignored_packets_received_total", "Notifications of congestion that were ignored.", ""),
		1,
		0},
	{"hw_counters/rx_atomic_requests", portDesc("rx_atomic_requests_total", "Requests of ATOMIC received.", ""), 1, 0},
	{"hw_counters/rx_dct_connect", portDesc("rx_dct_connect_requests_total", "Requests of connection received by DCTs.", ""), 1, 0},
	{"hw_counters/rx_icrc_encapsulated", portDesc("rx_icrc_encapsulated_errors_total", "RoCE packets received with a wrong check sum.",
		""), 1,
		0},
	{"hw_counters/rx_read_requests", portDesc("rx_read_requests_total", "Requests of READ received.", ""), 1, 0},
	{"hw_counters/rx_write_requests", portDesc("rx_write_requests_total", "Requests of WRITE received.", ""), 1, 0},
}

// byteCounters are the data counters of adapters that count bytes among their hardware counters, such as Elastic
// Fabric Adapters and some RoCE adapters.
var byteCounters = []counterField{
	{"hw_counters/rx_bytes", receivedDesc, 1, 0},
	{"hw_counters/tx_bytes", sentDesc, 1, 0},
}

// Descs lists the series of the sensor, even if it is unavailable.
func Descs() []*metric.Desc {
	out := []*metric.Desc{infoDesc, stateID, physicalID, rateDesc, layerDesc, saturatedDesc}
	for i := range portCounters {
		out = append(out, portCounters[i].desc)
	}
	return out
}
