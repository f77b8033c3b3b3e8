package node

import (
	"errors"
	"strings"

	"reckon/metric"
)

// namedFigures reads a file with many figures that the kernel names. Each line or pair of words becomes a series
// without labels. The set of series is fixed when the file is opened, because a running kernel does not change it.
type namedFigures struct {
	name   string
	texts  []*kernelFile
	parse  func(t []byte, emit func(key, sub []byte, value uint64))
	desc   func(key, sub []byte) *metric.Desc // nil skips the figure
	value  func(key, sub []byte, v uint64) float64
	descs  []*metric.Desc
	series map[string]*metric.Series
	key    []byte
	batch  *metric.Batch
	found  bool
	emit   func(key, sub []byte, value uint64)
}

// discoverFigures reads the files once to determine the figures.
func (f *namedFigures) discoverFigures() error {
	f.series = make(map[string]*metric.Series)
	f.emit = f.addFigure
	for _, t := range f.texts {
		b, err := t.read()
		if err != nil {
			return errors.Join(err, f.Close())
		}
		f.parse(b, func(key, sub []byte, _ uint64) {
			f.joinKey(key, sub)
			if _, known := f.series[string(f.key)]; known {
				return
			}
			var s *metric.Series
			if d := f.desc(key, sub); d != nil {
				s = metric.NewSeries(d)
				f.descs = append(f.descs, d)
			}
			f.series[string(f.key)] = s
		})
	}
	if len(f.descs) == 0 {
		return errors.Join(f.texts[0].malformedError("none of its figures"), f.Close())
	}
	return nil
}

func (f *namedFigures) joinKey(key, sub []byte) {
	f.key = append(append(append(f.key[:0], key...), 0), sub...)
}

func (f *namedFigures) addFigure(key, sub []byte, v uint64) {
	f.joinKey(key, sub)
	s := f.series[string(f.key)]
	if s == nil {
		return
	}
	f.found = true
	if f.value != nil {
		f.batch.Add(s, f.value(key, sub, v))
		return
	}
	f.batch.Add(s, float64(v))
}

// Name returns the name of the sensor.
func (f *namedFigures) Name() string { return f.name }

// Descs lists the figures that this kernel has.
func (f *namedFigures) Descs() []*metric.Desc { return f.descs }

// Read appends them.
func (f *namedFigures) Read(b *metric.Batch) error {
	f.batch, f.found = b, false
	var errs error
	for _, t := range f.texts {
		text, err := t.read()
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		f.parse(text, f.emit)
	}
	f.batch = nil
	if errs == nil && !f.found {
		return f.texts[0].malformedError("none of its figures")
	}
	return errs
}

// Close closes the files.
func (f *namedFigures) Close() error {
	var errs error
	for _, t := range f.texts {
		errs = errors.Join(errs, t.Close())
	}
	return errs
}

// metricName makes a key of the kernel fit for a part of a metric name.
func metricName(key []byte) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || (r >= '0' && r <= '9') || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') {
			return r
		}
		return '_'
	}, string(key))
}
