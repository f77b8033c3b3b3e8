package kubelet

import (
	"math"
	"strconv"
	"strings"
)

// parseQuantity parses a Kubernetes quantity: "200m", "0.5", "128Mi", "1e3", "2G"
// (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/). It returns
// false for invalid and negative quantities.
func parseQuantity(s string) (float64, bool) {
	at := len(s)
	for at > 0 && !(s[at-1] >= '0' && s[at-1] <= '9' || s[at-1] == '.') {
		at--
	}
	scale, ok := parseSuffix(s[at:])
	if !ok || strings.ContainsAny(s[:at], "xXpP_") {
		return 0, false
	}
	n, err := strconv.ParseFloat(s[:at], 64)
	if v := n * scale; err == nil && v >= 0 && !math.IsInf(v, 0) {
		return v, true
	}
	return 0, false
}

func parseSuffix(s string) (float64, bool) {
	if s == "" {
		return 1, true
	}
	const decimal = "num.kMGTPE" // from 1e-9 in steps of a thousand; "." stands for 1, which has no letter
	if i := strings.Index(decimal, s); len(s) == 1 && i >= 0 && s != "." {
		return math.Pow10(3 * (i - 3)), true
	}
	if i := strings.IndexByte("KMGTPE", s[0]); len(s) == 2 && i >= 0 && s[1] == 'i' {
		return math.Pow(1024, float64(i+1)), true
	}
	return 0, false
}
