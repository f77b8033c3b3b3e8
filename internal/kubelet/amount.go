package kubelet

// Quantity parses a Kubernetes quantity such as "200m" or "128Mi", and returns false if it is invalid.
func Quantity(s string) (float64, bool) { return parseQuantity(s) }
