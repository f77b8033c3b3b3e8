package recording

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"reckon/metric"
	"reckon/sensor"
)

// fieldNames, cgroupNames and gpuNames map the bits of the sets of figures in package sensor to their names in a
// recording. A recording contains names, because the order of the constants may change.
var (
	fieldNames = []bitName[sensor.Fields]{
		{sensor.FieldWait, "wait"}, {sensor.FieldSwitches, "switches"}, {sensor.FieldFaults, "faults"},
		{sensor.FieldMemory, "memory"}, {sensor.FieldSwap, "swap"}, {sensor.FieldPeak, "peak"},
		{sensor.FieldIO, "io"}, {sensor.FieldCgroup, "cgroup"}, {sensor.FieldGroup, "group"},
		{sensor.FieldThreads, "threads"}, {sensor.FieldParent, "parent"}, {sensor.FieldCPUSplit, "cpu_split"},
		{sensor.FieldChildren, "children"}, {sensor.FieldTurns, "turns"},
	}
	cgroupNames = []bitName[sensor.CgroupFields]{
		{sensor.CgroupCPU, "cpu"}, {sensor.CgroupCPUSplit, "cpu_split"}, {sensor.CgroupThrottle, "throttle"},
		{sensor.CgroupMemory, "memory"}, {sensor.CgroupSwap, "swap"}, {sensor.CgroupPeak, "peak"},
		{sensor.CgroupEvents, "events"}, {sensor.CgroupIO, "io"}, {sensor.CgroupPIDs, "pids"},
		{sensor.CgroupPressure, "pressure"}, {sensor.CgroupMemoryMax, "memory_max"}, {sensor.CgroupCPUMax, "cpu_max"},
		{sensor.CgroupShmem, "shmem"}, {sensor.CgroupKernel, "kernel"}, {sensor.CgroupKernelBound, "kernel_bound"},
		{sensor.CgroupRefaults, "refaults"}, {sensor.CgroupMemoryEvents, "memory_events"},
	}

	gpuNames = []bitName[sensor.GPUFields]{
		{sensor.GPUBusy, "busy"}, {sensor.GPUMemory, "memory"}, {sensor.GPUSize, "size"}, {sensor.GPUSampled, "sampled"},
		{sensor.GPULeft, "left"},
	}

	processShape = shapeOf[sensor.Process]()
	machineShape = shapeOf[sensor.Machine]()
	cgroupShape  = shapeOf[sensor.Cgroup]()
	gpuShape     = shapeOf[sensor.GPU]()
	useShape     = shapeOf[sensor.GPUUse]()
)

type bitName[T ~uint8 | ~uint32] struct {
	bit  T
	name string
}

func bitsToNames[T ~uint8 | ~uint32](table []bitName[T], bits T) []string {
	names := []string{}
	for _, b := range table {
		if bits&b.bit != 0 {
			names = append(names, b.name)
			bits &^= b.bit
		}
	}
	return names
}

// namesToBits ignores unknown names: they come from a newer writer.
func namesToBits[T ~uint8 | ~uint32](table []bitName[T], names []string) (bits T) {
	for _, b := range table {
		if slices.Contains(names, b.name) {
			bits |= b.bit
		}
	}
	return bits
}

// shapeOf returns the shape of T, made at its first use: every command of the program has this package.
func shapeOf[T any]() func() reflect.Type {
	return sync.OnceValue(func() reflect.Type { return jsonShape(reflect.TypeFor[T]()) })
}

// jsonShape returns t with a JSON name for each field: the Go name in snake_case. A new field is therefore recorded without
// a change here. Fields that a recording encodes in another form are omitted.
func jsonShape(t reflect.Type) reflect.Type {
	fields := make([]reflect.StructField, t.NumField())
	for i := range fields {
		fields[i] = t.Field(i)
		name := snakeCase(fields[i].Name) + ",omitempty"
		switch fields[i].Name {
		case "Have", "Comm", "State":
			name = "-"
		}
		fields[i].Tag = reflect.StructTag(`json:"` + name + `"`)
	}
	return reflect.StructOf(fields)
}

func snakeCase(s string) string {
	if s == "PIDs" {
		return "pids"
	}
	var b strings.Builder
	upper := func(i int) bool { return i < len(s) && s[i] >= 'A' && s[i] <= 'Z' }
	for i := range len(s) {
		if i > 0 && upper(i) && (!upper(i-1) || i+1 < len(s) && !upper(i+1)) {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(s[i : i+1]))
	}
	return b.String()
}

func encodeShape(v any, t reflect.Type) any {
	return reflect.ValueOf(v).Convert(t).Interface()
}

func decodeShape[T any](data []byte, t reflect.Type) (v T, err error) {
	if len(data) == 0 {
		return v, nil
	}
	p := reflect.New(t)
	if err := json.Unmarshal(data, p.Interface()); err != nil {
		return v, err
	}
	return p.Elem().Convert(reflect.TypeFor[T]()).Interface().(T), nil
}

// The file readings.json.
type (
	wirePass struct {
		Time    time.Time            `json:"time"`
		Tasks   *wireTasks           `json:"tasks,omitempty"`
		Machine *wireRecord          `json:"machine,omitempty"`
		About   map[int32]wireAbout  `json:"about,omitempty"`
		Paths   map[uint64]wirePaths `json:"cgroup_paths,omitempty"`
		Users   map[uint32]string    `json:"users,omitempty"`
		Cgroups []wireCgroup         `json:"cgroups,omitempty"`
		Sensors []wireReading        `json:"sensors,omitempty"`
		Errors  map[string]string    `json:"errors,omitempty"`
	}
	wireAbout struct {
		Cgroups      wirePaths         `json:"cgroups,omitempty"`
		LoginSession *uint32           `json:"login_session,omitempty"`
		Env          map[string]string `json:"env,omitempty"`
	}
	wirePaths []wirePath
	wirePath  struct {
		Controllers string `json:"controllers,omitempty"`
		Path        string `json:"path"`
	}
	wireTasks struct {
		Boot   uint64        `json:"boot"`
		Live   []wireProcess `json:"live"`
		Exited []wireProcess `json:"exited"`
		Lost   uint64        `json:"lost,omitempty"`
		Joined bool          `json:"joined,omitempty"`
		Opens  []wireOpen    `json:"opens,omitempty"`
	}
	// wireOpen is an open of a GPU: the process, and the number of the device file.
	wireOpen struct {
		PID  int32  `json:"pid"`
		Node uint32 `json:"node"`
	}
	wireProcess struct {
		Comm    string   `json:"comm"`
		State   string   `json:"state,omitempty"`
		Have    []string `json:"have"`
		Figures any      `json:"figures"`
	}
	wireRecord struct {
		Figures any `json:"figures"`
	}
	wireCgroup struct {
		Paths   wirePaths `json:"paths"`
		Have    []string  `json:"have"`
		Figures any       `json:"figures"`
	}
	wireReading struct {
		Sensor   string          `json:"sensor"`
		Error    string          `json:"error,omitempty"`
		Families []wireFamily    `json:"families,omitempty"`
		GPU      json.RawMessage `json:"gpu,omitempty"`
	}
	wireFamily struct {
		Name   string       `json:"name"`
		Help   string       `json:"help,omitempty"`
		Kind   string       `json:"kind"`
		Unit   string       `json:"unit,omitempty"`
		Labels []string     `json:"labels,omitempty"`
		Series []wireSeries `json:"series"`
	}
	wireSeries struct {
		Values    []string       `json:"values,omitempty"`
		Created   int64          `json:"created,omitempty"`
		Value     *jsonFloat     `json:"value,omitempty"`
		Histogram *wireHistogram `json:"histogram,omitempty"`
		Last      bool           `json:"last,omitempty"`
	}
	wireHistogram struct {
		Count   uint64    `json:"count"`
		Zero    uint64    `json:"zero"`
		Sum     jsonFloat `json:"sum"`
		Offset  int32     `json:"offset"`
		Buckets []uint64  `json:"buckets"`
	}
)

func encodePaths(ps []sensor.CgroupPath) (out wirePaths) {
	for _, p := range ps {
		out = append(out, wirePath(p))
	}
	return out
}

func (ps wirePaths) decode() (out []sensor.CgroupPath) {
	for _, p := range ps {
		out = append(out, sensor.CgroupPath(p))
	}
	return out
}

// jsonFloat is a float64 that may be NaN or infinite: those are strings in JSON.
type jsonFloat float64

// MarshalJSON writes a number, or "NaN", "+Inf" or "-Inf".
func (n jsonFloat) MarshalJSON() ([]byte, error) {
	f := float64(n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return strconv.AppendQuote(nil, strconv.FormatFloat(f, 'g', -1, 64)), nil
	}
	return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (n *jsonFloat) UnmarshalJSON(data []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	if err != nil {
		return fmt.Errorf("not a number: %s", data)
	}
	*n = jsonFloat(f)
	return nil
}

// encodeComm encodes a program name, which may contain any byte, as printable ASCII. It writes backslashes and all
// other bytes as \xNN.
func encodeComm(c sensor.Comm) string {
	raw := c.Bytes()
	var b strings.Builder
	for _, x := range raw {
		if x < 0x20 || x >= 0x7f || x == '\\' {
			fmt.Fprintf(&b, `\x%02x`, x)
		} else {
			b.WriteByte(x)
		}
	}
	return b.String()
}

func decodeComm(s string) sensor.Comm {
	b := make([]byte, 0, 15)
	for i := 0; i < len(s) && len(b) < 15; i++ {
		if strings.HasPrefix(s[i:], `\x`) && len(s) >= i+4 {
			if x, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				b = append(b, byte(x))
				i += 3
				continue
			}
		}
		b = append(b, s[i])
	}
	return sensor.CommOf(b)
}

func encodeProcesses(ps []sensor.Process) []wireProcess {
	out := make([]wireProcess, len(ps))
	for i := range ps {
		p := &ps[i]
		out[i] = wireProcess{Comm: encodeComm(p.Comm), Have: bitsToNames(fieldNames, p.Have), Figures: encodeShape(*p, processShape())}
		if p.State != 0 {
			out[i].State = string(rune(p.State))
		}
	}
	return out
}

// encodeSamples groups samples by description, in order of appearance.
func encodeSamples(samples []metric.Sample) []wireFamily {
	var out []wireFamily
	at := map[*metric.Desc]int{}
	for i := range samples {
		s := &samples[i]
		d := s.Series.Desc
		k, ok := at[d]
		if !ok {
			k = len(out)
			at[d] = k
			out = append(out, wireFamily{Name: d.Name, Help: d.Help, Kind: d.Kind.String(), Unit: string(d.Unit), Labels: d.Labels})
		}
		w := wireSeries{Values: s.Series.Values, Created: s.Series.Created, Last: s.Last}
		if h := s.Histogram; h != nil {
			w.Histogram = &wireHistogram{h.Count, h.ZeroCount, jsonFloat(h.Sum), h.Offset, h.Buckets}
		} else {
			v := jsonFloat(s.Value)
			w.Value = &v
		}
		out[k].Series = append(out[k].Series, w)
	}
	return out
}

func encodePass(d *PassData) ([]byte, error) {
	w := wirePass{Time: d.Time.UTC(), Users: d.Users, Errors: d.Errors, About: map[int32]wireAbout{}, Paths: map[uint64]wirePaths{}}
	for pid, a := range d.About {
		w.About[pid] = wireAbout{encodePaths(a.Cgroups), a.LoginSession, a.Env}
	}
	for n, p := range d.Paths {
		w.Paths[n] = encodePaths(p)
	}
	if t := d.Tasks; t != nil {
		w.Tasks = &wireTasks{t.Boot, encodeProcesses(t.Live), encodeProcesses(t.Exited), t.Lost, t.Joined, nil}
		for _, o := range t.Opens {
			w.Tasks.Opens = append(w.Tasks.Opens, wireOpen(o))
		}
	}
	if d.Machine != nil {
		w.Machine = &wireRecord{encodeShape(*d.Machine, machineShape())}
	}
	for i := range d.Cgroups {
		c := &d.Cgroups[i]
		w.Cgroups = append(w.Cgroups, wireCgroup{encodePaths(c.Paths), bitsToNames(cgroupNames, c.Figures.Have),
			encodeShape(c.Figures, cgroupShape())})
	}
	for _, r := range d.Sensors {
		gpus, err := encodeGPUs(r.GPU)
		if err != nil {
			return nil, err
		}
		w.Sensors = append(w.Sensors, wireReading{r.Sensor, r.Error, encodeSamples(r.Samples), gpus})
	}
	return json.Marshal(&w)
}
