package alerting

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	amconfig "github.com/prometheus/alertmanager/config"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v3"

	"reckon/deploy/alerts"
	"reckon/figure/wire"
)

// Contact is a receiver of alerts that an administrator configured on the page Alerts. Contacts are used if there is
// neither a configuration file nor another Alertmanager. Addresses and passwords are stored in receivers.json of
// [Options.Dir], mode 0600.
type Contact struct {
	wire.AlertReceiver
	URL       string // of slack, teams and webhook
	Channel   string // of slack: another one than the URL's
	To        string // of email: addresses with commas between them
	Smarthost string // of email: HOST:PORT
	From      string
	User      string // empty: the mail server asks for none
	Password  string
	Plain     bool // email without TLS
}

// contactKinds maps the kinds to their names in Alertmanager's configuration and in its integrations.
var contactKinds = map[string]string{"slack": "slack", "teams": "msteamsv2", "webhook": "webhook", "email": "email"}

// contactList are the contacts of one server.
type contactList struct {
	stateFiles
	loopback bool

	mu   sync.Mutex // held over a change of the configuration
	list []Contact
}

func openContacts(kept stateFiles, loopback bool) (*contactList, error) {
	c := &contactList{stateFiles: kept, loopback: loopback}
	raw, err := os.ReadFile(c.filePath())
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &c.list)
	}
	if err != nil {
		return nil, fmt.Errorf("read the receivers of alerts (%s): %w; restore it from a backup, or remove it and set them up again",
			c.filePath(), err)
	}
	return c, nil
}

func (c *contactList) filePath() string { return filepath.Join(c.dir, "receivers.json") }

func (c *contactList) readConfig() (*amconfig.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return contactsConfig(c.list)
}

// contactsConfig returns the configuration of deploy/alerts with the contacts in list as the receivers of operators.
func contactsConfig(list []Contact) (*amconfig.Config, error) {
	doc, operators := map[string]any{}, map[string]any{"name": contactsName}
	if err := yaml.Unmarshal(alerts.Alertmanager(), &doc); err != nil {
		return nil, err
	}
	for i := range list {
		key := contactKinds[list[i].Kind] + "_configs"
		of, _ := operators[key].([]any)
		operators[key] = append(of, list[i].receiverConfig())
	}
	delete(doc, "global")
	if route, ok := doc["route"].(map[string]any); ok { // a test arrives at once
		routes, _ := route["routes"].([]any)
		route["routes"] = append([]any{map[string]any{"matchers": []string{"alertname=" + testName}, "receiver": contactsName,
			"group_by": []string{testLabel}, "group_wait": "1s"}}, routes...)
	}
	doc["receivers"] = []any{operators, map[string]any{"name": "nobody"}, map[string]any{"name": "owner"}, map[string]any{"name": "digest"}}
	raw, err := yaml.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return amconfig.Load(string(raw))
}

// receiverConfig returns the receiver in the form of Alertmanager.
func (c *Contact) receiverConfig() map[string]any {
	const text = `{{ range .Alerts }}{{ .Annotations.summary }}. {{ .Annotations.runbook }} {{ .Annotations.page }}{{ "\n" }}{{ end }}`
	out := map[string]any{"send_resolved": true}
	switch c.Kind {
	case "slack":
		out["api_url"], out["text"] = c.URL, text
		if c.Channel != "" {
			out["channel"] = c.Channel
		}
	case "teams":
		out["webhook_url"], out["text"] = c.URL, text
	case "webhook":
		out["url"] = c.URL
	case "email":
		out["to"], out["from"], out["smarthost"], out["require_tls"] = c.To, c.From, c.Smarthost, !c.Plain
		if c.User != "" {
			out["auth_username"], out["auth_password"] = c.User, c.Password
		}
	}
	return out
}

// check returns an error for an invalid contact. For a valid one, it sets the fields that the page displays.
func (c *Contact) check(loopback bool) error {
	if c.Kind == "email" {
		host, _, err := net.SplitHostPort(c.Smarthost)
		if err != nil {
			return fmt.Errorf("mail server %q: give HOST:PORT, such as mail.example.org:587", c.Smarthost)
		}
		_, wrongTo := mail.ParseAddressList(c.To)
		_, wrongFrom := mail.ParseAddress(c.From)
		if err := errors.Join(wrongTo, wrongFrom); err != nil {
			return fmt.Errorf("addresses %q and %q: %w", c.To, c.From, err)
		}
		c.Where = c.To + " by " + host
		return nil
	}
	if contactKinds[c.Kind] == "" {
		return fmt.Errorf("kind %q: give slack, teams, email or webhook", c.Kind)
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("give the whole address, such as https://hooks.example.org/T1/B2")
	}
	list, err := net.LookupHost(u.Hostname())
	if err != nil {
		return fmt.Errorf("the host of the address is not found: %w", err)
	}
	for _, text := range list {
		if ip, err := netip.ParseAddr(text); !loopback && err == nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified()) {
			return fmt.Errorf("%s is an address of this machine or its link; the setting alert-loopback allows such", u.Hostname())
		}
	}
	c.Where = strings.TrimSpace(u.Host + " " + c.Channel)
	return nil
}

// receivers returns the contacts for the page and the command line. Of several with the same address, the second and
// further ones are numbered.
func (c *contactList) receivers() []wire.AlertReceiver {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, kinds, same := []wire.AlertReceiver{}, map[string]int{}, map[string]int{}
	for i := range c.list {
		r := c.list[i].AlertReceiver
		r.Integration = contactKinds[r.Kind] + "[" + strconv.Itoa(kinds[r.Kind]) + "]"
		kinds[r.Kind]++
		key := r.Kind + " " + r.Where
		if same[key]++; same[key] > 1 {
			r.Where += fmt.Sprintf(" (%d)", same[key])
		}
		out = append(out, r)
	}
	return out
}

// contactsName is the receiver of the configuration that holds all contacts.
const contactsName = "operators"

// Receivers lists the receivers, and the location of their configuration.
func (s *Service) Receivers() wire.AlertReceivers {
	out := wire.AlertReceivers{From: "page", Receivers: []wire.AlertReceiver{}, Sent: []wire.AlertSent{}}
	switch {
	case s.o.Config != "":
		out.From = "file"
	case len(s.o.Alertmanagers) > 0:
		out.From = "elsewhere"
	}
	people := map[string][]string{} // by receiver of the configuration
	if s.contacts != nil {
		out.Receivers = s.contacts.receivers()
		for _, r := range out.Receivers {
			people[contactsName] = append(people[contactsName], r.Where)
		}
	} else if s.inside != nil {
		s.inside.mu.RLock()
		for name, list := range s.inside.counts {
			if len(list) > 0 {
				people[name] = []string{name}
			}
		}
		s.inside.mu.RUnlock()
	}
	for _, r := range s.AlertingRules() {
		for _, a := range r.ActiveAlerts() {
			if a.State == rules.StateFiring && out.From != "elsewhere" {
				out.Sent = append(out.Sent, wire.AlertSent{Labels: a.Labels.Map(), To: s.describeReceivers(a.Labels.Map(), people)})
			}
		}
	}
	return out
}

// describeReceivers lists each receiver that the routes notify of an alert, and why a receiver is not notified now.
func (s *Service) describeReceivers(alert map[string]string, people map[string][]string) []string {
	to, why := []string{}, map[string]string{}
	if s.inside != nil {
		names, held := s.inside.receiversFor(alert)
		for i, name := range names {
			for _, who := range people[name] {
				if old, twice := why[who]; !twice || old != "" {
					why[who] = held[i]
				}
			}
		}
	}
	for who, held := range why {
		if held != "" {
			who += " (not now: " + held + ")"
		}
		to = append(to, who)
	}
	slices.Sort(to)
	return to
}

// SetContact adds a contact, or removes the one with the id. The change is immediate and survives a restart.
func (s *Service) SetContact(add *Contact, remove, by string) error {
	c := s.contacts
	if c == nil {
		return errors.New("receivers are set up by the setting alertmanager or alertmanager-config")
	}
	if add != nil {
		if err := add.check(c.loopback); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(c.list), func(c Contact) bool { return c.ID == remove })
	if add != nil {
		now := time.Now().UTC()
		add.ID, add.By, add.Since = strconv.FormatInt(now.UnixNano(), 36), by, now.Truncate(time.Second)
		list = append(list, *add)
	} else if len(list) == len(c.list) {
		return fmt.Errorf("no receiver has the id %q", remove)
	}
	conf, err := contactsConfig(list)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(list)
	if err == nil {
		err = c.replaceShared(c.filePath(), raw)
	}
	if err != nil {
		return fmt.Errorf("keep the receivers: %w", err)
	}
	c.list = list
	s.log.Info("the receivers of alerts changed", "by", by, "receivers", len(list))
	return s.inside.applyConfig(conf)
}
