package forecast

import "math"

// SMAPE is the symmetric mean absolute percentage error, 0 to 200; 0/0 counts 0.
func SMAPE(y, f []float64) float64 {
	sum := 0.0
	for i := range y {
		if d := math.Abs(y[i]) + math.Abs(f[i]); d > 0 {
			sum += 200 * math.Abs(y[i]-f[i]) / d
		}
	}
	return sum / float64(len(y))
}

// MAE is the mean absolute error over steps whose truth was recorded, NaN without any.
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

// Scale is the q of MASE: the mean absolute difference of values a season apart.
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

// OWA is the mean of two ratios to Naive2, of sMAPE and of MASE, each averaged over all series first.
func OWA(smape, smape2, mase, mase2 float64) float64 { return (smape/smape2 + mase/mase2) / 2 }

// MSIS is the mean scaled interval score of a band of 95 %: its width, and 40 times how far values lay outside.
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
