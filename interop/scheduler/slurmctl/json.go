package slurmctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// eachElement calls f for each element of the top-level array with the given name in a JSON document. It returns the errors
// that the document reports. If the document is truncated, it calls f for the complete elements and returns an error.
func eachElement(r io.Reader, name string, f func(json.RawMessage)) error {
	d := json.NewDecoder(r)
	t, err := d.Token()
	if err != nil || t != json.Delim('{') {
		return fmt.Errorf("answer is no JSON object: %w", orEOF(err))
	}
	var problems []slurmError
	found := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return fmt.Errorf("answer breaks off: %w", err)
		}
		switch key {
		case name:
			t, err := d.Token()
			if err != nil {
				return fmt.Errorf("answer breaks off: %w", err)
			}
			if t == nil {
				continue
			}
			if t != json.Delim('[') {
				return fmt.Errorf("%q is no list", name)
			}
			found = true
			for d.More() {
				var raw json.RawMessage
				if err := d.Decode(&raw); err != nil {
					return fmt.Errorf("answer breaks off in %q: %w", name, err)
				}
				f(raw)
			}
			if _, err := d.Token(); err != nil {
				return fmt.Errorf("answer breaks off in %q: %w", name, err)
			}
		case "errors":
			var raw json.RawMessage
			if err := d.Decode(&raw); err != nil {
				return fmt.Errorf("answer breaks off: %w", err)
			}
			_ = json.Unmarshal(raw, &problems) // an unknown format only yields less detail
		default:
			var skip json.RawMessage
			if err := d.Decode(&skip); err != nil {
				return fmt.Errorf("answer breaks off: %w", err)
			}
		}
	}
	for _, p := range problems {
		if !p.nothingFound() {
			return errors.New(p.format())
		}
		found = true
	}
	if !found {
		return fmt.Errorf("answer has no list %q", name)
	}
	return nil
}

func orEOF(err error) error {
	if err == nil {
		return errors.New("it starts differently")
	}
	return err
}

// slurmError is an error reported by Slurm.
type slurmError struct {
	Description, Error text
	Number             number `json:"error_number"`
	Code               number `json:"error_code"`
}

func (p slurmError) nothingFound() bool {
	all := strings.ToLower(string(p.Description + " " + p.Error))
	return strings.Contains(all, "nothing found") || strings.Contains(all, "no results")
}

func (p slurmError) format() string {
	switch {
	case p.Error != "" && p.Description != "":
		return string(p.Error) + ": " + string(p.Description)
	case p.Error != "":
		return string(p.Error)
	case p.Description != "":
		return string(p.Description)
	}
	return "Slurm reports error " + formatNumber(p.Number.valueOr(p.Code.valueOr(0)))
}
