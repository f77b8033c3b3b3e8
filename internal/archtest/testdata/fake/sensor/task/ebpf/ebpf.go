// Package ebpf has generated objects behind an embed directive.
package ebpf

import _ "embed"

//go:embed object.txt
var object []byte

// Object returns it.
func Object() []byte { return object }
