package misuse

import (
	"reckon/figure/format"
	"reckon/internal/phrase"
)

// AnomalyRule reports deviations of sites, nodes, services and their owners from their past, found by analysis/anomaly.
type AnomalyRule struct {
	On bool `yaml:"on"`
}

// AnomalyText describes an anomaly: kind is high, low or shift, figure that of a forecast.
func AnomalyText(kind, figure string, value, expected float64) string {
	write, what := format.Number, figure
	switch figure {
	case "cores":
		what = "cores in use"
	case "memory_bytes":
		write, what = format.Bytes, "memory"
	case "watts":
		write, what = format.Watts, "power"
	case "gpus":
		what = "GPUs in use"
	case "disk_bytes_per_second":
		write, what = format.Rate, "disk traffic"
	case "network_bytes_per_second":
		write, what = format.Rate, "network traffic"
	}
	return say("anomaly."+kind, phrase.Words{"what": what, "value": write(value), "expected": write(expected)})
}

// ClimbText describes rising memory: seconds until its limit, bytes per hour, and the limit in bytes.
func ClimbText(seconds, bytes, limit float64) string {
	return say("anomaly.climb", phrase.Words{"span": Span(seconds), "bytes": format.Bytes(bytes), "limit": format.Bytes(limit)})
}

// PeersText describes a node whose power, in watts, differs from that of a number of nodes that have the same.
func PeersText(value, peers float64, count int, like string) string {
	return say("anomaly.peers", phrase.Words{"value": format.Watts(value), "peers": format.Watts(peers),
		"count": format.Count(float64(count)),
		"like":  like})
}
