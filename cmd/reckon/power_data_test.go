package main

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

func TestGunzip(t *testing.T) {
	const text = "time,watts\n0,1\n"
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	packed := b.Bytes()
	for name, in := range map[string][]byte{"plain": []byte(text), "packed": packed} {
		if got, err := gunzip(in); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := gunzip(packed[:len(packed)-9]); err == nil || !strings.Contains(err.Error(), "unpack") {
		t.Errorf("cut off: %v", err)
	}
	if got, err := gunzip(nil); err != nil || len(got) != 0 {
		t.Errorf("nothing: %q, %v", got, err)
	}
}
