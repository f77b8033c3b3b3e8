package kubernetes

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// Quantity is a resource amount in Kubernetes notation: 1930m, 1Ti, 0.5, 12e6
// (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/).
type Quantity float64

var binarySuffixes = map[string]int64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}

var decimalSuffixes = map[string]int{"n": -9, "u": -6, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}

// ParseQuantity reads a quantity, exact to the precision of a float64.
func ParseQuantity(s string) (Quantity, error) {
	number, factor := s, new(big.Rat).SetInt64(1)
	if n := len(s); n > 2 && binarySuffixes[s[n-2:]] != 0 {
		number = s[:n-2]
		factor.SetInt64(binarySuffixes[s[n-2:]])
	} else if n > 1 {
		if exponent, ok := decimalSuffixes[s[n-1:]]; ok {
			number = s[:n-1]
			power := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil))
			if exponent < 0 {
				power.Inv(power)
			}
			factor = power
		}
	}
	if len(number) > 40 || strings.Trim(number, "0123456789.+-eE") != "" || exponentOf(number) > 30 {
		return 0, fmt.Errorf("%.60q is no quantity; write one such as 1930m or 1Ti", s)
	}
	v, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, fmt.Errorf("%.60q is no quantity; write one such as 1930m or 1Ti", s)
	}
	f, _ := v.Mul(v, factor).Float64()
	return Quantity(f), nil
}

// exponentOf prevents the expansion of 1e999999999.
func exponentOf(number string) int {
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return 0
	}
	n := 0
	for _, c := range strings.Trim(number[at+1:], "+-") {
		if n = n*10 + int(c-'0'); n > 1000 {
			break
		}
	}
	return n
}

// UnmarshalJSON accepts strings and numbers.
func (q *Quantity) UnmarshalJSON(raw []byte) error {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		s = string(raw)
	}
	v, err := ParseQuantity(s)
	*q = v
	return err
}
