// Package instance names one running agent, so that a server can distinguish two machines with the same name: by the
// machine (machine-id(5)), its boot (/proc/sys/kernel/random/boot_id, random(4)) and a random id in the agent's own
// state, since clones of an image share the first. The ids travel as hashes. They are in the header Reckon-Sender of
// each request, with the name that the agent goes by, how long it has run, and its clock.
//
// Values are plain data; Load reads and writes one small file.
package instance

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"reckon/internal/durable"
)

// HeaderName is the name of the header.
const HeaderName = "Reckon-Sender"

// ID identifies a running agent by its state directory, its machine and the boot.
type ID struct {
	Agent   string // random, kept in its state
	Machine string // empty if the machine has no id
	Boot    string
}

// Sender is the information that an agent sends about itself with each request.
type Sender struct {
	ID
	Site, Node string
	Age        time.Duration // of the agent's process
	Sent       time.Time     // by the sender's clock
}

// Load returns the ID of the agent with its state in dir, and creates the ID at the first start. root is the mount
// point of the machine's file tree, or empty for /. If the ID cannot be saved, it is valid only for this process.
func Load(root, dir string) (ID, error) {
	if root == "" {
		root = "/"
	}
	boot, _ := os.ReadFile(filepath.Join(root, "proc/sys/kernel/random/boot_id"))
	machine, _ := os.ReadFile(filepath.Join(root, "etc/machine-id"))
	id := ID{Machine: hashID(machine), Boot: hashID(boot)}
	file := filepath.Join(dir, "instance")
	raw, err := os.ReadFile(file)
	if id.Agent = strings.TrimSpace(string(raw)); err == nil && isValidID(id.Agent) {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("read the agent's own id: %w", err)
	} else {
		err = nil
	}
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	id.Agent = hex.EncodeToString(b)
	if err == nil {
		if err = os.MkdirAll(dir, 0o750); err == nil {
			err = durable.Replace(file, []byte(id.Agent+"\n"), 0o640)
		}
		if err != nil {
			err = fmt.Errorf("keep the agent's own id: %w", err)
		}
	}
	return id, err
}

// hashID hashes a machine id, because the id itself must stay confidential (machine-id(5)). An empty id stays empty.
func hashID(raw []byte) string {
	text := strings.TrimSpace(string(raw))
	if text == "" || text == "uninitialized" {
		return ""
	}
	h := hmac.New(sha256.New, []byte("reckon sender"))
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func isValidID(id string) bool {
	raw, err := hex.DecodeString(id)
	return err == nil && len(raw) == 16
}

// Header writes the value of the header.
func (s *Sender) Header() string {
	v := url.Values{"agent": {s.Agent}, "node": {s.Node}, "age": {strconv.FormatInt(s.Age.Milliseconds(), 10)},
		"sent": {strconv.FormatInt(s.Sent.UnixMilli(), 10)}}
	for key, text := range map[string]string{"site": s.Site, "machine": s.Machine, "boot": s.Boot} {
		if text != "" {
			v.Set(key, text)
		}
	}
	return v.Encode()
}

// maxNameLength limits the length of a name in the header.
const maxNameLength = 253

// Parse parses the header of a request. It returns false if the header names no sender.
func Parse(h http.Header) (s Sender, ok bool) {
	text := h.Get(HeaderName)
	if text == "" || len(text) > 2048 {
		return s, false
	}
	v, err := url.ParseQuery(text)
	if err != nil {
		return s, false
	}
	s = Sender{ID: ID{Agent: v.Get("agent"), Machine: v.Get("machine"), Boot: v.Get("boot")}, Site: v.Get("site"), Node: v.Get("node")}
	age, errAge := strconv.ParseInt(v.Get("age"), 10, 64)
	sent, errSent := strconv.ParseInt(v.Get("sent"), 10, 64)
	if errAge != nil || errSent != nil || age < 0 || age > int64(100*365*24*time.Hour/time.Millisecond) || !isValidID(s.Agent) ||
		s.Node == "" || len(s.Node) > maxNameLength || len(s.Site) > maxNameLength {
		return s, false
	}
	for _, id := range []string{s.Machine, s.Boot} {
		if id != "" && !isValidID(id) {
			return s, false
		}
	}
	s.Age, s.Sent = time.Duration(age)*time.Millisecond, time.UnixMilli(sent)
	return s, true
}
