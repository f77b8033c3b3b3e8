package misuse

import (
	"strings"

	"reckon/figure/format"
	"reckon/internal/phrase"
)

// AnomalyRule reports deviations of sites, nodes, services and their owners from their past, found by analysis/anomaly.
type AnomalyRule struct {
	On bool `yaml:"on"`
}

// AnomalyText describes an anomaly: kind is high, low or shift, figure a forecast's figure. A rise from nothing names no figure of
// before.
func AnomalyText(kind, figure string, value, expected float64) phrase.Sentence {
	unit, write, what := "count", format.Number, figure
	switch figure {
	case "cores":
		unit, what = "cores", "cores in use"
	case "memory_bytes":
		unit, write, what = "bytes", format.Bytes, "memory"
	case "watts":
		unit, write, what = "watts", format.Watts, "power"
	case "gpus":
		what = "GPUs in use"
	case "disk_bytes_per_second":
		unit, write, what = "bytes/s", format.Rate, "disk traffic"
	case "network_bytes_per_second":
		unit, write, what = "bytes/s", format.Rate, "network traffic"
	}
	if before := write(expected); kind == "high" && (before == write(0) || strings.HasPrefix(before, "<")) {
		return ruleSentence("anomaly.new", phrase.Words{"what": what, "value": phrase.Number(value, unit, write(value))})
	}
	return ruleSentence("anomaly."+kind, phrase.Words{"what": what, "value": phrase.Number(value, unit, write(value)),
		"expected": phrase.Number(expected, unit, write(expected))})
}

// ClimbText describes rising memory: seconds until its limit, bytes per hour, and the limit in bytes.
func ClimbText(seconds, bytes, limit float64) phrase.Sentence {
	return ruleSentence("anomaly.climb", phrase.Words{"span": Span(seconds), "bytes": phrase.Bytes(bytes), "limit": phrase.Bytes(limit)})
}

// PeersText returns a sentence about a node with a power that differs from the power of count similar nodes, in watts.
func PeersText(value, peers float64, count int, like string) phrase.Sentence {
	return ruleSentence("anomaly.peers", phrase.Words{"value": phrase.Number(value, "watts", format.Watts(value)),
		"peers": phrase.Number(peers, "watts", format.Watts(peers)),
		"count": phrase.Count(float64(count)), "like": like})
}
