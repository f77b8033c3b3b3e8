package tegra

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"reckon/internal/sysfs"
	"reckon/metric"
	"reckon/sensor/tegra/tegrastats"
)

// board holds the open sysfs files of the board.
type board struct {
	rails    []supplyRail
	missing  bool // a rail could not be read the last time
	load     *sysfs.File
	clocks   []*sysfs.File // of the clusters of the GPU, in Hz
	emcRate  *sysfs.File   // Hz
	emcBusy  *sysfs.File   // kHz of useful cycles
	engines  []engine
	fans     []fan
	mode     *sysfs.File
	modes    map[string]string // id to name
	closings []*sysfs.File
}

// supplyRail reads its power or, if the driver has none, voltage and current.
type supplyRail struct {
	name        string
	power       *sysfs.File
	scale       float64
	volts, amps *sysfs.File // mV, mA
}

type engine struct {
	name        string
	state, rate *sysfs.File
}

type fan struct {
	name string
	pwm  *sysfs.File // 0 to 255
}

func openBoard(root string) *board {
	if !IsTegra(root) {
		return nil
	}
	b := new(board)
	b.findHwmon(root)
	b.findIIO(root)
	b.findGPU(root)
	b.findClocks(root)
	b.findMode(root)
	if len(b.closings) == 0 {
		return nil // for example a container without sysfs
	}
	return b
}

func (b *board) openFile(path string) *sysfs.File {
	f, err := sysfs.Open(path)
	if err != nil {
		return nil
	}
	b.closings = append(b.closings, f)
	return f
}

func (b *board) firstReadable(paths ...string) *sysfs.File {
	for _, p := range paths {
		if f := b.openFile(p); f != nil {
			return f
		}
	}
	return nil
}

func glob(pattern string) []string {
	names, _ := filepath.Glob(pattern) // our own pattern is well-formed
	slices.Sort(names)
	return names
}

// findHwmon finds INA3221 and INA238 under hwmon, and fans.
func (b *board) findHwmon(root string) {
	for _, dir := range glob(sysfs.Path(root, "sys/class/hwmon/hwmon*")) {
		name := sysfs.ReadWord(dir, "name")
		if name == "" {
			name = sysfs.ReadWord(dir, "device/name")
		}
		switch {
		case name == "pwmfan" || strings.HasPrefix(name, "pwm-fan"):
			if f := b.openFile(filepath.Join(dir, "pwm1")); f != nil {
				b.fans = append(b.fans, fan{filepath.Base(dir), f})
			}
		case strings.HasPrefix(name, "ina3221"):
			for n := 1; n <= 3; n++ { // in4 to in7 are voltages of the shunts
				i := strconv.Itoa(n)
				b.addRail(supplyRail{name: sysfs.ReadWord(dir, "in"+i+"_label"),
					volts: b.openFile(filepath.Join(dir, "in"+i+"_input")), amps: b.openFile(filepath.Join(dir, "curr"+i+"_input"))})
			}
		case strings.HasPrefix(name, "ina2"):
			label := sysfs.ReadWord(dir, "label")
			if label == "" {
				label = sysfs.ReadWord(dir, "power1_label")
			}
			if label == "" && name == "ina238" {
				label = "VIN" // Thor has one, at its input
			}
			b.addRail(supplyRail{name: label, power: b.openFile(filepath.Join(dir, "power1_input")), scale: 1e-6})
		}
	}
	if f := b.openFile(sysfs.Path(root, "sys/devices/pwm-fan/cur_pwm")); f != nil && len(b.fans) == 0 {
		b.fans = append(b.fans, fan{"pwm-fan", f})
	}
}

// findIIO finds the ina3221x and ina230x drivers of L4T 28 to 32.
func (b *board) findIIO(root string) {
	dirs := glob(sysfs.Path(root, "sys/bus/iio/devices/iio:device*"))
	if len(dirs) == 0 {
		dirs = append(glob(sysfs.Path(root, "sys/bus/i2c/drivers/ina3221x/*/iio:device*")),
			glob(sysfs.Path(root, "sys/bus/i2c/drivers/ina3221x/*/iio_device"))...)
	}
	for _, dir := range dirs {
		if name := sysfs.ReadWord(dir, "rail_name"); name != "" {
			b.addRail(supplyRail{name: name, power: b.openFile(filepath.Join(dir, "in_power0_input")), scale: 1e-3})
		}
		for n := range 3 {
			i := strconv.Itoa(n)
			if name := sysfs.ReadWord(dir, "rail_name_"+i); name != "" {
				b.addRail(supplyRail{name: name, power: b.openFile(filepath.Join(dir, "in_power"+i+"_input")), scale: 1e-3})
			}
		}
	}
}

// addRail adds a supply rail if it is connected and readable, and not in the list yet.
func (b *board) addRail(r supplyRail) {
	if r.name == "" || strings.HasPrefix(r.name, "NC") || r.power == nil && (r.volts == nil || r.amps == nil) {
		return
	}
	if !slices.ContainsFunc(b.rails, func(o supplyRail) bool { return o.name == r.name }) {
		b.rails = append(b.rails, r)
	}
}

// findGPU finds the load of the GPU, in thousandths, and its clocks.
func (b *board) findGPU(root string) {
	dirs := glob(sysfs.Path(root, "sys/class/devfreq/*"))
	for _, dir := range dirs {
		n := filepath.Base(dir)
		chip := strings.HasSuffix(n, ".gpu") || strings.HasPrefix(n, "gpu.") || strings.HasSuffix(n, ".gv11b") ||
			strings.HasSuffix(n, ".gp10b") || strings.HasSuffix(n, ".ga10b") || strings.HasSuffix(n, ".gm20b")
		if !chip && !strings.HasPrefix(n, "gpu-gpc") {
			continue // gpu-nvd and others of Thor are not shader clocks
		}
		if f := b.openFile(filepath.Join(dir, "cur_freq")); f != nil {
			b.clocks = append(b.clocks, f)
		}
		if b.load == nil {
			b.load = b.firstReadable(filepath.Join(dir, "device/load"), filepath.Join(dir, "load"))
		}
	}
	if b.load == nil {
		b.load = b.firstReadable(append([]string{
			sysfs.Path(root, "sys/devices/gpu.0/load"), sysfs.Path(root, "sys/devices/platform/gpu.0/load"),
		}, append(glob(sysfs.Path(root, "sys/devices/*.gpu/load")), glob(sysfs.Path(root, "sys/devices/platform/*/*.gpu/load"))...)...)...)
	}
}

// findClocks finds the memory controller and the engines. They are in debugfs, for root.
func (b *board) findClocks(root string) {
	bpmp, clk := sysfs.Path(root, "sys/kernel/debug/bpmp/debug/clk"), sysfs.Path(root, "sys/kernel/debug/clk")
	b.emcRate = b.firstReadable(filepath.Join(bpmp, "emc/rate"), filepath.Join(clk, "emc/clk_rate"))
	b.emcBusy = b.openFile(sysfs.Path(root, "sys/kernel/actmon_avg_activity/mc_all"))
	for _, name := range []string{
		"ape", "nvenc", "nvenc0", "nvenc1", "msenc", "nvdec", "nvdec0", "nvdec1", "nvjpg", "nvjpg0", "nvjpg1", "vic", "ofa",
		"nvdla0", "nvdla1", "pva0", "pva0_cpu_axi", "se",
	} {
		e := engine{name: strings.ToUpper(name)}
		e.state = b.firstReadable(filepath.Join(bpmp, name, "state"), filepath.Join(clk, name, "clk_enable_count"))
		e.rate = b.firstReadable(filepath.Join(bpmp, name, "rate"), filepath.Join(clk, name, "clk_rate"))
		if e.state != nil && e.rate != nil {
			b.engines = append(b.engines, e)
		}
	}
}

// findMode finds the power mode and the names of the modes.
func (b *board) findMode(root string) {
	b.mode = b.openFile(sysfs.Path(root, "var/lib/nvpmodel/status"))
	b.modes = parseModes(sysfs.ReadWord(sysfs.Path(root, "etc/nvpmodel.conf")))
}

// parseModes reads lines such as "< POWER_MODEL ID=0 NAME=MAXN >" of nvpmodel.conf.
func parseModes(text string) map[string]string {
	modes := make(map[string]string)
	for l := range strings.Lines(text) {
		if !strings.Contains(l, "POWER_MODEL") || strings.HasPrefix(strings.TrimSpace(l), "#") {
			continue
		}
		id, name := "", ""
		for _, w := range strings.Fields(l) {
			if v, ok := strings.CutPrefix(w, "ID="); ok {
				id = v
			} else if v, ok := strings.CutPrefix(w, "NAME="); ok {
				name = strings.TrimSuffix(v, ">")
			}
		}
		if id != "" && name != "" && len(modes) < 64 {
			modes[id] = name
		}
	}
	return modes
}

// parseMode reads "pmode:0002" and returns "2".
func parseMode(b []byte) (string, bool) {
	for w := range strings.FieldsSeq(string(b)) {
		if v, ok := strings.CutPrefix(w, "pmode:"); ok {
			if n, err := strconv.ParseUint(v, 10, 16); err == nil {
				return strconv.FormatUint(n, 10), true
			}
		}
	}
	return "", false
}

// read fills s with the figures that change every second.
func (b *board) read(s *tegrastats.Stats) error {
	s.Reset()
	b.missing = false
	var failed error
	for i := range b.rails {
		r := &b.rails[i]
		watts, err := r.read()
		if err != nil {
			b.missing = true
			if failed == nil {
				failed = fmt.Errorf("read rail %s: %w", r.name, err)
			}
			continue
		}
		s.Rails = append(s.Rails, tegrastats.Rail{Name: r.name, Watts: watts})
	}
	if b.load != nil {
		v, err := b.load.Int()
		switch {
		case err == nil && v >= 0 && v <= 1000:
			s.GPU.Busy = tegrastats.Value{V: float64(v) / 1000, OK: true}
		case failed == nil && err == nil:
			failed = fmt.Errorf("read %s: a load of %d is not between 0 and 1000", b.load.Path(), v)
		case failed == nil:
			failed = err
		}
	}
	for _, c := range b.clocks {
		if v, err := c.Int(); err == nil && v >= 0 {
			s.Clusters = append(s.Clusters, float64(v))
			s.GPU.Hertz = tegrastats.Value{V: max(s.GPU.Hertz.V, float64(v)), OK: true}
		}
	}
	b.readMemory(s)
	for i := range b.engines {
		e := &b.engines[i]
		on, err1 := e.state.Int()
		hz, err2 := e.rate.Int()
		if err1 == nil && err2 == nil && hz >= 0 {
			s.Engines = append(s.Engines, tegrastats.Engine{Name: e.name, Off: on == 0,
				Hertz: tegrastats.Value{V: float64(hz), OK: on != 0}})
		}
	}
	return failed
}

func (b *board) readMemory(s *tegrastats.Stats) {
	if b.emcRate == nil {
		return
	}
	hz, err := b.emcRate.Int()
	if err != nil || hz <= 0 {
		return
	}
	s.Memory.Hertz = tegrastats.Value{V: float64(hz), OK: true}
	if b.emcBusy != nil {
		if khz, err := b.emcBusy.Int(); err == nil && khz >= 0 {
			s.Memory.Busy = tegrastats.Value{V: min(float64(khz)*1e3/float64(hz), 1), OK: true}
		}
	}
}

func (r *supplyRail) read() (watts float64, err error) {
	if r.power != nil {
		v, err := r.power.Int()
		if err == nil && v == 1<<63-1 {
			err = errors.New("blank value")
		}
		return float64(v) * r.scale, err
	}
	mv, err := r.volts.Int()
	if err != nil {
		return 0, err
	}
	ma, err := r.amps.Int()
	return float64(mv) * float64(ma) * 1e-6, err
}

// appendSysfs appends the figures that only sysfs has: fans and the power mode.
func (b *board) appendSysfs(batch *metric.Batch, o *output) {
	for _, f := range b.fans {
		if v, err := f.pwm.Int(); err == nil && v >= 0 && v <= 255 {
			batch.Add(o.seriesOf(fanRatio, f.name), float64(v)/255)
		}
	}
	if b.mode == nil {
		return
	}
	text, err := b.mode.Text()
	if err != nil {
		return
	}
	if string(text) != o.modeText { // it changes rarely, by hand
		o.modeText = string(text)
		if id, ok := parseMode(text); ok {
			o.mode = metric.NewSeries(powerMode, id, b.modes[id])
		} else {
			o.mode = nil
		}
	}
	if o.mode != nil {
		batch.Add(o.mode, 1)
	}
}

// Close closes the files.
func (b *board) Close() error {
	var errs []error
	for _, f := range b.closings {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
