package rank

import "math"

// The scores of schedulers, 0 to 100. The best node stands above all others, so that a scheduler that rounds scores to tenths picks the same
// one.
const (
	bestScore             = 100
	roomMost, roomLeast   = 90, 40
	tightScore            = 20
	unknownScore, noScore = 10, 0
	bestTight             = 30
)

// Scores are what a scheduler prefers places by, in their order, which is that of [Rank]. Where nothing fresh is known of any
// node all that fit score alike.
func Scores(places []Place) []int {
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range places {
		if p.Tier == Room && !math.IsNaN(p.Watts) {
			low, high = min(low, p.Watts), max(high, p.Watts)
		}
	}
	out := make([]int, len(places))
	for i, p := range places {
		switch p.Tier {
		case Room:
			out[i] = roomMost
			if high > low {
				out[i] = roomMost - int(math.Round((roomMost-roomLeast)*(p.Watts-low)/(high-low)))
			}
			if i == 0 {
				out[i] = bestScore
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
