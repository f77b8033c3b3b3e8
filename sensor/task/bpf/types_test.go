package bpf

import (
	"errors"
	"testing"

	"reckon/sensor"
)

// Shared types are parsed once; after Release they are parsed again, and types that nobody shares are released by done.
func TestTypes(t *testing.T) {
	shared := new(Types)
	first, done, err := shared.Borrow()
	if errors.Is(err, sensor.ErrUnavailable) {
		t.Skip("not available here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	done()
	second, _, err := shared.Borrow()
	if err != nil || first != second {
		t.Errorf("the types were parsed twice (%v)", err)
	}
	shared.Release()
	if shared.cache != nil {
		t.Error("the types are still held")
	}
	third, _, err := shared.Borrow()
	if err != nil || third == first {
		t.Errorf("released types were handed out again (%v)", err)
	}
	var own *Types
	cache, done, err := own.Borrow()
	if err != nil || cache == nil || cache == third {
		t.Errorf("types of nobody: %v", err)
	}
	done()
}
