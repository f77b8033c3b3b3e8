package power

import (
	"fmt"
	"strconv"
	"strings"
)

// out2facts fills in the inputs of the built-in families.
func out2facts(c *csvFile, out []system) error {
	mhz, err := c.numberColumn("cpu_mhz")
	if err != nil {
		return err
	}
	mem, err := c.numberColumn("mem_gb")
	if err != nil {
		return err
	}
	cpus, err := c.textColumn("cpus_enabled")
	if err != nil {
		return err
	}
	threads, err := c.textColumn("hw_threads")
	if err != nil {
		return err
	}
	avail, err := c.textColumn("hw_available")
	if err != nil {
		return err
	}
	for i := range out {
		s := &out[i]
		s.mhz, s.memory = mhz[i], mem[i]
		if _, err := fmt.Sscanf(cpus[i], "%d cores, %d chip", &s.cores, &s.chips); err != nil {
			if _, err := fmt.Sscanf(cpus[i], "%d core, %d chip", &s.cores, &s.chips); err != nil {
				return fmt.Errorf("%s row %d: cpus_enabled %q: %w", c.name, i+2, cpus[i], err)
			}
		}
		s.threads, _ = strconv.Atoi(strings.Fields(threads[i] + " 0")[0])
		if k := strings.LastIndexByte(avail[i], '-'); k >= 0 {
			s.year, _ = strconv.Atoi(avail[i][k+1:])
		}
	}
	return nil
}
