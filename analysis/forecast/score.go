package forecast

import "math"

// SMAPE returns the symmetric mean absolute percentage error, 0 to 200; 0/0 counts as 0.
func SMAPE(y, f []float64) float64 {
	sum := 0.0
	for i := range y {
		if d := math.Abs(y[i]) + math.Abs(f[i]); d > 0 {
			sum += 200 * math.Abs(y[i]-f[i]) / d
		}
	}
	return sum / float64(len(y))
}

// MAE returns the mean absolute error over recorded steps, NaN without any.
func MAE(y, f []float64) float64 {
	sum, n := 0.0, 0.0
	for i := range y {
		if !math.IsNaN(y[i]) {
			sum += math.Abs(y[i] - f[i])
			n++
		}
	}
	return sum / n
}

// Scale returns the denominator of MASE: the mean absolute difference of values one season apart.
func Scale(history []float64, season int) float64 {
	sum, n := 0.0, 0.0
	for i := season; i < len(history); i++ {
		if d := math.Abs(history[i] - history[i-season]); !math.IsNaN(d) {
			sum += d
			n++
		}
	}
	return sum / n
}

// OWA returns the mean of two ratios to Naive2, of sMAPE and of MASE, each averaged over all series first.
func OWA(smape, smape2, mase, mase2 float64) float64 { return (smape/smape2 + mase/mase2) / 2 }

// MSIS returns the mean scaled interval score of a 95 % band: its width, plus 40 times the distance of values outside it.
func MSIS(y, low, high []float64, scale float64) float64 {
	sum, n := 0.0, 0.0
	for i, v := range y {
		if math.IsNaN(v) {
			continue
		}
		sum += high[i] - low[i] + 2/(1-coverage)*(max(low[i]-v, 0)+max(v-high[i], 0))
		n++
	}
	return sum / n / scale
}
