package powerfit

// loss returns the weighted sum of squares for coefficients v.
func (g *gram) loss(v []float64) float64 {
	s := g.c
	for i, vi := range v {
		if vi == 0 {
			continue
		}
		s -= 2 * vi * g.b[i]
		for j, vj := range v {
			s += vi * vj * g.a[i*g.n+j]
		}
	}
	return max(s, 0)
}
