package kubelet

// Quantity reads an amount as Kubernetes writes it, such as "200m" or "128Mi"; false for what is none.
func Quantity(s string) (float64, bool) { return quantity(s) }
