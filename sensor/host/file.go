package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"reckon/internal/durable"
	"reckon/sensor"
)

// FileName is the name of the file in the folder of each guest.
const FileName = "energy.json"

const (
	format  = "reckon-guest-energy"
	version = 1
	// maxFileSize is the maximum size of the file, in bytes.
	maxFileSize = 64 << 10
)

// Share is the energy that a host charged to one virtual machine.
type Share struct {
	Written time.Time
	Energy  []Energy
}

// Energy is the energy charged in one attribution domain by one method. The domain is package, dram, gpu, rest, psys or
// board. Joules count from an arbitrary start.
type Energy struct {
	Domain string  `json:"domain"`
	Method string  `json:"method"`
	Joules float64 `json:"joules"`
}

type fileContent struct {
	Format  string   `json:"format"`
	Version int      `json:"version"`
	Written float64  `json:"written"` // seconds since the Unix epoch, by the host's clock
	Energy  []Energy `json:"energy"`
}

// Add adds energy to a domain and method.
func (s *Share) Add(domain, method string, joules float64) {
	i := slices.IndexFunc(s.Energy, func(e Energy) bool { return e.Domain == domain && e.Method == method })
	if i < 0 {
		i = len(s.Energy)
		s.Energy = append(s.Energy, Energy{Domain: domain, Method: method})
	}
	s.Energy[i].Joules += joules
}

// Write replaces the file of a guest below dir and creates missing folders. owner and name identify the guest. The
// permissions prevent other users from listing the folders above the guest's own.
func (s *Share) Write(dir, owner, name string) error {
	for _, part := range []string{owner, name} {
		if part == "" || part[0] == '.' || strings.ContainsAny(part, "/\x00") {
			return fmt.Errorf("%q is no name of a folder", part)
		}
	}
	raw, err := json.Marshal(fileContent{format, version, float64(s.Written.UnixMilli()) / 1e3, s.Energy})
	if err != nil {
		return err
	}
	own := filepath.Join(dir, owner, name)
	if err := os.MkdirAll(filepath.Dir(own), 0o711); err != nil {
		return err
	}
	if err := os.Mkdir(own, 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	return durable.Replace(filepath.Join(own, FileName), append(raw, '\n'), 0o644)
}

// parseShare decodes the output of Write.
func parseShare(raw []byte) (s Share, err error) {
	var w fileContent
	if err := json.Unmarshal(raw, &w); err != nil {
		return s, err
	}
	if w.Format != format {
		return s, fmt.Errorf("the format is %q, not %s", w.Format, format)
	}
	if w.Version != version {
		return s, fmt.Errorf("the format has version %d, this agent reads %d: update it", w.Version, version)
	}
	for _, e := range w.Energy {
		if math.IsNaN(e.Joules) || e.Joules < 0 || e.Joules > sensor.MaxWatts*1e9 {
			return s, fmt.Errorf("%s has %v J", e.Domain, e.Joules)
		}
	}
	return Share{time.UnixMilli(int64(w.Written * 1e3)), w.Energy}, nil
}

// The methods that matter here. Energy that attribution splits by a proxy is measured as well.
const (
	methodMeasured = "measured"
	methodModelled = "modelled"
)

// energyIncrease returns the increase of the modelled energy if model is set, and otherwise of the measured energy. If the
// sum fell, the agent of the host has restarted, and the increase counts from zero.
func energyIncrease(before, now *Share, model bool) float64 {
	was, is := before.sumJoules(model), now.sumJoules(model)
	if is < was {
		return is
	}
	return is - was
}

// energyIn returns the energy charged in a domain, by any method; false if there was none.
func (s *Share) energyIn(d sensor.Domain) (joules float64, ok bool) {
	for _, e := range s.Energy {
		if e.Domain == string(d) {
			joules, ok = joules+e.Joules, true
		}
	}
	return joules, ok
}

func (s *Share) sumJoules(model bool) (all float64) {
	for _, e := range s.Energy {
		if (e.Method == methodModelled) == model {
			all += e.Joules
		}
	}
	return all
}

// readLimited returns the first maxFileSize bytes of a file.
func readLimited(path string, buffer []byte) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() || info.Size() > maxFileSize {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("not a file of at most %d bytes", maxFileSize)}
	}
	b := bytes.NewBuffer(buffer[:0])
	_, err = b.ReadFrom(f)
	return b.Bytes(), err
}
