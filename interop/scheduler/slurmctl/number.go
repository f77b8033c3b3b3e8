package slurmctl

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"

	"reckon/interop/slurmtext"
)

// The types here accept a value in every format that a release of Slurm has used, and are empty
// otherwise, so that one unexpected field does not affect the others of a record.

// decodeRecord parses a record; a field with an unexpected type does not affect the others. The first of these is returned.
func decodeRecord(raw []byte, v any) (odd string, ok bool) {
	err := json.Unmarshal(raw, v)
	if typed := (*json.UnmarshalTypeError)(nil); errors.As(err, &typed) {
		return typed.Field, true
	}
	return "", err == nil
}

// number is a number, a string of digits, or {"set":true,"infinite":false,"number":5}.
type number struct {
	v        float64
	ok       bool
	infinite bool
	odd      bool // there was a value, and it is none of these
}

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (n *number) UnmarshalJSON(raw []byte) error {
	*n = number{}
	switch {
	case len(raw) == 0:
	case raw[0] == '{':
		var o struct {
			Set, Infinite bool
			Number        *float64
		}
		o.Set = !bytes.Contains(raw, []byte(`"set"`)) // an object without it is taken at face value
		if n.odd = json.Unmarshal(raw, &o) != nil; !n.odd && o.Set && o.Number != nil {
			n.v, n.ok, n.infinite = *o.Number, !o.Infinite, o.Infinite
		}
	case !bytes.Equal(raw, []byte("null")):
		plain := string(bytes.Trim(raw, `"`))
		n.v, n.ok = parseFloat(plain)
		_, err := strconv.ParseFloat(plain, 64)
		n.odd = err != nil && plain != ""
	}
	return nil
}

func (n number) isOdd() bool { return n.odd }

// oddFields calls f for each field of a record that has an unknown format. path is the place of v in the record.
func oddFields(v reflect.Value, path string, f func(path string)) {
	switch v.Kind() {
	case reflect.Struct:
		if x, ok := v.Interface().(interface{ isOdd() bool }); ok {
			if x.isOdd() {
				f(path)
			}
			return
		}
		for t, x := range v.Fields() {
			name, _, _ := strings.Cut(cmp.Or(t.Tag.Get("json"), strings.ToLower(t.Name)), ",")
			if t.IsExported() {
				oddFields(x, strings.TrimPrefix(path+"."+name, "."), f)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			oddFields(v.Index(i), path, f)
		}
	}
}

func parseFloat(s string) (float64, bool) {
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && v >= 0 && v < 1<<62
}

// valueOr returns the number, or v if there is none.
func (n number) valueOr(v float64) float64 {
	if n.ok {
		return n.v
	}
	return v
}

func (n number) toTime() time.Time {
	if !n.ok {
		return time.Time{}
	}
	return slurmtext.Unix(n.v)
}

// stringList is a string or a list of strings.
type stringList []string

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (w *stringList) UnmarshalJSON(raw []byte) error {
	*w = nil
	var one string
	if json.Unmarshal(raw, &one) == nil {
		if one != "" {
			*w = stringList{one}
		}
		return nil
	}
	var many []string
	if json.Unmarshal(raw, &many) == nil {
		*w = many
	}
	return nil
}

// text is a string, or a number as a string; anything else is empty.
type text string

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (t *text) UnmarshalJSON(raw []byte) error {
	*t = ""
	var s string
	if json.Unmarshal(raw, &s) == nil {
		*t = text(s)
	} else if n := (number{}); n.UnmarshalJSON(raw) == nil && n.ok {
		*t = text(formatNumber(n.v))
	}
	return nil
}

// exitStatus is a status of wait(2), or {"return_code":3,"signal":{"signal_id":9}}.
type exitStatus struct {
	code *int
	odd  bool // there was a value, and it is none of these
}

func (e exitStatus) isOdd() bool { return e.odd }

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (e *exitStatus) UnmarshalJSON(raw []byte) error {
	*e = exitStatus{}
	if len(raw) > 0 && raw[0] == '{' {
		var o struct {
			Code   number `json:"return_code"`
			Signal struct {
				Old number `json:"signal_id"`
				New number `json:"id"`
			}
			Number number
			Set    *bool
		}
		if e.odd = json.Unmarshal(raw, &o) != nil || o.Code.odd; !e.odd {
			switch {
			case o.Signal.Old.valueOr(o.Signal.New.valueOr(0)) > 0:
				e.code = slurmtext.ExitCode(0, o.Signal.Old.valueOr(o.Signal.New.valueOr(0)))
			case o.Code.ok:
				e.code = slurmtext.ExitCode(o.Code.v, 0)
			}
		}
		return nil
	}
	n := number{}
	_ = n.UnmarshalJSON(raw)
	if e.odd = n.odd; n.ok && n.v < 1<<16 {
		status := int(n.v)
		e.code = slurmtext.ExitCode(float64(status>>8), float64(status&0x7f))
	}
	return nil
}
