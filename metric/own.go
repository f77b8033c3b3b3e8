package metric

import (
	"fmt"
	"strings"
)

// CheckOwnName returns an error if an external figure may not have this name. The names of reckon's own metrics, of machine
// metrics and of rules are reserved. trusted figures come from root and may be about the machine.
func CheckOwnName(name string, trusted bool) error {
	switch {
	case strings.HasPrefix(name, "reckon_"):
		return fmt.Errorf("%s: names that begin with reckon_ are the agent's; choose another", name)
	case trusted:
		return nil
	case strings.Contains(name, ":"):
		return fmt.Errorf("%s: names with a colon are those of rules; choose another", name)
	}
	for _, p := range []string{"node_", "container_", "machine_", "kube_", "kepler_", "DCGM_", "tegra_", "scrape_", "ALERTS"} {
		if strings.HasPrefix(name, p) {
			return fmt.Errorf("%s: names that begin with %s are about machines, and only root's figures may be; choose another", name, p)
		}
	}
	if name == "up" || name == "target_info" {
		return fmt.Errorf("%s: the name is taken; choose another", name)
	}
	return nil
}
