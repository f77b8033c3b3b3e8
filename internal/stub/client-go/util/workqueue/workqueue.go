// Package workqueue is a stub for the package of this name: there are no queues.
package workqueue

// The measurements of a queue.
type (
	GaugeMetric interface {
		Inc()
		Dec()
	}
	CounterMetric       interface{ Inc() }
	HistogramMetric     interface{ Observe(float64) }
	SettableGaugeMetric interface{ Set(float64) }
)

// SetProvider does nothing.
func SetProvider(any) {}
