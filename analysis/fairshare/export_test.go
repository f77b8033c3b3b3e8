package fairshare

// Default returns the limits of the definition.
func Default() Limits { return Limits{Full: 0.9, Pressure: 0.1, Available: 0.1, Wants: 0.02} }
