package foresight

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"reckon/analysis/forecast"
	"reckon/test/bench/measure"
)

// tally adds up the scores of one set.
type tally struct {
	smape, mase, smape2, mase2, n float64
	logRatio, logProfile, ratios  float64
	inside, steps                 float64
	msis, msisNaive, scaled       float64
	invalid                       int
	spent                         time.Duration
	series                        int
}

// forecastOne makes one forecast and counts values that no forecast may have.
func (t *tally) forecastOne(in forecast.Input) forecast.Result {
	begin := measure.OwnCPU()
	r := forecast.Run(in)
	t.spent += measure.OwnCPU() - begin
	t.series++
	low, high := in.Floor, math.Inf(1)
	if in.Capacity > 0 {
		high = in.Capacity
	}
	for i, v := range r.Point {
		if math.IsNaN(v) || math.IsInf(v, 0) || !in.Unbounded && (v < low || v > high) || r.Low[i] > v || r.High[i] < v {
			t.invalid++
		}
	}
	return r
}

// addBounds counts coverage and interval scores. naive is the same day before with its past errors.
func (t *tally) addBounds(in forecast.Input, r forecast.Result, truth []float64, season int) {
	q := forecast.Scale(in.Values, season)
	if !(q > 0) {
		return
	}
	for i, v := range truth {
		if math.IsNaN(v) {
			continue
		}
		t.steps++
		if v >= r.Low[i]-1e-9 && v <= r.High[i]+1e-9 {
			t.inside++
		}
	}
	if s := forecast.MSIS(truth, r.Low, r.High, q); !math.IsNaN(s) {
		t.msis += s
		t.scaled++
		low, high := naiveBand(in.Values, season, len(truth))
		t.msisNaive += forecast.MSIS(truth, low, high, q)
	}
}

// naiveBand returns the seasonal naive forecast with a band of its errors' standard deviation, as the M4 benchmark does.
func naiveBand(y []float64, season, horizon int) (low, high []float64) {
	sum, n := 0.0, 0.0
	for i := season; i < len(y); i++ {
		if d := y[i] - y[i-season]; !math.IsNaN(d) {
			sum, n = sum+d*d, n+1
		}
	}
	sd := math.Sqrt(sum / n)
	for k, v := range seasonalNaive(y, season, horizon) {
		w := 1.96 * sd * math.Sqrt(float64(1+k/season))
		low, high = append(low, v-w), append(high, v+w)
	}
	return low, high
}

// seasonalNaive repeats the last season. A hole gets the last recorded value of its place.
func seasonalNaive(y []float64, season, horizon int) []float64 {
	out := make([]float64, horizon)
	for k := range out {
		at := len(y) - season + k%season
		for at >= season && math.IsNaN(y[at]) {
			at -= season
		}
		out[k] = y[at]
		if math.IsNaN(out[k]) {
			out[k] = 0
		}
	}
	return out
}

// levelProfile returns the rival of ten lines: the level of the last day and the profile of seven, both by medians.
func levelProfile(y []float64, season, horizon int) []float64 {
	out := make([]float64, horizon)
	level := func(d int) float64 { return medianOf(y[len(y)-(d+1)*season : len(y)-d*season]) }
	for k := range out {
		var at []float64
		for d := range 7 {
			if len(y) >= (d+1)*season {
				at = append(at, y[len(y)-(d+1)*season+k%season]-level(d))
			}
		}
		out[k] = max(level(0)+medianOf(at), 0)
		if math.IsNaN(out[k]) {
			out[k] = 0
		}
	}
	return out
}

// medianOf returns the median of the recorded values.
func medianOf(y []float64) float64 {
	var have []float64
	for _, v := range y {
		if !math.IsNaN(v) {
			have = append(have, v)
		}
	}
	if len(have) == 0 {
		return math.NaN()
	}
	slices.Sort(have)
	return (have[(len(have)-1)/2] + have[len(have)/2]) / 2
}

// addRatio adds the error against the seasonal naive forecast.
func (t *tally) addRatio(in forecast.Input, f, truth []float64) {
	q := forecast.Scale(in.Values, 24)
	naive, profile := seasonalNaive(in.Values, 24, len(truth)), levelProfile(in.Values, 24, len(truth))
	base, ours := forecast.MAE(truth, naive)+1e-6*q, forecast.MAE(truth, f)+1e-6*q
	if !(base > 0) || !(ours > 0) {
		return
	}
	t.logRatio += math.Log(ours / base)
	t.logProfile += math.Log((forecast.MAE(truth, profile) + 1e-6*q) / base)
	t.ratios++
}

func (t *tally) formatSpeed() string {
	return fmt.Sprintf("%.0f series/s, %d invalid", float64(t.series)/t.spent.Seconds(), t.invalid)
}

func (t *tally) formatBand() string {
	return fmt.Sprintf("coverage %.1f %%, MSIS %.2f (seasonal naive %.2f)", 100*t.inside/t.steps, t.msis/t.scaled, t.msisNaive/t.scaled)
}

func benchM4(e *measure.Env, dir string, every int) error {
	train, err := open(dir, "m4-hourly", "train.csv.gz")
	if err != nil {
		return err
	}
	test, err := open(dir, "m4-hourly", "test.csv.gz")
	if err != nil {
		return err
	}
	var t tally
	var naiveSMAPE, naiveMASE float64
	for i := 0; i < len(train); i += every {
		y, truth := numbers(train[i][1:]), numbers(test[i][1:])
		in := forecast.Input{Values: y, Step: time.Hour, Horizon: len(truth), Unbounded: true}
		r := t.forecastOne(in)
		q := forecast.Scale(y, 24)
		if q == 0 {
			continue
		}
		ref, sn := naive2(y, 24, len(truth)), seasonalNaive(y, 24, len(truth))
		t.smape += forecast.SMAPE(truth, r.Point)
		t.mase += forecast.MAE(truth, r.Point) / q
		t.smape2 += forecast.SMAPE(truth, ref)
		t.mase2 += forecast.MAE(truth, ref) / q
		naiveSMAPE += forecast.SMAPE(truth, sn)
		naiveMASE += forecast.MAE(truth, sn) / q
		t.n++
		t.addRatio(in, r.Point, truth)
		t.addBounds(in, r, truth, 24)
	}
	e.Printf("M4 hourly (%.0f series): OWA %.3f (seasonal naive %.3f), sMAPE %.2f (Naive2 %.3f), MASE %.3f (Naive2 %.3f); %s; %s\n", t.n,
		forecast.OWA(t.smape, t.smape2, t.mase, t.mase2), forecast.OWA(naiveSMAPE, t.smape2, naiveMASE, t.mase2), t.smape/t.n,
		t.smape2/t.n, t.mase/t.n, t.mase2/t.n, t.formatBand(), t.formatSpeed())
	return nil
}

func benchBitbrains(e *measure.Env, dir string, every int) error {
	limits, err := readCapacities(dir)
	if err != nil {
		return err
	}
	for _, what := range []string{"cpu_mhz", "mem_mib", "disk_kbs", "net_kbs"} {
		rows, err := open(dir, "bitbrains-hourly", what+".csv.gz")
		if err != nil {
			return err
		}
		names, values := columns(rows)
		start := time.Unix(int64(number(rows[1][0])), 0)
		var t tally
		for i := 0; i < len(values); i += every {
			for day := 5; day >= 1; day-- {
				cut := len(values[i]) - day*24
				truth := values[i][cut : cut+24]
				in := forecast.Input{Values: values[i][:cut], Start: start, Step: time.Hour, Horizon: 24, Capacity: limits[what][names[i]]}
				r := t.forecastOne(in)
				t.addRatio(in, r.Point, truth)
				t.addBounds(in, r, truth, 24)
			}
		}
		e.Printf("Bitbrains %s: relMAE %.3f (day level and 7-day profile %.3f); %s; %s\n", what, math.Exp(t.logRatio/t.ratios),
			math.Exp(t.logProfile/t.ratios), t.formatBand(), t.formatSpeed())
	}
	return nil
}

// readCapacities returns the capacities of the VMs by measure and name. A VM without one is unbounded.
func readCapacities(dir string) (map[string]map[string]float64, error) {
	rows, err := open(dir, "bitbrains-hourly", "vms.csv.gz")
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]float64{"cpu_mhz": {}, "mem_mib": {}}
	for _, r := range rows[1:] {
		out["cpu_mhz"][r[0]], out["mem_mib"][r[0]] = 1.06*number(r[5]), number(r[7])
	}
	return out, nil
}

func benchCells(e *measure.Env, dir string) error {
	var pooled, count float64
	for _, name := range []string{"google2019-5min", "alibaba2018-5min"} {
		rows, err := open(filepath.Join(dir, "cells", name+".csv.gz"))
		if err != nil {
			return err
		}
		names, values := columns(rows)
		var t tally
		line := ""
		for i, y := range values {
			if names[i] == "row" {
				continue
			}
			h := hourly(y)
			var mase, n float64
			before := t
			for day := 5; day >= 1; day-- {
				cut := len(h) - day*24
				if cut < 48 {
					continue
				}
				truth := h[cut : cut+24]
				in := forecast.Input{Values: h[:cut], Step: time.Hour, Horizon: 24}
				r := t.forecastOne(in)
				mase += forecast.MAE(truth, r.Point) / forecast.Scale(h[:cut], 24)
				n++
				t.addRatio(in, r.Point, truth)
				t.addBounds(in, r, truth, 24)
			}
			t.mase += mase
			t.n += n
			line += fmt.Sprintf(" %s %.2f (relMAE %.2f)", names[i], mase/n, math.Exp((t.logRatio-before.logRatio)/(t.ratios-before.ratios)))
		}
		pooled, count = pooled+t.mase, count+t.n
		e.Printf("%s hourly: MASE %.3f:%s; %s; %s\n", name, t.mase/t.n, line, t.formatBand(), t.formatSpeed())
	}
	e.Printf("both cells: MASE %.3f\n", pooled/count)
	return nil
}
