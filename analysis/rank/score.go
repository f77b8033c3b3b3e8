package rank

import "math"

// Scores for schedulers, 0 to 100. The best node is above all others even if a scheduler rounds scores to tenths.
const (
	bestScore             = 100
	roomMost, roomLeast   = 90, 40
	tightScore            = 20
	unknownScore, noScore = 10, 0
	bestTight             = 30
)

// Scores returns the scores of places for a scheduler in the order of [Rank]. If no node has fresh
// data, all places that fit have the same score.
func Scores(places []Place) []int {
	low, high, data := math.Inf(1), math.Inf(-1), 0.0
	for _, p := range places {
		data = max(data, p.Data)
		if p.Tier == Room && !math.IsNaN(p.Watts) {
			low, high = min(low, p.Watts), max(high, p.Watts)
		}
	}
	out := make([]int, len(places))
	for i, p := range places {
		switch p.Tier {
		case Room:
			far := 0.0
			if high > low {
				far = (p.Watts - low) / (high - low)
			}
			if data > 0 { // data before watts
				far = 0.4*far + 0.6*(1-p.Data/data)
			}
			out[i] = roomMost - int(math.Round((roomMost-roomLeast)*far))
			if i == 0 {
				out[i] = bestScore
			} else {
				out[i] = min(out[i], out[i-1])
			}
		case Tight:
			out[i] = tightScore
			if i == 0 {
				out[i] = bestTight
			}
		case Unknown:
			out[i] = unknownScore
		default:
			out[i] = noScore
		}
	}
	return out
}
