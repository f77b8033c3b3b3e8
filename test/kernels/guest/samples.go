package main

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is a line of /metrics.
type sample struct {
	name   string
	labels string
	value  float64
}

type samples []sample

func scrapeAgent() (out samples, err error) {
	r, err := (&http.Client{Timeout: 20 * time.Second}).Get("http://" + address + "/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	for line := range strings.Lines(string(body)) {
		if !strings.HasPrefix(line, "reckon_workload_") && !strings.HasPrefix(line, "reckon_figure_exactness") &&
			!strings.HasPrefix(line, "reckon_sensor_up") {
			continue
		}
		i, j := strings.IndexByte(line, '{'), strings.LastIndexByte(line, '}')
		if i < 0 || j < i {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(line[j+1:]), 64)
		if err == nil {
			out = append(out, sample{line[:i], line[i:j], v})
		}
	}
	return out, err
}

// awaitExports waits for a number of further exports of the agent.
func awaitExports(times int) error {
	var last samples
	for late := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		all, err := scrapeAgent()
		if err == nil && last != nil && !slices.Equal(all, last) {
			times--
		}
		if err == nil {
			last = all
		}
		if times == 0 {
			return nil
		}
		if time.Now().After(late) {
			return errors.New("the agent exports nothing new")
		}
	}
}

func (all samples) eachMatch(name, label, value string, f func(float64)) {
	for _, s := range all {
		if s.name == name && hasLabel(s.labels, label, value) {
			f(s.value)
		}
	}
}

func (all samples) sumMatch(name, label, value string) (sum float64) {
	all.eachMatch(name, label, value, func(v float64) { sum += v })
	return sum
}

func (all samples) maxMatch(name, label, value string) (most float64) {
	all.eachMatch(name, label, value, func(v float64) { most = max(most, v) })
	return most
}
