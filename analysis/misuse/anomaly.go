package misuse

import (
	"reckon/figure/format"
	"reckon/internal/phrase"
)

// AnomalyRule is about what sites, nodes and owners did unlike before; analysis/anomaly finds it.
type AnomalyRule struct {
	On bool `yaml:"on"`
}

// AnomalyText says what was odd: kind is high, low or shift, figure that of a forecast.
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
	return texts.Say("anomaly."+kind, phrase.Words{"what": what, "value": write(value), "expected": write(expected)})
}

// ClimbText says that memory climbs: in how many seconds it will be full, by how many bytes an hour.
func ClimbText(seconds, bytes float64) string {
	return texts.Say("anomaly.climb", phrase.Words{"span": Span(seconds), "bytes": format.Bytes(bytes)})
}

// PeersText says that a node draws power unlike the others, in watts.
func PeersText(value, peers float64) string {
	return texts.Say("anomaly.peers", phrase.Words{"value": format.Watts(value), "peers": format.Watts(peers)})
}
