package foresight

import (
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"reckon/analysis/anomaly"
	"reckon/test/bench/measure"
)

// labelledSeries is a series of NAB with the steps of its windows.
type labelledSeries struct {
	name    string
	y       []float64
	windows [][2]int // first and last step
	days    float64
}

const nabTime = "2006-01-02 15:04:05"

func readNAB(dir string) ([]labelledSeries, error) {
	f, err := os.Open(filepath.Join(dir, "nab", "combined_windows.json.gz"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	windows := map[string][][2]string{}
	if err := json.NewDecoder(z).Decode(&windows); err != nil {
		return nil, err
	}
	var out []labelledSeries
	files, err := filepath.Glob(filepath.Join(dir, "nab", "*", "*.csv.gz"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		rows, err := open(path)
		if err != nil {
			return nil, err
		}
		one := labelledSeries{name: filepath.Base(filepath.Dir(path)) + "/" + strings.TrimSuffix(filepath.Base(path), ".gz")}
		var times []time.Time
		for _, r := range rows[1:] {
			t, err := time.Parse(nabTime, r[0])
			if err != nil {
				return nil, err
			}
			times = append(times, t)
			one.y = append(one.y, number(r[1]))
		}
		one.days = float64(len(one.y)) / 288
		for _, w := range windows[one.name] {
			var at [2]int
			for k := range at {
				t, err := time.Parse(nabTime+".999999", w[k])
				if err != nil {
					return nil, err
				}
				at[k] = slices.IndexFunc(times, func(x time.Time) bool { return !x.Before(t) })
			}
			one.windows = append(one.windows, at)
		}
		out = append(out, one)
	}
	return out, nil
}

func sigmoid(x float64) float64 { return 2/(1+math.Exp(5*x)) - 1 }

// nabScore returns the score of a file by NAB's standard profile, and the number of alarms outside of its windows.
func (l *labelledSeries) nabScore(alarms []int) (sum float64, outside int) {
	probation := min(int(0.15*float64(len(l.y))), 750)
	found := make([]float64, len(l.windows))
	for i := range found {
		found[i] = -1
	}
	for _, t := range alarms {
		if t < probation {
			continue
		}
		inside, before := -1, -1
		for k, w := range l.windows {
			switch {
			case t >= w[0] && t <= w[1]:
				inside = k
			case t > w[1]:
				before = k
			}
		}
		if inside >= 0 {
			w := l.windows[inside]
			width := float64(w[1] - w[0] + 1)
			p := -(float64(w[1]-t) + 1) / width
			found[inside] = max(found[inside], sigmoid(p)/sigmoid(-1))
			continue
		}
		outside++
		s := -1.0
		if before >= 0 {
			w := l.windows[before]
			if p := float64(t-w[1]) / float64(w[1]-w[0]); p <= 3 {
				s = sigmoid(p)
			}
		}
		sum += 0.11 * s
	}
	for _, f := range found {
		sum += f
	}
	return sum, outside
}

// nabTotal scores one threshold on all given files.
func nabTotal(files []labelledSeries, threshold float64) (score, falseADay float64) {
	sum, windows, outside, days := 0.0, 0.0, 0.0, 0.0
	for i := range files {
		l := &files[i]
		var alarms []int
		for _, e := range anomaly.Detect(l.y, anomaly.Config{Day: 288, Threshold: threshold}) {
			alarms = append(alarms, e.First)
		}
		s, out := l.nabScore(alarms)
		sum, windows, outside, days = sum+s, windows+float64(len(l.windows)), outside+float64(out), days+l.days
	}
	return 100 * (sum + windows) / (2 * windows), outside / days
}

func benchNAB(e *measure.Env, dir string) error {
	files, err := readNAB(dir)
	if err != nil {
		return err
	}
	var halves [2][]labelledSeries
	var noise []labelledSeries
	for i, f := range files {
		halves[i%2] = append(halves[i%2], f)
		if strings.HasPrefix(f.name, "artificialNoAnomaly") {
			noise = append(noise, f)
		}
	}
	thresholds := []float64{0.8, 0.9, 1, 1.1, 1.25, 1.4, 1.6, 2}
	for h := range halves {
		best, at := math.Inf(-1), 1.0
		for _, t := range thresholds {
			if s, _ := nabTotal(halves[h], t); s > best {
				best, at = s, t
			}
		}
		s, f := nabTotal(halves[1-h], at)
		e.Printf("NAB: threshold %.2f from half of the files (score %.1f there): the other half %.1f, %.3f false events a series-day\n",
			at, best, s, f)
	}
	s, f := nabTotal(files, 1)
	falseNoise, days := 0, 0.0
	for i := range noise {
		falseNoise += len(anomaly.Detect(noise[i].y, anomaly.Config{Day: 288}))
		days += noise[i].days
	}
	e.Printf("NAB standard score, default threshold, all %d files: %.1f "+
		"(seasonal envelope 40-45, HTM 70), %.3f false events a series-day; without anomalies %.3f\n",
		len(files), s, f, float64(falseNoise)/days)
	return nil
}
