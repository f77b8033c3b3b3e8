package stress

import "fmt"

// refuseGPU says that no GPU is loaded. A program may name one all the same: it is
// part of what a real workload used, and is kept in its trace.
func refuseGPU(p Program) error {
	if p.Peak()[GPU] == 0 {
		return nil
	}
	return fmt.Errorf("%w: this version loads no GPU; leave out --gpu", ErrUnavailable)
}
