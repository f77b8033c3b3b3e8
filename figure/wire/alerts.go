package wire

import (
	"time"
)

// Alert is one alert of a rule, as in Prometheus's HTTP API.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       string            `json:"state"` // pending or firing
	ActiveAt    time.Time         `json:"activeAt"`
	Value       string            `json:"value"`
}

// Rule is a rule as in Prometheus's HTTP API.
type Rule struct {
	Group     string  `json:"-"`
	File      string  `json:"-"`
	Type      string  `json:"type"` // alerting or recording
	Name      string  `json:"name"`
	Query     string  `json:"query"`
	Duration  float64 `json:"duration"` // seconds that it must hold before it fires
	State     string  `json:"state"`    // inactive, pending or firing; empty for a recording rule
	Health    string  `json:"health"`
	LastError string  `json:"lastError"`
	Seconds   float64 `json:"evaluationTime"`
	Alerts    []Alert `json:"alerts"`
}
