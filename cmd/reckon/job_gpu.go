package main

import "reckon/figure/format"

// gpuParts are the displayed GPU engines, in this order, with their display names.
var gpuParts = [...][2]string{{"sm", "multiprocessors"}, {"tensor", "tensor cores"}, {"fp64", "fp64"}, {"fp32", "fp32"}, {"fp16", "fp16"},
	{"dram", "memory"}}

// enginesText formats the share of the GPUs' busy time for each engine.
func enginesText(shares map[string]float64) (out []string) {
	for _, e := range gpuParts {
		if share, ok := shares[e[0]]; ok {
			out = append(out, e[1]+" "+format.Percent(share))
		}
	}
	if len(out) > 0 {
		out = append(out, "of the time that it computed")
	}
	return out
}
