package slurmctl

import (
	"encoding/json"
	"strings"
)

// stepID parses "4711.batch", "batch", 0, -5 or {"job_id":4711,"step_id":"batch"} to the agents' name of a step.
func stepID(raw json.RawMessage) string {
	var o struct {
		Step json.RawMessage `json:"step_id"`
	}
	if len(raw) > 0 && raw[0] == '{' && json.Unmarshal(raw, &o) == nil {
		raw = o.Step
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		s = s[i+1:]
	}
	switch s { // slurm/slurm.h
	case "-2", "4294967294", "-5", "4294967291":
		return "batch"
	case "-4", "4294967292":
		return "extern"
	case "-6", "4294967290":
		return "interactive"
	}
	if s == "" || len(s) > 32 || strings.ContainsAny(s, "{}[] \n") {
		return "unknown"
	}
	return s
}
