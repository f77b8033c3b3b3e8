// Package external lists the readers of figures that other programs measure: folders of text files,
// pages to scrape, and numbers in files. Each is a [sensor.Sensor] to the agent.
//
// Functions of this package may be called from any goroutine; the sensors that they open follow the
// contract of package sensor.
package external

import (
	"reckon/agent/external/custom"
	"reckon/agent/external/scrape"
	"reckon/agent/external/textfile"
	"reckon/internal/kubelet"
	"reckon/sensor"
	"reckon/sensor/all"
)

// Options configure the readers.
type Options struct {
	Root     string // of the file tree; "" or "/" is our own machine
	Textfile []textfile.Folder
	Scrape   []scrape.Target
	Pods     *scrape.Pods   // nil to scrape none
	Kubelet  *kubelet.Cache // source of the pods; nil if Pods is
	Custom   []custom.Reading
}

// Sensors returns the sensors for external figures in the form of [all.Sensors]: textfile, scrape and custom. If a
// sensor has nothing configured to read, its Open returns [sensor.ErrUnavailable].
func Sensors(o Options) []all.Entry {
	return []all.Entry{
		{Name: "textfile", Open: func() (sensor.Sensor, error) { return all.Opened(textfile.New(o.Textfile)) }},
		{Name: "scrape", Open: func() (sensor.Sensor, error) { return all.Opened(scrape.New(o.Root, o.Scrape, o.Pods, o.Kubelet)) }},
		{Name: "custom", Open: func() (sensor.Sensor, error) { return all.Opened(custom.New(o.Root, o.Custom)) }},
	}
}
