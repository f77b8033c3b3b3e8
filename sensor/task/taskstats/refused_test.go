package taskstats

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"reckon/sensor"
)

// Root of a user namespace is not told to run as root.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		err          error
		uidMap, want string
	}{
		{unix.EPERM, "         0          0 4294967295\n", "grant CAP_NET_ADMIN"},
		{unix.EPERM, "", "grant CAP_NET_ADMIN"},
		{unix.EPERM, "         0       1000          1\n", "without a user namespace"},
		{unix.EINVAL, "         0          0 4294967295\n", "hostPID"},
	} {
		err := refused(fmt.Errorf("register: %w", c.err), c.uidMap)
		if !errors.Is(err, sensor.ErrUnavailable) || !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v in %q: %v, want %q", c.err, c.uidMap, err, c.want)
		}
	}
}
