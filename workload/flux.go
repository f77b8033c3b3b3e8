package workload

import "strings"

// base58 are the digits of job ids as Flux writes them, F58 of RFC 19: the digits of Bitcoin's addresses.
const base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// FluxID returns the id of a Flux job with the given number. The id is in the format F58 with the ASCII prefix f, such
// as fiFkbMhFM, because all commands of Flux accept that format.
func FluxID(number uint64) string {
	var digits [11]byte // of 2^64
	i := len(digits)
	for {
		i--
		digits[i] = base58[number%58]
		if number /= 58; number == 0 {
			return "f" + string(digits[i:])
		}
	}
}

// ParseFluxID returns the id of a job of Flux with the ASCII prefix, from F58 with either prefix; empty if it is none.
func ParseFluxID(s string) string {
	rest, ok := strings.CutPrefix(s, "ƒ")
	if !ok {
		rest, ok = strings.CutPrefix(s, "f")
	}
	if !ok || rest == "" || len(rest) > 11 || strings.Trim(rest, base58) != "" {
		return ""
	}
	return "f" + rest
}
