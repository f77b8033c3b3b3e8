package hwmon

import (
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"reckon/internal/sysfs"
	"reckon/sensor"
)

type meterMethod uint8

const (
	byPower meterMethod = iota
	byEnergy
	byProduct
)

// meter is one power or energy attribute of a chip.
type meter struct {
	path   string
	kind   meterMethod
	file   *sysfs.File
	other  *sysfs.File // the voltage, for a product
	domain sensor.Domain
	zone   string
	rank   int // closeness to the input of the machine; 0 is not an input
	slow   bool
	most   float64 // watts

	mu   sync.Mutex // for a slow chip
	last meterReading
	err  error
}

type meterReading struct {
	watts, joules       float64
	hasWatts, hasJoules bool
	at                  time.Time
}

// errNoReading means that a slow chip has not responded yet.
var errNoReading = errors.New("no answer yet")

// Ranks of meters of the machine's input.
const (
	rankSupply = iota + 1 // inputs of supplies: AC
	rankMeter             // the ACPI meter, a board's controller
	rankModule            // the modules of a Grace machine
)

// classify determines the domain of a meter by the driver and the label.
func (m *meter) classify(c *chip, label, number string) {
	low := strings.ToLower(label)
	words := strings.Fields(low)
	last := "0"
	if len(words) > 0 {
		last = words[len(words)-1]
	}
	m.domain, m.zone = sensor.DomainRail, c.label+" "+label
	if label == "" {
		m.zone = c.label + " " + number
	}
	board := func(rank int) { m.domain, m.rank = sensor.DomainBoard, rank }
	switch {
	case c.name == "power_meter" && strings.HasPrefix(low, "module power socket"):
		m.zone = "module " + last
		board(rankModule)
	case c.name == "power_meter" && strings.HasPrefix(low, "grace power socket"):
		m.domain, m.zone = sensor.DomainPsys, "grace "+last
	case c.name == "power_meter" && strings.HasPrefix(low, "cpu power socket"):
		m.domain, m.zone = sensor.DomainPackage, last
	case c.name == "power_meter" && strings.Contains(low, " power socket "): // SysIO, DRAM
		m.zone = words[0] + " " + last
	case c.name == "power_meter":
		m.zone = c.label
		board(rankMeter)
	case c.name == "amd_energy" && strings.HasPrefix(low, "esocket"):
		m.domain, m.zone = sensor.DomainPackage, strings.TrimPrefix(low, "esocket")
	case c.name == "amd_energy":
		m.domain = "" // one for each core: too many series to be useful
	case c.name == "fam15h_power":
		m.domain, m.zone = sensor.DomainPackage, "0"
	case (c.name == "smpro" || c.name == "smpro_hwmon" || c.name == "apm_xgene") && low == "cpu power":
		m.domain, m.zone = sensor.DomainPackage, "0"
	case c.name == "nouveau":
		m.domain, m.zone = sensor.DomainGPU, strings.TrimSpace(c.label+" "+label)
	case low == "pin" || strings.HasPrefix(low, "pin"), c.name == "corsairpsu" && low == "power total":
		board(rankSupply)
	case low == "system" || low == "total system power" || low == "sys pow" || low == "vdd_in" || low == "vin" || low == "pom_5v_in":
		board(rankMeter)
	}
}

// selectInputs selects the meters that measure the whole board. These are the meters with the highest rank, because they are
// nearest to the consumption of the machine. It makes meters of lower rank rails, so that no energy is counted twice.
func selectInputs(chips []*chip) {
	best := 0
	for _, c := range chips {
		for _, m := range c.meters {
			best = max(best, m.rank)
		}
	}
	for _, c := range chips {
		for _, m := range c.meters {
			if m.rank > 0 && m.rank < best {
				m.domain = sensor.DomainRail
			}
		}
	}
}

// checkPlausible rejects blank hardware values. A machine powered by an input draws more than zero from it.
func (m *meter) checkPlausible(r meterReading) error {
	if !r.hasWatts {
		return nil
	}
	input := m.domain == sensor.DomainBoard && m.rank != rankSupply || m.domain == sensor.DomainPackage || m.domain == sensor.DomainPsys
	low := -m.most
	if input {
		low = math.SmallestNonzeroFloat64
	}
	return sensor.CheckRange("power", m.zone, r.watts, low, m.most)
}

// read returns the newest reading, and triggers the next one of a slow chip.
func (m *meter) read(now time.Time) (meterReading, error) {
	if !m.slow {
		return m.readNow(now)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.err != nil:
		return meterReading{}, m.err
	case m.last.at.IsZero():
		return meterReading{}, errNoReading
	case now.Sub(m.last.at) > sensor.Gap:
		return meterReading{}, errors.New("the device has not answered for more than " + sensor.Gap.String())
	}
	return m.last, nil
}

func (m *meter) readNow(now time.Time) (meterReading, error) {
	v, err := m.file.Int()
	if err != nil {
		return meterReading{}, err
	}
	switch m.kind {
	case byEnergy:
		return meterReading{joules: float64(v) / 1e6, hasJoules: true, at: now}, nil
	case byProduct:
		mv, err := m.other.Int()
		return meterReading{watts: float64(v) * float64(mv) / 1e6, hasWatts: true, at: now}, err
	}
	return meterReading{watts: float64(v) / 1e6, hasWatts: true, at: now}, nil
}

// Close closes the files.
func (m *meter) Close() error { return errors.Join(m.file.Close(), m.other.Close()) }

// startReader reads a slow chip in a separate goroutine. It does nothing while the previous reading of the chip still
// runs. A chip is read no more often than the sensor.
func (c *chip) startReader() {
	c.ask = make(chan struct{}, 1)
	ask := c.ask
	meters := c.meters
	go func() {
		for range ask {
			for _, m := range meters {
				r, err := m.readNow(time.Now())
				m.mu.Lock()
				m.last, m.err = r, err
				m.mu.Unlock()
			}
		}
		for _, m := range meters {
			_ = m.Close()
		}
	}()
}

// requestReading requests the next reading of a slow chip.
func (c *chip) requestReading() {
	if c.ask != nil {
		select {
		case c.ask <- struct{}{}:
		default: // the previous one is not done yet
		}
	}
}
