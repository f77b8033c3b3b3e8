package workload

import "testing"

func TestRuntimeStage(t *testing.T) {
	for program, want := range map[string]bool{
		"6": true, "12": true, "runc": true, "runc:[0:PARENT]": true, "runc:[2:INIT]": true, "memfd:sealed-91": true, "exe": true, "crun": true, "conmon": true,
		"": false, "sh": false, "pause": false, "7z": false, "runcible": false, "executor": false, "runc-shim": false,
	} {
		if got := RuntimeStage(program); got != want {
			t.Errorf("%q: %v", program, got)
		}
	}
}
