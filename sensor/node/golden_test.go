package node

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/metric"
	"reckon/sensor"
	"reckon/sensor/sensortest"
)

var update = flag.Bool("update", false, "write the golden files")

// constructors of all sensors that read files.
var constructors = map[string]func(root string) (sensor.Sensor, error){
	"cpu":        func(r string) (sensor.Sensor, error) { return wrap(NewCPU(r)) },
	"memory":     NewMemory,
	"load":       func(r string) (sensor.Sensor, error) { return wrap(NewLoad(r)) },
	"pressure":   func(r string) (sensor.Sensor, error) { return wrap(NewPressure(r)) },
	"stat":       func(r string) (sensor.Sensor, error) { return wrap(NewStat(r)) },
	"vmstat":     NewVMStat,
	"disk":       func(r string) (sensor.Sensor, error) { return wrap(NewDisk(r)) },
	"filesystem": func(r string) (sensor.Sensor, error) { return wrap(NewFilesystem(r)) },
	"network":    func(r string) (sensor.Sensor, error) { return wrap(NewNetwork(r)) },
	"sockstat":   NewSockstat,
	"netstat":    NewNetstat,
	"conntrack":  func(r string) (sensor.Sensor, error) { return wrap(NewConntrack(r)) },
	"netclass":   func(r string) (sensor.Sensor, error) { return wrap(NewNetclass(r)) },
	"filefd":     func(r string) (sensor.Sensor, error) { return wrap(NewFileFD(r)) },
	"uname":      func(r string) (sensor.Sensor, error) { return wrap(NewUname(r)) },
	"os":         func(r string) (sensor.Sensor, error) { return wrap(NewOS(r)) },
}

func wrap[S sensor.Sensor](s S, err error) (sensor.Sensor, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

func TestConformance(t *testing.T) {
	for name, open := range constructors {
		for _, root := range []string{"/", "testdata/vm"} {
			t.Run(name+" of "+root, func(t *testing.T) {
				sensortest.Run(t, func(t *testing.T) sensor.Sensor {
					s, err := open(root)
					if root == "/" && errors.Is(err, sensor.ErrUnavailable) {
						t.Skip("not available here: ", err)
					}
					if err != nil {
						t.Fatal(err)
					}
					if s.Name() != name {
						t.Errorf("calls itself %s", s.Name())
					}
					return s
				}, sensortest.Options{Foreign: true, Empty: open})
			})
		}
	}
	t.Run("timex", func(t *testing.T) {
		sensortest.Run(t, func(t *testing.T) sensor.Sensor {
			s, err := NewTimex("/")
			if err != nil {
				t.Skip("not available here: ", err)
			}
			return s
		}, sensortest.Options{Foreign: true})
	})
	t.Run("time", func(t *testing.T) {
		sensortest.Run(t, func(*testing.T) sensor.Sensor { return NewClock() }, sensortest.Options{Foreign: true})
	})
}

// TestGolden reads the recorded machine with all sensors.
func TestGolden(t *testing.T) {
	var u unix.Utsname
	_ = unix.Uname(&u)
	var names []string
	for name := range constructors {
		names = append(names, name)
	}
	sort.Strings(names)
	var out strings.Builder
	for _, name := range names {
		s, err := constructors[name]("testdata/vm")
		if err != nil {
			t.Fatal(err)
		}
		if f, ok := s.(*Filesystem); ok {
			f.statfs = recordedStatfs
		}
		var b metric.Batch
		if err := s.Read(&b); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "# %s\n", name)
		for _, m := range b.Samples {
			fmt.Fprintf(&out, "%s %s %s\n", m.Series.Desc.Kind, exposed(m.Series), strconv.FormatFloat(m.Value, 'g', -1, 64))
		}
		_ = s.Close()
	}
	got := strings.ReplaceAll(out.String(), `machine="`+string(u.Machine[:clen(u.Machine[:])])+`"`, `machine="x86_64"`)
	if *update {
		if err := os.WriteFile("testdata/vm.golden", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/vm.golden")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from testdata/vm.golden (-update writes it); got\n%s", got)
	}
}

func clen(b []byte) int {
	for i, c := range b {
		if c == 0 {
			return i
		}
	}
	return len(b)
}

// recordedStatfs returns the file systems of the recorded machine except one.
func recordedStatfs(path []byte, s *unix.Statfs_t) error {
	*s = unix.Statfs_t{Bsize: 4096, Blocks: 1000, Bfree: 500, Bavail: 400, Files: 100, Ffree: 90}
	if strings.HasSuffix(string(path), "/dead\x00") {
		return unix.ESTALE
	}
	return nil
}

// exposed writes a series as an exposition does, with its labels in order.
func exposed(s *metric.Series) string {
	var pairs []string
	for i, l := range s.Desc.Labels {
		pairs = append(pairs, l+`="`+strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s.Values[i])+`"`)
	}
	if len(pairs) == 0 {
		return s.Desc.Name
	}
	sort.Strings(pairs)
	return s.Desc.Name + "{" + strings.Join(pairs, ",") + "}"
}
