package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBill writes a bill of materials of the binary bin to the file out, in CycloneDX format
// (https://cyclonedx.org/docs/1.6/json/). It lists the modules that the binary records (runtime/debug).
func (r *release) writeBill(bin, out string) error {
	info, err := buildinfo.ReadFile(bin)
	if err != nil {
		return fmt.Errorf("%s does not list its parts: %w", bin, err)
	}
	name := filepath.Base(bin)
	b := cdx.NewBOM()
	b.SerialNumber = "" // it would be random
	b.Metadata = &cdx.Metadata{
		Timestamp: r.time.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: name, Type: cdx.ComponentTypeApplication, Name: name, Version: r.version,
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		},
	}
	var parts []cdx.Component
	var refs []string
	add := func(path, version, sum string) {
		ref := "pkg:golang/" + path + "@" + url.PathEscape(version)
		c := cdx.Component{BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: ref,
			Scope: cdx.ScopeRequired}
		if sum != "" {
			c.Properties = &[]cdx.Property{{Name: "go.sum", Value: sum}} // h1: of the module's zip, see golang.org/ref/mod#go-sum-files
		}
		parts, refs = append(parts, c), append(refs, ref)
	}
	add("std", info.GoVersion, "")
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		if strings.HasPrefix(d.Path, ".") {
			continue // a module of this repository
		}
		add(d.Path, d.Version, d.Sum)
	}
	b.Components = &parts
	b.Dependencies = &[]cdx.Dependency{{Ref: name, Dependencies: &refs}}
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).Encode(b); err != nil {
		return err
	}
	return os.WriteFile(out, text.Bytes(), 0o644)
}
