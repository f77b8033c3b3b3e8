package workload

import "strings"

// base58Digits are the digits of job ids in the form F58 of RFC 19, which Flux writes. They are the digits of Bitcoin addresses.
const base58Digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// FluxID returns the id of a Flux job with the given number. The id is in the format F58 with the ASCII prefix f, such
// as fiFkbMhFM, because all commands of Flux accept that format.
func FluxID(number uint64) string {
	var digits [11]byte // of 2^64
	i := len(digits)
	for {
		i--
		digits[i] = base58Digits[number%58]
		if number /= 58; number == 0 {
			return "f" + string(digits[i:])
		}
	}
}

// ParseFluxID converts the id of a Flux job, in F58 with either prefix, to one with the ASCII prefix. It returns "" for others.
func ParseFluxID(s string) string {
	rest, ok := strings.CutPrefix(s, "ƒ")
	if !ok {
		rest, ok = strings.CutPrefix(s, "f")
	}
	if !ok || rest == "" || len(rest) > 11 || strings.Trim(rest, base58Digits) != "" {
		return ""
	}
	return "f" + rest
}
