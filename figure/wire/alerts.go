package wire

import "time"

// Alert is one alert of a rule, as in Prometheus's HTTP API.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       string            `json:"state"` // pending or firing
	ActiveAt    time.Time         `json:"activeAt"`
	Value       string            `json:"value"`
}

// Rule is a rule as in Prometheus's HTTP API.
type Rule struct {
	Group     string  `json:"-"`
	File      string  `json:"-"`
	Type      string  `json:"type"` // alerting or recording
	Name      string  `json:"name"`
	Query     string  `json:"query"`
	Duration  float64 `json:"duration"` // seconds that it must hold before it fires
	State     string  `json:"state"`    // inactive, pending or firing; empty for a recording rule
	Health    string  `json:"health"`
	LastError string  `json:"lastError"`
	Seconds   float64 `json:"evaluationTime"`
	Alerts    []Alert `json:"alerts"`
}

// AlertTest is the state of a test of the alert delivery path.
type AlertTest struct {
	ID         string          `json:"id"`         // Id of the test.
	Deliveries []AlertDelivery `json:"deliveries"` // Destinations of the test.
}

// AlertDelivery is the delivery of an alert to one receiver.
type AlertDelivery struct {
	Alertmanager string `json:"alertmanager"` // Address of the Alertmanager, or embedded.
	// Receiver of its configuration; empty until the alert has arrived at an external one.
	Receiver string `json:"receiver"`
	// Integration and its number in the receiver, such as email or webhook; empty if only the
	// Alertmanager knows it.
	Integration string `json:"integration"`
	Arrived     bool   `json:"arrived"` // Whether it has arrived.
	Error       string `json:"error"`   // Reason why it has not.
	// Time at which the receiver answered or refused; absent if unknown.
	Time *time.Time `json:"time,omitempty"`
	// Number of notifications that it refused in a row; 0 once one arrived.
	Failed int `json:"failed,omitempty"`
}

// AlertReceivers lists the receivers of alerts.
type AlertReceivers struct {
	// page: set up there; file: by the setting alertmanager-config; elsewhere: by another Alertmanager.
	From      string          `json:"from"`
	Receivers []AlertReceiver `json:"receivers"` // From the page Alerts.
	// Receivers notified of each firing alert; empty if another Alertmanager decides.
	Sent []AlertSent `json:"sent"`
}

// AlertSent lists the receivers that are notified of a firing alert.
type AlertSent struct {
	Labels map[string]string `json:"labels"` // Labels of the alert.
	// Receivers, each with the reason if it is not notified now, such as a silence or mute time; empty if there are none.
	To []string `json:"to"`
}

// AlertReceiver is a receiver from the page Alerts.
type AlertReceiver struct {
	ID          string    `json:"id"`          // Id of the receiver.
	Kind        string    `json:"kind"`        // slack, teams, email or webhook.
	Where       string    `json:"where"`       // Host and port of its address, or mail addresses; numbered if shared.
	By          string    `json:"by"`          // User who added it.
	Since       time.Time `json:"since"`       // Time at which it was added.
	Integration string    `json:"integration"` // Name in the deliveries of a test.
}

// Done reports whether every delivery has arrived or failed.
func (t *AlertTest) Done() bool {
	for i := range t.Deliveries {
		if d := &t.Deliveries[i]; !d.Arrived && d.Error == "" {
			return false
		}
	}
	return len(t.Deliveries) > 0
}
